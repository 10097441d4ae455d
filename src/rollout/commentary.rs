//! Kubernetes Events on Nodes: what was assigned, what failed, and why a rollout stopped, for those who look at the cluster
//! and not at a pipeline's log.
//!
//! Events go out beside the rollout and never hold it up: one at a time, and what is left at the end gets a few seconds.

use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use nodecfg_cluster::ClusterWriter;
use nodecfg_cluster::writer::NodeNotice;
use nodecfg_contract::names::NodeName;
use nodecfg_planning::plan::Plan;
use nodecfg_planning::rollout::StopReason;
use nodecfg_planning::rollout::progress::{Event, Progress};

/// How long the end of a rollout waits for events that have not been sent.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// Turns progress into Events.
pub(super) struct Commentary {
    sender: mpsc::UnboundedSender<NodeNotice>,
    task: JoinHandle<()>,
    origin: String,
}

impl Commentary {
    pub(super) fn start(writer: ClusterWriter, plan: &Plan) -> Self {
        let (sender, mut receiver) = mpsc::unbounded_channel::<NodeNotice>();
        let task = tokio::spawn(async move {
            // One at a time: events are worth less than the patches that they compete with.
            while let Some(notice) = receiver.recv().await {
                writer.emit_event(&notice).await;
            }
        });
        let commit = plan.commit.as_ref().map(|commit| format!(" at commit {}", commit.short())).unwrap_or_default();
        Self { sender, task, origin: format!("fleet {}{commit}", plan.fleet) }
    }

    pub(super) fn hear(&self, at: Timestamp, event: &Event) {
        if let Some(notice) = notices(&self.origin, at, event) {
            // The receiver lives as long as this; were it gone, an event is lost and nothing else.
            let _ = self.sender.send(notice);
        }
    }

    pub(super) async fn finish(self) {
        drop(self.sender);
        if tokio::time::timeout(LAST_WORDS, self.task).await.is_err() {
            tracing::warn!("not all Kubernetes Events could be sent in time");
        }
    }
}

fn notices(origin: &str, at: Timestamp, event: &Event) -> Option<NodeNotice> {
    let last_failed = event.pool.as_ref().and_then(|pool| pool.last_failed.as_ref());
    let notice =
        |node: &NodeName, warning, reason, message| NodeNotice { node: node.clone(), warning, reason, message, at };
    match &event.progress {
        Progress::Assigned { pool, node, to, .. } => {
            Some(notice(node, false, "NodeConfigAssigned", format!("Assigned {to} (pool {pool}, {origin})")))
        }
        Progress::Failed { pool, node, failure } => {
            Some(notice(node, true, "NodeConfigFailed", format!("{failure} (pool {pool}, {origin})")))
        }
        Progress::RolledBack { pool, node, to } => {
            let to = to.as_ref().map_or_else(|| "the local configuration".to_owned(), ToString::to_string);
            Some(notice(node, true, "NodeConfigRolledBack", format!("Pointed back at {to} (pool {pool}, {origin})")))
        }
        // A pool is no object of the cluster: what stopped it is told on the node that did.
        Progress::Stopped { pool, reason } => culprit(last_failed, reason).map(|node| {
            let message = format!("The rollout of pool {pool} stopped: {reason} ({origin})");
            notice(node, true, "NodeConfigRolloutStopped", message)
        }),
        _ => None,
    }
}

/// The node to tell why a pool stopped: the one that failed last, or one of those that left no budget.
fn culprit<'a>(last_failed: Option<&'a NodeName>, reason: &'a StopReason) -> Option<&'a NodeName> {
    match reason {
        StopReason::CanaryFailed { node } => Some(node),
        StopReason::BudgetExhausted { examples, .. } => examples.first().or(last_failed),
        _ => last_failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodecfg_planning::judge::{Failure, Target};
    use nodecfg_planning::plan::fixtures::{node_name, pool_name, source};
    use nodecfg_planning::rollout::progress::{Gate, NodeCounts, PoolState};

    #[test]
    fn assignments_and_failures_are_told_on_their_nodes_and_a_stop_on_the_node_that_caused_it() {
        let hear = |last_failed: Option<&NodeName>, progress| {
            let counts = NodeCounts::default();
            let pool = PoolState { counts, gate: Gate::Open, canaries: 0, last_failed: last_failed.cloned() };
            let event = Event { progress, pool: Some(pool) };
            notices("fleet f at commit 0123456789", Timestamp::UNIX_EPOCH, &event)
        };
        let (pool, node) = (pool_name("gpu"), node_name("n1"));

        let assigned =
            Progress::Assigned { pool: pool.clone(), node: node.clone(), from: None, to: Target::Source(source("x")) };
        let told = hear(None, assigned).unwrap();
        assert_eq!((told.reason, told.warning), ("NodeConfigAssigned", false));
        assert_eq!(told.message, "Assigned kube-system/x (pool gpu, fleet f at commit 0123456789)");

        let failed = Progress::Failed {
            pool: pool.clone(),
            node: node.clone(),
            failure: Failure::Refused { error: "no".to_owned() },
        };
        assert!(hear(None, failed).unwrap().warning);

        let stopped = Progress::Stopped { pool: pool.clone(), reason: StopReason::CanaryFailed { node: node.clone() } };
        let interrupted = Progress::Stopped { pool: pool.clone(), reason: StopReason::Interrupted };
        assert_eq!(hear(None, interrupted), None, "no node is to blame");
        let told = hear(Some(&node), stopped).unwrap();
        assert_eq!((told.node, told.reason), (node, "NodeConfigRolloutStopped"));
        assert!(told.message.contains("canary n1 failed"));
    }
}
