//! Decoding and defaults of a tree whose values keep their places. A value that the kubelet sets has a place without a
//! file.

use serde_json::{Map, Value as Json};

use super::DEFAULT;
use crate::defaults::{self, Defaults, has_nonempty_default, is_struct};
use crate::document::{Entry, Mapping, Node, Reading, Scalar, Value};
use crate::fields::{self, Field, Format, child, items};
use crate::finding::Place;
use crate::values::clean_path;
use crate::{API_VERSION, KIND, Minor};

/// How a decoder matches names of fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Names {
    /// Exactly. Other keys are dropped.
    Exact,
    /// Without regard to case, as encoding/json does. Of several keys for a field the last one in order of bytes wins,
    /// and objects merge.
    Folded,
    /// Folded, by the names of the kubelet's internal type. Its `ResolverConfig` is the only name that differs by more
    /// than case.
    Internal,
}

/// Whether a default applies to `evictionHard`. Since 1.26 it is set while a file is loaded, and at no other time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Eviction {
    Filled,
    Left,
}

pub(super) fn default_place() -> Place {
    Place::whole_file(DEFAULT)
}

/// Returns the fields of this version, without nulls. `parent` is the path of the object in the table of fields.
pub(super) fn decoded(node: &Node, parent: &str, minor: Minor, names: Names) -> Node {
    let Value::Mapping(map) = &node.value else { return node.clone() };
    let mut out = Mapping::new();
    for (key, entry) in map {
        let Some((name, field)) = field_of(parent, key, names).filter(|(_, field)| field.is_known_to(minor)) else {
            continue;
        };
        if entry.value.is_null() {
            continue;
        }
        let value = decoded_value(&entry.value, field, minor, names);
        let key_place = entry.key_place.clone();
        match out.get_mut(&name) {
            Some(Entry { value: old, .. }) if old.mapping().is_some() && value.mapping().is_some() => {
                merge_into(old, value);
            }
            _ => {
                out.insert(name, Entry { key_place, value, earlier: Vec::new() });
            }
        }
    }
    Node { value: Value::Mapping(out), place: node.place.clone() }
}

fn decoded_value(node: &Node, field: &Field, minor: Minor, names: Names) -> Node {
    match &node.value {
        Value::Mapping(_) if is_struct(field) => decoded(node, &field.path, minor, names),
        Value::Sequence(list) => {
            let Some(item) = items(&field.path) else { return node.clone() };
            let list = list.iter().map(|value| decoded_value(value, item, minor, names)).collect();
            Node { value: Value::Sequence(list), place: node.place.clone() }
        }
        _ => node.clone(),
    }
}

/// Merges an object over another one, as Go decodes a second value into a field.
pub(super) fn merge_into(old: &mut Node, new: Node) {
    let (Value::Mapping(old), Value::Mapping(new)) = (&mut old.value, new.value) else { return };
    for (key, entry) in new {
        match old.get_mut(&key) {
            Some(Entry { value, .. }) if value.mapping().is_some() && entry.value.mapping().is_some() => {
                merge_into(value, entry.value);
            }
            _ => {
                old.insert(key, entry);
            }
        }
    }
}

/// The name and the field of a key.
fn field_of(parent: &str, key: &str, names: Names) -> Option<(String, &'static Field)> {
    let exact = |name: &str| Some((name.to_owned(), child(parent, name)?));
    if names == Names::Exact || fields::children(parent).is_empty() {
        return exact(key);
    }
    let internal = |name: &str| match name {
        "resolvConf" if names == Names::Internal => "ResolverConfig".to_owned(),
        name => name.to_owned(),
    };
    let children = fields::children(parent);
    let folds = |field: &&&Field| crate::verdict::folds_to(key, &internal(field.name()));
    children.iter().find(folds).map(|field| (field.name().to_owned(), *field))
}

/// Returns the configuration with all defaults of a version. `of_flags` has the gates of the command line, which
/// apply to gates that the configuration omits.
pub(super) fn with_defaults(given: &Node, minor: Minor, of_flags: &Node, eviction: Eviction) -> Node {
    let Json::Object(configuration) = given.to_json() else { return Node::empty_mapping(default_place()) };
    let gates = of_flags.get("featureGates").map(Node::to_json).unwrap_or_default();
    let rules = Defaults { minor, eviction: eviction == Eviction::Filled, gates: gates.as_object(), enabled: None };
    with_header(traced(&Json::Object(rules.fill(&configuration)), Some(given), None, minor))
}

/// Sets `apiVersion` and `kind`.
pub(super) fn with_header(mut root: Node) -> Node {
    for (name, value) in [("apiVersion", API_VERSION), ("kind", KIND)] {
        set(&mut root, name, tree(&value.into(), &default_place()));
    }
    root
}

/// Returns the configuration with durations in Go's form.
pub(super) fn in_go_form(root: Node, minor: Minor) -> Node {
    fn written(value: Json, field: Option<&Field>, minor: Minor) -> Json {
        match (value, field) {
            (Json::Object(map), field) if field.is_none_or(is_struct) => {
                let parent = field.map_or("", |field| &field.path);
                map.into_iter().map(|(key, value)| (key.clone(), written(value, child(parent, &key), minor))).collect()
            }
            (value, Some(field)) => defaults::written(value, field, minor),
            (value, None) => value,
        }
    }
    traced(&written(root.to_json(), None, minor), Some(&root), None, minor)
}

/// Builds a tree whose values have the places of the equal values of another tree.
pub(super) fn traced(value: &Json, given: Option<&Node>, field: Option<&'static Field>, minor: Minor) -> Node {
    let place = || given.map_or_else(default_place, |given| given.place.clone());
    let value = match value {
        Json::Object(map) => {
            let parent = field.map_or("", |field| &field.path);
            let entries = map.iter().map(|(key, value)| {
                let old = given.and_then(Node::mapping).and_then(|map| map.get(key));
                let value = traced(value, old.map(|old| &old.value), child(parent, key), minor);
                let key_place = old.map_or_else(|| value.place.clone(), |old| old.key_place.clone());
                (key.clone(), Entry { key_place, value, earlier: Vec::new() })
            });
            Value::Mapping(entries.collect())
        }
        value => {
            let Some(given) = given.filter(|given| is_taken(given, value, field, minor)) else {
                return tree(value, &default_place());
            };
            // A whole number is a duration in nanoseconds, which the kubelet prints as it is.
            if matches!(given.reading(), Some(Reading::Int(_))) {
                return given.clone();
            }
            return tree(value, &given.place);
        }
    };
    let place = if given.is_some_and(|given| given.mapping().is_some()) { place() } else { default_place() };
    Node { value, place }
}

fn is_taken(given: &Node, value: &Json, field: Option<&Field>, minor: Minor) -> bool {
    let given = given.to_json();
    given == *value || field.is_some_and(|field| defaults::written(given, field, minor) == *value)
}

/// Builds a tree whose values all have the same place.
pub(super) fn tree(value: &Json, place: &Place) -> Node {
    let scalar = |scalar| Value::Scalar(scalar);
    let value = match value {
        Json::Null => scalar(Scalar::plain("null")),
        Json::Bool(value) => scalar(Scalar::plain(value.to_string())),
        Json::Number(value) => scalar(Scalar::plain(value.to_string())),
        Json::String(text) => scalar(Scalar::quoted(text.clone())),
        Json::Array(list) => Value::Sequence(list.iter().map(|value| tree(value, place)).collect()),
        Json::Object(map) => Value::Mapping(
            map.iter()
                .map(|(key, value)| {
                    let (key_place, value) = (place.clone(), tree(value, place));
                    (key.clone(), Entry { key_place, value, earlier: Vec::new() })
                })
                .collect(),
        ),
    };
    Node { value, place: place.clone() }
}

/// Resolves relative paths against the folder of a file with an absolute path (`pkg/kubelet/apis/config/helpers.go`,
/// `KubeletConfigurationPathRefs`).
pub(super) fn absolute_paths(mut root: Node, file: &str, minor: Minor) -> Node {
    let Some((folder, _)) = file.rsplit_once('/').filter(|_| file.starts_with('/')) else { return root };
    let is_path = |field: &&Field| field.format == Some(Format::Path) && field.is_known_to(minor);
    for field in fields::all().filter(is_path) {
        let Some(node) = at_mut(&mut root, &field.path) else { continue };
        let absolute = match node.text() {
            Some(text) if !text.is_empty() && !text.starts_with('/') => clean_path(&format!("{folder}/{text}")),
            _ => continue,
        };
        node.value = Value::Scalar(Scalar::quoted(absolute));
    }
    root
}

fn at_mut<'n>(root: &'n mut Node, path: &str) -> Option<&'n mut Node> {
    path.split('.').try_fold(root, |node, name| match &mut node.value {
        Value::Mapping(map) => map.get_mut(name).map(|entry| &mut entry.value),
        _ => None,
    })
}

/// Sets the value at a path of fields. A missing object is created.
pub(super) fn set(root: &mut Node, path: &str, value: Node) {
    let (name, rest) = path.split_once('.').map_or((path, None), |(name, rest)| (name, Some(rest)));
    let Value::Mapping(map) = &mut root.value else { return };
    let place = value.place.clone();
    match rest {
        None => {
            map.insert(name.to_owned(), Entry { key_place: place, value, earlier: Vec::new() });
        }
        Some(rest) => {
            let entry = map.entry(name.to_owned()).or_insert_with(|| Entry {
                key_place: place.clone(),
                value: Node::empty_mapping(place),
                earlier: Vec::new(),
            });
            set(&mut entry.value, rest, value);
        }
    }
}

/// Writes out that a list or map is empty where its absence means a default.
pub(super) fn explicit(mut root: Node, minor: Minor) -> Node {
    for field in fields::children("").iter().filter(|field| has_nonempty_default(field, minor)) {
        if root.get(field.name()).is_none() {
            let empty = if items(&field.path).is_some() { Json::Array(Vec::new()) } else { Json::Object(Map::new()) };
            set(&mut root, field.name(), tree(&empty, &default_place()));
        }
    }
    root
}
