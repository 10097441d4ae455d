//! Report of `validate` as JSON or YAML: `{formatVersion, kind, files: [{file, kubelet, findings, unknown}],
//! findings, valid, summary}`.
//!
//! `kubelet` maps each checked version to `{accepted, stage, startupErrors}`. The map is empty for a file that is
//! neither a complete configuration nor the file of a pool, and for one that nodecfg could not read. `unknown` holds
//! the host conditions; the field is omitted if empty.

use std::collections::BTreeMap;
use std::io;
use std::io::Write;

use serde::Serialize;

use super::{
    Batch, FileReport, MergedHostCondition, Renderer, Totals, VersionTotals, merged_host_conditions, stage_name,
};
use crate::report::{json, yaml};
use kubelet_config::Minor;
use kubelet_config::finding::Finding;
use nodecfg_contract::json_document::{Document, Kind};

pub(super) struct DocumentReport {
    yaml: bool,
    files: Vec<Entry>,
    /// Findings that refer to no file.
    without_file: Vec<Finding>,
}

impl DocumentReport {
    pub(super) fn new(yaml: bool) -> Self {
        Self { yaml, files: Vec::new(), without_file: Vec::new() }
    }
}

impl Renderer for DocumentReport {
    fn batch(&mut self, _: &mut dyn Write, batch: &Batch<'_>) -> io::Result<()> {
        self.without_file.extend_from_slice(batch.findings);
        self.files.extend(batch.files.iter().map(entry));
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Write, totals: &Totals) -> io::Result<()> {
        let (files, findings) = (std::mem::take(&mut self.files), std::mem::take(&mut self.without_file));
        let body = Validation { files, findings, valid: totals.is_valid(), summary: summary(totals) };
        let document = Document::value(body)?;
        if self.yaml { yaml(out, &document) } else { json(out, &document) }
    }
}

/// Result of `validate`.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Validation {
    /// All files of the repositories, and all files given one by one.
    files: Vec<Entry>,
    /// Findings that refer to no file.
    findings: Vec<Finding>,
    /// Whether no finding is an error.
    valid: bool,
    /// All counts.
    summary: Summary,
}

impl Kind for Validation {
    const KIND: &'static str = "Validation";
}

/// The result for one file.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Entry {
    /// The path.
    file: String,
    /// The results per kubelet version. Empty for a file that is not a complete configuration, and for one that
    /// nodecfg could not read.
    kubelet: BTreeMap<Minor, Answer>,
    /// The findings of the file.
    findings: Vec<Finding>,
    /// Checks that need the node's host.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unknown: Vec<MergedHostCondition>,
}

/// The result of one kubelet version for a configuration.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Answer {
    /// Whether the kubelet loads and validates the configuration.
    accepted: bool,
    /// `ok`, or the stage at which the kubelet refuses the configuration.
    stage: &'static str,
    /// Why the kubelet would exit during startup with an accepted configuration.
    startup_errors: Vec<String>,
}

/// Counts of all files.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Summary {
    /// Files given one by one.
    files: usize,
    /// Pools of repositories.
    pools: usize,
    /// Findings that are errors.
    errors: usize,
    /// Findings that are warnings.
    warnings: usize,
    /// Findings that are notes.
    notes: usize,
    /// The results per kubelet version.
    kubelet: BTreeMap<Minor, AnswerCounts>,
    /// The assumed version, if no version is configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    assumed_kubernetes_version: Option<Minor>,
}

/// The number of configurations per result of one kubelet version.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
struct AnswerCounts {
    /// Accepted.
    accepted: usize,
    /// Refused.
    refused: usize,
    /// Accepted, but the kubelet would exit during startup.
    not_starting: usize,
}

fn entry(file: &FileReport) -> Entry {
    let results = file.verdicts.iter().map(|verdict| {
        let startup_errors = verdict.startup.iter().map(|refusal| refusal.message.clone()).collect();
        (verdict.minor, Answer { accepted: verdict.accepted(), stage: stage_name(verdict.stage), startup_errors })
    });
    Entry {
        file: file.file.clone(),
        kubelet: results.collect(),
        findings: file.findings.clone(),
        unknown: merged_host_conditions(&file.verdicts),
    }
}

fn summary(totals: &Totals) -> Summary {
    let results = totals.kubelets.iter().map(|(minor, results)| {
        let VersionTotals { accepted, refused, not_starting, .. } = results;
        (*minor, AnswerCounts { accepted: *accepted, refused: *refused, not_starting: *not_starting })
    });
    Summary {
        files: totals.files,
        pools: totals.pools,
        errors: totals.errors,
        warnings: totals.warnings,
        notes: totals.notes,
        kubelet: results.collect(),
        assumed_kubernetes_version: totals.assumed,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::report::findings::SourceTexts;
    use kubelet_config::Minor;
    use kubelet_config::finding::Place;
    use kubelet_config::verdict::{HostCondition, Refusal, Stage, Verdict};

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
        let open = || HostCondition {
            field: "podLogsDir".to_owned(),
            message: "it exists".to_owned(),
            need: None,
            place: place(),
        };
        let accepted = |minor, startup| Verdict {
            minor: Minor(minor),
            stage: Stage::Ok,
            refusals: Vec::new(),
            startup,
            later: Vec::new(),
            host_conditions: vec![open()],
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

    fn written(mut report: DocumentReport, files: &[FileReport]) -> String {
        let texts: &SourceTexts<'_> = &|_| None;
        let mut totals = Totals { files: files.len(), assumed: Some(Minor(36)), ..Totals::default() };
        let mut out = Vec::new();
        // One batch per file, as for files given one by one.
        for file in files {
            let batch = Batch { root: "", files: std::slice::from_ref(file), findings: &[], texts };
            totals.add(&batch);
            report.batch(&mut out, &batch).unwrap();
        }
        report.finish(&mut out, &totals).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn batches_form_one_document() {
        for files in [reports(), Vec::new(), reports()[..1].to_vec()] {
            let text = written(DocumentReport::new(false), &files);
            let json: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(text, format!("{json:#}\n"), "indented like other documents");
            let yaml: Value = serde_saphyr::from_str(&written(DocumentReport::new(true), &files)).unwrap();
            assert_eq!(json, yaml);
            assert_eq!(json["files"].as_array().map(Vec::len), Some(files.len()));
        }
    }

    #[test]
    fn document_has_both_results() {
        let json: Value = serde_json::from_str(&written(DocumentReport::new(false), &reports())).unwrap();
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
