//! Kubernetes Events of a rollout on its Nodes: assignments, failures, rollbacks and the reason of a stop.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{Stream, StreamExt as _, stream};
use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::Rollout;
use super::event_limits::{EventLimits, Limits};
use nodecfg_cluster::ClusterWriter;
use nodecfg_cluster::writing::writer::NodeNotice;
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_rollout::StopReason;
use nodecfg_rollout::progress::{Event, Progress};

/// Time that the end of a rollout waits for unsent Events.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);
/// Number of Events in flight. Patches of nodes use the same connection.
const AT_A_TIME: usize = 4;

/// Numbers of queued Events by reason.
type Unsent = Arc<Mutex<BTreeMap<&'static str, usize>>>;

/// Sends progress as Events, in the background. Shared Events overtake warnings of single nodes, and these overtake
/// other Events.
pub(super) struct EventSender {
    limits: EventLimits,
    shared: mpsc::UnboundedSender<NodeNotice>,
    warnings: mpsc::UnboundedSender<NodeNotice>,
    others: mpsc::UnboundedSender<NodeNotice>,
    unsent: Unsent,
    task: JoinHandle<()>,
    origin: String,
}

impl EventSender {
    pub(super) fn start(writer: ClusterWriter, rollout: &Rollout<'_>) -> Self {
        let (shared, first) = mpsc::unbounded_channel();
        let (warnings, second) = mpsc::unbounded_channel();
        let (others, last) = mpsc::unbounded_channel();
        let unsent = Unsent::default();
        let queued = Arc::clone(&unsent);
        let task =
            tokio::spawn(most_urgent_first([first, second, last]).for_each_concurrent(AT_A_TIME, move |notice| {
                let (writer, queued) = (writer.clone(), Arc::clone(&queued));
                async move {
                    writer.emit_event(&notice).await;
                    *lock(&queued).entry(notice.reason).or_default() -= 1;
                }
            }));
        let Rollout { plan, allowed, ignored_windows, .. } = rollout;
        let commit = plan.commit.as_ref().map(|commit| format!(" at commit {}", commit.short())).unwrap_or_default();
        let allowed = allowed.map(|allowed| format!(", {allowed}")).unwrap_or_default();
        let windows = ignored_windows.map(|reason| format!(", windows ignored: {reason}")).unwrap_or_default();
        let origin = format!("fleet {}{commit}{allowed}{windows}", plan.fleet);
        Self { limits: EventLimits::new(Limits::DEFAULT), shared, warnings, others, unsent, task, origin }
    }

    pub(super) fn send(&mut self, at: Timestamp, event: &Event) {
        if let Some((pool, notice)) = to_notice(&self.origin, at, event)
            && let Some(notice) = self.limits.admit(pool, notice)
        {
            let queue = if notice.warning { &self.warnings } else { &self.others };
            Self::queue(queue, &self.unsent, notice);
        }
    }

    fn queue(queue: &mpsc::UnboundedSender<NodeNotice>, unsent: &Unsent, notice: NodeNotice) {
        *lock(unsent).entry(notice.reason).or_default() += 1;
        // The receiver lives as long as this sender; without it only an Event is lost.
        let _ = queue.send(notice);
    }

    /// Sends the shared Events, and waits for all a short time.
    pub(super) async fn finish(self) {
        let Self { limits, shared, warnings, others, unsent, task, .. } = self;
        for notice in limits.shared() {
            Self::queue(&shared, &unsent, notice);
        }
        drop((shared, warnings, others));
        if tokio::time::timeout(FLUSH_TIMEOUT, task).await.is_err() {
            let left: Vec<String> = lock(&unsent)
                .iter()
                .filter(|(_, number)| **number > 0)
                .map(|(reason, number)| format!("{number} {reason}"))
                .collect();
            tracing::warn!("Kubernetes Events that the API server did not take in time: {}", left.join(", "));
        }
    }
}

/// The items of the first queue, and those of a later one while all earlier ones are empty. Ends with the last queue.
fn most_urgent_first<T>(queues: [mpsc::UnboundedReceiver<T>; 3]) -> impl Stream<Item = T> {
    stream::unfold(queues, async |[mut first, mut second, mut last]| {
        let item = tokio::select! {
            biased;
            Some(item) = first.recv() => item,
            Some(item) = second.recv() => item,
            Some(item) = last.recv() => item,
            else => return None,
        };
        Some((item, [first, second, last]))
    })
}

fn lock(unsent: &Unsent) -> MutexGuard<'_, BTreeMap<&'static str, usize>> {
    unsent.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The Event of a progress, and its pool.
fn to_notice<'a>(origin: &str, at: Timestamp, event: &'a Event) -> Option<(&'a PoolName, NodeNotice)> {
    let last_failed = event.state.as_ref().and_then(|pool| pool.last_failed.as_ref());
    let pool = event.pool.as_ref()?;
    let (node, warning, reason, message) = match &event.progress {
        Progress::Assigned { to, .. } => {
            (event.node.as_ref(), false, "NodeConfigAssigned", format!("Assigned {to} (pool {pool}, {origin})"))
        }
        Progress::Failed { failure } => {
            (event.node.as_ref(), true, "NodeConfigFailed", format!("{failure} (pool {pool}, {origin})"))
        }
        Progress::RolledBack { to } => {
            let to = to.as_ref().map_or_else(|| "the local configuration".to_owned(), ToString::to_string);
            let message = format!("Pointed back at {to} (pool {pool}, {origin})");
            (event.node.as_ref(), true, "NodeConfigRolledBack", message)
        }
        // A pool is not an object of the cluster: its stop is reported on the node that caused it.
        Progress::Stopped { reason } => {
            let message = format!("The rollout of pool {pool} stopped: {reason} ({origin})");
            (responsible_node(last_failed, reason), true, "NodeConfigRolloutStopped", message)
        }
        _ => return None,
    };
    Some((pool, NodeNotice { node: node?.clone(), warning, reason, message, at }))
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
    use nodecfg_plan::convergence::{ConvergenceFailure, Target};
    use nodecfg_plan::fixtures::{node_name, pool_name, source};
    use nodecfg_rollout::progress::{NodeCounts, PoolState, StartGate};

    #[tokio::test]
    async fn most_urgent_queue_comes_first() {
        let (first, one) = mpsc::unbounded_channel();
        let (second, two) = mpsc::unbounded_channel();
        let (last, three) = mpsc::unbounded_channel();
        for (sender, number) in [(&last, 5), (&second, 3), (&first, 1), (&second, 4), (&first, 2)] {
            sender.send(number).unwrap();
        }
        drop((first, second, last));
        assert_eq!(most_urgent_first([one, two, three]).collect::<Vec<_>>().await, [1, 2, 3, 4, 5]);
    }

    #[test]
    fn reports_progress_on_the_node_that_caused_it() {
        let notice_of = |last_failed: Option<&NodeName>, progress| {
            let counts = NodeCounts::default();
            let last_failed = last_failed.cloned();
            let state = PoolState { counts, gate: StartGate::Open, canaries: 0, last_failed, trials_end: None };
            let event = Event::from(progress).of(pool_name("gpu")).about(node_name("n1"));
            let event = Event { state: Some(state), ..event };
            to_notice("fleet f at commit 0123456789", Timestamp::UNIX_EPOCH, &event).map(|(_, notice)| notice)
        };
        let node = node_name("n1");

        let assigned = Progress::Assigned { from: None, to: Target::Source(source("x").into()) };
        let notice = notice_of(None, assigned).unwrap();
        assert_eq!((notice.reason, notice.warning), ("NodeConfigAssigned", false));
        assert_eq!(notice.message, "Assigned kube-system/x (pool gpu, fleet f at commit 0123456789)");

        let failed = Progress::Failed { failure: ConvergenceFailure::Refused { error: "no".to_owned() } };
        assert!(notice_of(None, failed).unwrap().warning);

        let stopped = Progress::Stopped { reason: StopReason::CanaryFailed { node: node.clone() } };
        let interrupted = Progress::Stopped { reason: StopReason::Interrupted };
        assert_eq!(notice_of(None, interrupted), None, "no node caused the stop");
        let last = node_name("n2");
        let notice = notice_of(Some(&last), stopped).unwrap();
        assert_eq!((&notice.node, notice.reason), (&node, "NodeConfigRolloutStopped"));
        assert!(notice.message.contains("canary n1 failed"));
        for (examples, on) in [(vec![node.clone(), last.clone()], &node), (Vec::new(), &last)] {
            let reason = StopReason::BudgetExhausted { budget: 1, unavailable: 2, examples };
            let stopped = Progress::Stopped { reason };
            assert_eq!(&notice_of(Some(&last), stopped).unwrap().node, on);
        }
    }
}
