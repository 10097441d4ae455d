//! Sets of field paths, in the format of `FieldsV1`: `f:name` for fields, `k:{…}` for keyed items, `v:…` for set
//! members.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::api::shape::{ListKind, Shape};

/// A set of field paths, as a trie.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldSet(BTreeMap<String, Entry>);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Entry {
    member: bool,
    children: FieldSet,
}

/// Returns the path element of a field or key.
pub(crate) fn field(name: &str) -> String {
    format!("f:{name}")
}

/// Returns the path element of a list item: its key values, or its value. `None` in an atomic list, or for an item
/// without a key.
pub(crate) fn item(kind: &ListKind, value: &Value) -> Option<String> {
    match kind {
        ListKind::Atomic => None,
        ListKind::Set => Some(format!("v:{value}")),
        ListKind::Map(keys) => {
            let mut sorted: Vec<&String> = keys.iter().collect();
            sorted.sort();
            let mut found = Map::new();
            for key in sorted {
                found.insert(key.clone(), value.get(key)?.clone());
            }
            Some(format!("k:{}", Value::Object(found)))
        }
    }
}

impl FieldSet {
    /// Reports whether the set is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a path. The empty path is ignored.
    pub(crate) fn insert(&mut self, path: &[String]) {
        match path {
            [] => {}
            [last] => self.0.entry(last.clone()).or_default().member = true,
            [first, rest @ ..] => self.0.entry(first.clone()).or_default().children.insert(rest),
        }
    }

    /// Reports whether the set contains exactly this path.
    pub(crate) fn contains(&self, path: &[String]) -> bool {
        match path {
            [] => false,
            [last] => self.0.get(last).is_some_and(|entry| entry.member),
            [first, rest @ ..] => self.0.get(first).is_some_and(|entry| entry.children.contains(rest)),
        }
    }

    /// Returns the paths below one path element.
    pub(crate) fn below(&self, element: &str) -> Option<&Self> {
        self.0.get(element).map(|entry| &entry.children)
    }

    /// Reports whether the set contains any path below this one.
    pub(crate) fn contains_below(&self, path: &[String]) -> bool {
        match path {
            [] => !self.is_empty(),
            [first, rest @ ..] => self.below(first).is_some_and(|below| below.contains_below(rest)),
        }
    }

    /// Removes one path and all paths below it.
    pub(crate) fn remove_tree(&mut self, path: &[&str]) {
        match path {
            [] => {}
            [last] => {
                self.0.remove(*last);
            }
            [first, rest @ ..] => {
                if let Some(entry) = self.0.get_mut(*first) {
                    entry.children.remove_tree(rest);
                    if !entry.member && entry.children.is_empty() {
                        self.0.remove(*first);
                    }
                }
            }
        }
    }

    /// Removes one path and keeps the paths below it.
    pub(crate) fn remove(&mut self, path: &[&str]) {
        if let [first, rest @ ..] = path
            && let Some(entry) = self.0.get_mut(*first)
        {
            if rest.is_empty() {
                entry.member = false;
            } else {
                entry.children.remove(rest);
            }
            if !entry.member && entry.children.is_empty() {
                self.0.remove(*first);
            }
        }
    }

    /// Keeps only these top-level elements and the paths below them.
    pub(crate) fn retain_top(&mut self, keep: &[&str]) {
        self.0.retain(|element, _| keep.contains(&element.as_str()));
    }

    /// Returns the paths in either set.
    pub(crate) fn union(mut self, other: &Self) -> Self {
        for (element, theirs) in &other.0 {
            let ours = self.0.entry(element.clone()).or_default();
            ours.member |= theirs.member;
            ours.children = std::mem::take(&mut ours.children).union(&theirs.children);
        }
        self
    }

    /// Returns the paths in both sets.
    pub(crate) fn intersection(&self, other: &Self) -> Self {
        self.combine(other, |a, b| a && b, true)
    }

    /// Returns the paths that only this set contains.
    pub(crate) fn difference(&self, other: &Self) -> Self {
        self.combine(other, |a, b| a && !b, false)
    }

    /// Combines both sets. `keep` decides on a path from its membership in each set. With `both`, elements that only
    /// this set has are dropped, otherwise kept.
    fn combine(&self, other: &Self, keep: fn(bool, bool) -> bool, both: bool) -> Self {
        let mut result = BTreeMap::new();
        for (element, ours) in &self.0 {
            let entry = match other.0.get(element) {
                None if both => continue,
                None => ours.clone(),
                Some(theirs) => Entry {
                    member: keep(ours.member, theirs.member),
                    children: ours.children.combine(&theirs.children, keep, both),
                },
            };
            if entry.member || !entry.children.is_empty() {
                result.insert(element.clone(), entry);
            }
        }
        Self(result)
    }

    /// Returns all paths, in order.
    pub(crate) fn paths(&self) -> Vec<Vec<String>> {
        let mut all = Vec::new();
        self.collect(&mut Vec::new(), &mut all);
        all
    }

    fn collect(&self, prefix: &mut Vec<String>, all: &mut Vec<Vec<String>>) {
        for (element, entry) in &self.0 {
            prefix.push(element.clone());
            if entry.member {
                all.push(prefix.clone());
            }
            entry.children.collect(prefix, all);
            prefix.pop();
        }
    }

    /// Returns the set as `FieldsV1`.
    pub(crate) fn to_value(&self) -> Value {
        let mut map = Map::new();
        for (element, entry) in &self.0 {
            let mut below = Map::new();
            if entry.member && !entry.children.is_empty() {
                below.insert(".".to_owned(), Value::Object(Map::new()));
            }
            if let Value::Object(children) = entry.children.to_value() {
                below.extend(children);
            }
            map.insert(element.clone(), Value::Object(below));
        }
        Value::Object(map)
    }

    /// Parses `FieldsV1` and skips invalid parts.
    pub(crate) fn from_value(value: &Value) -> Self {
        let mut entries = BTreeMap::new();
        for (element, below) in value.as_object().into_iter().flatten().filter(|(element, _)| *element != ".") {
            let children = Self::from_value(below);
            let member = children.is_empty() || below.get(".").is_some();
            entries.insert(element.clone(), Entry { member, children });
        }
        Self(entries)
    }
}

/// Formats a path as in conflict messages: `.spec.taints[key="a"].effect`.
pub(crate) fn format_path(path: &[String]) -> String {
    let mut text = String::new();
    for element in path {
        match element.split_once(':') {
            Some(("k", keys)) => {
                let keys: Value = serde_json::from_str(keys).unwrap_or_default();
                let shown: Vec<String> =
                    keys.as_object().into_iter().flatten().map(|(key, value)| format!("{key}={value}")).collect();
                text.push_str(&format!("[{}]", shown.join(",")));
            }
            Some(("v", value)) => text.push_str(&format!("[={value}]")),
            Some((_, name)) => text.push_str(&format!(".{name}")),
            None => text.push_str(element),
        }
    }
    text
}

/// Returns the fields of an applied configuration. Leaves, empty structs, keys of maps and items of lists are
/// members; other structs are not.
pub(crate) fn fields_of(shape: &Shape, value: &Value) -> FieldSet {
    let mut set = FieldSet::default();
    collect_fields(shape, value, &mut Vec::new(), &mut set);
    set
}

fn collect_fields(shape: &Shape, value: &Value, path: &mut Vec<String>, set: &mut FieldSet) {
    match (shape, value) {
        (_, Value::Object(map)) if shape.is_granular_map() => {
            for (key, child) in map {
                path.push(field(key));
                collect_fields(shape.child(key), child, path, set);
                let empty = child.is_null() || child.as_object().is_some_and(Map::is_empty);
                if empty || !shape.has_field(key) {
                    set.insert(path);
                }
                path.pop();
            }
        }
        (Shape::List(items, kind), Value::Array(list)) if *kind != ListKind::Atomic => {
            for child in list {
                if let Some(element) = item(kind, child) {
                    path.push(element);
                    collect_fields(items, child, path, set);
                    set.insert(path);
                    path.pop();
                }
            }
        }
        _ => set.insert(path),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_v1_round_trips() {
        let value = json!({"f:a": {".": {}, "f:b": {}}, "f:c": {"k:{\"type\":\"x\"}": {".": {}, "f:d": {}}}});
        assert_eq!(FieldSet::from_value(&value).to_value(), value);
    }

    #[test]
    fn computes_intersection_difference_and_union() {
        let a = FieldSet::from_value(&json!({"f:a": {".": {}, "f:b": {}}, "f:c": {}}));
        let b = FieldSet::from_value(&json!({"f:a": {"f:b": {}}, "f:d": {}}));
        assert_eq!(a.intersection(&b).to_value(), json!({"f:a": {"f:b": {}}}));
        assert_eq!(a.difference(&b).to_value(), json!({"f:a": {}, "f:c": {}}));
        assert_eq!(a.union(&b).to_value(), json!({"f:a": {".": {}, "f:b": {}}, "f:c": {}, "f:d": {}}));
    }

    #[test]
    fn formats_paths_as_in_conflict_messages() {
        let set = FieldSet::from_value(&json!({"f:s": {"k:{\"key\":\"a\"}": {"f:e": {}}, "v:\"x\"": {}}}));
        let shown: Vec<String> = set.paths().iter().map(|path| format_path(path)).collect();
        assert_eq!(shown, [r#".s[key="a"].e"#, r#".s[="x"]"#]);
    }
}
