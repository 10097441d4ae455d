//! A lock that is held: renewed in the background, given up in the end, and known to be lost when it is. What people order
//! beside it is heard meanwhile.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use super::{LeaseRequests, LeaseView, OrderError, Record};
use crate::error::ClusterError;
use crate::operation::{Operation, Resource, Verb};
use crate::transport::Transport;
use nodecfg_contract::observed::Orders;
use nodecfg_contract::observed::orders::forget_aborts_of_others;

/// How long giving the lock up may take. It would expire anyway.
const RELEASE_PATIENCE: Duration = Duration::from_secs(5);

/// Where a lock stands.
#[derive(Debug, Clone, PartialEq, Eq)]
enum LockState {
    /// It is held until then, unless renewed before.
    Held(Timestamp),
    /// It is not held any more, for this reason.
    Lost(String),
}

/// The lock of a fleet, held. Dropping it gives it up as well, without waiting for the server.
#[derive(Debug)]
pub struct HeldLock {
    view: LockView,
    orders: watch::Receiver<Orders>,
    ask: mpsc::Sender<Asked>,
    stop: Option<oneshot::Sender<()>>,
    task: Option<JoinHandle<()>>,
}

/// Somebody who wants to know what is ordered, as the Lease says now.
type Asked = oneshot::Sender<Result<Orders, OrderError>>;

/// A view of a lock, for those who may write only while it is held.
#[derive(Debug, Clone)]
pub struct LockView {
    lease: String,
    transport: Transport,
    state: watch::Receiver<LockState>,
}

impl LockView {
    /// Refuses an operation when the lock is not held any more. A process that was asleep past the expiry is told here,
    /// before its renewal has had a chance to notice.
    ///
    /// # Errors
    /// [`ClusterError::LockLost`].
    pub fn check(&self, operation: &Operation) -> Result<(), ClusterError> {
        let reason = match &*self.state.borrow() {
            LockState::Held(until) if self.transport.server_time() <= *until => return Ok(()),
            LockState::Held(until) => format!("it expired at {until:.0}"),
            LockState::Lost(reason) => reason.clone(),
        };
        Err(self.lost_for(operation, reason))
    }

    fn lost_for(&self, operation: &Operation, reason: String) -> ClusterError {
        ClusterError::LockLost { operation: Box::new(operation.clone()), lease: self.lease.clone(), reason }
    }

    /// The operation of reading the Lease.
    fn reading(&self) -> Operation {
        let (namespace, name) = self.lease.split_once('/').unwrap_or(("", &self.lease));
        Operation::on(Verb::Get, Resource::Leases, Some(namespace), name)
    }

    /// Waits until the lock is lost, and says how. Never ends while it is held.
    pub async fn lost(&self) -> String {
        let mut state = self.state.clone();
        let lost = state.wait_for(|state| matches!(state, LockState::Lost(_))).await;
        match lost.as_deref() {
            Ok(LockState::Lost(reason)) => reason.clone(),
            _ => "it was given up".to_owned(),
        }
    }
}

impl HeldLock {
    pub(super) fn keep(requests: LeaseRequests, lease: LeaseView, renewed: Timestamp) -> Self {
        let until = end_of(renewed, requests.options.duration);
        let (tell, state) = watch::channel(LockState::Held(until));
        let view = LockView { lease: requests.display(), transport: requests.transport.clone(), state };
        let (stop, stopped) = oneshot::channel();
        let (publish, orders) = watch::channel(Orders::default());
        let (ask, asked) = mpsc::channel(1);
        let mut keeper = Keeper { requests, lease, until, tell, publish, garbled: None };
        // Whoever plans asks anew, and is told what is wrong.
        let _ = keeper.heard();
        Self { view, orders, ask, stop: Some(stop), task: Some(tokio::spawn(keeper.run(stopped, asked))) }
    }

    /// What is ordered of the fleet, as heard in the last seconds; an abort only if it is for this holder. What cannot be
    /// understood changes nothing here, and is logged.
    #[must_use]
    pub fn orders(&self) -> watch::Receiver<Orders> {
        self.orders.clone()
    }

    /// Reads what is ordered of the fleet now. [`orders`](Self::orders) is at least as new afterwards.
    ///
    /// # Errors
    /// [`OrderError`]; [`ClusterError::LockLost`] in it when the lock is not held any more.
    pub async fn look(&self) -> Result<Orders, OrderError> {
        let (answer, answered) = oneshot::channel();
        // Nobody answers when the lock is lost.
        let _ = self.ask.send(answer).await;
        match answered.await {
            Ok(orders) => orders,
            Err(_) => {
                let reason = self.view.lost().await;
                Err(self.view.lost_for(&self.view.reading(), reason).into())
            }
        }
    }

    /// Namespace and name of the Lease.
    #[must_use]
    pub fn lease(&self) -> &str {
        &self.view.lease
    }

    /// A view for writers.
    #[must_use]
    pub fn view(&self) -> LockView {
        self.view.clone()
    }

    /// Waits until the lock is lost, and says how. Never ends while it is held.
    pub async fn lost(&self) -> String {
        self.view.lost().await
    }

    /// Gives the lock up, and waits until the server knows it or a few seconds have passed.
    pub async fn release(mut self) {
        drop(self.stop.take());
        if let Some(task) = self.task.take() {
            // It ends by itself; a panic in it has been reported already.
            let _ = task.await;
        }
    }
}

/// Who has a Lease that is not held any more.
fn whose(lease: Option<LeaseView>) -> String {
    let Some(lease) = lease else { return "the Lease was deleted".to_owned() };
    let holder = lease.holder.filter(|holder| !holder.is_empty());
    format!("{} has it now", holder.as_deref().unwrap_or("nobody"))
}

fn end_of(renewed: Timestamp, duration: Duration) -> Timestamp {
    SignedDuration::try_from(duration).ok().and_then(|d| renewed.checked_add(d).ok()).unwrap_or(renewed)
}

/// Renews one Lease.
struct Keeper {
    requests: LeaseRequests,
    lease: LeaseView,
    until: Timestamp,
    tell: watch::Sender<LockState>,
    publish: watch::Sender<Orders>,
    /// What of the orders could not be understood, as it was last said.
    garbled: Option<OrderError>,
}

impl Keeper {
    async fn run(mut self, mut stopped: oneshot::Receiver<()>, mut asked: mpsc::Receiver<Asked>) {
        let every = self.requests.options.duration / 3;
        let mut next = nodecfg_clock::instant() + every;
        let mut owed: Option<Asked> = None;
        let mut pace = tokio::time::interval(every);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        pace.tick().await;
        // People who order something wait for it, and a renewal may be ten seconds away.
        let mut ears = tokio::time::interval(self.listening());
        ears.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ears.tick().await;
        loop {
            // A renewal that is due goes before all else, and what is looked at before it ends when it is due.
            tokio::select! {
                biased;
                _ = &mut stopped => break,
                _ = pace.tick() => next = nodecfg_clock::instant() + every,
                _ = ears.tick() => {
                    tokio::select! {
                        _ = &mut stopped => break,
                        // What is wrong with it is for the next renewal to find.
                        _ = self.look(self.listening().min(next.saturating_duration_since(nodecfg_clock::instant()))) => {}
                    }
                    continue;
                }
                Some(answer) = asked.recv() => {
                    let found = self.look(next.saturating_duration_since(nodecfg_clock::instant())).await;
                    // What there was no time for is asked again once the lock is renewed.
                    if found.is_err() && nodecfg_clock::instant() >= next {
                        owed = Some(answer);
                        pace.reset();
                        next = nodecfg_clock::instant() + every;
                    } else {
                        // Whoever asked may have gone.
                        let _ = answer.send(found);
                        continue;
                    }
                }
            }
            let renewal = tokio::select! {
                _ = &mut stopped => break,
                renewal = self.renew() => renewal,
            };
            if let Err(reason) = renewal {
                tracing::warn!("the lock {} was lost: {reason}", self.requests.display());
                self.tell.send_replace(LockState::Lost(reason));
                return;
            }
            self.tell.send_replace(LockState::Held(self.until));
            if let Some(answer) = owed.take() {
                let _ = answer.send(self.look(next.saturating_duration_since(nodecfg_clock::instant())).await);
            }
        }
        self.tell.send_replace(LockState::Lost("it was given up".to_owned()));
        match self.release().await {
            Ok(()) => {}
            // Every run to come would find the lock held, and a long one would lose it on the way.
            Err(error @ ClusterError::Forbidden { .. }) => {
                tracing::warn!("the lock {} is left to expire: {error}. {}", self.requests.display(), error.help());
            }
            Err(error) => tracing::debug!("the lock {} is left to expire: {error}", self.requests.display()),
        }
    }

    /// How often it is looked whether something was ordered.
    fn listening(&self) -> Duration {
        self.requests.options.duration / 15
    }

    /// Takes a Lease as it was read, and publishes what it orders.
    fn take(&mut self, lease: LeaseView) -> Result<Orders, OrderError> {
        self.lease = lease;
        self.heard()
    }

    fn heard(&mut self) -> Result<Orders, OrderError> {
        match self.requests.orders(&self.lease) {
            Ok(mut orders) => {
                self.garbled = None;
                orders.abort = orders.abort.filter(|abort| abort.holder == self.requests.options.identity);
                self.publish.send_if_modified(|known| {
                    let new = *known != orders;
                    known.clone_from(&orders);
                    new
                });
                Ok(orders)
            }
            Err(error) => {
                if self.garbled.as_ref() != Some(&error) {
                    tracing::warn!("{error}. Until it can be read, what was ordered before counts. {}", error.help());
                    self.garbled = Some(error.clone());
                }
                Err(error)
            }
        }
    }

    /// Reads the Lease. That somebody else has it is for the next renewal to find.
    async fn look(&mut self, patience: Duration) -> Result<Orders, OrderError> {
        let transport = self.requests.transport.within(patience);
        let requests = LeaseRequests { transport, ..self.requests.clone() };
        match requests.get().await? {
            Some(lease) if lease.holder.as_deref() == Some(&self.requests.options.identity) => self.take(lease),
            other => {
                let (operation, lease) = (self.requests.operation(Verb::Get), self.requests.display());
                let reason = whose(other);
                Err(ClusterError::LockLost { operation: Box::new(operation), lease, reason }.into())
            }
        }
    }

    /// Renews the Lease, trying until it expires.
    async fn renew(&mut self) -> Result<(), String> {
        loop {
            let now = self.requests.transport.server_time();
            let left = Duration::try_from(self.until.duration_since(now)).unwrap_or_default();
            let requests = LeaseRequests { transport: self.requests.transport.within(left), ..self.requests.clone() };
            let record =
                self.record(&requests.options.identity, requests.options.duration, now, &self.lease.annotations);
            match requests.write(record, Some(&self.lease.resource_version)).await {
                Ok(lease) => {
                    // Said already where it cannot be understood.
                    let _ = self.take(lease);
                    self.until = end_of(now, requests.options.duration);
                    return Ok(());
                }
                Err(ClusterError::NotFound { .. }) => return Err("the Lease was deleted".to_owned()),
                Err(ClusterError::Conflict { .. }) => match requests.get().await {
                    // Somebody has ordered something: it is heard here, and kept by the next attempt.
                    Ok(Some(lease)) if lease.holder.as_deref() == Some(&requests.options.identity) => {
                        let _ = self.take(lease);
                    }
                    Ok(other) => return Err(whose(other)),
                    Err(error) => tracing::debug!("{error}"),
                },
                Err(error) if left.is_zero() => return Err(format!("it could not be renewed in time: {error}")),
                Err(error) => tracing::debug!("{error}"),
            }
            tokio::time::sleep(self.requests.options.duration / 30).await;
        }
    }

    fn record<'a>(
        &self,
        holder: &'a str,
        duration: Duration,
        renewed: Timestamp,
        annotations: &'a BTreeMap<String, String>,
    ) -> Record<'a> {
        Record {
            holder: Some(holder),
            seconds: Some(duration.as_secs()),
            acquired: Some(self.lease.acquired.unwrap_or(renewed)),
            renewed: Some(renewed),
            transitions: self.lease.transitions,
            annotations,
        }
    }

    /// Gives the Lease up as client-go does: nobody's, and about to expire.
    async fn release(&mut self) -> Result<(), ClusterError> {
        let transport = self.requests.transport.within(RELEASE_PATIENCE);
        let requests = LeaseRequests { transport, ..self.requests.clone() };
        let now = requests.transport.server_time();
        // An abort of this holder is carried out.
        let left = |lease: &LeaseView| {
            let mut annotations = lease.annotations.clone();
            forget_aborts_of_others(&mut annotations, "");
            annotations
        };
        let annotations = left(&self.lease);
        let record = self.record("", Duration::from_secs(1), now, &annotations);
        match requests.write(record, Some(&self.lease.resource_version)).await {
            // A renewal may have been under way when the end came.
            Err(ClusterError::Conflict { .. }) => match requests.get().await? {
                Some(lease) if lease.holder.as_deref() == Some(&requests.options.identity) => {
                    // What was ordered meanwhile stays.
                    let record = Record { annotations: &left(&lease), ..record };
                    requests.write(record, Some(&lease.resource_version)).await.map(drop)
                }
                _ => Ok(()),
            },
            result => result.map(drop),
        }
    }
}
