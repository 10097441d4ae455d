//! The names of what is installed on a cluster, and a right as roles grant it.

use std::fmt;
use std::time::Duration;

/// Where ConfigMaps, the Lease and the reconciler's ServiceAccount are, unless something else is said.
pub const NAMESPACE: &str = "nodecfg-system";
/// Where the agent's pods are, unless something else is said. Apart from the ConfigMaps, so that who may create pods beside
/// the reconciler does not thereby get privileged ones.
pub const AGENT_NAMESPACE: &str = "nodecfg-agent";
/// How long each of the commands that stop and restart the kubelet may take, unless a flag of the agent gives another limit.
pub const COMMAND_LIMIT: Duration = Duration::from_secs(2 * 60);
/// The agent's DaemonSet.
pub const AGENT_DAEMON_SET: &str = "nodecfg-agent";
/// The name of the policy and of its binding.
pub const OWN_STATUS_POLICY: &str = "nodecfg-agent-own-status";

/// One verb on one kind of object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    /// API group; empty for core.
    pub group: String,
    /// Plural, followed by a slash and the subresource where there is one.
    pub resource: String,
    /// The verb of the rule.
    pub verb: String,
    /// In which namespace; unset for the whole cluster.
    pub namespace: Option<String>,
    /// Of the object of this name alone.
    pub name: Option<String>,
}

impl fmt::Display for Right {
    /// `list nodes`, `create configmaps in namespace kube-system`, `get namespaces kube-system`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dot = if self.group.is_empty() { "" } else { "." };
        write!(f, "{} {}{dot}{}", self.verb, self.resource, self.group)?;
        match (&self.namespace, &self.name) {
            (Some(namespace), _) => write!(f, " in namespace {namespace}"),
            (None, Some(name)) => write!(f, " {name}"),
            (None, None) => Ok(()),
        }
    }
}

impl Right {
    /// The rule that gives it. A rule and not a whole role: applied over the user's own, that would take the other rules away.
    #[must_use]
    pub fn rule(&self) -> String {
        let (kind, namespace) = match &self.namespace {
            Some(namespace) => ("Role", format!(" in namespace {namespace}")),
            None => ("ClusterRole", String::new()),
        };
        let names = self.name.as_ref().map(|name| format!("  resourceNames: [{name}]\n")).unwrap_or_default();
        format!(
            "# of a {kind}{namespace} that is bound to the user\n- apiGroups: [\"{}\"]\n  resources: [{}]\n{names}  verbs: [{}]",
            self.group, self.resource, self.verb
        )
    }
}
