//! What a page says, as plain data. How it looks is the business of its neighbours.

use std::cmp::Ordering;

use jiff::Timestamp;

use crate::report::error::ErrorMessage;
use crate::report::explain::Explanation;
use crate::review::Review;
use crate::status::State as Now;
use nodecfg_contract::names::{FleetName, NodeName, PoolName};

/// A page.
#[derive(Debug, Clone)]
pub struct Page {
    /// The command that it is about.
    pub command: &'static str,
    /// Whether all is as it shall be.
    pub good: bool,
    /// That in a sentence.
    pub verdict: String,
    /// What it is about: fleet, revision, cluster, each with what it is.
    pub facts: Vec<(&'static str, String)>,
    /// When it was made.
    pub made: Timestamp,
    /// What cut the command short, or kept it from beginning.
    pub errors: Vec<ErrorMessage>,
    /// What else somebody should know at once.
    pub notices: Vec<Notice>,
    /// The pools with their nodes, in the order in which they are shown.
    pub pools: Vec<Pool>,
    /// What the columns of nodes hold, after the node and its state and before what it says.
    pub columns: &'static [&'static str],
    /// What failed, each kind once.
    pub failures: Vec<Failure>,
    /// How the rollout went; unset where nothing was watched.
    pub timeline: Option<Timeline>,
    /// What was to be done; unset where that is not known, or nothing.
    pub review: Option<Review>,
}

/// Something that somebody should know at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// What kind of thing it is, in a word.
    pub label: &'static str,
    /// What there is to know.
    pub text: String,
}

/// A pool, or all nodes that belong to none.
#[derive(Debug, Clone)]
pub struct Pool {
    /// Its name; unset for nodes in no pool.
    pub name: Option<PoolName>,
    /// Its fleet, where that is not the page's own.
    pub fleet: Option<FleetName>,
    /// What there is to say of it as a whole: that it stopped, or is paused.
    pub remarks: Vec<String>,
    /// Its nodes by name.
    pub nodes: Vec<Node>,
}

/// A node.
#[derive(Debug, Clone)]
pub struct Node {
    /// Its name.
    pub name: NodeName,
    /// How it is.
    pub state: State,
    /// That in the words of the command.
    pub word: String,
    /// The values of the page's columns; an empty one is not known.
    pub cells: Vec<String>,
    /// What it says, or what there is to say of it.
    pub says: String,
}

/// How a node is: a colour, a shape and a word. What a node is at one look has the words and the order of
/// [`status::State`](Now); what only a run can tell stands between those.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// As one look at it says.
    Of(Now),
    /// Somebody else pointed it elsewhere during the rollout.
    Astray,
    /// It was on its way when the run ended.
    InFlight,
    /// It was pointed back at what it had before.
    RolledBack,
    /// Its turn has not come.
    NotStarted,
    /// It is left alone on purpose.
    Skipped,
    /// It left the cluster.
    Gone,
    /// It runs what it shall, and did so before the run.
    Settled,
}

impl State {
    /// It failed, timed out, or its assignment was refused.
    pub const FAILED: Self = Self::Of(Now::Failed);
    /// It cannot be brought to what it shall run.
    pub const BLOCKED: Self = Self::Of(Now::Blocked);
    /// It runs what it shall.
    pub const CONVERGED: Self = Self::Of(Now::Converged);

    /// Its place among the states of one look: beside which, and whether before (0) or after it.
    fn place(self) -> (Now, u8) {
        match self {
            Self::Astray => (Now::Drifted, 0),
            Self::InFlight => (Now::OnTheWay, 0),
            Self::Settled => (Now::Converged, 0),
            Self::Of(state) => (state, 1),
            Self::RolledBack => (Now::OnTheWay, 2),
            Self::NotStarted => (Now::OnTheWay, 3),
            Self::Skipped => (Now::Paused, 2),
            Self::Gone => (Now::Paused, 3),
        }
    }

    /// It in a word or two.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Of(state) => state.word(),
            Self::Astray => "changed by others",
            Self::InFlight => "in flight",
            Self::RolledBack => "rolled back",
            Self::NotStarted => "not started",
            Self::Skipped => "skipped",
            Self::Gone => "gone",
            Self::Settled => "as wanted",
        }
    }

    /// Its name in the style sheet. States that are never on one page may share one.
    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Of(Now::Failed) => "failed",
            Self::Of(Now::NotReady) => "notready",
            Self::Of(Now::Blocked) => "blocked",
            Self::Of(Now::CannotFetch) => "unfetched",
            Self::Astray | Self::Of(Now::Drifted) => "astray",
            Self::InFlight | Self::Of(Now::OnTheWay) => "flight",
            Self::RolledBack => "back",
            Self::NotStarted => "unstarted",
            Self::Of(Now::Behind) => "behind",
            Self::Of(Now::Paused) => "paused",
            Self::Skipped => "skipped",
            Self::Gone | Self::Of(Now::Deleting) => "gone",
            Self::Of(Now::Unpooled) => "unpooled",
            Self::Settled => "settled",
            Self::Of(Now::Converged) => "converged",
        }
    }
}

impl Ord for State {
    /// Who is looked at first comes first.
    fn cmp(&self, other: &Self) -> Ordering {
        self.place().cmp(&other.place())
    }
}

impl PartialOrd for State {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// One kind of failure.
#[derive(Debug, Clone)]
pub struct Failure {
    /// What happened, in a word or two.
    pub label: &'static str,
    /// What it means, what causes it and where to look.
    pub explanation: Option<Explanation>,
    /// What was said, in the words of the nodes or of the API server, each with the nodes that said it.
    pub said: Vec<Said>,
}

/// What nodes said.
#[derive(Debug, Clone)]
pub struct Said {
    /// Their words.
    pub words: String,
    /// They: their pool, if they are in one, and their name.
    pub nodes: Vec<(Option<PoolName>, NodeName)>,
}

/// How a rollout went.
#[derive(Debug, Clone)]
pub struct Timeline {
    /// When it began.
    pub start: Timestamp,
    /// How long it was watched, in seconds.
    pub seconds: f64,
    /// The pools of which nodes moved, by name.
    pub tracks: Vec<Track>,
}

/// How the rollout of one pool went.
#[derive(Debug, Clone)]
pub struct Track {
    /// The pool.
    pub pool: PoolName,
    /// How many of its nodes were to move.
    pub total: usize,
    /// The way of each node that moved, by when it began, then by name.
    pub spans: Vec<Span>,
    /// What happened to the pool as a whole, in order.
    pub marks: Vec<Mark>,
}

/// The way of a node.
#[derive(Debug, Clone)]
pub struct Span {
    /// The node.
    pub node: NodeName,
    /// When it was assigned, in seconds since the beginning; 0 when it was before.
    pub from: f64,
    /// When it converged, failed, or was no longer watched.
    pub to: f64,
    /// How it ended.
    pub end: State,
}

/// Something that happened to a pool as a whole.
#[derive(Debug, Clone)]
pub struct Mark {
    /// When, in seconds since the beginning.
    pub at: f64,
    /// What.
    pub text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_in_the_one_order_and_each_has_its_own_place() {
        let run = [
            State::Astray,
            State::InFlight,
            State::RolledBack,
            State::NotStarted,
            State::Skipped,
            State::Gone,
            State::Settled,
        ];
        let of: Vec<State> = Now::ALL.into_iter().map(State::Of).collect();
        assert!(of.is_sorted() && run.is_sorted());
        let places: std::collections::BTreeSet<State> = of.iter().copied().chain(run).collect();
        assert_eq!(places.len(), of.len() + run.len());
    }
}
