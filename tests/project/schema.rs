//! Comparison of the KubeletConfiguration schemas with the recorded verdicts of kubelets. A schema accepts every file
//! that a kubelet and nodecfg accept, and rejects every file with wrong types.

use std::collections::BTreeMap;

use kubelet_config::document::Document;
use kubelet_config::finding::any_error;
use kubelet_config::verdict::assess;
use kubelet_config::{Minor, fields, gates};
use serde::Deserialize;
use serde_json::Value as Json;

#[derive(Deserialize)]
struct Case {
    id: String,
    yaml: String,
    #[serde(flatten)]
    verdicts: BTreeMap<String, Json>,
}

#[derive(Deserialize)]
struct RecordedVerdict {
    stage: String,
    #[serde(default)]
    startup: Vec<String>,
}

/// Reports whether nodecfg rejects a value that the kubelet drops or treats as empty: a field unknown to this
/// version, or null in a list.
fn is_rejected_by_nodecfg(value: &Json, path: &str, minor: Minor) -> bool {
    match value {
        Json::Object(map) => map.iter().any(|(key, value)| {
            fields::child(path, key)
                .is_none_or(|field| !field.is_known_to(minor) || is_rejected_by_nodecfg(value, &field.path, minor))
        }),
        Json::Array(list) => fields::items(path).is_some_and(|field| {
            list.iter().any(|item| item.is_null() || is_rejected_by_nodecfg(item, &field.path, minor))
        }),
        _ => false,
    }
}

/// Reports whether the kubelet ignores a value because its feature gate is off by default, as that of the topology
/// manager up to 1.17. The schema lists the allowed values anyway.
fn is_ignored_by_kubelet(pointer: &str, minor: Minor) -> bool {
    let field = pointer.split('/').nth(1).and_then(fields::lookup);
    let gate = field.and_then(|field| field.gate.at(minor)).and_then(|gate| gates::lookup(gate, minor));
    gate.is_some_and(|at| !at.default)
}

#[derive(Default)]
struct Count {
    runs: usize,
    gated: usize,
    not_loaded: usize,
    json: usize,
    later: usize,
    later_seen: usize,
    no_value: usize,
}

fn agreement(minor: Minor) {
    let validator = jsonschema::validator_for(&fields::schema(minor)).expect("a schema");
    let (mut count, mut wrong) = (Count::default(), Vec::new());
    for line in include_str!("../data/oracle/cases.jsonl").lines() {
        let case: Case = serde_json::from_str(line).expect("the cases are JSON lines");
        let verdict: RecordedVerdict =
            serde_json::from_value(case.verdicts[&minor.to_string()].clone()).expect("a verdict");
        let parsed = Document::parse("kubelet.yaml", &case.yaml);
        let Some(document) = parsed.document.filter(|_| !any_error(&parsed.findings)) else {
            count.no_value += 1;
            continue;
        };
        let json = document.to_json();
        let problem = validator.validate(&json).err().map(|why| (why.instance_path().to_string(), why.to_string()));
        match (verdict.stage.as_str(), verdict.startup.is_empty()) {
            ("ok", true) if is_rejected_by_nodecfg(&json, "", minor) => count.gated += 1,
            ("ok", true) => {
                count.runs += 1;
                let problem = problem.filter(|(pointer, _)| !is_ignored_by_kubelet(pointer, minor));
                wrong.extend(problem.map(|(at, why)| {
                    format!("{}: accepted by the kubelet, rejected by the schema at {at}: {why}", case.id)
                }));
            }
            // In a JSON file, strings have quotes and integers have no fraction. The parsed value no longer shows
            // this.
            ("load", _) if case.yaml.trim_start().starts_with('{') && problem.is_none() => count.json += 1,
            ("load", _) => {
                count.not_loaded += 1;
                if problem.is_none() {
                    wrong.push(format!("{}: does not load, and the schema takes it\n{}", case.id, case.yaml));
                }
            }
            _ => {
                count.later += 1;
                count.later_seen += usize::from(problem.is_some());
            }
        }
    }
    println!(
        "schema of {minor}: takes {} files that run ({} more run and nodecfg's gate refuses them); refuses {} that do not \
         load (but for {} in bad JSON) and {} of {} that are refused later; {} hold no value",
        count.runs, count.gated, count.not_loaded, count.json, count.later_seen, count.later, count.no_value
    );
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count.runs > 500 && count.not_loaded > 400 && count.json < 10, "the cases are read");
}

#[test]
fn schema_agrees_with_kubelet_1_21() {
    agreement(Minor(21));
}

#[test]
fn schema_agrees_with_kubelet_1_36() {
    agreement(Minor(36));
}

/// The same for versions without recorded verdicts. The verdict of nodecfg replaces that of the kubelet.
#[test]
fn schemas_agree_with_verdicts_of_nodecfg() {
    let schemas: Vec<_> = Minor::all()
        .map(|minor| (minor, jsonschema::validator_for(&fields::schema(minor)).expect("a schema")))
        .collect();
    let (mut runs, mut idle, mut wrong) = (0, 0, Vec::new());
    for (at, line) in include_str!("../data/oracle/cases.jsonl").lines().enumerate() {
        let case: Case = serde_json::from_str(line).expect("the cases are JSON lines");
        let parsed = Document::parse("kubelet.yaml", &case.yaml);
        let Some(document) = parsed.document.filter(|_| !any_error(&parsed.findings)) else { continue };
        let json = document.to_json();
        // Each file is checked with a quarter of the versions, in turn.
        for (minor, validator) in schemas.iter().skip(at % 4).step_by(4) {
            if is_rejected_by_nodecfg(&json, "", *minor) || !assess(&document, *minor).runs() {
                continue;
            }
            runs += 1;
            if let Err(problem) = validator.validate(&json) {
                if is_ignored_by_kubelet(problem.instance_path().as_str(), *minor) {
                    idle += 1;
                    continue;
                }
                wrong.push(format!("{} in {minor}: {}: {problem}", case.id, problem.instance_path()));
            }
        }
    }
    println!("{runs} files accepted by some version, {idle} of them with an invalid value that kubelets ignore");
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(runs > 2_000 && idle < 20, "the cases are read");
}

#[test]
fn every_schema_accepts_its_defaults() {
    for minor in Minor::all() {
        let schema = fields::schema(minor);
        assert!(jsonschema::meta::is_valid(&schema), "{minor}");
        let validator = jsonschema::validator_for(&schema).expect("a schema");
        let mut file =
            serde_json::json!({"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"});
        for field in fields::all().filter(|field| field.is_known_to(minor) && !field.path.contains(['.', '[', '{'])) {
            if let Some(default) = field.default.at(minor) {
                file[&field.path] = default.clone();
            }
        }
        assert!(file.as_object().is_some_and(|map| map.len() > 60));
        let problem = validator.iter_errors(&file).map(|error| format!("{}: {error}", error.instance_path())).next();
        assert_eq!(problem, None, "{minor}");
        file["maxPod"] = 1.into();
        assert!(!validator.is_valid(&file), "{minor}: unknown fields are refused");
    }
}

#[test]
fn committed_schemas_are_up_to_date() {
    let folder = format!("{}/schemas/kubelet", env!("CARGO_MANIFEST_DIR"));
    for minor in Minor::all() {
        let file = std::fs::read_to_string(format!("{folder}/{minor}.json")).unwrap_or_default();
        let schema = format!("{:#}\n", fields::schema(minor));
        assert!(schema == file, "write schemas/kubelet/{minor}.json anew with `nodecfg schema kubelet`");
    }
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), Minor::all().count(), "and no others");
}
