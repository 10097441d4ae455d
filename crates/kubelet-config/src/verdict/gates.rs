//! Stage 2: feature gates.
//!
//! Up to 1.31 the kubelet applies the gates after loading the file, and exits with an error. From 1.32 on it applies
//! them while it sets defaults (`SetDefaults_KubeletConfiguration`), where the same error is a panic. In both cases
//! it does not start.

use std::collections::BTreeMap;

use super::Refusal;
use super::refusals::Refusals;
use crate::document::{Document, Entry, Mapping, Reading};
use crate::finding::{Place, Proposals, nearest};
use crate::gates::{self, EnabledGates, GateError, GateStage};
use crate::values::listed;
use crate::{Minor, NEWEST, OLDEST};

const UNKNOWN: &str = "unknown-feature-gate";
const LOCKED: &str = "locked-feature-gate";
const NEEDS: &str = "feature-gate-dependency";

/// Applies the document's gates. Returns the effective gates, or the refusals of a kubelet of this version.
pub(super) fn apply(document: &Document, minor: Minor) -> Result<EnabledGates, Vec<Refusal>> {
    let written = document.root.get("featureGates");
    let none = Mapping::new();
    let entries = written.and_then(|node| node.mapping()).unwrap_or(&none);
    let given = gate_values(entries);
    gates::apply(minor, &given).map_err(|errors| {
        let gates_place = written.map_or(&document.root.place, |node| &node.place);
        let proposals = Proposals::default();
        let file = FileGates { entries, given: &given, gates_place, minor, proposals };
        let mut refusals = Refusals::default();
        errors.iter().for_each(|error| file.refuse(error, &mut refusals));
        refusals.into_list()
    })
}

/// Applies the document's gates that a kubelet of this version accepts. If a dependency between the remaining gates
/// fails, returns the defaults of the version.
pub(super) fn apply_valid(document: &Document, minor: Minor) -> EnabledGates {
    let none = Mapping::new();
    let mut given = gate_values(document.root.get("featureGates").and_then(|node| node.mapping()).unwrap_or(&none));
    let errors = match gates::apply(minor, &given) {
        Ok(enabled) => return enabled,
        Err(errors) => errors,
    };
    for error in errors {
        match error {
            GateError::Unknown { gate } => drop(given.remove(&gate)),
            GateError::Locked { gate, .. } => drop(given.remove(gate)),
            GateError::Needs { .. } => {}
        }
    }
    gates::apply(minor, &given).unwrap_or_else(|_| EnabledGates::defaults(minor))
}

fn gate_values(entries: &Mapping) -> BTreeMap<String, bool> {
    entries.iter().filter_map(|(gate, entry)| Some((gate.clone(), gate_value(entry)?))).collect()
}

/// Returns the value of a gate. Null is false, the zero value of Go's `map[string]bool`. `None` for any other value,
/// which decoding refuses.
fn gate_value(entry: &Entry) -> Option<bool> {
    match entry.value.reading()? {
        Reading::Bool(on) => Some(on),
        Reading::Null => Some(false),
        _ => None,
    }
}

/// The gates of one file, with the places and values that a refusal refers to.
struct FileGates<'d> {
    entries: &'d Mapping,
    given: &'d BTreeMap<String, bool>,
    gates_place: &'d Place,
    minor: Minor,
    proposals: Proposals,
}

impl FileGates<'_> {
    fn refuse(&self, error: &GateError, refusals: &mut Refusals) {
        match error {
            GateError::Unknown { gate } => {
                let place = self.entries.get(gate).map_or(self.gates_place, |entry| &entry.key_place).clone();
                let message = format!("the kubelet has no feature gate `{gate}`");
                let help = unknown_help(gate, self.minor, &self.proposals);
                refusals.by(UNKNOWN).at(field_path(gate), place, message).help(help);
            }
            GateError::Locked { gate, default } => {
                let place = self.entries.get(*gate).map_or(self.gates_place, |entry| &entry.value.place).clone();
                let message = format!("the feature gate `{gate}` is locked to {default}, but set to {}", !default);
                refusals.by(LOCKED).at(field_path(gate), place, message).help(
                    match gates::locked_since(gate, self.minor) {
                        Some(since) => format!("remove the line; the gate is locked since {since}"),
                        None => "remove the line".to_owned(),
                    },
                );
            }
            GateError::Needs { gate, off } => {
                let place = std::iter::once(gate).chain(off).find_map(|gate| self.place(gate));
                let at = place.clone().unwrap_or_else(|| self.gates_place.clone());
                let message = format!(
                    "the feature gate `{gate}` is on, but requires {}, which {} off",
                    quoted_list(off),
                    is_or_are(off)
                );
                refusals.by(NEEDS).at(field_path(gate), at, message).help(self.needs_help(gate, off));
                for (needed, related) in off.iter().filter_map(|needed| Some((needed, self.place(needed)?))) {
                    if Some(&related) != place.as_ref() {
                        refusals.related(related, format!("`{needed}` is off"));
                    }
                }
            }
        }
    }

    /// Returns the place of the value that sets a gate: in the gate's entry, or in that of `AllAlpha` or `AllBeta`.
    fn place(&self, gate: &str) -> Option<Place> {
        let all = match gates::lookup(gate, self.minor)?.stage {
            GateStage::Alpha => "AllAlpha",
            GateStage::Beta => "AllBeta",
            GateStage::Ga | GateStage::Deprecated => gate,
        };
        [gate, all].iter().find_map(|name| Some(self.entries.get(*name)?.value.place.clone()))
    }

    fn needs_help(&self, gate: &str, off: &[&str]) -> String {
        let on = off.iter().map(|needed| match self.given.get(*needed) {
            Some(false) if gates::lookup(needed, self.minor).is_some_and(|at| at.default) => {
                format!("remove `{needed}: false`")
            }
            _ => format!("set `{needed}: true`"),
        });
        let on = on.collect::<Vec<_>>().join(" and ");
        let given = self.given.get(gate) == Some(&true);
        match gates::lookup(gate, self.minor) {
            Some(at) if at.locked => on,
            Some(at) if given && !at.default => format!("{on}, or remove `{gate}: true`"),
            _ => format!("{on}, or set `{gate}: false`{}", if given { "" } else { " too" }),
        }
    }
}

fn field_path(gate: &str) -> String {
    format!("featureGates.{gate}")
}

/// Returns the fix for an unknown gate. For a gate of another version the fix is identical for all versions without
/// the gate, because a merged finding shows the fix of its first version.
fn unknown_help(gate: &str, minor: Minor, proposals: &Proposals) -> String {
    let (Some((since, until)), Some(last)) = (gates::known_by(gate), gates::history(gate).last()) else {
        let known = || gates::all_known(minor).map(|(name, _)| name);
        return match proposals.take().then(|| nearest(gate, known())).flatten() {
            Some(name) => format!("did you mean `{name}`?"),
            None => "remove the line; no version has a gate of this name".to_owned(),
        };
    };
    let versions = match (since > OLDEST, until < NEWEST) {
        (true, true) => format!("from {since} to {until}"),
        (true, false) => return format!("remove it for kubelets before {since}, which do not have the gate"),
        (false, _) => format!("up to {until}"),
    };
    let then = match (last.at.stage, last.at.default) {
        (GateStage::Ga, true) => ", and the feature is always on since then",
        _ => "",
    };
    format!("remove the line; the gate exists {versions}{then}")
}

fn quoted_list(gates: &[&str]) -> String {
    listed(&gates.iter().map(|gate| format!("`{gate}`")).collect::<Vec<_>>(), "and")
}

fn is_or_are(gates: &[&str]) -> &'static str {
    if gates.len() == 1 { "is" } else { "are" }
}

#[cfg(test)]
mod tests {
    use serde_json::Value as Json;

    use super::*;
    use crate::verdict::rules;

    /// Returns the refusals for a map of gates in flow style.
    fn refusals(minor: u32, gates: &str) -> Vec<Refusal> {
        let document = Document::parse("kubelet.yaml", &format!("featureGates: {gates}\n")).document.unwrap();
        apply(&document, Minor(minor)).err().unwrap_or_default()
    }

    fn explained(minor: u32, gates: &str) -> String {
        let lines = refusals(minor, gates).into_iter().map(|refusal| {
            let related: Vec<_> =
                refusal.related.iter().map(|(place, label)| format!(" [{}: {label}]", place.column)).collect();
            let Refusal { rule, field, message, place, help, .. } = refusal;
            let (column, help) = (place.column, help.unwrap_or_default());
            format!("{rule} {field} {column}: {message}{}\n    {help}\n", related.concat())
        });
        lines.collect()
    }

    #[test]
    fn each_rule_refuses_its_example_only() {
        let examples = [
            (UNKNOWN, "{NodeSwop: true}", "{NodeSwap: true}"),
            (LOCKED, "{NodeSwap: false}", "{NodeSwap: true}"),
            (
                NEEDS,
                "{GracefulNodeShutdown: false, WindowsGracefulNodeShutdown: false}",
                "{GracefulNodeShutdown: false, WindowsGracefulNodeShutdown: false, \
                 GracefulNodeShutdownBasedOnPodPriority: false}",
            ),
        ];
        for (rule, bad, good) in examples {
            let refused = refusals(36, bad);
            assert_eq!(refused.iter().map(|refusal| refusal.rule).collect::<Vec<_>>(), [rule], "{bad}");
            assert_eq!(refusals(36, good), [], "{good}");
        }
        let rows = rules::all().filter(|rule| rule.stage == rules::RuleStage::Gates).map(|rule| rule.id.as_str());
        let mut rules: Vec<_> = examples.iter().map(|(rule, ..)| *rule).collect();
        rules.sort_unstable();
        assert_eq!(rows.collect::<Vec<_>>(), rules);
    }

    #[test]
    fn checks_dependencies_since_the_version_of_the_rule() {
        let since = rules::lookup(NEEDS).unwrap().since;
        for minor in Minor::all().filter(|minor| gates::lookup("WindowsGracefulNodeShutdown", *minor).is_some()) {
            assert_eq!(refusals(minor.0, "{GracefulNodeShutdown: false}").is_empty(), minor < since, "{minor}");
        }
    }

    #[test]
    fn refusals_have_place_reason_and_fix() {
        let files = [
            (36, "{TopologyManager: true, AppArmor: false, RotateKubeletClientCertificate: true}"),
            (36, "{NodeSwop: true, nodeswap: true, Zzz: true, '': true}"),
            (21, "{NodeSwap: true, SeccompDefault: true}"),
            (36, "{NodeSwap: false, AllowOverwriteTerminationGracePeriodSeconds: true}"),
            (36, "{GracefulNodeShutdown: false}"),
            (36, "{TopologyAwareWorkloadScheduling: true}"),
            (36, "{AllBeta: false, GracefulNodeShutdownBasedOnPodPriority: true}"),
            (36, "{AllBeta: false, ResourceHealthStatusMessage: true, DRAWorkloadResourceClaims: true}"),
            (
                36,
                "{InPlacePodLevelResourcesVerticalScaling: true, PodLevelResources: false, NodeDeclaredFeatures: false}",
            ),
        ];
        let explained = files.map(|(minor, gates)| format!("1.{minor} {gates}\n{}", explained(minor, gates)));
        insta::assert_snapshot!(explained.join("\n"));
    }

    #[test]
    fn null_means_false() {
        assert_eq!(refusals(36, "null"), []);
        assert_eq!(refusals(36, "{MemoryQoS: null}"), []);
        assert_eq!(refusals(36, "{NodeSwap: null}").len(), 1);
        assert_eq!(refusals(21, "{SeccompDefault: null}").len(), 1);
    }

    /// Reports whether only some YAML readers take a gate's value for a boolean.
    fn ambiguous(document: &Document) -> bool {
        let gates = document.root.get("featureGates").and_then(|node| node.mapping());
        gates.is_some_and(|gates| gates.values().any(|gate| gate_value(gate).is_none()))
    }

    #[test]
    fn refuses_the_same_gates_as_real_kubelets() {
        let cases = include_str!("../../../../tests/data/oracle/cases.jsonl").lines();
        let mut refused = 0;
        for case in cases.map(|line| serde_json::from_str::<Json>(line).unwrap()) {
            let Some(document) = Document::parse("kubelet.yaml", case["yaml"].as_str().unwrap()).document else {
                continue;
            };
            for minor in [21, 36] {
                let recorded = &case[format!("1.{minor}")];
                if recorded["stage"] == "load" || ambiguous(&document) {
                    continue;
                }
                let refusals = apply(&document, Minor(minor)).err().unwrap_or_default();
                assert_eq!(
                    recorded["stage"] == "gates",
                    !refusals.is_empty(),
                    "1.{minor} {}: {refusals:?}",
                    case["id"]
                );
                let Some(error) = recorded["errors"][0].as_str().filter(|_| !refusals.is_empty()) else { continue };
                refused += 1;
                let named = |refusal: &Refusal| error.contains(refusal.field.trim_start_matches("featureGates."));
                assert!(refusals.iter().any(named), "1.{minor} {}: {error}", case["id"]);
            }
        }
        assert!(refused > 200, "only {refused} cases were refused for their gates");
    }
}
