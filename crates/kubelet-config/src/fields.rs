//! The table of fields: path, types, and the kubelet minors that know each, taken from the sources of Kubernetes 1.12 to
//! 1.37 (`crates/kubelet-config/data/fields.csv`).
//!
//! A path joins names with dots; `[]` stands for the items of a list and `{}` for the values of a map with free keys.
//!
//! Types, defaults and versions come from `pkg/kubelet/apis/config/v1beta1` and `staging/src/k8s.io/kubelet/config/v1beta1`;
//! where upstream's comments and its code differ, the code counts, and `says` mentions it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value as Json;

use super::format::Format;
pub use super::minor::Minor;
use super::table::{self, Spans};

static TEXT: &str = include_str!("../data/fields.csv");
static TABLE: LazyLock<Table> = LazyLock::new(Table::read);

/// What the kubelet's decoder takes for a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
    /// A resource.Quantity: text or a number.
    Quantity,
}

impl FieldType {
    /// What it is, for a sentence.
    #[must_use]
    pub fn words(self) -> &'static str {
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
    /// Its path.
    pub path: String,
    /// The types that it takes, by version.
    pub types: Spans<Vec<FieldType>>,
    /// The first minor where it is a pointer in Go: unset is not the same as the zero value, which then stays. In the
    /// other fields 0, "" and 0s take the default.
    pub pointer_since: Option<Minor>,
    /// The first minor that knows it; 1.12 may stand for an earlier one.
    pub since: Minor,
    /// The last minor that knows it; 1.37 says that it is still there.
    pub until: Minor,
    /// The default that the kubelet's code sets for a field of a file, by version. Null says that there is none.
    pub default: Spans<Json>,
    /// The values that are allowed, by version. Empty when they are not listed.
    pub allowed: Spans<Vec<String>>,
    /// The minor that deprecated it.
    pub deprecated_since: Option<Minor>,
    /// The feature gate without which it is refused or has no effect, by version.
    pub gate: Spans<String>,
    /// What its text or number holds.
    pub format: Option<Format>,
    /// The numbers that are allowed, by version. Zero is among them where it takes the default.
    pub range: Spans<Range>,
    /// The keys that a map with free keys may have, by version; `name-*` stands for all with that beginning, and `*`
    /// says that the kubelet takes others too. Empty when they are not listed.
    pub keys: Spans<Vec<String>>,
    /// What to do in place of a deprecated field, in one sentence.
    pub replaced_by: Option<String>,
    /// What it does and what one must know of it, in a few sentences.
    pub says: String,
}

/// The numbers that a field allows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Range {
    /// The least.
    pub least: Option<i64>,
    /// Whether the least itself is not allowed.
    pub above: bool,
    /// The greatest.
    pub greatest: Option<i64>,
    /// Of what all are a multiple.
    pub step: Option<i64>,
}

impl FieldType {
    /// Whether it is a number in JSON.
    #[must_use]
    pub fn is_number(self) -> bool {
        matches!(self, Self::Integer | Self::Number)
    }
}

impl Field {
    /// The largest whole number that the field's Go type holds; the decoder refuses larger ones.
    #[must_use]
    pub fn largest(&self) -> i64 {
        match self.format {
            Some(Format::Int64) => i64::MAX,
            Some(Format::Uint32) => i64::from(u32::MAX),
            _ => i64::from(i32::MAX),
        }
    }

    /// The least whole number that the field's Go type holds; the decoder refuses smaller ones.
    #[must_use]
    pub fn least(&self) -> i64 {
        match self.format {
            Some(Format::Int64) => i64::MIN,
            Some(Format::Uint32) => 0,
            _ => i64::from(i32::MIN),
        }
    }

    /// Whether null is the same as unset. Only durations that are no pointers in Go refuse it
    /// (`metav1.Duration.UnmarshalJSON` reads a text).
    #[must_use]
    pub fn takes_null(&self, minor: Minor) -> bool {
        self.types.at(minor).is_none_or(|types| *types != [FieldType::Duration]) || self.keeps_zero(minor)
    }

    /// Whether kubelets of this version call it deprecated.
    #[must_use]
    pub fn is_deprecated_in(&self, minor: Minor) -> bool {
        self.deprecated_since.is_some_and(|since| since <= minor)
    }

    /// Whether kubelets of this version know it. The others drop it without a word.
    #[must_use]
    pub fn is_known_to(&self, minor: Minor) -> bool {
        (self.since..=self.until).contains(&minor)
    }

    /// Whether an explicit zero value stays in this version; otherwise it takes the default.
    #[must_use]
    pub fn keeps_zero(&self, minor: Minor) -> bool {
        self.pointer_since.is_some_and(|since| since <= minor)
    }

    /// The types that any version takes.
    #[must_use]
    pub fn any_types(&self) -> Vec<FieldType> {
        let mut types: Vec<_> = self.types.iter().flat_map(|(_, _, types)| types.iter().copied()).collect();
        types.sort_unstable();
        types.dedup();
        types
    }
}

struct Table {
    fields: BTreeMap<String, Field>,
    /// Names of the fields of each object, by the object's path; the root's is empty.
    children: BTreeMap<String, Vec<String>>,
}

/// The field at a path of the table.
#[must_use]
pub fn lookup(path: &str) -> Option<&'static Field> {
    TABLE.fields.get(path)
}

/// The field that `key` names within the object at `parent` (`""` for the root): a field of that name, or the value of
/// a map with free keys.
#[must_use]
pub fn child(parent: &str, key: &str) -> Option<&'static Field> {
    let path = if parent.is_empty() { key.to_owned() } else { format!("{parent}.{key}") };
    // A key with a dot in it would otherwise reach past one level.
    if !key.contains(['.', '[', '{'])
        && let Some(field) = lookup(&path)
    {
        return Some(field);
    }
    lookup(&format!("{parent}{{}}"))
}

/// The items of the list at `parent`.
#[must_use]
pub fn items(parent: &str) -> Option<&'static Field> {
    lookup(&format!("{parent}[]"))
}

/// The names of the fields of the object at `parent` (`""` for the root), in the order of the table.
#[must_use]
pub fn children(parent: &str) -> &'static [String] {
    TABLE.children.get(parent).map_or(&[], Vec::as_slice)
}

/// Every field, by path.
pub fn all() -> impl Iterator<Item = &'static Field> {
    TABLE.fields.values()
}

impl Table {
    fn read() -> Self {
        let mut table = Self { fields: BTreeMap::new(), children: BTreeMap::new() };
        for field in table::rows(TEXT).filter_map(|cells| field(&cells)) {
            let (parent, name) = field.path.rsplit_once('.').unwrap_or(("", &field.path));
            if !name.ends_with([']', '}']) {
                table.children.entry(parent.to_owned()).or_default().push(name.to_owned());
            }
            table.fields.insert(field.path.clone(), field);
        }
        table
    }
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
        says,
    ] = cells
    else {
        return None;
    };
    let texts = |values: &str| Some(values.split('|').map(str::to_owned).collect());
    Some(Field {
        path: path.clone(),
        types: Spans::read(types, |names| names.split('|').map(field_type).collect())?,
        pointer_since: table::minor(pointer_since),
        since: table::minor(since)?,
        until: table::minor(until)?,
        default: Spans::read(default, |json| serde_json::from_str(json).ok())?,
        allowed: Spans::read(allowed, texts)?,
        deprecated_since: table::minor(deprecated_since),
        gate: Spans::read(gate, |name| Some(name.to_owned()))?,
        format: if format.is_empty() { None } else { Some(Format::read(format)?) },
        range: Spans::read(range_cell, range)?,
        keys: Spans::read(keys, texts)?,
        replaced_by: (!replaced_by.is_empty()).then(|| replaced_by.clone()),
        says: says.clone(),
    })
}

/// Reads `0..100`, `1..`, `>0..1` or `65536..4294967295/65536`.
fn range(text: &str) -> Option<Range> {
    let (text, step) = match text.split_once('/') {
        Some((text, step)) => (text, Some(step.parse().ok()?)),
        None => (text, None),
    };
    let (least, greatest) = text.split_once("..")?;
    let bound = |text: &str| if text.is_empty() { Some(None) } else { text.parse().ok().map(Some) };
    let above = least.starts_with('>');
    Some(Range { least: bound(least.trim_start_matches('>'))?, above, greatest: bound(greatest)?, step })
}

fn field_type(name: &str) -> Option<FieldType> {
    Some(match name {
        "string" => FieldType::String,
        "integer" => FieldType::Integer,
        "number" => FieldType::Number,
        "boolean" => FieldType::Boolean,
        "object" => FieldType::Object,
        "array" => FieldType::Array,
        "duration" => FieldType::Duration,
        "quantity" => FieldType::Quantity,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_well_formed() {
        let head =
            "path,type,pointer_since,since,until,default,enum,deprecated_since,gate,format,range,keys,replaced_by,says";
        assert_eq!(TEXT.lines().next(), Some(head));
        assert_eq!(all().count(), TEXT.lines().count() - 1, "every line reads, and no path appears twice");
        let types = |path: &str| lookup(path).map(Field::any_types);
        for field in all() {
            let path = field.path.as_str();
            assert!(field.since <= field.until, "{path}");
            assert!(field.types.at(field.since).is_some() && field.types.at(field.until).is_some(), "{path}");
            assert!(
                field.says.ends_with('.') && field.says.len() > 10 && field.says.len() < 400,
                "{path} says what it does"
            );
            assert!(field.replaced_by.is_none() || field.deprecated_since.is_some(), "{path}");
            for (_, _, one) in field.range.iter() {
                assert!(one.least.is_some(), "{path}");
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
                assert!(children(parent).iter().any(|child| child == name));
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
    fn fields_are_found() {
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
        let ids = Range { least: Some(65_536), above: false, greatest: Some(4_294_967_295), step: Some(65_536) };
        assert_eq!(range_of("userNamespaces.idsPerPod"), Some(ids));
        assert_eq!(range("1.."), Some(Range { least: Some(1), ..Range::default() }));
        assert_eq!((range("1"), range("a..b"), range("1../x")), (None, None, None));
        let gate = |path: &str, minor| lookup(path).and_then(|f| f.gate.at(Minor(minor))).map(String::as_str);
        assert_eq!((gate("tracing", 33), gate("tracing", 34)), (Some("KubeletTracing"), None));
        assert_eq!(lookup("maxOpenFiles").map(|f| (f.least(), f.largest())), Some((i64::MIN, i64::MAX)));
        assert_eq!(lookup("logging.verbosity").map(|f| (f.least(), f.largest())), Some((0, 4_294_967_295)));
        assert!(lookup("syncFrequency").is_some_and(|f| !f.takes_null(Minor(36))));
        assert!(lookup("cpuCFSQuotaPeriod").is_some_and(|f| f.takes_null(Minor(36))));
        assert!(lookup("logging.flushFrequency").is_some_and(|f| f.takes_null(Minor(36))));
        assert!(lookup("resolvConf").is_some_and(|f| !f.keeps_zero(Minor(21)) && f.keeps_zero(Minor(23))));
    }
}
