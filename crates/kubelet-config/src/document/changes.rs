//! Differences between two documents, leaf by leaf, each with the place of the new value.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Document, Node, Value};
use crate::finding::Place;

/// A changed leaf. A list is one leaf, because overlays replace it as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldChange {
    /// Dotted path. A key that is not a plain name is written as `["key"]`.
    pub path: String,
    /// The old value; unset for an added leaf. Lists and empty maps are compact JSON.
    pub old: Option<String>,
    /// The new value; unset for a removed leaf.
    pub new: Option<String>,
    /// The place that sets the new value.
    pub place: Option<Place>,
}

/// Returns the changed leaves, ordered by path. `apiVersion` and `kind` identify the document and are excluded.
#[must_use]
pub fn changes(old: Option<&Document>, new: Option<&Document>) -> Vec<FieldChange> {
    let (old, new) = (leaves(old), leaves(new));
    let mut changed = Vec::new();
    for (path, node) in &old {
        if !new.contains_key(path) {
            changed.push(FieldChange { path: path.clone(), old: Some(value_text(node)), new: None, place: None });
        }
    }
    for (path, node) in &new {
        let was = old.get(path);
        if was.is_none_or(|was| !was.same_content(node)) {
            changed.push(FieldChange {
                path: path.clone(),
                old: was.map(|was| value_text(was)),
                new: Some(value_text(node)),
                place: Some(node.place.clone()),
            });
        }
    }
    changed.sort_by(|a, b| a.path.cmp(&b.path));
    changed
}

/// Appends a key to a dotted path. A key that is not a plain name is written as `["key"]`.
#[must_use]
pub fn path_of(parent: &str, key: &str) -> String {
    let plain = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    match (plain, parent.is_empty()) {
        (true, true) => key.to_owned(),
        (true, false) => format!("{parent}.{key}"),
        (false, _) => format!("{parent}[{}]", serde_json::Value::from(key)),
    }
}

fn leaves(document: Option<&Document>) -> BTreeMap<String, &Node> {
    let mut leaves = BTreeMap::new();
    if let Some(map) = document.and_then(|document| document.root.mapping()) {
        for (key, entry) in map.iter().filter(|(key, _)| !matches!(key.as_str(), "apiVersion" | "kind")) {
            collect_leaves(&mut leaves, path_of("", key), &entry.value);
        }
    }
    leaves
}

fn collect_leaves<'a>(leaves: &mut BTreeMap<String, &'a Node>, path: String, node: &'a Node) {
    match &node.value {
        Value::Mapping(map) if !map.is_empty() => {
            for (key, entry) in map {
                collect_leaves(leaves, path_of(&path, key), &entry.value);
            }
        }
        _ => {
            leaves.insert(path, node);
        }
    }
}

fn value_text(node: &Node) -> String {
    match &node.value {
        Value::Scalar(scalar) => scalar.read().to_string(),
        _ => node.to_json().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(text: &str) -> Document {
        Document::parse("f.yaml", text).document.expect("a document")
    }

    fn lines(old: Option<&str>, new: Option<&str>) -> Vec<String> {
        let (old, new) = (old.map(document), new.map(document));
        let none = || "-".to_owned();
        changes(old.as_ref(), new.as_ref())
            .into_iter()
            .map(|c| {
                let line = c.place.map_or_else(none, |p| p.line.to_string());
                format!("{} {} {} {line}", c.path, c.old.unwrap_or_else(none), c.new.unwrap_or_else(none))
            })
            .collect()
    }

    #[test]
    fn compares_leaf_by_leaf() {
        assert_eq!(
            lines(
                Some(
                    "kind: A\nmaxPods: 110\nevictionHard: {memory.available: 1Gi}\nl: [1, 2]\ngone: {x: 1}\nsame: 0x10\n"
                ),
                Some("kind: B\nmaxPods: 250\nevictionHard:\n  memory.available: \"5%\"\nl:\n- 1\nsame: 16\nm: {}\n"),
            ),
            [
                r#"evictionHard["memory.available"] "1Gi" "5%" 4"#,
                "gone.x 1 - -",
                "l [1,2] [1] 6",
                "m - {} 8",
                "maxPods 110 250 2",
            ]
        );
    }

    #[test]
    fn compares_with_missing_document() {
        assert_eq!(lines(None, Some("apiVersion: v1\na: {b: c}\n")), ["a.b - c 2"]);
        assert_eq!(lines(Some("a: {b: c}"), None), ["a.b c - -"]);
        assert_eq!(lines(None, None), Vec::<String>::new());
        assert_eq!(lines(Some("a: {b: c}"), Some("a: {b: 'c'} # same\n")), Vec::<String>::new());
    }

    #[test]
    fn leaf_becomes_map() {
        assert_eq!(lines(Some("a: 1"), Some("a: {b: 1}")), ["a 1 - -", "a.b - 1 1"]);
    }
}
