//! Treatment of one pod by a drain.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use nodecfg_fleet::drain::{DrainPolicy, PodLoss};
use nodecfg_observed::Pod;

/// What a drain does with a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    /// The pod stays on the node.
    Stay(Stay),
    /// The pod is evicted.
    Evict,
    /// The policy does not allow the eviction.
    Refuse(Refusal),
}

/// Reason why a pod stays on a drained node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stay {
    /// A static pod, which only its kubelet can end.
    Mirror,
    /// All containers have ended.
    Finished,
    /// Its DaemonSet would start it again at once.
    DaemonSet,
    /// The policy skips it.
    Skipped,
    /// It tolerates the mark, so it might start on the node again.
    TolerantOfMark,
}

/// Reason why a pod may not be evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Refusal {
    /// The content of an `emptyDir` volume would be lost.
    EmptyDir,
    /// Nothing recreates the pod.
    Unmanaged,
    /// The policy skips the pod, but it owns CPUs that the change may take away.
    SkippedWithExclusiveCpus,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EmptyDir => "would lose its emptyDir volume (emptyDir: refuse)",
            Self::Unmanaged => "has no controller that recreates it (unmanaged: refuse)",
            Self::SkippedWithExclusiveCpus => "is skipped but owns exclusive CPUs (skip)",
        })
    }
}

/// Decides about a pod of a node that is drained.
///
/// As in `kubectl drain`, a finished pod loses no data, and a pod of a DaemonSet is not evicted, because its controller
/// ignores taints (kubernetes, `staging/src/k8s.io/kubectl/pkg/drain/filters.go`, 1.36).
#[must_use]
pub fn treatment(pod: &Pod, policy: &DrainPolicy) -> Treatment {
    let is_skipped = policy.skip.as_ref().is_some_and(|skip| skip.matches(&pod.labels));
    if pod.mirror {
        Treatment::Stay(Stay::Mirror)
    } else if pod.finished {
        Treatment::Stay(Stay::Finished)
    } else if pod.controller.as_ref().is_some_and(|controller| controller.kind == "DaemonSet") {
        Treatment::Stay(Stay::DaemonSet)
    } else if is_skipped && pod.exclusive_cpus {
        Treatment::Refuse(Refusal::SkippedWithExclusiveCpus)
    } else if is_skipped {
        Treatment::Stay(Stay::Skipped)
    } else if pod.tolerates_drain {
        Treatment::Stay(Stay::TolerantOfMark)
    } else if pod.deleting {
        // Its end is waited for, whatever is lost.
        Treatment::Evict
    } else if pod.controller.is_none() && policy.unmanaged == PodLoss::Refuse {
        Treatment::Refuse(Refusal::Unmanaged)
    } else if pod.empty_dir && policy.empty_dir == PodLoss::Refuse {
        Treatment::Refuse(Refusal::EmptyDir)
    } else {
        Treatment::Evict
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{daemon, pod};
    use super::*;
    use nodecfg_contract::label_selector::LabelSelector;

    #[test]
    fn each_kind_of_pod_is_treated_by_its_own_rule() {
        let policy = DrainPolicy { skip: Some(LabelSelector::of_label("app", "agent")), ..DrainPolicy::default() };
        let lenient = DrainPolicy { empty_dir: PodLoss::Delete, unmanaged: PodLoss::Delete, ..DrainPolicy::default() };
        let plain = pod("web");
        let alone = Pod { controller: None, ..plain.clone() };
        let scratch = Pod { empty_dir: true, ..plain.clone() };
        let mut agent = plain.clone();
        agent.labels.insert("app".to_owned(), "agent".to_owned());
        for (pod, strict, loose) in [
            (plain.clone(), Treatment::Evict, Treatment::Evict),
            (alone.clone(), Treatment::Refuse(Refusal::Unmanaged), Treatment::Evict),
            (scratch.clone(), Treatment::Refuse(Refusal::EmptyDir), Treatment::Evict),
            (Pod { deleting: true, ..alone }, Treatment::Evict, Treatment::Evict),
            (Pod { deleting: true, ..scratch.clone() }, Treatment::Evict, Treatment::Evict),
            (
                Pod { finished: true, controller: None, ..scratch },
                Treatment::Stay(Stay::Finished),
                Treatment::Stay(Stay::Finished),
            ),
            (
                Pod { mirror: true, controller: None, ..plain.clone() },
                Treatment::Stay(Stay::Mirror),
                Treatment::Stay(Stay::Mirror),
            ),
            (daemon("proxy"), Treatment::Stay(Stay::DaemonSet), Treatment::Stay(Stay::DaemonSet)),
            (agent.clone(), Treatment::Stay(Stay::Skipped), Treatment::Evict),
            (
                Pod { exclusive_cpus: true, ..agent },
                Treatment::Refuse(Refusal::SkippedWithExclusiveCpus),
                Treatment::Evict,
            ),
            (
                Pod { tolerates_drain: true, ..plain },
                Treatment::Stay(Stay::TolerantOfMark),
                Treatment::Stay(Stay::TolerantOfMark),
            ),
        ] {
            assert_eq!(treatment(&pod, &policy), strict, "{pod:?}");
            assert_eq!(treatment(&pod, &lenient), loose, "{pod:?}");
        }
    }
}
