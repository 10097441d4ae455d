//! What a kubelet makes of the feature gates of a file: component-base's `featureGate.SetFromMap`.

use std::collections::BTreeMap;

use super::{GateStage, all_known, lookup, name, needing, needs};
use crate::Minor;

/// The gate that sets every alpha gate which is not given itself.
const ALL_ALPHA: &str = "AllAlpha";
/// The gate that sets every beta gate which is not given itself.
const ALL_BETA: &str = "AllBeta";

/// The feature gates of a kubelet as they stand once its configuration has been applied. By default those of a kubelet
/// that knows none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enabled {
    minor: Minor,
    set: BTreeMap<&'static str, bool>,
}

/// Why a kubelet refuses the gates of its configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GateError {
    /// A kubelet of this version does not know the gate.
    Unknown {
        /// Its name, as given.
        gate: String,
    },
    /// The gate is locked to its default and given otherwise.
    Locked {
        /// Its name.
        gate: &'static str,
        /// What it is locked to.
        default: bool,
    },
    /// The gate is on, and others that it needs are off.
    Needs {
        /// Its name.
        gate: &'static str,
        /// Those that are off; never empty.
        off: Vec<&'static str>,
    },
}

impl Default for Enabled {
    fn default() -> Self {
        Self::defaults(Minor(0))
    }
}

impl Enabled {
    /// The gates of a kubelet of this version that is told nothing about them.
    #[must_use]
    pub fn defaults(minor: Minor) -> Self {
        Self { minor, set: BTreeMap::new() }
    }

    /// Whether a gate is on; a gate that this version does not know is off.
    #[must_use]
    pub fn is_on(&self, gate: &str) -> bool {
        match self.set.get(gate) {
            Some(on) => *on,
            None => lookup(gate, self.minor).is_some_and(|at| at.default),
        }
    }
}

/// Applies gates as a kubelet of this version does, over its defaults.
///
/// `AllAlpha` and `AllBeta` set every gate of that stage that is not given, locked or not. Kubelets before 1.31 stop at the
/// first error, of all that there are, in an order that is chance; later ones at the first unknown gate. Here
/// all are returned, by name: unknown and locked ones first, then what is off and needed.
///
/// # Errors
/// Everything for which the kubelet refuses the gates; never empty.
pub fn apply(minor: Minor, given: &BTreeMap<String, bool>) -> Result<Enabled, Vec<GateError>> {
    let mut enabled = Enabled::defaults(minor);
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

    fn with(minor: u32, gates: &[(&str, bool)]) -> Result<Enabled, Vec<GateError>> {
        apply(Minor(minor), &gates.iter().map(|(gate, on)| ((*gate).to_owned(), *on)).collect())
    }

    #[test]
    fn what_is_given_goes_before_the_default() {
        assert!(!with(21, &[]).unwrap().is_on("CustomCPUCFSQuotaPeriod"));
        assert!(with(21, &[("CustomCPUCFSQuotaPeriod", true)]).unwrap().is_on("CustomCPUCFSQuotaPeriod"));
        assert!(with(36, &[]).unwrap().is_on("CustomCPUCFSQuotaPeriod"));
        assert!(!with(36, &[("MemoryQoS", false)]).unwrap().is_on("MemoryQoS"));
        assert!(!Enabled::default().is_on("GracefulNodeShutdown"));
    }

    #[test]
    fn unknown_gates_are_refused() {
        let unknown = |gate: &str| Err(vec![GateError::Unknown { gate: gate.to_owned() }]);
        assert_eq!(with(21, &[("NodeSwap", true)]), unknown("NodeSwap"));
        assert_eq!(with(36, &[("TopologyManager", true)]), unknown("TopologyManager"));
        assert_eq!(with(36, &[("nodeswap", true)]), unknown("nodeswap"));
        assert_eq!(with(36, &[("", false)]), unknown(""));
        assert_eq!(with(16, &[("AllBeta", false)]), unknown("AllBeta"));
    }

    #[test]
    fn locked_gates_keep_their_default() {
        assert!(with(36, &[("NodeSwap", true)]).is_ok());
        assert_eq!(with(36, &[("NodeSwap", false)]), Err(vec![GateError::Locked { gate: "NodeSwap", default: true }]));
        // Locked off.
        assert_eq!(
            with(36, &[("AllowOverwriteTerminationGracePeriodSeconds", true)]),
            Err(vec![GateError::Locked { gate: "AllowOverwriteTerminationGracePeriodSeconds", default: false }])
        );
    }

    #[test]
    fn gates_that_others_need_cannot_be_off() {
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
    fn a_locked_gate_stays_on_for_those_that_need_it() {
        assert_eq!(
            with(36, &[("DynamicResourceAllocation", false)]),
            Err(vec![GateError::Locked { gate: "DynamicResourceAllocation", default: true }])
        );
    }

    #[test]
    fn all_alpha_and_all_beta_leave_what_is_given() {
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
        fn defaults_may_be_written_down(minor in 16_u32..=37, every in 1_usize..5) {
            let minor = Minor(minor);
            let given = all_known(minor).filter(|(gate, _)| !gate.starts_with("All")).step_by(every);
            let given = given.map(|(gate, at)| (gate.to_owned(), at.default)).collect();
            let enabled = apply(minor, &given).expect("a kubelet starts on its defaults");
            for (gate, at) in all_known(minor) {
                prop_assert_eq!(enabled.is_on(gate), at.default);
            }
        }

        #[test]
        fn what_is_given_stands(minor in 16_u32..=37, given in proptest::collection::btree_map(any_gate(), any::<bool>(), 0..6)) {
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
