//! The report for programs, as JSON or YAML: `{formatVersion, kind, files: [{file, kubelet, findings, unknown}], findings,
//! valid, summary}`. Files are written as they come.
//!
//! `kubelet` has an entry for every version that was judged: `{accepted, stage, startupErrors}`. It is empty for a file
//! that is no whole configuration, and for one that nodecfg could not read for a reason of its own.

use std::io::{self, Write};

use serde_json::{Map, Value, json};

use super::{Batch, FileReport, Renderer, Totals, stage_name, unknown};
use crate::finding::Finding;
use crate::report::FORMAT_VERSION;

pub(super) struct Tree {
    yaml: bool,
    started: bool,
    /// Findings that belong to no file.
    others: Vec<Value>,
}

impl Tree {
    pub(super) fn json() -> Self {
        Self { yaml: false, started: false, others: Vec::new() }
    }

    pub(super) fn yaml() -> Self {
        Self { yaml: true, started: false, others: Vec::new() }
    }

    fn write(&mut self, out: &mut dyn Write, file: &Value) -> io::Result<()> {
        if self.yaml {
            if !self.started {
                write!(out, "formatVersion: {FORMAT_VERSION}\nkind: Validation\nfiles:\n")?;
            }
            self.started = true;
            return out.write_all(yaml(&Value::Array(vec![file.clone()]))?.as_bytes());
        }
        if self.started {
            out.write_all(b",\n")?;
        } else {
            write!(out, "{{\n  \"formatVersion\": {FORMAT_VERSION},\n  \"kind\": \"Validation\",\n  \"files\": [\n")?;
        }
        self.started = true;
        let text = serde_json::to_string_pretty(file)?;
        let indented: Vec<String> = text.lines().map(|line| format!("    {line}")).collect();
        out.write_all(indented.join("\n").as_bytes())
    }
}

fn yaml(value: &Value) -> io::Result<String> {
    serde_saphyr::to_string(value).map_err(io::Error::other)
}

impl Renderer for Tree {
    fn batch(&mut self, out: &mut dyn Write, batch: &Batch<'_>) -> io::Result<()> {
        for finding in batch.findings {
            self.others.push(serde_json::to_value(finding)?);
        }
        for file in batch.files {
            self.write(out, &entry(file)?)?;
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Write, totals: &Totals) -> io::Result<()> {
        let rest = json!({
            "findings": self.others,
            "valid": totals.is_valid(),
            "summary": summary(totals),
        });
        if self.yaml {
            if !self.started {
                write!(out, "formatVersion: {FORMAT_VERSION}\nkind: Validation\nfiles: []\n")?;
            }
            return out.write_all(yaml(&rest)?.as_bytes());
        }
        if self.started {
            out.write_all(b"\n  ],\n")?;
        } else {
            write!(out, "{{\n  \"formatVersion\": {FORMAT_VERSION},\n  \"kind\": \"Validation\",\n  \"files\": [],\n")?;
        }
        // The rest of the object, without the brace that it begins with.
        let text = serde_json::to_string_pretty(&rest)?;
        writeln!(out, "{}", text.trim_start_matches("{\n"))
    }
}

fn entry(file: &FileReport) -> serde_json::Result<Value> {
    let mut kubelet = Map::new();
    for verdict in &file.verdicts {
        let startup: Vec<&str> = verdict.startup.iter().map(|refusal| refusal.message.as_str()).collect();
        let answer =
            json!({"accepted": verdict.accepted(), "stage": stage_name(verdict.stage), "startupErrors": startup});
        kubelet.insert(verdict.minor.to_string(), answer);
    }
    let findings: Vec<Value> = file.findings.iter().map(finding).collect::<Result<_, _>>()?;
    let mut entry = Map::new();
    entry.insert("file".to_owned(), json!(file.file));
    entry.insert("kubelet".to_owned(), Value::Object(kubelet));
    entry.insert("findings".to_owned(), Value::Array(findings));
    let unknown = unknown(&file.verdicts);
    if !unknown.is_empty() {
        entry.insert("unknown".to_owned(), serde_json::to_value(unknown)?);
    }
    Ok(Value::Object(entry))
}

fn finding(finding: &Finding) -> serde_json::Result<Value> {
    serde_json::to_value(finding)
}

fn summary(totals: &Totals) -> Value {
    let mut kubelet = Map::new();
    for (minor, answers) in &totals.kubelets {
        let answers = json!({
            "accepted": answers.accepted, "refused": answers.refused, "notStarting": answers.not_starting,
        });
        kubelet.insert(minor.to_string(), answers);
    }
    let mut summary = json!({
        "files": totals.files,
        "pools": totals.pools,
        "errors": totals.errors,
        "warnings": totals.warnings,
        "notes": totals.notes,
        "kubelet": kubelet,
    });
    if let (Some(assumed), Some(fields)) = (totals.assumed, summary.as_object_mut()) {
        fields.insert("assumedKubernetesVersion".to_owned(), json!(assumed));
    }
    summary
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Place;
    use crate::kubelet::Minor;
    use crate::report::findings::Texts;
    use crate::repository::Snapshot;
    use crate::verdict::{Refusal, Stage, Unknown, Verdict};

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
            let text = written(Tree::json(), &files);
            let json: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(text, format!("{json:#}\n"), "and is indented as any other");
            let yaml: Value = serde_saphyr::from_str(&written(Tree::yaml(), &files)).unwrap();
            assert_eq!(json, yaml);
            assert_eq!(json["files"].as_array().map(Vec::len), Some(files.len()));
        }
    }

    #[test]
    fn both_answers_are_in_it() {
        let json: Value = serde_json::from_str(&written(Tree::json(), &reports())).unwrap();
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
