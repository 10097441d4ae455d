//! The end of somebody else's hold of a lock: given up, lost because its holder died, or not in the time there was.

use std::time::Duration;

use jiff::Timestamp;

use super::{Acquire, LeaseView, Reason, decide, look};
use crate::error::ClusterError;
use crate::reader::ClusterReader;
use nodecfg_contract::names::FleetName;

/// How often to look whether the lock has been given up.
const LOOK: Duration = Duration::from_millis(500);

/// How a holder stands to a lock that they had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HoldEnd {
    /// They gave it up.
    GivenUp,
    /// They have stopped renewing it.
    Died(Dead),
    /// They still hold it.
    StillHeld,
}

/// A holder who did not give up the lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dead {
    /// The identity.
    pub holder: String,
    /// Since when they had the lock, if they said.
    pub since: Option<Timestamp>,
    /// Until when it was theirs, if they said.
    pub expired: Option<Timestamp>,
}

/// Who held the lock and neither renews it nor gave it up.
#[must_use]
pub fn dead(view: Option<&LeaseView>, now: Timestamp) -> Option<Dead> {
    let view = view?;
    let Acquire::TakeOver(Reason::Expired(holder)) = decide(Some(view), "", now) else { return None };
    let expired = view.renewed.zip(view.duration).and_then(|(renewed, held)| renewed.checked_add(held).ok());
    Some(Dead { holder, since: view.acquired, expired })
}

/// How this holder stands to the lock.
fn hold(view: Option<&LeaseView>, holder: &str, now: Timestamp) -> HoldEnd {
    if let Some(dead) = dead(view, now).filter(|dead| dead.holder == holder) {
        return HoldEnd::Died(dead);
    }
    match decide(view, "", now) {
        Acquire::HeldBy { holder: found, .. } if found == holder => HoldEnd::StillHeld,
        _ => HoldEnd::GivenUp,
    }
}

/// Waits, at most so long, until the lock of a fleet is not this holder's any more. What is ordered does not matter here: it may
/// be garbled by now.
///
/// # Errors
/// Every [`ClusterError`] of a request.
pub async fn until_end(
    reader: &ClusterReader,
    namespace: &str,
    fleet: &FleetName,
    holder: &str,
    timeout: Duration,
) -> Result<HoldEnd, ClusterError> {
    let deadline = nodecfg_clock::instant() + timeout;
    loop {
        let view = look(reader, namespace, fleet).await?;
        let end = hold(view.as_ref(), holder, reader.server_time());
        let left = deadline.saturating_duration_since(nodecfg_clock::instant());
        if end != HoldEnd::StillHeld || left.is_zero() {
            return Ok(end);
        }
        tokio::time::sleep(LOOK.min(left)).await;
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).expect("in range")
    }

    #[test]
    fn a_hold_ends_when_it_is_given_up_or_its_holder_dies() {
        let held = LeaseView {
            holder: Some("other".to_owned()),
            duration: Some(SignedDuration::from_secs(30)),
            acquired: Some(at(0)),
            renewed: Some(at(10)),
            ..LeaseView::default()
        };
        let died = Dead { holder: "other".to_owned(), since: Some(at(0)), expired: Some(at(40)) };
        assert_eq!(hold(Some(&held), "other", at(40)), HoldEnd::StillHeld);
        assert_eq!(hold(Some(&held), "other", at(41)), HoldEnd::Died(died.clone()));
        assert_eq!(dead(Some(&held), at(41)), Some(died));
        // Somebody has it after them, and may have died since.
        for now in [40, 41] {
            assert_eq!(hold(Some(&held), "before", at(now)), HoldEnd::GivenUp, "{now}");
        }
        let released = LeaseView { holder: None, ..held };
        assert_eq!(hold(Some(&released), "other", at(20)), HoldEnd::GivenUp);
        assert_eq!(hold(None, "other", at(20)), HoldEnd::GivenUp);
        assert_eq!(dead(Some(&released), at(99)), None);
    }
}
