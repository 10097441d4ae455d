//! Lock of a fleet: one coordination.k8s.io Lease, held while a sync writes. It excludes a second sync of the same
//! fleet, names the holder, and expires when the holder dies.
//!
//! [`decide`] is pure and determines who may take the lock. Writes use optimistic concurrency on the Lease's
//! resourceVersion, as client-go's leader election does. All times are the server's, so that machines with different
//! clocks agree.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Method;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::json;

use super::error::ClusterError;
use super::operation::{Operation, Resource, Verb};
use super::reader::{ClusterReader, found};
use super::transport::{Call, Transport, Whole};
use super::wire::Meta;
use nodecfg_contract::names::FleetName;
use nodecfg_contract::observed::orders::remove_other_aborts;
use nodecfg_contract::observed::{FLEET_LABEL, MANAGED_BY_LABEL, MANAGER};

/// Limit of repeated attempts after conflicts with other clients.
const MAX_CONFLICTS: u32 = 10;

mod fleets;
mod held;
mod holder;
mod orders;

pub use fleets::fleets;
pub use held::{HeldLock, LockView};
pub use holder::{ExpiredHolder, HoldState, expired_holder, wait_for_release};
pub use orders::{LeaseSnapshot, OrderError, snapshot, update_orders};

/// Options for taking a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockOptions {
    /// Namespace of the Lease.
    pub namespace: String,
    /// The fleet; the Lease is called `nodecfg-<fleet>`.
    pub fleet: FleetName,
    /// Identity of the holder; see [`identity`].
    pub identity: String,
    /// Duration of the lock after its last renewal. It is renewed every third of this.
    pub duration: Duration,
    /// Time to wait for another holder. Zero: do not wait.
    pub timeout: Duration,
}

impl LockOptions {
    /// Options for a lock of 30 seconds, without waiting.
    #[must_use]
    pub fn new(namespace: &str, fleet: FleetName, identity: String) -> Self {
        let duration = Duration::from_secs(30);
        Self { namespace: namespace.to_owned(), fleet, identity, duration, timeout: Duration::ZERO }
    }

    fn name(&self) -> String {
        format!("nodecfg-{}", self.fleet)
    }
}

/// Identity of a holder: `<hostname>_<process>_<random>`, unique to one run.
#[must_use]
pub fn identity(hostname: &str, process: u32, random: u64) -> String {
    format!("{hostname}_{process}_{random:016x}")
}

/// Content of a Lease.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeaseView {
    /// Identity of the holder; empty or unset when the lock is free.
    pub holder: Option<String>,
    /// Duration of the lock after its last renewal.
    pub duration: Option<SignedDuration>,
    /// Time at which the holder took the lock.
    pub acquired: Option<Timestamp>,
    /// Time of the last renewal.
    pub renewed: Option<Timestamp>,
    /// Number of changes of the holder.
    pub transitions: i64,
    /// Version of the object.
    pub resource_version: String,
    /// Annotations of the Lease, which include the [`Orders`](nodecfg_contract::observed::Orders).
    pub annotations: BTreeMap<String, String>,
}

/// Possible action on a Lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acquire {
    /// The Lease is missing and can be created.
    Create,
    /// The Lease can be taken.
    TakeOver(TakeoverReason),
    /// Another client holds the Lease.
    HeldBy {
        /// Identity of the holder.
        holder: String,
        /// Time of the acquisition, if the Lease contains it.
        since: Option<Timestamp>,
        /// Time of the expiry, unless renewed.
        expires: Timestamp,
    },
}

/// Reason why a Lease can be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TakeoverReason {
    /// The last holder released it.
    Released,
    /// The caller holds it.
    Mine,
    /// The named holder stopped renewing it.
    Expired(String),
}

/// Decides whether `me` may take a Lease. A Lease without a renewal time or a duration counts as expired.
#[must_use]
pub fn decide(existing: Option<&LeaseView>, me: &str, now: Timestamp) -> Acquire {
    let Some(lease) = existing else { return Acquire::Create };
    let Some(holder) = lease.holder.as_ref().filter(|holder| !holder.is_empty()) else {
        return Acquire::TakeOver(TakeoverReason::Released);
    };
    if holder == me {
        return Acquire::TakeOver(TakeoverReason::Mine);
    }
    let expires = lease.renewed.zip(lease.duration).and_then(|(renewed, held)| renewed.checked_add(held).ok());
    match expires {
        Some(expires) if now <= expires => Acquire::HeldBy { holder: holder.clone(), since: lease.acquired, expires },
        _ => Acquire::TakeOver(TakeoverReason::Expired(holder.clone())),
    }
}

/// Reason for a lock that could not be taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// Another client holds the lock.
    #[error("another sync of this fleet runs: {holder} holds the lock {lease}{}, until {expires:.0} unless it is renewed",
        since.map(|since| format!(" since {since:.0}")).unwrap_or_default())]
    Held {
        /// Namespace and name of the Lease.
        lease: String,
        /// Identity of the holder.
        holder: String,
        /// Time of the acquisition.
        since: Option<Timestamp>,
        /// Time of the expiry, unless renewed.
        expires: Timestamp,
    },
    /// The request failed.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
}

impl LockError {
    /// Fix for the user.
    #[must_use]
    pub fn help(&self) -> String {
        match self {
            Self::Held { .. } => "pass --lock-timeout to wait for the other sync to end".to_owned(),
            Self::Cluster(error) => error.help(),
        }
    }
}

/// Requests for one Lease.
#[derive(Debug, Clone)]
struct LeaseRequests {
    transport: Transport,
    options: LockOptions,
}

/// Content to write into a Lease.
#[derive(Debug, Clone, Copy)]
struct LeaseContent<'a> {
    holder: Option<&'a str>,
    /// Duration of the lock after its last renewal. The server rejects zero.
    seconds: Option<u64>,
    acquired: Option<Timestamp>,
    renewed: Option<Timestamp>,
    transitions: i64,
    /// Annotations to keep: a write replaces the whole Lease.
    annotations: &'a BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
struct WireLease {
    metadata: Meta,
    #[serde(default)]
    spec: Option<WireLeaseSpec>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireLeaseSpec {
    #[serde(default)]
    holder_identity: Option<String>,
    #[serde(default)]
    lease_duration_seconds: Option<i64>,
    #[serde(default)]
    acquire_time: Option<Timestamp>,
    #[serde(default)]
    renew_time: Option<Timestamp>,
    #[serde(default)]
    lease_transitions: Option<i64>,
}

impl WireLease {
    fn into_view(self) -> LeaseView {
        let spec = self.spec.unwrap_or_default();
        LeaseView {
            holder: spec.holder_identity,
            duration: spec.lease_duration_seconds.map(SignedDuration::from_secs),
            acquired: spec.acquire_time,
            renewed: spec.renew_time,
            transitions: spec.lease_transitions.unwrap_or_default(),
            resource_version: self.metadata.resource_version.unwrap_or_default(),
            annotations: self.metadata.annotations.unwrap_or_default(),
        }
    }
}

/// meta/v1 MicroTime: the API server rejects other precisions in a Lease.
fn micro_time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

impl LeaseRequests {
    fn operation(&self, verb: Verb) -> Operation {
        Operation::on(verb, Resource::Leases, Some(&self.options.namespace), &self.options.name())
    }

    fn display(&self) -> String {
        format!("{}/{}", self.options.namespace, self.options.name())
    }

    async fn get(&self) -> Result<Option<LeaseView>, ClusterError> {
        let operation = self.operation(Verb::Get);
        let call = Call::new(Method::GET, operation.path());
        let wire: Option<WireLease> = found(self.transport.call(&operation, &call, Whole::new).await)?;
        Ok(wire.map(WireLease::into_view))
    }

    /// Creates the Lease, or replaces the version `over`.
    async fn write(&self, record: LeaseContent<'_>, over: Option<&str>) -> Result<LeaseView, ClusterError> {
        // A replacement needs a version to be conditional; a creation with a version is rejected.
        let metadata = json!({
            "name": self.options.name(),
            "namespace": self.options.namespace,
            "resourceVersion": over.unwrap_or_default(),
            "labels": {MANAGED_BY_LABEL: MANAGER, FLEET_LABEL: self.options.fleet.as_str()},
            "annotations": record.annotations,
        });
        let (operation, method) = match over {
            Some(_) => (self.operation(Verb::Update), Method::PUT),
            None => (self.operation(Verb::Create), Method::POST),
        };
        let body = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": metadata,
            "spec": {
                "holderIdentity": record.holder,
                "leaseDurationSeconds": record.seconds.map(|seconds| seconds.max(1)),
                "acquireTime": record.acquired.map(micro_time),
                "renewTime": record.renewed.map(micro_time),
                "leaseTransitions": record.transitions,
            },
        });
        let uri = format!("{}?fieldManager=nodecfg", operation.path());
        let call = Call::new(method, uri).content("application/json", body.to_string());
        let wire: WireLease = self.transport.call(&operation, &call, Whole::new).await?;
        Ok(wire.into_view())
    }
}

/// Lease of a fleet, with the holder of the lock and the orders; `None` when the Lease is missing.
pub async fn read(
    reader: &ClusterReader,
    namespace: &str,
    fleet: &FleetName,
) -> Result<Option<LeaseView>, ClusterError> {
    let options = LockOptions::new(namespace, fleet.clone(), String::new());
    LeaseRequests { transport: reader.transport.clone(), options }.get().await
}

/// Takes the lock of a fleet. The returned lock is renewed until its release.
///
/// # Errors
/// [`LockError::Held`] when another client still holds the lock after the timeout; every [`ClusterError`] of a request.
pub async fn acquire(reader: &ClusterReader, options: LockOptions) -> Result<HeldLock, LockError> {
    let requests = LeaseRequests { transport: reader.transport.clone(), options };
    let me = requests.options.identity.as_str();
    let mut waited = Duration::ZERO;
    let mut races = 0;
    loop {
        let existing = requests.get().await?;
        let now = requests.transport.server_time();
        let mut annotations = existing.as_ref().map(|lease| lease.annotations.clone()).unwrap_or_default();
        // An abort of an earlier holder must not stop this one.
        remove_other_aborts(&mut annotations, me);
        let content = |transitions| LeaseContent {
            holder: Some(me),
            seconds: Some(requests.options.duration.as_secs()),
            acquired: Some(now),
            renewed: Some(now),
            transitions,
            annotations: &annotations,
        };
        let attempt = match (decide(existing.as_ref(), me, now), &existing) {
            (Acquire::TakeOver(reason), Some(lease)) => {
                if let TakeoverReason::Expired(holder) = &reason {
                    tracing::warn!("taking over the lock {}, which {holder} no longer renews", requests.display());
                }
                let transitions = lease.transitions + i64::from(reason != TakeoverReason::Mine);
                requests.write(content(transitions), Some(&lease.resource_version)).await
            }
            (Acquire::HeldBy { holder, since, expires }, _) => {
                let lease = requests.display();
                let left = requests.options.timeout.saturating_sub(waited);
                if left.is_zero() {
                    return Err(LockError::Held { lease, holder, since, expires });
                }
                if waited.is_zero() {
                    // A warning, so that every user sees it: otherwise the command seems to hang.
                    tracing::warn!("waiting for the lock {lease}, which {holder} holds");
                }
                let pause = Duration::from_secs_f64(0.5 + requests.transport.jitter()).min(left);
                tokio::time::sleep(pause).await;
                waited += pause;
                continue;
            }
            (Acquire::Create | Acquire::TakeOver(_), _) => requests.write(content(0), None).await,
        };
        match attempt {
            Ok(lease) => return Ok(HeldLock::start(requests, lease, now)),
            // Another client was faster, or the response to a successful write was lost: read again.
            Err(ClusterError::Conflict { .. } | ClusterError::AlreadyExists { .. } | ClusterError::NotFound { .. })
                if races < MAX_CONFLICTS =>
            {
                races += 1;
                let pause = requests.transport.backoff(1);
                tokio::time::sleep(pause).await;
                waited += pause;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).expect("in range")
    }

    fn held(renewed: i64) -> LeaseView {
        LeaseView {
            holder: Some("other".to_owned()),
            duration: Some(SignedDuration::from_secs(30)),
            acquired: Some(at(0)),
            renewed: Some(at(renewed)),
            transitions: 3,
            resource_version: "7".to_owned(),
            annotations: BTreeMap::new(),
        }
    }

    #[test]
    fn free_lease_can_be_taken() {
        assert_eq!(decide(None, "me", at(0)), Acquire::Create);
        for holder in [None, Some(String::new())] {
            let lease = LeaseView { holder, ..held(0) };
            assert_eq!(decide(Some(&lease), "me", at(0)), Acquire::TakeOver(TakeoverReason::Released));
        }
        assert_eq!(decide(Some(&held(0)), "other", at(0)), Acquire::TakeOver(TakeoverReason::Mine));
    }

    #[test]
    fn lease_is_held_until_it_expires() {
        let lease = held(10);
        let holder = "other".to_owned();
        for now in [10, 25, 40] {
            let wanted = Acquire::HeldBy { holder: holder.clone(), since: Some(at(0)), expires: at(40) };
            assert_eq!(decide(Some(&lease), "me", at(now)), wanted, "{now}");
        }
        assert_eq!(decide(Some(&lease), "me", at(41)), Acquire::TakeOver(TakeoverReason::Expired(holder.clone())));
        let forever = LeaseView { duration: None, ..lease };
        assert_eq!(decide(Some(&forever), "me", at(11)), Acquire::TakeOver(TakeoverReason::Expired(holder)));
    }

    #[test]
    fn error_names_the_holder_and_the_expiry() {
        let error = LockError::Held {
            lease: "kube-system/nodecfg-prod".to_owned(),
            holder: "ci-7_12_00".to_owned(),
            since: Some(at(0)),
            expires: at(30),
        };
        assert_eq!(
            error.to_string(),
            "another sync of this fleet runs: ci-7_12_00 holds the lock kube-system/nodecfg-prod since \
             2027-01-15T08:00:00Z, until 2027-01-15T08:00:30Z unless it is renewed"
        );
    }

    #[test]
    fn micro_time_has_six_digits() {
        assert_eq!(micro_time(at(0)), "2027-01-15T08:00:00.000000Z");
        let later = at(0).checked_add(SignedDuration::from_micros(1_500)).expect("in range");
        assert_eq!(micro_time(later), "2027-01-15T08:00:00.001500Z");
    }

    #[test]
    fn identity_contains_host_process_and_random_number() {
        assert_eq!(identity("ci-7", 12, 255), "ci-7_12_00000000000000ff");
    }
}

#[cfg(test)]
#[path = "lease_tests.rs"]
mod wire_tests;
