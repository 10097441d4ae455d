//! What the kubelet reads after a configuration: drop-ins with later names, and flags. They may override its values.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use super::{Effective, EffectiveValue, Origin};
use crate::document::{Document, Node};
use crate::{duration, quantity};

/// A value that a configuration names and a kubelet does not run.
#[derive(Debug, Clone, PartialEq)]
pub struct Overridden {
    /// The path, as in [`Effective::values`].
    pub path: String,
    /// The value that the kubelet would run if nothing came after the configuration. `None`: unset.
    pub named: Option<Json>,
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

/// Returns the values that a configuration names and a kubelet does not run, by path. `alone`: what the kubelet would run
/// if nothing came after the configuration. `running`: what it runs.
#[must_use]
pub fn overridden(configuration: &Document, alone: &Effective, running: &Effective) -> Vec<Overridden> {
    let paths: BTreeSet<&String> = alone.values.keys().chain(running.values.keys()).collect();
    let differs = |path: &&String| match (alone.values.get(*path), running.values.get(*path)) {
        (Some(alone), Some(running)) => !is_same_value(&alone.value, &running.value),
        _ => true,
    };
    let one = |path: &String| Overridden {
        path: path.clone(),
        named: alone.values.get(path).map(|found| found.value.clone()),
        running: running.values.get(path).map(|found| found.value.clone()),
        by: origin(path, running),
    };
    paths.into_iter().filter(differs).filter(|path| named(configuration, path).is_some()).map(one).collect()
}

/// Reports whether two values mean the same: texts may be notations of one quantity or of one duration.
#[must_use]
pub fn is_same_value(a: &Json, b: &Json) -> bool {
    let (Some(text), Some(other)) = (a.as_str(), b.as_str()) else { return a == b };
    let amount = |text: &str| quantity::canonical(text);
    let time = |text: &str| duration::nanoseconds(text).ok();
    text == other
        || amount(text).is_some_and(|amount_of| amount(other) == Some(amount_of))
        || time(text).is_some_and(|time_of| time(other) == Some(time_of))
}

/// The value that a configuration names at a path of [`Effective::values`]. A map with entries names only these. `None` for
/// null.
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
        overridden(&document, &run(file, &[], &[]), &run(file, drop_ins, flags))
            .into_iter()
            .map(|found| format!("{} {} {} {}", found.path, show(found.named), show(found.running), found.by))
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
        let file = "streamingConnectionIdleTimeout: 1h\nkubeReserved: {cpu: 1000m}\nmaxPods: null";
        assert!(found(file, &[], &["--streaming-connection-idle-timeout=60m", "--kube-reserved=cpu=1"]).is_empty());
        assert!(found(file, &[], &["--max-pods=50"]).is_empty(), "null names nothing");
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
