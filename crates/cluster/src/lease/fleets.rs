//! Fleets by their Leases: those that have no ConfigMaps yet, or none any more, and may still be paused.

use std::collections::BTreeSet;

use crate::error::ClusterError;
use crate::list::{Collection, list};
use crate::operation::{Operation, Resource, Verb};
use crate::reader::{ClusterReader, METADATA_ONLY};
use crate::wire::WireMetadata;
use nodecfg_contract::names::FleetName;
use nodecfg_contract::observed::{FLEET_LABEL, MANAGED_BY_LABEL, MANAGER};

/// The fleets that have a Lease in a namespace; none where Leases may not be listed, which no role of nodecfg's needs.
///
/// # Errors
/// Every [`ClusterError`] of a request but `Forbidden`.
pub async fn fleets(reader: &ClusterReader, namespace: &str) -> Result<BTreeSet<FleetName>, ClusterError> {
    let operation = Operation::on_all(Verb::List, Resource::Leases, Some(namespace));
    let ours = Collection::labelled(operation, format!("{MANAGED_BY_LABEL}={MANAGER}"));
    match list(&reader.transport, &ours, METADATA_ONLY, fleet_of).await {
        Ok((fleets, _)) => Ok(fleets.into_iter().collect()),
        Err(ClusterError::Forbidden { .. }) => Ok(BTreeSet::new()),
        Err(error) => Err(error),
    }
}

/// The fleet whose lock a Lease is.
fn fleet_of(lease: WireMetadata) -> Option<FleetName> {
    let fleet = FleetName::new(lease.metadata.labels?.remove(FLEET_LABEL)?).ok()?;
    (lease.metadata.name == format!("nodecfg-{fleet}")).then_some(fleet)
}
