//! Requests to kubelets for the configuration that they run: where planning does not know it, and at the end of a run.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::capture::running_config;
use crate::rollout::execute::Stop;
use kubelet_config::Minor;
use kubelet_config::document::Document;
use nodecfg_cluster::{ClusterError, ClusterReader};
use nodecfg_contract::names::NodeName;
use nodecfg_fleet::Desired;
use nodecfg_observed::{Observed, RunningConfig, UnreadReason};
use nodecfg_rollout::witness::Witnesses;
use nodecfg_rollout::{Outcome, witness};
use tokio::sync::watch;

/// Time limit of one kubelet's answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum time in which kubelets are asked at the end of a run.
const MAX_TIME: Duration = Duration::from_mins(2);
/// Number of kubelets that are asked at once, and whose answers are held in memory.
const AT_ONCE: usize = 8;
/// Number of such groups without an answer after which no further one is asked.
const MAX_SILENT: usize = 2;
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
pub(crate) struct KubeletArgs {
    /// Ask kubelets for the configuration that they run (configz). Needs the right to get nodes/proxy. Without an
    /// answer, the current configuration of nodes on their local one is unknown, and so is whether kubelets up to 1.23 run
    /// every reviewed value.
    #[arg(long, value_name = "WHICH", value_enum, default_value_t)]
    ask_kubelets: Asked,
}

impl KubeletArgs {
    /// Asks no kubelet.
    pub(crate) const NEVER: Self = Self { ask_kubelets: Asked::None };

    /// Asks kubelets at the end of a run whether they run the reviewed values, and fails the nodes that run others. Ends early
    /// with a stop, after [`MAX_TIME`], and if nothing answers.
    pub(crate) async fn witness(
        self,
        outcome: &mut Outcome,
        desired: &Desired,
        observed: &Observed,
        reader: &ClusterReader,
        mut stop: watch::Receiver<Stop>,
    ) {
        let witnesses = match self.ask_kubelets {
            Asked::All => Witnesses::All,
            Asked::Sample => Witnesses::Sample,
            Asked::None => return,
        };
        let nodes = witness::nodes_to_ask(outcome, observed, witnesses);
        let mut unknown: Vec<(NodeName, String)> = Vec::new();
        let asking = async {
            // The first request shows whether the user has the right.
            let (first, others) = nodes.split_at(nodes.len().min(1));
            let mut silent = 0_usize;
            for part in std::iter::once(first).chain(others.chunks(AT_ONCE)) {
                let mut answers = BTreeMap::new();
                for (name, answer) in reader.configz_of(part, PATIENCE).await {
                    let document = answer.map(|answer| {
                        Document::parse("configz", &serde_json::Value::Object(answer).to_string()).document
                    });
                    match document {
                        Ok(Some(document)) => drop(answers.insert(name, document)),
                        Ok(None) => unknown.push((name, UnreadReason::Unusable.to_string())),
                        Err(error) => {
                            unknown.push((name, reason(&error).to_string()));
                            if matches!(error, ClusterError::Forbidden { .. }) {
                                return;
                            }
                        }
                    }
                }
                silent = if answers.is_empty() { silent.saturating_add(1) } else { 0 };
                for name in witness::judge(outcome, &answers, desired, observed) {
                    unknown.push((name, "its own configuration is unknown".to_owned()));
                }
                if silent > MAX_SILENT {
                    return;
                }
            }
        };
        tokio::select! {
            () = asking => {}
            () = tokio::time::sleep(MAX_TIME) => tracing::warn!("not every kubelet was asked within {} s", MAX_TIME.as_secs()),
            Ok(_) = stop.wait_for(|stop| *stop >= Stop::Gently) => {}
        }
        if let Some((name, reason)) = unknown.first() {
            let who = match unknown.len() {
                1 => format!("node {name} runs"),
                more => format!("{more} nodes, such as {name}, run"),
            };
            tracing::info!("whether {who} every reviewed value is unknown: {reason}");
        }
    }

    /// Asks these nodes for the configuration that they run.
    pub(crate) async fn ask(
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
