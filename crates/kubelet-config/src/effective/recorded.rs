//! The answers of a real kubelet 1.36.2 to files, drop-ins and flags (`tests/data/effective`). `effective` in a line
//! has the values that differ from the defaults, and `absent` the defaults that are unset.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value as Json};

use super::*;

static CASES: &str = include_str!("../../../../tests/data/effective/kubelet-1.36.jsonl");
static DEFAULTS: &str = include_str!("../../../../tests/data/effective/defaults-1.36.json");

/// Flags of all recorded kubelets.
const FLAGS: [&str; 2] = ["--fail-cgroupv1=false", "-v=5"];
/// The recorded kubelet differs from a released one in these cases. It was built without the JSON log format, which
/// `cmd/kubelet/kubelet.go` imports (`logs/json/register`), and it only warns about unknown feature gates. The text is
/// that of the refusal, by the recorded kubelet or here.
const OTHER_BUILD: [(&str, &str); 5] = [
    ("field/featureGates", "the kubelet has no feature gate `SeccompDefault`"),
    ("field-over-kubeadm/featureGates", "the kubelet has no feature gate `SeccompDefault`"),
    ("over/15-logging-base", "Unsupported log format"),
    ("over/15-logging-two", "Unsupported log format"),
    ("over/15-logging-later", "Unsupported log format"),
];

/// The folder of a case.
const DIR: &str = "/case";

#[test]
fn kubelet_runs_the_recorded_values() {
    let defaults: Map<String, Json> = serde_json::from_str(DEFAULTS).expect("the defaults");
    let (mut failed, mut count) = (Vec::new(), 0);
    for line in CASES.lines() {
        let case: Json = serde_json::from_str(line).expect("a case");
        count += 1;
        if let Some(problem) = problem(&case, &defaults) {
            failed.push(format!("{}: {problem}", case["id"]));
        }
    }
    assert_eq!(count, 358);
    assert!(failed.is_empty(), "{} of {count}:\n{}", failed.len(), failed.join("\n"));
}

fn problem(case: &Json, defaults: &Map<String, Json>) -> Option<String> {
    let error = case["error"].as_str().unwrap_or_default();
    let answer = answer(case);
    if let Some((_, text)) = OTHER_BUILD.iter().find(|(id, _)| case["id"] == *id) {
        let ours = answer.as_ref().err().map(ToString::to_string).unwrap_or_default();
        let is_expected = error.contains(text) != ours.contains(text) && answer.is_ok() != (case["accepted"] == true);
        return (!is_expected).then(|| format!("no longer differs as described: {ours}"));
    }
    match (answer, case["accepted"] == true) {
        (Err(_), false) => None,
        (Ok(_), false) => Some(format!("accepted, but the kubelet says {error}")),
        (Err(refused), true) => Some(format!("refused: {refused}")),
        (Ok(answer), true) => {
            let mut expected: BTreeMap<&str, &Json> =
                defaults.iter().map(|(path, value)| (path.as_str(), value)).collect();
            let effective = case["effective"].as_object().expect("values");
            for path in case["absent"].as_array().into_iter().flatten() {
                expected.remove(path.as_str().expect("a path"));
            }
            for (path, value) in effective {
                // An object with values is no value itself.
                expected.retain(|other, _| !path.starts_with(&format!("{other}.")));
                expected.insert(path, value);
            }
            let found: BTreeMap<&str, &Json> =
                answer.values.iter().map(|(path, value)| (path.as_str(), &value.value)).collect();
            let paths: BTreeSet<&str> = expected.keys().chain(found.keys()).copied().collect();
            let differing: Vec<String> = paths
                .into_iter()
                .filter(|path| expected.get(path) != found.get(path))
                .map(|path| format!("{path} is {:?}, recorded {:?}", found.get(path), expected.get(path)))
                .collect();
            (!differing.is_empty()).then(|| differing.join("; "))
        }
    }
}

fn answer(case: &Json) -> Result<Effective, Refused> {
    let mut flags: Vec<String> = FLAGS.iter().map(ToString::to_string).collect();
    flags.extend(case["flags"].as_array().into_iter().flatten().map(|flag| flag.as_str().expect("a flag").to_owned()));
    let folder = folder(case);
    effective(&Kubelet {
        minor: Minor(36),
        config: case["config"].as_str().map(|text| ConfigFile { path: "/case/kubelet.yaml", text }),
        config_dir: Some(&folder),
        drop_in_alpha: false,
        flags: &flags,
    })
}

/// The folder of a case. A link with a target beside the folder is resolved here.
fn folder(case: &Json) -> ConfigDir {
    let mut tree = FolderEntry::Folder(BTreeMap::from([("conf.d".to_owned(), FolderEntry::Folder(BTreeMap::new()))]));
    for (path, text) in case["dropIns"].as_object().into_iter().flatten() {
        add(&mut tree, &below(path), FolderEntry::File(text.as_str().expect("a text").to_owned()));
    }
    let mut root_link = None;
    for (path, target) in case["links"].as_object().into_iter().flatten() {
        let target = target.as_str().expect("a target").trim_start_matches("../");
        let end = find(&tree, target).map(Box::new);
        if path == "." {
            root_link = Some(FolderEntry::Link(end));
        } else {
            add(&mut tree, &below(path), FolderEntry::Link(end));
        }
    }
    let slash = if case["trailingSlash"] == true { "/" } else { "" };
    let root = root_link.or_else(|| find(&tree, "conf.d"));
    ConfigDir { path: format!("{DIR}/conf.d{slash}"), root }
}

/// A path in the folder of the case.
fn below(path: &str) -> String {
    path.strip_prefix("../").map_or_else(|| format!("conf.d/{path}"), str::to_owned)
}

fn add(tree: &mut FolderEntry, path: &str, entry: FolderEntry) {
    let FolderEntry::Folder(entries) = tree else { panic!("{path} is below a file") };
    match path.split_once('/') {
        None => drop(entries.insert(path.to_owned(), entry)),
        Some((name, rest)) => {
            let folder = entries.entry(name.to_owned()).or_insert_with(|| FolderEntry::Folder(BTreeMap::new()));
            add(folder, rest, entry);
        }
    }
}

fn find(tree: &FolderEntry, path: &str) -> Option<FolderEntry> {
    let mut at = tree;
    for name in path.split('/') {
        let FolderEntry::Folder(entries) = at else { return None };
        at = entries.get(name)?;
    }
    Some(at.clone())
}
