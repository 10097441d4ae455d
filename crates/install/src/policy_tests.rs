//! Tests of the admission policies: which requests they cover, and their CEL expressions, evaluated for requests as an API
//! server passes them to admission. `admission_requests.json` has the requests. The scenario `admission` sends the same
//! requests to a real API server.

use std::collections::BTreeMap;
use std::slice::from_ref;

use serde_json::{Value, json};

use super::*;
use crate::admission::{Request, list, text};
use crate::tests::{join_host, joining, pods};
use crate::{Agent, Host, Installation, NAMESPACE, READER, objects};
use nodecfg_contract::installation::AGENT_NAMESPACE;
use nodecfg_contract::names::NamespaceName;

fn merge(target: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else { return *target = patch.clone() };
    if !target.is_object() {
        *target = json!({});
    }
    let target = target.as_object_mut().expect("a map");
    for (key, value) in fields {
        match value {
            Value::Null => drop(target.remove(key)),
            value => merge(target.entry(key.clone()).or_insert(Value::Null), value),
        }
    }
}

/// The table of requests.
fn table() -> Value {
    serde_json::from_str(include_str!("admission_requests.json")).expect("JSON")
}

/// A row of the table as a request of this user by this verb.
fn request(table: &Value, row: &Value, user: &str, verb: &str, dry_run: bool) -> Request {
    let named = |name: &str| match &table["objects"][name] {
        Value::Null => panic!("{name}: no such object"),
        object => object.clone(),
    };
    let (old, new) = (row["old"].as_str().map(named), row["new"].as_str().map(named));
    assert!(old.is_some() != new.is_some(), "{row}");
    let mut object = old.clone().or(new).expect("one of both");
    let group = if object["kind"] == "NodeConfig" { "nodecfg.dev" } else { "" };
    let changes = list(row, "/changes").into_iter().map(|name| named(name.as_str().expect("a name")));
    let server = row["server"].as_str().map_or_else(|| row["server"].clone(), named);
    for change in changes.chain([row["change"].clone(), server]).filter(Value::is_object) {
        merge(&mut object, &change);
    }
    let (resource, subresource) = text(row, "/on").split_once('/').unwrap_or((text(row, "/on"), ""));
    let operation = match verb {
        "create" | "generate-name" => "CREATE",
        "apply" if old.is_none() => "CREATE",
        "update" | "merge-patch" | "json-patch" | "strategic-merge-patch" | "apply" => "UPDATE",
        "delete" | "deletecollection" => "DELETE",
        "connect" => "CONNECT",
        other => panic!("{other}: no such verb"),
    };
    let name = match verb {
        "generate-name" | "deletecollection" => String::new(),
        _ => text(&object, "/metadata/name").to_owned(),
    };
    let gone = ["DELETE", "CONNECT"].contains(&operation);
    Request {
        user: match &table["users"][user] {
            Value::Null => panic!("{user}: no such user"),
            user => user.clone(),
        },
        operation,
        group: group.to_owned(),
        resource: resource.to_owned(),
        subresource: subresource.to_owned(),
        namespace: text(&object, "/metadata/namespace").to_owned(),
        name,
        object: if gone { Value::Null } else { object },
        old: if operation == "CONNECT" { Value::Null } else { old.unwrap_or_default() },
        dry_run,
    }
}

#[test]
fn admits_what_components_need_and_nothing_else() {
    let table = table();
    let with = |installation: Installation| {
        objects(&Installation { config_map_writers: vec!["ci".to_owned()], ..installation })
    };
    let joining = with(joining(pods(join_host())));
    let plain = with(Installation { joins: false, boot: Vec::new(), ..crate::tests::joining(pods(Host::default())) });
    let mut asked: BTreeMap<&str, usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    for row in list(&table, "/requests") {
        let expected = row["allowed"].as_bool();
        let without_join = row.get("plain").map_or(expected, Value::as_bool);
        for (user, verb) in pairs(row) {
            *asked.entry(verb).or_default() += 1;
            for dry_run in [false, true] {
                let request = request(&table, row, user, verb, dry_run);
                for (installed, expected) in [(&joining, expected), (&plain, without_join)] {
                    let allowed = request.allowed(installed);
                    if allowed != expected {
                        wrong.push(format!("{}: {verb} by {user}: {allowed:?}, not {expected:?}", text(row, "/case")));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let verbs: Vec<&str> = asked.keys().copied().collect();
    let every = [
        "apply",
        "connect",
        "create",
        "delete",
        "deletecollection",
        "generate-name",
        "json-patch",
        "merge-patch",
        "strategic-merge-patch",
        "update",
    ];
    assert_eq!(verbs, every);
}

/// Users and verbs of a row.
fn pairs(row: &Value) -> Vec<(&str, &str)> {
    let (users, verbs) = (list(row, "/users"), list(row, "/verbs"));
    let pairs = users.into_iter().flat_map(|user| verbs.iter().map(move |verb| (user, *verb)));
    pairs.map(|(user, verb)| (user.as_str().expect("a name"), verb.as_str().expect("a verb"))).collect()
}

/// All kinds of installations.
fn installations() -> Vec<Vec<Value>> {
    let in_namespace = |name: &str| match pods(Host::default()) {
        Agent::DaemonSet(pods) => {
            Agent::DaemonSet(crate::DaemonSet { namespace: NamespaceName::new(name).unwrap(), ..pods })
        }
        Agent::Systemd => unreachable!(),
    };
    let agents = [None, Some(Agent::Systemd), Some(in_namespace(AGENT_NAMESPACE)), Some(in_namespace("team-b"))];
    let plain = |agent| Installation { joins: false, boot: Vec::new(), agent, ..joining(Agent::Systemd) };
    let joining = agents[1..].iter().flatten().cloned().map(joining);
    agents.clone().map(plain).into_iter().chain(joining).map(|installation| objects(&installation)).collect()
}

/// Reports whether RBAC counts this user as one of the subjects (k8s.io/kubernetes `plugin/pkg/auth/authorizer/rbac`,
/// `appliesToUser`).
fn is_subject(user: &Value, binding: &Value) -> bool {
    list(binding, "/subjects").into_iter().any(|subject| match text(subject, "/kind") {
        "Group" => list(user, "/groups").contains(&&subject["name"]),
        "ServiceAccount" => {
            let (namespace, name) = (text(subject, "/namespace"), text(subject, "/name"));
            text(user, "/username") == format!("system:serviceaccount:{namespace}:{name}")
        }
        kind => panic!("{kind}"),
    })
}

/// Writes that the roles of agents allow this user: group, resource, subresource, operation. Events are open to agents.
fn writes(installed: &[Value], user: &Value) -> Vec<[String; 4]> {
    let of_agents = |object: &&Value| object["metadata"]["labels"]["app.kubernetes.io/component"] == "agent";
    let bindings = installed.iter().filter(of_agents).filter(|binding| is_subject(user, binding));
    let mut writes = Vec::new();
    for binding in bindings {
        let role = |object: &&Value| {
            object["kind"] == binding["roleRef"]["kind"] && object["metadata"]["name"] == binding["roleRef"]["name"]
        };
        for rule in installed.iter().filter(role).flat_map(|role| list(role, "/rules")) {
            for (resource, verb) in list(rule, "/resources")
                .iter()
                .flat_map(|resource| list(rule, "/verbs").into_iter().map(move |verb| (resource, verb)))
            {
                let operation = match verb.as_str().expect("a verb") {
                    "get" | "list" | "watch" => continue,
                    "create" => "CREATE",
                    "patch" | "update" => "UPDATE",
                    other => panic!("{other}: which operation?"),
                };
                let resource = resource.as_str().expect("a resource");
                let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
                if resource != "events" {
                    writes.push([text(rule, "/apiGroups/0"), resource, subresource, operation].map(str::to_owned));
                }
            }
        }
    }
    writes
}

/// A right of agents without a policy would hold for all nodes. A policy for other users could refuse what Kubernetes needs.
#[test]
fn policies_apply_exactly_to_the_subjects_of_the_roles() {
    let table = table();
    let (mut bound, mut covered) = (Vec::new(), Vec::new());
    for (name, user) in table["users"].as_object().expect("users") {
        let all = installations();
        let mut restricted = false;
        for installed in &all {
            for [group, resource, subresource, operation] in writes(installed, user) {
                bound.push((name.clone(), resource.clone()));
                let operation = if operation == "CREATE" { "CREATE" } else { "UPDATE" };
                let request = Request {
                    user: user.clone(),
                    operation,
                    group,
                    resource,
                    subresource,
                    namespace: String::new(),
                    name: "another".to_owned(),
                    object: json!({"metadata": {"name": "another"}}),
                    old: json!({"metadata": {}}),
                    dry_run: false,
                };
                assert_eq!(request.allowed(installed), Some(false), "{name} may {operation} {}", request.resource);
            }
            for resource in ["nodeconfigs", "nodes"] {
                let group = if resource == "nodes" { "" } else { "nodecfg.dev" };
                let request = Request {
                    user: user.clone(),
                    operation: "UPDATE",
                    group: group.to_owned(),
                    resource: resource.to_owned(),
                    subresource: "status".to_owned(),
                    namespace: String::new(),
                    name: "another".to_owned(),
                    object: json!({"metadata": {}}),
                    old: json!({"metadata": {}}),
                    dry_run: false,
                };
                if request.allowed(installed).is_some() {
                    covered.push((name.clone(), resource.to_owned()));
                    restricted = true;
                }
            }
        }
        let known =
            ["pod", "kubelet", "person in", "account in", "agent account"].iter().any(|start| name.starts_with(start));
        assert_eq!(restricted, known, "{name}");
    }
    for pairs in [&mut bound, &mut covered] {
        pairs.sort();
        pairs.dedup();
    }
    assert_eq!(bound, covered);
}

fn entry(manager: &str, operation: &str, fields: &Value) -> Value {
    json!({"apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields, "manager": manager, "operation": operation, "time": "t"})
}

/// Removal of the startup taint with these entries of `managedFields` before and after.
fn removal(before: &[Value], after: &[Value]) -> Request {
    let table = table();
    let row = json!({"on": "nodes", "old": "node", "changes": ["untainted"]});
    let mut request = request(&table, &row, "pod n1", "json-patch", false);
    request.old["metadata"]["managedFields"] = json!(before);
    request.object["metadata"]["managedFields"] = json!(after);
    request
}

#[test]
fn managed_fields_of_others_stay() {
    let [policy, _] = own_node_only();
    let taints = json!({"f:spec": {"f:taints": {}}});
    let (labels, both) =
        (json!({"f:metadata": {"f:labels": {"f:a": {}}}}), json!({"f:spec": {"f:podCIDR": {}, "f:taints": {}}}));
    let left = json!({"f:spec": {"f:podCIDR": {}}});
    let agent = entry("nodecfg-agent", "Update", &taints);
    let before =
        [entry("flux", "Apply", &labels), entry("kubelet", "Update", &both), entry("cloud", "Update", &taints)];
    let after = [before[0].clone(), entry("kubelet", "Update", &left)];
    let allowed = |before: &[Value], after: &[Value]| removal(before, after).answer(&policy) == Some(Vec::new());
    let with = |more: &[Value]| [&after[..], more].concat();
    assert!(allowed(&before, &after), "no taint is left");
    assert!(allowed(&before, &with(from_ref(&agent))));
    assert!(allowed(&with(from_ref(&agent)), &after), "the entry of the agent goes, too");
    assert!(allowed(&[], from_ref(&agent)) && allowed(&[], &[]));
    let changed = |index: usize, pointer: &str, value: Value| {
        let mut after = with(from_ref(&agent));
        *after[index].pointer_mut(pointer).expect("a field") = value;
        after
    };
    let hostile = [
        ("an entry less", vec![after[0].clone(), agent.clone()]),
        ("an applied entry less", vec![after[1].clone(), agent.clone()]),
        ("another applier", with(&[entry("argo", "Apply", &labels)])),
        ("more fields of an applier", changed(0, "/fieldsV1/f:metadata/f:labels", json!({"f:a": {}, "f:b": {}}))),
        ("fewer fields of an applier", changed(0, "/fieldsV1", json!({}))),
        ("fewer fields of the spec", changed(1, "/fieldsV1/f:spec", json!({}))),
        ("more fields of the spec", changed(1, "/fieldsV1/f:spec", json!({"f:podCIDR": {}, "f:unschedulable": {}}))),
        ("another operation", changed(0, "/operation", json!("Update"))),
        ("another time", changed(0, "/time", json!("u"))),
        ("more fields of the agent", changed(2, "/fieldsV1", both.clone())),
        ("other fields of the agent", changed(2, "/fieldsV1", labels.clone())),
        ("an apply of the agent", changed(2, "/operation", json!("Apply"))),
        ("ancient changes", with(&[entry("ancient-changes", "Update", &labels)])),
        ("nothing", Vec::new()),
    ];
    for (what, after) in hostile {
        assert!(!allowed(&before, &after), "{what}");
    }
}

/// The API server keeps ten entries of updates, and merges the oldest.
#[test]
fn managed_fields_of_many_updates_merge() {
    let [policy, _] = own_node_only();
    let labels = |name: &str| json!({"f:metadata": {"f:labels": {format!("f:{name}"): {}}}});
    let of = |number: usize| entry(&format!("m{number}"), "Update", &labels(&number.to_string()));
    let applied = entry("flux", "Apply", &labels("x"));
    let before: Vec<Value> = (0..10).map(of).chain([applied.clone()]).collect();
    let merged = entry("ancient-changes", "Update", &json!({"f:metadata": {"f:labels": {"f:0": {}, "f:1": {}}}}));
    let agent = entry("nodecfg-agent", "Update", &json!({"f:spec": {"f:taints": {}}}));
    let after: Vec<Value> = (2..10).map(of).chain([merged, agent, applied]).collect();
    let allowed = |before: &[Value], after: &[Value]| removal(before, after).answer(&policy) == Some(Vec::new());
    assert!(allowed(&before, &after));
    assert!(!allowed(&before[1..], &after), "nine entries do not merge");
    assert!(!allowed(&before, &after[1..]), "too few are left");
    assert!(!allowed(&before, &after[..10]), "an applied entry is never merged");
}

/// The second installation must not take the writers of the first one away.
#[test]
fn namespaces_have_policies_of_their_own() {
    let installed = |namespace: &str, writer: &str| {
        let namespace = NamespaceName::new(namespace).unwrap();
        objects(&Installation { namespace, config_map_writers: vec![writer.to_owned()], ..joining(Agent::Systemd) })
    };
    // The API server replaces objects of the same kind and name.
    let mut cluster = BTreeMap::new();
    for object in installed(NAMESPACE, "ci").into_iter().chain(installed("team-b", "bob")) {
        cluster.insert((text(&object, "/kind").to_owned(), text(&object, "/metadata/name").to_owned()), object);
    }
    let cluster: Vec<Value> = cluster.into_values().collect();
    let table = table();
    let row = json!({"on": "configmaps", "old": "pointer", "change": {"data": {"kubelet": ""}}});
    let allowed = |username: &str, namespace: &str| {
        let mut request = request(&table, &row, "ci", "update", false);
        request.user = json!({"username": username});
        request.namespace = namespace.to_owned();
        request.allowed(&cluster)
    };
    let account = |namespace: &str| format!("system:serviceaccount:{namespace}:{RECONCILER}");
    for (namespace, other, own, foreign) in [(NAMESPACE, "team-b", "ci", "bob"), ("team-b", NAMESPACE, "bob", "ci")] {
        assert_eq!(allowed(&account(namespace), namespace), Some(true));
        assert_eq!(allowed(own, namespace), Some(true));
        for user in [account(other).as_str(), foreign, "kubernetes-admin"] {
            assert_eq!(allowed(user, namespace), Some(false), "{user} in {namespace}");
        }
    }
    assert_eq!(allowed("kubernetes-admin", "team-c"), None);
}

/// Reports whether the policy for ConfigMaps allows this user this operation.
fn may_write(user: &str, operation: &str, others: &[&str]) -> bool {
    let others: Vec<String> = others.iter().map(|name| (*name).to_owned()).collect();
    let [policy, _] = config_maps_of(NAMESPACE, &others);
    let program = cel::Program::compile(text(&policy, "/spec/validations/0/expression")).expect("CEL");
    let mut context = cel::Context::default();
    let request = json!({"userInfo": {"username": user}, "operation": operation});
    context.add_variable("request", request).expect("a value");
    program.execute(&context) == Ok(cel::Value::Bool(true))
}

#[test]
fn only_named_writers_may_write_config_maps() {
    let own = |name: &str| format!("system:serviceaccount:{NAMESPACE}:{name}");
    let odd = "o'hara \"the\" \\ admin";
    for operation in ["CREATE", "UPDATE", "DELETE"] {
        for writer in [own(RECONCILER), own(PRUNER), "ci".to_owned(), odd.to_owned()] {
            assert!(may_write(&writer, operation, &["ci", odd]), "{operation} by {writer}");
        }
        for other in [
            "kubernetes-admin",
            "system:node:n1",
            "",
            "system:serviceaccount:other:nodecfg-reconciler",
            &own(READER),
            &own("default"),
            &own(&format!("{RECONCILER}x")),
        ] {
            assert!(!may_write(other, operation, &["ci"]), "{operation} by {other}");
        }
    }
    // Otherwise the namespace could not be deleted.
    let controller = "system:serviceaccount:kube-system:namespace-controller";
    assert!(may_write(controller, "DELETE", &[]) && !may_write(controller, "CREATE", &[]));
}

/// `install` reads the list of an earlier installation.
#[test]
fn writers_are_read_from_the_policy() {
    let others = ["ci".to_owned(), "o'hara \"the\" \\ ] admin".to_owned()];
    let [policy, binding] = config_maps_of(NAMESPACE, &others);
    assert_eq!(writers_of(&policy), config_map_writers(NAMESPACE, &others));
    assert_eq!(writers_of(&binding), Vec::<String>::new());
    let message = text(&policy, "/spec/validations/0/messageExpression");
    let program = cel::Program::compile(message).expect("CEL");
    let mut context = cel::Context::default();
    context.add_variable("request", json!({"userInfo": {"username": "ada"}})).expect("a value");
    let Ok(cel::Value::String(message)) = program.execute(&context) else { panic!("no text") };
    assert!(message.ends_with(&format!(" {NOT_A_WRITER}ada")), "{message}");
}
