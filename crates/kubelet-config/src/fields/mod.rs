//! The table of fields, from the sources of Kubernetes since 1.12 (`crates/kubelet-config/data/fields.csv`): path,
//! type, kubelet minors, default, allowed values, feature gate, replacement and description.
//!
//! A path joins names with dots. `[]` stands for the items of a list, and `{}` for the values of a map with free
//! keys.
//!
//! Types, defaults and versions come from `pkg/kubelet/apis/config/v1beta1` and
//! `staging/src/k8s.io/kubelet/config/v1beta1`. Where upstream's comments differ from its code, the table follows the
//! code and `description` mentions the difference.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value as Json;

use crate::Minor;
use crate::table;

mod format;
mod path;
mod schema;
pub mod secrets;
mod tls;

pub use crate::table::Spans;
pub use format::Format;
pub(crate) use path::resolve;
pub use path::{NotFound, Target, find, plain};
pub use schema::schema;
pub use tls::{TlsKind, TlsName, tls_names};

static TEXT: &str = include_str!("../../data/fields.csv");
static FIELDS: LazyLock<BTreeMap<String, Field>> = LazyLock::new(|| {
    let fields = table::rows(TEXT).filter_map(|cells| field(&cells));
    fields.map(|field| (field.path.clone(), field)).collect()
});

/// The fields of each object in the order of the table, by the object's path. The path of the root is empty.
static CHILDREN: LazyLock<BTreeMap<&str, Vec<&Field>>> = LazyLock::new(|| {
    let mut children: BTreeMap<&str, Vec<&Field>> = BTreeMap::new();
    for field in table::rows(TEXT).filter_map(|cells| lookup(cells.first()?)) {
        let (parent, name) = field.path.rsplit_once('.').unwrap_or(("", &field.path));
        if !name.ends_with([']', '}']) {
            children.entry(parent).or_default().push(field);
        }
    }
    children
});

/// The types that the kubelet's decoder accepts for a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FieldType {
    /// Text.
    String,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// A boolean.
    Boolean,
    /// A map.
    Object,
    /// A list.
    Array,
    /// Text in Go's duration syntax.
    Duration,
    /// A `resource.Quantity`: text or a number.
    Quantity,
}

impl FieldType {
    /// Returns a phrase for messages.
    #[must_use]
    pub fn phrase(self) -> &'static str {
        match self {
            Self::String => "text",
            Self::Integer => "a whole number",
            Self::Number => "a number",
            Self::Boolean => "a boolean",
            Self::Object => "a map",
            Self::Array => "a list",
            Self::Duration => "a duration",
            Self::Quantity => "a quantity such as 100Mi",
        }
    }
}

/// One field of KubeletConfiguration.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// The path.
    pub path: String,
    /// The accepted types, by version.
    pub types: Spans<Vec<FieldType>>,
    /// The first minor in which the field is a Go pointer. A pointer keeps an explicit zero value; in other fields 0,
    /// "" and 0s mean the default.
    pub pointer_since: Option<Minor>,
    /// The first minor that has the field. 1.12 may stand for an earlier one.
    pub since: Minor,
    /// The last minor that has the field. [`NEWEST`](crate::NEWEST) means that it still exists.
    pub until: Minor,
    /// The default that the kubelet's code sets for a field of a file, by version. Null means no default.
    pub default: Spans<Json>,
    /// The allowed values, by version. Empty if they are not listed.
    pub allowed: Spans<Vec<String>>,
    /// The minor that deprecated the field.
    pub deprecated_since: Option<Minor>,
    /// The feature gate that the field requires, by version. Without the gate the field is refused or has no effect.
    pub gate: Spans<String>,
    /// The format of a text or number.
    pub format: Option<Format>,
    /// The allowed numbers, by version. They include zero where zero means the default.
    pub range: Spans<Range>,
    /// The allowed keys of a map with free keys, by version. `name-*` stands for all keys with that prefix. `*` means
    /// that the kubelet accepts others too. Empty if they are not listed.
    pub keys: Spans<Vec<String>>,
    /// One sentence with the replacement of a deprecated field.
    pub replaced_by: Option<String>,
    /// A short description.
    pub description: String,
}

/// The numbers that a field allows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Range {
    /// The minimum.
    pub minimum: Option<i64>,
    /// True if the minimum itself is excluded.
    pub exclusive: bool,
    /// The maximum.
    pub maximum: Option<i64>,
    /// The divisor of all allowed numbers.
    pub multiple_of: Option<i64>,
}

impl FieldType {
    /// Reports whether the type is a number in JSON.
    #[must_use]
    pub fn is_number(self) -> bool {
        matches!(self, Self::Integer | Self::Number)
    }
}

impl Field {
    /// Returns the field's own name: the last part of its path.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.rsplit('.').next().unwrap_or_default()
    }

    /// Returns the largest whole number of the field's Go type; the decoder refuses larger ones.
    #[must_use]
    pub fn max_value(&self) -> i64 {
        match self.format {
            Some(Format::Int64) => i64::MAX,
            Some(Format::Uint32) => i64::from(u32::MAX),
            _ => i64::from(i32::MAX),
        }
    }

    /// Returns the smallest whole number of the field's Go type; the decoder refuses smaller ones.
    #[must_use]
    pub fn min_value(&self) -> i64 {
        match self.format {
            Some(Format::Int64) => i64::MIN,
            Some(Format::Uint32) => 0,
            _ => i64::from(i32::MIN),
        }
    }

    /// Reports whether null means unset. Only durations that are not Go pointers refuse null
    /// (`metav1.Duration.UnmarshalJSON` reads a text).
    pub(crate) fn allows_null(&self, minor: Minor) -> bool {
        self.types.at(minor).is_none_or(|types| *types != [FieldType::Duration]) || self.keeps_zero(minor)
    }

    /// Reports whether the field is deprecated in this version.
    #[must_use]
    pub fn is_deprecated_in(&self, minor: Minor) -> bool {
        self.deprecated_since.is_some_and(|since| since <= minor)
    }

    /// Reports whether this version has the field. Other versions drop it silently.
    #[must_use]
    pub fn is_known_to(&self, minor: Minor) -> bool {
        (self.since..=self.until).contains(&minor)
    }

    /// Reports whether an explicit zero value stays zero in this version. Otherwise it means the default.
    pub(crate) fn keeps_zero(&self, minor: Minor) -> bool {
        self.pointer_since.is_some_and(|since| since <= minor)
    }

    /// Returns the accepted types of all versions.
    #[must_use]
    pub fn any_types(&self) -> Vec<FieldType> {
        let mut types: Vec<_> = self.types.iter().flat_map(|(_, _, types)| types.iter().copied()).collect();
        types.sort_unstable();
        types.dedup();
        types
    }
}

/// Returns the field at a path of the table.
#[must_use]
pub fn lookup(path: &str) -> Option<&'static Field> {
    FIELDS.get(path)
}

/// Returns the field `key` of the object at `parent` (`""` for the root), or the values' field of a map with free
/// keys.
#[must_use]
pub fn child(parent: &str, key: &str) -> Option<&'static Field> {
    let path = join(parent, key);
    // A key with a dot must not match a field more than one level below.
    if !key.contains(['.', '[', '{'])
        && let Some(field) = lookup(&path)
    {
        return Some(field);
    }
    lookup(&format!("{parent}{{}}"))
}

/// Joins a path and a key as users write them, without quoting dots.
pub(crate) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// Returns the field of the items of the list at `parent`.
#[must_use]
pub fn items(parent: &str) -> Option<&'static Field> {
    lookup(&format!("{parent}[]"))
}

/// Returns the fields of the object at `parent` (`""` for the root), in the order of the table.
#[must_use]
pub fn children(parent: &str) -> &'static [&'static Field] {
    CHILDREN.get(parent).map_or(&[], Vec::as_slice)
}

/// Returns every field, ordered by path.
pub fn all() -> impl Iterator<Item = &'static Field> {
    FIELDS.values()
}

fn field(cells: &[String]) -> Option<Field> {
    let [
        path,
        types,
        pointer_since,
        since,
        until,
        default,
        allowed,
        deprecated_since,
        gate,
        format,
        range_cell,
        keys,
        replaced_by,
        description,
    ] = cells
    else {
        return None;
    };
    let texts = |values: &str| Some(values.split('|').map(str::to_owned).collect());
    Some(Field {
        path: path.clone(),
        types: Spans::read(types, |names| names.split('|').map(table::word).collect())?,
        pointer_since: table::minor(pointer_since),
        since: table::minor(since)?,
        until: table::minor(until)?,
        default: Spans::read(default, |json| serde_json::from_str(json).ok())?,
        allowed: Spans::read(allowed, texts)?,
        deprecated_since: table::minor(deprecated_since),
        gate: Spans::read(gate, |name| Some(name.to_owned()))?,
        format: if format.is_empty() { None } else { Some(table::word(format)?) },
        range: Spans::read(range_cell, range)?,
        keys: Spans::read(keys, texts)?,
        replaced_by: (!replaced_by.is_empty()).then(|| replaced_by.clone()),
        description: description.clone(),
    })
}

/// Parses `0..100`, `1..`, `>0..1` or `65536..4294967295/65536`.
fn range(text: &str) -> Option<Range> {
    let (text, multiple_of) = match text.split_once('/') {
        Some((text, multiple_of)) => (text, Some(multiple_of.parse().ok()?)),
        None => (text, None),
    };
    let (minimum, maximum) = text.split_once("..")?;
    let bound = |text: &str| if text.is_empty() { Some(None) } else { text.parse().ok().map(Some) };
    let exclusive = minimum.starts_with('>');
    Some(Range { minimum: bound(minimum.trim_start_matches('>'))?, exclusive, maximum: bound(maximum)?, multiple_of })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_of_fields_is_well_formed() {
        let head = "path,type,pointer_since,since,until,default,enum,deprecated_since,gate,format,range,keys,replaced_by,\
                    description";
        assert_eq!(TEXT.lines().next(), Some(head));
        assert_eq!(all().count(), TEXT.lines().count() - 1, "every line reads, and no path appears twice");
        let types = |path: &str| lookup(path).map(Field::any_types);
        for field in all() {
            let path = field.path.as_str();
            assert!(field.since <= field.until, "{path}");
            assert!(field.types.at(field.since).is_some() && field.types.at(field.until).is_some(), "{path}");
            assert!(
                field.description.ends_with('.') && field.description.len() > 10 && field.description.len() < 400,
                "{path} has a description"
            );
            assert!(field.replaced_by.is_none() || field.deprecated_since.is_some(), "{path}");
            for (_, _, one) in field.range.iter() {
                assert!(one.minimum.is_some(), "{path}");
                assert!(field.types.iter().all(|(_, _, types)| types.iter().any(|one| one.is_number())), "{path}");
            }
            for minor in Minor::all().filter(|minor| field.is_known_to(*minor)) {
                if let (Some(allowed), Some(Json::String(default))) = (field.allowed.at(minor), field.default.at(minor))
                {
                    assert!(default.is_empty() || allowed.contains(default), "{path}: the default is allowed");
                }
                if let Some(keys) = field.keys.at(minor) {
                    assert!(child(path, "any key").is_some(), "{path} has free keys");
                    let default = field.default.at(minor).and_then(Json::as_object);
                    assert!(default.into_iter().flatten().all(|(key, _)| keys.contains(key)), "{path}");
                }
            }
            if let Some(parent) = path.strip_suffix("[]") {
                assert_eq!(types(parent), Some(vec![FieldType::Array]), "{path}");
            } else if let Some(parent) = path.strip_suffix("{}") {
                assert_eq!(types(parent), Some(vec![FieldType::Object]), "{path}");
            } else if let Some((parent, name)) = path.rsplit_once('.') {
                assert_eq!(types(parent), Some(vec![FieldType::Object]), "{path}");
                assert!(children(parent).iter().any(|child| child.name() == name));
            }
            if field.any_types() == [FieldType::Array] {
                assert!(items(path).is_some(), "{path} has items");
            }
            if field.any_types() == [FieldType::Object] {
                let known = !children(path).is_empty() || child(path, "any key").is_some();
                assert!(known, "{path} has fields or free keys");
            }
        }
    }

    #[test]
    fn finds_fields() {
        let path = |field: Option<&'static Field>| field.map(|field| field.path.as_str());
        assert_eq!(path(child("", "maxPods")), Some("maxPods"));
        assert_eq!(path(child("", "MaxPods")), None);
        assert_eq!(path(child("", "authentication.x509")), None);
        assert_eq!(path(child("authentication.x509", "clientCAFile")), Some("authentication.x509.clientCAFile"));
        assert_eq!(path(child("evictionHard", "memory.available")), Some("evictionHard{}"));
        assert_eq!(path(child("reservedMemory[]", "limits")), Some("reservedMemory[].limits"));
        assert_eq!(path(child("reservedMemory[].limits", "memory")), Some("reservedMemory[].limits{}"));
        assert_eq!(path(items("clusterDNS")), Some("clusterDNS[]"));
        assert_eq!(
            lookup("logging.flushFrequency").map(Field::any_types),
            Some(vec![FieldType::Integer, FieldType::Duration])
        );
        assert_eq!(lookup("logging.sanitization").map(|f| f.until.to_string()).as_deref(), Some("1.23"));
        let default = |path: &str, minor| lookup(path).and_then(|f| f.default.at(Minor(minor))).map(Json::to_string);
        assert_eq!(default("staticPodPath", 30).as_deref(), Some("\"\""));
        assert_eq!(default("eventBurst", 26).as_deref(), Some("10"));
        assert_eq!(default("eventBurst", 27).as_deref(), Some("100"));
        let range_of = |path: &str| lookup(path).and_then(|field| field.range.at(Minor(36))).copied();
        assert_eq!(range_of("memoryThrottlingFactor"), range(">0..1"));
        let (minimum, maximum) = (Some(65_536), Some(4_294_967_295));
        let ids = Range { minimum, exclusive: false, maximum, multiple_of: Some(65_536) };
        assert_eq!(range_of("userNamespaces.idsPerPod"), Some(ids));
        assert_eq!(range("1.."), Some(Range { minimum: Some(1), ..Range::default() }));
        assert_eq!((range("1"), range("a..b"), range("1../x")), (None, None, None));
        let gate = |path: &str, minor| lookup(path).and_then(|f| f.gate.at(Minor(minor))).map(String::as_str);
        assert_eq!((gate("tracing", 33), gate("tracing", 34)), (Some("KubeletTracing"), None));
        assert_eq!(lookup("maxOpenFiles").map(|f| (f.min_value(), f.max_value())), Some((i64::MIN, i64::MAX)));
        assert_eq!(lookup("logging.verbosity").map(|f| (f.min_value(), f.max_value())), Some((0, 4_294_967_295)));
        assert!(lookup("syncFrequency").is_some_and(|f| !f.allows_null(Minor(36))));
        assert!(lookup("cpuCFSQuotaPeriod").is_some_and(|f| f.allows_null(Minor(36))));
        assert!(lookup("logging.flushFrequency").is_some_and(|f| f.allows_null(Minor(36))));
        assert!(lookup("resolvConf").is_some_and(|f| !f.keeps_zero(Minor(21)) && f.keeps_zero(Minor(23))));
    }
}
