//! Report of `validate` as JUnit XML: a suite per file, and one per batch for findings without a file.
//!
//! A suite has a case `nodecfg` for errors that concern no kubelet version, and one case per kubelet version that was checked or that an
//! error concerns.
//! Warnings and notes are its `system-out`.

use std::collections::BTreeSet;
use std::io;
use std::io::Write;

use maud::{Markup, PreEscaped, Render, html};

use super::{Batch, FileReport, Renderer, Totals, stage_name};
use crate::report::error::ErrorMessage;
use kubelet_config::Minor;
use kubelet_config::finding::{Finding, Severity};
use kubelet_config::verdict::Verdict;
use nodecfg_contract::printable;

/// The case of errors that concern no kubelet version.
const CASE: &str = "nodecfg";

#[derive(Default)]
pub(super) struct Junit {
    suites: Vec<Suite>,
}

struct Suite {
    name: String,
    cases: Vec<Case>,
    /// Texts of warnings and notes.
    remarks: Vec<String>,
}

struct Case {
    name: String,
    failures: Vec<String>,
}

impl Renderer for Junit {
    fn batch(&mut self, _: &mut dyn Write, batch: &Batch<'_>) -> io::Result<()> {
        if !batch.findings.is_empty() {
            let name = if batch.root.is_empty() { "." } else { batch.root };
            self.suites.push(suite(name, &[], batch.findings));
        }
        self.suites
            .extend(batch.files.iter().map(|FileReport { file, verdicts, findings }| suite(file, verdicts, findings)));
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Write, _: &Totals) -> io::Result<()> {
        let [tests, failures] = case_counts(self.suites.iter().flat_map(|suite| &suite.cases));
        let report = html! {
            (PreEscaped("<?xml version=\"1.0\" encoding=\"UTF-8\"?>")) "\n"
            testsuites name="nodecfg validate" tests=(tests) failures=(failures) errors="0" {
                @for suite in &self.suites { "\n  " (suite) }
                "\n"
            }
            "\n"
        };
        out.write_all(report.into_string().as_bytes())
    }
}

/// Writes the report of a check that failed as a whole, with its errors as a failed case.
pub(super) fn failed(out: &mut dyn Write, errors: &[ErrorMessage]) -> io::Result<()> {
    let text = |error: &ErrorMessage| described(format!("{} [{}]", error.message, error.code), &error.help);
    let case = Case { name: CASE.to_owned(), failures: errors.iter().map(text).collect() };
    let suite = Suite { name: ".".to_owned(), cases: vec![case], remarks: Vec::new() };
    Junit { suites: vec![suite] }.finish(out, &Totals::default())
}

fn suite(name: &str, verdicts: &[Verdict], findings: &[Finding]) -> Suite {
    let errors = || findings.iter().filter(|finding| finding.severity == Severity::Error);
    let mut cases = vec![Case {
        name: CASE.to_owned(),
        failures: errors().filter(|finding| finding.kubelets.is_empty()).map(finding_text).collect(),
    }];
    // A file that others are rendered from, such as a base, has errors of versions but no verdicts.
    let named = errors().flat_map(|finding| finding.kubelets.iter().copied());
    let minors: BTreeSet<Minor> = verdicts.iter().map(|verdict| verdict.minor).chain(named).collect();
    for minor in minors {
        let version_errors = errors().filter(|finding| finding.kubelets.contains(&minor));
        let mut failures: Vec<String> = version_errors.map(finding_text).collect();
        if let Some(verdict) = verdicts.iter().find(|verdict| verdict.minor == minor && failures.is_empty()) {
            if !verdict.accepted() {
                failures.push(format!("refused at the stage {}", stage_name(verdict.stage)));
            } else if !verdict.runs() {
                failures.push("the kubelet would not start".to_owned());
            }
        }
        cases.push(Case { name: format!("kubelet {minor}"), failures });
    }
    let remarks = findings.iter().filter(|finding| finding.severity != Severity::Error);
    let remarks = remarks.map(|finding| format!("{}: {}", finding.severity, finding_text(finding))).collect();
    Suite { name: name.to_owned(), cases, remarks }
}

fn finding_text(finding: &Finding) -> String {
    let place = finding.place.as_ref().map_or_else(String::new, |place| format!("{place}: "));
    let text = format!("{place}{} [{}]", finding.message, finding.code);
    described(text, finding.help.as_deref().unwrap_or_default())
}

/// A text with its fix on the next lines.
fn described(text: String, help: &str) -> String {
    let text = if help.is_empty() { text } else { format!("{text}\n  {}", help.replace('\n', "\n  ")) };
    printable::lines(&text)
}

/// The number of cases and of failed cases.
fn case_counts<'c>(cases: impl Iterator<Item = &'c Case>) -> [usize; 2] {
    cases.fold([0, 0], |[tests, failures], case| [tests + 1, failures + usize::from(!case.failures.is_empty())])
}

impl Render for Suite {
    fn render(&self) -> Markup {
        let (name, [tests, failures]) = (as_xml(&self.name), case_counts(self.cases.iter()));
        html! {
            testsuite name=(name) tests=(tests) failures=(failures) errors="0" {
                @for case in &self.cases {
                    "\n    "
                    testcase classname=(name) name=(case.name) {
                        @if let Some(first) = case.failures.first().map(|text| text.lines().next().unwrap_or_default()) {
                            @let more = case.failures.len() - 1;
                            @let message = if more == 0 { first.to_owned() } else { format!("{first} (and {more} more)") };
                            "\n      " failure message=(as_xml(&message)) { (as_xml(&case.failures.join("\n"))) } "\n    "
                        }
                    }
                }
                @if !self.remarks.is_empty() { "\n    " system-out { (as_xml(&self.remarks.join("\n"))) } }
                "\n  "
            }
        }
    }
}

/// Replaces characters that XML 1.0 cannot represent, even escaped.
fn as_xml(text: &str) -> String {
    let cannot =
        |c: char| matches!(c, '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}');
    text.replace(cannot, "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use quick_xml::events::Event;

    use super::*;
    use kubelet_config::finding::Place;
    use kubelet_config::verdict::Stage;
    use nodecfg_fleet::snapshot::Snapshot;

    fn xml(files: &[FileReport], without_file: &[Finding]) -> String {
        let snapshot = Snapshot::of_texts([]);
        let mut junit = Junit::default();
        let mut out = Vec::new();
        junit
            .batch(&mut out, &Batch { root: "", files, findings: without_file, texts: &|file| snapshot.text(file) })
            .unwrap();
        junit.finish(&mut out, &Totals::default()).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn verdict(minor: u32, stage: Stage) -> Verdict {
        Verdict {
            minor: Minor(minor),
            stage,
            refusals: Vec::new(),
            startup: Vec::new(),
            later: Vec::new(),
            host_conditions: Vec::new(),
        }
    }

    #[test]
    fn has_a_case_for_nodecfg_and_each_kubelet() {
        let place = || Place { line: 3, column: 7, ..Place::whole_file("a.yaml") };
        let file = FileReport {
            file: "a.yaml".to_owned(),
            verdicts: vec![verdict(21, Stage::Ok), verdict(36, Stage::Validate)],
            findings: vec![
                Finding::error("max-pods", "a < b & \"c\"").at(place()).kubelets([Minor(36)]).help("write\n5"),
                Finding::error("max-pods", "again").at(place()).kubelets([Minor(36)]),
                Finding::warning("unknown-field", "what").at(place()),
            ],
        };
        insta::assert_snapshot!(xml(&[file], &[Finding::error("nothing-checked", "nothing")]), @r###"
        <?xml version="1.0" encoding="UTF-8"?>
        <testsuites name="nodecfg validate" tests="4" failures="2" errors="0">
          <testsuite name="." tests="1" failures="1" errors="0">
            <testcase classname="." name="nodecfg">
              <failure message="nothing [nothing-checked]">nothing [nothing-checked]</failure>
            </testcase>
          </testsuite>
          <testsuite name="a.yaml" tests="3" failures="1" errors="0">
            <testcase classname="a.yaml" name="nodecfg"></testcase>
            <testcase classname="a.yaml" name="kubelet 1.21"></testcase>
            <testcase classname="a.yaml" name="kubelet 1.36">
              <failure message="a.yaml:3:7: a &lt; b &amp; &quot;c&quot; [max-pods] (and 1 more)">a.yaml:3:7: a &lt; b &amp; &quot;c&quot; [max-pods]
          write
          5
        a.yaml:3:7: again [max-pods]</failure>
            </testcase>
            <system-out>warning: a.yaml:3:7: what [unknown-field]</system-out>
          </testsuite>
        </testsuites>
        "###);
    }

    #[test]
    fn any_text_is_well_formed_xml() {
        let mut text = String::new();
        text.extend((0..0x250_u32).filter_map(char::from_u32));
        text.push_str("]]> \u{fffe}\u{ffff}\u{10ffff}");
        let file = FileReport {
            file: text.clone(),
            verdicts: vec![verdict(36, Stage::Load)],
            findings: vec![Finding::error("x", text.clone()).help(text)],
        };
        let xml = xml(&[file], &[]);
        let mut reader = quick_xml::Reader::from_str(&xml);

        let mut failures = 0;
        loop {
            match reader.read_event().expect("well-formed") {
                Event::Eof => break,
                Event::Start(element) => failures += usize::from(element.name().as_ref() == "failure"),
                _ => {}
            }
        }
        assert_eq!(failures, 2);
        assert!(!xml.chars().any(|c| c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{7f}'..='\u{9f}')));
    }
}
