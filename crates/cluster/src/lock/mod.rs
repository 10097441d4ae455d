//! Lock of a fleet: one coordination.k8s.io Lease, held while a sync writes. It excludes a second sync of the same
//! fleet, names the holder, and expires when the holder dies.
//!
//! `decide` is pure and determines who may take the lock. Writes use optimistic concurrency on the Lease's
//! resourceVersion, as client-go's leader election does. `observation.rs` has the rule of expiry, which trusts no clock
//! of another machine. The times in a Lease are for people.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Method;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::json;

use crate::connection::error::ClusterError;
use crate::connection::operation::{Operation, Resource, Verb};
use crate::connection::transport::{Call, Transport, whole};
use crate::reading::reader::{ClusterReader, found};
use crate::reading::wire::{Meta, shown_time};
use nodecfg_contract::labels::{FLEET_LABEL, MANAGED_BY_LABEL, MANAGER};
use nodecfg_contract::names::FleetName;
use nodecfg_contract::printable::remark;
use nodecfg_observed::orders::remove_other_aborts;

/// Limit of repeated attempts after conflicts with other clients.
const MAX_CONFLICTS: u32 = 10;

mod fleets;
mod held;
mod holder;
mod observation;
mod orders;

pub use fleets::fleets;
pub use held::{HeldLock, LockView};
pub use holder::{ExpiredHolder, HoldState, current_holder, expired_holder, wait_for_release, wait_until_free};
use observation::{Moment, Observation};
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
    /// Version of the object; empty before its creation.
    pub resource_version: String,
    /// Annotations of the Lease, which include the [`Orders`](nodecfg_observed::Orders).
    pub annotations: BTreeMap<String, String>,
}

impl LeaseView {
    /// Identity of the holder, unless the lock is free.
    #[must_use]
    pub fn holder(&self) -> Option<&str> {
        self.holder.as_deref().filter(|holder| !holder.is_empty())
    }

    /// Time of the expiry by the holder's clock, unless renewed. For display; see [`acquire`] for the rule of expiry.
    #[must_use]
    pub fn expires(&self) -> Option<Timestamp> {
        self.renewed.zip(self.duration).and_then(|(renewed, held)| renewed.checked_add(held).ok())
    }

    /// True when the expiry has passed by the holder's clock. A Lease without a renewal time or a duration counts as
    /// expired.
    #[must_use]
    pub(crate) fn seems_expired(&self, now: Timestamp) -> bool {
        self.expires().is_none_or(|expires| now > expires)
    }
}

/// Possible action on a Lease.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Acquire {
    /// The Lease is missing and can be created.
    Create,
    /// The Lease can be taken.
    TakeOver(TakeoverReason),
    /// Another client holds the Lease.
    HeldBy {
        /// Identity of the holder.
        holder: String,
        /// Time until the Lease can be taken, if it stays unchanged.
        left: Duration,
    },
}

/// Reason why a Lease can be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
enum TakeoverReason {
    /// The last holder released it.
    Released,
    /// The caller holds it.
    Mine,
    /// The named holder stopped renewing it.
    Expired(String),
}

/// Decides whether `me` may take a Lease that this process has seen `unchanged` for this time. `fallback` replaces the
/// duration of a Lease without one.
fn decide(existing: Option<&LeaseView>, me: &str, unchanged: Duration, fallback: Duration) -> Acquire {
    let Some(lease) = existing else { return Acquire::Create };
    let Some(holder) = lease.holder() else { return Acquire::TakeOver(TakeoverReason::Released) };
    if holder == me {
        return Acquire::TakeOver(TakeoverReason::Mine);
    }
    let duration = lease.duration.and_then(|held| Duration::try_from(held).ok()).unwrap_or(fallback);
    let left = duration.saturating_sub(unchanged);
    if left.is_zero() {
        return Acquire::TakeOver(TakeoverReason::Expired(holder.to_owned()));
    }
    Acquire::HeldBy { holder: holder.to_owned(), left }
}

/// Reason for a lock that could not be taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// Another client holds the lock.
    #[error("another sync of this fleet runs: {} holds the lock {lease}{}{}", remark(holder),
        since.map(|since| format!(" since {since:.0}")).unwrap_or_default(),
        expires.map(|expires| format!(", until {expires:.0} unless it is renewed")).unwrap_or_default())]
    Held {
        /// Namespace and name of the Lease.
        lease: String,
        /// Identity of the holder.
        holder: String,
        /// Time of the acquisition.
        since: Option<Timestamp>,
        /// Time of the expiry by the holder's clock, unless renewed.
        expires: Option<Timestamp>,
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

/// The parts of coordination.k8s.io/v1 Lease that are read.
#[derive(Debug, Deserialize)]
pub(crate) struct WireLease {
    pub(crate) metadata: Meta,
    #[serde(default)]
    pub(crate) spec: WireLeaseSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WireLeaseSpec {
    #[serde(default)]
    pub(crate) holder_identity: Option<String>,
    #[serde(default)]
    pub(crate) lease_duration_seconds: Option<i64>,
    #[serde(default, deserialize_with = "shown_time")]
    pub(crate) acquire_time: Option<Timestamp>,
    #[serde(default, deserialize_with = "shown_time")]
    pub(crate) renew_time: Option<Timestamp>,
    #[serde(default)]
    pub(crate) lease_transitions: Option<i64>,
}

impl WireLease {
    fn into_view(self) -> LeaseView {
        let spec = self.spec;
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
pub(crate) fn micro_time(time: Timestamp) -> String {
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
        let wire: Option<WireLease> = found(self.transport.call(&operation, &call, whole).await)?;
        Ok(wire.map(WireLease::into_view))
    }

    /// Waits before the Lease is read again after a write that failed because another client was faster, or because the
    /// response to an earlier one was lost.
    ///
    /// # Errors
    /// Every other error, and the one after too many such races.
    async fn wait_after(&self, error: ClusterError, races: &mut u32) -> Result<(), ClusterError> {
        match error {
            ClusterError::Conflict { .. } | ClusterError::AlreadyExists { .. } | ClusterError::NotFound { .. }
                if *races < MAX_CONFLICTS =>
            {
                *races += 1;
                tokio::time::sleep(self.transport.backoff(1)).await;
                Ok(())
            }
            error => Err(error),
        }
    }

    /// Creates the Lease, or replaces the version that it has.
    async fn write(&self, lease: &LeaseView) -> Result<LeaseView, ClusterError> {
        // A replacement needs a version to be conditional; a creation with a version is rejected.
        let metadata = json!({
            "name": self.options.name(),
            "namespace": self.options.namespace,
            "resourceVersion": lease.resource_version,
            "labels": {MANAGED_BY_LABEL: MANAGER, FLEET_LABEL: self.options.fleet.as_str()},
            "annotations": lease.annotations,
        });
        let (operation, method) = match lease.resource_version.as_str() {
            "" => (self.operation(Verb::Create), Method::POST),
            _ => (self.operation(Verb::Update), Method::PUT),
        };
        let body = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": metadata,
            "spec": {
                "holderIdentity": lease.holder,
                // The server rejects zero.
                "leaseDurationSeconds": lease.duration.map(|duration| duration.as_secs().max(1)),
                "acquireTime": lease.acquired.map(micro_time),
                "renewTime": lease.renewed.map(micro_time),
                "leaseTransitions": lease.transitions,
            },
        });
        let uri = format!("{}?fieldManager=nodecfg", operation.path());
        let call = Call::new(method, uri).content("application/json", body.to_string());
        let wire: WireLease = self.transport.call(&operation, &call, whole).await?;
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
/// Takes the lock of another holder after this process has seen its Lease unchanged for the duration of the Lease.
/// Observes a Lease that seems expired for that long, also without a timeout, so that the next sync after a killed one
/// succeeds.
///
/// # Errors
/// [`LockError::Held`] when another client still holds the lock after the timeout; every [`ClusterError`] of a request.
pub async fn acquire(reader: &ClusterReader, options: LockOptions) -> Result<HeldLock, LockError> {
    let requests = LeaseRequests { transport: reader.transport.clone(), options };
    let LockOptions { identity: me, duration, timeout, .. } = &requests.options;
    let began = nodecfg_clock::instant();
    let mut observation = Observation::default();
    let mut announced = false;
    let mut races = 0;
    loop {
        let existing = requests.get().await?;
        let sent = Moment::now();
        let unchanged = existing.as_ref().map(|lease| observation.see(lease, sent.instant)).unwrap_or_default();
        let now = requests.transport.server_time();
        let mut taken = LeaseView {
            holder: Some(me.clone()),
            duration: SignedDuration::try_from(*duration).ok(),
            acquired: Some(now),
            renewed: Some(now),
            ..existing.clone().unwrap_or_default()
        };
        // An abort of an earlier holder must not stop this one.
        remove_other_aborts(&mut taken.annotations, me);
        match (decide(existing.as_ref(), me, unchanged, *duration), &existing) {
            (Acquire::TakeOver(reason), _) => {
                if let TakeoverReason::Expired(holder) = &reason {
                    tracing::warn!("taking over the lock {}, which {holder} no longer renews", requests.display());
                }
                // The API server accepts no larger number.
                taken.transitions =
                    (taken.transitions + i64::from(reason != TakeoverReason::Mine)).min(i32::MAX.into());
            }
            (Acquire::HeldBy { holder, left: unobserved }, Some(lease)) => {
                let name = requests.display();
                let (since, expires) = (lease.acquired, lease.expires());
                // A clock of another machine is no proof, but a reason to wait for the proof.
                let seems_dead = lease.seems_expired(now) && !observation.renewed() && unobserved <= *duration;
                let patience = if seems_dead { unobserved } else { Duration::ZERO };
                let left = timeout.saturating_sub(began.elapsed()).max(patience);
                if left.is_zero() {
                    return Err(LockError::Held { lease: name, holder, since, expires });
                }
                // A warning, so that every user sees it: otherwise the command seems to hang.
                if !announced && seems_dead {
                    let expired = expires.map(|at| format!(" and expired at {at:.0}")).unwrap_or_default();
                    let seconds = unobserved.as_secs_f64().ceil();
                    tracing::warn!(
                        "the lock {name} is held by {holder}{expired}; taking it over in {seconds} s unless it is renewed"
                    );
                } else if !announced {
                    tracing::warn!("waiting for the lock {name}, which {holder} holds");
                }
                announced = true;
                let pause = Duration::from_secs_f64(0.5 + requests.transport.jitter());
                tokio::time::sleep(pause.min(left).min(unobserved)).await;
                continue;
            }
            (Acquire::Create | Acquire::HeldBy { .. }, _) => {}
        }
        // A write that ends after the duration of the lock is useless.
        let writer = LeaseRequests { transport: requests.transport.within(*duration), ..requests.clone() };
        match writer.write(&taken).await {
            Ok(lease) => return Ok(HeldLock::start(requests, lease, sent)),
            Err(error) => requests.wait_after(error, &mut races).await?,
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

    const SECOND: Duration = Duration::from_secs(1);

    fn decide_for(existing: Option<&LeaseView>, me: &str, unchanged: Duration) -> Acquire {
        decide(existing, me, unchanged, 20 * SECOND)
    }

    #[test]
    fn free_lease_can_be_taken() {
        assert_eq!(decide_for(None, "me", Duration::ZERO), Acquire::Create);
        for holder in [None, Some(String::new())] {
            let lease = LeaseView { holder, ..held(0) };
            let decision = decide_for(Some(&lease), "me", Duration::ZERO);
            assert_eq!(decision, Acquire::TakeOver(TakeoverReason::Released));
        }
        let mine = decide_for(Some(&held(0)), "other", Duration::ZERO);
        assert_eq!(mine, Acquire::TakeOver(TakeoverReason::Mine));
    }

    #[test]
    fn lease_is_held_until_it_was_unchanged_for_its_duration() {
        let holder = "other".to_owned();
        let unknown = LeaseView { duration: None, renewed: None, ..held(0) };
        for (lease, duration) in [(held(0), 30 * SECOND), (unknown, 20 * SECOND)] {
            for unchanged in [Duration::ZERO, SECOND, duration - Duration::from_nanos(1)] {
                let wanted = Acquire::HeldBy { holder: holder.clone(), left: duration - unchanged };
                assert_eq!(decide_for(Some(&lease), "me", unchanged), wanted, "{unchanged:?}");
            }
            let wanted = Acquire::TakeOver(TakeoverReason::Expired(holder.clone()));
            assert_eq!(decide_for(Some(&lease), "me", duration), wanted);
        }
    }

    #[test]
    fn lease_seems_expired_by_its_own_times() {
        assert_eq!(held(10).expires(), Some(at(40)));
        assert!(!held(10).seems_expired(at(40)));
        assert!(held(10).seems_expired(at(41)));
        assert!(LeaseView { duration: None, ..held(10) }.seems_expired(at(11)));
    }

    #[test]
    fn error_names_the_holder_and_the_expiry() {
        let error = LockError::Held {
            lease: "kube-system/nodecfg-prod".to_owned(),
            holder: "ci-7_12_00".to_owned(),
            since: Some(at(0)),
            expires: Some(at(30)),
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
