//! Checks of the ConfigMaps: existence, content, immutability, labels and owners.

use std::collections::{BTreeMap, BTreeSet};

use super::access::unavailable;
use super::{Check, Facts, NameSample, SyncFailure, count};
use kubelet_config::document::Document;
use nodecfg_contract::config_map::FetchedConfigMap;
use nodecfg_contract::labels::{CONFIG_MAP_POOL_LABEL, CONTENT_HASH_ANNOTATION, FLEET_LABEL};
use nodecfg_contract::names::FleetName;
use nodecfg_contract::{ContentHash, KUBELET_KEY};
use nodecfg_observed::{ConfigMapKey, Observed};

/// Number of ConfigMaps that get their own check, per code.
const MAX_CHECKS: usize = 5;

pub(super) fn examine(facts: &Facts, checks: &mut Vec<Check>) {
    if let Some(cause) = &facts.unlisted {
        // A missing right has its own check; do not report it twice.
        if !checks.iter().any(|check| check.failure == Some(SyncFailure::Cluster)) {
            checks.push(unavailable("permission", cause).about("ConfigMaps"));
        }
        return;
    }
    let Some(observed) = facts.observed() else { return };
    missing(facts, observed, checks);
    content(facts, observed, checks);
    labels(observed, checks);
    foreign(facts, observed, checks);
}

/// Check of a faulty ConfigMap. The fault blocks a sync only when a pool still needs the ConfigMap. A plan determines
/// that and reports it, so with a plan the check is only a warning.
fn faulty(facts: &Facts, code: &'static str, seen: String) -> Check {
    match facts.plan() {
        Some(_) => Check::warning(code, seen),
        None => Check::problem(code, SyncFailure::InTheWay, seen),
    }
}

/// Adds the checks of the first few faulty objects and the number of the others, or `passed` without any.
fn add_checks(found: Vec<Check>, passed: Check, checks: &mut Vec<Check>) {
    if found.is_empty() {
        return checks.push(passed);
    }
    let more = found.len().saturating_sub(MAX_CHECKS);
    let rest = found.get(MAX_CHECKS).map(|check| Check {
        seen: format!("{} more like that", count(more, "ConfigMap")),
        subject: Some("others".to_owned()),
        ..check.clone()
    });
    checks.extend(found.into_iter().take(MAX_CHECKS).chain(rest));
}

/// Nodes that refer to each ConfigMap.
fn referencing_nodes(observed: &Observed) -> BTreeMap<ConfigMapKey, NameSample> {
    let mut users: BTreeMap<ConfigMapKey, NameSample> = BTreeMap::new();
    for node in observed.nodes.values() {
        if let Some(key) = node.source.as_ref().and_then(ConfigMapKey::of) {
            users.entry(key).or_default().add(&node.name);
        }
    }
    users
}

fn missing(facts: &Facts, observed: &Observed, checks: &mut Vec<Check>) {
    let mut found = Vec::new();
    for (key, nodes) in referencing_nodes(observed) {
        let state = match observed.contents.get(&key) {
            Some(None) => "is missing",
            Some(Some(map)) if map.deleting => "is being deleted",
            _ => continue,
        };
        let seen = format!("{key} {state}; referenced by {}", nodes.counted("node"));
        found.push(faulty(facts, "config-map-gone", seen).about(key.to_string()).fix(
            "do not recreate it under its name: that would restart all its nodes at once. They keep their configuration; \
             change the pool's configuration, which results in another name, and sync",
        ));
    }
    let passed = match facts.unread {
        0 => Check::ok("config-map-gone", "every ConfigMap that nodes refer to exists"),
        unread => Check::unknown(
            "config-map-gone",
            format!("{} that nodes refer to not checked: too many", count(unread, "ConfigMap")),
        ),
    };
    add_checks(found, passed, checks);
}

/// Fault in the content of a ConfigMap of nodecfg: it is missing, unreadable, or differs from its name or annotation.
fn content_fault(map: &FetchedConfigMap) -> Option<String> {
    let Some(text) = map.text(KUBELET_KEY) else { return Some(format!("has no key {KUBELET_KEY}")) };
    let Some(document) = Document::parse(&map.name, text).document else {
        return Some("holds no readable configuration".to_owned());
    };
    let hash = ContentHash::of(document.canonical().as_bytes());
    let recorded = map.annotations.get(CONTENT_HASH_ANNOTATION).map(String::as_str);
    match recorded.map(ContentHash::parse) {
        Some(Some(recorded)) if recorded != hash => Some("has other content than its annotation records".to_owned()),
        // A hash by the rule of another version, which is not comparable.
        Some(None) => None,
        _ if map.name.rsplit_once('-').map(|(_, short)| short) != Some(hash.short().as_str()) => {
            Some("has other content than its name records".to_owned())
        }
        Some(Some(_)) | None => None,
    }
}

fn content(facts: &Facts, observed: &Observed, checks: &mut Vec<Check>) {
    let users = referencing_nodes(observed);
    let (mut differing, mut mutable, mut checked) = (Vec::new(), Vec::new(), 0_usize);
    let managed = observed
        .contents
        .iter()
        .filter(|(key, _)| !observed.pointers.contains_key(*key))
        .filter_map(|(key, map)| Some((key, map.as_ref().filter(|map| map.is_managed())?)));
    for (key, map) in managed {
        checked += 1;
        let nodes =
            users.get(key).map(|nodes| format!("; referenced by {}", nodes.counted("node"))).unwrap_or_default();
        let ConfigMapKey { namespace, name } = key;
        if let Some(difference) = content_fault(map) {
            differing.push(
                faulty(facts, "config-map-content", format!("{key} {difference}{nodes}")).about(key.to_string()).fix(format!(
                    "it was created or replaced by hand. Inspect it: kubectl -n {namespace} get configmap {name} -o yaml. \
                     Change the pool's configuration, which results in another name, and sync; delete this one when no node \
                     refers to it"
                )),
            );
        }
        if !map.immutable {
            mutable.push(
                faulty(
                    facts,
                    "config-map-mutable",
                    format!("{key} is not immutable: a change would restart every kubelet that uses it{nodes}"),
                )
                .about(key.to_string())
                .fix(format!("kubectl -n {namespace} patch configmap {name} --type merge -p '{{\"immutable\":true}}'")),
            );
        }
    }
    let passed = |code| match checked {
        0 => Check::ok(code, "nodes refer to no ConfigMap of nodecfg"),
        _ => Check::ok(code, format!("{} checked", count(checked, "ConfigMap"))),
    };
    add_checks(differing, passed("config-map-content"), checks);
    add_checks(mutable, passed("config-map-mutable"), checks);
}

fn labels(observed: &Observed, checks: &mut Vec<Check>) {
    let mut found = Vec::new();
    for (key, map) in &observed.config_maps {
        let missing: Vec<&str> = [(map.fleet.is_none(), FLEET_LABEL), (map.pool.is_none(), CONFIG_MAP_POOL_LABEL)]
            .into_iter()
            .filter_map(|(missing, label)| missing.then_some(label))
            .collect();
        if !missing.is_empty() {
            let seen = format!("{key} belongs to nodecfg but lacks a valid label {}", missing.join(" and "));
            let fix = format!(
                "restore it: kubectl -n {} label configmap {} {}",
                key.namespace,
                key.name,
                missing.iter().map(|label| format!("{label}=…")).collect::<Vec<_>>().join(" ")
            );
            found.push(Check::warning("config-map-labels", seen).about(key.to_string()).fix(fix));
        }
    }
    let passed =
        Check::ok("config-map-labels", format!("{} of nodecfg", count(observed.config_maps.len(), "ConfigMap")));
    add_checks(found, passed, checks);
}

fn foreign(facts: &Facts, observed: &Observed, checks: &mut Vec<Check>) {
    let Some(Ok(repository)) = &facts.repository else { return };
    let ours = &repository.desired.fleet;
    let others: BTreeSet<&FleetName> =
        observed.config_maps.values().filter_map(|map| map.fleet.as_ref()).filter(|fleet| *fleet != ours).collect();
    if others.is_empty() {
        return checks.push(Check::ok("config-map-foreign", "no ConfigMaps of other fleets"));
    }
    let seen = format!(
        "namespace {} also contains ConfigMaps of {}",
        facts.namespace,
        NameSample::of(&others).counted("other fleet")
    );
    checks.push(
        Check::note("config-map-foreign", seen)
            .fix("nothing to do if intended. After a change of the fleet's name, they belong to the old name"),
    );
}
