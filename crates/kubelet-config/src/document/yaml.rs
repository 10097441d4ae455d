//! The tree of a YAML text, and findings for its problems.
//!
//! The tree has what the kubelet reads. Findings are for texts that the kubelet refuses, for values that other readers
//! read differently, and for keys that are not text. No field of a KubeletConfiguration has such a name, and quotes
//! make the meaning explicit.

use std::sync::Arc;

use go_yaml::{Limits, Problem, ProblemKind};

use super::context::{ParseContext, Stop, place};
use super::malformed::{TEMPLATE, explain};
use super::{Entry, MAX_DEPTH, MAX_KEY, MAX_NODES, MAX_TEXT, Node, Unread, Value, ambiguity, canonical_text, too_many};
use crate::finding::Finding;

const LIMITS: Limits = Limits { depth: MAX_DEPTH, values: MAX_NODES, text: MAX_TEXT, key: MAX_KEY };

/// Reads the first document.
pub(super) fn read(text: &str, context: &mut ParseContext) -> Result<Node, Stop> {
    let parsed = go_yaml::parse(text, &LIMITS);
    parsed.problems.iter().for_each(|problem| report(problem, text, context));
    parsed.root.map(|root| node(root, &context.file)).ok_or(Stop)
}

fn node(node: go_yaml::Node, file: &Arc<str>) -> Node {
    let value = match node.value {
        go_yaml::Value::Scalar(scalar) => Value::Scalar(scalar),
        go_yaml::Value::Sequence(items) => {
            Value::Sequence(items.into_iter().map(|item| self::node(item, file)).collect())
        }
        go_yaml::Value::Mapping(map) => {
            let entry = |entry: go_yaml::Entry| Entry {
                key_place: place(entry.key, file),
                value: self::node(entry.value, file),
                earlier: Vec::new(),
            };
            Value::Mapping(map.into_iter().map(|(key, value)| (key, entry(value))).collect())
        }
    };
    Node { value, place: place(node.span, file) }
}

/// Adds the finding for a problem.
fn report(problem: &Problem, text: &str, context: &mut ParseContext) {
    let file = context.file.clone();
    let at = place(problem.span, &file);
    let message = problem.to_string();
    let error = |code, message: String| Finding::error(code, message).at(at.clone());
    let malformed = || error("malformed-yaml", format!("the file is not valid YAML: {message}"));
    let finding = match &problem.kind {
        ProblemKind::TooManyValues => return context.refuse(error("too-many-values", too_many()), Unread::Bounds),
        ProblemKind::TooMuchText => {
            let message = format!("the document has more than {MAX_TEXT} bytes of text after aliases are expanded");
            return context.refuse(error("too-much-text", message), Unread::Bounds);
        }
        ProblemKind::TooDeep => return context.too_deep(&at),
        ProblemKind::AmbiguousScalar(scalar) => return context.check_scalar(scalar, &at),
        ProblemKind::DuplicateKey { key, first } => return context.duplicate(key, at, place(*first, &file)),
        ProblemKind::LongKey => return context.key_too_long(&at),
        ProblemKind::Syntax { began, .. } => explain(&message, problem.span, began, text, &file),
        ProblemKind::BadTag { .. } => malformed(),
        ProblemKind::UnknownAnchor(_) => malformed().help("put the value in quotes if it is not an alias"),
        ProblemKind::Empty => error("empty-document", "the file contains no YAML document".to_owned())
            .help("delete the file, or write its content"),
        ProblemKind::RecursiveAlias => error("recursive-alias", message).help("write the value instead"),
        ProblemKind::ExcessiveAliases => {
            error("excessive-aliases", format!("{message}, and the kubelet refuses such documents"))
        }
        ProblemKind::BadMerge => {
            error("bad-merge-key", message).help("refer to a map by an alias, as in `<<: *defaults`")
        }
        ProblemKind::KeyNotText { key: go_yaml::Value::Scalar(key), name } => {
            let plainly = || format!("`{}` is {}", key.text, key.read().describe());
            let what = ambiguity::of(key).map_or_else(plainly, |(problem, _)| problem);
            let code = if name.is_some() { "key-not-text" } else { "malformed-yaml" };
            error(code, format!("a key must be text: {what}")).help(format!("write {}", canonical_text(&key.text)))
        }
        ProblemKind::KeyNotText { .. } => {
            let template = text.get(..at.offset).is_some_and(|before| before.ends_with('{'));
            Finding { help: template.then(|| TEMPLATE.to_owned()), ..error("malformed-yaml", message) }
        }
        ProblemKind::UnsupportedTag(_) => {
            error("unsupported-tag", message).help("remove the tag, and put the value in quotes if it is text")
        }
        ProblemKind::MergeOverrides { first, .. } => error("ambiguous-merge-key", message)
            .related(place(*first, &file), "set here")
            .help("put `<<` first in its map: readers disagree on which value applies"),
        ProblemKind::SecondDocument => {
            error("second-document", "the file contains more than one YAML document".to_owned())
                .label("the second document starts here")
                .help("keep one document per file: the kubelet reads only the first")
        }
    };
    match problem.kind {
        _ if !problem.is_fatal() => context.push(finding),
        ProblemKind::BadMerge | ProblemKind::KeyNotText { key: go_yaml::Value::Scalar(_), .. } => {
            context.refuse(finding, Unread::Malformed);
        }
        _ => context.stop(finding),
    }
}
