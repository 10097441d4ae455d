//! Comparison with starts of real kubelets 1.21.1 and 1.36.2. `tests/data/startup-errors.jsonl` has what each
//! configuration did on a host with cgroup v1, without systemd and without a cluster.

use serde_json::{Map, Value as Json, json};

use crate::Minor;
use crate::document::Document;
use crate::verdict::assess;

/// Starts that neither the file nor a condition on the host decides, with the reason.
const OTHERWISE_DECIDED: [(&str, &str); 3] = [
    ("evictionHard-high", "plans compare thresholds with the capacity of nodes (`capacity`)"),
    ("gate-unknown", "this build of 1.36 only warns about unknown gates"),
    ("anonymous-webhook-standalone", "the kubelet has no kubeconfig"),
];

/// One recorded start.
struct Start {
    id: String,
    minor: Minor,
    config: Map<String, Json>,
    exits: bool,
    /// True if state files of an earlier kubelet existed.
    has_state: bool,
}

fn starts() -> impl Iterator<Item = Start> {
    include_str!("../../../../../tests/data/startup-errors.jsonl").lines().map(|line| {
        let start: Json = serde_json::from_str(line).unwrap();
        Start {
            id: start["id"].as_str().unwrap().to_owned(),
            minor: Minor::parse(start["kubelet"].as_str().unwrap()).unwrap(),
            config: start["config"].as_object().unwrap().clone(),
            exits: start["exits"].as_bool().unwrap(),
            has_state: start.get("state").is_some(),
        }
    })
}

/// Returns the configuration that the kubelet had.
fn document(start: &Start) -> Document {
    let mut whole: Json = serde_json::from_str(include_str!("../../../../../tests/data/startup-base.json")).unwrap();
    let fields = whole.as_object_mut().unwrap();
    if start.minor == Minor(36) {
        fields.insert("failCgroupV1".to_owned(), json!(false));
    }
    fields.extend(start.config.clone());
    Document::parse("kubelet.json", &whole.to_string()).document.unwrap()
}

#[test]
fn agrees_with_real_starts() {
    let (mut wrong, mut refused) = (Vec::new(), 0);
    for start in starts().filter(|start| OTHERWISE_DECIDED.iter().all(|(id, _)| *id != start.id)) {
        let verdict = assess(&document(&start), start.minor);
        let reasons: Vec<_> = verdict.reasons().map(|reason| (reason.rule, reason.field.as_str())).collect();
        refused += usize::from(!verdict.runs());
        let top = |field: &str| field.split(['.', '[']).next().unwrap_or_default().to_owned();
        // A kubelet exits for the file, for a condition on the host that the file sets, or for its state files.
        let is_conditional = verdict.host_conditions.iter().any(|one| start.config.contains_key(&top(&one.field)));
        let agrees = match start.exits {
            false => verdict.runs(),
            true => !verdict.runs() || is_conditional || start.has_state,
        };
        if !agrees {
            wrong.push(format!("{} {} exits: {}, refused for {reasons:?}", start.id, start.minor, start.exits));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(refused >= 36, "only {refused} configurations were refused");
}
