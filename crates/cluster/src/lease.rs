//! The lock of a fleet: one coordination.k8s.io Lease, held while a sync writes. Keeps a second sync of the same fleet out,
//! names the holder, and expires when the holder dies.
//!
//! Who may take it is [`decide`], which is pure. The rest is optimistic concurrency on the Lease's resourceVersion, as in
//! client-go's leader election. All times are the server's, so that two machines with different clocks agree.

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
use nodecfg_contract::observed::orders::forget_aborts_of_others;
use nodecfg_contract::observed::{FLEET_LABEL, MANAGED_BY_LABEL, MANAGER};

/// How often a lock is gone for again after somebody else was faster.
const RACES: u32 = 10;

mod end;
mod fleets;
mod held;
mod orders;

pub use end::{Dead, HoldEnd, dead, until_end};
pub use fleets::fleets;
pub use held::{HeldLock, LockView};
pub use orders::{LeaseSnapshot, OrderError, desk, order};

/// How a lock is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockOptions {
    /// Namespace of the Lease.
    pub namespace: String,
    /// The fleet; the Lease is called `nodecfg-<fleet>`.
    pub fleet: FleetName,
    /// Who holds it; see [`identity`].
    pub identity: String,
    /// How long it outlives its last renewal. It is renewed every third of this.
    pub duration: Duration,
    /// How long to wait for another holder. Zero: not at all.
    pub timeout: Duration,
}

impl LockOptions {
    /// A lock of 30 seconds that does not wait.
    #[must_use]
    pub fn new(namespace: &str, fleet: FleetName, identity: String) -> Self {
        let duration = Duration::from_secs(30);
        Self { namespace: namespace.to_owned(), fleet, identity, duration, timeout: Duration::ZERO }
    }

    fn name(&self) -> String {
        format!("nodecfg-{}", self.fleet)
    }
}

/// Who holds a lock: `<hostname>_<process>_<random>`, unique to one run.
#[must_use]
pub fn identity(hostname: &str, process: u32, random: u64) -> String {
    format!("{hostname}_{process}_{random:016x}")
}

/// A Lease as read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeaseView {
    /// Who holds it; empty or unset when nobody does.
    pub holder: Option<String>,
    /// How long it outlives its last renewal.
    pub duration: Option<SignedDuration>,
    /// Since when the holder has it.
    pub acquired: Option<Timestamp>,
    /// When the holder last renewed it.
    pub renewed: Option<Timestamp>,
    /// How often it changed hands.
    pub transitions: i64,
    /// Version of the object.
    pub resource_version: String,
    /// Its annotations. [`Orders`](nodecfg_contract::observed::Orders) are among them.
    pub annotations: BTreeMap<String, String>,
}

/// What may be done about a Lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acquire {
    /// There is none yet.
    Create,
    /// It can be taken.
    TakeOver(Reason),
    /// Somebody holds it.
    HeldBy {
        /// Who.
        holder: String,
        /// Since when, if they said.
        since: Option<Timestamp>,
        /// When it expires unless it is renewed.
        expires: Timestamp,
    },
}

/// Why a Lease can be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// Its last holder gave it up.
    Released,
    /// It is held by the one who asks.
    Mine,
    /// Its holder stopped renewing it; this one.
    Expired(String),
}

/// Decides whether `me` may take a Lease. A Lease whose holder never said when it renewed it, or for how long, has expired.
#[must_use]
pub fn decide(existing: Option<&LeaseView>, me: &str, now: Timestamp) -> Acquire {
    let Some(lease) = existing else { return Acquire::Create };
    let Some(holder) = lease.holder.as_ref().filter(|holder| !holder.is_empty()) else {
        return Acquire::TakeOver(Reason::Released);
    };
    if holder == me {
        return Acquire::TakeOver(Reason::Mine);
    }
    let expires = lease.renewed.zip(lease.duration).and_then(|(renewed, held)| renewed.checked_add(held).ok());
    match expires {
        Some(expires) if now <= expires => Acquire::HeldBy { holder: holder.clone(), since: lease.acquired, expires },
        _ => Acquire::TakeOver(Reason::Expired(holder.clone())),
    }
}

/// Why the lock is not held.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// Somebody else has it.
    #[error("another sync of this fleet runs: {holder} holds the lock {lease}{}, until {expires:.0} unless it is renewed",
        since.map(|since| format!(" since {since:.0}")).unwrap_or_default())]
    Held {
        /// Namespace and name of the Lease.
        lease: String,
        /// Who has it.
        holder: String,
        /// Since when.
        since: Option<Timestamp>,
        /// When it expires unless it is renewed.
        expires: Timestamp,
    },
    /// The server does not let it be taken.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
}

impl LockError {
    /// The way out.
    #[must_use]
    pub fn help(&self) -> String {
        match self {
            Self::Held { .. } => {
                "wait for it to end, or let nodecfg wait with --lock-timeout. A sync that was killed leaves \
                a lock that expires by itself"
                    .to_owned()
            }
            Self::Cluster(error) => error.help(),
        }
    }
}

/// Where a Lease is, and the requests about it.
#[derive(Debug, Clone)]
struct LeaseRequests {
    transport: Transport,
    options: LockOptions,
}

/// What is written into a Lease.
#[derive(Debug, Clone, Copy)]
struct Record<'a> {
    holder: Option<&'a str>,
    /// How long it outlives its last renewal. The server refuses zero.
    seconds: Option<u64>,
    acquired: Option<Timestamp>,
    renewed: Option<Timestamp>,
    transitions: i64,
    /// Kept from the version that was read: a Lease is replaced whole.
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

/// meta/v1 MicroTime: the API server refuses other precisions in a Lease.
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

    /// Creates the Lease, or replaces the version that was read.
    async fn write(&self, record: Record<'_>, over: Option<&str>) -> Result<LeaseView, ClusterError> {
        // Without a version a replacement would be unconditional, and with one a creation is refused.
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

/// The Lease of a fleet as it is, or `None` while there is none: who holds the lock, and what is ordered.
///
/// # Errors
/// Every [`ClusterError`] of a request but `NotFound`.
pub async fn look(
    reader: &ClusterReader,
    namespace: &str,
    fleet: &FleetName,
) -> Result<Option<LeaseView>, ClusterError> {
    let options = LockOptions::new(namespace, fleet.clone(), String::new());
    LeaseRequests { transport: reader.transport.clone(), options }.get().await
}

/// Takes the lock of a fleet, and keeps it until it is released.
///
/// # Errors
/// [`LockError::Held`] when somebody else has it and still has it after the timeout; otherwise what the server refuses.
pub async fn acquire(reader: &ClusterReader, options: LockOptions) -> Result<HeldLock, LockError> {
    let requests = LeaseRequests { transport: reader.transport.clone(), options };
    let me = requests.options.identity.as_str();
    let mut waited = Duration::ZERO;
    let mut races = 0;
    loop {
        let existing = requests.get().await?;
        let now = requests.transport.server_time();
        let mut annotations = existing.as_ref().map(|lease| lease.annotations.clone()).unwrap_or_default();
        // One that has ended cannot stop any more, and this one was not meant.
        forget_aborts_of_others(&mut annotations, me);
        let taken = |transitions| Record {
            holder: Some(me),
            seconds: Some(requests.options.duration.as_secs()),
            acquired: Some(now),
            renewed: Some(now),
            transitions,
            annotations: &annotations,
        };
        let attempt = match (decide(existing.as_ref(), me, now), &existing) {
            (Acquire::TakeOver(reason), Some(lease)) => {
                if let Reason::Expired(holder) = &reason {
                    tracing::warn!("taking over the lock {}, which {holder} no longer renews", requests.display());
                }
                let transitions = lease.transitions + i64::from(reason != Reason::Mine);
                requests.write(taken(transitions), Some(&lease.resource_version)).await
            }
            (Acquire::HeldBy { holder, since, expires }, _) => {
                let lease = requests.display();
                let left = requests.options.timeout.saturating_sub(waited);
                if left.is_zero() {
                    return Err(LockError::Held { lease, holder, since, expires });
                }
                if waited.is_zero() {
                    // Said to everybody: the command seems to hang otherwise.
                    tracing::warn!("waiting for the lock {lease}, which {holder} holds");
                }
                let pause = Duration::from_secs_f64(0.5 + requests.transport.jitter()).min(left);
                tokio::time::sleep(pause).await;
                waited += pause;
                continue;
            }
            (Acquire::Create | Acquire::TakeOver(_), _) => requests.write(taken(0), None).await,
        };
        match attempt {
            Ok(lease) => return Ok(HeldLock::keep(requests, lease, now)),
            // Somebody was faster, or an answer was lost and it is ours already: look again.
            Err(ClusterError::Conflict { .. } | ClusterError::AlreadyExists { .. } | ClusterError::NotFound { .. })
                if races < RACES =>
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
    fn a_lease_is_taken_when_it_is_nobodys() {
        assert_eq!(decide(None, "me", at(0)), Acquire::Create);
        for holder in [None, Some(String::new())] {
            let lease = LeaseView { holder, ..held(0) };
            assert_eq!(decide(Some(&lease), "me", at(0)), Acquire::TakeOver(Reason::Released));
        }
        assert_eq!(decide(Some(&held(0)), "other", at(0)), Acquire::TakeOver(Reason::Mine));
    }

    #[test]
    fn a_lease_is_held_until_it_expires() {
        let lease = held(10);
        let holder = "other".to_owned();
        for now in [10, 25, 40] {
            let wanted = Acquire::HeldBy { holder: holder.clone(), since: Some(at(0)), expires: at(40) };
            assert_eq!(decide(Some(&lease), "me", at(now)), wanted, "{now}");
        }
        assert_eq!(decide(Some(&lease), "me", at(41)), Acquire::TakeOver(Reason::Expired(holder.clone())));
        let forever = LeaseView { duration: None, ..lease };
        assert_eq!(decide(Some(&forever), "me", at(11)), Acquire::TakeOver(Reason::Expired(holder)));
    }

    #[test]
    fn the_error_names_the_holder_and_the_end() {
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
    fn times_have_the_six_digits_that_the_server_wants() {
        assert_eq!(micro_time(at(0)), "2027-01-15T08:00:00.000000Z");
        let later = at(0).checked_add(SignedDuration::from_micros(1_500)).expect("in range");
        assert_eq!(micro_time(later), "2027-01-15T08:00:00.001500Z");
    }

    #[test]
    fn an_identity_is_unique_to_a_run() {
        assert_eq!(identity("ci-7", 12, 255), "ci-7_12_00000000000000ff");
    }
}

#[cfg(test)]
#[path = "lease_tests.rs"]
mod wire_tests;
