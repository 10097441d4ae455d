//! The state of a node at one look in a word, and how bad it is: the one order by which every status is sorted and coloured.
//! How nodes end in a run has more words, and an order of its own: the report's.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

/// The state of a node. In the order of severity: the first is the worst.
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
    /// Somebody has changed something behind nodecfg's back.
    Drifted,
    /// It is on its way to what it points at.
    OnTheWay,
    /// The next sync will point it at what the repository wants.
    Behind,
    /// The same, once its pool is no longer paused.
    Paused,
    /// It is being deleted.
    Deleting,
    /// No pool of the repository selects it.
    Unpooled,
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
    /// All of them, the worst first.
    pub const ALL: [Self; 11] = [
        Self::Failed,
        Self::NotReady,
        Self::Blocked,
        Self::CannotFetch,
        Self::Drifted,
        Self::OnTheWay,
        Self::Behind,
        Self::Paused,
        Self::Deleting,
        Self::Unpooled,
        Self::Converged,
    ];

    /// How bad it is.
    #[must_use]
    pub fn grade(self) -> Grade {
        match self {
            Self::Failed | Self::NotReady | Self::Blocked | Self::CannotFetch => Grade::Bad,
            Self::Drifted | Self::Behind | Self::Paused => Grade::Warning,
            Self::OnTheWay | Self::Deleting | Self::Unpooled => Grade::Neutral,
            Self::Converged => Grade::Good,
        }
    }

    /// Whether there is nothing to say about a node in it.
    #[must_use]
    pub fn is_settled(self) -> bool {
        matches!(self, Self::Converged | Self::Unpooled)
    }
}

impl State {
    /// It in a word or two.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::NotReady => "not Ready",
            Self::Blocked => "blocked",
            Self::CannotFetch => "cannot fetch",
            Self::Drifted => "drifted",
            Self::OnTheWay => "on the way",
            Self::Behind => "behind",
            Self::Paused => "paused",
            Self::Deleting => "being deleted",
            Self::Unpooled => "in no pool",
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
        assert!(State::ALL.is_sorted());
        let grades: Vec<Grade> = State::ALL.into_iter().map(State::grade).collect();
        assert_eq!((grades.first(), grades.last()), (Some(&Grade::Bad), Some(&Grade::Good)));
        let bad = grades.iter().take_while(|grade| **grade == Grade::Bad).count();
        assert!(grades[bad..].iter().all(|grade| *grade != Grade::Bad), "{grades:?}");
    }
}
