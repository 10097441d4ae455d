//! The tables of feature gates: stage and default by version, and dependencies between gates
//! (`crates/kubelet-config/data/gates.csv`, `crates/kubelet-config/data/gate-dependencies.csv`).
//!
//! A kubelet accepts every gate that is linked into its binary, even if it does not use the gate. These are the gates
//! of `pkg/features`, k8s.io/apiserver, component-base, apiextensions-apiserver (while `pkg/features` names some of
//! them) and, since 1.30, client-go. Patch releases sometimes add gates, so the table describes the last patch
//! release of each minor. A gate listed since 1.16 may be older. The gates of
//! a version that is not released may still change.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use super::table;
use crate::Minor;

mod apply;

pub(crate) use apply::{EnabledGates, GateError, apply};

static TEXT: &str = include_str!("../../data/gates.csv");
static NEEDS_TEXT: &str = include_str!("../../data/gate-dependencies.csv");
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, schemars::JsonSchema)]
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
    let [gate, since, until, stage, default, locked, kubelet] = cells else { return None };
    let at = GateProperties {
        stage: match stage.as_str() {
            "Alpha" => GateStage::Alpha,
            "Beta" => GateStage::Beta,
            "GA" => GateStage::Ga,
            "Deprecated" => GateStage::Deprecated,
            _ => return None,
        },
        default: default.parse().ok()?,
        locked: flag(locked, "locked")?,
        kubelet: flag(kubelet, "kubelet")?,
    };
    Some((gate.clone(), Span { since: table::minor(since)?, until: table::minor(until)?, at }))
}

fn need(cells: &[String]) -> Option<(String, Need)> {
    let [gate, needs, since, until] = cells else { return None };
    Some((gate.clone(), Need { gate: needs.clone(), since: table::minor(since)?, until: table::minor(until)? }))
}

/// Parses a cell that is empty or contains one word.
fn flag(cell: &str, word: &str) -> Option<bool> {
    match cell {
        "" => Some(false),
        cell if cell == word => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NEWEST, OLDEST};

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
}
