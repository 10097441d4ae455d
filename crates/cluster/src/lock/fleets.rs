//! List of fleets by their Leases. Finds paused fleets without ConfigMaps, too.

use std::collections::BTreeSet;

use crate::connection::error::ClusterError;
use crate::connection::operation::{Operation, Resource, Verb};
use crate::reading::list::{Collection, list};
use crate::reading::reader::{ClusterReader, METADATA_ONLY};
use crate::reading::wire::WireMetadata;
use nodecfg_contract::labels::{FLEET_LABEL, MANAGED_BY_LABEL, MANAGER};
use nodecfg_contract::names::FleetName;

/// Fleets that have a Lease in a namespace. Empty when the user may not list Leases, a right that no role of nodecfg
/// grants.
pub async fn fleets(reader: &ClusterReader, namespace: &str) -> Result<BTreeSet<FleetName>, ClusterError> {
    let operation = Operation::on_all(Verb::List, Resource::Leases, Some(namespace));
    let ours = Collection::labelled(operation, format!("{MANAGED_BY_LABEL}={MANAGER}"));
    match list(&reader.transport, &ours, METADATA_ONLY, |item| Ok(fleet_of(serde_json::from_slice(item)?))).await {
        Ok((fleets, _)) => Ok(fleets.into_iter().collect()),
        Err(ClusterError::Forbidden { .. }) => Ok(BTreeSet::new()),
        Err(error) => Err(error),
    }
}

/// Fleet that a Lease belongs to; `None` for other Leases.
fn fleet_of(lease: WireMetadata) -> Option<FleetName> {
    let fleet = FleetName::new(lease.metadata.labels?.remove(FLEET_LABEL)?).ok()?;
    (lease.metadata.name == format!("nodecfg-{fleet}")).then_some(fleet)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::connection::fake;
    use crate::connection::fake::{Reply, status};

    /// A user may give another Lease the labels of a fleet, and need not have the right to list Leases.
    #[tokio::test]
    async fn fleets_have_a_lease_of_their_name() {
        let item = |name: &str, fleet: &str| json!({"metadata": {"name": name, "labels": {FLEET_LABEL: fleet, MANAGED_BY_LABEL: MANAGER}}});
        let items = [item("nodecfg-prod", "prod"), item("nodecfg-copy", "test"), json!({"metadata": {"name": "x"}})];
        let list = json!({"metadata": {"resourceVersion": "1"}, "items": items});
        let (reader, _) = fake::reader(vec![Reply::Json(200, list)]);
        let found = fleets(&reader, "kube-system").await.expect("a list");
        assert_eq!(found.iter().map(FleetName::as_str).collect::<Vec<_>>(), ["prod"]);
        let refused = status(403, "Forbidden", "User \"ci\" cannot list resource \"leases\"", json!({}));
        let (reader, _) = fake::reader(vec![refused]);
        assert_eq!(fleets(&reader, "kube-system").await, Ok(BTreeSet::new()));
    }
}
