//! How a rollout ended, for programs. For people it is in [`summary`].

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::error::ErrorMessage;
use super::explain::{Explanation, way_on};
use super::summary;
use nodecfg_contract::json_document::Kind;
use nodecfg_contract::names::PoolName;
use nodecfg_planning::rollout::{NodeOutcome, Outcome, PoolOutcome, StopReason};

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ended {
    /// Whether every node of every pool that is not paused is where the repository wants it.
    pub complete: bool,
    /// The pools by name.
    pub pools: BTreeMap<PoolName, PoolEnd>,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// The exit code of the process.
    pub exit_code: u8,
    /// What cut the run short, if something did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorMessage>,
}

impl Kind for Ended {
    const KIND: &'static str = "Outcome";
}

/// How a pool ended.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolEnd {
    /// Why it stopped before its end, if it did.
    pub stopped: Option<StopReason>,
    /// The way on, when it stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Its nodes, by name.
    pub nodes: Vec<NodeEnd>,
}

/// How a node ended, and what that means.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeEnd {
    /// How it ended.
    #[serde(flatten)]
    pub outcome: NodeOutcome,
    /// What it means, what causes it and where to look, when it is not where it shall be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Explanation>,
}

/// The outcome for programs, with an explanation beside each failure and the way on beside each stop.
#[must_use]
pub fn ended(outcome: &Outcome, seconds: f64, exit_code: u8, error: Option<ErrorMessage>) -> Ended {
    let node = |node: &NodeOutcome| NodeEnd { outcome: node.clone(), explanation: summary::explanation(node) };
    let pool = |name: &PoolName, pool: &PoolOutcome| PoolEnd {
        stopped: pool.stopped.clone(),
        next: pool.stopped.as_ref().and_then(|reason| way_on(&[name], reason)),
        nodes: pool.nodes.iter().map(node).collect(),
    };
    let pools = outcome.pools.iter().map(|(name, ended)| (name.clone(), pool(name, ended))).collect();
    Ended { complete: outcome.is_complete(), pools, seconds, exit_code, error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodecfg_planning::judge::{Failure, Target};
    use nodecfg_planning::plan::fixtures::{node_name, pool_name, source};
    use nodecfg_planning::rollout::End;

    #[test]
    fn programs_get_every_node_what_a_failure_means_and_the_way_on() {
        let node = |index: usize| NodeOutcome {
            node: node_name(&format!("n{index:03}")),
            from: None,
            to: Target::Source(source("prod-gpu-x")),
            end: match index {
                0 => End::Failed { failure: Failure::Refused { error: "no".to_owned() }, rolled_back: false },
                _ => End::NotStarted,
            },
            seconds: None,
        };
        let pool = PoolOutcome { stopped: Some(StopReason::Interrupted), nodes: (0..60).map(node).collect() };
        let outcome = Outcome { pools: [(pool_name("gpu"), pool)].into() };
        let document = serde_json::to_value(ended(&outcome, 1.0, 5, None)).unwrap();
        let gpu = &document["pools"]["gpu"];
        assert_eq!(gpu["nodes"].as_array().unwrap().len(), 60);
        assert!(gpu["next"].as_str().unwrap().contains("same command again"));
        assert!(gpu["nodes"][0]["explanation"]["meaning"].is_string());
        assert!(gpu["nodes"][1].get("explanation").is_none());
    }
}
