//! Texts of the reasons why a node is left unchanged.

use std::fmt;

use super::{Owner, Why};
use nodecfg_contract::names::PoolName;

impl fmt::Display for Why {
    /// Formats the reason, followed by a fix where one exists.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Converged => f.write_str("converged already"),
            Self::Adopted { source } => {
                write!(f, "runs the wanted content from {source} already; no restart needed")
            }
            Self::Paused { order: None } => f.write_str("the pool is paused (spec.rollout.paused)"),
            Self::Paused { order: Some(pause) } => write!(f, "the pool is paused: {pause}"),
            Self::Conflict { source, owner: Owner::Fleet { fleet } } => {
                write!(f, "points at {source} of fleet {fleet}; remove it there, or pass --take-over")
            }
            Self::Conflict { source, owner: Owner::Unknown } => {
                write!(f, "points at {source}, which nodecfg does not manage; pass --take-over to move it")
            }
            Self::Unsupported { version } => write!(
                f,
                "kubelet {version} does not support configSource: dynamic configuration needs kubelets 1.11 to 1.23"
            ),
            Self::WouldRefuse { kubelet, reason } => {
                write!(f, "kubelet {kubelet} would not run the configuration as written: {reason}")
            }
            Self::OverReserved(reservation) => write!(
                f,
                "the kubelet would not start: kubeReserved, systemReserved and evictionHard reserve {reservation}; \
                 reserve less, or move the node to another pool"
            ),
            Self::NoDynamicConfig => f.write_str(
                "the kubelet reports no status.config: it runs without --dynamic-config-dir, or has just started",
            ),
            Self::AgentSilent => f.write_str(
                "no node agent has reported from the node; install the agent (`nodecfg install --agent daemonset --image \
                 IMAGE`), or check why it does not run",
            ),
            Self::AgentOutdated => f.write_str(
                "the node reports no placement, because its agent or the definition of NodeConfigs is older than this nodecfg; \
                 upgrade both (`nodecfg install --agent daemonset --image IMAGE`)",
            ),
            Self::Outlived => f.write_str(
                "the NodeConfig belongs to an earlier node of this name and is about to be deleted; run this again after two \
                 minutes",
            ),
            Self::Contested { pools } => {
                let pools: Vec<&str> = pools.iter().map(PoolName::as_str).collect();
                write!(
                    f,
                    "pools {} of equal priority select the node; correct its labels, give one pool a higher \
                     spec.priority, or make the nodeSelectors disjoint",
                    pools.join(" and ")
                )
            }
            Self::Maintained { by } => write!(f, "maintained by {by}; run this again when it has finished"),
            Self::DrainedBy { fleet } => {
                write!(f, "fleet {fleet} drains the node; run this again when it has finished")
            }
            Self::Unreadable(field) => write!(f, "{field}; correct the value, which the node itself may have written"),
            Self::Deleting => f.write_str("the node is being deleted"),
            Self::New { joined } => {
                write!(f, "new: joined at {joined:.0}, and never had its pool's configuration")
            }
            Self::OutOfScope => f.write_str("not requested"),
        }
    }
}
