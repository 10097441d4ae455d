//! ValidatingAdmissionPolicies, for what RBAC cannot express.
//!
//! One restricts an agent to the status of its own node's NodeConfig. RBAC gives every agent the same rights. Without
//! the policy, an attacker with control of one node could falsify the status of other nodes, and a failing rollout would
//! continue.
//!
//! The other keeps ConfigMaps of nodecfg out of the hands of other writers in their namespace. Agents refuse other
//! content anyway, but a deleted ConfigMap stops a rollout.

use nodecfg_contract::installation::{CONFIG_MAPS_POLICY, OWN_STATUS_POLICY};
use nodecfg_contract::observed::{MANAGED_BY_LABEL, MANAGER};
use serde_json::{Value, json};

use super::{AGENT, PRUNER, RECONCILER, labels};

/// The policy and its binding, for the identities of kubelets and for every ServiceAccount with the agent's name.
/// They cover both kinds of agents, regardless of which was installed last.
///
/// The token of a pod names its node (KEP-4193, on by default since Kubernetes 1.30), and the API server passes the
/// name in `userInfo.extra`. A token without a node may not write.
pub fn own_status_only() -> [Value; 2] {
    let on_host = "request.userInfo.username.startsWith('system:node:')";
    let agents = format!("{on_host} || request.userInfo.username.matches('^system:serviceaccount:[^:]+:{AGENT}$')");
    let claim = "authentication.kubernetes.io/node-name";
    let node = format!(
        "{on_host} ? request.userInfo.username.substring(size('system:node:')) : \
         (has(request.userInfo.extra) && '{claim}' in request.userInfo.extra && \
         size(request.userInfo.extra['{claim}']) == 1 ? request.userInfo.extra['{claim}'][0] : '')"
    );
    let message = "'the agent of ' + (variables.node == '' ? 'an unknown node' : 'node ' + variables.node) + \
                   ' may write nothing but the status of the NodeConfig of its own node'";
    [
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": OWN_STATUS_POLICY, "labels": labels(Some("agent"))},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {
                    "resourceRules": [{
                        "apiGroups": ["nodecfg.dev"],
                        "apiVersions": ["*"],
                        "operations": ["CREATE", "UPDATE", "DELETE"],
                        "resources": ["nodeconfigs", "nodeconfigs/status"],
                    }],
                },
                "matchConditions": [{"name": "agents", "expression": agents}],
                "variables": [{"name": "node", "expression": node}],
                "validations": [{
                    "expression": "has(request.subResource) && request.subResource == 'status' && \
                                   variables.node != '' && request.name == variables.node",
                    "messageExpression": message,
                    "reason": "Forbidden",
                }],
            },
        }),
        binding(OWN_STATUS_POLICY, "agent"),
    ]
}

/// The policy and its binding for labeled ConfigMaps of a namespace. Writers are the ServiceAccounts of the reconciler
/// and of `prune`, and `others`. The namespace controller may delete, so that the namespace can be deleted.
pub fn config_maps_of(namespace: &str, others: &[String]) -> [Value; 2] {
    let own = [RECONCILER, PRUNER].map(|name| format!("system:serviceaccount:{namespace}:{name}"));
    let writers: Vec<&String> = own.iter().chain(others).collect();
    // A list of JSON strings is a list in CEL.
    let writers = json!(writers);
    let message = "'only the reconciler of nodecfg and the users that nodecfg install names (--config-map-writer) \
                   may ' + 'write ConfigMaps of nodecfg, not ' + request.userInfo.username";
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
                        "request.userInfo.username in {writers} || request.operation == 'DELETE' && \
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
