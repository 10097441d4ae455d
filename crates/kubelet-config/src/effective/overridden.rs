//! What the kubelet reads after a configuration: drop-ins with later names, and flags. They may override its values.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::{Effective, EffectiveValue, Origin};
use crate::Minor;
use crate::defaults::{is_struct, is_zero};
use crate::document::{Document, Node};
use crate::fields::{Field, FieldType, child, join, secrets};
use crate::values::duration;
use crate::values::quantity::Quantity;

/// A value that a configuration names and a kubelet does not run.
#[derive(Debug, Clone, PartialEq)]
pub struct Overridden {
    /// The path, as in [`Effective::values`].
    pub path: String,
    /// The value that the kubelet would run if nothing came after the configuration.
    pub named: Json,
    /// The value that it runs. `None`: unset.
    pub running: Option<Json>,
    /// What sets the running value. [`Origin::Default`] if nothing is known to.
    pub by: Origin,
}

/// A value that something sets after a configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct SetAbove {
    /// The path, as in [`Effective::values`].
    pub path: String,
    /// The value.
    pub value: Json,
    /// The drop-in or the flag.
    pub by: Origin,
}

/// Returns the values that drop-ins and flags set after a configuration, by path. `alone` and `running`: as for
/// [`overridden`].
#[must_use]
pub fn set_above(alone: &Effective, running: &Effective) -> Vec<SetAbove> {
    let is_above = |(path, found): &(&String, &EffectiveValue)| {
        matches!(found.by, Origin::Flag(_) | Origin::DropIn(_))
            && alone.values.get(*path).is_none_or(|alone| alone.by != found.by)
    };
    let set = |(path, found): (&String, &EffectiveValue)| SetAbove {
        path: path.clone(),
        value: found.value.clone(),
        by: found.by.clone(),
    };
    running.values.iter().filter(is_above).map(set).collect()
}

/// Returns the values that a configuration names and a kubelet of this version does not run, by path. `ours`: the file with
/// the configuration. `alone`: what the kubelet would run if nothing came after that file. `running`: what it runs.
///
/// A value that the kubelet does not take from the file, for example because it does not read it, counts as overridden.
#[must_use]
pub fn overridden(
    configuration: &Document,
    ours: &Origin,
    alone: &Effective,
    running: &Effective,
    minor: Minor,
) -> Vec<Overridden> {
    let compared = |(path, value): (String, &Node)| {
        let (expected, runs) = if secrets::is_secret(&path) {
            // The kubelet masks it where it prints it.
            (value.to_json(), named(&running.document, &path).map(Node::to_json))
        } else if value.mapping().is_some() {
            // An empty map, which the kubelet omits.
            let [before, now] = [alone, running].map(|effective| entries(effective, &path));
            let now = now.filter(|_| before.is_none());
            (value.to_json(), Some(now.unwrap_or_else(|| value.to_json())))
        } else {
            let taken = alone.values.get(&path).filter(|found| found.by == *ours);
            let expected = taken.map_or_else(|| value.to_json(), |found| found.value.clone());
            // The kubelet omits false and empty lists where it prints them.
            let is_omitted = expected == Json::Bool(false) || expected.as_array().is_some_and(Vec::is_empty);
            let absent = || is_omitted.then(|| expected.clone());
            let runs = running.values.get(&path).map(|found| found.value.clone()).or_else(absent);
            (expected, runs)
        };
        let is_same = runs.as_ref().is_some_and(|runs| is_same_value(&expected, runs));
        let by = origin(&path, running);
        (!is_same).then(|| Overridden { path, named: expected, running: runs, by })
    };
    named_values(configuration, minor).into_iter().filter_map(compared).collect()
}

/// The values of a map below a path. `None` if it has none.
fn entries(effective: &Effective, path: &str) -> Option<Json> {
    let below = effective
        .values
        .iter()
        .filter_map(|(of, found)| Some((of.strip_prefix(path)?.strip_prefix('.')?.to_owned(), found.value.clone())));
    let found: serde_json::Map<String, Json> = below.collect();
    (!found.is_empty()).then_some(Json::Object(found))
}

/// The values that a configuration names for a kubelet of this version, by path as in [`Effective::values`]. A map with
/// entries names only these. Null names nothing, and neither does a zero number or text that the kubelet takes for unset. A
/// field that the version does not know is none.
#[must_use]
pub fn named_values(configuration: &Document, minor: Minor) -> BTreeMap<String, &Node> {
    let mut found = BTreeMap::new();
    add_named(&mut found, &configuration.root, ("", ""), minor);
    found
}

/// `parent`: the path in the table of fields, and in the configuration.
fn add_named<'n>(found: &mut BTreeMap<String, &'n Node>, node: &'n Node, parent: (&str, &str), minor: Minor) {
    for (key, entry) in node.mapping().into_iter().flatten() {
        let known = child(parent.0, key).filter(|field| field.is_known_to(minor));
        let Some(field) = known.filter(|_| !entry.value.is_null()) else { continue };
        let identifies = parent.1.is_empty() && matches!(key.as_str(), "apiVersion" | "kind");
        let path = join(parent.1, key);
        match entry.value.mapping() {
            Some(map) if !map.is_empty() || is_struct(field) => {
                add_named(found, &entry.value, (&field.path, &path), minor);
            }
            None if identifies || stands_for_unset(&entry.value, field, minor) => {}
            _ => drop(found.insert(path, &entry.value)),
        }
    }
}

/// Reports whether a kubelet cannot tell a value from an unset one: a zero of a field that is no Go pointer. A false of such
/// a field is a value, because unset means the same.
fn stands_for_unset(value: &Node, field: &Field, minor: Minor) -> bool {
    let json = value.to_json();
    // `reservedSystemCPUs: "0"` reads as a duration, too, and reserves CPU 0.
    let is_time = field.types.at(minor).is_some_and(|types| types.contains(&FieldType::Duration));
    let is_zero_time = || is_time && json.as_str().is_some_and(|text| duration::nanoseconds(text) == Ok(0));
    let is_of_map = field.path.ends_with("{}");
    !field.keeps_zero(minor) && !is_of_map && !json.is_boolean() && (is_zero(&json) || is_zero_time())
}

/// Reports whether two values mean the same: numbers, and texts that are notations of one quantity or of one duration.
#[must_use]
pub fn is_same_value(a: &Json, b: &Json) -> bool {
    if let (Some(a), Some(b)) = (a.as_f64(), b.as_f64()) {
        return a.total_cmp(&b).is_eq();
    }
    let (Some(text), Some(other)) = (a.as_str(), b.as_str()) else { return a == b };
    let amount = |text: &str| Quantity::parse(text).ok();
    text == other
        || amount(text).is_some_and(|amount_of| amount(other) == Some(amount_of))
        || duration::is_same(text, other)
}

/// The value that a configuration has at a path of [`Effective::values`]. `None` for null.
#[must_use]
pub fn named<'d>(configuration: &'d Document, path: &str) -> Option<&'d Node> {
    named_in(&configuration.root, path)
}

fn named_in<'n>(node: &'n Node, path: &str) -> Option<&'n Node> {
    let Some(map) = node.mapping() else { return Some(node).filter(|node| path.is_empty() && !node.is_null()) };
    map.iter().find_map(|(key, entry)| match path.strip_prefix(key.as_str())? {
        "" => Some(&entry.value).filter(|value| !value.is_null()),
        rest => named_in(&entry.value, rest.strip_prefix('.')?),
    })
}

/// What sets the value at a path. For an entry that a map has lost: what sets another entry of the map.
fn origin(path: &str, running: &Effective) -> Origin {
    if let Some(found) = running.values.get(path) {
        return found.by.clone();
    }
    let parents = path.char_indices().rev().filter(|(_, character)| *character == '.');
    let siblings = parents.filter_map(|(end, _)| path.get(..=end)).flat_map(|parent| {
        let below = running.values.range(parent.to_owned()..);
        below.take_while(move |(path, _)| path.starts_with(parent)).map(|(_, found)| &found.by)
    });
    let mut set = siblings.filter(|by| matches!(by, Origin::Flag(_) | Origin::DropIn(_)));
    set.next().cloned().unwrap_or(Origin::Default)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::{ConfigDir, ConfigFile, FolderEntry, Kubelet, effective};
    use super::*;
    use crate::{API_VERSION, KIND, Minor};

    fn text(body: &str) -> String {
        format!("apiVersion: {API_VERSION}\nkind: {KIND}\n{body}\n")
    }

    fn run(file: &str, drop_ins: &[(&str, &str)], flags: &[&str]) -> Effective {
        let entries: BTreeMap<String, FolderEntry> =
            drop_ins.iter().map(|(name, body)| ((*name).to_owned(), FolderEntry::File(text(body)))).collect();
        let folder = ConfigDir { path: "/d".to_owned(), root: Some(FolderEntry::Folder(entries)) };
        let flags: Vec<String> = flags.iter().map(ToString::to_string).collect();
        let config = Some(ConfigFile { path: "/f", text: &text(file) });
        effective(&Kubelet { minor: Minor(36), config, config_dir: Some(&folder), drop_in_alpha: true, flags: &flags })
            .expect("accepted")
    }

    /// The overridden values of a file, each as `path named running by`.
    fn found(file: &str, drop_ins: &[(&str, &str)], flags: &[&str]) -> Vec<String> {
        let document = Document::parse("reviewed", &text(file)).document.expect("a document");
        let show = |value: Option<Json>| value.map_or_else(|| "unset".to_owned(), |value| value.to_string());
        let (alone, running) = (run(file, &[], &[]), run(file, drop_ins, flags));
        overridden(&document, &Origin::Config, &alone, &running, Minor(36))
            .into_iter()
            .map(|found| format!("{} {} {} {}", found.path, show(Some(found.named)), show(found.running), found.by))
            .collect()
    }

    #[test]
    fn flags_and_later_files_override_what_a_configuration_names() {
        let file = "maxPods: 60\npodPidsLimit: 100";
        assert_eq!(found(file, &[], &["--max-pods=50"]), ["maxPods 60 50 --max-pods"]);
        assert_eq!(found(file, &[("95-other.conf", "maxPods: 50")], &[]), ["maxPods 60 50 /d/95-other.conf"]);
        let both = found(file, &[("95-other.conf", "maxPods: 40\npodPidsLimit: 7")], &["--max-pods=50"]);
        assert_eq!(both, ["maxPods 60 50 --max-pods", "podPidsLimit 100 7 /d/95-other.conf"]);
        // Nothing that the configuration does not name, and no value that stays the same.
        assert!(found("podPidsLimit: 100", &[], &["--max-pods=50"]).is_empty());
        assert!(found(file, &[("95-other.conf", "maxPods: 60")], &["--pod-max-pids=100"]).is_empty());
        assert!(found("imageGCHighThresholdPercent: 82", &[], &[]).is_empty());
    }

    #[test]
    fn lists_what_is_set_after_a_configuration() {
        let alone = run("maxPods: 60", &[], &[]);
        let running = run("maxPods: 60", &[("95-other.conf", "podPidsLimit: 7\nmaxPods: 40")], &["--max-pods=60"]);
        let found: Vec<String> =
            set_above(&alone, &running).iter().map(|set| format!("{} {} {}", set.path, set.value, set.by)).collect();
        assert_eq!(found, ["maxPods 60 --max-pods", "podPidsLimit 7 /d/95-other.conf"]);
        assert!(set_above(&running, &running).is_empty());
    }

    #[test]
    fn a_notation_is_no_difference() {
        let file = "streamingConnectionIdleTimeout: 1h\nkubeReserved: {cpu: 1000m, memory: 1Gi}\nmaxPods: null";
        let flags = ["--streaming-connection-idle-timeout=60m", "--kube-reserved=cpu=1,memory=1073741824"];
        assert!(found(file, &[], &flags).is_empty());
        assert!(found(file, &[], &["--max-pods=50"]).is_empty(), "null names nothing");
    }

    /// As kubeadm writes them, beside its flags.
    #[test]
    fn zero_values_name_nothing_unless_they_are_false() {
        let kubeadm =
            "containerRuntimeEndpoint: \"\"\nlogging: {verbosity: 0, flushFrequency: 0}\nnodeStatusUpdateFrequency: 0s";
        let flags =
            ["--container-runtime-endpoint=unix:///var/run/c.sock", "--v=2", "--node-status-update-frequency=7s"];
        assert!(found(kubeadm, &[], &flags).is_empty(), "{:?}", found(kubeadm, &[], &flags));
        let is_false = "protectKernelDefaults: false";
        assert!(found(is_false, &[], &[]).is_empty());
        let flag = "--protect-kernel-defaults";
        assert_eq!(found(is_false, &[], &[flag]), [format!("protectKernelDefaults false true {flag}")]);
        assert_eq!(found("evictionHard: {}", &[], &["--eviction-hard=memory.available<9%"]).len(), 1);
        assert!(found("evictionHard: {}\nkubeReserved: {}", &[], &[]).is_empty());
    }

    #[test]
    fn text_that_is_a_zero_only_as_a_duration_is_a_value() {
        let flag = "--reserved-cpus=1";
        let shown = "reservedSystemCPUs \"0\" \"1\" --reserved-cpus";
        assert_eq!(found("reservedSystemCPUs: \"0\"", &[], &[flag]), [shown]);
    }

    /// The file may not be read, or a value of it may have no effect.
    #[test]
    fn value_that_is_not_taken_from_the_file_is_overridden() {
        let document = Document::parse("reviewed", &text("maxPods: 60")).document.expect("a document");
        let other = run("maxPods: 70", &[], &[]);
        let ours = Origin::DropIn("/d/90-nodecfg.conf".to_owned());
        let found = overridden(&document, &ours, &other, &other, Minor(36));
        assert_eq!((found.len(), &found[0].running, &found[0].by), (1, &Some(70.into()), &Origin::Config));
        assert!(
            overridden(&document, &ours, &run("maxPods: 60", &[], &[]), &run("maxPods: 60", &[], &[]), Minor(36))
                .is_empty()
        );
    }

    #[test]
    fn secrets_are_compared_although_the_kubelet_masks_them() {
        let header = |value: &str| format!("staticPodURLHeader: {{Authorization: [{value}]}}");
        assert_eq!(found(&header("a"), &[("95-other.conf", &header("b"))], &[]).len(), 1);
        assert!(found(&header("a"), &[("95-other.conf", &header("a"))], &[]).is_empty());
    }

    #[test]
    fn entries_of_maps_are_compared_one_by_one() {
        let file = "evictionHard: {memory.available: 500Mi, nodefs.available: 10%}";
        assert_eq!(
            found(file, &[], &["--eviction-hard=memory.available<100Mi"]),
            [
                "evictionHard.memory.available \"500Mi\" \"100Mi\" --eviction-hard",
                "evictionHard.nodefs.available \"10%\" unset --eviction-hard",
            ]
        );
        let gate = "CPUManagerPolicyAlphaOptions";
        let gates = found(&format!("featureGates: {{{gate}: true}}"), &[], &[&format!("--feature-gates={gate}=false")]);
        assert_eq!(gates, [format!("featureGates.{gate} true false --feature-gates")]);
    }
}
