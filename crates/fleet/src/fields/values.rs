//! Readers of values that are independent of any format.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::{At, fix_ambiguous_boolean};
use kubelet_config::document::{Node, Reading};
use kubelet_config::finding::{Place, nearest};
use kubelet_config::values::{duration, units};

/// A value of a field.
pub(crate) trait ReadField: Clone {
    /// Type with the JSON Schema of the value.
    type Schema: JsonSchema;
    /// Whether null is a value. As in Kubernetes, it otherwise means that the field is unset.
    const TAKES_NULL: bool = false;

    /// Reads a value at a path. `None`, with a finding, if it is invalid.
    fn read(at: &mut At<'_>) -> Option<Self>;

    /// The value as a file writes it, for defaults.
    fn notation(&self) -> String {
        String::new()
    }
}

impl ReadField for bool {
    type Schema = Self;

    fn read(at: &mut At<'_>) -> Option<Self> {
        let Some(Reading::Bool(value)) = at.node.reading() else {
            at.wrong_type("a boolean");
            return None;
        };
        fix_ambiguous_boolean(at.node, at.findings);
        Some(value)
    }

    fn notation(&self) -> String {
        self.to_string()
    }
}

/// A number of nodes.
impl ReadField for u32 {
    type Schema = Self;

    fn read(at: &mut At<'_>) -> Option<Self> {
        integer(at, "a number of nodes")
    }

    fn notation(&self) -> String {
        self.to_string()
    }
}

impl ReadField for i64 {
    type Schema = Self;

    fn read(at: &mut At<'_>) -> Option<Self> {
        integer(at, "a whole number of 64 bits")
    }

    fn notation(&self) -> String {
        self.to_string()
    }
}

/// Reads a whole number. A value that does not fit `T` is a finding, which describes the range of `T` as `bounds`.
fn integer<T: TryFrom<i128>>(at: &mut At<'_>, bounds: &str) -> Option<T> {
    let Some(Reading::Int(value)) = at.node.reading() else {
        at.wrong_type("a whole number");
        return None;
    };
    let number = T::try_from(value).ok();
    if number.is_none() {
        let help = if value < 0 { "write 0, or a larger number" } else { "write a smaller number" };
        at.refuse(&format!("{value} is not {bounds}"), help);
    }
    number
}

impl ReadField for String {
    type Schema = Self;

    fn read(at: &mut At<'_>) -> Option<Self> {
        at.text().map(str::to_owned)
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

    fn read(at: &mut At<'_>) -> Option<Self> {
        if at.node.text().is_none() {
            at.wrong_type("a duration such as 10m");
            return None;
        }
        at.parse(|text| {
            let problem = |problem: &str| format!("{text:?} {}", problem.split("; ").next().unwrap_or(problem));
            duration::parse(text).map_err(|error| (problem(error), units::duration_help(text)))
        })
    }

    fn notation(&self) -> String {
        duration::format(*self)
    }
}

/// Reads a text that is one of several names. `what` names the kind of value in the finding.
pub(crate) fn choice<T: Copy>(at: &mut At<'_>, what: &str, known: &[(&str, T)]) -> Option<T> {
    at.parse(|name| {
        let found = known.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        let names = || known.iter().map(|(name, _)| *name);
        let near = || nearest(name, names()).map(|near| format!("did you mean {near}?"));
        let help = || near().unwrap_or_else(|| format!("use one of {}", names().collect::<Vec<_>>().join(", ")));
        found.ok_or_else(|| (format!("unknown {what} {name:?}"), help()))
    })
}

/// Implements [`ReadField`] for enums of which a file writes the name.
macro_rules! choices {
    ($($type:ty: $what:literal, $known:expr;)+) => {$(
        impl $crate::fields::ReadField for $type {
            type Schema = Self;

            fn read(at: &mut $crate::fields::At<'_>) -> Option<Self> {
                $crate::fields::choice(at, $what, &$known)
            }

            fn notation(&self) -> String {
                $known.into_iter().find(|(_, value)| value == self).map_or("", |(name, _)| name).to_owned()
            }
        }
    )+};
}
pub(crate) use choices;

/// Entries of the JSON Schema of a text that is a DNS label.
pub(crate) fn dns_label_schema() -> Value {
    json!({"minLength": 1, "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"})
}

impl<T: ReadField> ReadField for Vec<T> {
    type Schema = Vec<T::Schema>;

    fn read(at: &mut At<'_>) -> Option<Self> {
        Some(at.items(T::read))
    }
}

impl<T: ReadField + Ord> ReadField for BTreeSet<T> {
    type Schema = Vec<T::Schema>;

    fn read(at: &mut At<'_>) -> Option<Self> {
        Some(at.items(T::read).into_iter().collect())
    }
}

/// A value with its position.
#[derive(Debug, Clone)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// Position of the value.
    pub place: Place,
}

impl<T: ReadField> ReadField for Located<T> {
    type Schema = T::Schema;

    fn read(at: &mut At<'_>) -> Option<Self> {
        Some(Self { value: T::read(at)?, place: at.node.place.clone() })
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

    fn read(at: &mut At<'_>) -> Option<Self> {
        let (length, mut left) = (at.node.sequence().map_or(0, <[Node]>::len), MAX_ENTRIES);
        if length > MAX_ENTRIES {
            let problem = format!("{length} entries, at most {MAX_ENTRIES} are allowed");
            at.refuse(&problem, "remove entries that have no effect");
        }
        let entries = at.items(|item| {
            left = left.checked_sub(1)?;
            T::read(item)
        });
        Some(Self { entries, place: at.node.place.clone() })
    }
}
