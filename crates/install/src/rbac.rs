//! Minimal roles of the reconciler, of read-only commands and of the agents. `nodecfg install`, deploy/ and the
//! permission tests use these roles; docs/reference/permissions.md states the reasons.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use nodecfg_contract::names::{FleetName, PoolName};
use nodecfg_contract::pool_pointer::PoolPointer;

use super::identity::{Identity, group_subject, service_account_subject};
use super::{
    AGENT, AGENT_ON_HOST, BOOT, CAPTURE, DRAIN_CONDITIONS, DRAINER, FORECASTER, MEDIK8S_LEASE, NAMESPACE,
    NODE_CONDITION, POOL_POINTERS, PRUNER, READER, RECONCILER, labels,
};

/// A rule: API group, resources, verbs.
type Rule<'a> = (&'a str, &'a [&'a str], &'a [&'a str]);

/// Reads the identity of the cluster for saved plans: the uid of the namespace kube-system, which
/// `role_with_binding` adds as the only resource name.
const IDENTITY: Rule<'_> = ("", &["namespaces"], &["get"]);

/// The reconciler reads and watches Nodes and NodeConfigs, writes the spec of NodeConfigs, creates ConfigMaps, holds
/// the lock, and creates Events. It writes no status and deletes nothing.
pub(super) fn reconciler(namespace: &str) -> Vec<Value> {
    let in_cluster: &[Rule<'_>] = &[
        ("", &["nodes"], &["get", "list", "watch"]),
        ("nodecfg.dev", &["nodeconfigs"], &["get", "list", "watch", "create", "patch"]),
    ];
    reconciler_with(in_cluster, namespace, namespace)
}

/// Roles of the reconciler for assignments in Nodes. `namespace` is that of the ConfigMaps and the Lease.
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
    objects.extend(role_with_own_binding(RECONCILER, None, in_cluster, account_namespace));
    objects.extend(role_with_binding(RECONCILER, "reconciler", Some(namespace), in_namespace, &subject));
    let events = format!("{RECONCILER}-events");
    objects.extend(role_with_own_binding(&events, Some("default"), EVENTS, account_namespace));
    objects
}

/// Role for saved plans, which need the identity of the cluster. It is a separate role, so that the roles of a cron
/// job and of a pipeline do not overwrite each other.
pub(super) fn saved_plans(account_namespace: &str) -> Vec<Value> {
    role_with_own_binding(&format!("{RECONCILER}-plans"), None, &[IDENTITY], account_namespace)
}

/// A role of the reconciler that all installations on a cluster share, and the binding of one. An installation for
/// another namespace must not replace its subject.
fn role_with_own_binding(
    name: &str,
    namespace: Option<&str>,
    rules: &[Rule<'_>],
    account_namespace: &str,
) -> Vec<Value> {
    let subject = service_account_subject(RECONCILER, account_namespace);
    let mut objects = role_with_binding(name, "reconciler", namespace, rules, &subject);
    let written = objects.last_mut().and_then(|binding| binding.pointer_mut("/metadata/name"));
    if let Some(written) = written.filter(|_| account_namespace != NAMESPACE) {
        *written = format!("{name}-{account_namespace}").into();
    }
    objects
}

/// Role for fleets with pool pointers, the only ConfigMaps that change. It is a separate role, because other fleets
/// change no ConfigMap.
pub(super) fn pool_pointers(account_namespace: &str, namespace: &str) -> Vec<Value> {
    let subject = service_account_subject(RECONCILER, account_namespace);
    role_with_binding(POOL_POINTERS, "pool-pointers", Some(namespace), &[("", &["configmaps"], &["update"])], &subject)
}

/// Role for rollouts that drain nodes: mark a node, follow and evict its pods, and read what an eviction waits for. It
/// is a separate role, because most rollouts drain no node. The deletion is for pods of a DaemonSet with exclusive CPUs.
pub(super) fn drainer(account_namespace: &str) -> Vec<Value> {
    let subject = service_account_subject(RECONCILER, account_namespace);
    let in_cluster: &[Rule<'_>] = &[
        ("", &["nodes"], &["get", "patch"]),
        ("", &["pods"], &["list", "watch", "delete"]),
        ("", &["pods/eviction"], &["create"]),
        ("policy", &["poddisruptionbudgets"], &["list"]),
        ("storage.k8s.io", &["volumeattachments"], &["list"]),
    ];
    role_with_binding(DRAINER, "drainer", None, in_cluster, &subject)
}

/// Role for the Node conditions of KEP-5683 during a drain. It is a separate role, because a drain works without them, and
/// the status of Nodes includes their addresses.
pub(super) fn drain_conditions(account_namespace: &str) -> Vec<Value> {
    let subject = service_account_subject(RECONCILER, account_namespace);
    role_with_binding(DRAIN_CONDITIONS, "drainer", None, NODE_STATUS, &subject)
}

/// Role for the Leases by which the programs of Medik8s agree who maintains a node. It is a separate role, because its
/// namespace exists only with Medik8s.
pub(super) fn medik8s_lease(account_namespace: &str) -> Vec<Value> {
    let subject = service_account_subject(RECONCILER, account_namespace);
    let leases: &[Rule<'_>] = &[("coordination.k8s.io", &["leases"], &["get", "create", "update", "delete"])];
    role_with_binding(MEDIK8S_LEASE, "drainer", Some("medik8s-leases"), leases, &subject)
}

/// Role for the forecast of drains in a `diff`. It is a separate role, because the specs of all pods may hold secrets in
/// environment variables, and a reader needs them for nothing else.
pub(super) fn forecaster(account_namespace: &str) -> Vec<Value> {
    let subject = service_account_subject(READER, account_namespace);
    let in_cluster: &[Rule<'_>] = &[("", &["pods"], &["list"]), ("policy", &["poddisruptionbudgets"], &["list"])];
    role_with_binding(FORECASTER, "forecaster", None, in_cluster, &subject)
}

/// Read-only roles for `diff`, also with saved plans, `verify` and `status`. `in_cluster` are the rules for
/// assignments, `namespace` is that of the ConfigMaps and of the Lease, which contains pauses.
fn reader_with(in_cluster: &[Rule<'_>], account_namespace: &str, namespace: &str) -> Vec<Value> {
    let subject = service_account_subject(READER, account_namespace);
    let in_namespace: &[Rule<'_>] =
        &[("", &["configmaps"], &["get", "list"]), ("coordination.k8s.io", &["leases"], &["get"])];
    let mut objects = vec![service_account(READER, account_namespace, "reader")];
    objects.extend(role_with_binding(READER, "reader", None, in_cluster, &subject));
    objects.extend(role_with_binding(READER, "reader", Some(namespace), in_namespace, &subject));
    objects
}

/// Read-only roles with NodeConfigs.
pub(super) fn reader(namespace: &str) -> Vec<Value> {
    let in_cluster: &[Rule<'_>] =
        &[("", &["nodes"], &["list", "watch"]), ("nodecfg.dev", &["nodeconfigs"], &["list", "watch"]), IDENTITY];
    reader_with(in_cluster, namespace, namespace)
}

/// Read-only roles with assignments in Nodes.
pub(super) fn reader_of_nodes(account_namespace: &str, namespace: &str) -> Vec<Value> {
    let in_cluster: &[Rule<'_>] = &[("", &["nodes"], &["list", "watch"]), IDENTITY];
    reader_with(in_cluster, account_namespace, namespace)
}

/// Roles for `prune`: list references to ConfigMaps, delete unreferenced ConfigMaps, and hold the lock that an
/// earlier sync created. They belong to a separate user, because a rollout deletes nothing.
fn pruner_with(in_cluster: &[Rule<'_>], account_namespace: &str, namespace: &str) -> Vec<Value> {
    let subject = service_account_subject(PRUNER, account_namespace);
    let in_namespace: &[Rule<'_>] =
        &[("", &["configmaps"], &["get", "list", "delete"]), ("coordination.k8s.io", &["leases"], &["get", "update"])];
    let mut objects = vec![service_account(PRUNER, account_namespace, "pruner")];
    objects.extend(role_with_binding(PRUNER, "pruner", None, in_cluster, &subject));
    objects.extend(role_with_binding(PRUNER, "pruner", Some(namespace), in_namespace, &subject));
    objects
}

/// Roles for `prune` with NodeConfigs.
pub(super) fn pruner(namespace: &str) -> Vec<Value> {
    let in_cluster: &[Rule<'_>] = &[("", &["nodes"], &["list"]), ("nodecfg.dev", &["nodeconfigs"], &["list"])];
    pruner_with(in_cluster, namespace, namespace)
}

/// Roles for `prune` with assignments in Nodes.
pub(super) fn pruner_of_nodes(account_namespace: &str, namespace: &str) -> Vec<Value> {
    pruner_with(&[("", &["nodes"], &["list"])], account_namespace, namespace)
}

/// Role for `capture` and `init`, which read the configuration of kubelets. Bind it only while needed: `nodes/proxy`
/// gives access to all functions of kubelets, including commands in containers. List and get of `nodes` find the
/// kubelets.
pub(super) fn capture(account_namespace: &str) -> Vec<Value> {
    let subject = service_account_subject(CAPTURE, account_namespace);
    let in_cluster: &[Rule<'_>] = &[("", &["nodes"], &["get", "list"]), ("", &["nodes/proxy"], &["get"])];
    let mut objects = vec![service_account(CAPTURE, account_namespace, "capture")];
    objects.extend(role_with_binding(CAPTURE, "capture", None, in_cluster, &subject));
    objects
}

/// Events about Nodes are in this namespace, because Nodes have none.
const EVENTS: &[Rule<'_>] = &[("", &["events"], &["create"])];
/// An agent reads its NodeConfig and writes its status. The admission policy restricts it to its own NodeConfig,
/// because one role serves all agents and cannot name one object per agent.
const NODE_CONFIGS: &[Rule<'_>] = &[
    ("nodecfg.dev", &["nodeconfigs"], &["get", "list", "watch"]),
    ("nodecfg.dev", &["nodeconfigs/status"], &["patch"]),
];
/// An agent may get a ConfigMap by name but not list them.
const CONFIG_MAPS: &[Rule<'_>] = &[("", &["configmaps"], &["get"])];

/// An agent of a node that joins creates its NodeConfig. The admission policy restricts it to its own node.
const NEW_NODE_CONFIGS: Rule<'_> = ("nodecfg.dev", &["nodeconfigs"], &["create"]);
/// Writes conditions of Nodes. An admission policy restricts an agent to its own node and to one condition.
const NODE_STATUS: &[Rule<'_>] = &[("", &["nodes/status"], &["patch"])];
/// An agent as a pod removes the startup taint. The admission policy restricts it to its own node and to this change.
const STARTUP_TAINT: Rule<'_> = ("", &["nodes"], &["patch"]);

/// Roles of agents as pods, which have their own ServiceAccount. `joins`: they create the NodeConfigs of new nodes, and
/// remove the startup taint.
pub(super) fn agent(namespace: &str, agent_namespace: &str, joins: bool) -> Vec<Value> {
    let subject = Identity::Pod.subject(agent_namespace);
    let mut in_cluster = NODE_CONFIGS.to_vec();
    // During a trial, the agent checks that the Node is Ready and its Lease is renewed.
    in_cluster.push(("", &["nodes"], &["get"]));
    if joins {
        in_cluster.extend([NEW_NODE_CONFIGS, STARTUP_TAINT]);
    }
    let leases: &[Rule<'_>] = &[("coordination.k8s.io", &["leases"], &["get"])];
    let mut objects = vec![service_account(AGENT, agent_namespace, "agent")];
    objects.extend(role_with_binding(AGENT, "agent", None, &in_cluster, &subject));
    objects.extend(role_with_binding(NODE_CONDITION, "agent", None, NODE_STATUS, &subject));
    objects.extend(role_with_binding(AGENT, "agent", Some(namespace), CONFIG_MAPS, &subject));
    objects.extend(role_with_binding(&format!("{AGENT}-events"), "agent", Some("default"), EVENTS, &subject));
    objects.extend(role_with_binding(&format!("{AGENT}-leases"), "agent", Some("kube-node-lease"), leases, &subject));
    objects
}

/// Roles of agents with the identities of kubelets. The Node authorizer already grants access to the own Node and
/// Lease, and to Events, but not to those of other nodes.
pub(super) fn agent_on_host(namespace: &str, joins: bool) -> Vec<Value> {
    // A group's subject has no namespace.
    let subject = Identity::Kubelet.subject(namespace);
    let mut in_cluster = NODE_CONFIGS.to_vec();
    in_cluster.extend(joins.then_some(NEW_NODE_CONFIGS));
    let mut objects = role_with_binding(AGENT_ON_HOST, "agent", None, &in_cluster, &subject);
    objects.extend(role_with_binding(AGENT_ON_HOST, "agent", Some(namespace), CONFIG_MAPS, &subject));
    objects
}

/// Role of nodes that have not registered yet: they read the pointers of their pools, and nothing else, with a bootstrap
/// token. kubeadm grants its ConfigMap `kubelet-config` in the same way. Empty without pools.
pub(super) fn boot(namespace: &str, pools: &[(FleetName, PoolName)]) -> Vec<Value> {
    if pools.is_empty() {
        return Vec::new();
    }
    let names: BTreeSet<String> = pools.iter().map(|(fleet, pool)| PoolPointer::name(fleet, pool)).collect();
    let mut objects =
        role_with_binding(BOOT, "boot", Some(namespace), CONFIG_MAPS, &group_subject("system:bootstrappers"));
    if let Some(rule) = objects.first_mut().and_then(|role| role.pointer_mut("/rules/0")?.as_object_mut()) {
        rule.insert("resourceNames".to_owned(), json!(names));
    }
    objects
}

fn service_account(name: &str, namespace: &str, component: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": namespace, "labels": labels(Some(component))},
        "automountServiceAccountToken": false,
    })
}

/// A role and its binding to one subject. Callers use each name once, because the ConfigMaps may be in any namespace:
/// two Roles of one name would overwrite each other.
fn role_with_binding(
    name: &str,
    component: &str,
    namespace: Option<&str>,
    rules: &[Rule<'_>],
    subject: &Value,
) -> Vec<Value> {
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
