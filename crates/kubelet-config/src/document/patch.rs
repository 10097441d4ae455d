//! RFC 6902 JSON patches, applied to the tree.
//!
//! The json-patch package works on JSON values, which have no places; values that a patch adds would lose their line.
//! This module therefore applies the six operations to the tree itself. As the RFC requires, a patch is applied as a
//! whole or not at all.

use super::{Entry, MAX_DEPTH, MAX_NODES, Node, Reading, Value, too_deep, too_many};
use crate::finding::{Finding, Place, nearest};

/// The most operations of one patch.
const MAX_OPERATIONS: usize = 1000;

/// The kind of a patch, derived from its shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchKind {
    /// A map (RFC 7386).
    Merge,
    /// A list of operations (RFC 6902).
    Json,
}

/// Returns the kind of a patch.
///
/// # Errors
/// A finding if the document is neither a map nor a list of maps with `op`.
pub fn kind_of_patch(root: &Node) -> Result<PatchKind, Box<Finding>> {
    match &root.value {
        Value::Mapping(_) => Ok(PatchKind::Merge),
        Value::Sequence(items) if items.iter().all(|item| item.get("op").is_some()) => Ok(PatchKind::Json),
        _ => {
            let what = root.describe();
            let message = format!(
                "a patch must be a map (merge patch) or a list of operations with `op` (JSON patch), not {what}"
            );
            let finding = Finding::error("bad-patch", message).at(root.place.clone());
            Err(Box::new(finding.help("see RFC 7386 for merge patches and RFC 6902 for JSON patches")))
        }
    }
}

/// Applies a JSON patch to a value.
///
/// # Errors
/// A finding for each malformed operation, or else one for the first operation that fails. Also a finding if the
/// patch has too many operations, or if it removes the whole document.
pub fn apply_json_patch(target: Node, patch: &Node) -> Result<Node, Vec<Finding>> {
    let operations = operations(patch)?;
    let mut root = Some(target);
    // The count never decreases, so that copies of copies are limited too.
    let mut count = root.as_ref().map_or(0, Node::count);
    for operation in operations {
        let place = operation.place;
        operation.apply(&mut root, &mut count).map_err(|problem| {
            let finding = Finding::error("patch-failed", problem).at(place.clone());
            vec![
                finding
                    .label("this operation failed")
                    .help("correct the operation for the configuration that it applies to"),
            ]
        })?;
    }
    root.ok_or_else(|| {
        vec![Finding::error("patch-failed", "the patch removes the whole document").at(patch.place.clone())]
    })
}

/// Returns a finding for each malformed operation of a JSON patch, and one if it has too many.
#[must_use]
pub fn json_patch_problems(patch: &Node) -> Vec<Finding> {
    operations(patch).err().unwrap_or_default()
}

/// Returns what a JSON patch adds or replaces: for each such operation, the maps on its path down to its value.
/// Omits malformed operations and paths into lists.
#[must_use]
pub fn json_patch_additions(patch: &Node) -> Vec<Node> {
    let into_list = |token: &String| token == "-" || index(token).is_some();
    let addition = |operation: Operation<'_>| match operation.action {
        Action::Add(value) | Action::Replace(value) if !operation.path.tokens.iter().any(into_list) => {
            let nested = |value: Node, token: &String| {
                let place = operation.path_place.clone();
                let entry = Entry { key_place: place.clone(), value, earlier: Vec::new() };
                Node { value: Value::Mapping([(token.clone(), entry)].into()), place }
            };
            Some(operation.path.tokens.iter().rev().fold(value.clone(), nested))
        }
        _ => None,
    };
    patch.sequence().unwrap_or_default().iter().filter_map(|item| addition(Operation::read(item).ok()?)).collect()
}

/// The operations of a patch, or a finding for each malformed one.
fn operations(patch: &Node) -> Result<Vec<Operation<'_>>, Vec<Finding>> {
    let items = patch.sequence().unwrap_or_default();
    if items.len() > MAX_OPERATIONS {
        let message = format!("the patch has {} operations; the limit is {MAX_OPERATIONS}", items.len());
        return Err(vec![Finding::error("bad-patch", message).at(patch.place.clone())]);
    }
    let (mut operations, mut findings) = (Vec::new(), Vec::new());
    for item in items {
        match Operation::read(item) {
            Ok(operation) => operations.push(operation),
            Err(finding) => findings.push(*finding),
        }
    }
    if findings.is_empty() { Ok(operations) } else { Err(findings) }
}

enum Action<'a> {
    Add(&'a Node),
    Remove,
    Replace(&'a Node),
    Move(Pointer),
    Copy(Pointer),
    Test(&'a Node),
}

struct Operation<'a> {
    action: Action<'a>,
    path: Pointer,
    path_place: &'a Place,
    place: &'a Place,
}

/// An RFC 6901 pointer: its unescaped tokens and its text.
struct Pointer {
    tokens: Vec<String>,
    text: String,
}

impl<'a> Operation<'a> {
    fn read(item: &'a Node) -> Result<Self, Box<Finding>> {
        let bad = |message: String| Box::new(Finding::error("bad-patch", message).at(item.place.clone()));
        let name = item.get("op").and_then(Node::text).unwrap_or_default();
        let value = || {
            let missing = || Box::new(bad(format!("`{name}` needs a `value`")).help("add a `value`"));
            item.get("value").ok_or_else(missing)
        };
        let (operand, action) = match name {
            "add" => ("value", Action::Add(value()?)),
            "replace" => ("value", Action::Replace(value()?)),
            "test" => ("value", Action::Test(value()?)),
            "remove" => ("", Action::Remove),
            "move" => ("from", Action::Move(pointer(item, "from")?)),
            "copy" => ("from", Action::Copy(pointer(item, "from")?)),
            _ => {
                let place = item.get("op").map_or(&item.place, |op| &op.place);
                let finding = Finding::error("bad-patch", "`op` is not a JSON patch operation").at(place.clone());
                let known = ["add", "copy", "move", "remove", "replace", "test"];
                return Err(Box::new(finding.help(match nearest(name, known) {
                    Some(near) => format!("did you mean {near}?"),
                    None => format!("use one of {}", known.join(", ")),
                })));
            }
        };
        // The RFC ignores other members. Here they are errors, because they are likely mistakes.
        if let Some((key, entry)) =
            item.mapping().and_then(|map| map.iter().find(|(key, _)| !["op", "path", operand].contains(&key.as_str())))
        {
            let finding = Finding::error("unknown-field", format!("`{name}` does not take {key:?}"));
            return Err(Box::new(finding.at(entry.key_place.clone()).help(format!("remove {key}"))));
        }
        let path = pointer(item, "path")?;
        if let Action::Move(from) = &action
            && path.tokens.len() > from.tokens.len()
            && path.tokens.starts_with(&from.tokens)
        {
            return Err(bad(format!("`move` cannot move {:?} into itself", from.text)));
        }
        let path_place = item.get("path").map_or(&item.place, |path| &path.place);
        Ok(Self { action, path, path_place, place: &item.place })
    }

    fn apply(self, root: &mut Option<Node>, count: &mut usize) -> Result<(), String> {
        let place = self.path_place;
        match self.action {
            Action::Add(value) => {
                self.path.check_growth(value, count)?;
                self.path.add(root, value.clone(), place)
            }
            Action::Replace(value) => {
                self.path.check_growth(value, count)?;
                self.path.replace(root, value.clone())
            }
            Action::Remove => self.path.remove(root).map(drop),
            Action::Move(from) => {
                let value = from.remove(root)?;
                self.path.check_growth(&value, &mut 0)?;
                self.path.add(root, value, place)
            }
            Action::Copy(from) => {
                let value = from.find(root.as_ref())?;
                self.path.check_growth(value, count)?;
                let value = value.clone();
                self.path.add(root, value, place)
            }
            Action::Test(expected) => {
                let found = self.path.find(root.as_ref())?;
                if found.same_content(expected) {
                    return Ok(());
                }
                let path = &self.path.text;
                Err(format!(
                    "the test fails: {path:?} is {}, set at {}, not {}",
                    truncated_json(found),
                    found.place,
                    truncated_json(expected)
                ))
            }
        }
    }
}

/// Returns a value as compact JSON, truncated to 60 characters.
fn truncated_json(node: &Node) -> String {
    let text = node.to_json().to_string();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

fn pointer(item: &Node, key: &str) -> Result<Pointer, Box<Finding>> {
    let Some(node) = item.get(key) else {
        let finding = Finding::error("bad-patch", format!("the operation needs a `{key}`"));
        let help = format!("add a `{key}` such as /evictionHard/memory.available");
        return Err(Box::new(finding.at(item.place.clone()).help(help)));
    };
    let bad = |problem: String| {
        let unrooted = node.text().filter(|text| !text.starts_with('/') && !text.contains('~'));
        let help = unrooted.map_or_else(
            || {
                "write a JSON pointer (RFC 6901), such as /evictionHard/memory.available, with ~1 for a slash"
                    .to_owned()
            },
            |text| format!("write \"/{text}\""),
        );
        Err(Box::new(Finding::error("bad-patch", problem).at(node.place.clone()).help(help)))
    };
    let Some(Reading::Text(text)) = node.reading() else {
        return bad(format!("`{key}` must be a JSON pointer, not {}", node.describe()));
    };
    let Some(rest) = text.strip_prefix('/') else {
        return if text.is_empty() {
            Ok(Pointer { tokens: Vec::new(), text: String::new() })
        } else {
            bad(format!("the JSON pointer {text:?} must start with `/`"))
        };
    };
    let mut tokens = Vec::new();
    for token in rest.split('/') {
        let good = token.split('~').skip(1).all(|after| after.starts_with(['0', '1']));
        if !good {
            return bad(format!("the JSON pointer {text:?} has a `~` that is neither `~0` nor `~1`"));
        }
        tokens.push(token.replace("~1", "/").replace("~0", "~"));
    }
    Ok(Pointer { tokens, text: text.to_owned() })
}

impl Pointer {
    fn check_growth(&self, value: &Node, count: &mut usize) -> Result<(), String> {
        *count = count.saturating_add(value.count());
        if *count > MAX_NODES {
            return Err(too_many());
        }
        if self.tokens.len() + height(value) > MAX_DEPTH { Err(too_deep()) } else { Ok(()) }
    }

    fn missing(&self) -> String {
        format!("{:?} is missing", self.text)
    }

    fn find<'n>(&self, root: Option<&'n Node>) -> Result<&'n Node, String> {
        let mut node = root.ok_or_else(|| self.missing())?;
        for token in &self.tokens {
            let below = match &node.value {
                Value::Mapping(map) => map.get(token).map(|entry| &entry.value),
                Value::Sequence(items) => index(token).and_then(|at| items.get(at)),
                Value::Scalar(_) => None,
            };
            node = below.ok_or_else(|| self.missing())?;
        }
        Ok(node)
    }

    /// Returns the container of the last token, and the last token. `None` for the root.
    fn parent<'n>(&self, root: &'n mut Option<Node>) -> Result<Option<(&'n mut Node, &str)>, String> {
        let Some((last, before)) = self.tokens.split_last() else { return Ok(None) };
        let mut node = root.as_mut().ok_or_else(|| self.missing())?;
        for token in before {
            node = below_mut(node, token)
                .ok_or_else(|| format!("{:?} cannot be added: {token:?} is missing", self.text))?;
        }
        Ok(Some((node, last)))
    }

    fn add(&self, root: &mut Option<Node>, value: Node, place: &Place) -> Result<(), String> {
        let Some((parent, last)) = self.parent(root)? else {
            *root = Some(value);
            return Ok(());
        };
        match &mut parent.value {
            Value::Mapping(map) => {
                map.insert(last.to_owned(), Entry { key_place: place.clone(), value, earlier: Vec::new() });
                Ok(())
            }
            Value::Sequence(items) => {
                let at = if last == "-" { Some(items.len()) } else { index(last) };
                match at.filter(|at| *at <= items.len()) {
                    Some(at) => {
                        items.insert(at, value);
                        Ok(())
                    }
                    None => Err(format!("{last:?} is not a position in a list of {}", items.len())),
                }
            }
            Value::Scalar(_) => Err(format!("{:?} cannot be inside {}", self.text, parent.describe())),
        }
    }

    fn replace(&self, root: &mut Option<Node>, value: Node) -> Result<(), String> {
        let slot = match self.parent(root)? {
            None => root.as_mut(),
            Some((parent, last)) => below_mut(parent, last),
        };
        *slot.ok_or_else(|| self.missing())? = value;
        Ok(())
    }

    fn remove(&self, root: &mut Option<Node>) -> Result<Node, String> {
        let removed = match self.parent(root)? {
            None => root.take(),
            Some((parent, last)) => match &mut parent.value {
                Value::Mapping(map) => map.remove(last).map(|entry| entry.value),
                Value::Sequence(items) => index(last).filter(|at| *at < items.len()).map(|at| items.remove(at)),
                Value::Scalar(_) => None,
            },
        };
        removed.ok_or_else(|| self.missing())
    }
}

/// Returns the value that a token refers to in a map or list.
fn below_mut<'n>(node: &'n mut Node, token: &str) -> Option<&'n mut Node> {
    match &mut node.value {
        Value::Mapping(map) => map.get_mut(token).map(|entry| &mut entry.value),
        Value::Sequence(items) => index(token).and_then(|at| items.get_mut(at)),
        Value::Scalar(_) => None,
    }
}

/// Parses a list index of RFC 6901: digits without a leading zero.
fn index(token: &str) -> Option<usize> {
    let canonical = token == "0" || (!token.starts_with('0') && token.bytes().all(|b| b.is_ascii_digit()));
    if canonical { token.parse().ok() } else { None }
}

fn height(node: &Node) -> usize {
    1 + match &node.value {
        Value::Scalar(_) => 0,
        Value::Sequence(items) => items.iter().map(height).max().unwrap_or(0),
        Value::Mapping(map) => map.values().map(|entry| height(&entry.value)).max().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;

    fn node(file: &str, text: &str) -> Node {
        Document::parse(file, text).document.expect("a document").root
    }

    fn patched(target: &str, patch: &str) -> Result<String, String> {
        let patch = node("patch", patch);
        assert_eq!(kind_of_patch(&patch), Ok(PatchKind::Json));
        apply_json_patch(node("target", target), &patch)
            .map(|node| node.to_json().to_string())
            .map_err(|findings| findings.iter().map(|f| f.message.clone()).collect::<Vec<_>>().join("; "))
    }

    #[test]
    fn applies_all_six_operations() {
        let target = r#"{"a":{"b":1},"l":[1,2],"x/y":{"~":0}}"#;
        for (patch, result) in [
            ("[{op: add, path: /a/c, value: 2}]", r#"{"a":{"b":1,"c":2},"l":[1,2],"x/y":{"~":0}}"#),
            ("[{op: add, path: /l/1, value: 9}]", r#"{"a":{"b":1},"l":[1,9,2],"x/y":{"~":0}}"#),
            ("[{op: add, path: /l/-, value: 9}]", r#"{"a":{"b":1},"l":[1,2,9],"x/y":{"~":0}}"#),
            ("[{op: remove, path: /x~1y/~0}]", r#"{"a":{"b":1},"l":[1,2],"x/y":{}}"#),
            ("[{op: replace, path: /l/0, value: {z: 1}}]", r#"{"a":{"b":1},"l":[{"z":1},2],"x/y":{"~":0}}"#),
            ("[{op: move, from: /a/b, path: /l/0}]", r#"{"a":{},"l":[1,1,2],"x/y":{"~":0}}"#),
            ("[{op: copy, from: /a, path: /c}]", r#"{"a":{"b":1},"c":{"b":1},"l":[1,2],"x/y":{"~":0}}"#),
            ("[{op: test, path: /a, value: {b: 0x1}}, {op: remove, path: /a}]", r#"{"l":[1,2],"x/y":{"~":0}}"#),
            ("[{op: replace, path: '', value: {}}]", "{}"),
        ] {
            assert_eq!(patched(target, patch).as_deref(), Ok(result), "{patch}");
        }
    }

    #[test]
    fn reports_why_an_operation_fails() {
        for (patch, error) in [
            ("[{op: remove, path: /b}]", r#""/b" is missing"#),
            ("[{op: replace, path: /b, value: 1}]", r#""/b" is missing"#),
            ("[{op: add, path: /b/c, value: 1}]", r#""/b/c" cannot be added: "b" is missing"#),
            ("[{op: add, path: /l/3, value: 1}]", r#""3" is not a position in a list of 2"#),
            ("[{op: add, path: /l/01, value: 1}]", r#""01" is not a position in a list of 2"#),
            ("[{op: test, path: /a, value: 2}]", r#"the test fails: "/a" is 1, set at target:1:4, not 2"#),
            ("[{op: test, path: /nope, value: null}]", r#""/nope" is missing"#),
            ("[{op: frob, path: /a}]", "`op` is not a JSON patch operation"),
            ("[{op: add, path: /a}]", "`add` needs a `value`"),
            ("[{op: add, path: a, value: 1}]", r#"the JSON pointer "a" must start with `/`"#),
            ("[{op: add, path: /a~2, value: 1}]", r#"the JSON pointer "/a~2" has a `~` that is neither `~0` nor `~1`"#),
            ("[{op: add, value: 1}]", "the operation needs a `path`"),
            ("[{op: remove, path: /a, value: 1}]", "`remove` does not take \"value\""),
            ("[{op: move, from: /l, path: /l/0}]", r#"`move` cannot move "/l" into itself"#),
            ("[{op: remove, path: ''}]", "the patch removes the whole document"),
        ] {
            assert_eq!(patched("a: 1\nl: [1, 2]", patch).as_ref().map_err(String::as_str), Err(error), "{patch}");
        }
    }

    #[test]
    fn added_values_keep_their_place() {
        let patch = node("patch", "- op: add\n  path: /b\n  value: 2\n");
        let result = apply_json_patch(node("target", "a: 1"), &patch).expect("applies");
        assert_eq!(result.get("a").map(|n| n.place.to_string()).as_deref(), Some("target:1:4"));
        assert_eq!(result.get("b").map(|n| n.place.to_string()).as_deref(), Some("patch:3:10"));
    }

    #[test]
    fn limits_copies_of_copies() {
        let patch = vec!["{op: copy, from: '', path: /l/-}"; 200].join(",");
        let error = patched("l: [1]", &format!("[{patch}]")).expect_err("a bomb");
        assert!(error.contains("more than 100000 values") || error.contains("deeper"), "{error}");
    }

    /// A patch of 1,000 copies has 60 kB, whatever the text has that it copies.
    #[test]
    fn limits_copies_of_a_long_text() {
        let patch = vec!["{op: copy, from: /a, path: /l/-}"; 1000].join(",");
        let error = patched(&format!("a: {}\nl: [1]", "x".repeat(100_000)), &format!("[{patch}]")).expect_err("a bomb");
        assert!(error.contains("too much text"), "{error}");
        assert!(patched("a: short\nl: [1]", &format!("[{patch}]")).is_ok());
    }

    #[test]
    fn detects_kind_of_patch() {
        assert_eq!(kind_of_patch(&node("p", "a: 1")), Ok(PatchKind::Merge));
        assert_eq!(kind_of_patch(&node("p", "[]")), Ok(PatchKind::Json));
        assert!(kind_of_patch(&node("p", "[1]")).is_err());
        assert!(kind_of_patch(&node("p", "text")).is_err());
    }
}
