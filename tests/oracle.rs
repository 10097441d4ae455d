//! What kubelets 1.21.1 and 1.36.2 themselves said of thousands of small files, and what nodecfg says of them: the same.
//!
//! `data/oracle/cases.jsonl` holds a file per line with each kubelet's stage, its errors, and what it refused later, at
//! start-up. They were taken on a host with cgroup v2. Where a kubelet refuses a file, nodecfg refuses the field that its
//! error names, among others: a kubelet stops at its first error of a stage, or reports some, and nodecfg all.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use kubelet_config::document::{Document, Unread};
use kubelet_config::verdict::{Refusal, Stage, assess};
use kubelet_config::{Minor, fields};
use serde::Deserialize;

#[derive(Deserialize)]
struct Case {
    id: String,
    yaml: String,
    #[serde(flatten)]
    said: BTreeMap<String, serde_json::Value>,
}

#[derive(Deserialize)]
struct Said {
    stage: String,
    #[serde(default)]
    errors: Vec<String>,
    #[serde(default)]
    startup: Vec<String>,
}

/// What nodecfg says of one file.
struct Ours {
    stage: String,
    /// `None`: it cannot be read.
    refusals: Option<Vec<Refusal>>,
    startup: Vec<Refusal>,
}

fn cases() -> Vec<Case> {
    let text = include_str!("data/oracle/cases.jsonl");
    text.lines().map(|line| serde_json::from_str(line).expect("the cases are JSON lines")).collect()
}

impl Case {
    fn said(&self, minor: u32) -> Said {
        serde_json::from_value(self.said[&format!("1.{minor}")].clone()).expect("a verdict")
    }

    fn ours(&self, minor: u32) -> Ours {
        let parsed = Document::parse("kubelet.yaml", &self.yaml);
        assert_eq!(parsed.document.is_none(), parsed.unread.is_some(), "{}", self.id);
        assert_ne!(parsed.unread, Some(Unread::Bounds), "{}: nodecfg does not judge it", self.id);
        let (stage, refusals, startup) = match parsed.document {
            None => (Stage::Load, None, Vec::new()),
            Some(document) => {
                let verdict = assess(&document, Minor(minor));
                (verdict.stage, Some(verdict.refusals), verdict.startup)
            }
        };
        let stage = serde_json::to_value(stage).expect("a stage").as_str().expect("a name").to_owned();
        Ours { stage, refusals, startup }
    }
}

/// Agreement on stage (and with it on acceptance) and on whether the kubelet starts; by the kubelet's stage.
fn agreement(minor: u32) {
    let (mut right, mut all, mut wrong) = (BTreeMap::new(), BTreeMap::new(), String::new());
    for case in &cases() {
        let (said, ours) = (case.said(minor), case.ours(minor));
        *all.entry(said.stage.clone()).or_insert(0) += 1;
        if ours.stage == said.stage && ours.startup.is_empty() == said.startup.is_empty() {
            *right.entry(said.stage).or_insert(0) += 1;
        } else {
            let fields: Vec<_> =
                ours.refusals.iter().flatten().chain(&ours.startup).map(|r| r.field.as_str()).collect();
            let _ = writeln!(
                wrong,
                "{}: kubelet {} {:?}{:?}, nodecfg {} {fields:?}",
                case.id, said.stage, said.errors, said.startup, ours.stage
            );
        }
    }
    for (stage, count) in &all {
        println!("kubelet 1.{minor}: {} of {count} verdicts `{stage}` agree", right.get(stage).unwrap_or(&0));
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn verdicts_agree_with_kubelet_1_21() {
    agreement(21);
}

#[test]
fn verdicts_agree_with_kubelet_1_36() {
    agreement(36);
}

/// Whether a file loads at all, apart from the stages after that.
#[test]
fn what_loads_and_what_does_not() {
    for minor in [21, 36] {
        let mut wrong = String::new();
        for case in &cases() {
            let (said, ours) = (case.said(minor), case.ours(minor));
            if (said.stage == "load") != (ours.stage == "load") {
                let _ =
                    writeln!(wrong, "{}: kubelet {} {:?}, nodecfg {}", case.id, said.stage, said.errors, ours.stage);
            }
        }
        assert!(wrong.is_empty(), "1.{minor}:\n{wrong}");
    }
}

/// What an error of the kubelet's is about.
#[derive(Debug, PartialEq)]
enum Named {
    /// The text as a whole: it is not YAML or JSON, or no map.
    File,
    /// A field, or something below it; in any case, without positions in lists.
    Field(String),
    /// One of the fields whose names are among these words.
    Words(BTreeSet<String>),
    /// No field, but the value of one: what nodecfg says of it has one of these in it.
    Value(Vec<String>),
    /// Nothing.
    Nothing,
}

/// Errors that name no field and no value either.
const SILENT: [&str; 1] = [
    // A number with an exponent, in a field for whole numbers, after the digits before the exponent.
    "decode: struct Decode: expect }, but found e",
];

/// Other names that errors have for fields.
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

fn named(error: &str) -> Named {
    let quoted = || error.split('"').nth(1).unwrap_or_default().to_owned();
    if let Some((_, gate)) = error.split_once("feature gate: ") {
        return Named::Field(format!("featureGates.{gate}"));
    }
    if let Some((_, rest)) = error.split_once("cannot set feature gate ") {
        return Named::Field(format!("featureGates.{}", rest.split(" to ").next().unwrap_or_default()));
    }
    if SILENT.contains(&error) {
        return Named::Nothing;
    }
    if error.contains("depends on features that are disabled") {
        return Named::Words(error.split(|c: char| !c.is_alphanumeric()).map(str::to_ascii_lowercase).collect());
    }
    let Some(load) = error.strip_prefix("decode: ") else {
        if error.ends_with("was empty") {
            return Named::File;
        }
        if error.starts_with("failed to cast object") {
            return Named::Words(["apiversion", "kind"].map(str::to_owned).into());
        }
        return in_words(error);
    };
    if let Some((_, path)) = load.split_once("Go struct field ") {
        // The type that holds the field, then its path from the top.
        let path = path.split(" of type").next().unwrap_or_default();
        let path = path.split_once('.').map_or(path, |(_, path)| path);
        return Named::Field(path.replace(".OutputRoutingOptions", ""));
    }
    if load.starts_with("Object '") {
        return Named::Field(load.split('\'').nth(1).unwrap_or_default().to_owned());
    }
    if load.starts_with("no kind ") {
        return Named::Words(["apiversion", "kind"].map(str::to_owned).into());
    }
    if load.starts_with("v1beta1.") {
        // Go's names from the outside in; some chains begin with a field that was read before.
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
        return Named::Field(chain.join(".").replace("ResolverConfig", "resolvConf"));
    }
    if load.starts_with("time: ") {
        let text = error.rsplit('"').nth(1).unwrap_or_default();
        let null = text.is_empty().then(|| "null, which is no duration".to_owned());
        return Named::Value([format!("\"{text}\", which")].into_iter().chain(null).collect());
    }
    if load.starts_with("parsing time ") {
        return Named::Value(vec![format!("{:?}, which is no time", quoted())]);
    }
    if load.contains("quantities must match") || load.contains("quantity's suffix") {
        return Named::Value(vec!["a quantity".to_owned()]);
    }
    if let Some(value) = load.strip_prefix("json: unsupported value: ") {
        return Named::Value(vec![format!(
            ".{}, which is no number in JSON",
            value.trim_start_matches(['+', '-']).to_ascii_lowercase()
        )]);
    }
    let unreadable = ["yaml: ", "nsupported map key", "json parse error"].iter().any(|words| load.contains(words));
    if unreadable { Named::File } else { in_words(error) }
}

/// Looks for names of fields in an error's words.
fn in_words(error: &str) -> Named {
    if let Some((_, field)) = NAMES.iter().find(|(words, _)| error.contains(words)) {
        return Named::Field((*field).to_owned());
    }
    let known: BTreeSet<String> =
        fields::all().flat_map(|field| field.path.split(['.', '[', '{'])).map(str::to_ascii_lowercase).collect();
    let words: BTreeSet<String> = error
        .split(|c: char| !c.is_ascii_alphanumeric())
        .map(str::to_ascii_lowercase)
        .filter(|word| known.contains(word))
        .collect();
    if words.is_empty() { Named::Nothing } else { Named::Words(words) }
}

/// A path without positions in lists, in lower case.
fn plain(field: &str) -> String {
    let mut parts = field.split('[');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |path, part| path + part.split_once(']').map_or(part, |(_, rest)| rest)).to_ascii_lowercase()
}

fn is_named(named: &Named, refusals: Option<&[Refusal]>) -> bool {
    // To the kubelet a text without any value is a map without a kind.
    let Some(refusals) = refusals else { return [Named::File, Named::Field("Kind".to_owned())].contains(named) };
    refusals.iter().any(|refusal| {
        let field = plain(&refusal.field);
        match named {
            Named::File => field.is_empty(),
            Named::Nothing => true,
            Named::Field(path) => {
                let path = path.to_ascii_lowercase();
                field == path || field.strip_prefix(&path).is_some_and(|rest| rest.starts_with('.'))
            }
            Named::Words(words) => field.split('.').any(|part| words.contains(part)),
            Named::Value(values) => {
                let message = refusal.message.replace(".NaN", ".nan").replace(".Inf", ".inf");
                values.iter().any(|value| message.contains(value.as_str()))
            }
        }
    })
}

#[test]
fn refusals_name_what_the_kubelet_names() {
    let mut wrong = String::new();
    for minor in [21, 36] {
        for case in &cases() {
            let (said, ours) = (case.said(minor), case.ours(minor));
            if said.stage != ours.stage {
                // The tests above fail on that.
                continue;
            }
            for error in &said.errors {
                let named = named(error);
                if named == Named::Nothing && !SILENT.contains(&error.as_str()) {
                    let _ = writeln!(wrong, "{} 1.{minor}: what does this name? {error}", case.id);
                }
                if !is_named(&named, ours.refusals.as_deref()) {
                    let fields: Vec<_> = ours.refusals.iter().flatten().map(|r| r.field.as_str()).collect();
                    let _ = writeln!(wrong, "{} 1.{minor}: {error} names {named:?}, nodecfg {fields:?}", case.id);
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
