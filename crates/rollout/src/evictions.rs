//! State machine of the evictions of one node. It receives the pods of the node and the answers of the API server, and
//! names the pods to evict next. It reads no clock.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::instant::Instant;
use nodecfg_fleet::drain::DrainPolicy;
use nodecfg_observed::{EvictionAnswer, Pod};
use nodecfg_plan::drain::DrainFailure;
use nodecfg_plan::drain::pods::{Stay, Treatment, treatment};

/// Limit of unanswered evictions per node.
const MAX_UNANSWERED: usize = 5;
/// Time until an eviction that was not possible is tried again. kubectl waits as long
/// (`staging/src/k8s.io/kubectl/pkg/drain/drain.go`, 1.36).
const RETRY: Duration = Duration::from_secs(5);

/// Change of the pods of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodChange {
    /// All pods of the node.
    Listed(Vec<Pod>),
    /// A pod appeared or changed.
    Present(Box<Pod>),
    /// The pod with this uid is gone.
    Gone(String),
}

/// Evictions of one node.
#[derive(Debug)]
pub struct Evictions {
    /// Pods by uid. `None` until the first list.
    pods: Option<BTreeMap<String, DrainedPod>>,
    /// Reasons of refused evictions.
    blocks: BTreeSet<String>,
}

#[derive(Debug)]
struct DrainedPod {
    pod: Pod,
    treatment: Treatment,
    state: EvictionState,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum EvictionState {
    /// Not sent.
    Due,
    /// Sent and not answered. A pod whose earlier eviction was refused stays blocked until the answer.
    Sent { blocked: Option<String> },
    /// The pod is being deleted.
    Ending,
    /// Not possible now; tried again at this time.
    Again { at: Instant, blocked: Option<String> },
}

/// Progress of the evictions of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// The pods of the node are unknown.
    Unknown,
    /// Pods may not be evicted.
    Refused(DrainFailure),
    /// Pods are left.
    Evicting {
        /// Their number.
        left: usize,
        /// A pod that a PodDisruptionBudget protects, and the answer of the API server.
        blocked: Option<(String, String)>,
    },
    /// Only pods that stay are left.
    Drained {
        /// Number of their claimed volumes, which stay attached.
        claims: usize,
    },
}

impl Evictions {
    /// Evictions of a node whose pods are unknown.
    #[must_use]
    pub fn new() -> Self {
        Self { pods: None, blocks: BTreeSet::new() }
    }

    /// Handles a change of the pods.
    pub fn observe(&mut self, change: PodChange, policy: &DrainPolicy) {
        match change {
            PodChange::Listed(pods) => {
                let mut before = self.pods.take().unwrap_or_default();
                let now = pods.into_iter().map(|pod| {
                    let known = before.remove(&pod.uid);
                    (pod.uid.clone(), DrainedPod::new(pod, known, policy))
                });
                self.pods = Some(now.collect());
            }
            PodChange::Present(pod) => {
                // Before the first list, the set of pods is incomplete.
                let Some(pods) = &mut self.pods else { return };
                let known = pods.remove(&pod.uid);
                pods.insert(pod.uid.clone(), DrainedPod::new(*pod, known, policy));
            }
            PodChange::Gone(uid) => drop(self.pods.as_mut().and_then(|pods| pods.remove(&uid))),
        }
    }

    /// Returns the pods to evict now. Each is answered by [`answered`](Self::answered).
    ///
    /// Pods of a higher priority stay until those of lower priorities are gone, so that a pod does not lose one that it
    /// depends on.
    pub fn next(&mut self, now: Instant) -> Vec<Pod> {
        if matches!(self.progress(), Progress::Unknown | Progress::Refused(_)) {
            return Vec::new();
        }
        let Some(lowest) = self.evicted().map(|one| one.pod.priority).min() else { return Vec::new() };
        let unanswered = self.evicted().filter(|one| matches!(one.state, EvictionState::Sent { .. })).count();
        let pods = self.pods.iter_mut().flat_map(BTreeMap::values_mut);
        let mut due: Vec<&mut DrainedPod> =
            pods.filter(|one| one.is_evicted() && one.pod.priority == lowest && one.state.is_due(now)).collect();
        due.sort_by(|a, b| by_name(&a.pod, &b.pod));
        due.truncate(MAX_UNANSWERED.saturating_sub(unanswered));
        due.into_iter()
            .map(|one| {
                one.state = EvictionState::Sent { blocked: one.state.blocked().cloned() };
                one.pod.clone()
            })
            .collect()
    }

    /// Handles the answer to an eviction. Returns the pod and the reason of a refusal, if this reason is new.
    pub fn answered(&mut self, uid: &str, answer: EvictionAnswer, now: Instant) -> Option<(String, String)> {
        let one = self.pods.as_mut().and_then(|pods| pods.get_mut(uid))?;
        let again = |blocked| EvictionState::Again { at: now.after(RETRY), blocked };
        one.state = match answer {
            EvictionAnswer::Evicted => EvictionState::Ending,
            EvictionAnswer::Gone => {
                let uid = uid.to_owned();
                self.observe(PodChange::Gone(uid), &DrainPolicy::default());
                return None;
            }
            EvictionAnswer::Blocked { reason } => again(Some(reason)),
            EvictionAnswer::SeveralBudgets => {
                again(Some("more than one PodDisruptionBudget covers it, which allows no eviction".to_owned()))
            }
            // The deletion of the namespace deletes the pod.
            EvictionAnswer::NamespaceTerminating => again(None),
        };
        let reason = one.state.blocked().filter(|reason| !self.blocks.contains(*reason))?.clone();
        self.blocks.insert(reason.clone());
        Some((one.pod.to_string(), reason))
    }

    /// Reports whether the eviction of a pod was sent and is unanswered.
    #[must_use]
    pub(crate) fn is_unanswered(&self, uid: &str) -> bool {
        self.pods
            .as_ref()
            .and_then(|pods| pods.get(uid))
            .is_some_and(|one| matches!(one.state, EvictionState::Sent { .. }))
    }

    /// Time after `now` at which [`next`](Self::next) may return more pods without another event. A pod that is due and
    /// was not returned waits for an answer or for the end of another pod.
    #[must_use]
    pub fn next_wake(&self, now: Instant) -> Option<Instant> {
        let again = |one: &DrainedPod| match one.state {
            EvictionState::Again { at, .. } if at > now => Some(at),
            _ => None,
        };
        self.evicted().filter_map(again).min()
    }

    /// Progress so far.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let Some(pods) = &self.pods else { return Progress::Unknown };
        let refused = pods.values().filter_map(|one| match one.treatment {
            Treatment::Refuse(why) => Some((&one.pod, why)),
            Treatment::Evict | Treatment::Stay(_) => None,
        });
        if let Some((pod, why)) = refused.clone().min_by(|(a, _), (b, _)| by_name(a, b)) {
            return Progress::Refused(DrainFailure::Refused { pod: pod.to_string(), why, pods: refused.count() });
        }
        let left = self.evicted().count();
        if left == 0 {
            let claims = pods.values().map(|one| one.pod.claims).sum();
            return Progress::Drained { claims };
        }
        let blocked = self.evicted().filter_map(|one| Some((&one.pod, one.state.blocked()?)));
        let blocked = blocked.min_by(|(a, _), (b, _)| by_name(a, b));
        Progress::Evicting { left, blocked: blocked.map(|(pod, reason)| (pod.to_string(), reason.clone())) }
    }

    /// Failure of a drain whose time limit passed.
    #[must_use]
    pub(crate) fn overdue(&self, volumes: usize) -> DrainFailure {
        match self.progress() {
            Progress::Refused(failure) => failure,
            Progress::Evicting { left, blocked: Some((pod, budget)) } => {
                DrainFailure::Blocked { pod, budget, pods: left }
            }
            Progress::Evicting { left, blocked: None } => {
                let pod = self.evicted().map(|one| &one.pod).min_by(|a, b| by_name(a, b)).map(Pod::to_string);
                DrainFailure::TimedOut { pods: left, pod, volumes }
            }
            Progress::Unknown | Progress::Drained { .. } => DrainFailure::TimedOut { pods: 0, pod: None, volumes },
        }
    }

    /// Pods that stay on the node, with the reason of each.
    pub(crate) fn staying(&self) -> impl Iterator<Item = (&Pod, Stay)> {
        self.pods.iter().flat_map(BTreeMap::values).filter_map(|one| match one.treatment {
            Treatment::Stay(why) => Some((&one.pod, why)),
            Treatment::Evict | Treatment::Refuse(_) => None,
        })
    }

    fn evicted(&self) -> impl Iterator<Item = &DrainedPod> {
        self.pods.iter().flat_map(BTreeMap::values).filter(|one| one.is_evicted())
    }
}

/// Order of pods in reports.
fn by_name(a: &Pod, b: &Pod) -> Ordering {
    (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name))
}

impl Default for Evictions {
    fn default() -> Self {
        Self::new()
    }
}

impl DrainedPod {
    /// Pod in its present state. `known` is the pod as known before.
    fn new(pod: Pod, known: Option<Self>, policy: &DrainPolicy) -> Self {
        let state = match known {
            _ if pod.deleting => EvictionState::Ending,
            Some(known) => known.state,
            None => EvictionState::Due,
        };
        Self { treatment: treatment(&pod, policy), pod, state }
    }

    fn is_evicted(&self) -> bool {
        self.treatment == Treatment::Evict
    }
}

impl EvictionState {
    fn is_due(&self, now: Instant) -> bool {
        match self {
            Self::Due => true,
            Self::Again { at, .. } => *at <= now,
            Self::Sent { .. } | Self::Ending => false,
        }
    }

    /// Reason why the pod cannot be evicted now.
    fn blocked(&self) -> Option<&String> {
        match self {
            Self::Sent { blocked } | Self::Again { blocked, .. } => blocked.as_ref(),
            Self::Due | Self::Ending => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodecfg_plan::drain::fixtures::{daemon, pod};

    fn at(seconds: u64) -> Instant {
        Instant::START.after(Duration::from_secs(seconds))
    }

    fn listed(pods: impl IntoIterator<Item = Pod>) -> Evictions {
        let mut evictions = Evictions::new();
        evictions.observe(PodChange::Listed(pods.into_iter().collect()), &DrainPolicy::default());
        evictions
    }

    fn names(pods: &[Pod]) -> Vec<&str> {
        pods.iter().map(|pod| pod.name.as_str()).collect()
    }

    fn gone(evictions: &mut Evictions, name: &str) {
        evictions.observe(PodChange::Gone(pod(name).uid), &DrainPolicy::default());
    }

    #[test]
    fn evicts_lower_priorities_first_and_at_most_five_at_a_time() {
        let mut evictions = listed(
            ["a", "b", "c", "d", "e", "f"]
                .map(pod)
                .into_iter()
                .chain([Pod { priority: 1000, ..pod("dns") }, daemon("proxy")]),
        );
        assert_eq!(names(&evictions.next(at(0))), ["a", "b", "c", "d", "e"]);
        assert_eq!(evictions.next(at(0)), []);
        evictions.answered(&pod("a").uid, EvictionAnswer::Evicted, at(1));
        assert_eq!(names(&evictions.next(at(1))), ["f"]);
        for name in ["b", "c", "d", "e", "f"] {
            evictions.answered(&pod(name).uid, EvictionAnswer::Gone, at(1));
        }
        assert_eq!(evictions.next(at(1)), [], "a still ends");
        assert_eq!(evictions.progress(), Progress::Evicting { left: 2, blocked: None });
        gone(&mut evictions, "a");
        assert_eq!(names(&evictions.next(at(1))), ["dns"]);
        gone(&mut evictions, "dns");
        assert_eq!(evictions.progress(), Progress::Drained { claims: 0 });
    }

    #[test]
    fn blocked_pod_is_tried_again_and_named() {
        let mut evictions = listed([pod("a"), pod("b")]);
        assert_eq!(names(&evictions.next(at(0))), ["a", "b"]);
        let reason = "The disruption budget web needs 2 healthy pods and has 2 currently".to_owned();
        evictions.answered(&pod("b").uid, EvictionAnswer::Blocked { reason: reason.clone() }, at(1));
        evictions.answered(&pod("a").uid, EvictionAnswer::NamespaceTerminating, at(2));
        assert_eq!((evictions.next(at(5)), evictions.next_wake(at(5))), (vec![], Some(at(6))));
        let blocked = Some(("web/b".to_owned(), reason.clone()));
        assert_eq!(evictions.progress(), Progress::Evicting { left: 2, blocked });
        assert_eq!(evictions.overdue(1), DrainFailure::Blocked { pod: "web/b".to_owned(), budget: reason, pods: 2 },);
        assert_eq!(names(&evictions.next(at(6))), ["b"]);
        assert_eq!(evictions.next_wake(at(6)), Some(at(7)));
        let blocked =
            Some(("web/b".to_owned(), "The disruption budget web needs 2 healthy pods and has 2 currently".to_owned()));
        assert_eq!(evictions.progress(), Progress::Evicting { left: 2, blocked }, "until the answer");
        evictions.answered(&pod("b").uid, EvictionAnswer::SeveralBudgets, at(8));
        assert!(matches!(evictions.progress(), Progress::Evicting { blocked: Some(_), .. }));
    }

    #[test]
    fn each_reason_of_a_refusal_is_new_once() {
        let mut evictions = listed([pod("a"), pod("b")]);
        let blocked = |reason: &str| EvictionAnswer::Blocked { reason: reason.to_owned() };
        let mut answer = |name: &str, answer, second| evictions.answered(&pod(name).uid, answer, at(second));
        assert_eq!(answer("a", blocked("web"), 0), Some(("web/a".to_owned(), "web".to_owned())));
        assert_eq!(answer("b", blocked("web"), 0), None, "the same budget");
        assert_eq!(answer("b", blocked("all"), 5), Some(("web/b".to_owned(), "all".to_owned())));
        assert_eq!(answer("b", blocked("web"), 10), None);
        assert_eq!(answer("a", EvictionAnswer::NamespaceTerminating, 10), None);
        assert_eq!(answer("a", EvictionAnswer::Evicted, 15), None);
    }

    #[test]
    fn pod_that_is_due_waits_for_an_answer_to_another() {
        let mut evictions = listed(["a", "b", "c", "d", "e", "f", "g"].map(pod));
        assert_eq!(names(&evictions.next(at(0))), ["a", "b", "c", "d", "e"]);
        let blocked = |reason: &str| EvictionAnswer::Blocked { reason: reason.to_owned() };
        evictions.answered(&pod("a").uid, blocked("web"), at(0));
        evictions.answered(&pod("b").uid, blocked("web"), at(3));
        assert_eq!(names(&evictions.next(at(3))), ["f", "g"]);
        assert_eq!(evictions.next_wake(at(3)), Some(at(5)));
        // Five evictions are unanswered, so the time alone sends none.
        assert_eq!((evictions.next(at(5)), evictions.next_wake(at(5))), (vec![], Some(at(8))));
        assert_eq!((evictions.next(at(8)), evictions.next_wake(at(8))), (vec![], None));
        evictions.answered(&pod("c").uid, EvictionAnswer::Evicted, at(9));
        assert_eq!(names(&evictions.next(at(9))), ["a"]);
    }

    #[test]
    fn accepted_eviction_is_not_sent_again() {
        let mut evictions = listed([pod("a")]);
        evictions.next(at(0));
        evictions.answered(&pod("a").uid, EvictionAnswer::Evicted, at(0));
        // The watch reports the deletion later.
        assert_eq!((evictions.next(at(60)), evictions.next_wake(at(60))), (vec![], None));
    }

    #[test]
    fn refused_pod_prevents_every_eviction() {
        let mut evictions =
            listed([pod("a"), Pod { controller: None, ..pod("z") }, Pod { empty_dir: true, ..pod("b") }]);
        assert_eq!(evictions.next(at(0)), []);
        let Progress::Refused(failure) = evictions.progress() else { panic!("{:?}", evictions.progress()) };
        assert_eq!(
            failure.to_string(),
            "drain refused: pod web/b would lose its emptyDir volume (emptyDir: refuse), and 1 more pod"
        );
        assert_eq!(evictions.overdue(0), failure);
    }

    #[test]
    fn list_decides_which_pods_are_left() {
        let mut evictions = Evictions::new();
        evictions.observe(PodChange::Present(Box::new(pod("a"))), &DrainPolicy::default());
        assert_eq!((evictions.progress(), evictions.next(at(0))), (Progress::Unknown, vec![]));
        evictions.observe(PodChange::Listed(vec![pod("a"), pod("b")]), &DrainPolicy::default());
        assert_eq!(evictions.next(at(0)).len(), 2);
        // After a lost watch, the evictions that were sent are not sent again.
        evictions.observe(PodChange::Listed(vec![pod("b")]), &DrainPolicy::default());
        assert_eq!(
            (evictions.progress(), evictions.next(at(0))),
            (Progress::Evicting { left: 1, blocked: None }, vec![])
        );
        assert_eq!(evictions.overdue(0).to_string(), "drain timed out: pod web/b is still there",);
    }

    #[test]
    fn pod_that_ends_already_is_waited_for_and_not_evicted() {
        let mut evictions = listed([Pod { deleting: true, ..pod("a") }, pod("b")]);
        assert_eq!(names(&evictions.next(at(0))), ["b"]);
        assert_eq!(evictions.progress(), Progress::Evicting { left: 2, blocked: None });
        // A person deletes a pod while a budget blocks its eviction.
        let blocked = EvictionAnswer::Blocked { reason: "web".to_owned() };
        evictions.answered(&pod("b").uid, blocked, at(1));
        let deleted = Pod { deleting: true, ..pod("b") };
        evictions.observe(PodChange::Present(Box::new(deleted)), &DrainPolicy::default());
        assert_eq!((evictions.next(at(9)), evictions.next_wake(at(9))), (vec![], None));
    }

    #[test]
    fn recreated_pod_is_another_pod() {
        let mut evictions = listed([pod("a")]);
        evictions.next(at(0));
        evictions.answered(&pod("a").uid, EvictionAnswer::Evicted, at(0));
        let again = Pod { uid: "second".to_owned(), ..pod("a") };
        evictions.observe(PodChange::Present(Box::new(again)), &DrainPolicy::default());
        gone(&mut evictions, "a");
        assert_eq!(evictions.next(at(1)).into_iter().map(|pod| pod.uid).collect::<Vec<_>>(), ["second"]);
    }

    #[test]
    fn staying_pods_keep_their_volumes() {
        let storage = Pod { claims: 2, ..daemon("storage") };
        let evictions = listed([storage, Pod { mirror: true, ..pod("etcd") }]);
        assert_eq!(evictions.progress(), Progress::Drained { claims: 2 });
        let staying: Vec<_> = evictions.staying().map(|(pod, why)| (pod.name.as_str(), why)).collect();
        assert_eq!(staying, [("etcd", Stay::Mirror), ("storage", Stay::DaemonSet)]);
        assert_eq!(evictions.overdue(3).to_string(), "drain timed out: 3 volumes are still attached");
    }
}
