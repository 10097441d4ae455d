//! What there is to say of captured configurations, as lines for people: on a terminal, or as comments of a file.

use std::borrow::Cow;

use textwrap::wrap;

use super::agreement::{Common, Share};
use crate::layout::within;
use kubelet_config::document::Document;
use nodecfg_contract::names::NodeName;
use nodecfg_contract::printable::{at_most, escaped};

/// How many nodes are named.
const NAMED: usize = 3;
/// How much of a value is shown, in characters.
const SHOWN: usize = 40;
/// How much of a field's path is shown, in characters: keys of maps are whatever somebody wrote.
const PATH: usize = 200;
/// How many fields are told of.
const TOLD: usize = 200;
/// How long a line of comments may get, in characters.
const LINE: usize = 1000;

/// Where the nodes differ, and what was left out; each line at most `width` characters, as far as names allow.
#[must_use]
pub fn remarks(common: &Common, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut told = |text: &str, indent: &str| lines.extend(wrapped(text, width, indent));
    for difference in common.differences.iter().take(TOLD) {
        let taken = common.left_out.iter().all(|out| out.field != difference.field);
        told(&format!("{} differs:", field(&difference.field)), "");
        for (number, share) in difference.shares.iter().enumerate() {
            let mark = if number == 0 && taken { " (taken)" } else { "" };
            told(&format!("{} on {}{mark}", value(share), names(&share.nodes)), "  ");
        }
    }
    if let Some(more) = common.differences.len().checked_sub(TOLD).filter(|more| *more > 0) {
        told(&format!("{more} more fields differ."), "");
    }
    for out in common.left_out.iter().take(TOLD) {
        told(&format!("{} is left out: it {}.", field(&out.field), out.why.words()), "");
    }
    lines
}

fn value(share: &Share) -> String {
    let Some(value) = &share.value else { return "not set".to_owned() };
    let text = escaped(&at_most(&value.to_string(), SHOWN));
    // At most what was asked for, and the mark that there is more.
    if text.chars().count() <= SHOWN + 1 { text } else { at_most(&text, SHOWN) }
}

fn field(path: &str) -> String {
    escaped(&at_most(path, PATH))
}

/// The first few, and how many more there are.
#[must_use]
pub fn names(nodes: &[NodeName]) -> String {
    let shown: Vec<&str> = nodes.iter().take(NAMED).map(NodeName::as_str).collect();
    match nodes.len().saturating_sub(NAMED) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// A text in lines of at most `width` columns, the first after `indent` and the others two columns further in.
pub(super) fn wrapped(text: &str, width: usize, indent: &str) -> Vec<String> {
    let rest = format!("{indent}  ");
    let lines = wrap(text, within(width).initial_indent(indent).subsequent_indent(&rest));
    lines.into_iter().map(Cow::into_owned).collect()
}

/// Lines as comments of a YAML file. What comes from a cluster cannot end one: YAML 1.1 has more line ends than one.
#[must_use]
pub fn comments(lines: &[String]) -> String {
    let safe = |line: &String| at_most(&escaped(line), LINE);
    lines.iter().map(|line| format!("# {}", safe(line)).trim_end().to_owned() + "\n").collect()
}

/// Whether two texts of YAML say the same. Those that cannot be read say nothing.
#[must_use]
pub fn say_the_same(one: &str, other: &str) -> bool {
    let said = |text| Document::parse("file", text).document.map(|document| document.canonical());
    said(one).is_some_and(|one| Some(one) == said(other))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::agreement::{Difference, common};
    use super::super::kubelet_file;
    use super::super::taken::{LeftOut, Taken, Withheld, to_yaml};
    use super::*;

    fn nodes(count: usize) -> Vec<NodeName> {
        (1..=count).map(|number| NodeName::new(format!("general-{number}")).unwrap()).collect()
    }

    #[test]
    fn differences_fit_the_terminal_and_name_a_few_nodes() {
        let mut all = common(&[]);
        all.differences = vec![Difference {
            field: "evictionHard".to_owned(),
            shares: vec![
                Share { value: Some(json!({"memory.available": "1Gi", "nodefs.available": "10%"})), nodes: nodes(9) },
                Share { value: None, nodes: nodes(1) },
            ],
        }];
        all.left_out = vec![LeftOut { field: "staticPodURLHeader".to_owned(), why: Withheld::Secret }];
        let lines = remarks(&all, 78);
        assert!(lines.iter().all(|line| line.chars().count() <= 78), "{lines:#?}");
        assert_eq!(
            lines,
            [
                "evictionHard differs:",
                "  {\"memory.available\":\"1Gi\",\"nodefs.availa… on general-1, general-2, general-3",
                "    and 6 more (taken)",
                "  not set on general-1",
                "staticPodURLHeader is left out: it may hold a secret, which does not belong",
                "  into git.",
            ]
        );
    }

    #[test]
    fn a_comment_stays_one() {
        assert_eq!(comments(&["a\nmaxPods: 1".to_owned(), String::new()]), "# a\\u{a}maxPods: 1\n#\n");
        for end in ['\u{85}', '\u{2028}', '\u{2029}', '\r', '\n', '\u{0}', '\u{feff}', '\u{202e}'] {
            let text = comments(&[format!("x{end}readOnlyPort: 10255")]) + "maxPods: 1\n";
            assert!(say_the_same(&text, "maxPods: 1\n"), "{text:?}");
        }
        let long = comments(&["x".repeat(5000)]);
        assert_eq!(long.chars().count(), LINE + 4);
    }

    #[test]
    fn remarks_are_bounded_and_hide_nothing() {
        let mut all = common(&[]);
        let hostile = format!("evictionHard[\"\u{1b}]52;c;x\u{7}\u{2028}{}\"]", "k".repeat(5000));
        let share = Share { value: Some(json!("\u{9b}2J\u{202e}\u{2029}")), nodes: nodes(1) };
        let difference = Difference { field: hostile, shares: vec![share] };
        all.differences = vec![difference; 1000];
        let lines = remarks(&all, 78);
        assert_eq!(lines.len(), 3 * TOLD + 1);
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
        fn what_a_node_says_never_gets_out_of_a_comment(
            key in "[\\PC\u{85}\u{2028}\u{2029}\r\n:{}#]{0,60}",
            value in proptest::collection::vec(proptest::char::any(), 0..60),
        ) {
            let value: String = value.into_iter().collect();
            let of = |number: u32, shown: serde_json::Value| Taken::of(
                NodeName::new(format!("n{number}")).unwrap(), None, shown.as_object().unwrap().clone());
            let taken = [
                of(1, json!({"maxPods": 7, "evictionHard": {key.clone(): value.clone()}, "clusterDomain": value})),
                of(2, json!({"maxPods": 8, key: "\u{2028}readOnlyPort: 10255"})),
            ];
            let common = common(&taken);
            let bare = to_yaml(&common.configuration);
            let whole = comments(&remarks(&common, 78)) + bare.as_deref().unwrap_or_default();
            proptest::prop_assert!(bare.is_none() || say_the_same(&whole, &bare.unwrap_or_default()), "{:?}", whole);
            proptest::prop_assert_eq!(
                kubelet_file(&common, "x").map(|text| text.contains(" differs:")),
                to_yaml(&common.configuration).map(|_| true)
            );
        }
    }
}
