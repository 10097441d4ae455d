//! Snapshot of a node for comparing a run with kills to one without.
//!
//! Not compared, with the reason:
//! - times: kills take time;
//! - details of an activation or a trial in progress: they depend on the times of the probes;
//! - `restarts` and `rollbacks`: a restart that was done and not recorded is repeated;
//! - the reason of a failed trial, and whether the kubelet was healthy before: both depend on the times of the
//!   probes. The failure itself is compared;
//! - files that begin with `tmp_` or end with `.nodecfg-unfinished`: they are never read, and the next write replaces
//!   them;
//! - the file that ends with `.nodecfg-ready`: it is used only if its content matches;
//! - `before` in `agent.json`: only an interrupted save needs it;
//! - `placement.json`, the record of placed contents: an agent that was down during an assignment never placed it. If
//!   a content were missing from the record, the agent would adopt it as the file `local`, which is compared.

use std::collections::BTreeMap;
use std::sync::Arc;

use nodecfg_agent::ledger::{FailureKind, Ledger, Phase};
use nodecfg_contract::nodeconfig::NodeConfigStatus;
use serde_json::Value;

/// State of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    pub ledger: Ledger,
    pub status: NodeConfigStatus,
    /// Texts by path, without the parts that are not compared.
    pub files: BTreeMap<String, String>,
    /// Configuration that the kubelet process was started on.
    pub runs: String,
}

const TRIAL_FAILED: &str = "(reason of the failed trial)";

impl Snapshot {
    /// Snapshot of the files and of the configuration that the kubelet process was started on.
    pub fn of(files: &BTreeMap<String, Arc<[u8]>>, runs: &[u8]) -> Self {
        let files = files
            .iter()
            .filter(|(path, _)| !is_ignored(path))
            .map(|(path, content)| (path.clone(), normalized(path, &String::from_utf8_lossy(content))))
            .collect();
        Self { files, runs: String::from_utf8_lossy(runs).into_owned(), ..Self::default() }
    }

    /// Adds the agent's ledger.
    pub fn with_ledger(self, ledger: &Ledger) -> Self {
        let mut ledger = ledger.clone();
        ledger.agent_state.restarts = 0;
        ledger.agent_state.rollbacks = 0;
        match &mut ledger.agent_state.phase {
            Phase::Settled => {}
            Phase::Activating { before } => *before = None,
            Phase::Trying(trial) => *trial = nodecfg_agent::ledger::Trial::default(),
        }
        if let Some(failure) = &mut ledger.agent_state.failure
            && failure.kind == FailureKind::Trial
        {
            failure.was_healthy = false;
            failure.error = TRIAL_FAILED.to_owned();
            failure.message = TRIAL_FAILED.to_owned();
        }
        Self { ledger, ..self }
    }

    /// Adds the status on the API server.
    pub fn with_status(self, status: &NodeConfigStatus) -> Self {
        let mut status = status.clone();
        if let Some(agent) = &mut status.agent {
            agent.heard_at = String::new();
            agent.trial_ends_at = agent.trial_ends_at.take().map(|_| String::new());
        }
        for condition in &mut status.conditions {
            condition.last_transition_time = String::new();
            if condition.kind == "Active" && condition.reason == "TrialFailed" {
                // The rest names the configuration that the kubelet runs.
                let rest = condition.message.rsplit_once("; ").map(|(_, rest)| rest.to_owned());
                condition.message = format!("{TRIAL_FAILED}; {}", rest.unwrap_or_default());
            }
        }
        if let Some(config) = &mut status.config
            && let Some(error) = &mut config.error
            && error.starts_with("failed trial: ")
        {
            *error = TRIAL_FAILED.to_owned();
        }
        Self { status, ..self }
    }

    /// Differences between two snapshots, one per line.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut found = Vec::new();
        let mut compare = |what: &str, one: String, two: String| {
            if one != two {
                found.push(format!("{what}\n  without kills: {one}\n  with kills:    {two}"));
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

fn is_ignored(path: &str) -> bool {
    path.ends_with("/placement.json")
        || path.ends_with(".nodecfg-unfinished")
        || path.ends_with(".nodecfg-ready")
        || path.split('/').any(|name| name.starts_with("tmp_"))
}

fn normalized(path: &str, text: &str) -> String {
    let Ok(mut value) = serde_json::from_str::<Value>(text) else { return text.to_owned() };
    if path.ends_with("/agent.json") {
        value["before"] = Value::Null;
        let agent_state = &mut value["beyond"];
        agent_state["restarts"] = Value::Null;
        agent_state["rollbacks"] = Value::Null;
        if let Some(trial) = agent_state["phase"].as_object_mut() {
            trial.retain(|name, _| name == "kind");
        }
        if agent_state["failure"]["kind"] == "trial" {
            agent_state["failure"] = Value::from(TRIAL_FAILED);
        }
    }
    value.to_string()
}
