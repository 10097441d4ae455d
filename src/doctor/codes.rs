//! Codes of all checks, in the order of output among equal results. docs/reference/doctor.md has the same table.

/// Code of a check with its description.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    /// The code.
    pub code: &'static str,
    /// Expectation of the check.
    pub about: &'static str,
    /// Reason for the check.
    pub why: &'static str,
}

const fn code(code: &'static str, about: &'static str, why: &'static str) -> Code {
    Code { code, about, why }
}

/// Description of the check with this code.
#[must_use]
pub fn lookup(code: &str) -> Option<&'static Code> {
    CODES.iter().find(|known| known.code == code)
}

/// Every check; checks that others depend on come first.
pub const CODES: &[Code] = &[
    code(
        "repository",
        "The repository can be read and is valid.",
        "A sync rolls out the repository, and does nothing while it is invalid.",
    ),
    code("api-server", "The API server is reachable.", "nodecfg reads and changes nodes only through the API server."),
    code(
        "credentials",
        "The API server accepts the credentials.",
        "The API server refuses every request without them.",
    ),
    code(
        "clock",
        "This machine's clock agrees with the API server's.",
        "Servers refuse certificates and tokens when clocks differ too much. The lock and the agents use the server's clock.",
    ),
    code("permission", "The user has every right that a sync needs.", "Otherwise a rollout would stop half-way."),
    code(
        "permission-optional",
        "The user has the rights of single commands.",
        "Only these commands need them, so a user without these commands needs no such right.",
    ),
    code(
        "admission",
        "The admission policies of the cluster let the user create ConfigMaps.",
        "A sync creates them first. The policy of `nodecfg install` allows only its ServiceAccounts and named users.",
    ),
    code(
        "binding",
        "The binding is known: Nodes or NodeConfigs hold the assignments.",
        "Kubelets 1.11 to 1.23 follow their Nodes; later ones have agents that follow NodeConfigs.",
    ),
    code(
        "definition",
        "The definition of NodeConfigs exists, is served, and equals that of this nodecfg version.",
        "NodeConfigs need it, and the API server silently drops fields that an earlier definition lacks.",
    ),
    code(
        "admission-policy",
        "The policies that limit each agent to its own node exist, and equal those of this nodecfg version.",
        "All agents have the same rights. Without the policy, the agent of one compromised node can report for all nodes.",
    ),
    code(
        "config-map-policy",
        "The policy that lists the writers of ConfigMaps in the namespace exists, and equals that of this nodecfg version.",
        "Without it, every user who may write ConfigMaps there can replace the configuration of new nodes.",
    ),
    code("daemon-set", "The agents' pods are ready.", "A node without a running agent does not follow its assignment."),
    code(
        "kubelet-version",
        "The API server's version supports the kubelets' versions.",
        "Kubernetes' version skew policy supports no other versions.",
    ),
    code(
        "node-support",
        "Each node supports assignments, by its kubelet or by an agent.",
        "On other nodes an assignment only times out.",
    ),
    code(
        "agent-silent",
        "Each agent had a heartbeat within the last three hours.",
        "A silent agent does not follow the next assignment, or cannot report. An unreachable node is silent too.",
    ),
    code(
        "agent-version",
        "The agents have the version of this program.",
        "Agents and programs work together when their minor versions are equal or adjacent.",
    ),
    code(
        "node-proof",
        "Each agent has compared what its kubelet runs with the reviewed values, and they are the same.",
        "A flag or a later file can set another value. A sync fails such a node, unless its pool accepts the value.",
    ),
    code("node-ready", "The nodes are Ready.", "Other nodes count against the budget of their pool."),
    code(
        "node-acknowledge",
        "Each node acknowledged its assignment.",
        "A kubelet needs up to 15 s, an agent one second. A node that never acknowledges does not follow its assignment.",
    ),
    code(
        "node-failed",
        "No node reports an error for its assignment.",
        "The node runs its last known good configuration instead, and another sync of the same configuration does not fix it.",
    ),
    code(
        "node-clock",
        "No clock of a node is ahead of the API server's.",
        "Other machines reject new certificates of the node, and a silent agent is detected late.",
    ),
    code(
        "drain-mark",
        "No node keeps the mark of a drain for longer than a drain takes.",
        "A marked node gets no new pods, and no autoscaler removes it.",
    ),
    code(
        "pool-pointer",
        "The pool pointers exist, hold what they record, and name the configurations of the repository.",
        "New nodes start with the configuration that the pointer of their pool names.",
    ),
    code(
        "lock",
        "No other sync holds the lock of the fleet.",
        "Two syncs of one fleet would spend its budget twice, so the second one waits or ends.",
    ),
    code(
        "orders",
        "The orders of the fleet: its pause, paused pools, and a rollout that should stop.",
        "A sync obeys them: it skips the nodes of a paused pool.",
    ),
    code("plan", "A plan is possible and may be executed.", "A sync executes its plan, and does nothing without one."),
    code(
        "pool-empty",
        "Every pool selects nodes.",
        "An empty pool does nothing, which is seldom intended: a label or a nodeSelector may be misspelled.",
    ),
    code(
        "node-unpooled",
        "Every node belongs to a pool.",
        "Other nodes keep their configuration, regardless of the repository.",
    ),
    code(
        "node-left-out",
        "A sync skips no node of a pool.",
        "Otherwise the sync ends with exit code 5: not every node reaches its target.",
    ),
    code(
        "config-map-gone",
        "Every ConfigMap that nodes refer to exists.",
        "A node without its ConfigMap keeps its configuration, until its kubelet starts without a local copy.",
    ),
    code(
        "config-map-content",
        "The content of each ConfigMap matches its name and annotations.",
        "A restarting kubelet would use unreviewed content, or none.",
    ),
    code(
        "config-map-mutable",
        "The ConfigMaps are immutable.",
        "A change restarts all kubelets that use the ConfigMap, at once and without a budget.",
    ),
    code(
        "config-map-labels",
        "The ConfigMaps have the labels of their fleet and pool.",
        "These labels identify the ConfigMaps of nodecfg and those that prune may delete.",
    ),
    code(
        "config-map-foreign",
        "The namespace contains no ConfigMaps of other fleets.",
        "Several fleets may share a namespace; a misspelled fleet name looks the same.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documentation_lists_every_code_in_order() {
        let page = include_str!("../../docs/reference/doctor.md");
        let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
        assert_eq!(rows.len(), CODES.len());
        for (row, Code { code, about, .. }) in rows.into_iter().zip(CODES) {
            assert!(row.starts_with(&format!("| `{code}` | {about} |")), "{row}: {code}");
        }
    }
}
