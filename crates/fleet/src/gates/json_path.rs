//! JSONPaths of gates: names and indexes, as kubectl reads them. A path selects at most one value.
//!
//! Author of a path is the author of a pull request, so the notation has no part whose cost exceeds the length of the
//! text: no filters, functions, wildcards, slices, unions or descendants. kubectl's rules for names are in
//! k8s.io/client-go, `util/jsonpath/parser.go`. Unlike there, a dot within quotes belongs to the name.

use std::fmt;

use nodecfg_contract::printable::at_most;
use serde_json::Value;

/// Limit of the steps of a path. serde_json reads no document with more than 127 levels.
pub const MAX_STEPS: usize = 64;
/// Limit of the characters of a path that an error quotes.
const QUOTED: usize = 40;

/// A path to one value of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonPath(Vec<Step>);

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// Value of an object.
    Name(String),
    /// Item of a list; -1 is the last one.
    Index(i64),
}

/// Reason why a text is no path. Messages continue a sentence that begins with the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// A part of JSONPath that may select several values.
    #[error("has {0}; a path has names and indexes only")]
    Unsupported(&'static str),
    /// The text is neither a name nor an index from here on.
    #[error("has an invalid path: {0:?} does not begin with .<name>, ['<name>'] or [<index>]")]
    Invalid(String),
    /// More steps than [`MAX_STEPS`].
    #[error("has a path of more than {MAX_STEPS} steps")]
    TooManySteps,
    /// The path selects the whole document.
    #[error("has an empty path")]
    Empty,
}

impl JsonPath {
    /// Reads `.status.conditions[0].status`, `.metadata.labels['a.b/c']` or `.metadata.labels.a\.b/c`. `$` may precede it.
    ///
    /// # Errors
    /// The first part that is no name or index.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let mut rest = text.strip_prefix('$').unwrap_or(text);
        let mut steps = Vec::new();
        while !rest.is_empty() {
            if steps.len() == MAX_STEPS {
                return Err(PathError::TooManySteps);
            }
            let step = rest.strip_prefix('.').map(name).or_else(|| rest.strip_prefix('[').map(bracket));
            let invalid = |unsupported: Option<&'static str>| match unsupported {
                Some(part) => PathError::Unsupported(part),
                None => PathError::Invalid(at_most(rest, QUOTED)),
            };
            let (step, after) = step.unwrap_or(Err(None)).map_err(invalid)?;
            steps.push(step);
            rest = after;
        }
        if steps.is_empty() { Err(PathError::Empty) } else { Ok(Self(steps)) }
    }

    /// The value at the path.
    #[must_use]
    pub fn select<'v>(&self, document: &'v Value) -> Option<&'v Value> {
        self.0.iter().try_fold(document, |value, step| match step {
            Step::Name(name) => value.as_object()?.get(name),
            Step::Index(index) => {
                let items = value.as_array()?;
                let distance = usize::try_from(index.unsigned_abs()).ok()?;
                items.get(if *index < 0 { items.len().checked_sub(distance)? } else { distance })
            }
        })
    }

    /// Reports whether the path leads into the status of an object.
    #[must_use]
    pub fn is_of_status(&self) -> bool {
        matches!(self.0.first(), Some(Step::Name(name)) if name == "status")
    }
}

impl fmt::Display for JsonPath {
    /// Notation of kubectl, without braces: `.status.conditions[0].status`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.0 {
            match step {
                Step::Name(name) if name.chars().all(is_of_name) => write!(f, ".{name}")?,
                Step::Name(name) => write!(f, "['{}']", name.replace('\\', r"\\").replace('\'', r"\'"))?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// A step and the text after it; else the unsupported part of JSONPath with which it begins, if any.
type Read<'t> = Result<(Step, &'t str), Option<&'static str>>;

/// Characters of a name without quotes or backslashes.
fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '/')
}

/// Reads the name after a dot. A backslash takes the special meaning of the next character away, but that of a brace: a
/// path in braces ends at the first `}=`, so no name may have both.
fn name(text: &str) -> Read<'_> {
    let mut name = String::new();
    let mut rest = text.chars();
    loop {
        let after = rest.as_str();
        match rest.next() {
            Some('\\') => name.push(rest.next().filter(|c| *c != '}').ok_or(None)?),
            Some(c) if is_of_name(c) => name.push(c),
            Some('*') => return Err(Some("a wildcard (*)")),
            Some('(') => return Err(Some("a function")),
            Some('.') if name.is_empty() => return Err(Some("a descendant (..)")),
            None | Some('.' | '[') if !name.is_empty() => return Ok((Step::Name(name), after)),
            _ => return Err(None),
        }
    }
}

/// Reads what follows an opening bracket, up to the closing one.
fn bracket(text: &str) -> Read<'_> {
    if let Some(quote @ ('\'' | '"')) = text.chars().next() {
        return quoted(text.get(1..).unwrap_or_default(), quote);
    }
    let (inner, after) = text.split_once(']').unwrap_or((text, ""));
    match inner.chars().next() {
        Some('?') => Err(Some("a filter ([?…])")),
        Some('*') => Err(Some("a wildcard ([*])")),
        Some('(') => Err(Some("an expression ([(…)])")),
        _ if inner.contains(',') => Err(Some("a union ([…,…])")),
        _ if inner.contains(':') => Err(Some("a slice ([…:…])")),
        _ if inner.len() == text.len() => Err(None),
        _ => Ok((Step::Index(index(inner).ok_or(None)?), after)),
    }
}

/// Reads a quoted name with the closing bracket. A backslash precedes a quote, a backslash, or a dot as in kubectl.
fn quoted(text: &str, quote: char) -> Read<'_> {
    let mut name = String::new();
    let mut rest = text.chars();
    loop {
        match rest.next().ok_or(None)? {
            '\\' => name.push(rest.next().filter(|c| matches!(c, '\'' | '"' | '\\' | '.')).ok_or(None)?),
            c if c == quote => break,
            c => name.push(c),
        }
    }
    match rest.as_str().strip_prefix(']') {
        Some(after) if !name.is_empty() => Ok((Step::Name(name), after)),
        None if rest.as_str().starts_with(',') => Err(Some("a union ([…,…])")),
        _ => Err(None),
    }
}

/// Reads a whole number, which has no plus sign.
fn index(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

#[cfg(test)]
#[path = "json_path_tests.rs"]
mod tests;
