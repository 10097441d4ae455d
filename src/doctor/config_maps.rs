//! The ConfigMaps: whether they are there, hold what they should, and can be told apart.

use std::collections::{BTreeMap, BTreeSet};

use super::access::troubled;
use super::{Check, Ending, Facts, Few, count};
use kubelet_config::document::Document;
use nodecfg_contract::ContentHash;
use nodecfg_contract::KUBELET_KEY;
use nodecfg_contract::names::FleetName;
use nodecfg_contract::observed::{
    CONFIG_MAP_POOL_LABEL, CONTENT_HASH_ANNOTATION, ConfigMapKey, FLEET_LABEL, FetchedConfigMap, Observed,
};

/// How many ConfigMaps are told of one by one.
const MOST: usize = 5;

pub(super) fn examine(facts: &Facts, checks: &mut Vec<Check>) {
    if let Some(trouble) = &facts.unlisted {
        // That the right is missing has been said.
        if !checks.iter().any(|check| check.ending == Some(Ending::Cluster)) {
            checks.push(troubled("permission", trouble).about("ConfigMaps"));
        }
        return;
    }
    let Some(observed) = facts.observed() else { return };
    gone(facts, observed, checks);
    content(facts, observed, checks);
    labels(observed, checks);
    foreign(facts, observed, checks);
}

/// What is wrong with a ConfigMap keeps a sync from its work when its pool still wants it. With a plan at hand that is known,
/// and told of there.
fn severity(facts: &Facts, code: &'static str, seen: String) -> Check {
    match facts.plan() {
        Some(_) => Check::warning(code, seen),
        None => Check::problem(code, Ending::InTheWay, seen),
    }
}

/// Adds checks of single objects: the first few, and how many more there are.
fn each(found: Vec<Check>, fine: Check, checks: &mut Vec<Check>) {
    if found.is_empty() {
        return checks.push(fine);
    }
    let more = found.len().saturating_sub(MOST);
    let rest = found.get(MOST).map(|check| Check {
        seen: format!("{} more like that", count(more, "ConfigMap")),
        subject: Some("others".to_owned()),
        ..check.clone()
    });
    checks.extend(found.into_iter().take(MOST).chain(rest));
}

/// The nodes that point at each ConfigMap.
fn users(observed: &Observed) -> BTreeMap<ConfigMapKey, Few> {
    let mut users: BTreeMap<ConfigMapKey, Few> = BTreeMap::new();
    for node in observed.nodes.values() {
        if let Some(key) = node.source.as_ref().and_then(ConfigMapKey::of) {
            users.entry(key).or_default().add(&node.name);
        }
    }
    users
}

fn gone(facts: &Facts, observed: &Observed, checks: &mut Vec<Check>) {
    let mut found = Vec::new();
    for (key, nodes) in users(observed) {
        let deleting = match observed.contents.get(&key) {
            Some(None) => "is gone",
            Some(Some(map)) if map.deleting => "is being deleted",
            _ => continue,
        };
        let seen = format!("{key} {deleting}, and pointed at by {}", nodes.counted("node"));
        found.push(severity(facts, "config-map-gone", seen).about(key.to_string()).mend(
            "do not make it again under its name: that would restart all its nodes at once. They go on with what they have; \
             change the pool's configuration, which gives it another name, and sync",
        ));
    }
    let fine = match facts.unread {
        0 => Check::ok("config-map-gone", "every ConfigMap that nodes point at is there"),
        unread => Check::unknown(
            "config-map-gone",
            format!("{} that nodes point at not looked at: too many", count(unread, "ConfigMap")),
        ),
    };
    each(found, fine, checks);
}

/// In what the content of a ConfigMap is not what its name or its annotation says, if it is one of nodecfg's.
fn difference(map: &FetchedConfigMap) -> Option<String> {
    let Some(text) = map.text(KUBELET_KEY) else { return Some(format!("has no key {KUBELET_KEY}")) };
    let Some(document) = Document::parse(&map.name, text).document else {
        return Some("holds no readable configuration".to_owned());
    };
    let hash = ContentHash::of(document.canonical().as_bytes());
    let recorded = map.annotations.get(CONTENT_HASH_ANNOTATION).map(String::as_str);
    match recorded.map(ContentHash::parse) {
        Some(Some(recorded)) if recorded != hash => Some("holds other content than its annotation says".to_owned()),
        // By a rule of another version, which says nothing that could be compared.
        Some(None) => None,
        _ if map.name.rsplit_once('-').map(|(_, short)| short) != Some(hash.short().as_str()) => {
            Some("holds other content than its name says".to_owned())
        }
        Some(Some(_)) | None => None,
    }
}

fn content(facts: &Facts, observed: &Observed, checks: &mut Vec<Check>) {
    let users = users(observed);
    let (mut differing, mut mutable, mut looked) = (Vec::new(), Vec::new(), 0_usize);
    let managed =
        observed.contents.iter().filter_map(|(key, map)| Some((key, map.as_ref().filter(|map| map.is_managed())?)));
    for (key, map) in managed {
        looked += 1;
        let nodes =
            users.get(key).map(|nodes| format!(", pointed at by {}", nodes.counted("node"))).unwrap_or_default();
        let ConfigMapKey { namespace, name } = key;
        if let Some(difference) = difference(map) {
            differing.push(
                severity(facts, "config-map-content", format!("{key} {difference}{nodes}")).about(key.to_string()).mend(format!(
                    "somebody made or replaced it by hand. Look at it: kubectl -n {namespace} get configmap {name} -o yaml. \
                     Change the pool's configuration, which gives it another name, and sync; delete this one when no node \
                     points at it any more"
                )),
            );
        }
        if !map.immutable {
            mutable.push(
                severity(
                    facts,
                    "config-map-mutable",
                    format!("{key} is not immutable: a change of it would restart every kubelet that uses it{nodes}"),
                )
                .about(key.to_string())
                .mend(format!(
                    "kubectl -n {namespace} patch configmap {name} --type merge -p '{{\"immutable\":true}}'"
                )),
            );
        }
    }
    let fine = |code| match looked {
        0 => Check::ok(code, "there are none of nodecfg that nodes point at"),
        _ => Check::ok(code, format!("{} looked at", count(looked, "ConfigMap"))),
    };
    each(differing, fine("config-map-content"), checks);
    each(mutable, fine("config-map-mutable"), checks);
}

fn labels(observed: &Observed, checks: &mut Vec<Check>) {
    let mut found = Vec::new();
    for (key, map) in &observed.config_maps {
        let missing: Vec<&str> = [(map.fleet.is_none(), FLEET_LABEL), (map.pool.is_none(), CONFIG_MAP_POOL_LABEL)]
            .into_iter()
            .filter_map(|(missing, label)| missing.then_some(label))
            .collect();
        if !missing.is_empty() {
            let seen = format!("{key} is marked as nodecfg's and has no readable label {}", missing.join(" and "));
            let mend = format!(
                "put it back: kubectl -n {} label configmap {} {}",
                key.namespace,
                key.name,
                missing.iter().map(|label| format!("{label}=…")).collect::<Vec<_>>().join(" ")
            );
            found.push(Check::warning("config-map-labels", seen).about(key.to_string()).mend(mend));
        }
    }
    let fine = Check::ok("config-map-labels", format!("{} of nodecfg", count(observed.config_maps.len(), "ConfigMap")));
    each(found, fine, checks);
}

fn foreign(facts: &Facts, observed: &Observed, checks: &mut Vec<Check>) {
    let Some(Ok(repository)) = &facts.repository else { return };
    let ours = &repository.desired.fleet;
    let others: BTreeSet<&FleetName> =
        observed.config_maps.values().filter_map(|map| map.fleet.as_ref()).filter(|fleet| *fleet != ours).collect();
    if others.is_empty() {
        return checks.push(Check::ok("config-map-foreign", "no ConfigMaps of other fleets"));
    }
    let seen =
        format!("ConfigMaps of {} are in namespace {} too", Few::of(&others).counted("other fleet"), facts.namespace);
    checks.push(Check::note("config-map-foreign", seen).mend(
        "nothing to do where that is meant. After a change of the fleet's name they are what is left of the old one",
    ));
}
