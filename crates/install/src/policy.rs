//! The ValidatingAdmissionPolicy that lets an agent write the status of its own node's NodeConfig and nothing else.
//!
//! RBAC gives every agent the same rights. Without the policy whoever has taken over one node could have the others' statuses
//! say what is not so, and a rollout go on that should have stopped.

use nodecfg_contract::installation::OWN_STATUS_POLICY;
use serde_json::{Value, json};

use super::{AGENT, labels};

/// The policy and its binding, for kubelets' identities and for every ServiceAccount that is called as the agent's: whichever way
/// agents are installed last, the others stay bound.
///
/// A pod's token says on which node the pod runs (KEP-4193, on by default from Kubernetes 1.30), and the API server passes it
/// on in `userInfo.extra`. A token that does not say so writes nothing.
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
