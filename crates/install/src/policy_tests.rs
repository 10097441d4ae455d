//! Tests of the admission policies: their CEL expressions, evaluated for requests of agents and of others.

use std::slice::from_ref;

use serde_json::{Value, json};

use super::*;
use crate::{NAMESPACE, READER};

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Evaluates an expression. An error is `None`, by which a policy that fails refuses the request.
fn evaluate(expression: &str, variables: &[(&str, Value)]) -> Option<Value> {
    let program = cel::Program::compile(expression).expect("CEL");
    let mut context = cel::Context::default();
    // Not in the Rust implementation. Kubernetes has it in the string library.
    let added = context.add_function(
        "substring",
        |cel::extractors::This(text): cel::extractors::This<std::sync::Arc<String>>, from: i64| {
            text.chars().skip(usize::try_from(from).unwrap_or_default()).collect::<String>()
        },
    );
    added.expect("a function");
    for (name, value) in variables {
        context.add_variable(*name, value.clone()).expect("a value");
    }
    match program.execute(&context).ok()? {
        cel::Value::Bool(value) => Some(Value::Bool(value)),
        cel::Value::String(value) => Some(json!(*value)),
        other => panic!("{other:?}"),
    }
}

/// Request to the API server.
#[derive(Clone)]
struct Request {
    user: Value,
    operation: &'static str,
    subresource: &'static str,
    name: &'static str,
    object: Value,
    old: Value,
}

/// Reports whether a policy allows a request. `None`: it does not apply.
fn allows(policy: &Value, request: &Request) -> Option<bool> {
    let Request { user, operation, subresource, name, object, old } = request;
    let mut sent = json!({"userInfo": user, "operation": operation, "name": name});
    if !subresource.is_empty() {
        sent["subResource"] = json!(subresource);
    }
    let mut variables = vec![("request", sent), ("object", object.clone()), ("oldObject", old.clone())];
    if evaluate(text(policy, "/spec/matchConditions/0/expression"), &variables) != Some(json!(true)) {
        return None;
    }
    let node = evaluate(text(policy, "/spec/variables/0/expression"), &variables).expect("a node");
    variables.push(("variables", json!({"node": node})));
    Some(evaluate(text(policy, "/spec/validations/0/expression"), &variables) == Some(json!(true)))
}

/// Agent as a pod on a node. `None`: its token names no node.
fn pod(node: Option<&str>) -> Value {
    let username = "system:serviceaccount:nodecfg-agent:nodecfg-agent";
    match node {
        Some(node) => json!({"username": username, "extra": {"authentication.kubernetes.io/node-name": [node]}}),
        None => json!({"username": username}),
    }
}

fn kubelet(node: &str) -> Value {
    json!({"username": format!("system:node:{node}")})
}

fn node_config(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"selfAssigned": true}})
}

fn on_node_config(user: Value, operation: &'static str, subresource: &'static str, name: &'static str) -> Request {
    Request { user, operation, subresource, name, object: node_config(name), old: node_config(name) }
}

#[test]
fn agents_write_only_the_status_of_their_own_node() {
    for creates in [false, true] {
        let [policy, _] = own_status_only(creates);
        for user in [pod(Some("n1")), kubelet("n1")] {
            let allowed = |operation, subresource, name| {
                allows(&policy, &on_node_config(user.clone(), operation, subresource, name)).expect("an agent")
            };
            assert!(allowed("UPDATE", "status", "n1"));
            assert!(!allowed("UPDATE", "status", "n2"));
            assert!(!allowed("UPDATE", "", "n1"), "its spec");
            assert!(!allowed("DELETE", "", "n1"));
            assert_eq!(allowed("CREATE", "", "n1"), creates);
            assert!(!allowed("CREATE", "", "n2"));
        }
        for name in ["n1", ""] {
            for (operation, subresource) in [("UPDATE", "status"), ("CREATE", "")] {
                let request = on_node_config(pod(None), operation, subresource, name);
                assert_eq!(allows(&policy, &request), Some(false), "a token without a node");
            }
        }
        let mut reconciler = pod(Some("n1"));
        reconciler["username"] = json!("system:serviceaccount:nodecfg-system:nodecfg-reconciler");
        assert_eq!(allows(&policy, &on_node_config(reconciler, "CREATE", "", "n2")), None);
    }
}

/// The name in the URL and that of the object may differ in a forged request.
#[test]
fn created_object_decides_not_the_request() {
    let [policy, _] = own_status_only(true);
    let request = Request { object: node_config("n2"), ..on_node_config(pod(Some("n1")), "CREATE", "", "n1") };
    assert_eq!(allows(&policy, &request), Some(false));
}

/// A node that pretends to be assigned by the reconciler would prove its configuration for others.
#[test]
fn agents_create_only_self_assigned_node_configs() {
    let [policy, _] = own_status_only(true);
    for spec in [json!({"selfAssigned": false}), json!({}), Value::Null] {
        let object = json!({"metadata": {"name": "n1"}, "spec": spec});
        let request = Request { object, ..on_node_config(pod(Some("n1")), "CREATE", "", "n1") };
        assert_eq!(allows(&policy, &request), Some(false));
    }
}

fn startup_taint() -> Value {
    json!({"key": STARTUP_TAINT, "effect": STARTUP_TAINT_EFFECT})
}

/// Node with these taints, as the API server passes it: empty lists are missing.
fn node(taints: &[Value]) -> Value {
    let mut node = json!({
        "metadata": {"name": "n1", "uid": "u", "labels": {"a": "b"}, "annotations": {"c": "d"}, "resourceVersion": "7"},
        "spec": {"podCIDR": "10.0.0.0/24", "unschedulable": true},
        "status": {"phase": "x"},
    });
    if !taints.is_empty() {
        node["spec"]["taints"] = json!(taints);
    }
    node
}

fn removal(user: Value, before: &[Value], after: &[Value]) -> Request {
    let mut object = node(after);
    object["metadata"]["resourceVersion"] = json!("8");
    object["metadata"]["managedFields"] = json!([{"manager": "nodecfg-agent"}]);
    Request { user, operation: "UPDATE", subresource: "", name: "n1", object, old: node(before) }
}

#[test]
fn agents_remove_only_the_startup_taint_of_their_own_node() {
    let [policy, _] = own_taint_only();
    let gpu = json!({"key": "gpu", "value": "x", "effect": "NoSchedule"});
    let stronger = json!({"key": STARTUP_TAINT, "effect": "NoExecute"});
    let startup = startup_taint();
    let all = [gpu.clone(), startup.clone(), stronger.clone()];
    let allowed = |request: &Request| allows(&policy, request);
    assert_eq!(allowed(&removal(pod(Some("n1")), &all, &[gpu.clone(), stronger.clone()])), Some(true));
    assert_eq!(allowed(&removal(pod(Some("n1")), from_ref(&startup), &[])), Some(true));
    for (user, why) in [(pod(Some("n2")), "another node"), (pod(None), "a token without a node")] {
        assert_eq!(allowed(&removal(user, from_ref(&startup), &[])), Some(false), "{why}");
    }
    let others: [(&str, &[Value]); 5] = [
        ("another taint, too", from_ref(&stronger)),
        ("another taint instead", &[startup.clone(), stronger.clone()]),
        ("all", &[]),
        ("one of another effect", from_ref(&gpu)),
        ("an order", &[stronger.clone(), gpu.clone()]),
    ];
    for (what, after) in others {
        assert_eq!(allowed(&removal(pod(Some("n1")), &all, after)), Some(false), "{what}");
    }
    let added = [gpu.clone(), stronger, json!({"key": "new", "effect": "NoSchedule"})];
    assert_eq!(allowed(&removal(pod(Some("n1")), &all, &added)), Some(false));
}

#[test]
fn agents_change_nothing_else_of_nodes() {
    type Change = fn(&mut Request);
    let changes: [Change; 14] = [
        |request| request.object["metadata"]["labels"]["a"] = json!("c"),
        |request| request.object["metadata"]["labels"]["new"] = json!(""),
        |request| drop(request.object["metadata"].as_object_mut().map(|fields| fields.remove("labels"))),
        |request| request.object["metadata"]["annotations"] = json!({}),
        |request| request.object["metadata"]["finalizers"] = json!(["x"]),
        |request| request.object["metadata"]["ownerReferences"] = json!([{"uid": "u"}]),
        |request| drop(request.object["spec"].as_object_mut().map(|fields| fields.remove("unschedulable"))),
        |request| request.object["spec"]["unschedulable"] = json!(false),
        |request| request.object["spec"]["providerID"] = json!("x"),
        |request| request.object["spec"]["fieldOfTheFuture"] = json!({"x": [1]}),
        |request| request.operation = "CREATE",
        |request| request.operation = "DELETE",
        |request| request.subresource = "status",
        |request| request.subresource = "proxy",
    ];
    let [policy, _] = own_taint_only();
    let fine = removal(pod(Some("n1")), &[startup_taint()], &[]);
    assert_eq!(allows(&policy, &fine), Some(true));
    for (number, change) in changes.into_iter().enumerate() {
        let mut request = fine.clone();
        change(&mut request);
        assert_eq!(allows(&policy, &request), Some(false), "change {number}");
    }
}

/// Kubelets and controllers write Nodes all the time.
#[test]
fn policy_for_taints_does_not_apply_to_others() {
    let [policy, _] = own_taint_only();
    let user = |name: &str| json!({"username": name});
    for other in [
        kubelet("n1"),
        user("system:serviceaccount:kube-system:node-controller"),
        user("system:serviceaccount:nodecfg-system:nodecfg-reconciler"),
        user("system:serviceaccount:x:nodecfg-agent-two"),
        user("kubernetes-admin"),
    ] {
        assert_eq!(allows(&policy, &removal(other, &[], &[startup_taint()])), None);
    }
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
