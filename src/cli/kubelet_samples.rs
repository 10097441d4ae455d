//! Requests to a bounded number of kubelets for the configuration that they run, where planning does not know it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::capture::running_config;
use kubelet_config::Minor;
use nodecfg_cluster::{ClusterError, ClusterReader};
use nodecfg_contract::names::NodeName;
use nodecfg_contract::observed::{Observed, RunningConfig, UnreadReason};

/// Time limit of one kubelet's answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The answer to a user without the right.
const FORBIDDEN: RunningConfig = RunningConfig::Unread(UnreadReason::Forbidden);

/// Argument that decides whether kubelets are asked.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(super) struct KubeletArgs {
    /// Skip the request to some kubelets for the configuration that they run (configz). Their current configuration
    /// and the risk of the change are then unknown, if they run the local configuration.
    #[arg(long)]
    no_ask_kubelets: bool,
}

impl KubeletArgs {
    /// Asks no kubelet.
    pub(super) const NEVER: Self = Self { no_ask_kubelets: true };

    /// Asks these nodes for the configuration that they run.
    pub(super) async fn ask(
        self,
        reader: &ClusterReader,
        nodes: Vec<NodeName>,
        observed: &Observed,
    ) -> BTreeMap<NodeName, RunningConfig> {
        if self.no_ask_kubelets {
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
