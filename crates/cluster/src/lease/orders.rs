//! Orders, written beside the lock by somebody who does not hold it.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{LeaseRequests, LeaseView, LockOptions, RACES, Record};
use crate::error::ClusterError;
use crate::reader::ClusterReader;
use nodecfg_contract::names::FleetName;
use nodecfg_contract::observed::Orders;

/// Why orders could not be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// What is there cannot be understood.
    #[error("cannot tell what is ordered of the fleet: on the Lease {lease}, {problem}")]
    Garbled {
        /// Namespace and name of the Lease.
        lease: String,
        /// Which annotation, and what is wrong with it.
        problem: String,
    },
    /// The server did not answer, or refused.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
}

impl OrderError {
    /// The way out.
    #[must_use]
    pub fn help(&self) -> String {
        match self {
            Self::Garbled { lease, .. } => {
                let (namespace, name) = lease.split_once('/').unwrap_or(("", lease));
                format!(
                    "see what is there (kubectl get lease -n {namespace} {name} -o yaml), remove the annotation, and order anew \
                     what it said (nodecfg pause)"
                )
            }
            Self::Cluster(error) => error.help(),
        }
    }
}

/// What is ordered of a fleet, and who holds its lock, at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseSnapshot {
    /// Namespace and name of the Lease.
    pub lease: String,
    /// The Lease; `None` while there is none.
    pub view: Option<LeaseView>,
    /// What is ordered.
    pub orders: Orders,
    /// The server's time.
    pub now: Timestamp,
}

impl LeaseRequests {
    /// What the annotations of this Lease order.
    pub(super) fn orders(&self, view: &LeaseView) -> Result<Orders, OrderError> {
        Orders::read(&view.annotations).map_err(|problem| OrderError::Garbled { lease: self.display(), problem })
    }

    async fn desk(&self) -> Result<LeaseSnapshot, OrderError> {
        let view = self.get().await?;
        let orders = view.as_ref().map(|view| self.orders(view)).transpose()?.unwrap_or_default();
        Ok(LeaseSnapshot { lease: self.display(), view, orders, now: self.transport.server_time() })
    }

    /// Replaces the annotations of a Lease and nothing else; a Lease that is not there is made, held by nobody.
    async fn write_annotations(
        &self,
        view: Option<&LeaseView>,
        annotations: &BTreeMap<String, String>,
    ) -> Result<LeaseView, ClusterError> {
        let seconds = |view: &LeaseView| view.duration.and_then(|held| u64::try_from(held.as_secs()).ok());
        let record = Record {
            holder: view.and_then(|view| view.holder.as_deref()),
            seconds: view.and_then(seconds),
            acquired: view.and_then(|view| view.acquired),
            renewed: view.and_then(|view| view.renewed),
            transitions: view.map_or(0, |view| view.transitions),
            annotations,
        };
        self.write(record, view.map(|view| view.resource_version.as_str())).await
    }
}

/// What is ordered of a fleet now, and who holds its lock.
///
/// # Errors
/// [`OrderError`].
pub async fn desk(reader: &ClusterReader, namespace: &str, fleet: &FleetName) -> Result<LeaseSnapshot, OrderError> {
    requests(reader, namespace, fleet).desk().await
}

/// Changes what is ordered of a fleet. `change` is told how things are, and says what the orders shall be, or `None` to leave
/// them; it is asked again when somebody else was faster. Whoever holds the lock goes on holding it. Answers with how things
/// are afterwards.
///
/// # Errors
/// [`OrderError`]; a conflict when others are faster again and again.
pub async fn order(
    reader: &ClusterReader,
    namespace: &str,
    fleet: &FleetName,
    mut change: impl FnMut(&LeaseSnapshot) -> Option<Orders>,
) -> Result<LeaseSnapshot, OrderError> {
    let requests = requests(reader, namespace, fleet);
    let mut races = 0;
    loop {
        let desk = requests.desk().await?;
        let Some(orders) = change(&desk) else { return Ok(desk) };
        let mut annotations = desk.view.as_ref().map(|view| view.annotations.clone()).unwrap_or_default();
        orders.write(&mut annotations);
        match requests.write_annotations(desk.view.as_ref(), &annotations).await {
            Ok(view) => {
                let now = requests.transport.server_time();
                return Ok(LeaseSnapshot { lease: desk.lease, view: Some(view), orders, now });
            }
            // Somebody was faster: the holder with a renewal, or another order.
            Err(ClusterError::Conflict { .. } | ClusterError::AlreadyExists { .. } | ClusterError::NotFound { .. })
                if races < RACES =>
            {
                races += 1;
                tokio::time::sleep(requests.transport.backoff(1)).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn requests(reader: &ClusterReader, namespace: &str, fleet: &FleetName) -> LeaseRequests {
    let options = LockOptions::new(namespace, fleet.clone(), String::new());
    LeaseRequests { transport: reader.transport.clone(), options }
}
