//! What there is to say of captured configurations, as lines for people: on a terminal, or as comments of a file.

use super::agreement::{Common, Share};
use crate::names::NodeName;

/// How many nodes are named.
const NAMED: usize = 3;
/// How much of a value is shown, in characters.
const SHOWN: usize = 40;

/// Where the nodes differ, and what was left out; each line at most `width` characters, as far as names allow.
#[must_use]
pub fn remarks(common: &Common, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for difference in &common.differences {
        let taken = common.left_out.iter().all(|out| out.field != difference.field);
        lines.extend(wrapped(&format!("{} differs:", difference.field), width, 0));
        for (number, share) in difference.shares.iter().enumerate() {
            let mark = if number == 0 && taken { " (taken)" } else { "" };
            lines.extend(wrapped(&format!("{} on {}{mark}", value(share), names(&share.nodes)), width, 2));
        }
    }
    for out in &common.left_out {
        lines.extend(wrapped(&format!("{} is left out: it {}.", out.field, out.why.words()), width, 0));
    }
    lines
}

fn value(share: &Share) -> String {
    let Some(value) = &share.value else { return "not set".to_owned() };
    let text = value.to_string();
    if text.chars().count() <= SHOWN { text } else { text.chars().take(SHOWN).chain(['…']).collect() }
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

/// A sentence in lines of at most `width` characters; a word that is longer gets a line of its own.
#[must_use]
pub fn wrapped(text: &str, width: usize, indent: usize) -> Vec<String> {
    let (first, more) = (" ".repeat(indent), " ".repeat(indent + 2));
    let mut lines = Vec::new();
    let mut line = first;
    let mut empty = true;
    for word in text.split(' ') {
        let long = line.chars().count() + 1 + word.chars().count() > width;
        if !empty && long {
            lines.push(std::mem::replace(&mut line, more.clone()));
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    lines.push(line);
    lines
}

/// Lines as comments of a YAML file. What comes from a cluster cannot end one.
#[must_use]
pub fn comments(lines: &[String]) -> String {
    let safe = |line: &String| line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>();
    lines.iter().map(|line| format!("# {}", safe(line)).trim_end().to_owned() + "\n").collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::agreement::{Difference, common};
    use super::super::taken::{LeftOut, Withheld};
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
        assert_eq!(comments(&["a\nmaxPods: 1".to_owned(), String::new()]), "# a maxPods: 1\n#\n");
    }
}
