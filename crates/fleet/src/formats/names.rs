//! Readers of names.

use super::proposals;
use crate::fields::{At, ReadField};
use kubelet_config::finding::{Finding, Place};
use nodecfg_contract::names::{GateName, NameError, NamespaceName, PoolName};

/// Finding for an invalid name.
pub(super) fn bad_name(error: &NameError) -> Finding {
    let finding = Finding::error("bad-name", error.to_string());
    match proposals::dns_label(&error.value) {
        Some(name) => finding.help(format!("write {name}")),
        None => finding.help("write lower-case letters, digits and `-`"),
    }
}

/// The name, or else a finding.
pub(super) fn valid<T>(name: Result<T, NameError>, place: &Place, findings: &mut Vec<Finding>) -> Option<T> {
    name.map_err(|error| findings.push(bad_name(&error).at(place.clone()))).ok()
}

impl ReadField for NamespaceName {
    type Schema = String;

    fn read(at: &mut At<'_>) -> Option<Self> {
        valid(Self::new(at.text()?), &at.node.place, at.findings)
    }
}

impl ReadField for GateName {
    type Schema = String;

    fn read(at: &mut At<'_>) -> Option<Self> {
        let valid = Self::new(at.text()?);
        valid.map_err(|error| at.findings.push(bad_name(&error).at(at.node.place.clone()).field(at.path))).ok()
    }
}

impl ReadField for PoolName {
    type Schema = String;

    fn read(at: &mut At<'_>) -> Option<Self> {
        let named = Self::new(at.text()?);
        let finding = |error: NameError| Finding::error("bad-name", error.to_string()).at(at.node.place.clone());
        named.map_err(|error| at.findings.push(finding(error).field(at.path).help("remove it"))).ok()
    }
}
