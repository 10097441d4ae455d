//! Tests of the fixes of findings. The `help` of every finding of every example is applied as a user would read it; the
//! finding must then be gone, and no new error may appear. Helps that are not an edit are listed with the reason.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::{BTreeMap, BTreeSet};

use kubelet_config::Minor;
use kubelet_config::advice::table;
use kubelet_config::fields::secrets::NOT_SHOWN;
use kubelet_config::finding::{Finding, Severity, Strictness};
use kubelet_config::verdict::rules;
use nodecfg_fleet::snapshot::Snapshot;
use nodecfg_fleet::{Checks, Kubelets, build, check_file};

#[path = "../../../kubelet-config/src/advice/example_files.rs"]
mod advice_examples;
mod examples;
mod help;
mod not_edits;
#[path = "../../../kubelet-config/src/verdict/startup/example_files.rs"]
mod startup_examples;
mod tree;

/// Files of an example, and the version for which a single file is checked. Without one, the files are a repository.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Example {
    files: BTreeMap<String, String>,
    minor: Option<u32>,
}

const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

impl Example {
    /// A KubeletConfiguration with these fields.
    fn of_fields(fields: &str, minor: u32) -> Self {
        let text = match fields.strip_prefix('{') {
            Some(rest) => {
                format!("{{apiVersion: kubelet.config.k8s.io/v1beta1, kind: KubeletConfiguration, {rest}")
            }
            None => format!("{HEAD}{fields}\n"),
        };
        // A comment at the start prevents reading the braces as JSON.
        Self::of_file(&format!("# an example\n{text}"), minor)
    }

    fn of_file(text: &str, minor: u32) -> Self {
        Self { files: [("kubelet.yaml".to_owned(), text.to_owned())].into(), minor: Some(minor) }
    }

    fn of_repository(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), text.replace("HEAD\n", HEAD))).collect();
        Self { files, minor: None }
    }

    fn next_version(&self) -> Self {
        Self { minor: self.minor.map(|minor| minor + 1), ..self.clone() }
    }

    fn findings(&self) -> Vec<Finding> {
        if let Some(minor) = self.minor {
            let text = &self.files["kubelet.yaml"];
            return check_file("kubelet.yaml", text, &[Minor(minor)], Strictness::Strict).findings;
        }
        let snapshot = Snapshot::of_texts(self.files.iter().map(|(path, text)| (path.as_str(), text.as_str())));
        build(&snapshot, &Checks { gate: Strictness::Strict, kubelets: Kubelets::Declared(vec![Minor(36)]) }).findings
    }
}

/// All examples: those of the rules and of advice, and those of files and repositories.
fn all() -> BTreeSet<Example> {
    let mut all: BTreeSet<Example> = examples::all().collect();
    for (_, minors, fields, _) in advice_examples::EXAMPLES {
        all.extend(minors.iter().map(|minor| Example::of_fields(fields, *minor)));
    }
    for (_, minor, fields, _, _) in startup_examples::EXAMPLES {
        all.insert(Example::of_fields(&fields.replace("~\n", startup_examples::STATIC), *minor));
    }
    for line in include_str!("../../../../tests/data/rules.txt").lines().filter(|line| !line.starts_with('#')) {
        let [id, minors, _, fields, _] = line.split(" | ").collect::<Vec<_>>()[..] else { panic!("{line}") };
        let newest = rules::lookup(id).map_or(36, |rule| rule.until.0.min(36).max(rule.since.0));
        let minor = match minors.split_once('-') {
            Some((_, last)) if !last.is_empty() => last.parse().unwrap(),
            _ => newest,
        };
        all.insert(Example::of_fields(fields, minor));
    }
    all
}

/// What a finding is about, without its wording.
fn key(finding: &Finding) -> (&'static str, Option<String>, String) {
    let file = finding.place.as_ref().map(|place| place.file.to_string()).unwrap_or_default();
    (finding.code, finding.field.clone(), file)
}

#[test]
fn each_fix_works() {
    let (mut wrong, mut seen, mut edits, mut unread) = (Vec::new(), BTreeSet::new(), 0, BTreeSet::new());
    for example in all() {
        let before = example.findings();
        for finding in &before {
            seen.insert(finding.code);
            let Some(text) = &finding.help else {
                if not_edits::reason(finding.code).is_none() {
                    wrong.push(format!("{}: {} has no help", finding.code, finding.message));
                }
                unread.insert(finding.code);
                continue;
            };
            // What the next version refuses is checked with that version.
            let next = finding.code == "next-version";
            let example = if next { example.next_version() } else { example.clone() };
            let before = if next { example.findings() } else { before.clone() };
            let errors: BTreeSet<_> = before.iter().filter(|one| one.severity == Severity::Error).map(key).collect();
            let edited = help::apply(text, finding, &example);
            // The fix of a secret value is redacted.
            if text.contains(NOT_SHOWN) {
                continue;
            }
            if edited.is_empty() {
                match not_edits::reason(finding.code) {
                    Some(_) => drop(unread.insert(finding.code)),
                    None => wrong.push(format!("{}: no edit: {text}", finding.code)),
                }
            }
            for (alternative, edited) in edited {
                edits += 1;
                let after = edited.findings();
                let is_new = |one: &&Finding| one.severity == Severity::Error && !errors.contains(&key(one));
                let new = after.iter().filter(is_new).filter(|one| !not_edits::follows(finding.code, one.code));
                let new: Vec<_> = new.map(|one| format!("{}: {}", one.code, one.message)).collect();
                let same = |all: &[Finding]| {
                    let is_same =
                        |one: &&Finding| if next { one.field == finding.field } else { key(one) == key(finding) };
                    all.iter().filter(is_same).filter(|one| !next || one.severity == Severity::Error).count()
                };
                let remains = same(&after) >= same(&before);
                if remains || !new.is_empty() {
                    let what = if remains { "the finding remains" } else { "a new error" };
                    wrong.push(format!(
                        "{}: {}\n  help: {text}\n  applied: {alternative}: {what} {new:?}\n  {:?}",
                        finding.code, finding.message, edited.files
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {edits} edits:\n{}", wrong.len(), wrong.join("\n"));
    assert!(edits > 250, "{edits} edits");
    let unused = not_edits::codes().filter(|code| !unread.contains(code)).collect::<Vec<_>>();
    assert!(unused.is_empty(), "the help of these codes is an edit: {unused:?}");
    let codes = table::all().map(|advice| advice.code.as_str()).chain(rules::all().map(|rule| rule.id.as_str()));
    let files = include_str!("../../../../data/findings.csv").lines().skip(1);
    let codes = codes.chain(files.filter_map(|line| line.split(',').next()));
    let missing: Vec<&str> =
        codes.filter(|code| !seen.contains(code) && not_edits::elsewhere(code).is_none()).collect();
    assert!(missing.is_empty(), "these codes have no example: {missing:?}");
}
