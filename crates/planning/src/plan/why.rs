//! Why a node is left alone, in words.

use std::fmt;

use super::{Owner, Why};

impl fmt::Display for Why {
    /// With the way out where there is one.
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
                "kubelet {version} does not know configSource: dynamic kubelet configuration is in kubelets 1.11 to 1.23"
            ),
            Self::WouldRefuse { kubelet, reason } => {
                write!(f, "its kubelet is now {kubelet} and would refuse this: {reason}")
            }
            Self::NoDynamicConfig => f.write_str(
                "its kubelet reports no status.config: it runs without --dynamic-config-dir, or has only just started",
            ),
            Self::AgentSilent => f.write_str(
                "no node agent has ever reported from it; install the agent (nodecfg install --agent …), or look why it \
                 does not run there",
            ),
            Self::Outlived => f.write_str(
                "its NodeConfig is that of an earlier node of this name, and about to be removed; run this again",
            ),
            Self::Deleting => f.write_str("the node is being deleted"),
            Self::OutOfScope => f.write_str("not asked for"),
        }
    }
}
