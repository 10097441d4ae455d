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
            if let (Some(first), Err(error)) = (nodes.first(), may_ask(&nodes, reader).await) {
                return unknown.push((first.clone(), reason(&error).to_string()));
            }
            let mut silent = 0_usize;
            for part in nodes.chunks(AT_ONCE) {
                let mut answers = BTreeMap::new();
                for (name, answer) in reader.configz_of(part, PATIENCE).await {
                    let document = answer.map(|answer| {
                        Document::parse("configz", &serde_json::Value::Object(answer).to_string()).document
                    });
                    match document {
                        Ok(Some(document)) => drop(answers.insert(name, document)),
                        Ok(None) => unknown.push((name, UnreadReason::Unusable.to_string())),
                        Err(error) => unknown.push((name, reason(&error).to_string())),
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
        if let Err(error) = may_ask(&nodes, reader).await {
            return nodes.into_iter().map(|name| (name, RunningConfig::Unread(reason(&error)))).collect();
        }
        let read = |(name, answer): (NodeName, Result<_, ClusterError>)| {
            let minor = observed.nodes.get(&name).and_then(|node| node.kubelet_version);
            let answer = match answer {
                Ok(configuration) => running_config(configuration, minor.map(|version| Minor(version.minor)))
                    .map_or(RunningConfig::Unread(UnreadReason::Unusable), RunningConfig::Read),
                Err(error) => {
                    tracing::debug!(node = %name, %error, "the running configuration is unknown");
                    RunningConfig::Unread(reason(&error))
                }
            };
            (name, answer)
        };
        reader.configz_of(&nodes, PATIENCE).await.into_iter().map(read).collect()
    }
}

/// Checks the right to ask these kubelets. Only the API server decides on it: an answer of a kubelet must not end the
/// questions to others.
async fn may_ask(nodes: &[NodeName], reader: &ClusterReader) -> Result<(), ClusterError> {
    if nodes.is_empty() { Ok(()) } else { reader.may_ask_kubelets().await }
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

#[cfg(test)]
mod tests {
    use super::*;
    use nodecfg_cluster::connection::fake;
    use nodecfg_cluster::connection::fake::{Reply, status};
    use nodecfg_plan::fixtures::{node, node_name, observed};
    use serde_json::json;

    /// A kubelet can answer as the API server does.
    #[tokio::test]
    async fn kubelet_that_denies_the_right_hides_no_other() {
        let (client, _log) = fake::serving(|request| match request.uri.as_str() {
            uri if uri.contains("selfsubjectaccessreviews") => Reply::Json(201, json!({"status": {"allowed": true}})),
            uri if uri.contains("/nodes/n1/") => {
                status(403, "Forbidden", "User \"ci\" cannot get resource \"nodes/proxy\"", json!({}))
            }
            _ => Reply::Json(200, json!({"kubeletconfig": {"maxPods": 64}})),
        });
        let reader = ClusterReader::new(client, "https://fake", fake::options());
        let (names, observed) = (["n1", "n2"].map(node_name), observed(["n1", "n2"].map(|name| node(name, "a"))));
        let answers = KubeletArgs::default().ask(&reader, names.to_vec(), &observed).await;
        let is_read = |name: &NodeName| matches!(answers.get(name), Some(RunningConfig::Read(_)));
        assert_eq!((is_read(&names[0]), is_read(&names[1])), (false, true), "{answers:?}");
    }
}
