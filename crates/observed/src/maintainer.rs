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
    /// The NVIDIA GPU Operator upgrades the driver of the node. It cordons and may drain the node for it.
    GpuOperator,
    /// The NVIDIA Network Operator upgrades the driver of the node. It cordons and may drain the node for it.
    NetworkOperator,
    /// Some program set the condition `MaintenanceInProgress`.
    MaintenanceInProgress,
    /// Some program set the condition `DrainInProgress`.
    DrainInProgress,
    /// Some program set the condition `Drained`.
    Drained,
    /// The kubelet set the condition `GracefulNodeShutdownInProgress`.
    GracefulNodeShutdownInProgress,
    /// Some program holds the Lease by which the programs of Medik8s agree who maintains the node.
    Medik8sLease,
}

impl fmt::Display for Maintainer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::ClusterAutoscaler => "cluster-autoscaler",
            Self::Karpenter => "karpenter",
            Self::NodeMaintenanceOperator => "node-maintenance-operator",
            Self::Kured => "kured",
            Self::MachineConfigOperator => "machine-config-operator",
            Self::GpuOperator => "gpu-operator",
            Self::NetworkOperator => "network-operator",
            Self::MaintenanceInProgress => "the program that set its condition MaintenanceInProgress",
            Self::DrainInProgress => "the program that set its condition DrainInProgress",
            Self::Drained => "the program that set its condition Drained",
            Self::GracefulNodeShutdownInProgress => {
                "its kubelet, which set its condition GracefulNodeShutdownInProgress"
            }
            Self::Medik8sLease => "the program that holds its Lease in the namespace medik8s-leases",
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

/// Types of Node conditions that claim a node while they are True (KEP-5683, alpha in Kubernetes 1.37). The KEP leaves
/// open who sets them, but the last, which is the kubelet's. `MaintenancePlanned` claims nothing: the node serves until
/// the maintenance begins, which may be in days.
pub const CONDITIONS: [(&str, Maintainer); 4] = [
    ("MaintenanceInProgress", Maintainer::MaintenanceInProgress),
    ("DrainInProgress", Maintainer::DrainInProgress),
    ("Drained", Maintainer::Drained),
    ("GracefulNodeShutdownInProgress", Maintainer::GracefulNodeShutdownInProgress),
];

/// Keys of labels that name the state of a driver's upgrade (NVIDIA/k8s-operator-libs, pkg/upgrade/consts.go:
/// `UpgradeStateLabelKeyFmt`, with the names of the drivers in the two operators).
pub const DRIVER_UPGRADES: [(&str, Maintainer); 2] = [
    ("nvidia.com/gpu-driver-upgrade-state", Maintainer::GpuOperator),
    ("nvidia.com/ofed-driver-upgrade-state", Maintainer::NetworkOperator),
];
/// States in which the operator does nothing to the node: unknown, queued, and done. All others claim the node, also
/// `upgrade-failed`, which leaves it cordoned and continues once its driver runs.
const IDLE_DRIVER_UPGRADES: [&str; 3] = ["", "upgrade-required", "upgrade-done"];

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
    /// Program that maintains a node with these taints and these conditions of others that are True, if any. `label` and
    /// `annotation` return the value of a key.
    pub fn of<'a>(
        taints: impl IntoIterator<Item = &'a str>,
        conditions: impl IntoIterator<Item = &'a str>,
        label: impl Fn(&str) -> Option<&'a str>,
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
        let driver = || {
            let upgrades = |key| label(key).is_some_and(|state| !IDLE_DRIVER_UPGRADES.contains(&state));
            DRIVER_UPGRADES.iter().find(|(key, _)| upgrades(key)).map(|(_, maintainer)| *maintainer)
        };
        let by_condition = || {
            let of =
                |kind: &str| CONDITIONS.iter().find(|(known, _)| *known == kind).map(|(_, maintainer)| *maintainer);
            conditions.into_iter().filter_map(of).min()
        };
        by_taint.or_else(kured).or_else(machine_config).or_else(driver).or_else(by_condition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(taints: &[&'static str], annotations: &[(&str, &'static str)]) -> Option<Maintainer> {
        let annotation = |key: &str| annotations.iter().find(|(known, _)| *known == key).map(|(_, value)| *value);
        Maintainer::of(taints.iter().copied(), [], |_| None, annotation)
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
            Maintainer::of([], [], |_| None, |key| (key == DESIRED_DRAIN).then_some("uncordon-a")),
            Some(Maintainer::MachineConfigOperator)
        );
    }

    #[test]
    fn driver_is_upgraded_in_all_states_but_the_idle_ones() {
        for (known, maintainer) in DRIVER_UPGRADES {
            let of = |state| Maintainer::of([], [], |key| (key == known).then_some(state), |_| None);
            for state in ["", "upgrade-required", "upgrade-done"] {
                assert_eq!(of(state), None, "{known} {state}");
            }
            for state in ["cordon-required", "uncordon-required", "upgrade-failed", "a-state-of-tomorrow"] {
                assert_eq!(of(state), Some(maintainer), "{known} {state}");
            }
        }
    }

    #[test]
    fn conditions_that_are_true_claim_a_node_but_plans() {
        let of = |conditions: &[&'static str]| Maintainer::of([], conditions.iter().copied(), |_| None, |_| None);
        assert_eq!(of(&["Ready", "MemoryPressure", "MaintenancePlanned"]), None);
        for (kind, maintainer) in CONDITIONS {
            assert_eq!(of(&["Ready", kind]), Some(maintainer), "{kind}");
        }
        assert_eq!(of(&["Drained", "MaintenanceInProgress"]), Some(Maintainer::MaintenanceInProgress));
    }
}
