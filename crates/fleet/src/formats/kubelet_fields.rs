//! Reader of `spec.kubelet` of a Fleet and of a NodePool.

use std::collections::BTreeSet;

use super::fields::{Fields, choice};
use super::read::texts;
use crate::formats::{FileRef, FleetKubeletSpec, KubeletSpec};
use kubelet_config::finding::{Finding, Place};
use kubelet_config::spelling::nearest;
use kubelet_config::{fields, removals};
use nodecfg_contract::Placement;

/// Maximum number of patches of a pool. A file may be named several times, and each costs a merge.
const MAX_PATCHES: usize = 50;
/// Keys of `spec.kubelet` of a Fleet.
pub(super) const OF_FLEET: [&str; 4] = ["placement", "own", "acceptRemoved", "acceptOverridden"];
/// Keys of `spec.kubelet` of a NodePool.
pub(super) const OF_POOL: [&str; 7] =
    ["base", "patches", "local", "placement", "own", "acceptRemoved", "acceptOverridden"];

/// Reads the defaults of a fleet.
pub(super) fn of_fleet(spec: &Fields<'_>, findings: &mut Vec<Finding>) -> FleetKubeletSpec {
    let Some(kubelet) = spec.object("kubelet", &OF_FLEET, findings) else { return FleetKubeletSpec::default() };
    FleetKubeletSpec {
        placement: placement(&kubelet, findings),
        own: file(&kubelet, "own", findings),
        accept_removed: accept_removed(&kubelet, findings),
        accept_overridden: accept_overridden(&kubelet, findings),
    }
}

/// Reads the configuration of a pool.
pub(super) fn of_pool(spec: &Fields<'_>, findings: &mut Vec<Finding>) -> KubeletSpec {
    let Some(kubelet) = spec.object("kubelet", &OF_POOL, findings) else { return KubeletSpec::default() };
    KubeletSpec {
        base: file(&kubelet, "base", findings),
        patches: patches(&kubelet, findings),
        local: kubelet.boolean("local", findings).unwrap_or_default(),
        placement: placement(&kubelet, findings),
        own: file(&kubelet, "own", findings),
        accept_removed: accept_removed(&kubelet, findings),
        accept_overridden: accept_overridden(&kubelet, findings),
    }
}

/// Reads the path of a file.
fn file(kubelet: &Fields<'_>, key: &str, findings: &mut Vec<Finding>) -> Option<FileRef> {
    kubelet.text(key, findings).map(reference)
}

fn reference((path, place): (&str, &Place)) -> FileRef {
    FileRef { path: path.to_owned(), place: place.clone() }
}

fn placement(kubelet: &Fields<'_>, findings: &mut Vec<Finding>) -> Option<Placement> {
    choice(kubelet, "placement", &Placement::ALL.map(|placement| (placement.as_str(), placement)), findings)
}

/// The paths of a pool's patches.
fn patches(kubelet: &Fields<'_>, findings: &mut Vec<Finding>) -> Vec<FileRef> {
    const KEY: &str = "patches";
    let listed = texts(kubelet, KEY, findings);
    if listed.len() > MAX_PATCHES
        && let Some(node) = kubelet.get(KEY)
    {
        let problem = format!("{} entries, at most {MAX_PATCHES} are allowed", listed.len());
        findings.push(kubelet.bad_value(KEY, node, &problem).help("combine patches"));
    }
    listed.into_iter().take(MAX_PATCHES).map(reference).collect()
}

/// Fields of the table of removals that nodes may lose.
fn accept_removed(kubelet: &Fields<'_>, findings: &mut Vec<Finding>) -> BTreeSet<String> {
    let mut accepted = BTreeSet::new();
    for (text, place) in texts(kubelet, "acceptRemoved", findings) {
        let known = || removals::all().map(|removal| removal.field.as_str());
        if known().any(|field| field == text) {
            accepted.insert(text.to_owned());
            continue;
        }
        let path = kubelet.path("acceptRemoved");
        let message = format!("`{path}`: the removal of {text:?} needs no acceptance");
        let help = match nearest(text, known()) {
            Some(near) => format!("did you mean {near}?"),
            None => "remove it".to_owned(),
        };
        findings.push(Finding::error("bad-value", message).at(place.clone()).field(path).help(help));
    }
    accepted
}

/// Fields that something else may set.
fn accept_overridden(kubelet: &Fields<'_>, findings: &mut Vec<Finding>) -> BTreeSet<String> {
    const KEY: &str = "acceptOverridden";
    let mut accepted = BTreeSet::new();
    for (text, place) in texts(kubelet, KEY, findings) {
        let top = text.split('.').next().unwrap_or_default();
        if fields::lookup(top).is_some() {
            accepted.insert(text.to_owned());
            continue;
        }
        let path = kubelet.path(KEY);
        let message = format!("`{path}`: no KubeletConfiguration has a field {text:?}");
        let near =
            nearest(top, fields::all().filter(|field| !field.path.contains('.')).map(|field| field.path.as_str()));
        let help = near.map_or_else(|| "remove it".to_owned(), |near| format!("did you mean {near}?"));
        findings.push(Finding::error("bad-value", message).at(place.clone()).field(path).help(help));
    }
    accepted
}
