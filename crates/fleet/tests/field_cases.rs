//! Verdicts on configurations that public reports describe, in every version. `tests/data/field-cases.txt` has the
//! configurations, with other values, and the right answers.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::fmt::Write as _;
use std::ops::RangeInclusive;

use kubelet_config::finding::Strictness;
use kubelet_config::verdict::{Refusal, Verdict};
use kubelet_config::{Minor, NEWEST, OLDEST};
use nodecfg_fleet::check_file;

const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

/// One configuration: name, text, and lines of expectations.
struct Case {
    name: String,
    text: String,
    expected: Vec<(RangeInclusive<u32>, Vec<String>)>,
}

fn cases() -> Vec<Case> {
    let data = include_str!("../../../tests/data/field-cases.txt");
    let (_, cases) = data.split_once("\n=== ").unwrap();
    cases.split("\n=== ").map(case).collect()
}

fn case(text: &str) -> Case {
    let (name, rest) = text.split_once('\n').unwrap();
    let (body, expected) = rest.split_once("--- expect\n").unwrap_or_else(|| panic!("{name}"));
    let text = if body.starts_with('{') { body.to_owned() } else { format!("{HEAD}{body}") };
    let expected = expected.lines().map(|line| {
        let (versions, words) = line.split_once(' ').unwrap();
        let range = match versions.split_once('-') {
            None => OLDEST.0..=NEWEST.0,
            Some((first, last)) => first.parse().unwrap_or(OLDEST.0)..=last.parse().unwrap_or(NEWEST.0),
        };
        (range, words.split(' ').map(str::to_owned).collect())
    });
    Case { name: name.to_owned(), text, expected: expected.collect() }
}

fn named(refusals: &[Refusal], words: &[&str]) -> bool {
    let [field, rules @ ..] = words else { return true };
    refusals.iter().any(|one| one.field == *field && rules.iter().all(|rule| *rule == one.rule))
}

/// Reports whether a verdict is the expected one; `None` if the words are about a finding.
fn agrees(verdict: &Verdict, words: &[&str]) -> Option<bool> {
    match words {
        ["runs"] => Some(verdict.runs()),
        ["refuses", subject @ ..] => Some(!verdict.accepted() && named(&verdict.refusals, subject)),
        ["exits", subject @ ..] => Some(verdict.accepted() && named(&verdict.startup, subject)),
        _ => None,
    }
}

#[test]
fn judges_configurations_of_public_reports() {
    let mut wrong = String::new();
    for case in cases() {
        for minor in OLDEST.0..=NEWEST.0 {
            let checked = check_file("kubelet.yaml", &case.text, &[Minor(minor)], Strictness::Strict);
            let codes: Vec<_> =
                checked.findings.iter().map(|one| (one.code, one.field.as_deref().unwrap_or_default())).collect();
            let mut verdicts = 0;
            for (_, words) in case.expected.iter().filter(|(range, _)| range.contains(&minor)) {
                let words: Vec<_> = words.iter().map(String::as_str).collect();
                let right = match (words.as_slice(), checked.verdicts.first()) {
                    (["finds", code, field], _) => codes.contains(&(code, field)),
                    (["finds", code], _) => codes.iter().any(|(found, _)| found == code),
                    (["finds-no", code], _) => codes.iter().all(|(found, _)| found != code),
                    (words, Some(verdict)) => {
                        verdicts += 1;
                        agrees(verdict, words).unwrap_or_else(|| panic!("{}: {words:?}", case.name))
                    }
                    (_, None) => false,
                };
                if !right {
                    writeln!(wrong, "1.{minor} {}: expected {words:?}, found {codes:?}", case.name).unwrap();
                }
            }
            if verdicts != 1 {
                writeln!(wrong, "1.{minor} {}: {verdicts} expected verdicts", case.name).unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
