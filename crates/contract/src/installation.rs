//! Names and defaults of an installation, and the type of a single right.

use std::fmt;
use std::time::Duration;

/// Default namespace of the ConfigMaps, the Lease and the reconciler's ServiceAccount.
pub const NAMESPACE: &str = "nodecfg-system";
/// Default namespace of the agent's pods. It differs from that of the ConfigMaps, so that the right to create pods
/// beside the reconciler does not include privileged pods. It does include the rights of the reconciler.
pub const AGENT_NAMESPACE: &str = "nodecfg-agent";
/// Default time limit of each command that stops or restarts the kubelet.
pub const COMMAND_LIMIT: Duration = Duration::from_secs(2 * 60);
/// Name of the agent's DaemonSet.
pub const AGENT_DAEMON_SET: &str = "nodecfg-agent";
/// Name of the ValidatingAdmissionPolicy for agents, and of its binding.
pub const OWN_STATUS_POLICY: &str = "nodecfg-agent-own-status";
/// Name of the ValidatingAdmissionPolicy for writes of Nodes by agents in pods, and of its binding. The name is older than
/// the condition that it admits, and stays: an earlier policy beside this one would refuse the condition.
pub const OWN_NODE_POLICY: &str = "nodecfg-agent-own-taint";
/// Name of the only ValidatingAdmissionPolicy for ConfigMaps, and of its binding, in earlier versions of nodecfg.
pub const FORMER_CONFIG_MAPS_POLICY: &str = "nodecfg-configmaps";

/// Name of the ValidatingAdmissionPolicy for the ConfigMaps of a namespace, and of its binding. Each namespace has its own:
/// an installation for one must not replace the writers of another.
#[must_use]
pub fn config_maps_policy(namespace: &str) -> String {
    format!("{FORMER_CONFIG_MAPS_POLICY}-{namespace}")
}

/// Text before the refused user in the message of [`config_maps_policy`].
pub const NOT_A_WRITER: &str = "write ConfigMaps of nodecfg, not ";

/// Options of `nodecfg install` that let these users write the ConfigMaps of nodecfg. Each run of it withdraws what its
/// options do not name, so they extend the options of the present installation.
#[must_use]
pub fn options_for_writers<'a>(users: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<&str> = users.into_iter().flat_map(|user| ["--config-map-writer", user]).collect();
    shlex::try_join(words.iter().copied()).unwrap_or_else(|_| words.join(" "))
}

/// One verb on one kind of object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    /// API group; empty for core.
    pub group: String,
    /// Plural, with a slash and the subresource if any.
    pub resource: String,
    /// Verb of the rule.
    pub verb: String,
    /// Namespace; `None` for the whole cluster.
    pub namespace: Option<String>,
    /// Name of the only object; `None` for all objects.
    pub name: Option<String>,
}

impl fmt::Display for Right {
    /// For example `list nodes`, `create configmaps in namespace kube-system`, `get namespaces kube-system`.
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
    /// Instruction that grants the right, on one line. It names a rule instead of a complete role, because applying a
    /// role would remove the user's other rules.
    #[must_use]
    pub fn grant(&self) -> String {
        let role = match &self.namespace {
            Some(namespace) => format!("Role in namespace {namespace}"),
            None => "ClusterRole".to_owned(),
        };
        let names = self.name.as_ref().map(|name| format!(", resourceNames: [{name}]")).unwrap_or_default();
        format!(
            "bind the user to a {role} with the rule {{apiGroups: [\"{}\"], resources: [{}]{names}, verbs: [{}]}}",
            self.group, self.resource, self.verb
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_for_writers_are_those_that_a_shell_reads() {
        assert_eq!(options_for_writers(["ada"]), "--config-map-writer ada");
        let odd = "o'hara the admin";
        let options = options_for_writers(["system:serviceaccount:ci:runner", odd]);
        let words = shlex::split(&options).expect("words");
        assert_eq!(words, ["--config-map-writer", "system:serviceaccount:ci:runner", "--config-map-writer", odd]);
    }
}
