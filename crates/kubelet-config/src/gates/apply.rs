//! Application of a file's feature gates, as in component-base's `featureGate.SetFromMap`.

use std::collections::BTreeMap;

use super::{GateStage, all_known, lookup, name, needing, needs};
use crate::Minor;

/// The gate that sets every alpha gate without a value of its own.
const ALL_ALPHA: &str = "AllAlpha";
/// The gate that sets every beta gate without a value of its own.
const ALL_BETA: &str = "AllBeta";

/// The effective feature gates of a kubelet. The default value has no gates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EnabledGates {
    minor: Minor,
    set: BTreeMap<&'static str, bool>,
}

/// The reason why a kubelet refuses the gates of its configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GateError {
    /// This version does not have the gate.
    Unknown {
        /// The name in the file.
        gate: String,
    },
    /// The gate is locked to its default, and the file sets the other value.
    Locked {
        /// The name.
        gate: &'static str,
        /// The locked value.
        default: bool,
    },
    /// The gate is on, but gates that it requires are off.
    Needs {
        /// The name.
        gate: &'static str,
        /// The required gates that are off; never empty.
        off: Vec<&'static str>,
    },
}

impl Default for EnabledGates {
    fn default() -> Self {
        Self::defaults(Minor(0))
    }
}

impl EnabledGates {
    /// Returns the default gates of a version.
    pub(crate) fn defaults(minor: Minor) -> Self {
        Self { minor, set: BTreeMap::new() }
    }

    /// Reports whether a gate is on. A gate that this version does not have is off.
    pub(crate) fn is_on(&self, gate: &str) -> bool {
        match self.set.get(gate) {
            Some(on) => *on,
            None => lookup(gate, self.minor).is_some_and(|at| at.default),
        }
    }
}

/// Applies gates over the defaults of a version, as its kubelet does.
///
/// `AllAlpha` and `AllBeta` set every gate of their stage without a value of its own, even locked gates. Kubelets
/// before 1.31 stop at the first error, in random order. Later ones stop at the first unknown gate. This function
/// returns all errors by name: unknown and locked gates first, then dependencies.
///
/// # Errors
/// Every reason why the kubelet refuses the gates; never empty.
pub(crate) fn apply(minor: Minor, given: &BTreeMap<String, bool>) -> Result<EnabledGates, Vec<GateError>> {
    let mut enabled = EnabledGates::defaults(minor);
    let mut errors = Vec::new();
    for (all, stage) in [(ALL_ALPHA, GateStage::Alpha), (ALL_BETA, GateStage::Beta)] {
        if let (Some(on), Some(_)) = (given.get(all), lookup(all, minor)) {
            let of_stage =
                all_known(minor).filter(|(gate, at)| at.stage == stage && ![ALL_ALPHA, ALL_BETA].contains(gate));
            enabled.set.extend(of_stage.map(|(gate, _)| (gate, *on)));
        }
    }
    for (gate, on) in given {
        match (name(gate), lookup(gate, minor)) {
            (Some(gate), Some(at)) if at.locked && at.default != *on => {
                enabled.set.remove(gate);
                errors.push(GateError::Locked { gate, default: at.default });
            }
            (Some(gate), Some(_)) => {
                enabled.set.insert(gate, *on);
            }
            _ => errors.push(GateError::Unknown { gate: gate.clone() }),
        }
    }
    for gate in needing().filter(|gate| enabled.is_on(gate)) {
        let off: Vec<_> = needs(gate, minor).filter(|needed| !enabled.is_on(needed)).collect();
        if !off.is_empty() {
            errors.push(GateError::Needs { gate, off });
        }
    }
    if errors.is_empty() { Ok(enabled) } else { Err(errors) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::all;
    use super::*;

    fn with(minor: u32, gates: &[(&str, bool)]) -> Result<EnabledGates, Vec<GateError>> {
        apply(Minor(minor), &gates.iter().map(|(gate, on)| ((*gate).to_owned(), *on)).collect())
    }

    #[test]
    fn given_value_overrides_default() {
        assert!(!with(21, &[]).unwrap().is_on("CustomCPUCFSQuotaPeriod"));
        assert!(with(21, &[("CustomCPUCFSQuotaPeriod", true)]).unwrap().is_on("CustomCPUCFSQuotaPeriod"));
        assert!(with(36, &[]).unwrap().is_on("CustomCPUCFSQuotaPeriod"));
        assert!(!with(36, &[("MemoryQoS", false)]).unwrap().is_on("MemoryQoS"));
        assert!(!EnabledGates::default().is_on("GracefulNodeShutdown"));
    }

    #[test]
    fn refuses_unknown_gates() {
        let unknown = |gate: &str| Err(vec![GateError::Unknown { gate: gate.to_owned() }]);
        assert_eq!(with(21, &[("NodeSwap", true)]), unknown("NodeSwap"));
        assert_eq!(with(36, &[("TopologyManager", true)]), unknown("TopologyManager"));
        assert_eq!(with(36, &[("nodeswap", true)]), unknown("nodeswap"));
        assert_eq!(with(36, &[("", false)]), unknown(""));
        assert_eq!(with(16, &[("AllBeta", false)]), unknown("AllBeta"));
    }

    #[test]
    fn refuses_changes_of_locked_gates() {
        assert!(with(36, &[("NodeSwap", true)]).is_ok());
        assert_eq!(with(36, &[("NodeSwap", false)]), Err(vec![GateError::Locked { gate: "NodeSwap", default: true }]));
        // Locked off.
        assert_eq!(
            with(36, &[("AllowOverwriteTerminationGracePeriodSeconds", true)]),
            Err(vec![GateError::Locked { gate: "AllowOverwriteTerminationGracePeriodSeconds", default: false }])
        );
    }

    #[test]
    fn refuses_gates_with_dependencies_off() {
        let off = vec!["GracefulNodeShutdown"];
        let dependents = ["GracefulNodeShutdownBasedOnPodPriority", "WindowsGracefulNodeShutdown"];
        let errors = dependents.map(|gate| GateError::Needs { gate, off: off.clone() }).to_vec();
        assert_eq!(with(36, &[("GracefulNodeShutdown", false)]), Err(errors));
        assert!(with(34, &[("GracefulNodeShutdown", false)]).is_ok());
        assert!(with(36, &[("GracefulNodeShutdown", false), (dependents[0], false), (dependents[1], false)]).is_ok());
        assert_eq!(
            with(36, &[("TopologyAwareWorkloadScheduling", true)]),
            Err(vec![GateError::Needs { gate: "TopologyAwareWorkloadScheduling", off: vec!["GenericWorkload"] }])
        );
        assert!(with(36, &[("TopologyAwareWorkloadScheduling", true), ("GenericWorkload", true)]).is_ok());
    }

    #[test]
    fn locked_gate_stays_on_for_its_dependents() {
        assert_eq!(
            with(36, &[("DynamicResourceAllocation", false)]),
            Err(vec![GateError::Locked { gate: "DynamicResourceAllocation", default: true }])
        );
    }

    #[test]
    fn all_alpha_and_all_beta_keep_given_values() {
        let gates = with(36, &[("AllAlpha", true), ("MemoryQoS", false)]).unwrap();
        assert!(gates.is_on("LoggingAlphaOptions") && !gates.is_on("MemoryQoS"));
        let gates = with(36, &[("AllBeta", false), ("GracefulNodeShutdown", true)]).unwrap();
        assert!(gates.is_on("GracefulNodeShutdown") && !gates.is_on("GracefulNodeShutdownBasedOnPodPriority"));
        assert!(gates.is_on("CustomCPUCFSQuotaPeriod"), "it is GA");
        assert!(with(21, &[("AllBeta", true)]).unwrap().is_on("GracefulNodeShutdown"));
        assert!(!with(21, &[("AllBeta", false)]).unwrap().is_on("GracefulNodeShutdown"));
    }

    proptest! {
        #[test]
        fn accepts_explicit_defaults(minor in 16_u32..=37, every in 1_usize..5) {
            let minor = Minor(minor);
            let given = all_known(minor).filter(|(gate, _)| !gate.starts_with("All")).step_by(every);
            let given = given.map(|(gate, at)| (gate.to_owned(), at.default)).collect();
            let enabled = apply(minor, &given).expect("a kubelet starts on its defaults");
            for (gate, at) in all_known(minor) {
                prop_assert_eq!(enabled.is_on(gate), at.default);
            }
        }

        #[test]
        fn keeps_given_values(minor in 16_u32..=37, given in proptest::collection::btree_map(any_gate(), any::<bool>(), 0..6)) {
            let minor = Minor(minor);
            let refusable = given.iter().any(|(gate, on)| {
                lookup(gate, minor).is_none_or(|at| at.locked && at.default != *on)
            });
            match apply(minor, &given) {
                Ok(enabled) => {
                    prop_assert!(!refusable);
                    for (gate, on) in &given {
                        prop_assert_eq!(enabled.is_on(gate), *on);
                    }
                }
                Err(errors) => {
                    let needed = errors.iter().all(|error| matches!(error, GateError::Needs { .. }));
                    prop_assert!(!errors.is_empty() && refusable != needed);
                }
            }
        }
    }

    fn any_gate() -> impl Strategy<Value = String> {
        let mut names: Vec<_> = all().map(str::to_owned).collect();
        names.push("NotAGate".to_owned());
        proptest::sample::select(names)
    }
}
