//! ValidatingAdmissionPolicies, for what RBAC cannot express.
//!
//! One restricts an agent to the status of its own node's NodeConfig, and to its creation if nodes join. RBAC gives every
//! agent the same rights. Without the policy, an attacker with control of one node could falsify the status of other
//! nodes, and a failing rollout would continue.
//!
//! One restricts an agent to the removal of the startup taint from its own Node.
//!
//! One keeps ConfigMaps of nodecfg out of the hands of other writers in their namespace. Agents refuse other
//! content anyway, but a deleted ConfigMap stops a rollout.

use nodecfg_contract::installation::{CONFIG_MAPS_POLICY, NOT_A_WRITER, OWN_STATUS_POLICY, OWN_TAINT_POLICY};
use nodecfg_contract::observed::{MANAGED_BY_LABEL, MANAGER};
use nodecfg_contract::pool_pointer::{STARTUP_TAINT, STARTUP_TAINT_EFFECT};
use serde_json::{Value, json};

use super::{AGENT, PRUNER, RECONCILER, labels};

/// Username of every ServiceAccount with the agent's name.
fn is_agent_pod() -> String {
    format!("request.userInfo.username.matches('^system:serviceaccount:[^:]+:{AGENT}$')")
}

/// Name of the node that the token of a pod is bound to (KEP-4193, on by default since Kubernetes 1.30). The API server
/// passes it in `userInfo.extra`. Empty for a token without a node.
fn node_of_token() -> String {
    let claim = "authentication.kubernetes.io/node-name";
    format!(
        "(has(request.userInfo.extra) && '{claim}' in request.userInfo.extra && \
         size(request.userInfo.extra['{claim}']) == 1 ? request.userInfo.extra['{claim}'][0] : '')"
    )
}

/// The policy and its binding, for the identities of kubelets and for every ServiceAccount with the agent's name.
/// They cover both kinds of agents, regardless of which was installed last. A token without a node may not write.
/// `creates`: agents may also create the NodeConfig of their node.
pub fn own_status_only(creates: bool) -> [Value; 2] {
    let on_host = "request.userInfo.username.startsWith('system:node:')";
    let node = format!("{on_host} ? request.userInfo.username.substring(size('system:node:')) : {}", node_of_token());
    let own_status = "has(request.subResource) && request.subResource == 'status' && \
                      variables.node != '' && request.name == variables.node";
    let (expression, allowed) = match creates {
        false => (own_status.to_owned(), "write nothing but the status of the NodeConfig of its own node"),
        true => (
            format!(
                "{own_status} || request.operation == 'CREATE' && \
                 (!has(request.subResource) || request.subResource == '') && \
                 variables.node != '' && object.metadata.name == variables.node && \
                 has(object.spec) && has(object.spec.selfAssigned) && object.spec.selfAssigned"
            ),
            "do nothing but create the NodeConfig of its own node with spec.selfAssigned and write its status",
        ),
    };
    let agents = format!("{on_host} || {}", is_agent_pod());
    policy_of_agents(&AgentPolicy {
        name: OWN_STATUS_POLICY,
        group: "nodecfg.dev",
        resources: &["nodeconfigs", "nodeconfigs/status"],
        agents: &agents,
        node: &node,
        expression: &expression,
        allowed,
    })
}

/// The policy and its binding for Nodes, for every ServiceAccount with the agent's name. The only change that an agent
/// may make is the removal of the startup taint from its own Node.
///
/// The expression compares maps key by key, so that it covers fields of later versions of Kubernetes. The API server
/// itself ignores changes of the status in such a request, and changes the three named fields of the metadata.
pub fn own_taint_only() -> [Value; 2] {
    let same = |path: &str, except: &str| {
        format!(
            "object.{path}.all(key, key in {except} || \
             key in oldObject.{path} && object.{path}[key] == oldObject.{path}[key]) && \
             oldObject.{path}.all(key, key in {except} || key in object.{path})"
        )
    };
    let metadata = same("metadata", "['generation', 'managedFields', 'resourceVersion']");
    let spec = same("spec", "['taints']");
    let taints = |object: &str| format!("(has({object}.spec.taints) ? {object}.spec.taints : [])");
    let expression = format!(
        "request.operation == 'UPDATE' && (!has(request.subResource) || request.subResource == '') && \
         variables.node != '' && request.name == variables.node && {metadata} && {spec} && {} == {}.filter(taint, \
         !(taint.key == '{STARTUP_TAINT}' && taint.effect == '{STARTUP_TAINT_EFFECT}'))",
        taints("object"),
        taints("oldObject")
    );
    policy_of_agents(&AgentPolicy {
        name: OWN_TAINT_POLICY,
        group: "",
        resources: &["nodes", "nodes/*"],
        agents: &is_agent_pod(),
        node: &node_of_token(),
        expression: &expression,
        allowed: "change nothing of Nodes but remove the startup taint from its own",
    })
}

/// Policy for writes of agents.
struct AgentPolicy<'a> {
    name: &'a str,
    group: &'a str,
    resources: &'a [&'a str],
    /// Condition on the users.
    agents: &'a str,
    /// Node of the user, or an empty string.
    node: &'a str,
    expression: &'a str,
    /// What an agent may do, for the message.
    allowed: &'a str,
}

fn policy_of_agents(policy: &AgentPolicy<'_>) -> [Value; 2] {
    let AgentPolicy { name, group, resources, agents, node, expression, allowed } = policy;
    let message = format!(
        "'the agent of ' + (variables.node == '' ? 'an unknown node' : 'node ' + variables.node) + ' may {allowed}'"
    );
    [
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name, "labels": labels(Some("agent"))},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {
                    "resourceRules": [{
                        "apiGroups": [group],
                        "apiVersions": ["*"],
                        "operations": ["CREATE", "UPDATE", "DELETE"],
                        "resources": resources,
                    }],
                },
                "matchConditions": [{"name": "agents", "expression": agents}],
                "variables": [{"name": "node", "expression": node}],
                "validations": [{"expression": expression, "messageExpression": message, "reason": "Forbidden"}],
            },
        }),
        binding(name, "agent"),
    ]
}

/// Start of the expression of the policy for ConfigMaps, before the list of writers.
const IS_WRITER: &str = "request.userInfo.username in ";

/// Users who may write the ConfigMaps of a namespace: the ServiceAccounts of the reconciler and of `prune`, and `others`.
#[must_use]
pub fn config_map_writers(namespace: &str, others: &[String]) -> Vec<String> {
    let own = [RECONCILER, PRUNER].map(|name| format!("system:serviceaccount:{namespace}:{name}"));
    own.into_iter().chain(others.iter().cloned()).collect()
}

/// Users whom a policy of [`config_maps_of`] allows to write. Empty for a policy with another expression.
#[must_use]
pub fn writers_of(policy: &Value) -> Vec<String> {
    let expression = policy.pointer("/spec/validations/0/expression").and_then(Value::as_str).unwrap_or_default();
    let list = expression.strip_prefix(IS_WRITER).unwrap_or_default();
    serde_json::Deserializer::from_str(list).into_iter().next().and_then(Result::ok).unwrap_or_default()
}

/// The policy and its binding for labeled ConfigMaps of a namespace, with its [writers](config_map_writers). The
/// namespace controller may delete, so that the namespace can be deleted.
pub fn config_maps_of(namespace: &str, others: &[String]) -> [Value; 2] {
    // A list of JSON strings is a list in CEL.
    let writers = json!(config_map_writers(namespace, others));
    let message = format!(
        "'only the reconciler of nodecfg and the users that nodecfg install names (--config-map-writer) may ' + \
         '{NOT_A_WRITER}' + request.userInfo.username"
    );
    [
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": CONFIG_MAPS_POLICY, "labels": labels(Some("reconciler"))},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                    // Applies to the object before and after the request: removing the label is a write, too.
                    "objectSelector": {"matchLabels": {MANAGED_BY_LABEL: MANAGER}},
                    "resourceRules": [{
                        "apiGroups": [""],
                        "apiVersions": ["*"],
                        "operations": ["CREATE", "UPDATE", "DELETE"],
                        "resources": ["configmaps"],
                    }],
                },
                "validations": [{
                    "expression": format!(
                        "{IS_WRITER}{writers} || request.operation == 'DELETE' && \
                         request.userInfo.username == 'system:serviceaccount:kube-system:namespace-controller'"
                    ),
                    "messageExpression": message,
                    "reason": "Forbidden",
                }],
            },
        }),
        binding(CONFIG_MAPS_POLICY, "reconciler"),
    ]
}

fn binding(policy: &str, component: &str) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": policy, "labels": labels(Some(component))},
        "spec": {"policyName": policy, "validationActions": ["Deny"]},
    })
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
