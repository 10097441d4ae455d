//! States of a node and their severity. All reports sort and color nodes by this order.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

/// State of a node, the most severe first.
// States that only a run reports are skipped in the schemas: documents of a run contain an `End` instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// The node refuses its assigned configuration.
    Failed,
    /// The node is not Ready.
    NotReady,
    /// A sync cannot change the node: nothing on it follows assignments, a value of it is unreadable, several pools
    /// select it, or another program maintains it.
    // In a run, also: the node is on a ConfigMap of another owner, or its kubelet would refuse the configuration.
    Blocked,
    /// The node cannot fetch its assigned configuration and retries.
    CannotFetch,
    /// Another client changed the node during a rollout.
    #[schemars(skip)]
    ChangedByOthers,
    /// Another client changed the node or its ConfigMap outside of nodecfg.
    Drifted,
    /// The node was in transition when a run ended.
    #[schemars(skip)]
    InFlight,
    /// The node is in transition to its assigned configuration.
    InTransition,
    /// A run rolled the node back to its previous configuration.
    #[schemars(skip)]
    RolledBack,
    /// A run ended before it started the node.
    #[schemars(skip)]
    NotStarted,
    /// A run did not start the node, because its pool was held ([`nodecfg_fleet::hold::HoldReason`]).
    #[schemars(skip)]
    Held,
    /// The desired configuration is not assigned yet.
    Behind,
    /// As `Behind`, but the pool is paused.
    Paused,
    /// A run skipped the node on purpose.
    #[schemars(skip)]
    Skipped,
    /// The node left the cluster.
    #[schemars(skip)]
    Gone,
    /// The node is being deleted.
    Deleting,
    /// No pool of the repository selects it.
    Unpooled,
    /// The node runs the desired configuration, which has not passed its trial yet.
    OnTrial,
    /// The node ran the desired configuration before the run began.
    #[schemars(skip)]
    Settled,
    /// The node runs the desired configuration.
    Converged,
}

/// Severity class of a state, which decides its color.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Grade {
    /// An operator must act.
    Bad,
    /// An operator should know, or should run a sync.
    Warning,
    /// No action is needed: the state is temporary or intended.
    Neutral,
    /// The desired state.
    Good,
}

impl State {
    /// Severity class of this state.
    #[must_use]
    pub fn grade(self) -> Grade {
        match self {
            Self::Failed | Self::NotReady | Self::Blocked | Self::CannotFetch => Grade::Bad,
            Self::ChangedByOthers
            | Self::Drifted
            | Self::RolledBack
            | Self::NotStarted
            | Self::Behind
            | Self::Paused => Grade::Warning,
            Self::InFlight
            | Self::InTransition
            | Self::Held
            | Self::Skipped
            | Self::Gone
            | Self::Deleting
            | Self::Unpooled => Grade::Neutral,
            // The node runs what it should. A trial that fails makes it `Failed`.
            Self::OnTrial | Self::Settled | Self::Converged => Grade::Good,
        }
    }

    /// Reports whether the state needs no mention in a report.
    #[must_use]
    pub fn is_settled(self) -> bool {
        self.is_converged() || self == Self::Unpooled
    }

    /// Reports whether the node runs the desired configuration.
    #[must_use]
    pub fn is_converged(self) -> bool {
        matches!(self, Self::OnTrial | Self::Settled | Self::Converged)
    }

    /// Name of the state in reports.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::NotReady => "not Ready",
            Self::Blocked => "blocked",
            Self::CannotFetch => "cannot fetch",
            Self::ChangedByOthers => "changed by others",
            Self::Drifted => "drifted",
            Self::InFlight => "in transition",
            Self::InTransition => "in transition",
            Self::RolledBack => "rolled back",
            Self::NotStarted => "not started",
            Self::Held => "held",
            Self::Behind => "behind",
            Self::Paused => "paused",
            Self::Skipped => "skipped",
            Self::Gone => "gone",
            Self::Deleting => "being deleted",
            Self::Unpooled => "in no pool",
            Self::OnTrial => "on trial",
            Self::Settled => "up to date",
            Self::Converged => "converged",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_states_by_severity() {
        let edges = [
            State::Failed,
            State::CannotFetch,
            State::ChangedByOthers,
            State::Unpooled,
            State::OnTrial,
            State::Settled,
            State::Converged,
        ];
        assert!(edges.is_sorted());
        let [failed, cannot_fetch, changed, unpooled, on_trial, settled, converged] = edges.map(State::grade);
        assert_eq!((failed, cannot_fetch, changed), (Grade::Bad, Grade::Bad, Grade::Warning));
        assert_eq!((unpooled, settled, converged), (Grade::Neutral, Grade::Good, Grade::Good));
        assert_eq!((on_trial, State::OnTrial.is_settled()), (Grade::Good, true));
    }
}
