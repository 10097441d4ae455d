//! The codes of all checks, in the order in which they are shown. docs/doctor.md has the same table.

/// What a check looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    /// The code.
    pub code: &'static str,
    /// What is looked at.
    pub about: &'static str,
}

const fn code(code: &'static str, about: &'static str) -> Code {
    Code { code, about }
}

/// Every check, those first that all others depend on.
pub const CODES: &[Code] = &[
    code("repository", "The repository can be read and is valid."),
    code("api-server", "The API server is found and answers."),
    code("credentials", "The API server accepts the credentials."),
    code("clock", "This machine's clock agrees with the API server's."),
    code("permission", "Every right that a sync needs is given."),
    code("permission-optional", "The rights that single commands need beyond that."),
    code("binding", "Whether Nodes or NodeConfigs carry the assignments, and how that is known."),
    code("definition", "The definition of NodeConfigs is there, served, and as this version of nodecfg has it."),
    code("admission-policy", "The policy that lets an agent write the status of its own node alone is there."),
    code("daemon-set", "The agents' pods are ready."),
    code("kubelet-version", "The kubelets' versions are ones that the API server's goes with."),
    code("node-half", "Each node's half of the contract follows: a kubelet that can, or an agent."),
    code("agent-silent", "Each agent was heard of within the last three hours."),
    code("agent-version", "The agents are of the version of this program."),
    code("node-ready", "The nodes are Ready."),
    code("node-acknowledge", "Each node took what it is pointed at."),
    code("node-failed", "No node reports an error of what it is pointed at."),
    code("node-clock", "No node's clock is ahead of the API server's."),
    code("lock", "No other sync holds the lock of the fleet."),
    code("orders", "What people have ordered: pools that are paused, a rollout that is to stop."),
    code("plan", "A plan can be made, and may be carried out."),
    code("pool-empty", "Every pool selects nodes."),
    code("node-unpooled", "Every node is in a pool."),
    code("node-left-out", "No node of a pool has to be left out."),
    code("config-map-gone", "Every ConfigMap that nodes point at is there."),
    code("config-map-content", "The ConfigMaps hold what their names and annotations say."),
    code("config-map-mutable", "The ConfigMaps cannot be changed."),
    code("config-map-labels", "The ConfigMaps say whose they are and of which pool."),
    code("config-map-foreign", "ConfigMaps of other fleets beside."),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_code_in_this_order() {
        let page = include_str!("../../docs/doctor.md");
        let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
        assert_eq!(rows.len(), CODES.len());
        for (row, Code { code, about }) in rows.into_iter().zip(CODES) {
            assert!(row.starts_with(&format!("| `{code}` | {about} |")), "{row}: {code}");
        }
    }
}
