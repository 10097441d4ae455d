//! The changes between two configurations as kubelets see them: the defaults of their versions count as set, so
//! that writing out a default changes nothing, and a removed value changes to the default.
//!
//! A value that the kubelet fills in itself counts as unset.
//!
//! A default of a feature gate counts as set only if a version has the gate, and no group of gates (`AllAlpha`,
//! `AllBeta`) changes defaults.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value as Json};

use super::traced::{default_place, tree};
use crate::defaults::{self, remove_filled_in};
use crate::document::{Document, FieldChange, Syntax, changes as written_changes};
use crate::values::duration;
use crate::{Minor, gates};

const GATES: &str = "featureGates";
/// Gates that change the defaults of others (`component-base/featuregate`).
const GROUPS: [&str; 2] = ["AllAlpha", "AllBeta"];

/// A changed field between two configurations, for kubelets of some versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectiveChange {
    /// The change as written. Both values are unset if only a default changes.
    pub change: FieldChange,
    /// The default in effect instead of the old value. Unset without one, and if it differs between the versions.
    pub old_default: Option<String>,
    /// The default in effect instead of the new value. Unset without one, and if it differs between the versions.
    pub new_default: Option<String>,
    /// The distinct changes of the value in effect, over all versions. Empty if no kubelet notices the change.
    pub in_effect: Vec<ValueChange>,
}

/// A change of the value in effect. `None`: the field is unset, and its default is empty or unknown.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ValueChange {
    /// The old value.
    pub old: Option<String>,
    /// The new value.
    pub new: Option<String>,
}

/// Returns the changed fields between two configurations for kubelets of these versions, ordered by path. A field
/// whose written value changes is included even if its value in effect stays the same. For an unknown version (`None`)
/// only the written values count.
#[must_use]
pub fn changes(old: &Document, new: &Document, minors: &BTreeSet<Option<Minor>>) -> Vec<EffectiveChange> {
    let unknown = BTreeSet::from([None]);
    let minors = if minors.is_empty() { &unknown } else { minors };
    let sides: Vec<(BTreeMap<String, String>, BTreeMap<String, String>)> = minors
        .iter()
        .map(|minor| match minor.and_then(|minor| changed_with_defaults(old, new, minor)) {
            Some((old, new)) => (leaves(&old), leaves(&new)),
            None => (leaves(old), leaves(new)),
        })
        .collect();
    let written = leaves(old);
    let mut merged: BTreeMap<String, FieldChange> =
        written_changes(Some(old), Some(new)).into_iter().map(|change| (change.path.clone(), change)).collect();
    for path in sides.iter().flat_map(|(old, new)| old.keys().chain(new.keys())) {
        if !merged.contains_key(path) && sides.iter().any(|(old, new)| old.get(path) != new.get(path)) {
            let same = written.get(path).cloned();
            let change = FieldChange { path: path.clone(), old: same.clone(), new: same, place: None };
            merged.insert(path.clone(), change);
        }
    }
    let change = |(path, change): (String, FieldChange)| {
        // If only defaults change, versions in which they stay the same do not count.
        let written = change.old.is_some() || change.new.is_some();
        let defaults: BTreeSet<(Option<&String>, Option<&String>)> = sides
            .iter()
            .filter(|(old, new)| written || old.get(&path) != new.get(&path))
            .map(|(old, new)| {
                (default(change.old.as_ref(), old.get(&path)), default(change.new.as_ref(), new.get(&path)))
            })
            .collect();
        // Defaults that differ between the versions are not named.
        let same = defaults.iter().next().filter(|_| defaults.len() == 1).copied().unwrap_or_default();
        let (old_default, new_default) = (same.0.cloned(), same.1.cloned());
        let in_effect: BTreeSet<ValueChange> = sides
            .iter()
            .map(|(old, new)| ValueChange { old: old.get(&path).cloned(), new: new.get(&path).cloned() })
            .filter(|change| change.old != change.new)
            .collect();
        EffectiveChange { change, old_default, new_default, in_effect: in_effect.into_iter().collect() }
    };
    merged.into_iter().map(change).collect()
}

/// Returns the default in effect instead of the written value, if any: the value is unset, or a zero that stands for
/// the default. An empty text as default counts as unset.
fn default<'a>(written: Option<&String>, in_effect: Option<&'a String>) -> Option<&'a String> {
    let is_written = |value: &String| written.is_some_and(|written| same(written, value));
    in_effect.filter(|value| !is_written(value) && *value != "\"\"")
}

/// Reports whether two values in canonical form are equal, or equal durations.
fn same(a: &str, b: &str) -> bool {
    a == b || duration::is_same(a.trim_matches('"'), b.trim_matches('"'))
}

/// The values of a document by path, in canonical form.
fn leaves(document: &Document) -> BTreeMap<String, String> {
    let leaf = |change: FieldChange| Some((change.path, change.new?));
    written_changes(None, Some(document)).into_iter().filter_map(leaf).collect()
}

/// The fields of both configurations that differ, as written or with the defaults of a version, with these defaults.
/// `None` if a configuration is no mapping.
fn changed_with_defaults(old: &Document, new: &Document, minor: Minor) -> Option<(Document, Document)> {
    let in_effect = |mut written: Map<String, Json>| {
        remove_filled_in(&mut written);
        defaults::with_defaults(&written, minor)
    };
    let (Json::Object(old_written), Json::Object(new_written)) = (old.root.to_json(), new.root.to_json()) else {
        return None;
    };
    let (mut old, mut new) = (in_effect(old_written.clone()), in_effect(new_written.clone()));
    fill_gates(&mut old, &mut new, minor);
    let is_alike =
        |field: &&String| old.get(*field) == new.get(*field) && old_written.get(*field) == new_written.get(*field);
    let alike: BTreeSet<String> = old.keys().filter(is_alike).cloned().collect();
    old.retain(|field, _| !alike.contains(field));
    new.retain(|field, _| !alike.contains(field));
    let document = |map| Document { root: tree(&Json::Object(map), &default_place()), syntax: Syntax::Json };
    Some((document(old), document(new)))
}

/// Sets each gate that only one of the configurations sets to its default in the other.
fn fill_gates(old: &mut Map<String, Json>, new: &mut Map<String, Json>, minor: Minor) {
    let names = |map: &Map<String, Json>| -> BTreeSet<String> {
        map.get(GATES).and_then(Json::as_object).into_iter().flat_map(Map::keys).cloned().collect()
    };
    let (in_old, in_new) = (names(old), names(new));
    if GROUPS.iter().any(|group| in_old.contains(*group) || in_new.contains(*group)) {
        return;
    }
    for (map, missing) in [(old, &in_new - &in_old), (new, &in_old - &in_new)] {
        for (gate, default) in missing
            .into_iter()
            .filter_map(|gate| Some((gates::lookup(&gate, minor)?, gate)))
            .map(|(properties, gate)| (gate, properties.default))
        {
            if let Some(gates) = map.entry(GATES).or_insert_with(|| Json::Object(Map::new())).as_object_mut() {
                gates.insert(gate, Json::Bool(default));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The changes of these bodies, one per line: path, old and new value with the mark `*` of a default, and the
    /// changes in effect.
    fn lines(old: &str, new: &str, minors: &[u32]) -> Vec<String> {
        let read = |body: &str| Document::parse("f.yaml", &format!("kind: K\n{body}")).document.expect("a document");
        let minors = minors.iter().map(|minor| Some(Minor(*minor))).collect();
        let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
        let shown = |written: &Option<String>, default: &Option<String>| {
            default.as_ref().map_or_else(|| value(written), |default| format!("{default}*"))
        };
        changes(&read(old), &read(new), &minors)
            .into_iter()
            .map(|EffectiveChange { change, old_default, new_default, in_effect }| {
                let in_effect: Vec<String> =
                    in_effect.iter().map(|pair| format!("{}>{}", value(&pair.old), value(&pair.new))).collect();
                let (old, new) = (shown(&change.old, &old_default), shown(&change.new, &new_default));
                format!("{} {old} {new} [{}]", change.path, in_effect.join(" "))
            })
            .collect()
    }

    #[test]
    fn names_the_default_of_an_omitted_field() {
        assert_eq!(lines("", "maxPods: 150", &[36]), ["maxPods 110* 150 [110>150]"]);
        assert_eq!(lines("maxPods: 150", "", &[36]), ["maxPods 150 110* [150>110]"]);
        assert_eq!(lines("maxPods: 150", "maxPods: 0", &[36]), ["maxPods 150 110* [150>110]"]);
        assert_eq!(lines("", "clusterDomain: a.b", &[36]), ["clusterDomain - a.b [\"\">a.b]"]);
        assert_eq!(lines("", "noSuchField: 1", &[36]), ["noSuchField - 1 [->1]"]);
    }

    #[test]
    fn written_default_has_no_effect() {
        let evictions = "evictionHard: {memory.available: 100Mi, nodefs.available: 10%, nodefs.inodesFree: 5%, \
                         imagefs.available: 15%, imagefs.inodesFree: 5%}";
        let found = lines("", evictions, &[30, 36]);
        assert_eq!(found.len(), 5);
        assert!(found.iter().all(|line| line.ends_with("[]")), "{found:?}");
        // Before 1.30 the fifth is no default.
        assert_eq!(
            lines("", evictions, &[29]).iter().filter(|line| !line.ends_with("[]")).collect::<Vec<_>>(),
            ["evictionHard[\"imagefs.inodesFree\"] - \"5%\" [->\"5%\"]"]
        );
        assert_eq!(lines("syncFrequency: 1m", "syncFrequency: 60s", &[36]), ["syncFrequency \"1m\" \"60s\" []"]);
    }

    #[test]
    fn one_signal_drops_the_defaults_of_others() {
        assert_eq!(
            lines("", "evictionHard: {memory.available: 500Mi}", &[29]),
            [
                "evictionHard[\"imagefs.available\"] \"15%\"* - [\"15%\">-]",
                "evictionHard[\"memory.available\"] \"100Mi\"* \"500Mi\" [\"100Mi\">\"500Mi\"]",
                "evictionHard[\"nodefs.available\"] \"10%\"* - [\"10%\">-]",
                "evictionHard[\"nodefs.inodesFree\"] \"5%\"* - [\"5%\">-]",
            ]
        );
        let merged = "mergeDefaultEvictionSettings: true\nevictionHard: {memory.available: 500Mi}";
        assert_eq!(
            lines("", merged, &[36]),
            [
                "evictionHard[\"memory.available\"] \"100Mi\"* \"500Mi\" [\"100Mi\">\"500Mi\"]",
                "mergeDefaultEvictionSettings false* true [false>true]",
            ]
        );
        assert_eq!(
            lines("", "evictionHard: {memory.available: 500Mi}", &[29, 36])
                .into_iter()
                .find(|line| line.contains("imagefs.inodesFree")),
            Some("evictionHard[\"imagefs.inodesFree\"] \"5%\"* - [\"5%\">-]".to_owned()),
            "it has no default before 1.30"
        );
        assert_eq!(lines("", merged, &[32]).len(), 6, "the field is unknown before 1.33");
    }

    #[test]
    fn versions_with_other_defaults_are_all_considered() {
        assert_eq!(lines("", "eventBurst: 100", &[26, 27]), ["eventBurst - 100 [10>100]"]);
        assert_eq!(lines("", "eventBurst: 50", &[26, 27]), ["eventBurst - 50 [10>50 100>50]"]);
        assert_eq!(lines("", "eventBurst: 100", &[27, 36]), ["eventBurst 100* 100 []"]);
        assert_eq!(lines("", "maxPods: 150", &[]), ["maxPods - 150 [->150]"], "an unknown version has no defaults");
    }

    #[test]
    fn value_that_the_kubelet_fills_in_counts_as_unset() {
        let shown =
            "tlsCertFile: /var/lib/kubelet/pki/kubelet.crt\ntlsPrivateKeyFile: /var/lib/kubelet/pki/kubelet.key\n";
        for line in lines(shown, "", &[21, 36]) {
            assert!(line.ends_with("[]"), "{line}");
        }
        let chosen = shown.replace("pki/", "");
        for line in lines(&chosen, "", &[36]) {
            assert!(!line.ends_with("[]"), "{line}");
        }
        let cpus = "reservedSystemCPUs: \"0\"\nsystemReserved: {memory: 1Gi";
        assert_eq!(
            lines(&format!("{cpus}, cpu: \"1\"}}"), &format!("{cpus}}}"), &[36]),
            ["systemReserved.cpu \"1\" - []"]
        );
    }

    #[test]
    fn gates_have_the_default_of_the_version() {
        assert_eq!(lines("", "featureGates: {NodeSwap: true}", &[33]), ["featureGates.NodeSwap true* true []"]);
        assert_eq!(
            lines("", "featureGates: {NodeSwap: true}", &[27]),
            ["featureGates.NodeSwap false* true [false>true]"]
        );
        assert_eq!(
            lines("featureGates: {NodeSwap: true}", "", &[27]),
            ["featureGates.NodeSwap true false* [true>false]"]
        );
        assert_eq!(
            lines("featureGates: null", "featureGates: {NodeSwap: true}", &[27]),
            ["featureGates null - []", "featureGates.NodeSwap false* true [false>true]"]
        );
        assert_eq!(lines("", "featureGates: {NoSuchGate: true}", &[33]), ["featureGates.NoSuchGate - true [->true]"]);
        assert_eq!(
            lines("featureGates: {AllBeta: true}", "featureGates: {AllBeta: true, NodeSwap: true}", &[27]),
            ["featureGates.NodeSwap - true [->true]"]
        );
        // A group of gates changes defaults, in whichever configuration it is.
        for group in ["AllBeta", "AllAlpha"] {
            let with_group = format!("featureGates: {{{group}: false}}");
            let has = |lines: Vec<String>, line: &str| assert!(lines.contains(&line.to_owned()), "{lines:?}");
            has(lines(&with_group, "featureGates: {NodeSwap: true}", &[27]), "featureGates.NodeSwap - true [->true]");
            has(lines("featureGates: {NodeSwap: true}", &with_group, &[27]), "featureGates.NodeSwap true - [true>-]");
        }
    }

    #[test]
    fn derived_defaults_change_with_the_field_that_they_follow() {
        for notation in ["4", "4.0", "0.4e1", "0x4"] {
            assert_eq!(
                lines("", &format!("maxParallelImagePulls: {notation}"), &[30]),
                ["maxParallelImagePulls - 4 [->4]", "serializeImagePulls true* false* [true>false]"],
                "{notation}"
            );
        }
    }
}
