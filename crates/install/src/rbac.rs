//! Who may do what: the fewest verbs that the reconciler, those who only read, and the agents get by with. The one source of
//! roles: `nodecfg install`, deploy/ and the tests of permissions take them from here, and docs/security.md gives the reasons.

use serde_json::{Value, json};

use super::{AGENT, AGENT_ON_HOST, CAPTURE, PRUNER, READER, RECONCILER, labels};

/// A rule: API group, resources, verbs.
type Rule<'a> = (&'a str, &'a [&'a str], &'a [&'a str]);

/// Which cluster it is, for saved plans: the uid of this namespace, and of no other.
const IDENTITY: Rule<'_> = ("", &["namespaces"], &["get"]);

/// Reads and watches Nodes and NodeConfigs, writes what a NodeConfig wants, creates ConfigMaps, holds the lock, and tells in
/// Events what it did. It writes no status and deletes nothing.
pub(super) fn reconciler(namespace: &str) -> Vec<Value> {
    let in_cluster: &[Rule<'_>] = &[
        ("", &["nodes"], &["get", "list", "watch"]),
        ("nodecfg.dev", &["nodeconfigs"], &["get", "list", "watch", "create", "patch"]),
    ];
    reconciler_with(in_cluster, namespace, namespace)
}

/// The same where the Nodes themselves carry what is wanted. `namespace` is that of ConfigMaps and the Lease.
pub(super) fn reconciler_of_nodes(account_namespace: &str, namespace: &str) -> Vec<Value> {
    let in_cluster: &[Rule<'_>] = &[("", &["nodes"], &["get", "list", "watch", "patch"])];
    reconciler_with(in_cluster, account_namespace, namespace)
}

fn reconciler_with(in_cluster: &[Rule<'_>], account_namespace: &str, namespace: &str) -> Vec<Value> {
    let subject = service_account_subject(RECONCILER, account_namespace);
    let in_namespace: &[Rule<'_>] = &[
        ("", &["configmaps"], &["get", "list", "create"]),
        ("coordination.k8s.io", &["leases"], &["get", "create", "update"]),
    ];
    let mut objects = vec![service_account(RECONCILER, account_namespace, "reconciler")];
    objects.extend(granted(RECONCILER, "reconciler", None, in_cluster, &subject));
    objects.extend(granted(RECONCILER, "reconciler", Some(namespace), in_namespace, &subject));
    objects.extend(granted(&format!("{RECONCILER}-events"), "reconciler", Some("default"), EVENTS, &subject));
    objects
}

/// For a reconciler that carries out saved plans: it has to know the cluster. A role by itself, so that a cron job's roles and a
/// pipeline's do not undo each other on one cluster.
pub(super) fn saved_plans(account_namespace: &str) -> Vec<Value> {
    let subject = service_account_subject(RECONCILER, account_namespace);
    granted(&format!("{RECONCILER}-plans"), "reconciler", None, &[IDENTITY], &subject)
}

/// For `diff`, with a saved plan too, `verify` and `status`, and nothing that writes. `in_cluster` is what carries assignments, and
/// `namespace` that of ConfigMaps and of the Lease, which tells what is paused.
fn reader_with(in_cluster: &[Rule<'_>], account_namespace: &str, namespace: &str) -> Vec<Value> {
    let subject = service_account_subject(READER, account_namespace);
    let in_namespace: &[Rule<'_>] =
        &[("", &["configmaps"], &["get", "list"]), ("coordination.k8s.io", &["leases"], &["get"])];
    let mut objects = vec![service_account(READER, account_namespace, "reader")];
    objects.extend(granted(READER, "reader", None, in_cluster, &subject));
    objects.extend(granted(READER, "reader", Some(namespace), in_namespace, &subject));
    objects
}

/// Reads what the reconciler reads, where NodeConfigs carry the assignments.
pub(super) fn reader(namespace: &str) -> Vec<Value> {
    let in_cluster: &[Rule<'_>] =
        &[("", &["nodes"], &["list", "watch"]), ("nodecfg.dev", &["nodeconfigs"], &["list", "watch"]), IDENTITY];
    reader_with(in_cluster, namespace, namespace)
}

/// The same where the Nodes themselves do.
pub(super) fn reader_of_nodes(account_namespace: &str, namespace: &str) -> Vec<Value> {
    let in_cluster: &[Rule<'_>] = &[("", &["nodes"], &["list", "watch"]), IDENTITY];
    reader_with(in_cluster, account_namespace, namespace)
}

/// For `prune`, and nothing else that changes anything: lists what refers to ConfigMaps, deletes those that nothing refers to, and
/// holds the lock meanwhile, which the sync made that made the ConfigMaps. A user by itself, since no rollout has to delete.
fn pruner_with(in_cluster: &[Rule<'_>], account_namespace: &str, namespace: &str) -> Vec<Value> {
    let subject = service_account_subject(PRUNER, account_namespace);
    let in_namespace: &[Rule<'_>] =
        &[("", &["configmaps"], &["get", "list", "delete"]), ("coordination.k8s.io", &["leases"], &["get", "update"])];
    let mut objects = vec![service_account(PRUNER, account_namespace, "pruner")];
    objects.extend(granted(PRUNER, "pruner", None, in_cluster, &subject));
    objects.extend(granted(PRUNER, "pruner", Some(namespace), in_namespace, &subject));
    objects
}

/// Prunes where NodeConfigs carry the assignments.
pub(super) fn pruner(namespace: &str) -> Vec<Value> {
    let in_cluster: &[Rule<'_>] = &[("", &["nodes"], &["list"]), ("nodecfg.dev", &["nodeconfigs"], &["list"])];
    pruner_with(in_cluster, namespace, namespace)
}

/// The same where the Nodes themselves do.
pub(super) fn pruner_of_nodes(account_namespace: &str, namespace: &str) -> Vec<Value> {
    pruner_with(&[("", &["nodes"], &["list"])], account_namespace, namespace)
}

/// For `capture` and `init`: asks kubelets what they run. A role by itself, to be bound for as long as it takes: `nodes/proxy`
/// reaches everything that kubelets serve, running commands in containers included. `nodes` list and get say which there are.
pub(super) fn capture(account_namespace: &str) -> Vec<Value> {
    let subject = service_account_subject(CAPTURE, account_namespace);
    let in_cluster: &[Rule<'_>] = &[("", &["nodes"], &["get", "list"]), ("", &["nodes/proxy"], &["get"])];
    let mut objects = vec![service_account(CAPTURE, account_namespace, "capture")];
    objects.extend(granted(CAPTURE, "capture", None, in_cluster, &subject));
    objects
}

/// Events about Nodes are in this namespace, since Nodes are in none.
const EVENTS: &[Rule<'_>] = &[("", &["events"], &["create"])];
/// An agent follows its NodeConfig and writes its status. That it writes its own alone, the policy sees to: one role serves all
/// agents, and could name a node's object only if it were that node's.
const NODE_CONFIGS: &[Rule<'_>] = &[
    ("nodecfg.dev", &["nodeconfigs"], &["get", "list", "watch"]),
    ("nodecfg.dev", &["nodeconfigs/status"], &["patch"]),
];
/// It reads a ConfigMap by name, and cannot find out which there are.
const CONFIG_MAPS: &[Rule<'_>] = &[("", &["configmaps"], &["get"])];

/// Agents as pods, with a ServiceAccount of their own.
pub(super) fn agent(namespace: &str, agent_namespace: &str) -> Vec<Value> {
    let subject = service_account_subject(AGENT, agent_namespace);
    // In a trial: is the Node Ready, and its Lease renewed?
    let in_cluster: Vec<Rule<'_>> = NODE_CONFIGS.iter().copied().chain([("", &["nodes"][..], &["get"][..])]).collect();
    let leases: &[Rule<'_>] = &[("coordination.k8s.io", &["leases"], &["get"])];
    let mut objects = vec![service_account(AGENT, agent_namespace, "agent")];
    objects.extend(granted(AGENT, "agent", None, &in_cluster, &subject));
    objects.extend(granted(AGENT, "agent", Some(namespace), CONFIG_MAPS, &subject));
    objects.extend(granted(&format!("{AGENT}-events"), "agent", Some("default"), EVENTS, &subject));
    objects.extend(granted(&format!("{AGENT}-leases"), "agent", Some("kube-node-lease"), leases, &subject));
    objects
}

/// Agents with the kubelets' identities. Their own Node and Lease, and Events, the Node authorizer grants them already; of other
/// nodes' it would not.
pub(super) fn agent_on_host(namespace: &str) -> Vec<Value> {
    let subject = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"});
    let mut objects = granted(AGENT_ON_HOST, "agent", None, NODE_CONFIGS, &subject);
    objects.extend(granted(AGENT_ON_HOST, "agent", Some(namespace), CONFIG_MAPS, &subject));
    objects
}

fn service_account_subject(name: &str, namespace: &str) -> Value {
    json!({"kind": "ServiceAccount", "name": name, "namespace": namespace})
}

fn service_account(name: &str, namespace: &str, component: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": namespace, "labels": labels(Some(component))},
        "automountServiceAccountToken": false,
    })
}

/// A role and its binding to one subject. A name is used once, since a namespace for ConfigMaps may be any.
fn granted(name: &str, component: &str, namespace: Option<&str>, rules: &[Rule<'_>], subject: &Value) -> Vec<Value> {
    let rules: Vec<Value> = rules
        .iter()
        .map(|rule| {
            let (group, resources, verbs) = rule;
            let mut written = json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
            if let (true, Some(fields)) = (*rule == IDENTITY, written.as_object_mut()) {
                fields.insert("resourceNames".to_owned(), json!(["kube-system"]));
            }
            written
        })
        .collect();
    let (role, binding) = match namespace {
        None => ("ClusterRole", "ClusterRoleBinding"),
        Some(_) => ("Role", "RoleBinding"),
    };
    let mut metadata = json!({"name": name, "labels": labels(Some(component))});
    if let (Some(namespace), Some(metadata)) = (namespace, metadata.as_object_mut()) {
        metadata.insert("namespace".to_owned(), namespace.into());
    }
    let api = "rbac.authorization.k8s.io";
    vec![
        json!({"apiVersion": format!("{api}/v1"), "kind": role, "metadata": metadata, "rules": rules}),
        json!({
            "apiVersion": format!("{api}/v1"),
            "kind": binding,
            "metadata": metadata,
            "roleRef": {"apiGroup": api, "kind": role, "name": name},
            "subjects": [subject],
        }),
    ]
}
