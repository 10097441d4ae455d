//! ValidatingAdmissionPolicy that restricts an agent to the status of its own node's NodeConfig.
//!
//! RBAC gives every agent the same rights. Without the policy, an attacker with control of one node could falsify the
//! status of other nodes, and a failing rollout would continue.

use nodecfg_contract::installation::OWN_STATUS_POLICY;
use serde_json::{Value, json};

use super::{AGENT, labels};

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
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": OWN_STATUS_POLICY, "labels": labels(Some("agent"))},
            "spec": {"policyName": OWN_STATUS_POLICY, "validationActions": ["Deny"]},
        }),
    ]
}
