//! YAML as Go programs read it, with the place of every value.
//!
//! Kubernetes and most of its tools read YAML with sigs.k8s.io/yaml, which is yaml.v2 and a conversion to JSON. That
//! is YAML 1.1 with exceptions: `on` is true, `010` is eight, `1:30` is text, the last of several equal keys wins,
//! and a merge key overrides the keys above it. This crate accepts and refuses the same texts, with the same messages,
//! and returns the same values.
//!
//! ```
//! use go_yaml::{Limits, ProblemKind, Reading, parse};
//!
//! let parsed = parse("image: nginx\nprivileged: no\nmode: 0640\n", &Limits::default());
//! let root = parsed.root.expect("Go reads the text");
//! let mode = root.get("mode").expect("the key exists");
//! assert_eq!(mode.read(), Some(Reading::Int(0o640)));
//! assert_eq!((mode.span.line, mode.span.column), (3, 7));
//!
//! // The problems name what other readers read differently.
//! let problem = &parsed.problems[0];
//! assert!(matches!(problem.kind, ProblemKind::AmbiguousScalar(_)));
//! assert_eq!(problem.to_string(), "`no` is the boolean false to Go and the text \"no\" to YAML 1.2 readers");
//! assert_eq!(problem.span.line, 2);
//!
//! // A text that Go refuses has no tree. The message is libyaml's.
//! let parsed = parse("image: nginx: latest\n", &Limits::default());
//! assert!(parsed.root.is_none());
//! assert_eq!(parsed.problems[0].to_string(), "mapping values are not allowed in this context");
//! assert_eq!(parsed.problems[0].span.column, 13);
//! ```
//!
//! The crate has no dependencies, never panics and never recurses deeper than the tree. [`Limits`] bound its memory,
//! and its time is proportional to the text and to the values.

mod compose;
mod events;
mod problem;
mod scalar;
mod tree;

pub use problem::{Problem, ProblemKind};
pub use scalar::{Ambiguity, Reading, Scalar};
pub use tree::{Entry, Node, Span, Value};

/// Limits of a tree, with every alias expanded.
///
/// ```
/// let limits = go_yaml::Limits { values: 1000, ..Default::default() };
/// assert!(go_yaml::parse(&"- x\n".repeat(1000), &limits).root.is_none());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The number of levels. The tree has null instead of deeper values. More than 256 count as 256.
    pub depth: usize,
    /// The number of values. Anchored values count twice.
    pub values: usize,
    /// The bytes of scalar text. Anchored text counts twice.
    pub text: usize,
    /// The bytes of a key in the notation of [`Reading`]. A longer key is only a problem, not a reason to refuse the
    /// text. YAML limits a key on one line to 1024 characters.
    pub key: usize,
}

impl Default for Limits {
    /// 64 levels, 100,000 values, 8 MiB of text, and 1000 bytes for a key.
    fn default() -> Self {
        Self { depth: 64, values: 100_000, text: 8 << 20, key: 1000 }
    }
}

/// The result of parsing a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// The first document as Go reads it. `None` if Go refuses the text, or if it exceeds the limits.
    pub root: Option<Node>,
    /// All problems, in the order in which the values end.
    pub problems: Vec<Problem>,
}

/// Parses the first document of a text.
#[must_use]
pub fn parse(text: &str, limits: &Limits) -> Parsed {
    compose::parse(text, limits)
}

/// Runs the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
