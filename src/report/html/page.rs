//! What a page says, as plain data. How it looks is the business of its neighbours.

use jiff::Timestamp;

use crate::names::{NodeName, PoolName};
use crate::report::error::ErrorMessage;
use crate::report::explain::Explanation;
use crate::review::Review;

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

/// How a node is, as coarsely as colours and shapes can tell. In the order of who is looked at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// It failed, timed out, or its assignment was refused.
    Failed,
    /// It cannot be brought to what it shall run.
    Blocked,
    /// It points elsewhere than it shall, by somebody else's hand or because nobody synced.
    Astray,
    /// It is on its way.
    InFlight,
    /// Its turn has not come.
    NotStarted,
    /// It is left alone on purpose.
    Skipped,
    /// It left the cluster.
    Gone,
    /// It runs what it shall, and did so before.
    Settled,
    /// It made its way and converged.
    Converged,
}

impl State {
    /// All of them, in order.
    pub const ALL: [Self; 9] = [
        Self::Failed,
        Self::Blocked,
        Self::Astray,
        Self::InFlight,
        Self::NotStarted,
        Self::Skipped,
        Self::Gone,
        Self::Settled,
        Self::Converged,
    ];

    /// Whether nobody needs to look at it.
    #[must_use]
    pub fn is_good(self) -> bool {
        matches!(self, Self::Converged | Self::Settled | Self::Skipped | Self::Gone)
    }

    /// It in a word or two.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Blocked => "blocked",
            Self::Astray => "points elsewhere",
            Self::InFlight => "in flight",
            Self::NotStarted => "not started",
            Self::Skipped => "skipped",
            Self::Gone => "gone",
            Self::Settled => "as wanted",
            Self::Converged => "converged",
        }
    }

    /// Its name in the style sheet.
    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Blocked => "blocked",
            Self::Astray => "astray",
            Self::InFlight => "flight",
            Self::NotStarted => "unstarted",
            Self::Skipped => "skipped",
            Self::Gone => "gone",
            Self::Settled => "settled",
            Self::Converged => "converged",
        }
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
    /// They: their pool and their name.
    pub nodes: Vec<(PoolName, NodeName)>,
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
