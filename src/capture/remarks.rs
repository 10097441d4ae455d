//! Remarks on captured configurations, as lines for a terminal and as comments of a YAML file.

use std::borrow::Cow;

use textwrap::wrap;

use super::agreement::{Common, Share};
use crate::layout::within;
use crate::report;
use kubelet_config::document::Document;
use nodecfg_contract::names::NodeName;
use nodecfg_contract::printable::{at_most, escaped};

/// Number of nodes to name.
const NAMED_NODES: usize = 3;
/// Longest printed value, in characters.
const VALUE_LENGTH: usize = 40;
/// Longest printed field path, in characters: map keys may be arbitrary.
const PATH_LENGTH: usize = 200;
/// Number of fields to list.
const MAX_FIELDS: usize = 200;
/// Longest line of a comment, in characters.
const LINE_LENGTH: usize = 1000;

/// Differences between the nodes, and omitted fields. Lines have at most `width` characters, unless a name is longer.
#[must_use]
pub fn remarks(common: &Common, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut add = |text: &str, indent: &str| lines.extend(wrapped(text, width, indent));
    for difference in common.differences.iter().take(MAX_FIELDS) {
        let is_kept = common.left_out.iter().all(|out| out.field != difference.field);
        add(&format!("{} differs:", field(&difference.field)), "");
        for (number, share) in difference.shares.iter().enumerate() {
            let mark = if number == 0 && is_kept { " (taken)" } else { "" };
            add(&format!("{} on {}{mark}", value(share), names(&share.nodes)), "  ");
        }
    }
    if let Some(more) = common.differences.len().checked_sub(MAX_FIELDS).filter(|more| *more > 0) {
        add(&format!("{more} more fields differ."), "");
    }
    for out in common.left_out.iter().take(MAX_FIELDS) {
        add(&format!("{} is omitted: it {}.", field(&out.field), out.why.text()), "");
    }
    lines
}

fn value(share: &Share) -> String {
    let Some(value) = &share.value else { return "unset".to_owned() };
    let text = escaped(&at_most(&value.to_string(), VALUE_LENGTH));
    // The escaped text may be longer again.
    if text.chars().count() <= VALUE_LENGTH + 1 { text } else { at_most(&text, VALUE_LENGTH) }
}

fn field(path: &str) -> String {
    escaped(&at_most(path, PATH_LENGTH))
}

/// Names of the first nodes, and the number of the others.
#[must_use]
pub fn names(nodes: &[NodeName]) -> String {
    report::names(nodes.iter().map(NodeName::as_str), NAMED_NODES)
}

/// Text in lines of at most `width` columns. The first line starts after `indent`, the others two columns further.
pub(super) fn wrapped(text: &str, width: usize, indent: &str) -> Vec<String> {
    let rest = format!("{indent}  ");
    let lines = wrap(text, within(width).initial_indent(indent).subsequent_indent(&rest));
    lines.into_iter().map(Cow::into_owned).collect()
}

/// Comments of a YAML file. Escapes every line end of YAML 1.1, so that text from a cluster cannot end a comment.
#[must_use]
pub fn comments(lines: &[String]) -> String {
    let safe = |line: &String| at_most(&escaped(line), LINE_LENGTH);
    lines.iter().map(|line| format!("# {}", safe(line)).trim_end().to_owned() + "\n").collect()
}

/// Reports whether two YAML texts have the same content. Unreadable texts have none.
#[must_use]
pub fn is_same_yaml(one: &str, other: &str) -> bool {
    let content = |text| Document::parse("file", text).document.map(|document| document.canonical());
    content(one).is_some_and(|one| Some(one) == content(other))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::agreement::{Difference, common};
    use super::super::configz::{NodeConfiguration, OmissionReason, OmittedField, to_yaml};
    use super::super::kubelet_file;
    use super::*;

    fn nodes(count: usize) -> Vec<NodeName> {
        (1..=count).map(|number| NodeName::new(format!("general-{number}")).unwrap()).collect()
    }

    #[test]
    fn differences_fit_the_terminal() {
        let mut all = common(&[]);
        all.differences = vec![Difference {
            field: "evictionHard".to_owned(),
            shares: vec![
                Share { value: Some(json!({"memory.available": "1Gi", "nodefs.available": "10%"})), nodes: nodes(9) },
                Share { value: None, nodes: nodes(1) },
            ],
        }];
        all.left_out = vec![OmittedField { field: "staticPodURLHeader".to_owned(), why: OmissionReason::Secret }];
        let lines = remarks(&all, 78);
        assert!(lines.iter().all(|line| line.chars().count() <= 78), "{lines:#?}");
        assert_eq!(
            lines,
            [
                "evictionHard differs:",
                "  {\"memory.available\":\"1Gi\",\"nodefs.availa… on general-1, general-2, general-3",
                "    and 6 more (taken)",
                "  unset on general-1",
                "staticPodURLHeader is omitted: it may contain a secret, which does not belong",
                "  in git.",
            ]
        );
    }

    #[test]
    fn text_never_leaves_a_comment() {
        assert_eq!(comments(&["a\nmaxPods: 1".to_owned(), String::new()]), "# a\\u{a}maxPods: 1\n#\n");
        for end in ['\u{85}', '\u{2028}', '\u{2029}', '\r', '\n', '\u{0}', '\u{feff}', '\u{202e}'] {
            let text = comments(&[format!("x{end}readOnlyPort: 10255")]) + "maxPods: 1\n";
            assert!(is_same_yaml(&text, "maxPods: 1\n"), "{text:?}");
        }
        let long = comments(&["x".repeat(5000)]);
        assert_eq!(long.chars().count(), LINE_LENGTH + 4);
    }

    #[test]
    fn remarks_are_bounded_and_printable() {
        let mut all = common(&[]);
        let hostile = format!("evictionHard[\"\u{1b}]52;c;x\u{7}\u{2028}{}\"]", "k".repeat(5000));
        let share = Share { value: Some(json!("\u{9b}2J\u{202e}\u{2029}")), nodes: nodes(1) };
        let difference = Difference { field: hostile, shares: vec![share] };
        all.differences = vec![difference; 1000];
        let lines = remarks(&all, 78);
        assert_eq!(lines.len(), 3 * MAX_FIELDS + 1);
        assert_eq!(lines.last().map(String::as_str), Some("800 more fields differ."));
        for line in &lines {
            assert!(
                line.chars().count() < 300 && !line.chars().any(nodecfg_contract::printable::is_hidden),
                "{line:?}"
            );
        }
    }

    proptest::proptest! {
        #[test]
        fn configuration_text_never_leaves_a_comment(
            key in "[\\PC\u{85}\u{2028}\u{2029}\r\n:{}#]{0,60}",
            value in proptest::collection::vec(proptest::char::any(), 0..60),
        ) {
            let value: String = value.into_iter().collect();
            let of = |number: u32, shown: serde_json::Value| NodeConfiguration::of(
                NodeName::new(format!("n{number}")).unwrap(), None, shown.as_object().unwrap().clone());
            let captured = [
                of(1, json!({"maxPods": 7, "evictionHard": {key.clone(): value.clone()}, "clusterDomain": value})),
                of(2, json!({"maxPods": 8, key: "\u{2028}readOnlyPort: 10255"})),
            ];
            let common = common(&captured);
            let bare = to_yaml(&common.configuration);
            let whole = comments(&remarks(&common, 78)) + bare.as_deref().unwrap_or_default();
            proptest::prop_assert!(bare.is_none() || is_same_yaml(&whole, &bare.unwrap_or_default()), "{:?}", whole);
            proptest::prop_assert_eq!(
                kubelet_file(&common, "x").map(|text| text.contains(" differs:")),
                to_yaml(&common.configuration).map(|_| true)
            );
        }
    }
}
