//! Held lock of a fleet. Renews the Lease in the background, reports its loss and releases it at the end. Also
//! publishes the orders in the Lease.

use std::time::Duration;

use jiff::SignedDuration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use super::{LeaseRequests, LeaseView, Moment, OrderError};
use crate::connection::error::ClusterError;
use crate::connection::operation::{Operation, Resource, Verb};
use nodecfg_observed::Orders;
use nodecfg_observed::orders::remove_other_aborts;

/// Time limit of the release. The lock would expire anyway.
const RELEASE_PATIENCE: Duration = Duration::from_secs(5);

/// State of a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
enum LockState {
    /// Held until this moment, unless renewed before.
    Held(Moment),
    /// Lost, with the reason.
    Lost(String),
}

/// Held lock of a fleet. Dropping it releases the lock too, without waiting for the server.
#[derive(Debug)]
pub struct HeldLock {
    view: LockView,
    orders: watch::Receiver<Orders>,
    queries: mpsc::Sender<OrderQuery>,
    stop: Option<oneshot::Sender<()>>,
    task: Option<JoinHandle<()>>,
}

/// Query for the orders in the current Lease.
type OrderQuery = oneshot::Sender<Result<Orders, OrderError>>;

/// View of a lock, for writers that may write only while the lock is held.
#[derive(Debug, Clone)]
pub struct LockView {
    lease: String,
    state: watch::Receiver<LockState>,
}

impl LockView {
    /// Refuses an operation when the lock is no longer held. Also detects the expiry in a process that slept past it,
    /// before the next renewal does.
    pub fn check(&self, operation: &Operation) -> Result<(), ClusterError> {
        let reason = match &*self.state.borrow() {
            LockState::Held(until) if !until.has_come(Moment::now()) => return Ok(()),
            LockState::Held(until) => format!("it expired at {:.0}", until.time),
            LockState::Lost(reason) => reason.clone(),
        };
        Err(self.lost_for(operation, reason))
    }

    fn lost_for(&self, operation: &Operation, reason: String) -> ClusterError {
        ClusterError::LockLost { operation: Box::new(operation.clone()), lease: self.lease.clone(), reason }
    }

    /// Operation of reading the Lease.
    fn get_operation(&self) -> Operation {
        let (namespace, name) = self.lease.split_once('/').unwrap_or(("", &self.lease));
        Operation::on(Verb::Get, Resource::Leases, Some(namespace), name)
    }

    /// Waits until the lock is lost and returns the reason. Never ends while the lock is held.
    pub async fn lost(&self) -> String {
        let mut state = self.state.clone();
        let lost = state.wait_for(|state| matches!(state, LockState::Lost(_))).await;
        match lost.as_deref() {
            Ok(LockState::Lost(reason)) => reason.clone(),
            _ => "it was released".to_owned(),
        }
    }
}

impl HeldLock {
    /// Starts the renewals of a Lease whose first write was sent at `sent`.
    pub(super) fn start(requests: LeaseRequests, lease: LeaseView, sent: Moment) -> Self {
        let until = sent.after(requests.options.duration);
        let (state_sender, state) = watch::channel(LockState::Held(until));
        let view = LockView { lease: requests.display(), state };
        let (stop, stopped) = oneshot::channel();
        let (publish, orders) = watch::channel(Orders::default());
        let (queries, received) = mpsc::channel(1);
        let mut renewer = Renewer { requests, lease, until, state: state_sender, publish, reported_error: None };
        // The planner reads the orders again and gets the error then.
        let _ = renewer.publish_orders();
        Self { view, orders, queries, stop: Some(stop), task: Some(tokio::spawn(renewer.run(stopped, received))) }
    }

    /// Orders of the fleet, at most some seconds old. Contains an abort only if it is for this holder. Unreadable
    /// orders change nothing here and are logged.
    #[must_use]
    pub fn orders(&self) -> watch::Receiver<Orders> {
        self.orders.clone()
    }

    /// Reads the current orders of the fleet. [`orders`](Self::orders) is at least as new afterwards.
    ///
    /// # Errors
    /// [`OrderError`]; it contains [`ClusterError::LockLost`] when the lock is no longer held.
    pub async fn read_orders(&self) -> Result<Orders, OrderError> {
        let (reply_to, reply) = oneshot::channel();
        // No reply comes when the lock is lost.
        let _ = self.queries.send(reply_to).await;
        match reply.await {
            Ok(orders) => orders,
            Err(_) => {
                let reason = self.view.lost().await;
                Err(self.view.lost_for(&self.view.get_operation(), reason).into())
            }
        }
    }

    /// Namespace and name of the Lease.
    #[must_use]
    pub fn lease(&self) -> &str {
        &self.view.lease
    }

    /// View for writers.
    #[must_use]
    pub fn view(&self) -> LockView {
        self.view.clone()
    }

    /// Waits until the lock is lost and returns the reason. Never ends while the lock is held.
    pub async fn lost(&self) -> String {
        self.view.lost().await
    }

    /// Releases the lock. Waits for the server, at most a few seconds.
    pub async fn release(mut self) {
        drop(self.stop.take());
        if let Some(task) = self.task.take() {
            // The task ends by itself; a panic in it was reported before.
            let _ = task.await;
        }
    }
}

/// Reason for the loss of a Lease that this process no longer holds.
fn loss_reason(lease: Option<LeaseView>) -> String {
    let Some(lease) = lease else { return "the Lease was deleted".to_owned() };
    let holder = lease.holder.filter(|holder| !holder.is_empty());
    format!("{} holds it now", holder.as_deref().unwrap_or("no client"))
}

/// Background task that renews one Lease.
struct Renewer {
    requests: LeaseRequests,
    lease: LeaseView,
    until: Moment,
    state: watch::Sender<LockState>,
    publish: watch::Sender<Orders>,
    /// Error of unreadable orders that was logged last.
    reported_error: Option<OrderError>,
}

impl Renewer {
    async fn run(mut self, mut stopped: oneshot::Receiver<()>, mut queries: mpsc::Receiver<OrderQuery>) {
        let every = self.requests.options.duration / 3;
        // The first write may have taken long.
        let mut next = self.until.instant - self.requests.options.duration + every;
        let mut deferred: Option<OrderQuery> = None;
        let mut renewals = tokio::time::interval_at(next, every);
        renewals.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Users wait for the effect of their orders, so the orders are read more often than the Lease is renewed.
        let mut order_polls = tokio::time::interval(self.poll_interval());
        order_polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
        order_polls.tick().await;
        loop {
            // A due renewal has priority. A read before it ends when the renewal is due.
            tokio::select! {
                biased;
                _ = &mut stopped => break,
                _ = renewals.tick() => next = nodecfg_clock::instant() + every,
                _ = order_polls.tick() => {
                    tokio::select! {
                        _ = &mut stopped => break,
                        // The next renewal finds any error.
                        _ = self.read(self.poll_interval().min(next.saturating_duration_since(nodecfg_clock::instant()))) => {}
                    }
                    continue;
                }
                Some(reply_to) = queries.recv() => {
                    let found = self.read(next.saturating_duration_since(nodecfg_clock::instant())).await;
                    // A query without enough time is repeated after the renewal.
                    if found.is_err() && nodecfg_clock::instant() >= next {
                        deferred = Some(reply_to);
                        renewals.reset();
                        next = nodecfg_clock::instant() + every;
                    } else {
                        // The receiver may be closed.
                        let _ = reply_to.send(found);
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
                self.state.send_replace(LockState::Lost(reason));
                return;
            }
            self.state.send_replace(LockState::Held(self.until));
            if let Some(reply_to) = deferred.take() {
                let _ = reply_to.send(self.read(next.saturating_duration_since(nodecfg_clock::instant())).await);
            }
        }
        self.state.send_replace(LockState::Lost("it was released".to_owned()));
        match self.release().await {
            Ok(()) => {}
            // A warning: every later run would find the lock held, and a long run could lose the lock.
            Err(error @ ClusterError::Forbidden { .. }) => {
                tracing::warn!(
                    "the lock {} stays until it expires: {error}. {}",
                    self.requests.display(),
                    error.help()
                );
            }
            Err(error) => tracing::debug!("the lock {} stays until it expires: {error}", self.requests.display()),
        }
    }

    /// Interval of reading the orders.
    fn poll_interval(&self) -> Duration {
        self.requests.options.duration / 15
    }

    /// Stores a Lease that was read and publishes its orders.
    fn store_lease(&mut self, lease: LeaseView) -> Result<Orders, OrderError> {
        self.lease = lease;
        self.publish_orders()
    }

    fn publish_orders(&mut self) -> Result<Orders, OrderError> {
        match self.requests.orders(&self.lease) {
            Ok(mut orders) => {
                self.reported_error = None;
                orders.abort = orders.abort.filter(|abort| abort.holder == self.requests.options.identity);
                self.publish.send_if_modified(|known| {
                    let new = *known != orders;
                    known.clone_from(&orders);
                    new
                });
                Ok(orders)
            }
            Err(error) => {
                if self.reported_error.as_ref() != Some(&error) {
                    tracing::warn!("{error}. The previous orders stay in force. {}", error.help());
                    self.reported_error = Some(error.clone());
                }
                Err(error)
            }
        }
    }

    /// Reads the Lease and publishes its orders. Leaves the lock state to the next renewal.
    async fn read(&mut self, patience: Duration) -> Result<Orders, OrderError> {
        let transport = self.requests.transport.within(patience);
        let requests = LeaseRequests { transport, ..self.requests.clone() };
        match requests.get().await? {
            Some(lease) if lease.holder.as_deref() == Some(&self.requests.options.identity) => self.store_lease(lease),
            other => {
                let (operation, lease) = (self.requests.operation(Verb::Get), self.requests.display());
                let reason = loss_reason(other);
                Err(ClusterError::LockLost { operation: Box::new(operation), lease, reason }.into())
            }
        }
    }

    /// Renews the Lease. Retries until the Lease expires.
    async fn renew(&mut self) -> Result<(), String> {
        loop {
            // Before the request: another client may see the renewal long before its response arrives here.
            let sent = Moment::now();
            let now = self.requests.transport.server_time();
            let left = self.until.instant.saturating_duration_since(sent.instant);
            let requests = LeaseRequests { transport: self.requests.transport.within(left), ..self.requests.clone() };
            let renewed = LeaseView {
                holder: Some(requests.options.identity.clone()),
                duration: SignedDuration::try_from(requests.options.duration).ok(),
                renewed: Some(now),
                ..self.lease.clone()
            };
            match requests.write(&renewed).await {
                Ok(lease) => {
                    // An error was logged before.
                    let _ = self.store_lease(lease);
                    self.until = sent.after(requests.options.duration);
                    return Ok(());
                }
                Err(ClusterError::NotFound { .. }) => return Err("the Lease was deleted".to_owned()),
                Err(ClusterError::Conflict { .. }) => match requests.get().await {
                    // Another client wrote an order: publish it here; the next attempt keeps it.
                    Ok(Some(lease)) if lease.holder.as_deref() == Some(&requests.options.identity) => {
                        let _ = self.store_lease(lease);
                    }
                    Ok(other) => return Err(loss_reason(other)),
                    Err(error) => tracing::debug!("{error}"),
                },
                Err(error) if left.is_zero() => return Err(format!("it could not be renewed in time: {error}")),
                Err(error) => tracing::debug!("{error}"),
            }
            tokio::time::sleep(self.requests.options.duration / 30).await;
        }
    }

    /// Releases the Lease as client-go does: without a holder, and with a duration of one second.
    async fn release(&mut self) -> Result<(), ClusterError> {
        let transport = self.requests.transport.within(RELEASE_PATIENCE);
        let requests = LeaseRequests { transport, ..self.requests.clone() };
        let now = requests.transport.server_time();
        let released = |lease: LeaseView| {
            let (holder, duration) = (Some(String::new()), Some(SignedDuration::from_secs(1)));
            let mut lease = LeaseView { holder, duration, renewed: Some(now), ..lease };
            // Removes every abort: this holder has obeyed its own, and the others are for earlier holders.
            remove_other_aborts(&mut lease.annotations, "");
            lease
        };
        match requests.write(&released(self.lease.clone())).await {
            // A renewal may have been in progress at the end.
            Err(ClusterError::Conflict { .. }) => match requests.get().await? {
                Some(lease) if lease.holder.as_deref() == Some(&requests.options.identity) => {
                    // Keeps orders that were written in between.
                    requests.write(&released(lease)).await.map(drop)
                }
                _ => Ok(()),
            },
            result => result.map(drop),
        }
    }
}
