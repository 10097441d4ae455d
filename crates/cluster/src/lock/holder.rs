//! Holder of a lock as its Lease shows it, for display and for `abort`. The expiry is by the holder's clock: it is
//! information, and never a reason to take the lock.

use std::time::Duration;

use jiff::Timestamp;

use super::observation::Observation;
use super::{Acquire, LeaseView, LockOptions, decide, read};
use crate::connection::error::ClusterError;
use crate::reading::reader::ClusterReader;
use nodecfg_contract::names::FleetName;

/// Interval of reading the lock.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Interval of reading the lock while a whole rollout is waited for.
const FREE_POLL_INTERVAL: Duration = Duration::from_secs(2);

/// State of a previous holder of a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HoldState {
    /// The holder no longer holds the lock: it released the lock, or another client took it.
    Released,
    /// The holder no longer renews the lock.
    Expired(ExpiredHolder),
    /// The holder still holds the lock.
    StillHeld,
}

/// Holder that did not release an expired lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpiredHolder {
    /// Identity of the holder.
    pub holder: String,
    /// Time of the acquisition, if the Lease contains it.
    pub since: Option<Timestamp>,
    /// Time of the expiry, if the Lease contains it.
    pub expired: Option<Timestamp>,
}

/// Identity of the holder of a lock, unless the lock seems expired.
#[must_use]
pub fn current_holder(view: Option<&LeaseView>, now: Timestamp) -> Option<&str> {
    view.filter(|view| !view.seems_expired(now))?.holder()
}

/// Holder of a lock that seems expired and was not released.
#[must_use]
pub fn expired_holder(view: Option<&LeaseView>, now: Timestamp) -> Option<ExpiredHolder> {
    let view = view.filter(|view| view.seems_expired(now))?;
    Some(ExpiredHolder { holder: view.holder()?.to_owned(), since: view.acquired, expired: view.expires() })
}

/// Waits until no client holds the lock of a fleet, by the rule of [`acquire`](super::acquire): an expired lock ends after
/// this process has seen it unchanged for its duration.
pub async fn wait_until_free(reader: &ClusterReader, namespace: &str, fleet: &FleetName) -> Result<(), ClusterError> {
    let fallback = LockOptions::new(namespace, fleet.clone(), String::new()).duration;
    let mut observation = Observation::default();
    loop {
        let view = read(reader, namespace, fleet).await?;
        let unchanged = view.as_ref().map(|view| observation.see(view, nodecfg_clock::instant())).unwrap_or_default();
        // No client has an empty identity.
        let Acquire::HeldBy { left, .. } = decide(view.as_ref(), "", unchanged, fallback) else { return Ok(()) };
        tokio::time::sleep(FREE_POLL_INTERVAL.min(left)).await;
    }
}

/// State of `holder`, a present or previous holder of the lock.
fn hold_state(view: Option<&LeaseView>, holder: &str, now: Timestamp) -> HoldState {
    if let Some(expired) = expired_holder(view, now).filter(|expired| expired.holder == holder) {
        return HoldState::Expired(expired);
    }
    if current_holder(view, now) == Some(holder) { HoldState::StillHeld } else { HoldState::Released }
}

/// Waits, at most `timeout`, until this holder no longer holds the lock of a fleet. Ignores the orders, which may be
/// unreadable.
pub async fn wait_for_release(
    reader: &ClusterReader,
    namespace: &str,
    fleet: &FleetName,
    holder: &str,
    timeout: Duration,
) -> Result<HoldState, ClusterError> {
    let began = nodecfg_clock::instant();
    loop {
        let view = read(reader, namespace, fleet).await?;
        let end = hold_state(view.as_ref(), holder, reader.server_time());
        let left = timeout.saturating_sub(began.elapsed());
        if end != HoldState::StillHeld || left.is_zero() {
            return Ok(end);
        }
        tokio::time::sleep(POLL_INTERVAL.min(left)).await;
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use serde_json::json;

    use super::*;
    use crate::connection::fake;
    use crate::connection::fake::Reply;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).expect("in range")
    }

    /// `abort` reports the end of the sync that it stopped.
    #[tokio::test]
    async fn release_is_awaited() {
        let lease = |holder: &str| {
            let spec = json!({"holderIdentity": holder, "leaseDurationSeconds": 3600,
                "renewTime": nodecfg_clock::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()});
            Reply::Json(200, json!({"metadata": {"name": "nodecfg-prod", "resourceVersion": "7"}, "spec": spec}))
        };
        let (reader, log) = fake::reader(vec![lease("other"), lease("")]);
        let fleet = FleetName::new("prod").expect("a name");
        let end = wait_for_release(&reader, "kube-system", &fleet, "other", Duration::from_secs(3600)).await;
        assert_eq!((end, log.all().len()), (Ok(HoldState::Released), 2));
    }

    #[test]
    fn hold_ends_by_release_or_expiry() {
        let held = LeaseView {
            holder: Some("other".to_owned()),
            duration: Some(SignedDuration::from_secs(30)),
            acquired: Some(at(0)),
            renewed: Some(at(10)),
            ..LeaseView::default()
        };
        let died = ExpiredHolder { holder: "other".to_owned(), since: Some(at(0)), expired: Some(at(40)) };
        assert_eq!(hold_state(Some(&held), "other", at(40)), HoldState::StillHeld);
        assert_eq!(hold_state(Some(&held), "other", at(41)), HoldState::Expired(died.clone()));
        assert_eq!(expired_holder(Some(&held), at(41)), Some(died));
        // Another client holds the lock now, or held it before it expired.
        for now in [40, 41] {
            assert_eq!(hold_state(Some(&held), "before", at(now)), HoldState::Released, "{now}");
        }
        let released = LeaseView { holder: None, ..held };
        assert_eq!(hold_state(Some(&released), "other", at(20)), HoldState::Released);
        assert_eq!(hold_state(None, "other", at(20)), HoldState::Released);
        assert_eq!(expired_holder(Some(&released), at(99)), None);
    }
}
