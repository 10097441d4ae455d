//! RFC 7386 merge patches, applied to the tree. Maps merge key by key, other values replace the target, and null
//! removes a key. Each value keeps the place that set it.

use super::{Entry, Mapping, Node, Value};

/// Applies `patch` to `target` (RFC 7386, `MergePatch`). Nulls of the patch remove keys. A list of the patch replaces
/// the target unchanged, with any nulls inside.
#[must_use]
pub fn apply_merge_patch(target: Option<Node>, patch: &Node) -> Node {
    let Value::Mapping(changes) = &patch.value else { return patch.clone() };
    let (mut map, place) = match target {
        Some(Node { value: Value::Mapping(map), place }) => (map, place),
        _ => (Mapping::new(), patch.place.clone()),
    };
    for (key, change) in changes {
        let old = map.remove(key);
        if change.value.is_null() {
            continue;
        }
        let key_place = match &old {
            // A merged map keeps the place of its first key.
            Some(old) if old.value.mapping().is_some() && change.value.mapping().is_some() => old.key_place.clone(),
            _ => change.key_place.clone(),
        };
        let value = apply_merge_patch(old.map(|entry| entry.value), &change.value);
        map.insert(key.clone(), Entry { key_place, value, earlier: Vec::new() });
    }
    Node { value: Value::Mapping(map), place }
}

/// Returns the content without null values of maps at any depth, including maps in lists. The kubelet treats such a
/// null as an absent key.
#[must_use]
pub fn without_nulls(node: Node) -> Node {
    let value = match node.value {
        Value::Mapping(map) => Value::Mapping(
            map.into_iter()
                .filter(|(_, entry)| !entry.value.is_null())
                .map(|(key, entry)| (key, Entry { value: without_nulls(entry.value), ..entry }))
                .collect(),
        ),
        Value::Sequence(items) => Value::Sequence(items.into_iter().map(without_nulls).collect()),
        scalar => scalar,
    };
    Node { value, place: node.place }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;

    fn node(file: &str, text: &str) -> Node {
        Document::parse(file, text).document.expect("a document").root
    }

    /// All examples of RFC 7386, appendix A, except the one with a null in the target: [`without_nulls`] removes such
    /// nulls beforehand.
    #[test]
    fn follows_examples_of_the_rfc() {
        for (target, patch, result) in [
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"a":null}"#, r#"{}"#),
            (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
            (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
            (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
            (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
            (r#"["a","b"]"#, r#"["c","d"]"#, r#"["c","d"]"#),
            (r#"{"a":"b"}"#, r#"["c"]"#, r#"["c"]"#),
            (r#"{"a":"foo"}"#, "null", "null"),
            (r#"{"a":"foo"}"#, r#""bar""#, r#""bar""#),
            ("[1,2]", r#"{"a":"b","c":null}"#, r#"{"a":"b"}"#),
            ("{}", r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
        ] {
            let merged = apply_merge_patch(Some(node("t", target)), &node("p", patch));
            assert_eq!(merged.to_json().to_string(), result, "{target} {patch}");
        }
    }

    #[test]
    fn values_keep_the_place_that_set_them() {
        let base = node("base", "a: 1\nm:\n  x: 1\n  w: 2\n");
        let merged = apply_merge_patch(Some(base), &node("patch", "m:\n  w: 3\n  z: {}\n"));
        let file = |key: &str| merged.get("m").and_then(|m| m.get(key)).map(|n| n.place.file.to_string());
        assert_eq!(merged.get("a").map(|n| n.place.file.to_string()).as_deref(), Some("base"));
        assert_eq!(file("x").as_deref(), Some("base"));
        assert_eq!(file("w").as_deref(), Some("patch"));
        assert_eq!(file("z").as_deref(), Some("patch"));
    }

    #[test]
    fn removes_nulls_at_every_depth() {
        let node = without_nulls(node("t", "a: ~\nb: {c: null, d: 1}\ne: [{f: null}, null]\n"));
        assert_eq!(node.to_json().to_string(), r#"{"b":{"d":1},"e":[{},null]}"#);
    }
}
