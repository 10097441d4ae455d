//! Reader of `nodecfg.yaml` and `pool.yaml`: converts documents into the types of [`formats`](crate::formats) and
//! reports findings with their positions.

use super::kubelet::KubeletSpec;
use super::names::{bad_name, valid};
use super::rollout::RolloutSpec;
use super::{
    API_VERSION, DEFAULT_FLEET, FLEET, FleetFile, FleetSpec, Metadata, NODE_POOL, NodePoolFile, NodePoolSpec,
    pool_order,
};
use crate::fields::{Fields, Map, text};
use kubelet_config::document::Document;
use kubelet_config::finding::{Finding, Place};
use nodecfg_contract::names::{FleetName, PoolName};

/// Reads `nodecfg.yaml`. Returns its content and the fleet's name, or `None` without a valid name.
pub(crate) fn fleet(document: &Document, findings: &mut Vec<Finding>) -> Option<(FleetSpec, FleetName)> {
    let file = Fields::open(&document.root, "", FleetFile::KEYS, findings)?;
    check_header(&file, FLEET, findings);
    let name = metadata_name(&file, DEFAULT_FLEET, findings);
    let name = name.and_then(|(name, place)| valid(FleetName::new(name), place, findings));
    let spec: FleetSpec = file.value("spec", findings).unwrap_or_default();
    findings.extend(pool_order::of_fleet(&spec.rollout));
    Some((spec, name?))
}

/// Reads a `pool.yaml`, in the folder of this name if known.
pub(crate) fn node_pool(
    document: &Document,
    folder: Option<&PoolName>,
    findings: &mut Vec<Finding>,
) -> Option<NodePoolSpec> {
    let file = Fields::open(&document.root, "", NodePoolFile::KEYS, findings)?;
    check_header(&file, NODE_POOL, findings);
    if let Some((name, place)) = metadata_name(&file, folder.map_or("general", PoolName::as_str), findings) {
        findings.extend(pool_name_problem(name, folder).map(|finding| finding.at(place.clone())));
    }
    let before = findings.len();
    let spec = file.value("spec", findings).unwrap_or_default();
    fix_misplaced(findings.get_mut(before..).unwrap_or_default());
    Some(spec)
}

/// Proposes the right map for fields that are written directly under `spec`.
fn fix_misplaced(findings: &mut [Finding]) {
    for finding in findings.iter_mut().filter(|finding| finding.code == "unknown-field") {
        let Some(name) = finding.field.as_deref().and_then(|field| field.strip_prefix("spec.")) else { continue };
        let maps = [("rollout", RolloutSpec::KEYS), ("kubelet", KubeletSpec::KEYS)];
        if let Some((parent, _)) = maps.into_iter().find(|(_, keys)| keys.contains(&name)) {
            finding.help = Some(format!("did you mean `spec.{parent}.{name}`?"));
        }
    }
}

fn pool_name_problem(name: &str, folder: Option<&PoolName>) -> Option<Finding> {
    match folder {
        Some(folder) if folder.as_str() == name => None,
        Some(folder) => {
            let folder = folder.as_str();
            let message = format!("the pool name {name:?} differs from the folder name {folder:?}");
            let renamed = PoolName::new(name).map(|_| format!(", or rename the folder to pools/{name}"));
            let renamed = renamed.unwrap_or_default();
            Some(Finding::error("pool-name", message).help(format!("write {folder:?}{renamed}")))
        }
        None => PoolName::new(name).err().map(|error| bad_name(&error)),
    }
}

fn check_header(file: &Fields<'_>, kind: &str, findings: &mut Vec<Finding>) {
    for (key, wanted, code) in [("apiVersion", API_VERSION, "wrong-api-version"), ("kind", kind, "wrong-kind")] {
        file.require(key, &format!("{key}: {wanted}"), findings);
        let Some(node) = file.get(key) else { continue };
        if let Some(found) = text(node, key, findings).filter(|found| *found != wanted) {
            let finding = Finding::error(code, format!("`{key}` must be {wanted}, not {found:?}"));
            findings.push(finding.at(node.place.clone()).help(format!("write {key}: {wanted}")));
        }
    }
}

/// The name, or a finding that proposes `example`.
fn metadata_name<'n>(file: &Fields<'n>, example: &str, findings: &mut Vec<Finding>) -> Option<(&'n str, &'n Place)> {
    file.require("metadata", &format!("metadata: {{name: {example}}}"), findings);
    let metadata = Fields::open(file.get("metadata")?, "metadata", Metadata::KEYS, findings)?;
    metadata.require("name", &format!("name: {example}"), findings);
    let name = metadata.get("name")?;
    Some((text(name, &metadata.path("name"), findings)?, &name.place))
}
