//! Orders of a fleet, written into its Lease by clients that do not hold the lock.

use jiff::Timestamp;

use super::{LeaseRequests, LeaseView, LockOptions};
use crate::connection::error::ClusterError;
use crate::reading::reader::ClusterReader;
use nodecfg_contract::names::FleetName;
use nodecfg_observed::Orders;

/// Failure to read or write orders.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// The orders in the Lease are unreadable.
    #[error("cannot read the orders of the fleet: on the Lease {lease}, {problem}")]
    Unreadable {
        /// Namespace and name of the Lease.
        lease: String,
        /// The annotation and its error.
        problem: String,
    },
    /// The request failed.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
}

impl OrderError {
    /// Fix for the user.
    #[must_use]
    pub fn help(&self) -> String {
        match self {
            Self::Unreadable { lease, .. } => {
                let (namespace, name) = lease.split_once('/').unwrap_or(("", lease));
                format!("remove the annotation with `kubectl edit lease -n {namespace} {name}`")
            }
            Self::Cluster(error) => error.help(),
        }
    }
}

/// Orders of a fleet and the holder of its lock, at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseSnapshot {
    /// Namespace and name of the Lease.
    pub lease: String,
    /// The Lease; `None` when it is missing.
    pub view: Option<LeaseView>,
    /// The orders.
    pub orders: Orders,
    /// The server's time.
    pub now: Timestamp,
}

impl LeaseRequests {
    /// Orders in the annotations of this Lease.
    pub(super) fn orders(&self, view: &LeaseView) -> Result<Orders, OrderError> {
        Orders::read(&view.annotations).map_err(|problem| OrderError::Unreadable { lease: self.display(), problem })
    }

    async fn snapshot(&self) -> Result<LeaseSnapshot, OrderError> {
        let view = self.get().await?;
        let orders = view.as_ref().map(|view| self.orders(view)).transpose()?.unwrap_or_default();
        Ok(LeaseSnapshot { lease: self.display(), view, orders, now: self.transport.server_time() })
    }
}

/// Current orders of a fleet and the holder of its lock.
pub async fn snapshot(reader: &ClusterReader, namespace: &str, fleet: &FleetName) -> Result<LeaseSnapshot, OrderError> {
    lease_requests(reader, namespace, fleet).snapshot().await
}

/// Changes the orders of a fleet and returns the resulting snapshot. `change` returns the new orders for a snapshot,
/// or `None` to keep the orders. It runs again after a conflict with another client. The holder of the lock stays the
/// same.
///
/// # Errors
/// [`OrderError`]; a conflict when other clients change the Lease repeatedly.
pub async fn update_orders(
    reader: &ClusterReader,
    namespace: &str,
    fleet: &FleetName,
    mut change: impl FnMut(&LeaseSnapshot) -> Option<Orders>,
) -> Result<LeaseSnapshot, OrderError> {
    let requests = lease_requests(reader, namespace, fleet);
    let mut races = 0;
    loop {
        let snapshot = requests.snapshot().await?;
        let Some(orders) = change(&snapshot) else { return Ok(snapshot) };
        // Only the annotations change. A missing Lease is created, without a holder.
        let mut lease = snapshot.view.clone().unwrap_or_default();
        orders.write(&mut lease.annotations);
        match requests.write(&lease).await {
            Ok(view) => {
                let now = requests.transport.server_time();
                return Ok(LeaseSnapshot { lease: snapshot.lease, view: Some(view), orders, now });
            }
            // The holder with a renewal, or another order.
            Err(error) => requests.wait_after(error, &mut races).await?,
        }
    }
}

fn lease_requests(reader: &ClusterReader, namespace: &str, fleet: &FleetName) -> LeaseRequests {
    let options = LockOptions::new(namespace, fleet.clone(), String::new());
    LeaseRequests { transport: reader.transport.clone(), options }
}
