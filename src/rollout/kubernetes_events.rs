//! Kubernetes Events of a rollout on its Nodes: assignments, failures, rollbacks and the reason of a stop.

use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::execute::Rollout;
use nodecfg_cluster::ClusterWriter;
use nodecfg_cluster::writer::NodeNotice;
use nodecfg_contract::names::NodeName;
use nodecfg_planning::rollout::StopReason;
use nodecfg_planning::rollout::progress::{Event, Progress};

/// Time that the end of a rollout waits for unsent Events.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends progress as Events, in the background.
pub(super) struct EventSender {
    sender: mpsc::UnboundedSender<NodeNotice>,
    task: JoinHandle<()>,
    origin: String,
}

impl EventSender {
    pub(super) fn start(writer: ClusterWriter, rollout: &Rollout<'_>) -> Self {
        let (sender, mut receiver) = mpsc::unbounded_channel::<NodeNotice>();
        let task = tokio::spawn(async move {
            // One at a time: patches have priority over Events.
            while let Some(notice) = receiver.recv().await {
                writer.emit_event(&notice).await;
            }
        });
        let Rollout { plan, allowed, ignored_windows, .. } = rollout;
        let commit = plan.commit.as_ref().map(|commit| format!(" at commit {}", commit.short())).unwrap_or_default();
        let allowed = allowed.map(|allowed| format!(", {allowed}")).unwrap_or_default();
        let windows = ignored_windows.map(|reason| format!(", windows ignored: {reason}")).unwrap_or_default();
        Self { sender, task, origin: format!("fleet {}{commit}{allowed}{windows}", plan.fleet) }
    }

    pub(super) fn send(&self, at: Timestamp, event: &Event) {
        if let Some(notice) = to_notice(&self.origin, at, event) {
            // The receiver lives as long as this sender; without it only an Event is lost.
            let _ = self.sender.send(notice);
        }
    }

    pub(super) async fn finish(self) {
        drop(self.sender);
        if tokio::time::timeout(FLUSH_TIMEOUT, self.task).await.is_err() {
            tracing::warn!("not all Kubernetes Events could be sent in time");
        }
    }
}

fn to_notice(origin: &str, at: Timestamp, event: &Event) -> Option<NodeNotice> {
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
        // A pool is not an object of the cluster: its stop is reported on the node that caused it.
        Progress::Stopped { pool, reason } => responsible_node(last_failed, reason).map(|node| {
            let message = format!("The rollout of pool {pool} stopped: {reason} ({origin})");
            notice(node, true, "NodeConfigRolloutStopped", message)
        }),
        _ => None,
    }
}

/// Node that gets the Event of a stopped pool: the failed canary, an example of the unavailable nodes that left no
/// budget, or the last failed node.
fn responsible_node<'a>(last_failed: Option<&'a NodeName>, reason: &'a StopReason) -> Option<&'a NodeName> {
    match reason {
        StopReason::CanaryFailed { node } => Some(node),
        StopReason::BudgetExhausted { examples, .. } => examples.first().or(last_failed),
        _ => last_failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodecfg_planning::convergence::{ConvergenceFailure, Target};
    use nodecfg_planning::plan::fixtures::{node_name, pool_name, source};
    use nodecfg_planning::rollout::progress::{NodeCounts, PoolState, StartGate};

    #[test]
    fn reports_progress_on_the_node_that_caused_it() {
        let notice_of = |last_failed: Option<&NodeName>, progress| {
            let counts = NodeCounts::default();
            let last_failed = last_failed.cloned();
            let pool = PoolState { counts, gate: StartGate::Open, canaries: 0, last_failed, trials_end: None };
            let event = Event { progress, pool: Some(pool) };
            to_notice("fleet f at commit 0123456789", Timestamp::UNIX_EPOCH, &event)
        };
        let (pool, node) = (pool_name("gpu"), node_name("n1"));

        let assigned = Progress::Assigned {
            pool: pool.clone(),
            node: node.clone(),
            from: None,
            to: Target::Source(source("x").into()),
        };
        let notice = notice_of(None, assigned).unwrap();
        assert_eq!((notice.reason, notice.warning), ("NodeConfigAssigned", false));
        assert_eq!(notice.message, "Assigned kube-system/x (pool gpu, fleet f at commit 0123456789)");

        let failed = Progress::Failed {
            pool: pool.clone(),
            node: node.clone(),
            failure: ConvergenceFailure::Refused { error: "no".to_owned() },
        };
        assert!(notice_of(None, failed).unwrap().warning);

        let stopped = Progress::Stopped { pool: pool.clone(), reason: StopReason::CanaryFailed { node: node.clone() } };
        let interrupted = Progress::Stopped { pool: pool.clone(), reason: StopReason::Interrupted };
        assert_eq!(notice_of(None, interrupted), None, "no node caused the stop");
        let notice = notice_of(Some(&node), stopped).unwrap();
        assert_eq!((notice.node, notice.reason), (node, "NodeConfigRolloutStopped"));
        assert!(notice.message.contains("canary n1 failed"));
    }
}
