//! The tables of feature gates: stage and default by version, and dependencies between gates
//! (`crates/kubelet-config/data/gates.csv`, `crates/kubelet-config/data/gate-dependencies.csv`). Application of a file's
//! gates, as in component-base's `featureGate.SetFromMap`.
//!
//! A kubelet accepts every gate that is linked into its binary, even if it does not use the gate. These are the gates
//! of `pkg/features`, k8s.io/apiserver, component-base, apiextensions-apiserver (while `pkg/features` names some of
//! them) and, since 1.30, client-go. Patch releases sometimes add gates, so the table describes the last patch
//! release of each minor. A gate listed since 1.16 may be older. The gates of a version that is not released may still
//! change.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use crate::{Minor, table};

static TEXT: &str = include_str!("../data/gates.csv");
static NEEDS_TEXT: &str = include_str!("../data/gate-dependencies.csv");
static TABLE: LazyLock<BTreeMap<String, Vec<Span>>> = LazyLock::new(|| {
    let mut gates: BTreeMap<String, Vec<Span>> = BTreeMap::new();
    for (gate, span) in table::rows(TEXT).filter_map(|cells| span(&cells)) {
        gates.entry(gate).or_default().push(span);
    }
    gates
});
static NEEDS: LazyLock<BTreeMap<String, Vec<Need>>> = LazyLock::new(|| {
    let mut needs: BTreeMap<String, Vec<Need>> = BTreeMap::new();
    for (gate, need) in table::rows(NEEDS_TEXT).filter_map(|cells| need(&cells)) {
        needs.entry(gate).or_default().push(need);
    }
    needs
});

/// The stage of a gate's feature.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
pub enum GateStage {
    /// May change or be removed without notice.
    Alpha,
    /// Permanent; details may change.
    Beta,
    /// Generally available; the gate is removed a few versions later.
    #[serde(rename = "GA")]
    Ga,
    /// To be removed.
    Deprecated,
}

impl fmt::Display for GateStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Alpha => "alpha",
            Self::Beta => "beta",
            Self::Ga => "GA",
            Self::Deprecated => "deprecated",
        })
    }
}

/// The properties of a gate in one version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GateProperties {
    /// The stage of the feature.
    pub stage: GateStage,
    /// The default value.
    pub default: bool,
    /// True if the gate is locked to its default: the kubelet does not start with another value.
    pub locked: bool,
    /// True if the kubelet, or a library's code on the node, uses the gate. Other gates have no effect on a node.
    pub kubelet: bool,
    /// True if only the kubelet's client and server libraries use the gate (`k8s.io/client-go/features/known_features.go`,
    /// `k8s.io/apiserver/pkg/features/kube_features.go`), or API validation, which checks static pods.
    pub(crate) library: bool,
}

/// A range of versions in which a gate has the same properties.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The first version; 1.16 may stand for an earlier one.
    pub since: Minor,
    /// The last version; [`NEWEST`](crate::NEWEST) means that the range is open.
    pub until: Minor,
    /// The properties.
    pub at: GateProperties,
}

/// A dependency: the gate can be on only if this other gate is on.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Need {
    gate: String,
    since: Minor,
    until: Minor,
}

/// Returns a gate's properties in a version; `None` if the version does not have the gate. Names are case-sensitive.
#[must_use]
pub fn lookup(gate: &str, minor: Minor) -> Option<GateProperties> {
    history(gate).iter().find(|span| (span.since..=span.until).contains(&minor)).map(|span| span.at)
}

/// Returns a gate's history, oldest first, without gaps. Empty if no version in the table has the gate.
#[must_use]
pub fn history(gate: &str) -> &'static [Span] {
    TABLE.get(gate).map_or(&[], Vec::as_slice)
}

/// Returns the first and the last version that have a gate.
#[must_use]
pub fn known_by(gate: &str) -> Option<(Minor, Minor)> {
    let spans = history(gate);
    Some((spans.first()?.since, spans.last()?.until))
}

/// Returns the first version of the unbroken range in which a gate is locked, if it is locked in this one.
pub(crate) fn locked_since(gate: &str, minor: Minor) -> Option<Minor> {
    let before = history(gate).iter().rev().skip_while(|span| span.since > minor);
    before.take_while(|span| span.at.locked).last().map(|span| span.since)
}

/// Returns every gate of a version, ordered by name.
pub fn all_known(minor: Minor) -> impl Iterator<Item = (&'static str, GateProperties)> {
    TABLE.keys().filter_map(move |gate| Some((gate.as_str(), lookup(gate, minor)?)))
}

/// Returns every gate of all versions, ordered by name.
pub fn all() -> impl Iterator<Item = &'static str> {
    TABLE.keys().map(String::as_str)
}

/// Returns the gates that this gate requires, ordered by name. Kubelets before 1.35 do not check dependencies.
pub fn needs(gate: &str, minor: Minor) -> impl Iterator<Item = &'static str> {
    let needs = NEEDS.get(gate).map_or(&[][..], Vec::as_slice);
    needs.iter().filter(move |need| (need.since..=need.until).contains(&minor)).map(|need| need.gate.as_str())
}

/// Returns the gates that require others, ordered by name.
fn needing() -> impl Iterator<Item = &'static str> {
    NEEDS.keys().map(String::as_str)
}

/// Returns the gate's name with static lifetime, as in the table.
fn name(gate: &str) -> Option<&'static str> {
    TABLE.get_key_value(gate).map(|(name, _)| name.as_str())
}

fn span(cells: &[String]) -> Option<(String, Span)> {
    let [gate, since, until, stage, default, locked, user] = cells else { return None };
    if !["", "locked"].contains(&locked.as_str()) || !["", "kubelet", "library"].contains(&user.as_str()) {
        return None;
    }
    let at = GateProperties {
        stage: table::word(stage)?,
        default: default.parse().ok()?,
        locked: locked == "locked",
        kubelet: user == "kubelet",
        library: user == "library",
    };
    Some((gate.clone(), Span { since: table::minor(since)?, until: table::minor(until)?, at }))
}

fn need(cells: &[String]) -> Option<(String, Need)> {
    let [gate, needs, since, until] = cells else { return None };
    Some((gate.clone(), Need { gate: needs.clone(), since: table::minor(since)?, until: table::minor(until)? }))
}

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
    use super::*;
    use crate::NEWEST;
    use crate::OLDEST;
    use proptest::prelude::*;

    #[test]
    fn table_of_gates_is_well_formed() {
        assert_eq!(TEXT.lines().next(), Some("gate,since,until,stage,default,locked,kubelet"));
        assert_eq!(TABLE.values().map(Vec::len).sum::<usize>(), TEXT.lines().count() - 1, "every line reads");
        assert!(TEXT.lines().skip(1).is_sorted_by_key(|line| line.split(',').next()), "the table is sorted by name");
        for (gate, spans) in TABLE.iter() {
            assert!(!gate.is_empty() && gate.bytes().all(|b| b.is_ascii_alphanumeric()), "{gate}");
            for span in spans {
                assert!(OLDEST <= span.since && span.since <= span.until && span.until <= NEWEST, "{gate}");
            }
            for pair in spans.windows(2) {
                assert_eq!(pair[0].until.0 + 1, pair[1].since.0, "{gate}: no gap and no overlap");
                assert_ne!(pair[0].at, pair[1].at, "{gate}: a row is a change");
            }
        }
    }

    #[test]
    fn table_of_dependencies_is_well_formed() {
        assert_eq!(NEEDS_TEXT.lines().next(), Some("gate,needs,since,until"));
        assert_eq!(NEEDS.values().map(Vec::len).sum::<usize>(), NEEDS_TEXT.lines().count() - 1, "every line reads");
        assert!(NEEDS_TEXT.lines().skip(1).is_sorted(), "the table is sorted");
        for (gate, needs) in NEEDS.iter() {
            for need in needs {
                assert!(need.since >= Minor(35), "{gate}: nothing was checked before 1.35");
                for minor in (need.since.0..=need.until.0).map(Minor) {
                    assert!(lookup(gate, minor).is_some(), "{gate} {minor}");
                    assert!(lookup(&need.gate, minor).is_some(), "{gate} needs {} {minor}", need.gate);
                }
            }
        }
    }

    #[test]
    fn gates_change_between_versions() {
        let at = |gate: &str, minor| lookup(gate, Minor(minor)).map(|at| (at.stage, at.default, at.locked));
        assert_eq!(at("NodeSwap", 21), None);
        assert_eq!(at("NodeSwap", 22), Some((GateStage::Alpha, false, false)));
        assert_eq!(at("NodeSwap", 28), Some((GateStage::Beta, false, false)));
        assert_eq!(at("NodeSwap", 30), Some((GateStage::Beta, true, false)));
        assert_eq!(at("NodeSwap", 36), Some((GateStage::Ga, true, true)));
        assert_eq!(at("DynamicKubeletConfig", 21), Some((GateStage::Beta, true, false)));
        assert_eq!(at("TopologyManager", 26), Some((GateStage::Beta, true, false)));
        assert_eq!(at("TopologyManager", 36), None);
        assert_eq!(at("nodeswap", 36), None);
        assert_eq!(at("AllAlpha", 16), Some((GateStage::Alpha, false, false)));
        assert_eq!(at("AllBeta", 16), None);
        assert_eq!(at("AllBeta", 17), Some((GateStage::Beta, false, false)));
        assert_eq!(known_by("SeccompDefault"), Some((Minor(22), Minor(28))));
        assert_eq!(known_by("NotAGate"), None);
        assert_eq!(locked_since("SeccompDefault", Minor(28)), Some(Minor(27)));
        assert_eq!(locked_since("SeccompDefault", Minor(26)), None);
        assert_eq!(needs("WindowsGracefulNodeShutdown", Minor(36)).collect::<Vec<_>>(), ["GracefulNodeShutdown"]);
        assert_eq!(needs("WindowsGracefulNodeShutdown", Minor(34)).count(), 0);
        assert!(lookup("GracefulNodeShutdown", Minor(36)).is_some_and(|at| at.kubelet));
        assert!(lookup("APIServerTracing", Minor(36)).is_some_and(|at| !at.kubelet));
    }

    #[test]
    fn defaults_of_every_version_are_valid() {
        // A kubelet that does not start with its defaults would not be released.
        for minor in Minor::all() {
            assert!(apply(minor, &BTreeMap::new()).is_ok(), "{minor}");
        }
    }

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
