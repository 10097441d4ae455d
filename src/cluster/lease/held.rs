//! A lock that is held: renewed in the background, given up in the end, and known to be lost when it is.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use super::{LeaseRequests, LeaseView, Record};
use crate::cluster::error::ClusterError;
use crate::cluster::operation::Operation;
use crate::cluster::transport::Transport;

/// How long giving the lock up may take. It would expire anyway.
const RELEASE_PATIENCE: Duration = Duration::from_secs(5);

/// Where a lock stands.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// It is held until then, unless renewed before.
    Held(Timestamp),
    /// It is not held any more, for this reason.
    Lost(String),
}

/// The lock of a fleet, held. Dropping it gives it up as well, without waiting for the server.
#[derive(Debug)]
pub struct HeldLock {
    view: LockView,
    stop: Option<oneshot::Sender<()>>,
    task: Option<JoinHandle<()>>,
}

/// A view of a lock, for those who may write only while it is held.
#[derive(Debug, Clone)]
pub struct LockView {
    lease: String,
    transport: Transport,
    state: watch::Receiver<State>,
}

impl LockView {
    /// Refuses an operation when the lock is not held any more. A process that was asleep past the expiry is told here,
    /// before its renewal has had a chance to notice.
    ///
    /// # Errors
    /// [`ClusterError::LockLost`].
    pub fn check(&self, operation: &Operation) -> Result<(), ClusterError> {
        let reason = match &*self.state.borrow() {
            State::Held(until) if self.transport.server_time() <= *until => return Ok(()),
            State::Held(until) => format!("it expired at {until:.0}"),
            State::Lost(reason) => reason.clone(),
        };
        Err(ClusterError::LockLost { operation: Box::new(operation.clone()), lease: self.lease.clone(), reason })
    }

    /// Waits until the lock is lost, and says how. Never ends while it is held.
    pub async fn lost(&self) -> String {
        let mut state = self.state.clone();
        let lost = state.wait_for(|state| matches!(state, State::Lost(_))).await;
        match lost.as_deref() {
            Ok(State::Lost(reason)) => reason.clone(),
            _ => "it was given up".to_owned(),
        }
    }
}

impl HeldLock {
    pub(super) fn keep(requests: LeaseRequests, lease: LeaseView, renewed: Timestamp) -> Self {
        let until = end_of(renewed, requests.options.duration);
        let (tell, state) = watch::channel(State::Held(until));
        let view = LockView { lease: requests.display(), transport: requests.transport.clone(), state };
        let (stop, stopped) = oneshot::channel();
        let keeper = Keeper { requests, lease, until, tell };
        Self { view, stop: Some(stop), task: Some(tokio::spawn(keeper.run(stopped))) }
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

fn end_of(renewed: Timestamp, duration: Duration) -> Timestamp {
    SignedDuration::try_from(duration).ok().and_then(|d| renewed.checked_add(d).ok()).unwrap_or(renewed)
}

/// Renews one Lease.
struct Keeper {
    requests: LeaseRequests,
    lease: LeaseView,
    until: Timestamp,
    tell: watch::Sender<State>,
}

impl Keeper {
    async fn run(mut self, mut stopped: oneshot::Receiver<()>) {
        let pause = self.requests.options.duration / 3;
        loop {
            tokio::select! {
                _ = &mut stopped => break,
                () = tokio::time::sleep(pause) => {}
            }
            let renewal = tokio::select! {
                _ = &mut stopped => break,
                renewal = self.renew() => renewal,
            };
            if let Err(reason) = renewal {
                tracing::warn!("the lock {} was lost: {reason}", self.requests.display());
                self.tell.send_replace(State::Lost(reason));
                return;
            }
            self.tell.send_replace(State::Held(self.until));
        }
        self.tell.send_replace(State::Lost("it was given up".to_owned()));
        match self.release().await {
            Ok(()) => {}
            // Every run to come would find the lock held, and a long one would lose it on the way.
            Err(error @ ClusterError::Forbidden { .. }) => {
                tracing::warn!("the lock {} is left to expire: {error}. {}", self.requests.display(), error.help());
            }
            Err(error) => tracing::debug!("the lock {} is left to expire: {error}", self.requests.display()),
        }
    }

    /// Renews the Lease, trying until it expires.
    async fn renew(&mut self) -> Result<(), String> {
        loop {
            let now = self.requests.transport.server_time();
            let left = Duration::try_from(self.until.duration_since(now)).unwrap_or_default();
            let requests = LeaseRequests { transport: self.requests.transport.within(left), ..self.requests.clone() };
            let record = self.record(&requests.options.identity, requests.options.duration, now);
            match requests.write(record, Some(&self.lease.resource_version)).await {
                Ok(lease) => {
                    self.lease = lease;
                    self.until = end_of(now, requests.options.duration);
                    return Ok(());
                }
                Err(ClusterError::NotFound { .. }) => return Err("the Lease was deleted".to_owned()),
                Err(ClusterError::Conflict { .. }) => match requests.get().await {
                    Ok(Some(lease)) if lease.holder.as_deref() == Some(&requests.options.identity) => {
                        self.lease = lease
                    }
                    Ok(Some(lease)) => {
                        let holder = lease.holder.filter(|holder| !holder.is_empty());
                        return Err(format!("{} has it now", holder.as_deref().unwrap_or("nobody")));
                    }
                    Ok(None) => return Err("the Lease was deleted".to_owned()),
                    Err(error) => tracing::debug!("{error}"),
                },
                Err(error) if left.is_zero() => return Err(format!("it could not be renewed in time: {error}")),
                Err(error) => tracing::debug!("{error}"),
            }
            tokio::time::sleep(self.requests.options.duration / 30).await;
        }
    }

    fn record<'a>(&'a self, holder: &'a str, duration: Duration, renewed: Timestamp) -> Record<'a> {
        let acquired = self.lease.acquired.unwrap_or(renewed);
        Record {
            holder,
            duration,
            acquired,
            renewed,
            transitions: self.lease.transitions,
            annotations: &self.lease.annotations,
        }
    }

    /// Gives the Lease up as client-go does: nobody's, and about to expire.
    async fn release(&mut self) -> Result<(), ClusterError> {
        let transport = self.requests.transport.within(RELEASE_PATIENCE);
        let requests = LeaseRequests { transport, ..self.requests.clone() };
        let record = self.record("", Duration::from_secs(1), requests.transport.server_time());
        match requests.write(record, Some(&self.lease.resource_version)).await {
            // A renewal may have been under way when the end came.
            Err(ClusterError::Conflict { .. }) => match requests.get().await? {
                Some(lease) if lease.holder.as_deref() == Some(&requests.options.identity) => {
                    // What was ordered meanwhile stays.
                    let record = Record { annotations: &lease.annotations, ..record };
                    requests.write(record, Some(&lease.resource_version)).await.map(drop)
                }
                _ => Ok(()),
            },
            result => result.map(drop),
        }
    }
}
