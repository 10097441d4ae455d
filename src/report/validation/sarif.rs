//! The report as SARIF 2.1.0 (OASIS), as GitHub code scanning takes it: every result has a place, paths are relative to the
//! root of the checkout, and no run has more results than it accepts.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use serde_json::{Value, json};

use super::{Batch, Location, Renderer, Totals};
use crate::advice::table;
use crate::finding::{Finding, Place, Severity};
use crate::kubelet::rules;
use crate::report::findings::{Texts, who};

/// The most results that GitHub takes of one run; it refuses a file with more ("SARIF support for code scanning").
const MAX_RESULTS: usize = 25_000;

pub(super) struct Sarif {
    location: Location,
    /// Results by severity, so that errors stay when there are too many.
    results: BTreeMap<Severity, Vec<Value>>,
    dropped: usize,
    codes: BTreeSet<&'static str>,
    /// How often each fingerprint has been given.
    fingerprints: BTreeMap<String, usize>,
}

impl Sarif {
    pub(super) fn new(location: Location) -> Self {
        Self { location, results: BTreeMap::new(), dropped: 0, codes: BTreeSet::new(), fingerprints: BTreeMap::new() }
    }

    fn result(&mut self, finding: &Finding, batch: &Batch<'_>) -> Value {
        self.codes.insert(finding.code);
        // GitHub takes no result without a place: what concerns the whole is put where a repository begins.
        let place = finding.place.clone().unwrap_or_else(|| Place::whole_file(crate::desired::FLEET_FILE));
        let mut message = finding.message.clone();
        if let Some(who) = who(finding) {
            message = format!("{message} ({who})");
        }
        if let Some(help) = &finding.help {
            message = format!("{message}\n{help}");
        }
        let mut result = json!({
            "ruleId": finding.code,
            "level": level(finding.severity),
            "message": {"text": message},
            "locations": [self.place(&place, batch)],
            "partialFingerprints": {"primaryLocationLineHash": self.fingerprint(finding, &place, batch)},
        });
        if !finding.related.is_empty()
            && let Some(fields) = result.as_object_mut()
        {
            let related: Vec<Value> = finding
                .related
                .iter()
                .enumerate()
                .map(|(id, (place, words))| {
                    let mut location = self.place(place, batch);
                    location["id"] = json!(id);
                    location["message"] = json!({"text": words});
                    location
                })
                .collect();
            fields.insert("relatedLocations".to_owned(), Value::Array(related));
        }
        result
    }

    fn place(&self, place: &Place, batch: &Batch<'_>) -> Value {
        let path = self.location.of(batch.root, &place.file);
        let artifact = if path.starts_with('/') {
            json!({"uri": format!("file://{}", encoded(&path))})
        } else {
            json!({"uri": encoded(&path), "uriBaseId": "%SRCROOT%"})
        };
        json!({"physicalLocation": {"artifactLocation": artifact, "region": region(place, batch.texts)}})
    }

    /// The same for the same finding when lines are added above it: file, code, field and the line itself, and which of
    /// several alike it is.
    fn fingerprint(&mut self, finding: &Finding, place: &Place, batch: &Batch<'_>) -> String {
        let text = batch.texts.text_of(&place.file);
        let line = text.and_then(|text| text.lines().nth(place.line.saturating_sub(1))).unwrap_or_default();
        let path = self.location.of(batch.root, &place.file);
        let field = finding.field.as_deref().unwrap_or_default();
        let hash = blake3::hash([path.as_str(), finding.code, field, line.trim()].join("\0").as_bytes());
        let digits: String = hash.to_hex().chars().take(16).collect();
        let times = self.fingerprints.entry(digits.clone()).or_default();
        *times += 1;
        format!("{digits}:{times}")
    }
}

impl Renderer for Sarif {
    fn batch(&mut self, _: &mut dyn Write, batch: &Batch<'_>) -> io::Result<()> {
        for finding in batch.all() {
            if self.results.get(&finding.severity).is_some_and(|results| results.len() >= MAX_RESULTS) {
                self.dropped += 1;
                continue;
            }
            let result = self.result(finding, batch);
            self.results.entry(finding.severity).or_default().push(result);
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Write, _: &Totals) -> io::Result<()> {
        let mut results: Vec<Value> = std::mem::take(&mut self.results).into_values().flatten().collect();
        self.dropped += results.len().saturating_sub(MAX_RESULTS);
        results.truncate(MAX_RESULTS);
        let mut invocation = json!({"executionSuccessful": true});
        if self.dropped > 0 {
            let text = format!("{} more findings are left out: a run holds {MAX_RESULTS} results", self.dropped);
            invocation["toolExecutionNotifications"] = json!([{"level": "warning", "message": {"text": text}}]);
        }
        let rules: Vec<Value> = self.codes.iter().map(|code| descriptor(code)).collect();
        let document = json!({
            "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
            "version": "2.1.0",
            "runs": [{
                "tool": {"driver": {
                    "name": "nodecfg",
                    "semanticVersion": env!("CARGO_PKG_VERSION"),
                    "rules": rules,
                }},
                "columnKind": "unicodeCodePoints",
                "invocations": [invocation],
                "results": results,
            }],
        });
        crate::report::json(out, &document)
    }
}

/// What is known of a code: the sentence and the source of a rule of the kubelet or of a piece of advice, or what nodecfg
/// means by it.
fn descriptor(code: &str) -> Value {
    if let Some(advice) = table::lookup(code) {
        return json!({
            "id": code,
            "shortDescription": {"text": advice.says},
            "help": {"text": format!("{}\nSource: {}", advice.says, advice.source)},
            "properties": {"tags": ["nodecfg"]},
        });
    }
    match rules::lookup(code) {
        Some(rule) => json!({
            "id": code,
            "shortDescription": {"text": rule.says},
            "help": {"text": format!("{}\nUpstream: {}", rule.says, rule.source)},
            "properties": {"tags": ["kubelet"]},
        }),
        None => {
            let text = OWN
                .iter()
                .find(|(own, _)| *own == code)
                .map_or_else(|| code.replace('-', " "), |(_, says)| (*says).to_owned());
            json!({
                "id": code,
                "shortDescription": {"text": text},
                "help": {"text": text},
                "properties": {"tags": ["nodecfg"]},
            })
        }
    }
}

/// nodecfg's own findings whose code does not say it all.
const OWN: [(&str, &str); 9] = [
    ("ambiguous-merge-key", "A merge key below a key that it also brings in is read differently by different readers."),
    ("ambiguous-scalar", "A plain scalar is read as different values by the kubelet and by YAML 1.2 readers."),
    ("duplicate-key", "A key appears twice in one map; the kubelet takes one of them without a word."),
    ("field-not-in-version", "A field that the kubelet's version does not know is dropped without a word."),
    ("key-not-text", "A key that is not text is read differently by different readers."),
    ("nothing-checked", "No configuration was found where one was expected."),
    ("second-document", "The kubelet reads only the first YAML document of a file."),
    ("unknown-field", "A field that no kubelet knows is dropped without a word."),
    ("wrong-type", "A value is not of the type that its field takes."),
];

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}

/// Lines and columns count from 1, columns in characters; the end is the first character after the region.
fn region(place: &Place, texts: &dyn Texts) -> Value {
    let stretch =
        texts.text_of(&place.file).and_then(|text| text.get(place.offset..place.offset.checked_add(place.len)?));
    let mut region = json!({"startLine": place.line.max(1), "startColumn": place.column.max(1)});
    if let Some(stretch) = stretch.filter(|stretch| !stretch.is_empty()) {
        let breaks = stretch.matches('\n').count();
        let last = stretch.rsplit('\n').next().unwrap_or_default().chars().count();
        let end = if breaks == 0 { place.column.max(1) + last } else { last + 1 };
        region["endLine"] = json!(place.line.max(1) + breaks);
        region["endColumn"] = json!(end);
    }
    region
}

/// A path as part of a URI (RFC 3986): what is not unreserved is escaped.
fn encoded(path: &str) -> String {
    let mut uri = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => uri.push(char::from(byte)),
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}
