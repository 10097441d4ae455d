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
