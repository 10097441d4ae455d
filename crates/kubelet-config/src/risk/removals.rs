//! The table of removals: fields whose loss harms a node that had a value, with the consequence and its source
//! (`crates/kubelet-config/data/removals.csv`).
//!
//! A value is lost if a configuration that replaces another one omits it, and the value in effect changes. A value that
//! the kubelet fills in itself, or that equals the default, is not lost. Where the table says so, the loss counts only
//! if the value is raised or lowered, or also if another value takes the place.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde::Serialize;

use crate::document::{Document, Value};
use crate::effective::{self, EffectiveChange, ValueChange};
use crate::risk::{Direction, default, direction, plain};
use crate::{Minor, table};

static TEXT: &str = include_str!("../../data/removals.csv");
static TABLE: LazyLock<BTreeMap<String, Removal>> =
    LazyLock::new(|| table::rows(TEXT).filter_map(removal).map(|removal| (removal.field.clone(), removal)).collect());

/// Values that are no loss: nothing takes their place.
const NOTHING: [&str; 8] = ["", "0", "0%", "0s", "false", "null", "[]", "{}"];

/// A field whose loss harms a node that had a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Removal {
    /// The field, without keys.
    pub field: String,
    #[serde(skip)]
    when: When,
    /// The consequence, in one sentence.
    pub consequence: String,
    /// The source: Kubernetes documentation, a source file or an issue.
    pub source: String,
}

/// The changes that are a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    /// The configuration omits the value.
    Omitted,
    /// The configuration omits the value, and the value in effect is raised or lowered, or cannot be compared.
    Moved(Direction),
    /// The configuration omits the value, or has another one.
    Changed,
}

/// Returns all fields of the table, ordered by name.
pub fn all() -> impl Iterator<Item = &'static Removal> {
    TABLE.values()
}

/// Returns the loss that a change causes, if any. `new` is the configuration after the change, which replaces the old one.
#[must_use]
pub fn loss(change: &EffectiveChange, new: &Document) -> Option<&'static Removal> {
    let path = &change.change.path;
    let removal = all().find(|removal| {
        let key = path.strip_prefix(&removal.field);
        key.is_some_and(|key| key.is_empty() || key.starts_with(['.', '[']))
    })?;
    let is_omitted = is_omitted(change) && !is_emptied(new, &removal.field);
    let counts = is_omitted || (removal.when == When::Changed && change.change.new.is_some());
    (counts && change.in_effect.iter().any(|pair| harms(removal, path, pair))).then_some(removal)
}

/// Returns what a node loses if one configuration replaces another one, for kubelets of these versions: the path of
/// each omitted value, ordered, and its row of the table.
#[must_use]
pub fn between(old: &Document, new: &Document, minors: &BTreeSet<Option<Minor>>) -> Vec<(String, &'static Removal)> {
    let omitted = effective::changes(old, new, minors).into_iter().filter(is_omitted);
    let lost = |change: EffectiveChange| loss(&change, new).map(|removal| (change.change.path, removal));
    omitted.filter_map(lost).collect()
}

/// Reports whether the new configuration omits the value. Null means unset.
fn is_omitted(change: &EffectiveChange) -> bool {
    change.change.new.as_deref().is_none_or(|new| new == "null")
}

/// Reports whether a configuration sets a map to the empty one, which names the absence of every key.
fn is_emptied(new: &Document, field: &str) -> bool {
    let value = new.root.get(field).map(|node| &node.value);
    matches!(value, Some(Value::Mapping(map)) if map.is_empty())
}

fn harms(removal: &Removal, path: &str, pair: &ValueChange) -> bool {
    let Some(old) = pair.old.as_deref().map(plain).filter(|old| !NOTHING.contains(&old.as_str())) else { return false };
    // Of an unknown version, only a default that all versions share is known.
    let new = pair.new.as_deref().map(plain).or_else(|| default(path));
    if new.as_ref() == Some(&old) {
        return false;
    }
    match removal.when {
        When::Omitted | When::Changed => true,
        When::Moved(way) => new.and_then(|new| direction(&old, &new)).is_none_or(|found| found == way),
    }
}

fn removal(cells: Vec<String>) -> Option<Removal> {
    let [field, when, consequence, source] = <[String; 4]>::try_from(cells).ok()?;
    let when = match when.as_str() {
        "" => When::Omitted,
        "changed" => When::Changed,
        direction => When::Moved(table::word(direction)?),
    };
    Some(Removal { field, when, consequence, source })
}

#[cfg(test)]
mod tests {
    use super::super::fields;
    use super::*;

    fn read(body: &str) -> Document {
        Document::parse("f.yaml", &format!("kind: K\n{body}")).document.expect("a document")
    }

    /// The paths that are lost from one body to another.
    fn lost(old: &str, new: &str, minors: &[u32]) -> Vec<String> {
        let minors = minors.iter().map(|minor| Some(Minor(*minor))).collect();
        between(&read(old), &read(new), &minors).into_iter().map(|(path, _)| path).collect()
    }

    #[test]
    fn table_of_removals_is_well_formed() {
        assert_eq!(TEXT.lines().next(), Some("field,when,consequence,source"));
        assert_eq!(all().count(), TEXT.lines().count() - 1, "every line reads, and no field appears twice");
        let names: Vec<_> = TEXT.lines().skip(1).filter_map(|line| line.split(',').next()).collect();
        assert!(names.is_sorted(), "sorted by field");
        for removal in all() {
            assert!(fields::lookup(&removal.field).is_some(), "there is no field {}", removal.field);
            assert!(removal.consequence.ends_with('.') && !removal.source.is_empty(), "{}", removal.field);
            assert!(removal.consequence.starts_with(char::is_uppercase), "{}", removal.field);
        }
    }

    #[test]
    fn omitted_value_of_each_field_is_lost() {
        for (old, path) in [
            ("authentication: {webhook: {cacheTTL: 10s}}", "authentication.webhook.cacheTTL"),
            ("authentication: {x509: {clientCAFile: /ca.crt}}", "authentication.x509.clientCAFile"),
            ("authorization: {webhook: {cacheAuthorizedTTL: 10s}}", "authorization.webhook.cacheAuthorizedTTL"),
            ("cgroupDriver: systemd", "cgroupDriver"),
            ("clusterDNS: [10.96.0.10]", "clusterDNS"),
            ("clusterDomain: cluster.local", "clusterDomain"),
            ("containerRuntimeEndpoint: unix:///run/crio/crio.sock", "containerRuntimeEndpoint"),
            ("evictionHard: {memory.available: 500Mi}", "evictionHard[\"memory.available\"]"),
            ("kubeReserved: {memory: 1Gi}", "kubeReserved.memory"),
            ("providerID: aws:///a/i-1", "providerID"),
            ("reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]", "reservedMemory"),
            ("reservedSystemCPUs: 0-1", "reservedSystemCPUs"),
            ("resolvConf: /run/systemd/resolve/resolv.conf", "resolvConf"),
            ("rotateCertificates: true", "rotateCertificates"),
            ("serverTLSBootstrap: true", "serverTLSBootstrap"),
            ("staticPodPath: /etc/kubernetes/manifests", "staticPodPath"),
            ("staticPodURL: https://example.com/pods", "staticPodURL"),
            ("systemReserved: {cpu: 500m}", "systemReserved.cpu"),
            ("tlsCertFile: /etc/k/kubelet.crt\ntlsPrivateKeyFile: /etc/k/kubelet.key", "tlsCertFile"),
        ] {
            for minors in [&[36][..], &[30, 36], &[]] {
                let found = lost(old, "maxPods: 7", minors);
                assert!(found.contains(&path.to_owned()), "{old}: {found:?} {minors:?}");
                assert_eq!(lost(old, old, minors), [""; 0]);
            }
        }
        // Every row has an example above.
        assert_eq!(all().count(), 19);
    }

    #[test]
    fn value_that_stays_in_effect_is_not_lost() {
        for old in [
            "authentication: {anonymous: {enabled: false}, webhook: {enabled: true, cacheTTL: 0s}, x509: {clientCAFile: ''}}",
            "authorization: {mode: Webhook, webhook: {cacheAuthorizedTTL: 5m}}",
            "cgroupDriver: cgroupfs",
            "clusterDNS: []\nclusterDomain: ''",
            "containerRuntimeEndpoint: unix:///run/containerd/containerd.sock",
            "kubeReserved: {memory: '0'}\nsystemReserved: {}",
            "resolvConf: /etc/resolv.conf",
            "rotateCertificates: false\nserverTLSBootstrap: null",
            "staticPodPath: ''",
        ] {
            for minors in [&[36][..], &[]] {
                assert_eq!(lost(old, "maxPods: 7", minors), [""; 0], "{old} {minors:?}");
            }
        }
        assert_eq!(lost("evictionHard: {nodefs.available: 10%}", "", &[36]), [""; 0]);
        // The kubelet makes this certificate itself, and replaces the reserved amount of CPU.
        let own = "tlsCertFile: /var/lib/kubelet/pki/kubelet.crt\ntlsPrivateKeyFile: /var/lib/kubelet/pki/kubelet.key";
        assert_eq!(lost(own, "", &[36]), [""; 0]);
        let cpus = "reservedSystemCPUs: '0'";
        assert_eq!(lost(&format!("{cpus}\nkubeReserved: {{cpu: 1}}"), cpus, &[36]), [""; 0]);
    }

    #[test]
    fn only_weaker_values_are_lost_where_the_direction_matters() {
        for (field, weaker, stronger) in [
            ("authentication: {webhook: {cacheTTL: X}}", "30s", "10m"),
            ("authorization: {webhook: {cacheAuthorizedTTL: X}}", "30s", "10m"),
            ("evictionHard: {memory.available: X}", "1Gi", "50Mi"),
        ] {
            assert_eq!(lost(&field.replace('X', weaker), "", &[36]).len(), 1, "{field}");
            assert_eq!(lost(&field.replace('X', stronger), "", &[36]), [""; 0], "{field}");
        }
        // The defaults of these fields are the strict ones, so that no removal weakens them.
        for (field, default) in [
            ("authentication.anonymous.enabled", "false"),
            ("authentication.webhook.enabled", "true"),
            ("authorization.mode", "Webhook"),
        ] {
            assert_eq!(super::default(field).as_deref(), Some(default), "{field}");
        }
    }

    #[test]
    fn omitted_key_is_lost_and_an_empty_map_is_written() {
        let all = "evictionHard: {memory.available: 1Gi, nodefs.available: 10%, imagefs.available: 0%}";
        let one = "evictionHard: {memory.available: 1Gi}";
        assert_eq!(lost(all, one, &[36]), ["evictionHard[\"nodefs.available\"]"], "it has no threshold now");
        assert_eq!(lost(one, "evictionHard: {}", &[36]), [""; 0]);
        assert_eq!(lost("clusterDNS: [10.96.0.10]", "clusterDNS: []", &[36]), [""; 0]);
        assert_eq!(lost("clusterDNS: [10.96.0.10]", "clusterDNS: null", &[36]), ["clusterDNS"], "null is unset");
        assert_eq!(
            lost("kubeReserved: {memory: 1Gi, cpu: 1}", "kubeReserved: {cpu: 1}", &[36]),
            ["kubeReserved.memory"]
        );
    }

    #[test]
    fn another_value_takes_static_pods_away_too() {
        let losses = |old: &str, new: &str| -> Vec<String> {
            let (old, new) = (read(old), read(new));
            let changes = effective::changes(&old, &new, &BTreeSet::from([Some(Minor(36))]));
            let fields = changes.iter().filter_map(|change| loss(change, &new)).map(|removal| removal.field.clone());
            fields.collect()
        };
        assert_eq!(losses("staticPodPath: /a", "staticPodPath: /b"), ["staticPodPath"]);
        assert_eq!(losses("staticPodPath: ''", "staticPodPath: /b"), [""; 0]);
        assert_eq!(losses("clusterDNS: [10.96.0.10]", "clusterDNS: [10.96.0.11]"), [""; 0]);
        assert_eq!(lost("staticPodPath: /a", "staticPodPath: /b", &[36]), [""; 0], "no removal");
    }

    proptest::proptest! {
        /// No configuration loses anything to itself, and nothing is lost that the new one names.
        #[test]
        fn nothing_named_is_lost(
            old in proptest::collection::vec(0..LINES.len(), 0..8), new in proptest::collection::vec(0..LINES.len(), 0..8),
            minor in 21_u32..38) {
            let body = |picked: &[usize]| {
                let lines: BTreeMap<&str, &str> = picked.iter().map(|at| LINES[*at]).collect();
                lines.into_iter().map(|(field, value)| format!("{field}: {value}\n")).collect::<String>()
            };
            let (old, new) = (body(&old), body(&new));
            proptest::prop_assert!(lost(&old, &old, &[minor]).is_empty());
            for path in lost(&old, &new, &[minor]) {
                let field = path.split(['.', '[']).next().unwrap_or_default();
                proptest::prop_assert!(!new.lines().any(|line| line.starts_with(&format!("{path}:"))), "{}", path);
                proptest::prop_assert!(old.contains(field) || field == "evictionHard", "{}", path);
            }
        }
    }

    const LINES: [(&str, &str); 12] = [
        ("clusterDNS", "[10.96.0.10]"),
        ("clusterDNS", "[]"),
        ("cgroupDriver", "systemd"),
        ("evictionHard", "{memory.available: 500Mi}"),
        ("evictionHard", "{nodefs.available: 5%}"),
        ("kubeReserved", "{memory: 1Gi}"),
        ("kubeReserved", "{}"),
        ("maxPods", "50"),
        ("resolvConf", "''"),
        ("resolvConf", "/run/a"),
        ("rotateCertificates", "true"),
        ("staticPodPath", "/a"),
    ];
}
