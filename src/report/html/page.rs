//! What a page says, as plain data. How it looks is the business of its neighbours.

use jiff::Timestamp;

use crate::report::error::ErrorMessage;
use crate::report::explain::Explanation;
use crate::review::Review;
use nodecfg_contract::names::{FleetName, NodeName, PoolName};
use nodecfg_planning::state::State;

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
    pub failures: Vec<FailureGroup>,
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

/// The name of a state in the style sheet. States that are never on one page may share one.
pub(super) fn class(state: State) -> &'static str {
    match state {
        State::Failed => "failed",
        State::NotReady => "notready",
        State::Blocked => "blocked",
        State::CannotFetch => "unfetched",
        State::Astray | State::Drifted => "astray",
        State::InFlight | State::OnTheWay => "flight",
        State::RolledBack => "back",
        State::NotStarted => "unstarted",
        State::Behind => "behind",
        State::Paused => "paused",
        State::Skipped => "skipped",
        State::Gone | State::Deleting => "gone",
        State::Unpooled => "unpooled",
        State::Settled => "settled",
        State::Converged => "converged",
    }
}

/// One kind of failure.
#[derive(Debug, Clone)]
pub struct FailureGroup {
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
