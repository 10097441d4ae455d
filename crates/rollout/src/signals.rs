//! Inputs and commands of the state machine.

use std::collections::BTreeSet;
use std::time::Duration;

use super::StopReason;
use super::progress::Event;
use crate::evictions::PodChange;
use crate::judge::Asked;
use nodecfg_contract::Assignment;
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_contract::pool_pointer::PoolPointer;
use nodecfg_fleet::RolloutPolicy;
use nodecfg_fleet::gates::Question;
use nodecfg_observed::{Drain, EvictionAnswer, Maintainer, Node, Pod};
use nodecfg_plan::Decision;

/// Options of a rollout.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mode {
    /// Whether nodes are assigned. Without assignments, the machine only watches nodes converge (`verify`).
    pub assign: bool,
    /// Whether a node that another client changes is left unchanged instead of decided again. With a reviewed plan, a
    /// new assignment of the node was not reviewed.
    pub as_reviewed: bool,
    /// Whether a failed node is rolled back to its previous source.
    pub rollback_on_failure: bool,
    /// Limit of unanswered assignments per pool, at least 1. A node that waits for this limit is checked again before
    /// it starts.
    pub concurrency: usize,
    /// Time limit that replaces the limit of each pool, in real time.
    pub timeout: Option<Duration>,
    /// Interval in which the gates of the pools are asked, in real time. `None`: the rollout ignores gates.
    pub gates: Option<Duration>,
    /// Age of a Node up to which `verify` does not wait for it, if it never had a configuration. `None`: waits for it like
    /// for other nodes.
    pub new_nodes_within: Option<Duration>,
    /// Whether the rollout ends only after the trial of every converged node.
    pub wait_trial: bool,
    /// Whether the pods of nodes may be listed before their assignment and after their convergence.
    pub list_pods: bool,
    /// Speed of the nodes' time; 1 is real time. Only a sandbox is faster. Soaks, time limits and trials of the plan are
    /// durations in the nodes' time.
    pub speed: f64,
}

impl Mode {
    /// Assigns nodes of a fresh plan, within the limits of each pool only.
    pub const ASSIGN: Self = Self {
        assign: true,
        as_reviewed: false,
        rollback_on_failure: false,
        concurrency: usize::MAX,
        timeout: None,
        gates: None,
        new_nodes_within: None,
        wait_trial: false,
        list_pods: false,
        speed: 1.0,
    };

    /// Real duration of a duration in the nodes' time.
    #[must_use]
    pub fn real_duration(&self, duration: Duration) -> Duration {
        Duration::try_from_secs_f64(duration.as_secs_f64() / self.speed).unwrap_or(duration)
    }

    /// Real time limit of a node in a pool with this policy.
    #[must_use]
    pub fn time_limit(&self, policy: &RolloutPolicy) -> Duration {
        self.timeout.unwrap_or_else(|| self.real_duration(policy.convergence_timeout))
    }
}

/// Event for the state machine.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// The rollout may begin: the ConfigMaps exist and the watch is established.
    Start,
    /// The watch delivered this state of a node. Before [`Input::Start`], the state that the plan considered of a node
    /// that it leaves unchanged.
    Observed(Box<Node>),
    /// The watch delivered this state of a node whose labels no longer match its pool.
    Unselected(Box<Node>),
    /// A node left the cluster.
    Gone(NodeName),
    /// A node was assigned.
    Assigned(NodeName),
    /// A node was not assigned because another client changed it. Contains the node and the new decision; the
    /// decision is `None` if the node no longer belongs to its pool. `None`: the node left the cluster.
    Changed(NodeName, Option<Box<(Node, Option<Decision>)>>),
    /// A node was not assigned; the API server returned this error.
    Refused(NodeName, String),
    /// The assignment of a node was not sent.
    Withdrawn(NodeName),
    /// The pods of a node, or the error of the API server.
    PodsListed(NodeName, Result<Vec<Pod>, String>),
    /// A node was marked for its drain, or the API server returned this error.
    Marked(NodeName, Result<(), String>),
    /// It is unknown whether a node was marked: the request failed with this error, and may have arrived.
    PerhapsMarked(NodeName, String),
    /// A node was not marked, because another program maintains it.
    Claimed(NodeName, Maintainer),
    /// The pods of a marked node changed.
    Pods(NodeName, PodChange),
    /// The watch of the pods of a marked node ended with this error.
    PodsUnknown(NodeName, String),
    /// The API server answered the eviction of the pod with this uid, or failed with this error.
    Evicted(NodeName, String, Result<EvictionAnswer, String>),
    /// Number of volumes that are attached to a node.
    Volumes(NodeName, Result<usize, String>),
    /// The pod with this uid is being deleted, or the API server returned this error.
    PodDeleted(NodeName, String, Result<(), String>),
    /// A node was released, or the API server returned this error.
    Released(NodeName, Result<(), String>),
    /// A node was pointed back at its previous source, or the API server returned this error.
    RolledBack(NodeName, Result<(), String>),
    /// The pointer of a pool was moved, or the API server returned this error.
    PointerMoved(PoolName, Result<(), String>),
    /// The question of a gate was answered.
    Gate(Box<Asked>),
    /// The questions of a node's own gates were answered.
    PermitAnswered(NodeName, Vec<Asked>),
    /// No sync of the fleet runs: nodes without their assignment do not get it. Has an effect only without assignments.
    NoSync {
        /// Whether nodes that have just joined assign themselves, by the pointer of their pool.
        joining: bool,
    },
    /// Time passed.
    Tick,
    /// Starts no further node.
    Stop(StopReason),
    /// Starts no further node of this pool.
    StopPool(PoolName, StopReason),
    /// Starts no further node, and rolls back the nodes that have not converged and can return.
    RollBackAll(StopReason),
}

/// What other programs see of a node whose drain has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// The node is drained, and gets its configuration.
    Drained,
    /// Another client removed the mark. A release of the mark shows this, too.
    Unmarked,
}

/// Command of the state machine.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Asks the questions of a node's own gates. Answered by [`Input::PermitAnswered`].
    AskPermit(NodeName, BTreeSet<Question>),
    /// Assigns a node. Answered by [`Input::Assigned`], [`Input::Changed`], [`Input::Refused`] or
    /// [`Input::Withdrawn`].
    Assign(NodeName, Assignment),
    /// Lists the pods of a node. Answered by [`Input::PodsListed`].
    ListPods(NodeName),
    /// Marks the node with this uid for its drain, and keeps other programs from it for a time, in real time. Answered by
    /// [`Input::Marked`], [`Input::PerhapsMarked`] or [`Input::Claimed`].
    Mark(NodeName, String, Drain, Duration),
    /// Shows other programs that the node with this uid is drained, or is no longer. Has no answer.
    Show(NodeName, String, Shown),
    /// Begins to send [`Input::Pods`] for a marked node, starting with all its pods.
    WatchPods(NodeName),
    /// Ends [`Command::WatchPods`].
    UnwatchPods(NodeName),
    /// Evicts a pod of a node. Answered by [`Input::Evicted`].
    Evict(NodeName, Box<Pod>),
    /// Counts the volumes that are attached to a node. Answered by [`Input::Volumes`].
    CountVolumes(NodeName),
    /// Deletes a DaemonSet pod, whose controller starts it again. Answered by [`Input::PodDeleted`].
    DeletePod(NodeName, Box<Pod>),
    /// Removes the mark of the node with this uid. Answered by [`Input::Released`].
    Release(NodeName, String),
    /// Rolls a node back by this assignment. Answered by [`Input::RolledBack`].
    RollBack(NodeName, Assignment),
    /// Writes this content to the pointer of a pool. Answered by [`Input::PointerMoved`].
    MovePointer(PoolName, Box<PoolPointer>),
    /// Reports an event to the user.
    Report(Box<Event>),
}
