//! Compares the schedule with an oracle that walks through a year minute by minute and only reads the clock of the zone.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::window::{Start, Window};
use super::*;

/// Minutes of a week before the year, so that the oracle knows the windows that are open at its start.
const WARM_UP: i64 = 8 * 24 * 60;

fn zone(name: &str) -> TimeZone {
    jiff::tz::TimeZoneDatabase::bundled().get(name).unwrap()
}

fn window(start: &str, hours: u64, zone_name: &str) -> Window {
    Window { start: Start::parse(start).unwrap(), length: Duration::from_secs(hours * 3600), zone: zone(zone_name) }
}

/// Reads a start in the oracle's own way: the numbers of its days from Monday on, and the minute of the day.
fn days_and_minute(start: &str) -> (BTreeSet<i8>, i16) {
    let names = "MonTueWedThuFriSatSun";
    let number = |name: &str| i8::try_from(names.find(name).unwrap() / 3).unwrap();
    let (days, time) = start.rsplit_once(' ').unwrap_or(("Mon-Sun", start));
    let (first, last) = days.split_once('-').unwrap_or((days, days));
    let (first, last) = (number(first), number(last));
    let days = if first <= last { (first..=last).collect() } else { (first..7).chain(0..=last).collect() };
    let minute = |text: &str| text.parse::<i16>().unwrap();
    (days, minute(&time[..2]) * 60 + minute(&time[3..]))
}

/// Minutes of a window that are left, at each minute from `WARM_UP` minutes before `from`.
struct Walk {
    zone: TimeZone,
    days: BTreeSet<i8>,
    minute: i16,
    length: i64,
    local: DateTime,
    /// Dates on which the window has opened.
    opened: BTreeSet<jiff::civil::Date>,
    /// Minutes until an opening that the clocks skipped.
    skipped: Vec<i64>,
    left: i64,
}

impl Walk {
    fn new(start: &str, hours: i64, zone: TimeZone, at: Timestamp) -> Self {
        let (days, minute) = days_and_minute(start);
        let before = zone.to_datetime(at - SignedDuration::from_mins(1));
        Self {
            zone,
            days,
            minute,
            length: hours * 60,
            local: before,
            opened: BTreeSet::new(),
            skipped: Vec::new(),
            left: 0,
        }
    }

    /// Moves to the next minute, and reports whether the window is open.
    fn is_open(&mut self, at: Timestamp) -> bool {
        let local = self.zone.to_datetime(at);
        self.left -= 1;
        self.skipped.retain_mut(|wait| {
            *wait -= 1;
            if *wait == 0 {
                self.left = self.left.max(self.length);
            }
            *wait > 0
        });
        // The local minutes since the last one: one, or more when the clocks skip some. None when they go back.
        let mut passed = self.local + SignedDuration::from_mins(1);
        let mut offset = 0;
        while passed <= local {
            let of_day = i16::from(passed.hour()) * 60 + i16::from(passed.minute());
            let is_start = of_day == self.minute && self.days.contains(&passed.weekday().to_monday_zero_offset());
            if is_start && self.opened.insert(passed.date()) {
                let is_now = passed == local;
                if is_now || offset == 0 {
                    self.left = self.left.max(self.length);
                } else {
                    self.skipped.push(offset);
                }
            }
            passed += SignedDuration::from_mins(1);
            offset += 1;
        }
        self.local = local;
        self.left > 0
    }
}

fn assert_year(start: &str, hours: u32, zone_name: &str, year: i16) {
    let schedule = Schedule { windows: vec![window(start, hours.into(), zone_name)], ..Schedule::default() };
    let first = jiff::civil::date(year, 1, 1).at(0, 0, 0, 0).to_zoned(TimeZone::UTC).unwrap().timestamp();
    let mut walk = Walk::new(start, hours.into(), zone(zone_name), first - SignedDuration::from_mins(WARM_UP));
    let end = first + SignedDuration::from_mins(366 * 24 * 60);
    let spans = schedule.open_spans(first, end);
    let edges: BTreeSet<Timestamp> = spans.iter().flat_map(|(opens, until)| [*opens, *until]).collect();
    assert!(spans.len() >= 50, "the window opens each week: {}", spans.len());
    let mut spans = spans.into_iter().peekable();
    for minute in -WARM_UP..366 * 24 * 60 {
        let at = first + SignedDuration::from_mins(minute);
        let expected = walk.is_open(at);
        if minute < 0 {
            continue;
        }
        while spans.next_if(|(_, until)| *until <= at).is_some() {}
        let is_open = spans.peek().is_some_and(|(opens, _)| *opens <= at);
        let local = zone(zone_name).to_datetime(at);
        assert_eq!(is_open, expected, "{start} for {hours}h in {zone_name} at {at}, local {local}");
        // A query at a time by itself gives the same answer.
        if edges.range(at - SignedDuration::from_mins(2)..=at + SignedDuration::from_mins(2)).next().is_some() {
            let checked = schedule.check(at, Class::Restart, Duration::from_secs(60)).is_ok();
            assert_eq!(checked, expected, "checked at {at}");
        }
    }
}

#[test]
fn year_in_berlin_agrees_minute_by_minute() {
    assert_year("Sat 22:00", 6, "Europe/Berlin", 2026);
    // Skipped in March, and twice in October.
    assert_year("Sun 02:30", 3, "Europe/Berlin", 2026);
}

#[test]
fn year_in_new_york_agrees_minute_by_minute() {
    assert_year("Fri-Mon 01:30", 20, "America/New_York", 2024);
    assert_year("02:15", 1, "America/New_York", 2026);
}

#[test]
fn year_on_lord_howe_agrees_minute_by_minute() {
    // The clocks change by half an hour.
    assert_year("Sun 02:10", 5, "Australia/Lord_Howe", 2026);
    assert_year("Sun 01:45", 160, "Australia/Lord_Howe", 2026);
}
