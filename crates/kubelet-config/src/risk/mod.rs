//! The table of risk: the effect of a field's change on a node with running pods, with sources
//! (`crates/kubelet-config/data/risk.csv`). The kubelet reads a new configuration only when it restarts, whichever
//! field changes.
//!
//! A row applies to a path of the table of fields and everything below it, or to one key of a map with free keys
//! (`featureGates.CPUManager`). It may be limited to a raised or a lowered value. The most specific row applies. If
//! the direction is unknown, the worst row of the path applies. A field without a row is [`Class::Drain`].

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::Minor;
use crate::document::Document;
use crate::fields::Target;
use crate::values::duration;
use crate::values::quantity::Quantity;
use crate::{fields, gates, table, verdict};

pub mod removals;

pub use crate::verdict::StateFile;

static TEXT: &str = include_str!("../../data/risk.csv");
static TABLE: LazyLock<BTreeMap<String, Vec<Row>>> = LazyLock::new(read);

const GATES: &str = "featureGates";
/// Maps whose absent keys mean zero.
const ABSENT_IS_ZERO: [&str; 2] = ["kubeReserved", "systemReserved"];

/// The effect of a change on a node with running pods, by severity. The restart of the kubelet has its own effect, see
/// [`restart_resets_readiness`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// No effect on pods: the change concerns the kubelet's own work.
    None,
    /// Running pods continue unchanged. The change affects pods that start later, or the kubelet's responses and
    /// reports.
    Restart,
    /// Running pods may be stopped, evicted, rejected, or keep outdated settings. Drain the node first. Remove the
    /// state files of the risk before the kubelet starts.
    Drain,
    /// Draining is not enough: reboot the node, or replace it with one created with the new configuration.
    Replace,
    /// Not possible on a live node.
    Never,
}

impl Class {
    /// All classes, by severity.
    pub const ALL: [Self; 5] = [Self::None, Self::Restart, Self::Drain, Self::Replace, Self::Never];

    /// Returns the name in files and reports, in kebab case.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Restart => "restart",
            Self::Drain => "drain",
            Self::Replace => "replace",
            Self::Never => "never",
        }
    }

    /// Returns the class with a name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        table::word(name)
    }

    /// Returns the meaning, as a predicate of "a change".
    #[must_use]
    pub fn means(self) -> &'static str {
        match self {
            Self::None => "has no effect on pods",
            Self::Restart => "requires a restart of the kubelet, which running pods survive",
            Self::Drain => "requires draining the node first",
            Self::Replace => "requires a reboot or a new node",
            Self::Never => "is not possible on a live node",
        }
    }
}

impl JsonSchema for Class {
    fn schema_name() -> Cow<'static, str> {
        "Disruption".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Effect of a configuration change on running pods, by severity.",
            "enum": Self::ALL.map(Self::as_str),
        })
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The direction of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// The value is larger than before, or switched on.
    Raised,
    /// The value is smaller than before, or switched off.
    Lowered,
}

/// Returns the direction from `old` to `new`, as written in a file. `None` for equal values, and for values that
/// cannot be compared, such as a percentage and an amount.
#[must_use]
pub fn direction(old: &str, new: &str) -> Option<Direction> {
    // An empty path or address switches something off.
    match (old.is_empty(), new.is_empty()) {
        (true, true) => return None,
        (true, false) => return Some(Direction::Raised),
        (false, true) => return Some(Direction::Lowered),
        (false, false) => {}
    }
    if let (Ok(old), Ok(new)) = (old.parse::<bool>(), new.parse::<bool>()) {
        return (old != new).then_some(if new { Direction::Raised } else { Direction::Lowered });
    }
    let order = match (old.strip_suffix('%'), new.strip_suffix('%')) {
        (Some(old), Some(new)) => amount(old)?.cmp(&amount(new)?),
        (None, None) => match (amount(old), amount(new)) {
            (Some(old), Some(new)) => old.cmp(&new),
            _ => duration::nanoseconds(old).ok()?.cmp(&duration::nanoseconds(new).ok()?),
        },
        _ => return None,
    };
    match order {
        std::cmp::Ordering::Less => Some(Direction::Raised),
        std::cmp::Ordering::Greater => Some(Direction::Lowered),
        std::cmp::Ordering::Equal => None,
    }
}

/// Returns the amount of a text that starts with a digit. Negative numbers have no order, because they often mean "no
/// limit".
fn amount(text: &str) -> Option<Quantity> {
    Quantity::parse(text).ok().filter(|amount| text.starts_with(|c: char| c.is_ascii_digit()) && !amount.is_negative())
}

/// The effect of a field's change on a node with running pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Risk {
    /// The severity.
    pub class: Class,
    /// State files to remove before the kubelet starts again.
    pub state_files: Vec<StateFile>,
    /// The reason, in one sentence.
    pub why: String,
    /// Kubernetes documentation, KEPs, issues or source files. Empty if there is no source.
    pub source: String,
}

struct Row {
    when: Option<Direction>,
    risk: Risk,
}

impl Risk {
    /// Reports whether the table has a row for the change.
    #[must_use]
    pub fn is_classified(&self) -> bool {
        !self.source.is_empty()
    }

    fn new(class: Class, why: &str, source: &str) -> Self {
        Self { class, state_files: Vec::new(), why: why.to_owned(), source: source.to_owned() }
    }

    fn unclassified() -> Self {
        Self::new(Class::Drain, "No source describes the effect of this change. Unknown effects count as drain.", "")
    }

    fn unused_gate() -> Self {
        Self::new(Class::None, "The kubelet does not use this gate.", "crates/kubelet-config/data/gates.csv")
    }

    /// Returns the risk of a change that keeps the value in effect, for example to the default.
    #[must_use]
    pub fn no_effect() -> Self {
        Self::new(Class::None, "The value in effect stays the same.", "crates/kubelet-config/data/fields.csv")
    }
}

/// Returns the risk of changing the field at a path, for any values. The path is from the table (`evictionHard{}`) or
/// from a file, with keys (`evictionHard.memory.available`, `evictionHard["memory.available"]`) and indexes.
#[must_use]
pub fn of(path: &str) -> Risk {
    if is_unused_gate(path) {
        return Risk::unused_gate();
    }
    rows(path).and_then(|rows| worst_of(rows.iter())).unwrap_or_else(Risk::unclassified)
}

/// Returns the risk of one change. Values are in canonical form; `None` means that the field is absent.
#[must_use]
pub fn of_change(path: &str, old: Option<&str>, new: Option<&str>) -> Risk {
    if is_unused_gate(path) {
        return Risk::unused_gate();
    }
    let default = gate(path).map_or_else(|| default(path), |gate| gate_default(&gate));
    let in_force = |value: Option<&str>, other: Option<&str>| match value {
        Some(value) => Some(plain(value)),
        // The gate's default depends on the version. If it equals the other value, nothing changes; so assume the
        // opposite.
        None if parent(path) == GATES && default.is_none() => other.and_then(opposite),
        None if ABSENT_IS_ZERO.contains(&parent(path)) => Some("0".to_owned()),
        None => default.clone(),
    };
    let (was, becomes) = (in_force(old, new), in_force(new, old));
    if let (Some(was), Some(becomes)) = (&was, &becomes)
        && (old.is_none() || new.is_none())
        && (was == becomes || duration::is_same(was, becomes))
    {
        return Risk::no_effect();
    }
    let way = was.zip(becomes).and_then(|(was, becomes)| direction(&was, &becomes));
    let Some(rows) = rows(path) else { return Risk::unclassified() };
    let exact = worst_of(rows.iter().filter(|row| way.is_some() && row.when == way));
    exact.or_else(|| worst_of(rows.iter())).unwrap_or_else(Risk::unclassified)
}

fn worst_of<'a>(rows: impl Iterator<Item = &'a Row>) -> Option<Risk> {
    rows.max_by_key(|row| row.risk.class).map(|row| row.risk.clone())
}

/// Returns the rows of the most specific path that has any.
fn rows(path: &str) -> Option<&'static Vec<Row>> {
    steps(path).iter().rev().find_map(|step| TABLE.get(step))
}

/// Returns the row paths for a path of a file, from general to specific. For a key of a map with free keys these are
/// `map{}` and `map.key`. For an unknown field they are those of its parent.
fn steps(path: &str) -> Vec<String> {
    let (field, key) = match fields::resolve(path) {
        Ok(Target::Root) => return Vec::new(),
        Ok(Target::Field(field)) => (field, None),
        Ok(Target::Key(values, key)) => (values, Some(key)),
        Err((_, parent)) => return if parent.is_empty() { Vec::new() } else { steps(parent) },
    };
    let ends = field.path.match_indices(['.', '[', '{']).map(|(end, _)| end).chain([field.path.len()]);
    let mut steps: Vec<String> = ends.filter_map(|end| field.path.get(..end)).map(str::to_owned).collect();
    steps.extend(key.map(|key| format!("{}.{key}", field.path.trim_end_matches("{}"))));
    steps
}

/// Returns the top-level field of a path.
fn parent(path: &str) -> &str {
    path.find(['.', '[', '{']).and_then(|end| path.get(..end)).unwrap_or_default()
}

/// Returns the gate in a path.
fn gate(path: &str) -> Option<String> {
    let steps = if parent(path) == GATES { steps(path) } else { return None };
    steps.last()?.strip_prefix("featureGates.").map(str::to_owned)
}

/// Reports whether a path is a gate that only other components use.
fn is_unused_gate(path: &str) -> bool {
    let spans = gate(path).map_or(&[][..], |gate| gates::history(&gate));
    !spans.is_empty() && spans.iter().all(|span| !span.at.kubelet)
}

/// Returns the default of a gate, if it is the same in all versions.
fn gate_default(gate: &str) -> Option<String> {
    let spans = gates::history(gate);
    let first = spans.first()?.at.default;
    spans.iter().all(|span| span.at.default == first).then(|| first.to_string())
}

/// Returns the default of a field, if it is the same in all versions.
pub(crate) fn default(path: &str) -> Option<String> {
    let field = fields::lookup(path)?;
    let mut defaults = field.default.iter().map(|(_, _, value)| value);
    let first = defaults.next()?;
    defaults.all(|other| other == first).then(|| match first {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    })
}

fn opposite(value: &str) -> Option<String> {
    value.parse::<bool>().ok().map(|value| (!value).to_string())
}

/// Returns a scalar without quotes.
pub(crate) fn plain(value: &str) -> String {
    if value.starts_with('"') {
        serde_json::from_str(value).unwrap_or_else(|_| value.to_owned())
    } else {
        value.to_owned()
    }
}

fn read() -> BTreeMap<String, Vec<Row>> {
    let mut table: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    for (path, row) in table::rows(TEXT).filter_map(|cells| row(&cells)) {
        table.entry(path).or_default().push(row);
    }
    table
}

fn row(cells: &[String]) -> Option<(String, Row)> {
    let [path, change, class, state_files, why, source] = cells else { return None };
    let when = if change.is_empty() { None } else { Some(table::word(change)?) };
    let state_files = state_files.split_whitespace().map(table::word).collect::<Option<_>>()?;
    let (why, source) = (why.clone(), source.clone());
    Some((path.clone(), Row { when, risk: Risk { class: Class::parse(class)?, state_files, why, source } }))
}

/// The first version whose kubelet keeps the readiness of containers
/// (<https://github.com/kubernetes/enhancements/issues/4781>, kubernetes/kubernetes#134746).
pub const READINESS_KEPT_SINCE: Minor = Minor(35);
/// The gate that restores the earlier behavior. Deprecated and off by default since its first version, 1.35.
const READINESS_GATE: &str = "ChangeContainerStatusOnKubeletRestart";

/// Reports whether a restart of this kubelet sets running containers with probes to not ready, until their probes
/// succeed. Services then remove the endpoints of these pods. A kubelet of unknown version counts as one that does.
///
/// `document` is the configuration after the restart; `None` if its content is unknown.
#[must_use]
pub fn restart_resets_readiness(minor: Option<Minor>, document: Option<&Document>) -> bool {
    let Some(minor) = minor else { return true };
    minor < READINESS_KEPT_SINCE
        || document.is_some_and(|document| verdict::configuration(document, minor).gate(READINESS_GATE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubelets_before_1_35_and_those_with_the_gate_reset_readiness() {
        let with = |value: &str| {
            let text = format!("featureGates: {{{READINESS_GATE}: {value}}}\n");
            Document::parse("kubelet.yaml", &text).document.unwrap()
        };
        let empty = Document::parse("kubelet.yaml", "maxPods: 5\n").document.unwrap();
        for (minor, unset, on, off) in [(34, true, true, true), (35, false, true, false), (37, false, true, false)] {
            let minor = Some(Minor(minor));
            assert_eq!(restart_resets_readiness(minor, None), unset, "{minor:?}");
            assert_eq!(restart_resets_readiness(minor, Some(&empty)), unset, "{minor:?}");
            assert_eq!(restart_resets_readiness(minor, Some(&with("true"))), on, "{minor:?}");
            assert_eq!(restart_resets_readiness(minor, Some(&with("false"))), off, "{minor:?}");
        }
        assert!(restart_resets_readiness(None, Some(&empty)));
    }

    #[test]
    fn the_gate_exists_since_the_fix() {
        assert_eq!(gates::known_by(READINESS_GATE).map(|(since, _)| since), Some(READINESS_KEPT_SINCE));
    }

    #[test]
    fn table_of_risk_is_well_formed() {
        assert_eq!(TEXT.lines().next(), Some("path,change,class,state_files,why,source"));
        assert_eq!(TABLE.values().map(Vec::len).sum::<usize>(), TEXT.lines().count() - 1, "every line reads");
        for (path, rows) in &*TABLE {
            let of_a_map = path.split_once('.').is_some_and(|(map, _)| fields::lookup(&format!("{map}{{}}")).is_some());
            assert!(of_a_map || fields::lookup(path).is_some(), "there is no field {path}");
            assert_eq!(steps(path).last(), Some(path), "{path} is found under its own name");
            let ways: Vec<_> = rows.iter().map(|row| row.when).collect();
            let known = [vec![None], vec![Some(Direction::Lowered), Some(Direction::Raised)]];
            assert!(known.contains(&ways), "{path}: one row, or one each way");
            for Row { risk, .. } in rows {
                assert!(risk.why.ends_with('.') && risk.is_classified(), "{path}");
                assert!(risk.state_files.is_empty() || risk.class == Class::Drain, "{path}");
            }
        }
    }

    #[test]
    fn every_field_except_these_has_a_row() {
        let unclassified: Vec<&str> = fields::all()
            .map(|field| field.path.as_str())
            .filter(|path| !["apiVersion", "kind"].contains(path) && !of(path).is_classified())
            .collect();
        // No source describes the effect on running containers.
        assert_eq!(
            unclassified,
            ["imageServiceEndpoint", "memorySwap", "memorySwap.swapBehavior", "registerNode", "singleProcessOOMKill"]
        );
        assert!(unclassified.iter().all(|path| of(path).class == Class::Drain));
    }

    #[test]
    fn classes_are_ordered_and_named() {
        assert!(Class::ALL.is_sorted_by(|a, b| a < b));
        assert_eq!(Class::ALL.map(|class| Class::parse(class.as_str())), Class::ALL.map(Some));
        assert_eq!(Class::parse("Drain"), None);
        assert_eq!(
            serde_json::to_value(Class::ALL).unwrap().to_string(),
            r#"["none","restart","drain","replace","never"]"#
        );
        assert_eq!(
            serde_json::to_value(StateFile::ALL).unwrap(),
            serde_json::json!(StateFile::ALL.map(StateFile::as_str))
        );
    }

    #[test]
    fn most_specific_row_applies() {
        for (path, class, files) in [
            ("logging.options.json.infoBufferSize", Class::None, ""),
            ("logging.vmodule[2].filePattern", Class::None, ""),
            ("clusterDNS[0]", Class::Restart, ""),
            ("registerWithTaints[0].key", Class::None, ""),
            ("cpuManagerPolicy", Class::Drain, "cpu_manager_state"),
            ("reservedMemory[1].limits.memory", Class::Drain, "memory_manager_state"),
            ("reservedMemory[].limits{}", Class::Drain, "memory_manager_state"),
            ("cgroupDriver", Class::Replace, ""),
            ("featureGates", Class::Drain, ""),
            ("featureGates.NodeSwap", Class::Drain, ""),
            ("featureGates.CPUManager", Class::Drain, "cpu_manager_state"),
            ("featureGates.SeccompDefault", Class::Restart, ""),
            ("featureGates[\"DynamicKubeletConfig\"]", Class::Never, ""),
            ("kubeReserved.cpu", Class::Drain, "cpu_manager_state"),
            ("systemReserved.ephemeral-storage", Class::Drain, ""),
            ("systemReserved[\"registry.example.com\"]", Class::Drain, ""),
            ("evictionHard.memory.available", Class::Drain, "memory_manager_state"),
            ("evictionHard[\"memory.available\"]", Class::Drain, "memory_manager_state"),
            ("evictionHard{}", Class::Drain, ""),
            ("staticPodURLHeader.X-Who.x[0]", Class::Drain, ""),
        ] {
            let risk = of(path);
            let listed: Vec<&str> = risk.state_files.iter().map(|file| file.as_str()).collect();
            assert_eq!((risk.class, listed.join(" ").as_str()), (class, files), "{path}");
            assert!(risk.is_classified(), "{path}");
        }
        assert!(!of("memorySwap.swapBehavior").is_classified());
        assert_eq!(of("noSuchField").class, Class::Drain);
        assert_eq!(of("").class, Class::Drain);
    }

    #[test]
    fn direction_of_change_matters() {
        for (path, old, new, class) in [
            ("maxPods", Some("110"), Some("250"), Class::Restart),
            ("maxPods", Some("250"), Some("110"), Class::Drain),
            // Unset is the default, 110.
            ("maxPods", None, Some("250"), Class::Restart),
            ("maxPods", None, Some("64"), Class::Drain),
            ("maxPods", Some("64"), None, Class::Restart),
            ("maxPods", None, Some("110"), Class::None),
            ("cpuManagerPolicy", None, Some("none"), Class::None),
            ("cpuManagerPolicy", Some("none"), None, Class::None),
            ("cpuManagerPolicy", None, Some("static"), Class::Drain),
            ("syncFrequency", None, Some("60s"), Class::None),
            ("runtimeRequestTimeout", None, Some("120s"), Class::None),
            ("runtimeRequestTimeout", None, Some("3m"), Class::Restart),
            ("cgroupDriver", Some("cgroupfs"), None, Class::None),
            ("enforceNodeAllocatable", None, Some(r#"["pods"]"#), Class::None),
            // The default depends on the version.
            ("logging.flushFrequency", None, Some("5s"), Class::None),
            ("evictionHard[\"nodefs.available\"]", Some("\"10%\""), Some("\"5%\""), Class::Restart),
            ("evictionHard[\"nodefs.available\"]", Some("\"10%\""), Some("\"15%\""), Class::Drain),
            ("evictionHard[\"nodefs.available\"]", Some("\"10%\""), Some("\"1Gi\""), Class::Drain),
            ("evictionHard[\"nodefs.available\"]", Some("\"10%\""), None, Class::Drain),
            ("evictionHard[\"memory.available\"]", Some("\"1Gi\""), Some("\"500Mi\""), Class::Restart),
            ("kubeReserved.memory", None, Some("\"1Gi\""), Class::Drain),
            ("kubeReserved.memory", Some("\"1Gi\""), None, Class::Restart),
            ("kubeReserved.cpu", Some("\"1\""), None, Class::Drain),
            ("featureGates.DynamicKubeletConfig", None, Some("false"), Class::Never),
            ("featureGates.DynamicKubeletConfig", Some("true"), None, Class::Never),
            ("featureGates.DynamicKubeletConfig", None, Some("true"), Class::Restart),
            ("featureGates.DynamicKubeletConfig", Some("false"), Some("true"), Class::Restart),
            ("featureGates.MemoryQoS", None, Some("true"), Class::Drain),
            ("featureGates.CPUManager", None, Some("true"), Class::None),
            ("featureGates.CPUManager", Some("true"), Some("false"), Class::Drain),
            ("featureGates.APIListChunking", Some("true"), Some("false"), Class::None),
            ("featureGates.NoSuchGate", None, Some("true"), Class::Drain),
            ("systemReserved.ephemeral-storage", Some("\"2Gi\""), Some("\"1Gi\""), Class::Restart),
            ("staticPodPath", Some("/etc/kubernetes/manifests"), None, Class::Replace),
            ("staticPodPath", Some("/etc/kubernetes/manifests"), Some("\"\""), Class::Replace),
            ("staticPodPath", Some("/etc/kubernetes/manifests"), Some("/srv/manifests"), Class::Replace),
            ("staticPodPath", None, Some("/srv/manifests"), Class::Drain),
            ("staticPodPath", Some("\"\""), None, Class::None),
            ("staticPodURL", Some("http://a/pods"), None, Class::Replace),
        ] {
            assert_eq!(of_change(path, old, new).class, class, "{path}: {old:?} to {new:?}");
        }
        assert!(!of_change("memorySwap.swapBehavior", None, Some("LimitedSwap")).is_classified());
    }

    proptest::proptest! {
        #[test]
        fn no_change_exceeds_worst_class_of_its_path(
            map in proptest::sample::select(vec!["", "maxPods", "featureGates", "evictionHard", "reservedMemory"]),
            rest in "[a-zA-Z{}\\[\\]\".0-9]{0,40}",
            old in "\\PC{0,9}", new in "\\PC{0,9}") {
            let path = format!("{map}{rest}");
            let class = of_change(&path, Some(&old), Some(&new)).class;
            proptest::prop_assert!(class <= of(&path).class);
        }
    }

    #[test]
    fn compares_values() {
        for (old, new, expected) in [
            ("110", "250", Some(Direction::Raised)),
            ("250", "110", Some(Direction::Lowered)),
            ("100Mi", "1Gi", Some(Direction::Raised)),
            ("1Gi", "1000Mi", Some(Direction::Lowered)),
            ("1", "500m", Some(Direction::Lowered)),
            ("10%", "5%", Some(Direction::Lowered)),
            ("5%", "7.5%", Some(Direction::Raised)),
            ("1Gi", "1024Mi", None),
            ("10%", "1Gi", None),
            ("false", "true", Some(Direction::Raised)),
            ("true", "false", Some(Direction::Lowered)),
            ("true", "true", None),
            ("-1", "100", None),
            ("30s", "5m0s", Some(Direction::Raised)),
            ("2m0s", "1m0s", Some(Direction::Lowered)),
            ("60s", "1m0s", None),
            ("30s", "1Gi", None),
            ("static", "none", None),
            ("", "1", Some(Direction::Raised)),
            ("/etc/manifests", "", Some(Direction::Lowered)),
            ("/etc/manifests", "/srv/manifests", None),
            ("", "", None),
        ] {
            assert_eq!(direction(old, new), expected, "{old} to {new}");
        }
    }
}
