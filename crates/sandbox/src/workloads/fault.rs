//! Faults of workloads: pods that a drain cannot move as usual, and the parser of `--pod-fault <node>=<kind>`.
//!
//! Each fault adds one pod to a node, in the namespace `default`, named after the fault and the node. Faults last as long
//! as their objects, which a client may change or delete.

use std::fmt;
use std::str::FromStr;

use crate::kubelets::fault::{FaultError, kind_of, parse_with_node};
use nodecfg_contract::names::NodeName;

/// Kind of an additional pod of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodFault {
    /// A PodDisruptionBudget never allows the eviction of the pod.
    BlockedBudget,
    /// Two PodDisruptionBudgets cover the pod, so that its eviction is an error.
    TwoBudgets,
    /// The pod never ends after its deletion.
    Hangs,
    /// The pod is created again under its name, and returns to its node. It tolerates every taint of effect NoSchedule.
    Returns,
    /// The pod has no controller.
    Unmanaged,
    /// The pod has a volume of type emptyDir.
    EmptyDir,
    /// The pod tolerates every taint, so that its replacement may start on a drained node.
    ToleratesAll,
    /// The pod mirrors a static pod. Its kubelet creates it again.
    Mirror,
    /// The pod has a volume that stays attached to the node.
    StuckVolume,
    /// The pod has exclusive CPUs under the static policy of the CPU manager.
    ExclusiveCpus,
}

/// Kinds with their names and descriptions.
pub const POD_FAULTS: [(PodFault, &str, &str); 10] = [
    (PodFault::BlockedBudget, "blocked-budget", "has a budget that allows no eviction"),
    (PodFault::TwoBudgets, "two-budgets", "has two budgets, which makes every eviction an error"),
    (PodFault::Hangs, "hangs", "never ends after its deletion"),
    (PodFault::Returns, "returns", "returns to its node under its name"),
    (PodFault::Unmanaged, "unmanaged", "has no controller"),
    (PodFault::EmptyDir, "empty-dir", "has a volume of type emptyDir"),
    (PodFault::ToleratesAll, "tolerates-all", "tolerates every taint"),
    (PodFault::Mirror, "mirror", "mirrors a static pod"),
    (PodFault::StuckVolume, "stuck-volume", "has a volume that is never detached"),
    (PodFault::ExclusiveCpus, "exclusive-cpus", "has exclusive CPUs"),
];

impl FromStr for PodFault {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        kind_of(text, &POD_FAULTS)
    }
}

/// A parsed `--pod-fault`: `<node>=<kind>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodFaultSpec {
    /// Node of the pod.
    pub node: NodeName,
    /// Kind of the pod.
    pub fault: PodFault,
}

impl FromStr for PodFaultSpec {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        parse_with_node(text).map(|(node, fault)| Self { node, fault })
    }
}

impl fmt::Display for PodFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = POD_FAULTS.iter().find(|(fault, ..)| fault == self).map(|(_, name, _)| *name);
        f.write_str(name.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_round_trips() {
        for (fault, name, _) in POD_FAULTS {
            assert_eq!((name.parse(), fault.to_string().as_str()), (Ok(fault), name));
        }
    }

    #[test]
    fn parses_node_and_kind() {
        let spec: PodFaultSpec = "n1=hangs".parse().expect("is valid");
        assert_eq!((spec.node.as_str(), spec.fault), ("n1", PodFault::Hangs));
        for bad in ["n1", "n1=explodes", "N_1=hangs", "*=hangs"] {
            assert!(bad.parse::<PodFaultSpec>().is_err(), "{bad}");
        }
    }
}
