//! Reasons why a node is left unchanged.

use std::fmt;

use jiff::Timestamp;
use serde::Serialize;

use crate::state::State;
use kubelet_config::Minor;
use kubelet_config::capacity::{Reservation, Resource};
use kubelet_config::risk::Class;
use nodecfg_contract::ConfigSource;
use nodecfg_contract::names::{FleetName, PoolName};
use nodecfg_observed::{Maintainer, Obstacle, Pause};

/// Reason why a node is left unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Why {
    /// The node runs its target.
    Converged,
    /// The node runs the desired content from a ConfigMap with another name, so a restart has no benefit.
    Adopted {
        /// Source of the node.
        source: ConfigSource,
    },
    /// The pool is paused.
    Paused {
        /// Pause of the pool or of the whole fleet by an operator; `None` if only the policy pauses the pool.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        order: Option<Box<Pause>>,
    },
    /// The node points at a ConfigMap that this fleet does not manage. `--take-over` allows the change.
    Conflict {
        /// Source of the node.
        source: ConfigSource,
        /// Manager of this ConfigMap.
        owner: Owner,
    },
    /// The node agent is too old to know placements: it would ignore that of the assignment.
    AgentOutdated,
    /// Several pools of the highest priority select the node. A node can cause that: its kubelet may change most of
    /// its own labels.
    Contested {
        /// The pools.
        pools: Vec<PoolName>,
    },
    /// Another program drains, reboots or removes the node.
    Maintained {
        /// The program.
        by: Maintainer,
    },
    /// Another fleet drains the node.
    DrainedBy {
        /// The fleet, as the mark of the drain names it.
        fleet: FleetName,
    },
    /// The kubelet would not run the configuration as written: it changed since the plan was made, or has a version that its
    /// pool does not declare.
    WouldRefuse {
        /// The version of the kubelet.
        kubelet: Minor,
        /// The first reason.
        reason: String,
    },
    /// The configuration reserves more of a resource than the node has: its kubelet would not start.
    OverReserved(Reservation),
    /// The configuration of the node follows from its size, and the node reports no capacity, or a patch of the pool does
    /// not fit this size.
    SizeUnknown {
        /// The resource that the node does not report. `None`: a patch does not fit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        missing: Option<Resource>,
    },
    /// The size of the node changed, and its new reservations disrupt running pods more than the pool allows.
    Resized {
        /// Class of the change.
        needs: Class,
        /// Highest class that the pool allows (`spec.rollout.allowDisruption`).
        allowed: Class,
    },
    /// The nodes of the pool have too many sizes, and that of the node is one of the rarest.
    TooManySizes {
        /// Number of sizes.
        sizes: usize,
    },
    /// The node is being deleted.
    Deleting,
    /// The node joined recently and never had a configuration. Only `verify --new-nodes-within` reports this.
    New {
        /// Creation time of the Node.
        joined: Timestamp,
    },
    /// The request excludes the node.
    OutOfScope,
    /// The node follows no assignment.
    #[serde(untagged)]
    Obstacle(Obstacle),
}

impl Why {
    /// State of the node.
    #[must_use]
    pub fn state(&self) -> State {
        match self {
            Self::Converged | Self::Adopted { .. } => State::Settled,
            Self::Paused { .. } | Self::Deleting | Self::New { .. } | Self::OutOfScope => State::Skipped,
            Self::Conflict { .. }
            | Self::Obstacle(_)
            | Self::AgentOutdated
            | Self::Contested { .. }
            | Self::Maintained { .. }
            | Self::DrainedBy { .. }
            | Self::WouldRefuse { .. }
            | Self::OverReserved(_)
            | Self::SizeUnknown { .. }
            | Self::Resized { .. }
            | Self::TooManySizes { .. } => State::Blocked,
        }
    }

    /// Reports whether the node runs the target of its pool, by the name of the target or by its content.
    #[must_use]
    pub const fn runs_target(&self) -> bool {
        matches!(self, Self::Converged | Self::Adopted { .. })
    }

    /// Reports whether the reason is a state of the node that may end during a rollout.
    #[must_use]
    pub fn may_end(&self) -> bool {
        match self {
            Self::Obstacle(Obstacle::Unsupported { .. }) => false,
            Self::Obstacle(_) | Self::Maintained { .. } => true,
            Self::Converged
            | Self::Adopted { .. }
            | Self::Paused { .. }
            | Self::Conflict { .. }
            | Self::AgentOutdated
            | Self::Contested { .. }
            | Self::DrainedBy { .. }
            | Self::WouldRefuse { .. }
            | Self::OverReserved(_)
            | Self::SizeUnknown { .. }
            | Self::Resized { .. }
            | Self::TooManySizes { .. }
            | Self::Deleting
            | Self::New { .. }
            | Self::OutOfScope => false,
        }
    }

    /// The reason in one or two words.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Conflict { .. } => "conflict",
            Self::Obstacle(Obstacle::Unsupported { .. } | Obstacle::NoDynamicConfig) | Self::WouldRefuse { .. } => {
                "unsupported"
            }
            Self::OverReserved(_) => "too small",
            Self::SizeUnknown { .. } => "no size",
            Self::Resized { .. } => "resized",
            Self::TooManySizes { .. } => "rare size",
            Self::Obstacle(Obstacle::AgentSilent) => "no agent",
            Self::AgentOutdated => "old agent",
            Self::Obstacle(Obstacle::Unreadable(_)) => "unreadable",
            Self::Contested { .. } => "contested",
            Self::Maintained { .. } | Self::DrainedBy { .. } => "maintained",
            Self::Converged
            | Self::Adopted { .. }
            | Self::Paused { .. }
            | Self::Obstacle(Obstacle::Outlived)
            | Self::Deleting
            | Self::New { .. }
            | Self::OutOfScope => "unchanged",
        }
    }

    /// Reports whether the node cannot reach its target and an operator should know.
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        self.state() == State::Blocked
    }
}

/// Manager of a ConfigMap that does not belong to this fleet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Owner {
    /// Another fleet of nodecfg.
    Fleet {
        /// Name of the fleet.
        fleet: FleetName,
    },
    /// Unknown: the ConfigMap has no labels of nodecfg, or is not visible.
    Unknown,
}

impl fmt::Display for Why {
    /// Formats the reason, followed by a fix where one exists.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Converged => f.write_str("converged already"),
            Self::Adopted { source } => {
                write!(f, "runs the wanted content from {source} already; no restart needed")
            }
            Self::Paused { order: None } => f.write_str("the pool is paused in the repository"),
            Self::Paused { order: Some(pause) } => write!(f, "the pool is paused: {pause}"),
            Self::Conflict { source, owner: Owner::Fleet { fleet } } => {
                write!(f, "points at {source} of fleet {fleet}; remove it there, or pass --take-over")
            }
            Self::Conflict { source, owner: Owner::Unknown } => {
                write!(f, "points at {source}, which nodecfg does not manage; pass --take-over to move it")
            }
            Self::WouldRefuse { kubelet, reason } => {
                write!(f, "kubelet {kubelet} would not run the configuration as written: {reason}")
            }
            Self::OverReserved(reservation) => write!(
                f,
                "the kubelet would not start: kubeReserved, systemReserved and evictionHard reserve {reservation}; \
                 reserve less, or move the node to another pool"
            ),
            Self::SizeUnknown { missing: Some(missing) } => write!(
                f,
                "its reservations follow from status.capacity, where the Node has no {}; wait until its kubelet reports it, or \
                 look at the kubelet's log",
                missing.as_str()
            ),
            Self::SizeUnknown { missing: None } => {
                f.write_str("a patch of the pool does not fit the size of the node; `nodecfg render` with its size says why")
            }
            Self::Resized { needs, allowed } => write!(
                f,
                "its size changed, and its new reservations have the risk class {needs}, above {allowed}; allow it \
                 (spec.rollout.allowDisruption), or replace the node"
            ),
            Self::TooManySizes { sizes } => write!(
                f,
                "the nodes of the pool have {sizes} sizes, and this one is among the rarest; round capacities to larger steps \
                 (spec.kubelet.reserve.roundTo), or move the node to another pool"
            ),
            Self::AgentOutdated => f.write_str(
                "the node reports no placement, because its agent or the definition of NodeConfigs is older than this nodecfg; \
                 upgrade both (`nodecfg install --agent daemonset --image IMAGE`)",
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
            Self::Obstacle(obstacle) => obstacle.fmt(f),
            Self::Deleting => f.write_str("the node is being deleted"),
            Self::New { joined } => {
                write!(f, "new: joined at {joined:.0}, and never had its pool's configuration")
            }
            Self::OutOfScope => f.write_str("not requested"),
        }
    }
}
