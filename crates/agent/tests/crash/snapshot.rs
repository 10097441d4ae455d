//! How a node is, as far as a kill must not change it: what is compared between a run with kills and one without.
//!
//! Left out, and why:
//! - times: kills take time;
//! - `restarts` and `rollbacks`: a restart of the kubelet that was done and not remembered is done again;
//! - how exactly a trial failed: what was seen of a kubelet depends on when it was looked at. That it failed is compared;
//! - files that begin with `tmp_` or end with `.nodecfg-unfinished`: nobody reads them, the next write takes their names;
//! - the file that ends with `.nodecfg-ready`: it is used for what it holds, and otherwise overwritten or left;
//! - `before` in `agent.json`: what the kubelet's files held when it was written, which only an interrupted save needs;
//! - `placement.json`, which lists what was ever placed: an agent that was away while an assignment came and went never placed it. If something
//!   was missing from it, a configuration of ours would be taken for the node's own, and that is compared: the file `local`.

use std::collections::BTreeMap;
use std::sync::Arc;

use nodecfg_agent::state::{FailureKind, Ledger, Phase};
use nodecfg_contract::nodeconfig::NodeConfigStatus;
use serde_json::Value;

/// How a node is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    pub ledger: Ledger,
    pub status: NodeConfigStatus,
    /// By path; texts, with what is left out gone.
    pub files: BTreeMap<String, String>,
    /// What the kubelet process was started on.
    pub runs: String,
}

const A_TRIAL: &str = "(how the trial failed)";

impl Snapshot {
    /// What is on disk, and what the kubelet process was started on.
    pub fn of(files: &BTreeMap<String, Arc<[u8]>>, runs: &[u8]) -> Self {
        let files = files
            .iter()
            .filter(|(path, _)| !is_left_out(path))
            .map(|(path, content)| (path.clone(), plain(path, &String::from_utf8_lossy(content))))
            .collect();
        Self { files, runs: String::from_utf8_lossy(runs).into_owned(), ..Self::default() }
    }

    /// With what the agent has in mind.
    pub fn with_ledger(self, ledger: &Ledger) -> Self {
        let mut ledger = ledger.clone();
        ledger.beyond.restarts = 0;
        ledger.beyond.rollbacks = 0;
        match &mut ledger.beyond.phase {
            Phase::Settled => {}
            Phase::Activating { before } => *before = None,
            Phase::Trying(trial) => *trial = nodecfg_agent::state::Trial::default(),
        }
        if let Some(failure) = &mut ledger.beyond.failure
            && failure.kind == FailureKind::Trial
        {
            failure.error = A_TRIAL.to_owned();
            failure.message = A_TRIAL.to_owned();
        }
        Self { ledger, ..self }
    }

    /// With what the API server was told.
    pub fn with_status(self, status: &NodeConfigStatus) -> Self {
        let mut status = status.clone();
        if let Some(agent) = &mut status.agent {
            agent.heard_at = String::new();
        }
        for condition in &mut status.conditions {
            condition.last_transition_time = String::new();
            if condition.kind == "Active" && condition.reason == "TrialFailed" {
                // What follows is what the kubelet runs now.
                let rest = condition.message.rsplit_once("; ").map(|(_, rest)| rest.to_owned());
                condition.message = format!("{A_TRIAL}; {}", rest.unwrap_or_default());
            }
        }
        if let Some(config) = &mut status.config
            && let Some(error) = &mut config.error
            && error.starts_with("failed trial: ")
        {
            *error = A_TRIAL.to_owned();
        }
        Self { status, ..self }
    }

    /// What differs, a line each.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut found = Vec::new();
        let mut compare = |what: &str, one: String, two: String| {
            if one != two {
                found.push(format!("{what}\n  untroubled: {one}\n  troubled:   {two}"));
            }
        };
        compare("ledger", format!("{:?}", self.ledger), format!("{:?}", other.ledger));
        let status = |status: &NodeConfigStatus| serde_json::to_string(status).unwrap_or_default();
        compare("status", status(&self.status), status(&other.status));
        compare("the kubelet runs", self.runs.clone(), other.runs.clone());
        let mut paths: Vec<&String> = self.files.keys().chain(other.files.keys()).collect();
        paths.sort_unstable();
        paths.dedup();
        for path in paths {
            compare(path, format!("{:?}", self.files.get(path)), format!("{:?}", other.files.get(path)));
        }
        found
    }
}

fn is_left_out(path: &str) -> bool {
    path.ends_with("/placement.json")
        || path.ends_with(".nodecfg-unfinished")
        || path.ends_with(".nodecfg-ready")
        || path.split('/').any(|name| name.starts_with("tmp_"))
}

fn plain(path: &str, text: &str) -> String {
    let Ok(mut value) = serde_json::from_str::<Value>(text) else { return text.to_owned() };
    if path.ends_with("/agent.json") {
        value["before"] = Value::Null;
        let beyond = &mut value["beyond"];
        beyond["restarts"] = Value::Null;
        beyond["rollbacks"] = Value::Null;
        if let Some(trial) = beyond["phase"].as_object_mut() {
            trial.retain(|name, _| name == "kind");
        }
        if beyond["failure"]["kind"] == "trial" {
            beyond["failure"] = Value::from(A_TRIAL);
        }
    }
    value.to_string()
}
