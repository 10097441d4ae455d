//! Comparison of nodecfg with recorded verdicts of kubelets 1.21.1 and 1.36.2 on thousands of small files.
//!
//! Each line of `data/oracle/cases.jsonl` has a file, and for each kubelet its stage, its errors and the errors at
//! start-up. They were recorded on a host with cgroup v2. A kubelet reports the first or some errors of a stage, and
//! nodecfg reports all. So the errors of nodecfg must include the field that the kubelet names.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use kubelet_config::document::{Document, Unread};
use kubelet_config::verdict::{Refusal, Stage, assess, rules};
use kubelet_config::{Minor, fields};
use serde::Deserialize;

#[derive(Deserialize)]
struct Case {
    id: String,
    yaml: String,
    #[serde(flatten)]
    verdicts: BTreeMap<String, serde_json::Value>,
}

#[derive(Deserialize)]
struct RecordedVerdict {
    stage: String,
    #[serde(default)]
    errors: Vec<String>,
    #[serde(default)]
    startup: Vec<String>,
}

/// Rules at start-up that the recorder did not run: it called the checks of each component, but connected to no runtime,
/// listened on no port and set up no cgroup. `startup-errors.jsonl` has starts of whole kubelets.
const NOT_RECORDED: [&str; 10] = [
    "address-not-ip",
    "enforced-without-reservation",
    "half-a-certificate",
    "log-rotation-files",
    "reserved-cpus-none",
    "reserved-memory-mismatch",
    "reserved-memory-node",
    "reserved-memory-whole",
    "runtime-endpoint",
    "runtime-request-timeout",
];

/// The verdict of nodecfg on one file.
struct OwnVerdict {
    stage: String,
    /// `None` if the file cannot be read.
    refusals: Option<Vec<Refusal>>,
    startup: Vec<Refusal>,
}

fn cases() -> Vec<Case> {
    assert!(NOT_RECORDED.iter().all(|rule| rules::lookup(rule).is_some()), "{NOT_RECORDED:?}");
    let text = include_str!("../data/oracle/cases.jsonl");
    let cases: Vec<Case> =
        text.lines().map(|line| serde_json::from_str(line).expect("the cases are JSON lines")).collect();
    assert!(cases.len() > 2_700, "{} cases", cases.len());
    cases
}

impl Case {
    fn verdict(&self, minor: u32) -> RecordedVerdict {
        let mut verdict: RecordedVerdict =
            serde_json::from_value(self.verdicts[&format!("1.{minor}")].clone()).expect("a verdict");
        // The recorder also checked this policy in 1.21, where the gate of the memory manager is off by default.
        verdict.startup.retain(|error| minor != 21 || !error.starts_with("memoryManagerPolicy: "));
        verdict
    }

    fn own_verdict(&self, minor: u32) -> OwnVerdict {
        let parsed = Document::parse("kubelet.yaml", &self.yaml);
        assert_eq!(parsed.document.is_none(), parsed.unread.is_some(), "{}", self.id);
        assert_ne!(parsed.unread, Some(Unread::Bounds), "{}: nodecfg does not judge it", self.id);
        let (stage, refusals, startup) = match parsed.document {
            None => (Stage::Load, None, Vec::new()),
            Some(document) => {
                let verdict = assess(&document, Minor(minor));
                let recorded = |refusal: &Refusal| !NOT_RECORDED.contains(&refusal.rule);
                (verdict.stage, Some(verdict.refusals), verdict.startup.into_iter().filter(recorded).collect())
            }
        };
        let stage = serde_json::to_value(stage).expect("a stage").as_str().expect("a name").to_owned();
        OwnVerdict { stage, refusals, startup }
    }
}

/// Checks that both agree on the stage, which includes acceptance, and on whether the kubelet starts.
fn agreement(minor: u32) {
    let (mut right, mut all, mut wrong) = (BTreeMap::new(), BTreeMap::new(), String::new());
    for case in &cases() {
        let (verdict, own_verdict) = (case.verdict(minor), case.own_verdict(minor));
        *all.entry(verdict.stage.clone()).or_insert(0) += 1;
        if own_verdict.stage == verdict.stage && own_verdict.startup.is_empty() == verdict.startup.is_empty() {
            *right.entry(verdict.stage).or_insert(0) += 1;
        } else {
            let fields: Vec<_> =
                own_verdict.refusals.iter().flatten().chain(&own_verdict.startup).map(|r| r.field.as_str()).collect();
            let _ = writeln!(
                wrong,
                "{}: kubelet {} {:?}{:?}, nodecfg {} {fields:?}",
                case.id, verdict.stage, verdict.errors, verdict.startup, own_verdict.stage
            );
        }
    }
    for (stage, count) in &all {
        println!("kubelet 1.{minor}: {} of {count} verdicts `{stage}` agree", right.get(stage).unwrap_or(&0));
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn agrees_with_kubelet_1_21() {
    agreement(21);
}

#[test]
fn agrees_with_kubelet_1_36() {
    agreement(36);
}

/// Checks that both agree on whether a file loads, apart from later stages.
#[test]
fn agrees_on_loading() {
    for minor in [21, 36] {
        let mut wrong = String::new();
        for case in &cases() {
            let (verdict, own_verdict) = (case.verdict(minor), case.own_verdict(minor));
            if (verdict.stage == "load") != (own_verdict.stage == "load") {
                let _ = writeln!(
                    wrong,
                    "{}: kubelet {} {:?}, nodecfg {}",
                    case.id, verdict.stage, verdict.errors, own_verdict.stage
                );
            }
        }
        assert!(wrong.is_empty(), "1.{minor}:\n{wrong}");
    }
}

/// Subject of a kubelet error.
#[derive(Debug, PartialEq)]
enum ErrorSubject {
    /// The whole text: it is not YAML or JSON, or not a map.
    File,
    /// A field or a nested field, in lower case and without list positions.
    Field(String),
    /// One of the fields named in these words.
    Words(BTreeSet<String>),
    /// A value. The message of nodecfg contains one of these texts.
    Value(Vec<String>),
    /// Unknown.
    Nothing,
}

/// Errors that name neither a field nor a value.
const UNSPECIFIC_ERRORS: [&str; 1] = [
    // A number with an exponent in an integer field, after the digits before the exponent.
    "decode: struct Decode: expect }, but found e",
];

/// Names in errors that differ from the field names.
const NAMES: [(&str, &str); 8] = [
    ("--show-hidden-metrics-for-version", "showHiddenMetricsForVersion"),
    ("unsupported log format", "logging.format"),
    ("initialize logging: format", "logging.format"),
    ("pod logs path", "podLogsDir"),
    ("reserved memory", "reservedMemory"),
    ("invalid taint", "registerWithTaints"),
    ("the limit type", "reservedMemory"),
    ("invalid duration \"", "logging.flushFrequency"),
];

fn named(error: &str) -> ErrorSubject {
    let quoted = || error.split('"').nth(1).unwrap_or_default().to_owned();
    if let Some((_, gate)) = error.split_once("feature gate: ") {
        return ErrorSubject::Field(format!("featureGates.{gate}"));
    }
    if let Some((_, rest)) = error.split_once("cannot set feature gate ") {
        return ErrorSubject::Field(format!("featureGates.{}", rest.split(" to ").next().unwrap_or_default()));
    }
    if UNSPECIFIC_ERRORS.contains(&error) {
        return ErrorSubject::Nothing;
    }
    if error.contains("depends on features that are disabled") {
        return ErrorSubject::Words(error.split(|c: char| !c.is_alphanumeric()).map(str::to_ascii_lowercase).collect());
    }
    let Some(load) = error.strip_prefix("decode: ") else {
        if error.ends_with("was empty") {
            return ErrorSubject::File;
        }
        if error.starts_with("failed to cast object") {
            return ErrorSubject::Words(["apiversion", "kind"].map(str::to_owned).into());
        }
        return fields_in_words(error);
    };
    if let Some((_, path)) = load.split_once("Go struct field ") {
        // The type that contains the field, then the path from the top.
        let path = path.split(" of type").next().unwrap_or_default();
        let path = path.split_once('.').map_or(path, |(_, path)| path);
        return ErrorSubject::Field(path.replace(".OutputRoutingOptions", ""));
    }
    if load.starts_with("Object '") {
        return ErrorSubject::Field(load.split('\'').nth(1).unwrap_or_default().to_owned());
    }
    if load.starts_with("no kind ") {
        return ErrorSubject::Words(["apiversion", "kind"].map(str::to_owned).into());
    }
    if load.starts_with("v1beta1.") {
        // Go names from the outside in. Some chains begin with a field that was read before.
        let mut chain: Vec<&str> = load
            .split(": ")
            .map_while(|part| match part.split('.').collect::<Vec<_>>()[..] {
                [_, _, field] => Some(field),
                [name] if name.starts_with(char::is_uppercase) && !name.starts_with("Read") => Some(name),
                _ => None,
            })
            .collect();
        while chain.len() > 1 && ["TypeMeta", "Kind", "APIVersion"].contains(&chain[0]) {
            chain.remove(0);
        }
        return ErrorSubject::Field(chain.join(".").replace("ResolverConfig", "resolvConf"));
    }
    if load.starts_with("time: ") {
        let text = error.rsplit('"').nth(1).unwrap_or_default();
        let null = text.is_empty().then(|| "null, which is not a duration".to_owned());
        return ErrorSubject::Value([format!("\"{text}\", which")].into_iter().chain(null).collect());
    }
    if load.starts_with("parsing time ") {
        return ErrorSubject::Value(vec![format!("{:?}, which is not a time", quoted())]);
    }
    if load.contains("quantities must match") || load.contains("quantity's suffix") {
        return ErrorSubject::Value(vec!["a quantity".to_owned()]);
    }
    if let Some(value) = load.strip_prefix("json: unsupported value: ") {
        return ErrorSubject::Value(vec![format!(
            ".{}, which JSON cannot represent as a number",
            value.trim_start_matches(['+', '-']).to_ascii_lowercase()
        )]);
    }
    let unreadable = ["yaml: ", "nsupported map key", "json parse error"].iter().any(|words| load.contains(words));
    if unreadable { ErrorSubject::File } else { fields_in_words(error) }
}

/// Finds field names in the words of an error.
fn fields_in_words(error: &str) -> ErrorSubject {
    if let Some((_, field)) = NAMES.iter().find(|(words, _)| error.contains(words)) {
        return ErrorSubject::Field((*field).to_owned());
    }
    let known: BTreeSet<String> =
        fields::all().flat_map(|field| field.path.split(['.', '[', '{'])).map(str::to_ascii_lowercase).collect();
    let words: BTreeSet<String> = error
        .split(|c: char| !c.is_ascii_alphanumeric())
        .map(str::to_ascii_lowercase)
        .filter(|word| known.contains(word))
        .collect();
    if words.is_empty() { ErrorSubject::Nothing } else { ErrorSubject::Words(words) }
}

/// A path in lower case, without list positions.
fn plain(field: &str) -> String {
    let mut parts = field.split('[');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |path, part| path + part.split_once(']').map_or(part, |(_, rest)| rest)).to_ascii_lowercase()
}

fn is_named(named: &ErrorSubject, refusals: Option<&[Refusal]>) -> bool {
    // For the kubelet, an empty text is a map without a kind.
    let Some(refusals) = refusals else {
        return [ErrorSubject::File, ErrorSubject::Field("Kind".to_owned())].contains(named);
    };
    refusals.iter().any(|refusal| {
        let field = plain(&refusal.field);
        match named {
            ErrorSubject::File => field.is_empty(),
            ErrorSubject::Nothing => true,
            ErrorSubject::Field(path) => {
                let path = path.to_ascii_lowercase();
                field == path || field.strip_prefix(&path).is_some_and(|rest| rest.starts_with('.'))
            }
            ErrorSubject::Words(words) => field.split('.').any(|part| words.contains(part)),
            ErrorSubject::Value(values) => {
                let message = refusal.message.replace(".NaN", ".nan").replace(".Inf", ".inf");
                values.iter().any(|value| message.contains(value.as_str()))
            }
        }
    })
}

#[test]
fn names_fields_named_by_kubelet() {
    let mut wrong = String::new();
    for minor in [21, 36] {
        for case in &cases() {
            let (verdict, own_verdict) = (case.verdict(minor), case.own_verdict(minor));
            if verdict.stage != own_verdict.stage {
                // The tests above already report this.
                continue;
            }
            for error in &verdict.errors {
                let named = named(error);
                if named == ErrorSubject::Nothing && !UNSPECIFIC_ERRORS.contains(&error.as_str()) {
                    let _ = writeln!(wrong, "{} 1.{minor}: what does this name? {error}", case.id);
                }
                if !is_named(&named, own_verdict.refusals.as_deref()) {
                    let fields: Vec<_> = own_verdict.refusals.iter().flatten().map(|r| r.field.as_str()).collect();
                    let _ = writeln!(wrong, "{} 1.{minor}: {error} names {named:?}, nodecfg {fields:?}", case.id);
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
