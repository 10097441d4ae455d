//! Other programs that drain, reboot or remove nodes, and the marks by which they claim a node.

use std::fmt;

use serde::Serialize;

/// Program that maintains a node now. nodecfg does not start such a node: both would take it down at once, and a node
/// that is about to be removed needs no configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Maintainer {
    /// Cluster Autoscaler removes the node.
    ClusterAutoscaler,
    /// Karpenter removes or replaces the node.
    Karpenter,
    /// The Node Maintenance Operator of Medik8s drains the node.
    NodeMaintenanceOperator,
    /// kured reboots the node. It sets its annotation only with `--annotate-nodes`.
    Kured,
    /// The Machine Config Operator of OpenShift drains, updates and reboots the node.
    MachineConfigOperator,
}

impl fmt::Display for Maintainer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::ClusterAutoscaler => "cluster-autoscaler",
            Self::Karpenter => "karpenter",
            Self::NodeMaintenanceOperator => "node-maintenance-operator",
            Self::Kured => "kured",
            Self::MachineConfigOperator => "machine-config-operator",
        })
    }
}

/// Keys of taints, with the program that sets each and the place of its definition. The effect is not compared.
pub const TAINTS: [(&str, Maintainer, &str); 3] = [
    (
        "ToBeDeletedByClusterAutoscaler",
        Maintainer::ClusterAutoscaler,
        "kubernetes/autoscaler, cluster-autoscaler/utils/taints: ToBeDeletedTaint",
    ),
    ("karpenter.sh/disrupted", Maintainer::Karpenter, "kubernetes-sigs/karpenter, pkg/apis/v1: DisruptedTaintKey"),
    (
        "medik8s.io/drain",
        Maintainer::NodeMaintenanceOperator,
        "medik8s/node-maintenance-operator, controllers/taint.go: medik8sDrainTaintKey",
    ),
];

/// Annotation of kured on a node that it reboots (kubereboot/kured, cmd/kured: KuredRebootInProgressAnnotation).
pub const KURED: &str = "weave.works/kured-reboot-in-progress";
/// Drain or uncordon that the Machine Config Operator requests, for example `drain-<config>`
/// (openshift/machine-config-operator, pkg/daemon/constants: DesiredDrainerAnnotationKey).
pub const DESIRED_DRAIN: &str = "machineconfiguration.openshift.io/desiredDrain";
/// Last request that the Machine Config Operator carried out (the same file: LastAppliedDrainerAnnotationKey).
pub const LAST_APPLIED_DRAIN: &str = "machineconfiguration.openshift.io/lastAppliedDrain";
/// Start of a request to drain (the same file: DrainerStateDrain). The node stays drained until the next request.
const DRAIN_PREFIX: &str = "drain-";

impl Maintainer {
    /// Program that maintains a node with these taints and annotations, if any. `annotation` returns the value of a
    /// key.
    pub fn of<'a>(
        taints: impl IntoIterator<Item = &'a str>,
        annotation: impl Fn(&str) -> Option<&'a str>,
    ) -> Option<Self> {
        let of_taint =
            |key: &str| TAINTS.iter().find(|(known, ..)| *known == key).map(|(_, maintainer, _)| *maintainer);
        let by_taint = taints.into_iter().filter_map(of_taint).min();
        let kured = || annotation(KURED).map(|_| Self::Kured);
        let machine_config = || {
            let desired = annotation(DESIRED_DRAIN)?;
            let drains = desired.starts_with(DRAIN_PREFIX) || annotation(LAST_APPLIED_DRAIN) != Some(desired);
            drains.then_some(Self::MachineConfigOperator)
        };
        by_taint.or_else(kured).or_else(machine_config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(taints: &[&'static str], annotations: &[(&str, &'static str)]) -> Option<Maintainer> {
        let annotation = |key: &str| annotations.iter().find(|(known, _)| *known == key).map(|(_, value)| *value);
        Maintainer::of(taints.iter().copied(), annotation)
    }

    #[test]
    fn recognizes_each_mark() {
        assert_eq!(of(&[], &[]), None);
        assert_eq!(of(&["node.kubernetes.io/not-ready", "DeletionCandidateOfClusterAutoscaler"], &[]), None);
        for (key, maintainer, _) in TAINTS {
            assert_eq!(of(&["dedicated", key], &[]), Some(maintainer), "{key}");
        }
        assert_eq!(of(&[], &[(KURED, "2026-11-21T12:00:00Z")]), Some(Maintainer::Kured));
    }

    #[test]
    fn machine_config_operator_maintains_until_it_has_uncordoned() {
        let of = |desired, applied| of(&[], &[(DESIRED_DRAIN, desired), (LAST_APPLIED_DRAIN, applied)]);
        assert_eq!(of("uncordon-a", "uncordon-a"), None);
        for (desired, applied) in [("drain-b", "uncordon-a"), ("drain-b", "drain-b"), ("uncordon-b", "drain-b")] {
            assert_eq!(of(desired, applied), Some(Maintainer::MachineConfigOperator), "{desired} {applied}");
        }
        assert_eq!(
            Maintainer::of([], |key| (key == DESIRED_DRAIN).then_some("uncordon-a")),
            Some(Maintainer::MachineConfigOperator)
        );
    }
}
