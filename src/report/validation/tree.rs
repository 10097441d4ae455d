//! The report for programs, as JSON or YAML: `{formatVersion, kind, files: [{file, kubelet, findings, unknown}], findings,
//! valid, summary}`.
//!
//! `kubelet` has an entry for every version that was judged: `{accepted, stage, startupErrors}`. It is empty for a file
//! that is no whole configuration, and for one that nodecfg could not read for a reason of its own.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use super::{Answers, Batch, FileReport, HostQuestion, Renderer, Totals, stage_name, unknown};
use crate::report::{json, yaml};
use kubelet_config::Minor;
use kubelet_config::finding::Finding;
use nodecfg_contract::json_document::{Document, Kind};

pub(super) struct Tree {
    yaml: bool,
    files: Vec<Entry>,
    /// Findings that belong to no file.
    others: Vec<Finding>,
}

impl Tree {
    pub(super) fn new(yaml: bool) -> Self {
        Self { yaml, files: Vec::new(), others: Vec::new() }
    }
}

impl Renderer for Tree {
    fn batch(&mut self, _: &mut dyn Write, batch: &Batch<'_>) -> io::Result<()> {
        self.others.extend_from_slice(batch.findings);
        self.files.extend(batch.files.iter().map(entry));
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Write, totals: &Totals) -> io::Result<()> {
        let (files, findings) = (std::mem::take(&mut self.files), std::mem::take(&mut self.others));
        let body = Validation { files, findings, valid: totals.is_valid(), summary: summary(totals) };
        let document = Document::value(body)?;
        if self.yaml { yaml(out, &document) } else { json(out, &document) }
    }
}

/// What `validate` has found.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Validation {
    /// Every file of the repositories, and every file that was named.
    files: Vec<Entry>,
    /// Findings that belong to no file.
    findings: Vec<Finding>,
    /// Whether no finding is an error.
    valid: bool,
    /// All of it in numbers.
    summary: Summary,
}

impl Kind for Validation {
    const KIND: &'static str = "Validation";
}

/// What there is to say of one file.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Entry {
    /// Its path.
    file: String,
    /// The kubelets' answers by version. Empty for a file that is no whole configuration, and for one that nodecfg could not
    /// read for a reason of its own.
    kubelet: BTreeMap<Minor, Answer>,
    /// What is wrong with it or worth knowing.
    findings: Vec<Finding>,
    /// What only the host of a node can tell.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unknown: Vec<HostQuestion>,
}

/// What kubelets of a version do with a configuration.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Answer {
    /// Whether they load and validate it.
    accepted: bool,
    /// How far they get with it: `ok`, or the stage at which they refuse it.
    stage: &'static str,
    /// Why they would not start on it, though they accept it.
    startup_errors: Vec<String>,
}

/// All files in numbers.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Summary {
    /// Files that were named one by one.
    files: usize,
    /// Pools of repositories.
    pools: usize,
    /// Findings that are errors.
    errors: usize,
    /// Findings that are warnings.
    warnings: usize,
    /// Findings that are notes.
    notes: usize,
    /// The kubelets' answers by version.
    kubelet: BTreeMap<Minor, AnswerCounts>,
    /// The version that configurations were checked for because nobody named one.
    #[serde(skip_serializing_if = "Option::is_none")]
    assumed_kubernetes_version: Option<Minor>,
}

/// How many configurations kubelets of a version take.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
struct AnswerCounts {
    /// Those that they accept.
    accepted: usize,
    /// Those that they refuse.
    refused: usize,
    /// Those that they accept and would not start on.
    not_starting: usize,
}

fn entry(file: &FileReport) -> Entry {
    let answers = file.verdicts.iter().map(|verdict| {
        let startup_errors = verdict.startup.iter().map(|refusal| refusal.message.clone()).collect();
        (verdict.minor, Answer { accepted: verdict.accepted(), stage: stage_name(verdict.stage), startup_errors })
    });
    Entry {
        file: file.file.clone(),
        kubelet: answers.collect(),
        findings: file.findings.clone(),
        unknown: unknown(&file.verdicts),
    }
}

fn summary(totals: &Totals) -> Summary {
    let answers = totals.kubelets.iter().map(|(minor, answers)| {
        let Answers { accepted, refused, not_starting, .. } = answers;
        (*minor, AnswerCounts { accepted: *accepted, refused: *refused, not_starting: *not_starting })
    });
    Summary {
        files: totals.files,
        pools: totals.pools,
        errors: totals.errors,
        warnings: totals.warnings,
        notes: totals.notes,
        kubelet: answers.collect(),
        assumed_kubernetes_version: totals.assumed,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::report::findings::Texts;
    use kubelet_config::Minor;
    use kubelet_config::finding::Place;
    use kubelet_config::verdict::{Refusal, Stage, Unknown, Verdict};
    use nodecfg_planning::snapshot::Snapshot;

    fn reports() -> Vec<FileReport> {
        let place = || Place { line: 2, column: 3, ..Place::whole_file("a.yaml") };
        let refusal = Refusal {
            rule: "max-pods",
            field: "maxPods".to_owned(),
            message: "cannot start".to_owned(),
            place: place(),
            related: Vec::new(),
            help: None,
        };
        let open = || Unknown { field: "podLogsDir".to_owned(), message: "it exists".to_owned(), place: place() };
        let accepted = |minor, startup| Verdict {
            minor: Minor(minor),
            stage: Stage::Ok,
            refusals: Vec::new(),
            startup,
            later: Vec::new(),
            unknown: vec![open()],
        };
        vec![
            FileReport {
                file: "a.yaml".to_owned(),
                verdicts: vec![accepted(21, Vec::new()), accepted(36, vec![refusal])],
                findings: vec![Finding::error("max-pods", "cannot: \"start\"").at(place())],
            },
            FileReport { file: "no: file".to_owned(), ..FileReport::default() },
        ]
    }

    fn written(mut tree: Tree, files: &[FileReport]) -> String {
        let texts: &dyn Texts = &Snapshot::of_texts([]);
        let mut totals = Totals { files: files.len(), assumed: Some(Minor(36)), ..Totals::default() };
        let mut out = Vec::new();
        // One batch a file, as files come that are named one by one.
        for file in files {
            let batch = Batch { root: "", files: std::slice::from_ref(file), findings: &[], texts };
            totals.add(&batch);
            tree.batch(&mut out, &batch).unwrap();
        }
        tree.finish(&mut out, &totals).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_is_written_piece_by_piece_is_one_document() {
        for files in [reports(), Vec::new(), reports()[..1].to_vec()] {
            let text = written(Tree::new(false), &files);
            let json: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(text, format!("{json:#}\n"), "and is indented as any other");
            let yaml: Value = serde_saphyr::from_str(&written(Tree::new(true), &files)).unwrap();
            assert_eq!(json, yaml);
            assert_eq!(json["files"].as_array().map(Vec::len), Some(files.len()));
        }
    }

    #[test]
    fn both_answers_are_in_it() {
        let json: Value = serde_json::from_str(&written(Tree::new(false), &reports())).unwrap();
        let first = &json["files"][0];
        assert_eq!(first["kubelet"]["1.21"], json!({"accepted": true, "stage": "ok", "startupErrors": []}));
        assert_eq!(first["kubelet"]["1.36"]["startupErrors"], json!(["cannot start"]));
        assert_eq!(first["unknown"][0]["kubelets"], json!(["1.21", "1.36"]));
        assert_eq!(json["files"][1], json!({"file": "no: file", "kubelet": {}, "findings": []}));
        assert_eq!(json["valid"], json!(false));
        assert_eq!(json["summary"]["kubelet"]["1.36"], json!({"accepted": 1, "refused": 0, "notStarting": 1}));
        assert_eq!(json["summary"]["assumedKubernetesVersion"], "1.36");
    }
}
