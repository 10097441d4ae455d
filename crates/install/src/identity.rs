//! Identities of agents. One table gives the subjects of their roles and the users to whom the admission policies apply,
//! so that no user has a right without the policy that restricts it.

use serde_json::{Value, json};

use super::AGENT;

/// Group of all kubelets. The Node authorizer trusts its members only with a name that starts with [`NODE_USER`].
const NODES: &str = "system:nodes";
/// Start of the user name of a kubelet, before the name of its node.
const NODE_USER: &str = "system:node:";

/// Kind of identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Identity {
    /// The ServiceAccount of agents as pods.
    Pod,
    /// The identity of a kubelet, for an agent on its host.
    Kubelet,
}

impl Identity {
    /// All kinds. The policy for NodeConfigs covers them, regardless of which agents were installed last.
    pub(super) const ALL: [Self; 2] = [Self::Pod, Self::Kubelet];

    /// Subject of the roles. `namespace` is that of the pods.
    pub(super) fn subject(self, namespace: &str) -> Value {
        match self {
            Self::Pod => service_account_subject(AGENT, namespace),
            Self::Kubelet => group_subject(NODES),
        }
    }

    /// CEL condition on the users whom the subject names. For pods it covers every namespace, because an earlier
    /// installation may have used another one.
    pub(super) fn condition(self) -> String {
        match self {
            Self::Pod => format!("request.userInfo.username.matches('^system:serviceaccount:[^:]+:{AGENT}$')"),
            Self::Kubelet => format!("has(request.userInfo.groups) && '{NODES}' in request.userInfo.groups"),
        }
    }

    /// CEL condition on the users whose node is known by [`Self::node`].
    fn names_node(self) -> String {
        match self {
            Self::Pod => self.condition(),
            Self::Kubelet => format!("request.userInfo.username.startsWith('{NODE_USER}')"),
        }
    }

    /// CEL expression for the name of the node of such a user. Empty if the identity has no node.
    fn node(self) -> String {
        match self {
            Self::Pod => claim("node-name"),
            Self::Kubelet => format!("request.userInfo.username.substring(size('{NODE_USER}'))"),
        }
    }

    /// CEL condition on the users of these identities.
    pub(super) fn any(identities: &[Self]) -> String {
        let conditions: Vec<String> = identities.iter().map(|identity| identity.condition()).collect();
        conditions.join(" || ")
    }

    /// CEL expression for the name of the user's node. Empty for a user whose node is unknown, whom the policies refuse.
    pub(super) fn node_of(identities: &[Self]) -> String {
        identities.iter().rev().fold("''".to_owned(), |rest, identity| {
            format!("{} ? {} : ({rest})", identity.names_node(), identity.node())
        })
    }

    /// CEL expression for the uid of the user's Node. Empty for a kubelet, whose identity has no uid.
    pub(super) fn node_uid() -> String {
        format!("{} ? {} : ''", Self::Pod.names_node(), claim("node-uid"))
    }
}

/// CEL expression for a claim of the token of a pod (KEP-4193, on by default since Kubernetes 1.30). The API server passes
/// it in `userInfo.extra`. Empty for a token without it.
fn claim(name: &str) -> String {
    let key = format!("authentication.kubernetes.io/{name}");
    format!(
        "(has(request.userInfo.extra) && '{key}' in request.userInfo.extra && \
         size(request.userInfo.extra['{key}']) == 1 ? request.userInfo.extra['{key}'][0] : '')"
    )
}

/// The subject of a role that is a group.
pub(super) fn group_subject(name: &str) -> Value {
    json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": name})
}

/// The subject of a role that is a ServiceAccount.
pub(super) fn service_account_subject(name: &str, namespace: &str) -> Value {
    json!({"kind": "ServiceAccount", "name": name, "namespace": namespace})
}
