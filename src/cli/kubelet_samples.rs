//! Requests to kubelets for the configuration that they run: where planning does not know it, and at the end of a run.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::capture::running_config;
use kubelet_config::Minor;
use kubelet_config::document::Document;
use nodecfg_cluster::{ClusterError, ClusterReader};
use nodecfg_contract::names::NodeName;
use nodecfg_contract::observed::{Observed, RunningConfig, UnreadReason};
use nodecfg_planning::desired::Desired;
use nodecfg_planning::rollout::Outcome;
use nodecfg_planning::rollout::witness::{self, Witnesses};

/// Time limit of one kubelet's answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The answer to a user without the right.
const FORBIDDEN: RunningConfig = RunningConfig::Unread(UnreadReason::Forbidden);

/// Which kubelets are asked for the configuration that they run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum Asked {
    /// A few where planning does not know what nodes run; at the end, those of all nodes that converged.
    All,
    /// A few where planning does not know what nodes run; at the end, a few where no agents compare it.
    #[default]
    Sample,
    /// None.
    None,
}

/// Argument that decides whether kubelets are asked.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(super) struct KubeletArgs {
    /// Ask kubelets for the configuration that they run (configz), which needs the right to get nodes/proxy. Without an
    /// answer, the current configuration of nodes on their local one is unknown, and so is whether kubelets up to 1.23 run
    /// every reviewed value.
    #[arg(long, value_name = "WHICH", value_enum, default_value_t)]
    ask_kubelets: Asked,
}

impl KubeletArgs {
    /// Asks no kubelet.
    pub(super) const NEVER: Self = Self { ask_kubelets: Asked::None };

    /// Asks kubelets at the end of a run whether they run the reviewed values, and fails the nodes that run others.
    pub(super) async fn witness(
        self,
        outcome: &mut Outcome,
        desired: &Desired,
        observed: &Observed,
        reader: &ClusterReader,
    ) {
        let witnesses = match self.ask_kubelets {
            Asked::All => Witnesses::All,
            Asked::Sample => Witnesses::Sample,
            Asked::None => return,
        };
        let nodes = witness::nodes_to_ask(outcome, observed, witnesses);
        let mut answers = BTreeMap::new();
        let mut unknown: Vec<(NodeName, String)> = Vec::new();
        // The first request shows whether the user has the right.
        let (first, others) = nodes.split_at(nodes.len().min(1));
        for part in [first, others] {
            if unknown.iter().any(|(_, reason)| *reason == UnreadReason::Forbidden.to_string()) {
                break;
            }
            for (name, answer) in reader.configz_of(part, PATIENCE).await {
                let document = answer.map(|answer| {
                    let text = serde_json::Value::Object(answer).to_string();
                    Document::parse("configz", &text).document
                });
                match document {
                    Ok(Some(document)) => drop(answers.insert(name, document)),
                    Ok(None) => unknown.push((name, UnreadReason::Unusable.to_string())),
                    Err(error) => unknown.push((name, reason(&error).to_string())),
                }
            }
        }
        let incomparable = witness::judge(outcome, &answers, desired, observed);
        let needs_own = "its own configuration is unknown";
        unknown.extend(incomparable.into_iter().map(|name| (name, needs_own.to_owned())));
        if let Some((name, reason)) = unknown.first() {
            let who = match unknown.len() {
                1 => format!("node {name} runs"),
                more => format!("{more} nodes, such as {name}, run"),
            };
            tracing::info!("whether {who} every reviewed value is unknown: {reason}");
        }
    }

    /// Asks these nodes for the configuration that they run.
    pub(super) async fn ask(
        self,
        reader: &ClusterReader,
        nodes: Vec<NodeName>,
        observed: &Observed,
    ) -> BTreeMap<NodeName, RunningConfig> {
        if self.ask_kubelets == Asked::None {
            return BTreeMap::new();
        }
        let mut answers = BTreeMap::new();
        // The first request shows whether the user has the right. Without it, one refusal is enough.
        let (first, others) = nodes.split_at(nodes.len().min(1));
        for part in [first, others] {
            if answers.values().any(|answer| *answer == FORBIDDEN) {
                return nodes.iter().map(|name| (name.clone(), FORBIDDEN)).collect();
            }
            for (name, answer) in reader.configz_of(part, PATIENCE).await {
                let minor = observed.nodes.get(&name).and_then(|node| node.kubelet_version);
                let answer = match answer {
                    Ok(configuration) => running_config(configuration, minor.map(|version| Minor(version.minor)))
                        .map_or(RunningConfig::Unread(UnreadReason::Unusable), RunningConfig::Read),
                    Err(error) => {
                        tracing::debug!(node = %name, %error, "the running configuration is unknown");
                        RunningConfig::Unread(reason(&error))
                    }
                };
                answers.insert(name, answer);
            }
        }
        answers
    }
}

fn reason(error: &ClusterError) -> UnreadReason {
    match error {
        ClusterError::Forbidden { .. } => UnreadReason::Forbidden,
        ClusterError::KubeletRefuses { .. } => UnreadReason::KubeletRefuses,
        ClusterError::KubeletSilent { .. } => UnreadReason::NotServed,
        ClusterError::Unexpected { .. } => UnreadReason::Unusable,
        _ => UnreadReason::Unreachable,
    }
}
