//! Readers of values that are independent of any format.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::{bad_value, fix_ambiguous_boolean, text, wrong_type};
use kubelet_config::document::{Node, Reading};
use kubelet_config::finding::{Finding, Place};
use kubelet_config::spelling::nearest;
use kubelet_config::{duration, units};

/// A value of a field.
pub(crate) trait ReadField: Clone {
    /// Type with the JSON Schema of the value.
    type Schema: JsonSchema;
    /// Whether null is a value. As in Kubernetes, it otherwise means that the field is unset.
    const TAKES_NULL: bool = false;

    /// Reads a value at a path. `None`, with a finding, if it is invalid.
    fn read(node: &Node, path: &str, findings: &mut Vec<Finding>) -> Option<Self>;

    /// The value as a file writes it, for defaults.
    fn notation(&self) -> String {
        String::new()
    }
}

impl ReadField for bool {
    type Schema = Self;

    fn read(node: &Node, path: &str, findings: &mut Vec<Finding>) -> Option<Self> {
        if let Some(Reading::Bool(value)) = node.reading() {
            fix_ambiguous_boolean(node, findings);
            return Some(value);
        }
        findings.extend(wrong_type(path, "a boolean", node));
        None
    }

    fn notation(&self) -> String {
        self.to_string()
    }
}

/// A number of nodes.
impl ReadField for u32 {
    type Schema = Self;

    fn read(node: &Node, path: &str, findings: &mut Vec<Finding>) -> Option<Self> {
        integer(node, path, "a number of nodes", findings)
    }

    fn notation(&self) -> String {
        self.to_string()
    }
}

impl ReadField for i64 {
    type Schema = Self;

    fn read(node: &Node, path: &str, findings: &mut Vec<Finding>) -> Option<Self> {
        integer(node, path, "a whole number of 64 bits", findings)
    }

    fn notation(&self) -> String {
        self.to_string()
    }
}

/// Reads a whole number. A value that does not fit `T` is a finding, which describes the range of `T` as `bounds`.
fn integer<T: TryFrom<i128>>(node: &Node, path: &str, bounds: &str, findings: &mut Vec<Finding>) -> Option<T> {
    let Some(Reading::Int(value)) = node.reading() else {
        findings.extend(wrong_type(path, "a whole number", node));
        return None;
    };
    let number = T::try_from(value).ok();
    if number.is_none() {
        let help = if value < 0 { "write 0, or a larger number" } else { "write a smaller number" };
        findings.push(bad_value(path, node, &format!("{value} is not {bounds}")).help(help));
    }
    number
}

impl ReadField for String {
    type Schema = Self;

    fn read(node: &Node, path: &str, findings: &mut Vec<Finding>) -> Option<Self> {
        text(node, path, findings).map(str::to_owned)
    }
}

/// Schema of a duration in Go's syntax.
pub(crate) enum GoDuration {}

impl JsonSchema for GoDuration {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": r"^\+?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$",
            "description": "A duration in Go's syntax, such as 30s, 10m or 1h30m.",
        })
    }
}

impl ReadField for Duration {
    type Schema = GoDuration;

    fn read(node: &Node, path: &str, findings: &mut Vec<Finding>) -> Option<Self> {
        let Some(text) = node.text() else {
            findings.extend(wrong_type(path, "a duration such as 10m", node));
            return None;
        };
        duration::parse(text)
            .map_err(|problem| {
                let problem = problem.split("; ").next().unwrap_or(problem);
                findings.push(bad_value(path, node, &format!("{text:?} {problem}")).help(units::duration_help(text)));
            })
            .ok()
    }

    fn notation(&self) -> String {
        duration::format(*self)
    }
}

/// Reads a text that is one of several names. `what` names the kind of value in the finding.
pub(crate) fn choice<T: Copy>(
    node: &Node,
    path: &str,
    what: &str,
    known: &[(&str, T)],
    findings: &mut Vec<Finding>,
) -> Option<T> {
    let name = text(node, path, findings)?;
    let found = known.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    if found.is_none() {
        let names = || known.iter().map(|(name, _)| *name);
        let help = match nearest(name, names()) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("use one of {}", names().collect::<Vec<_>>().join(", ")),
        };
        findings.push(bad_value(path, node, &format!("unknown {what} {name:?}")).help(help));
    }
    found
}

/// Implements [`ReadField`] for enums of which a file writes the name.
macro_rules! choices {
    ($($type:ty: $what:literal, $known:expr;)+) => {$(
        impl $crate::fields::ReadField for $type {
            type Schema = Self;

            fn read(
                node: &kubelet_config::document::Node,
                path: &str,
                findings: &mut Vec<kubelet_config::finding::Finding>,
            ) -> Option<Self> {
                $crate::fields::choice(node, path, $what, &$known, findings)
            }

            fn notation(&self) -> String {
                $known.into_iter().find(|(_, value)| value == self).map_or("", |(name, _)| name).to_owned()
            }
        }
    )+};
}
pub(crate) use choices;

/// Reads a text and parses it. `help` is the fix for a text with a problem.
pub(crate) fn parsed<T>(
    node: &Node,
    path: &str,
    parse: impl Fn(&str) -> Result<T, String>,
    help: &str,
    findings: &mut Vec<Finding>,
) -> Option<T> {
    let text = text(node, path, findings)?;
    parse(text).map_err(|problem| findings.push(bad_value(path, node, &format!("{text:?} {problem}")).help(help))).ok()
}

/// Entries of the JSON Schema of a text that is a DNS label.
pub(crate) fn dns_label_schema() -> Value {
    json!({"minLength": 1, "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"})
}

/// Items of a list, each with its path.
pub(crate) fn items<'n>(
    node: &'n Node,
    path: &str,
    findings: &mut Vec<Finding>,
) -> impl Iterator<Item = (String, &'n Node)> + use<'n> {
    let list = node.sequence();
    if list.is_none() {
        findings.extend(wrong_type(path, "a list", node));
    }
    let path = path.to_owned();
    list.into_iter().flatten().enumerate().map(move |(at, node)| (format!("{path}[{at}]"), node))
}

/// Path of a list, from that of an item.
pub(crate) fn path_of_list(item: &str) -> &str {
    item.rsplit_once('[').map_or(item, |(list, _)| list)
}

impl<T: ReadField> ReadField for Vec<T> {
    type Schema = Vec<T::Schema>;

    fn read(node: &Node, path: &str, findings: &mut Vec<Finding>) -> Option<Self> {
        Some(items(node, path, findings).filter_map(|(path, node)| T::read(node, &path, findings)).collect())
    }
}

impl<T: ReadField + Ord> ReadField for BTreeSet<T> {
    type Schema = Vec<T::Schema>;

    fn read(node: &Node, path: &str, findings: &mut Vec<Finding>) -> Option<Self> {
        Vec::read(node, path, findings).map(|list| list.into_iter().collect())
    }
}

/// Maximum number of [`Entries`] of one list.
const MAX_ENTRIES: usize = 50;

/// A list of limited length, with its position.
#[derive(Debug, Clone)]
pub struct Entries<T> {
    /// The entries.
    pub entries: Vec<T>,
    /// Position of the list.
    pub place: Place,
}

impl<T: ReadField> ReadField for Entries<T> {
    type Schema = Vec<T::Schema>;

    fn read(node: &Node, path: &str, findings: &mut Vec<Finding>) -> Option<Self> {
        let items: Vec<_> = items(node, path, findings).collect();
        if items.len() > MAX_ENTRIES {
            let problem = format!("{} entries, at most {MAX_ENTRIES} are allowed", items.len());
            findings.push(bad_value(path, node, &problem).help("remove entries that have no effect"));
        }
        let read = |(path, node): (String, &Node)| T::read(node, &path, findings);
        let entries = items.into_iter().take(MAX_ENTRIES).filter_map(read).collect();
        Some(Self { entries, place: node.place.clone() })
    }
}
