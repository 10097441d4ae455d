//! Property tests: a change never runs outside of the schedule, and the next start is the first one.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use proptest::collection::vec;
use proptest::prelude::*;

use super::window::{Start, Window};
use super::*;

const ZONES: [&str; 5] = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia"];
const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

fn zone(index: usize) -> TimeZone {
    jiff::tz::TimeZoneDatabase::bundled().get(ZONES[index]).unwrap()
}

fn minutes(number: i64) -> SignedDuration {
    SignedDuration::from_mins(number)
}

prop_compose! {
    fn windows()(first in 0..7_usize, last in prop::option::of(0..7_usize), of_day in 0..1440_u32, length in 1..300_u64, zone_index in 0..ZONES.len()) -> Window {
        let days = last.map_or_else(|| DAYS[first].to_owned(), |last| format!("{}-{}", DAYS[first], DAYS[last]));
        let start = Start::parse(&format!("{days} {:02}:{:02}", of_day / 60, of_day % 60)).unwrap();
        Window { start, length: Duration::from_secs(length * 60 * 15), zone: zone(zone_index) }
    }
}

prop_compose! {
    fn schedules()(windows in vec(windows(), 0..4), excluded in vec((-20_000..20_000_i64, -100..9_000_i64), 0..4)) -> Schedule {
        let exclusion = |(from, length): (i64, i64)| {
            let from = base() + minutes(from);
            Exclusion { from, to: from + minutes(length), reason: "freeze".to_owned() }
        };
        Schedule { windows, exclusions: excluded.into_iter().map(exclusion).collect(), outside: None }
    }
}

/// Some days before clocks change in Europe, and not in America.
fn base() -> Timestamp {
    "2026-10-20T00:00:00Z".parse().unwrap()
}

/// Reports whether the schedule is open at a time, from its definition: a window has opened at most its length ago, and
/// no exclusion contains the time.
fn is_open(schedule: &Schedule, at: Timestamp) -> bool {
    let has_opened = |window: &Window| {
        let earliest = at - SignedDuration::try_from(window.length).unwrap();
        window.openings(earliest - minutes(3 * 1440), at + minutes(1)).any(|(opens, _)| earliest < opens && opens <= at)
    };
    let is_excluded = |exclusion: &Exclusion| exclusion.from <= at && at < exclusion.to;
    (schedule.windows.is_empty() || schedule.windows.iter().any(has_opened))
        && !schedule.exclusions.iter().any(is_excluded)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn change_never_runs_outside(schedule in schedules(), at in -15_000..15_000_i64, need in 0..4_000_u64) {
        let (now, need) = (base() + minutes(at), Duration::from_secs(need * 60));
        let steps = (0..i64::try_from(need.as_secs() / 60).unwrap().max(1)).step_by(7);
        let stays_open = steps.map(|step| now + minutes(step)).all(|at| is_open(&schedule, at));
        match schedule.check(now, Class::Restart, need) {
            Ok(()) => prop_assert!(stays_open, "it closes before the end"),
            Err(closed) => {
                // An exclusion may be shorter than a step.
                let ends = later(now, need);
                let briefly = schedule.exclusions.iter().any(|one| one.from < one.to && one.to > now && one.from < ends);
                prop_assert!(!stays_open || briefly || !is_open(&schedule, ends - minutes(1)), "{closed:?}");
                if let Some(next) = closed.next {
                    prop_assert!(next > now);
                    prop_assert_eq!(schedule.check(next, Class::Restart, need), Ok(()));
                    prop_assert!(schedule.check(next - minutes(1), Class::Restart, need).is_err() || next - minutes(1) < now);
                }
            }
        }
    }
}
