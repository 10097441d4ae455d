//! The table of fields: path, types, and the kubelet minors that know each, taken from the sources of Kubernetes 1.12 to
//! 1.37 (`data/kubelet/fields.csv`).
//!
//! A path joins names with dots; `[]` stands for the items of a list and `{}` for the values of a map with free keys.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value as Json;

pub use super::minor::Minor;
use super::table::{self, Spans};

/// Whole numbers that the kubelet holds in 64 bits; the others have 32 (`pkg/kubelet/apis/config`, v1beta1).
const WIDE: [&str; 5] = [
    "logging.flushFrequency",
    "maxOpenFiles",
    "podPidsLimit",
    "shutdownGracePeriodByPodPriority[].shutdownGracePeriodSeconds",
    "userNamespaces.idsPerPod",
];

static TEXT: &str = include_str!("../../data/kubelet/fields.csv");
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
}

impl Field {
    /// The largest whole number that the field holds; the least is its negative, less one.
    #[must_use]
    pub fn largest(&self) -> i64 {
        if WIDE.contains(&self.path.as_str()) { i64::MAX } else { i64::from(i32::MAX) }
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
    let [path, types, pointer_since, since, until, default, allowed, deprecated_since] = cells else { return None };
    Some(Field {
        path: path.clone(),
        types: Spans::read(types, |names| names.split('|').map(field_type).collect())?,
        pointer_since: table::minor(pointer_since),
        since: table::minor(since)?,
        until: table::minor(until)?,
        default: Spans::read(default, |json| serde_json::from_str(json).ok())?,
        allowed: Spans::read(allowed, |values| Some(values.split('|').map(str::to_owned).collect()))?,
        deprecated_since: table::minor(deprecated_since),
    })
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
        assert_eq!(TEXT.lines().next(), Some("path,type,pointer_since,since,until,default,enum,deprecated_since"));
        assert_eq!(all().count(), TEXT.lines().count() - 1, "every line reads, and no path appears twice");
        assert!(WIDE.iter().all(|path| lookup(path).is_some()));
        let types = |path: &str| lookup(path).map(Field::any_types);
        for field in all() {
            let path = field.path.as_str();
            assert!(field.since <= field.until, "{path}");
            assert!(field.types.at(field.since).is_some() && field.types.at(field.until).is_some(), "{path}");
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
        assert!(lookup("resolvConf").is_some_and(|f| !f.keeps_zero(Minor(21)) && f.keeps_zero(Minor(23))));
    }
}
