//! The state of a node in a word, and how severe it is: the one order by which every report sorts and colours nodes.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

/// The state of a node. In the order of severity: the first is the worst.
// The schemas skip the states that only a run knows: its documents have an `End` with more words in their place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// It refuses what it points at.
    Failed,
    /// It is not Ready, whatever it runs.
    NotReady,
    /// No sync can bring it where it shall be: nothing on it follows assignments.
    Blocked,
    /// It cannot fetch what it points at, and goes on trying.
    CannotFetch,
    /// Another client changed it during a rollout.
    #[schemars(skip)]
    Astray,
    /// Somebody has changed something behind nodecfg's back.
    Drifted,
    /// It was on its way when a run ended.
    #[schemars(skip)]
    InFlight,
    /// It is on its way to what it points at.
    OnTheWay,
    /// A run pointed it back at what it had before.
    #[schemars(skip)]
    RolledBack,
    /// Its turn has not come in a run.
    #[schemars(skip)]
    NotStarted,
    /// The next sync will point it at what the repository wants.
    Behind,
    /// The same, once its pool is no longer paused.
    Paused,
    /// A run leaves it alone on purpose.
    #[schemars(skip)]
    Skipped,
    /// It left the cluster.
    #[schemars(skip)]
    Gone,
    /// It is being deleted.
    Deleting,
    /// No pool of the repository selects it.
    Unpooled,
    /// It ran what it shall run before a run began.
    #[schemars(skip)]
    Settled,
    /// It runs what it shall run.
    Converged,
}

/// How bad a state is: what decides about colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Grade {
    /// Somebody has to do something.
    Bad,
    /// Somebody has to know, or a sync is to be run.
    Warning,
    /// Nothing to be done: it will pass, or it is meant to be so.
    Neutral,
    /// As it shall be.
    Good,
}

impl State {
    /// How bad it is.
    #[must_use]
    pub fn grade(self) -> Grade {
        match self {
            Self::Failed | Self::NotReady | Self::Blocked | Self::CannotFetch => Grade::Bad,
            Self::Astray | Self::Drifted | Self::RolledBack | Self::NotStarted | Self::Behind | Self::Paused => {
                Grade::Warning
            }
            Self::InFlight | Self::OnTheWay | Self::Skipped | Self::Gone | Self::Deleting | Self::Unpooled => {
                Grade::Neutral
            }
            Self::Settled | Self::Converged => Grade::Good,
        }
    }

    /// Whether there is nothing to say about a node in it.
    #[must_use]
    pub fn is_settled(self) -> bool {
        matches!(self, Self::Converged | Self::Unpooled)
    }

    /// It in a word or two.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::NotReady => "not Ready",
            Self::Blocked => "blocked",
            Self::CannotFetch => "cannot fetch",
            Self::Astray => "changed by others",
            Self::Drifted => "drifted",
            Self::InFlight => "in flight",
            Self::OnTheWay => "on the way",
            Self::RolledBack => "rolled back",
            Self::NotStarted => "not started",
            Self::Behind => "behind",
            Self::Paused => "paused",
            Self::Skipped => "skipped",
            Self::Gone => "gone",
            Self::Deleting => "being deleted",
            Self::Unpooled => "in no pool",
            Self::Settled => "as wanted",
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
    fn the_order_is_that_of_severity() {
        let edges =
            [State::Failed, State::CannotFetch, State::Astray, State::Unpooled, State::Settled, State::Converged];
        assert!(edges.is_sorted());
        let [failed, cannot_fetch, astray, unpooled, settled, converged] = edges.map(State::grade);
        assert_eq!((failed, cannot_fetch, astray), (Grade::Bad, Grade::Bad, Grade::Warning));
        assert_eq!((unpooled, settled, converged), (Grade::Neutral, Grade::Good, Grade::Good));
    }
}
