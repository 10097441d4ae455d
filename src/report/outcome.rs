//! JSON document for the end of a rollout. The text is in [`summary`].

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::error::ErrorMessage;
use super::explain::{Explanation, next_step};
use super::{stops, summary};
use crate::status::NewNodes;
use nodecfg_contract::json_document::Kind;
use nodecfg_contract::names::PoolName;
use nodecfg_fleet::hold::Hold;
use nodecfg_rollout::{NodeOutcome, Outcome, PoolOutcome, StopReason};

/// Result of a run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ended<'a> {
    /// Whether all nodes of all pools run the configuration in the repository. Paused and held pools do not count.
    pub complete: bool,
    /// The pools by name.
    pub pools: BTreeMap<&'a PoolName, PoolEnd<'a>>,
    /// The duration in seconds.
    pub seconds: f64,
    /// The exit code of the process.
    pub exit_code: u8,
    /// What the result leaves out: pools without nodes, nodes in no pool, uncommitted files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// The error that ended the run early, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorMessage>,
}

impl Kind for Ended<'_> {
    const KIND: &'static str = "Outcome";
}

/// Result of a rollout for one pool.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolEnd<'a> {
    /// Why the pool stopped early, if it did.
    pub stopped: Option<&'a StopReason>,
    /// The next step, if the pool stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Why the remaining nodes did not start, and when they may. Unset if no node was held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<&'a Hold>,
    /// New nodes that `verify --new-nodes-within` accepted. Unset without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_nodes: Option<NewNodes>,
    /// The nodes, by name.
    pub nodes: Vec<NodeEnd<'a>>,
}

/// Result of a rollout for one node.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeEnd<'a> {
    /// The result.
    #[serde(flatten)]
    pub outcome: &'a NodeOutcome,
    /// Meaning, likely causes and where to look next, if the node failed or is blocked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Explanation>,
}

/// The JSON document of an outcome, with explanations of failures and next steps.
#[must_use]
pub fn ended(
    outcome: &Outcome,
    seconds: f64,
    exit_code: u8,
    remarks: Vec<String>,
    error: Option<ErrorMessage>,
) -> Ended<'_> {
    fn node(node: &NodeOutcome) -> NodeEnd<'_> {
        NodeEnd { outcome: node, explanation: summary::explanation(node) }
    }
    fn pool<'a>(name: &PoolName, pool: &'a PoolOutcome) -> PoolEnd<'a> {
        PoolEnd {
            stopped: pool.stopped.as_ref(),
            next: pool.stopped.as_ref().and_then(|reason| next_step(&[name], reason, stops::only_drains_failed(pool))),
            held: pool.held.as_ref(),
            new_nodes: new_nodes(pool),
            nodes: pool.nodes.iter().map(node).collect(),
        }
    }
    let pools = outcome.pools.iter().map(|(name, ended)| (name, pool(name, ended))).collect();
    Ended { complete: outcome.is_complete(), pools, seconds, exit_code, remarks, error }
}

fn new_nodes(pool: &PoolOutcome) -> Option<NewNodes> {
    let new = stops::new_nodes(pool);
    new.first().map(|(since, oldest)| NewNodes { nodes: new.len(), oldest: (*oldest).clone(), since: *since })
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use nodecfg_plan::Why;
    use nodecfg_plan::convergence::{ConvergenceFailure, Target};
    use nodecfg_plan::fixtures::{node_name, pool_name, source};
    use nodecfg_rollout::End;

    #[test]
    fn lists_all_nodes_with_explanations_and_next_step() {
        let node = |index: usize| NodeOutcome {
            node: node_name(&format!("n{index:03}")),
            from: None,
            to: Target::Source(source("prod-gpu-x").into()),
            end: match index {
                0 => {
                    End::Failed { failure: ConvergenceFailure::Refused { error: "no".to_owned() }, rolled_back: false }
                }
                1 => End::LeftAlone { why: Why::New { joined: Timestamp::UNIX_EPOCH } },
                _ => End::NotStarted,
            },
            seconds: None,
            trial: None,
            drain: None,
            recovery: None,
            marked: false,
        };
        let pool =
            PoolOutcome { stopped: Some(StopReason::Interrupted), held: None, nodes: (0..60).map(node).collect() };
        let outcome = Outcome { pools: [(pool_name("gpu"), pool)].into() };
        let document = serde_json::to_value(ended(&outcome, 1.0, 5, Vec::new(), None)).unwrap();
        let gpu = &document["pools"]["gpu"];
        assert_eq!(gpu["nodes"].as_array().unwrap().len(), 60);
        assert!(gpu["next"].as_str().unwrap().contains("same command again"));
        assert!(gpu["nodes"][0]["explanation"]["meaning"].is_string());
        assert!(gpu["nodes"][1].get("explanation").is_none());
        assert_eq!(gpu["newNodes"], json!({"nodes": 1, "oldest": "n001", "since": "1970-01-01T00:00:00Z"}));
    }
}
