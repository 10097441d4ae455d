//! Report of `validate` as SARIF 2.1.0, for code scanning.
//!
//! GitHub requires a place for every result and paths relative to the checkout root, and rejects too many results.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::io::Write;

use serde_json::{Value, json};

use super::{Batch, Location, Renderer, Totals};
use crate::report::error::ErrorMessage;
use crate::report::findings::{SourceTexts, affected_kubelets};
use crate::report::{code_explanation, codes};
use kubelet_config::finding::{Finding, Place, Severity};

/// Maximum number of results per run. GitHub rejects larger files ("SARIF support for code scanning").
const MAX_RESULTS: usize = 25_000;

pub(super) struct Sarif {
    location: Location,
    /// Results by severity, so that the limit cuts notes first and errors last.
    results: BTreeMap<Severity, Vec<Value>>,
    /// Number of findings over the limit.
    dropped: usize,
    codes: BTreeSet<&'static str>,
    /// The number of uses of each fingerprint.
    fingerprints: BTreeMap<String, usize>,
}

impl Sarif {
    pub(super) fn new(location: Location) -> Self {
        Self { location, results: BTreeMap::new(), dropped: 0, codes: BTreeSet::new(), fingerprints: BTreeMap::new() }
    }

    fn result(&mut self, finding: &Finding, batch: &Batch<'_>) -> Value {
        self.codes.insert(finding.code);
        // GitHub requires a place, so findings without one refer to the file of the fleet.
        let place = finding.place.clone().unwrap_or_else(|| Place::whole_file(nodecfg_fleet::FLEET_FILE));
        let mut message = finding.message.clone();
        if let Some(kubelets) = affected_kubelets(finding) {
            message = format!("{message} ({kubelets})");
        }
        if let Some(help) = &finding.help {
            message = format!("{message}\n{help}");
        }
        let mut result = json!({
            "ruleId": finding.code,
            "level": level(finding.severity),
            "message": {"text": message},
            "locations": [{"physicalLocation": self.physical_location(&place, batch)}],
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
                    let physical = self.physical_location(place, batch);
                    json!({"id": id, "message": {"text": words}, "physicalLocation": physical})
                })
                .collect();
            fields.insert("relatedLocations".to_owned(), Value::Array(related));
        }
        result
    }

    fn physical_location(&self, place: &Place, batch: &Batch<'_>) -> Value {
        let path = self.location.of(batch.root, &place.file);
        let artifact = if path.starts_with('/') {
            json!({"uri": format!("file://{}", encoded(&path))})
        } else {
            json!({"uri": encoded(&path), "uriBaseId": "%SRCROOT%"})
        };
        json!({"artifactLocation": artifact, "region": region(place, batch.texts)})
    }

    /// A fingerprint that stays the same if lines are added above: a hash of file, code, field and line text, with a
    /// counter for duplicates.
    fn fingerprint(&mut self, finding: &Finding, place: &Place, batch: &Batch<'_>) -> String {
        let text = (batch.texts)(&place.file);
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
        let dropped = (self.dropped > 0).then(|| {
            let text = format!("{} more findings are omitted: the maximum is {MAX_RESULTS} results", self.dropped);
            json!({"level": "warning", "message": {"text": text}})
        });
        let rules: Vec<Value> = self.codes.iter().map(|code| descriptor(code)).collect();
        crate::report::json(out, &document(true, dropped.into_iter().collect(), rules, results))
    }
}

/// Writes the report of a check that failed as a whole: no results, and the errors as notifications of the tool.
pub(super) fn failed(out: &mut dyn Write, errors: &[ErrorMessage]) -> io::Result<()> {
    let notification = |error: &ErrorMessage| {
        let separator = if error.help.is_empty() { "" } else { "\n" };
        let text = format!("{}{separator}{}", error.message, error.help);
        json!({"level": "error", "message": {"text": text}})
    };
    let notifications = errors.iter().map(notification).collect();
    crate::report::json(out, &document(false, notifications, Vec::new(), Vec::new()))
}

fn document(successful: bool, notifications: Vec<Value>, rules: Vec<Value>, results: Vec<Value>) -> Value {
    let invocation = json!({"executionSuccessful": successful, "toolExecutionNotifications": notifications});
    json!({
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
    })
}

/// The rule descriptor of a code, with all fields that GitHub requires.
fn descriptor(code: &str) -> Value {
    let known = codes::lookup(code);
    let says = known.map_or_else(|| code.replace('-', " "), |code| code.says.to_owned());
    let help = match known.and_then(|code| code.source) {
        Some(source) => format!("{says}\nSource: {source}"),
        None => says.clone(),
    };
    let fix =
        code_explanation::explain(code).map(|explanation| format!("\nFix: {}", explanation.fix)).unwrap_or_default();
    let help = format!("{help}{fix}\nDetails: `nodecfg explain {code}`");
    let tag = if known.is_some_and(|code| code.is_rule) { "kubelet" } else { "nodecfg" };
    json!({
        "id": code,
        "shortDescription": {"text": says},
        "fullDescription": {"text": says},
        "help": {"text": help},
        "defaultConfiguration": {"level": level(known.map_or(Severity::Warning, |code| code.severity))},
        "properties": {"tags": [tag]},
    })
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}

/// The region of a place. Lines and columns count from 1, columns in characters. The end column is the first one
/// after the region. Without length or file content, the region has only a start.
fn region(place: &Place, texts: &SourceTexts<'_>) -> Value {
    let covered = texts(&place.file).and_then(|text| text.get(place.offset..place.offset.checked_add(place.len)?));
    let (line, column) = (place.line.max(1), place.column.max(1));
    let Some(covered) = covered.filter(|covered| !covered.is_empty()) else {
        return json!({"startLine": line, "startColumn": column});
    };
    let breaks = covered.matches('\n').count();
    let last = covered.rsplit('\n').next().unwrap_or_default().chars().count();
    let end = if breaks == 0 { column + last } else { last + 1 };
    json!({"startLine": line, "startColumn": column, "endLine": line + breaks, "endColumn": end})
}

/// Percent-encodes a path for a URI (RFC 3986).
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::validation::FileReport;
    use kubelet_config::Minor;
    use nodecfg_fleet::snapshot::Snapshot;

    const TEXT: &str = "kind: KubeletConfiguration\nclusterDomain: ä\nmaxPods: -5\nevictionHard:\n  a: 1\n  b: 2\n";

    fn at(line: usize, column: usize, covered: &str) -> Place {
        let offset = TEXT.find(covered).expect("in the text");
        Place { offset, len: covered.len(), line, column, ..Place::whole_file("pools/a b/kubelet.yaml") }
    }

    fn document(findings: Vec<Finding>, others: &[Finding]) -> Value {
        let snapshot = Snapshot::of_texts([("pools/a b/kubelet.yaml", TEXT)]);
        let location = Location { current: "/repo/sub".to_owned(), root: "/repo".to_owned() };
        let mut sarif = Sarif::new(location);
        let files = [FileReport { file: "pools/a b/kubelet.yaml".to_owned(), findings, ..FileReport::default() }];
        let batch = Batch { root: "", files: &files, findings: others, texts: &|file| snapshot.text(file) };
        let mut out = Vec::new();
        sarif.batch(&mut out, &batch).unwrap();
        sarif.finish(&mut out, &Totals::default()).unwrap();
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn document_meets_requirements_of_code_scanning() {
        let refused = Finding::error("max-pods", "no")
            .at(at(3, 10, "-5"))
            .field("maxPods")
            .kubelets([Minor(36)])
            .help("write 110")
            .related(at(1, 1, "kind"), "here");
        let unknown = Finding::warning("unknown-field", "what").at(at(2, 16, "ä"));
        let block = Finding::note("something", "many lines").at(at(5, 3, "a: 1\n  b: 2"));
        let document = document(vec![refused.clone(), refused, unknown, block], &[Finding::error("no-place", "x")]);
        assert_eq!(document["version"], "2.1.0");
        let run = &document["runs"][0];
        let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
        let ids: Vec<&str> = rules.iter().filter_map(|rule| rule["id"].as_str()).collect();
        assert_eq!(ids, ["max-pods", "no-place", "something", "unknown-field"]);
        assert!(rules.iter().all(|rule| !rule["shortDescription"]["text"].as_str().unwrap().is_empty()));
        let results = run["results"].as_array().unwrap();
        for result in results {
            assert!(ids.contains(&result["ruleId"].as_str().unwrap()));
            assert!(["error", "warning", "note"].contains(&result["level"].as_str().unwrap()));
            assert!(!result["message"]["text"].as_str().unwrap().is_empty());
            let place = &result["locations"][0]["physicalLocation"];
            assert!(!place["artifactLocation"]["uri"].as_str().unwrap().starts_with('/'));
            let number = |name: &str| place["region"][name].as_u64();
            assert!(number("startLine") >= Some(1) && number("startColumn") >= Some(1));
        }
        let with = |code: &str| results.iter().find(|result| result["ruleId"] == code).unwrap();
        let first = with("max-pods");
        assert_eq!(first["message"]["text"], "no (kubelet 1.36 refuses it)\nwrite 110");
        let place = &first["locations"][0]["physicalLocation"];
        assert_eq!(place["artifactLocation"], json!({"uri": "sub/pools/a%20b/kubelet.yaml", "uriBaseId": "%SRCROOT%"}));
        assert_eq!(place["region"], json!({"startLine": 3, "startColumn": 10, "endLine": 3, "endColumn": 12}));
        assert_eq!(first["relatedLocations"][0]["message"]["text"], "here");
        let region = |code: &str| &with(code)["locations"][0]["physicalLocation"]["region"];
        assert_eq!(region("unknown-field")["endColumn"], 17, "columns are characters");
        assert_eq!(region("something")["endLine"], 6);
        assert_eq!(region("something")["endColumn"], 7);
        // Errors come first. Equal findings have different fingerprints.
        assert_eq!(results[0]["level"], "error");
        let fingerprints: BTreeSet<&str> =
            results.iter().filter_map(|r| r["partialFingerprints"]["primaryLocationLineHash"].as_str()).collect();
        assert_eq!(fingerprints.len(), results.len());
    }

    #[test]
    fn fingerprint_depends_on_line_text_but_not_number() {
        let hash = |line| {
            let document = document(vec![Finding::error("max-pods", "no").at(at(line, 10, "-5"))], &[]);
            document["runs"][0]["results"][0]["partialFingerprints"]["primaryLocationLineHash"].clone()
        };
        assert_ne!(hash(3), hash(2), "the text of the line counts");
        assert_eq!(hash(70), hash(80));
    }

    #[test]
    fn limits_results_and_keeps_errors() {
        let mut findings = vec![Finding::note("note", "n").at(at(1, 1, "kind")); MAX_RESULTS];
        findings.push(Finding::error("max-pods", "no").at(at(3, 10, "-5")));
        let document = document(findings, &[]);
        let run = &document["runs"][0];
        let results = run["results"].as_array().unwrap();
        assert_eq!((results.len(), results[0]["level"].as_str()), (MAX_RESULTS, Some("error")));
        let notification = run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"].as_str().unwrap();
        assert!(notification.starts_with("1 more finding"), "{notification}");
    }
}
