//! Mark of a node that nodecfg drains: a taint that keeps new pods away, and an annotation with the reason.
//!
//! The mark is the only state of a drain, so that every later command can finish or release it. A kubelet may write the
//! annotations of its Node, but not its taints (admission plugin NodeRestriction).

use std::collections::BTreeSet;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use nodecfg_contract::ConfigSource;
use nodecfg_contract::names::{FleetName, PoolName};

/// Key of the taint, whose effect is `NoSchedule`. Cluster Autoscaler leaves taints with this prefix out of its
/// templates of new nodes (kubernetes/autoscaler, cluster-autoscaler/utils/taints: `StatusTaintPrefix`).
pub const DRAIN_TAINT: &str = "status-taint.cluster-autoscaler.kubernetes.io/nodecfg";
/// Value of the taint. The scheduler prints it for pods that find no node: `untolerated taint {…/nodecfg: draining}`.
pub const DRAIN_TAINT_VALUE: &str = "draining";
/// Effect of the taint: the scheduler places no new pods, and running pods stay.
pub const DRAIN_TAINT_EFFECT: &str = "NoSchedule";
/// Annotation with a [`Drain`] as JSON.
pub const DRAIN_ANNOTATION: &str = "nodecfg.dev/drain";
/// Reason of the Node conditions of KEP-5683 that nodecfg sets on a node that it drains. It tells them from those of other
/// programs.
pub const CONDITION_REASON: &str = "KubeletConfigurationChange";
/// Limit of the annotation that is read, in bytes. A written one has less than 2 kB.
const MAX_ANNOTATION: usize = 8 << 10;

/// Reason and start of a drain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Drain {
    /// Fleet of the run that drains the node.
    pub fleet: FleetName,
    /// Pool of the node.
    pub pool: PoolName,
    /// Source that the node gets after the drain; unset for the local configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<ConfigSource>,
    /// Source of the node when it was marked; unset for the local configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<ConfigSource>,
    /// Time of the mark.
    pub since: Timestamp,
    /// Protections that were absent when the node was marked. The release removes only these.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub added: BTreeSet<Protection>,
}

/// Annotation that keeps another program from removing a node. A mark adds it where it is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Protection {
    /// Cluster Autoscaler does not scale the node down (kubernetes/autoscaler, FAQ).
    ScaleDownDisabled,
    /// Karpenter does not disrupt the node (karpenter.sh, Disruption; since v1beta1).
    DoNotDisrupt,
}

impl Protection {
    /// All protections.
    pub const ALL: [Self; 2] = [Self::ScaleDownDisabled, Self::DoNotDisrupt];

    /// Key of the annotation. Its value is `true`.
    #[must_use]
    pub fn annotation(self) -> &'static str {
        match self {
            Self::ScaleDownDisabled => "cluster-autoscaler.kubernetes.io/scale-down-disabled",
            Self::DoNotDisrupt => "karpenter.sh/do-not-disrupt",
        }
    }
}

/// Result of removing the mark of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Released {
    /// The node had no mark.
    Unmarked,
    /// The node is gone, or another Node has its name.
    Gone,
    /// The mark was removed.
    Removed(RemovedMark),
}

/// Parts of a mark that were removed from a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemovedMark {
    /// Whether the taint was removed.
    pub taint: bool,
    /// Whether the annotation with the reason was removed.
    pub annotation: bool,
    /// Protections that were removed.
    pub protections: BTreeSet<Protection>,
    /// Whether the node is still cordoned, as a person left it.
    pub cordoned: bool,
}

/// Parts of a mark that a Node has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DrainMark {
    /// Whether the Node has the taint.
    pub tainted: bool,
    /// Content of the annotation; unset if it is missing or unreadable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain: Option<Drain>,
}

impl DrainMark {
    /// Mark of a Node. `None` if the Node has neither the taint nor the annotation.
    #[must_use]
    pub fn read(tainted: bool, annotation: Option<&str>) -> Option<Self> {
        let readable = annotation.filter(|text| text.len() <= MAX_ANNOTATION);
        let drain = readable.and_then(|text| serde_json::from_str(text).ok());
        (tainted || annotation.is_some()).then_some(Self { tainted, drain })
    }

    /// The drain, if the mark is complete. A mark without the taint keeps no pods away.
    #[must_use]
    pub fn in_effect(&self) -> Option<&Drain> {
        self.drain.as_ref().filter(|_| self.tainted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANNOTATION: &str = r#"{"fleet":"prod","pool":"gpu","to":{"configMap":{"kubeletConfigKey":"kubelet","name":"prod-gpu-1","namespace":"nodecfg"}},"since":"2026-11-23T10:00:00Z","added":["scaleDownDisabled"]}"#;

    #[test]
    fn reads_what_it_writes() {
        let mark = DrainMark::read(true, Some(ANNOTATION)).unwrap();
        let drain = mark.in_effect().unwrap();
        assert_eq!(drain.added, BTreeSet::from([Protection::ScaleDownDisabled]));
        assert_eq!(drain.from, None);
        assert_eq!(serde_json::to_string(drain).unwrap(), ANNOTATION);
    }

    #[test]
    fn incomplete_mark_is_not_in_effect() {
        assert_eq!(DrainMark::read(false, None), None);
        for (tainted, annotation) in [(true, None), (true, Some("{}")), (false, Some(ANNOTATION))] {
            let mark = DrainMark::read(tainted, annotation).unwrap();
            assert_eq!(mark.in_effect(), None, "{tainted} {annotation:?}");
        }
        let long = format!("{ANNOTATION}{}", " ".repeat(MAX_ANNOTATION));
        assert_eq!(DrainMark::read(true, Some(&long)).unwrap().drain, None);
    }
}
