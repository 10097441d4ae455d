//! The codes of all checks, in the order in which they are shown. docs/doctor.md has the same table.

/// What a check looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    /// The code.
    pub code: &'static str,
    /// What is looked at: how it is where all is well.
    pub about: &'static str,
    /// Why that matters.
    pub why: &'static str,
}

const fn code(code: &'static str, about: &'static str, why: &'static str) -> Code {
    Code { code, about, why }
}

/// The check with this code.
#[must_use]
pub fn lookup(code: &str) -> Option<&'static Code> {
    CODES.iter().find(|known| known.code == code)
}

/// Every check, those first that all others depend on.
pub const CODES: &[Code] = &[
    code(
        "repository",
        "The repository can be read and is valid.",
        "A sync rolls out what it says, and nothing while it is invalid.",
    ),
    code(
        "api-server",
        "The API server is found and answers.",
        "Everything that nodecfg knows of nodes, and all that it tells them, goes through it.",
    ),
    code("credentials", "The API server accepts the credentials.", "Without them it answers nothing."),
    code(
        "clock",
        "This machine's clock agrees with the API server's.",
        "Certificates and tokens are refused when clocks are too far apart; the lock and the agents are judged by the server's.",
    ),
    code(
        "permission",
        "Every right that a sync needs is given.",
        "A rollout would come to it half way and stop there.",
    ),
    code(
        "permission-optional",
        "The rights that single commands need beyond that.",
        "Only some command needs it, so that nobody has it who does not use that.",
    ),
    code(
        "binding",
        "Whether Nodes or NodeConfigs carry the assignments, and how that is known.",
        "Kubelets 1.11 to 1.23 follow their Nodes; later ones have agents that follow NodeConfigs.",
    ),
    code(
        "definition",
        "The definition of NodeConfigs is there, served, and as this version of nodecfg has it.",
        "Without it there are no NodeConfigs, and what an earlier one does not know is dropped without a word.",
    ),
    code(
        "admission-policy",
        "The policy that lets an agent write the status of its own node alone is there.",
        "All agents have the same rights: without it, whoever has taken over one node can report for all.",
    ),
    code(
        "daemon-set",
        "The agents' pods are ready.",
        "A node whose agent does not run does not follow what it is pointed at.",
    ),
    code(
        "kubelet-version",
        "The kubelets' versions are ones that the API server's goes with.",
        "Kubernetes supports no others.",
    ),
    code(
        "node-half",
        "Each node's half of the contract follows: a kubelet that can, or an agent.",
        "An assignment would only run into its timeout on such a node.",
    ),
    code(
        "agent-silent",
        "Each agent was heard of within the last three hours.",
        "It does not take what comes next, or cannot say so. A node that is away says nothing either.",
    ),
    code(
        "agent-version",
        "The agents are of the version of this program.",
        "An agent and a program understand each other when they are of one minor version or of two that follow each other.",
    ),
    code("node-ready", "The nodes are Ready.", "A node that is not counts against the budget of its pool."),
    code(
        "node-acknowledge",
        "Each node took what it is pointed at.",
        "A kubelet takes up to 15 s for that and an agent one second; a node that never does, does not follow.",
    ),
    code(
        "node-failed",
        "No node reports an error of what it is pointed at.",
        "The node runs its last known good configuration instead, and another sync of the same does not mend that.",
    ),
    code(
        "node-clock",
        "No node's clock is ahead of the API server's.",
        "Certificates that are new there are not valid yet elsewhere, and silence shows later than it should.",
    ),
    code(
        "lock",
        "No other sync holds the lock of the fleet.",
        "Two syncs of one fleet would spend its budget twice, so that the second one waits or ends.",
    ),
    code(
        "orders",
        "What people have ordered: pools that are paused, a rollout that is to stop.",
        "A sync heeds them: nodes of a paused pool are left alone.",
    ),
    code(
        "plan",
        "A plan can be made, and may be carried out.",
        "A sync does what its plan says, and nothing when none can be made.",
    ),
    code(
        "pool-empty",
        "Every pool selects nodes.",
        "Such a pool does nothing, which is seldom meant: a label or a nodeSelector may be misspelt.",
    ),
    code("node-unpooled", "Every node is in a pool.", "It keeps what it runs, whatever the repository says."),
    code(
        "node-left-out",
        "No node of a pool has to be left out.",
        "A sync ends with 5 as long as one is: not every node is where it shall be.",
    ),
    code(
        "config-map-gone",
        "Every ConfigMap that nodes point at is there.",
        "A node that points at it keeps what it has, until its kubelet starts without a copy.",
    ),
    code(
        "config-map-content",
        "The ConfigMaps hold what their names and annotations say.",
        "A kubelet that starts anew would take what nobody has reviewed, or nothing.",
    ),
    code(
        "config-map-mutable",
        "The ConfigMaps cannot be changed.",
        "Whoever changes it restarts all kubelets that point at it, at once and outside every budget.",
    ),
    code(
        "config-map-labels",
        "The ConfigMaps say whose they are and of which pool.",
        "By these labels nodecfg knows its own, and prune what it may delete.",
    ),
    code(
        "config-map-foreign",
        "ConfigMaps of other fleets beside.",
        "Several fleets may share a namespace; a misspelt fleet name looks just like that.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_code_in_this_order() {
        let page = include_str!("../../docs/doctor.md");
        let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
        assert_eq!(rows.len(), CODES.len());
        for (row, Code { code, about, .. }) in rows.into_iter().zip(CODES) {
            assert!(row.starts_with(&format!("| `{code}` | {about} |")), "{row}: {code}");
        }
    }
}
