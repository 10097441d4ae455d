//! Pods of a node and their disruption budgets, as far as a drain needs them.

use std::collections::BTreeMap;
use std::fmt;

use nodecfg_contract::label_selector::LabelSelector;
use nodecfg_contract::names::NodeName;
use nodecfg_contract::printable::{at_most, one_line, remark};

/// Observed pod that is bound to a node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about a pod")]
pub struct Pod {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub name: String,
    /// Uid of the pod. A recreated pod has another uid.
    pub uid: String,
    /// Node that the pod is bound to.
    pub node: NodeName,
    /// Labels, which disruption budgets select.
    pub labels: BTreeMap<String, String>,
    /// Owner with `controller: true`; `None` if nothing recreates the pod.
    pub controller: Option<Controller>,
    /// Whether the pod mirrors a static pod of the node (annotation `kubernetes.io/config.mirror`). Only its kubelet
    /// can end it.
    pub mirror: bool,
    /// Whether all containers have ended (phase `Succeeded` or `Failed`).
    pub finished: bool,
    /// Whether the pod is being deleted.
    pub deleting: bool,
    /// Whether a container has not started yet (phase `Pending`).
    pub pending: bool,
    /// Whether the pod is Ready.
    pub ready: bool,
    /// Priority of the pod; 0 if unset.
    pub priority: i32,
    /// Whether the pod has a volume whose content is lost with the pod (`emptyDir`).
    pub empty_dir: bool,
    /// Number of volumes with a claim of a PersistentVolume.
    pub claims: usize,
    /// Whether the pod tolerates the taint of a drain, so that an evicted one may return to the node.
    pub tolerates_drain: bool,
    /// Whether the static CPU manager gives a container exclusive CPUs: quality of service `Guaranteed`, with a whole
    /// number of CPUs.
    pub exclusive_cpus: bool,
    /// Refusal by the kubelet, if it ended the pod.
    pub rejection: Option<Box<Rejection>>,
}

/// Refusal of a pod by its kubelet, which then does not run it. A kubelet that starts decides again about the pods of
/// its node (kubernetes, `pkg/kubelet/kubelet.go`: `HandlePodAdditions` and `rejectPod`, 1.36).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// `status.reason`.
    pub reason: String,
    /// `status.message`, on one line and cut.
    pub message: String,
}

/// Reasons of refusals that the state of the node causes: an allocation of CPUs, memory or devices failed
/// (kubernetes, `pkg/kubelet/cm/admission/errors.go`, 1.36), the alignment of resources to a NUMA node
/// (`pkg/kubelet/cm/topologymanager/topology_manager.go`) or to cores (`pkg/kubelet/cm/cpumanager/policy_static.go`),
/// and the labels of the node (`pkg/kubelet/lifecycle/predicate.go`).
const REJECTIONS: [&str; 4] =
    ["UnexpectedAdmissionError", "TopologyAffinityError", "SMTAlignmentError", "NodeAffinity"];
/// Prefix of the reasons of pods that do not fit, such as `OutOfpods` and `OutOfcpu`
/// (`pkg/kubelet/lifecycle/predicate.go`: `InsufficientResourcePrefix`).
const OUT_OF: &str = "OutOf";
/// Maximum length of a reason in characters.
const LONGEST_REASON: usize = 100;

impl Rejection {
    /// Reads the status of a pod. `None`: the kubelet has not refused the pod, or for another reason.
    #[must_use]
    pub fn read(phase: Option<&str>, reason: Option<&str>, message: Option<&str>) -> Option<Self> {
        let reason = reason.filter(|reason| REJECTIONS.contains(reason) || reason.starts_with(OUT_OF))?;
        let read = || Self {
            reason: at_most(&one_line(reason), LONGEST_REASON),
            message: remark(message.unwrap_or_default()),
        };
        (phase == Some("Failed")).then(read)
    }

    /// Reports whether the pod did not fit beside the others. Without a change of the node, this happens to new pods:
    /// the scheduler and the kubelet count differently for a moment.
    #[must_use]
    pub fn is_lack_of_room(&self) -> bool {
        self.reason.starts_with(OUT_OF)
    }
}

/// Controller of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Controller {
    /// Kind, such as `ReplicaSet`.
    pub kind: String,
    /// Name in the namespace of the pod.
    pub name: String,
}

impl fmt::Display for Pod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Observed PodDisruptionBudget (policy/v1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodBudget {
    /// Namespace of the budget and its pods.
    pub namespace: String,
    /// Name of the budget.
    pub name: String,
    /// Selector of its pods; `None` selects none, and an empty one every pod of the namespace.
    pub selector: Option<LabelSelector>,
    /// Number of pods that may be evicted now (`status.disruptionsAllowed`).
    pub allowed: i32,
    /// Number of healthy pods (`status.currentHealthy`).
    pub healthy: i32,
    /// Number of healthy pods that the budget requires (`status.desiredHealthy`).
    pub required: i32,
    /// Whether pods that are not Ready may be evicted whatever the status allows
    /// (`spec.unhealthyPodEvictionPolicy: AlwaysAllow`).
    pub spares_unready: bool,
}

impl PodBudget {
    /// Reports whether the budget covers a pod.
    #[must_use]
    pub fn covers(&self, pod: &Pod) -> bool {
        self.namespace == pod.namespace && self.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
    }

    /// Reports whether the budget allows the eviction of a pod now. One that is not Ready takes nothing from the budget:
    /// it may go if the policy of the budget allows that, or if enough other pods are healthy (kubernetes,
    /// `pkg/registry/core/pod/storage/eviction.go`, 1.36; the policy exists since 1.26).
    #[must_use]
    pub fn allows(&self, pod: &Pod) -> bool {
        let enough = self.required > 0 && self.healthy >= self.required;
        self.allowed > 0 || (!pod.ready && (self.spares_unready || enough))
    }
}

/// Answer of an API server to the eviction of a pod (kubernetes, `pkg/registry/core/pod/storage/eviction.go`, 1.36).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EvictionAnswer {
    /// The pod is being deleted (201).
    Evicted,
    /// The pod is gone (404), or another pod has its name (409 about the uid).
    Gone,
    /// A PodDisruptionBudget allows no eviction now (429, or 403 about the budget), or the pod changes at the same time
    /// (409).
    Blocked {
        /// Text of the server, which names the budget.
        reason: String,
    },
    /// More than one PodDisruptionBudget covers the pod (500). No eviction succeeds until one of them is removed.
    SeveralBudgets,
    /// The namespace of the pod is being deleted (403), which ends the pod, too.
    NamespaceTerminating,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_by_the_kubelet_are_recognized() {
        let read = |phase: &str, reason: &str| Rejection::read(Some(phase), Some(reason), Some("Pod was rejected: x"));
        for reason in REJECTIONS {
            let rejection = read("Failed", reason).unwrap();
            assert_eq!((rejection.reason.as_str(), rejection.message.as_str()), (reason, "Pod was rejected: x"));
            assert!(!rejection.is_lack_of_room());
            assert_eq!(read("Pending", reason), None);
            assert_eq!(read("Running", reason), None);
        }
        assert!(read("Failed", "OutOfpods").unwrap().is_lack_of_room());
        for reason in ["Evicted", "NodeLost", "DeadlineExceeded", "", "Preempting", "NodeAffinityx", "outofcpu"] {
            assert_eq!(read("Failed", reason), None, "{reason}");
        }
        assert_eq!(Rejection::read(Some("Failed"), None, None), None);
        assert_eq!(Rejection::read(None, Some("NodeAffinity"), None), None);
    }

    #[test]
    fn texts_of_a_refusal_are_harmless() {
        let hostile = format!("a\u{1b}[2Jb\nc\u{202e}d {}", "x".repeat(10_000));
        let rejection = Rejection::read(Some("Failed"), Some("OutOf\u{7}cpu\n"), Some(&hostile)).unwrap();
        assert_eq!(rejection.reason, "OutOf cpu");
        assert!(
            rejection.message.starts_with("a [2Jb cd xxx") && rejection.message.chars().count() <= 201,
            "{rejection:?}"
        );
        let long = format!("OutOf{}", "x".repeat(1000));
        assert_eq!(
            Rejection::read(Some("Failed"), Some(&long), None).unwrap().reason.chars().count(),
            LONGEST_REASON + 1
        );
    }
}
