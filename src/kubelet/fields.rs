//! The table of fields: path, types, and the kubelet minors that know each, taken from the sources of Kubernetes 1.12 to
//! 1.37 (`data/kubelet/fields.csv`).
//!
//! A path joins names with dots; `[]` stands for the items of a list and `{}` for the values of a map with free keys.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

/// Whole numbers that the kubelet holds in 64 bits; the others have 32 (`pkg/kubelet/apis/config`, v1beta1).
const WIDE: [&str; 5] = [
    "logging.flushFrequency",
    "maxOpenFiles",
    "podPidsLimit",
    "shutdownGracePeriodByPodPriority[].shutdownGracePeriodSeconds",
    "userNamespaces.idsPerPod",
];

static TABLE: LazyLock<Table> = LazyLock::new(|| Table::read(include_str!("../../data/kubelet/fields.csv")));

/// A minor version of Kubernetes 1: 21 is 1.21.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Minor(pub u32);

impl fmt::Display for Minor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.0)
    }
}

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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its path.
    pub path: &'static str,
    /// The types that any version takes.
    pub types: Vec<FieldType>,
    /// The types as the table has them, with versions where they changed: `integer@1.23-1.27;duration|integer@1.28-1.37`.
    pub types_by_version: &'static str,
    /// The first minor that knows it; 1.12 may stand for an earlier one.
    pub since: Minor,
    /// The last minor that knows it; 1.37 says that it is still there.
    pub until: Minor,
    /// The default as JSON, with versions where it changed (`5@1.12-1.26;50@1.27-1.37`); empty when there is none.
    pub default: String,
    /// The values it takes, separated by `|`, with versions where they changed; empty when they are not listed.
    pub allowed: &'static str,
    /// The minor that deprecated it.
    pub deprecated_since: Option<Minor>,
}

impl Field {
    /// The largest whole number that the field holds; the least is its negative, less one.
    #[must_use]
    pub fn largest(&self) -> i64 {
        if WIDE.contains(&self.path) { i64::MAX } else { i64::from(i32::MAX) }
    }
}

struct Table {
    fields: BTreeMap<&'static str, Field>,
    /// Names of the fields of each object, by the object's path; the root's is empty.
    children: BTreeMap<&'static str, Vec<&'static str>>,
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
pub fn children(parent: &str) -> &'static [&'static str] {
    TABLE.children.get(parent).map_or(&[], Vec::as_slice)
}

/// Every field, by path.
pub fn all() -> impl Iterator<Item = &'static Field> {
    TABLE.fields.values()
}

impl Table {
    /// Reads the table. A line that does not read is left out; a test holds that there is none.
    fn read(text: &'static str) -> Self {
        let mut table = Self { fields: BTreeMap::new(), children: BTreeMap::new() };
        for field in text.lines().skip(1).filter_map(field) {
            let (parent, name) = field.path.rsplit_once('.').unwrap_or(("", field.path));
            if !name.ends_with([']', '}']) {
                table.children.entry(parent).or_default().push(name);
            }
            table.fields.insert(field.path, field);
        }
        table
    }
}

fn field(line: &'static str) -> Option<Field> {
    let cells = cells(line);
    let [path, types, since, until, default, allowed, deprecated_since] = cells.as_slice() else { return None };
    let mut known = Vec::new();
    for span in types.split(';') {
        for name in span.split('@').next().unwrap_or(span).split('|') {
            let one = field_type(name)?;
            if !known.contains(&one) {
                known.push(one);
            }
        }
    }
    Some(Field {
        path,
        types: known,
        types_by_version: types,
        since: minor(since)?,
        until: minor(until)?,
        default: unquote(default),
        allowed,
        deprecated_since: minor(deprecated_since),
    })
}

/// The cells of a line of CSV, quoted cells still in their quotes. No cell of the table holds a line break.
fn cells(line: &'static str) -> Vec<&'static str> {
    let (mut cells, mut start, mut quoted) = (Vec::new(), 0, false);
    for (at, c) in line.char_indices() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => {
                cells.extend(line.get(start..at));
                start = at + 1;
            }
            _ => {}
        }
    }
    cells.extend(line.get(start..));
    cells
}

fn unquote(cell: &str) -> String {
    match cell.strip_prefix('"').and_then(|cell| cell.strip_suffix('"')) {
        Some(inner) => inner.replace("\"\"", "\""),
        None => cell.to_owned(),
    }
}

fn minor(text: &str) -> Option<Minor> {
    text.strip_prefix("1.")?.parse().ok().map(Minor)
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
        let text = include_str!("../../data/kubelet/fields.csv");
        assert_eq!(text.lines().next(), Some("path,type,since,until,default,enum,deprecated_since"));
        assert_eq!(all().count(), text.lines().count() - 1, "every line reads, and no path appears twice");
        for field in all() {
            assert!(WIDE.iter().all(|path| lookup(path).is_some()));
            assert!(field.since <= field.until, "{}", field.path);
            if let Some(parent) = field.path.strip_suffix("[]") {
                assert_eq!(lookup(parent).map(|f| f.types.clone()), Some(vec![FieldType::Array]), "{}", field.path);
            } else if let Some(parent) = field.path.strip_suffix("{}") {
                assert_eq!(lookup(parent).map(|f| f.types.clone()), Some(vec![FieldType::Object]), "{}", field.path);
            } else if let Some((parent, name)) = field.path.rsplit_once('.') {
                assert_eq!(lookup(parent).map(|f| f.types.clone()), Some(vec![FieldType::Object]), "{}", field.path);
                assert!(children(parent).contains(&name));
            }
            if field.types == [FieldType::Array] {
                assert!(items(field.path).is_some(), "{} has items", field.path);
            }
            if field.types == [FieldType::Object] {
                let known = !children(field.path).is_empty() || child(field.path, "any key").is_some();
                assert!(known, "{} has fields or free keys", field.path);
            }
            if !field.default.is_empty() && !field.default.contains('@') {
                assert!(serde_json::from_str::<serde_json::Value>(&field.default).is_ok(), "{}", field.default);
            }
        }
    }

    #[test]
    fn fields_are_found() {
        let path = |field: Option<&'static Field>| field.map(|field| field.path);
        assert_eq!(path(child("", "maxPods")), Some("maxPods"));
        assert_eq!(path(child("", "MaxPods")), None);
        assert_eq!(path(child("", "authentication.x509")), None);
        assert_eq!(path(child("authentication.x509", "clientCAFile")), Some("authentication.x509.clientCAFile"));
        assert_eq!(path(child("evictionHard", "memory.available")), Some("evictionHard{}"));
        assert_eq!(path(child("reservedMemory[]", "limits")), Some("reservedMemory[].limits"));
        assert_eq!(path(child("reservedMemory[].limits", "memory")), Some("reservedMemory[].limits{}"));
        assert_eq!(path(items("clusterDNS")), Some("clusterDNS[]"));
        assert_eq!(
            lookup("logging.flushFrequency").map(|f| f.types.clone()),
            Some(vec![FieldType::Integer, FieldType::Duration])
        );
        assert_eq!(lookup("logging.sanitization").map(|f| f.until.to_string()).as_deref(), Some("1.23"));
        assert_eq!(lookup("staticPodPath").map(|f| f.default.as_str()), Some("\"\""));
    }
}
