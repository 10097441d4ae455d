//! Simulation of reconcilers with the real rules of expiry, one Lease, and clocks that differ.

use proptest::prelude::*;

use super::*;
use crate::lock::{Acquire, decide};

const DURATION: Duration = Duration::from_secs(30);

/// A reconciler: what it observes, the version of the Lease that it read, and the end of its own lock.
#[derive(Default)]
struct Reconciler {
    observation: Observation,
    read: Option<(u64, Acquire)>,
    until: Option<Instant>,
}

/// What one reconciler does next.
#[derive(Debug, Clone, Copy)]
enum Action {
    /// Reads the Lease.
    Read,
    /// Takes or renews the Lease by the read before, and gets the response this much later, in seconds.
    Write(u64),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![Just(Action::Read), (0..40u64).prop_map(Action::Write)]
}

proptest! {
    #[test]
    fn never_two_holders_with_any_clocks(
        skews in prop::collection::vec(-7200..7200i64, 3),
        actions in prop::collection::vec((0..3usize, 0..20u64, action()), 1..120),
    ) {
        let mut now = Moment::now();
        let mut stored: (u64, Option<LeaseView>) = (0, None);
        let mut reconcilers: [Reconciler; 3] = Default::default();
        for (index, seconds, action) in actions {
            now = now.after(Duration::from_secs(seconds));
            let (me, clock) = (index.to_string(), now.time + SignedDuration::from_secs(skews[index]));
            let reconciler = &mut reconcilers[index];
            match action {
                Action::Read => {
                    let lease = stored.1.as_ref();
                    let unchanged = lease.map(|lease| reconciler.observation.see(lease, now.instant)).unwrap_or_default();
                    reconciler.read = Some((stored.0, decide(lease, &me, unchanged, DURATION)));
                }
                Action::Write(response) => {
                    let sent = now;
                    let Some((version, decision)) = reconciler.read.take() else { continue };
                    if version != stored.0 || matches!(decision, Acquire::HeldBy { .. }) {
                        continue;
                    }
                    let lease = LeaseView {
                        holder: Some(me),
                        duration: SignedDuration::try_from(DURATION).ok(),
                        renewed: Some(clock),
                        ..LeaseView::default()
                    };
                    stored = (version + 1, Some(lease));
                    now = now.after(Duration::from_secs(response));
                    reconciler.until = Some(sent.after(DURATION).instant);
                }
            }
            let holders = reconcilers.iter().filter(|reconciler| reconciler.until.is_some_and(|until| now.instant < until));
            prop_assert!(holders.count() <= 1);
        }
    }
}

#[test]
fn only_a_change_of_the_lock_starts_the_observation_again() {
    let now = Moment::now();
    let at = |seconds| now.after(Duration::from_secs(seconds));
    let lease = LeaseView { holder: Some("other".to_owned()), renewed: Some(now.time), ..LeaseView::default() };
    let mut observation = Observation::default();
    assert_eq!(observation.see(&lease, at(0).instant), Duration::ZERO);
    let order = LeaseView {
        annotations: BTreeMap::from([("order".to_owned(), "pause".to_owned())]),
        resource_version: "2".to_owned(),
        ..lease.clone()
    };
    assert_eq!(observation.see(&order, at(20).instant), Duration::from_secs(20));
    assert!(!observation.renewed());
    let renewed = LeaseView { renewed: Some(at(1).time), ..order };
    assert_eq!(observation.see(&renewed, at(25).instant), Duration::ZERO);
    assert!(observation.renewed());
    assert_eq!(observation.see(&renewed, at(30).instant), Duration::from_secs(5));
}

#[test]
fn lock_ends_by_the_clocks_that_do_not_step() {
    let start = Moment::now();
    let end = start.after(DURATION);
    let late = start.after(DURATION + Duration::from_secs(1));
    assert!(!end.has_come(start));
    assert!(end.has_come(end));
    assert!(end.has_come(Moment { time: start.time, ..late }), "the time of day was set back");
    assert!(!end.has_come(Moment { time: late.time, ..start }), "the time of day was set forward");
    assert!(end.has_come(Moment { instant: start.instant, ..late }), "the machine was suspended");
}
