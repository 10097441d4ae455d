//! The tree of a YAML text, and findings for its problems.
//!
//! The tree has what the kubelet reads. Findings are for texts that the kubelet refuses, for values that other readers
//! read differently, and for keys that are not text. No field of a KubeletConfiguration has such a name, and quotes
//! make the meaning explicit.

use std::sync::Arc;

use go_yaml::{Limits, Problem, ProblemKind, Span};

use super::malformed::{TEMPLATE, explain};
use super::parse::{ParseContext, Stop};
use super::{Entry, MAX_DEPTH, MAX_KEY, MAX_NODES, MAX_TEXT, Node, Unread, Value};
use super::{ambiguity, canonical_text, too_many, too_much_text};
use crate::finding::{Finding, Place};

const LIMITS: Limits = Limits { depth: MAX_DEPTH, values: MAX_NODES, text: MAX_TEXT, key: MAX_KEY };

/// Reads the first document.
pub(super) fn read(text: &str, context: &mut ParseContext) -> Result<Node, Stop> {
    let parsed = go_yaml::parse(text, &LIMITS);
    for problem in parsed.problems {
        report(problem, text, context);
    }
    parsed.root.map(|root| node(root, &context.file)).ok_or(Stop)
}

fn place(span: Span, file: &Arc<str>) -> Place {
    let Span { offset, len, line, column } = span;
    Place { file: file.clone(), offset, len, line, column }
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
fn report(problem: Problem, text: &str, context: &mut ParseContext) {
    let file = context.file.clone();
    let at = place(problem.span, &file);
    let message = problem.to_string();
    let error = |code, message: String| Finding::error(code, message).at(at.clone());
    let malformed = |problem: &str| error("malformed-yaml", format!("the file is not valid YAML: {problem}"));
    match problem.kind {
        ProblemKind::Syntax { message, began } => {
            let explanation = explain(&message, problem.span, &began, text);
            let mut finding = malformed(&explanation.message).at(place(explanation.span, &file));
            for (span, label) in explanation.related {
                finding = finding.related(place(span, &file), label);
            }
            context.stop(Finding { help: explanation.help, ..finding });
        }
        ProblemKind::Empty => context.stop(
            error("empty-document", "the file contains no YAML document".to_owned())
                .help("delete the file, or write its content"),
        ),
        ProblemKind::UnknownAnchor(_) => {
            context.stop(malformed(&message).help("put the value in quotes if it is not an alias"));
        }
        ProblemKind::RecursiveAlias => {
            context.stop(error("recursive-alias", message).help("write the value instead"));
        }
        ProblemKind::ExcessiveAliases => {
            context.stop(error("excessive-aliases", format!("{message}, and the kubelet refuses such documents")));
        }
        ProblemKind::BadTag { .. } => context.stop(malformed(&message)),
        ProblemKind::BadMerge => context.refuse(
            error("bad-merge-key", message).help("refer to a map by an alias, as in `<<: *defaults`"),
            Unread::Malformed,
        ),
        ProblemKind::TooManyValues => context.refuse(error("too-many-values", too_many()), Unread::Bounds),
        ProblemKind::TooMuchText => context.refuse(error("too-much-text", too_much_text()), Unread::Bounds),
        ProblemKind::TooDeep => context.too_deep(&at),
        ProblemKind::KeyNotText { key: go_yaml::Value::Scalar(key), name } => {
            let describe = || format!("`{}` is {}", key.text, key.read().describe());
            let what = ambiguity::of(&key).map_or_else(describe, |(problem, _)| problem);
            let code = if name.is_some() { "key-not-text" } else { "malformed-yaml" };
            let finding =
                error(code, format!("a key must be text: {what}")).help(format!("write {}", canonical_text(&key.text)));
            match name {
                Some(_) => context.push(finding),
                None => context.refuse(finding, Unread::Malformed),
            }
        }
        ProblemKind::KeyNotText { .. } => {
            let mut finding = error("malformed-yaml", message);
            if text.get(..at.offset).is_some_and(|before| before.ends_with('{')) {
                finding = finding.help(TEMPLATE);
            }
            context.stop(finding);
        }
        ProblemKind::AmbiguousScalar(scalar) => context.check_scalar(&scalar, &at),
        ProblemKind::DuplicateKey { key, first } => context.duplicate(&key, at, place(first, &file)),
        ProblemKind::LongKey => context.key_too_long(&at),
        ProblemKind::UnsupportedTag(_) => context
            .push(error("unsupported-tag", message).help("remove the tag, and put the value in quotes if it is text")),
        ProblemKind::MergeOverrides { first, .. } => context.push(
            error("ambiguous-merge-key", message)
                .related(place(first, &file), "set here")
                .help("put `<<` first in its map: readers disagree on which value applies"),
        ),
        ProblemKind::SecondDocument => context.push(
            error("second-document", "the file contains more than one YAML document".to_owned())
                .label("the second document starts here")
                .help("keep one document per file: the kubelet reads only the first"),
        ),
    }
}
