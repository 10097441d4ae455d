//! Tables of cases of the schedule.

use jiff::tz::TimeZoneDatabase;

use super::window::{Start, StartError, Window};
use super::*;

const HOUR: u64 = 3600;

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn window(start: &str, hours: u64, zone: &str) -> Window {
    let zone = TimeZoneDatabase::bundled().get(zone).unwrap();
    Window { start: Start::parse(start).unwrap(), length: Duration::from_secs(hours * HOUR), zone }
}

fn schedule(windows: impl IntoIterator<Item = Window>) -> Schedule {
    Schedule { windows: windows.into_iter().collect(), ..Schedule::default() }
}

fn freeze(from: &str, to: &str) -> Exclusion {
    Exclusion { from: time(from), to: time(to), reason: "freeze".to_owned() }
}

/// The open times between two times, in UTC.
fn opens(schedule: &Schedule, from: &str, to: &str) -> Vec<String> {
    let text = |(opens, until): &(Timestamp, Timestamp)| format!("{opens}/{until}");
    schedule.open_spans(time(from), time(to)).iter().map(text).collect()
}

#[test]
fn windows_open_by_the_clock_of_their_zone() {
    for (start, hours, zone, from, to, expected) in [
        // Over midnight, and over the end of the week.
        (
            "Sat 22:00",
            6,
            "Europe/Berlin",
            "2026-07-04T12:00:00Z",
            "2026-07-05T12:00:00Z",
            "2026-07-04T20:00:00Z/2026-07-05T02:00:00Z",
        ),
        (
            "Sun 22:00",
            6,
            "Europe/Berlin",
            "2026-07-05T12:00:00Z",
            "2026-07-06T12:00:00Z",
            "2026-07-05T20:00:00Z/2026-07-06T02:00:00Z",
        ),
        // Open at both ends of the asked time.
        (
            "Mon 00:00",
            48,
            "UTC",
            "2026-07-06T12:00:00Z",
            "2026-07-06T13:00:00Z",
            "2026-07-06T12:00:00Z/2026-07-06T13:00:00Z",
        ),
        // The leap day is a Thursday.
        (
            "Thu 00:00",
            1,
            "UTC",
            "2024-02-28T00:00:00Z",
            "2024-03-01T00:00:00Z",
            "2024-02-29T00:00:00Z/2024-02-29T01:00:00Z",
        ),
        // The clocks go from 02:00 to 03:00: the start is an hour later by the clock.
        (
            "Sun 02:30",
            2,
            "Europe/Berlin",
            "2026-03-29T00:00:00Z",
            "2026-03-29T12:00:00Z",
            "2026-03-29T01:30:00Z/2026-03-29T03:30:00Z",
        ),
        // They go back from 03:00 to 02:00: the first 02:30 counts, and two hours stay two hours.
        (
            "Sun 02:30",
            2,
            "Europe/Berlin",
            "2026-10-25T00:00:00Z",
            "2026-10-25T12:00:00Z",
            "2026-10-25T00:30:00Z/2026-10-25T02:30:00Z",
        ),
        // Samoa skipped Friday 30 December 2011.
        (
            "Fri 10:00",
            1,
            "Pacific/Apia",
            "2011-12-28T00:00:00Z",
            "2012-01-02T00:00:00Z",
            "2011-12-30T20:00:00Z/2011-12-30T21:00:00Z",
        ),
        (
            "Fri 10:00",
            1,
            "Pacific/Apia",
            "2011-12-30T20:30:00Z",
            "2012-01-02T00:00:00Z",
            "2011-12-30T20:30:00Z/2011-12-30T21:00:00Z",
        ),
    ] {
        assert_eq!(opens(&schedule([window(start, hours, zone)]), from, to), [expected], "{start} {zone}");
    }
}

#[test]
fn windows_unite_and_exclusions_win() {
    let mut nights = schedule([window("Mon-Fri 22:00", 8, "UTC"), window("Sat 06:00", 10, "UTC")]);
    // Friday 2026-07-10 to Saturday: one window ends when the next opens.
    assert_eq!(
        opens(&nights, "2026-07-10T00:00:00Z", "2026-07-11T20:00:00Z"),
        ["2026-07-10T00:00:00Z/2026-07-10T06:00:00Z", "2026-07-10T22:00:00Z/2026-07-11T16:00:00Z"]
    );
    nights.exclusions = vec![
        freeze("2026-07-10T02:00:00Z", "2026-07-10T03:00:00Z"),
        freeze("2026-07-10T20:00:00Z", "2026-07-11T01:00:00Z"),
        // The wrong way round: has no effect.
        freeze("2026-07-11T12:00:00Z", "2026-07-11T10:00:00Z"),
    ];
    assert_eq!(
        opens(&nights, "2026-07-10T00:00:00Z", "2026-07-11T20:00:00Z"),
        [
            "2026-07-10T00:00:00Z/2026-07-10T02:00:00Z",
            "2026-07-10T03:00:00Z/2026-07-10T06:00:00Z",
            "2026-07-11T01:00:00Z/2026-07-11T16:00:00Z"
        ]
    );
    assert_eq!(nights.longest(time("2026-01-01T00:00:00Z")), Duration::from_secs(18 * HOUR));
}

#[test]
fn node_starts_only_if_it_fits() {
    let saturday = schedule([window("Sat 22:00", 6, "UTC")]);
    let check = |at: &str, minutes: u64| saturday.check(time(at), Class::Drain, Duration::from_secs(minutes * 60));
    assert_eq!(check("2026-07-04T22:00:00Z", 360), Ok(()));
    assert_eq!(check("2026-07-05T03:30:00Z", 30), Ok(()));
    assert_eq!(check("2026-07-05T03:59:00Z", 0), Ok(()));
    let closed = |why: HoldReason, next: Option<&str>| Err(Hold { why, next: next.map(time) });
    let until = time("2026-07-05T04:00:00Z");
    assert_eq!(check("2026-07-05T03:31:00Z", 30), closed(HoldReason::TooShort { until }, Some("2026-07-11T22:00:00Z")));
    assert_eq!(check("2026-07-05T04:00:00Z", 0), closed(HoldReason::NoWindow, Some("2026-07-11T22:00:00Z")));
    assert_eq!(check("2026-07-05T04:00:00Z", 360), closed(HoldReason::NoWindow, Some("2026-07-11T22:00:00Z")));
    assert_eq!(check("2026-07-04T22:00:00Z", 361), closed(HoldReason::TooShort { until }, None));
    let years = check("2026-07-04T22:00:00Z", 100 * 366 * 24 * 60);
    assert_eq!(years, closed(HoldReason::TooShort { until }, None));
}

#[test]
fn outside_of_windows_only_mild_changes_start() {
    let mut saturday = schedule([window("Sat 22:00", 6, "UTC")]);
    let at = |schedule: &Schedule, class| schedule.check(time("2026-07-01T00:00:00Z"), class, Duration::ZERO).is_ok();
    assert_eq!([Class::None, Class::Restart].map(|class| at(&saturday, class)), [false, false]);
    saturday.outside = Some(Class::Restart);
    assert_eq!([Class::None, Class::Restart, Class::Drain].map(|class| at(&saturday, class)), [true, true, false]);
    saturday.exclusions = vec![freeze("2026-06-30T00:00:00Z", "2026-07-02T00:00:00Z")];
    assert_eq!([Class::None, Class::Restart, Class::Drain].map(|class| at(&saturday, class)), [false; 3]);
}

#[test]
fn schedule_without_windows_is_closed_only_by_exclusions() {
    let mut always = Schedule::default();
    assert!(always.is_always_open());
    let check = |schedule: &Schedule, at: &str| schedule.check(time(at), Class::Never, Duration::from_secs(HOUR));
    assert_eq!(check(&always, "2026-12-20T00:00:00Z"), Ok(()));
    always.exclusions = vec![freeze("2026-12-18T00:00:00Z", "2027-01-04T00:00:00Z")];
    let opening = Some(time("2027-01-04T00:00:00Z"));
    let excluded = HoldReason::Exclusion { reason: "freeze".to_owned() };
    for at in ["2026-12-18T00:00:00Z", "2026-12-20T00:00:00Z", "2027-01-03T23:59:59Z"] {
        assert_eq!(check(&always, at), Err(Hold { why: excluded.clone(), next: opening }));
    }
    let years = Duration::from_secs(100 * 366 * 24 * HOUR);
    assert_eq!(always.check(time("2027-01-04T00:00:00Z"), Class::Never, years), Ok(()));
    let until = time("2026-12-18T00:00:00Z");
    assert_eq!(
        check(&always, "2026-12-17T23:30:00Z"),
        Err(Hold { why: HoldReason::TooShort { until }, next: opening })
    );
}

#[test]
fn start_is_read_and_written() {
    for text in ["Sat 22:00", "Mon-Fri 00:05", "Fri-Mon 23:59", "07:30"] {
        assert_eq!(Start::parse(text).unwrap().to_string(), text);
    }
    assert_eq!(Start::parse("Sat-Sat 22:00").unwrap().to_string(), "Sat 22:00");
    let day = |text: &str| Err(StartError::Day(text.to_owned()));
    let clock = |text: &str| Err(StartError::Time(text.to_owned()));
    for (text, error) in [
        ("Saturday 22:00", day("Saturday")),
        ("sat 22:00", day("sat")),
        ("Sat- 22:00", day("")),
        ("Sat 24:00", clock("24:00")),
        ("Sat 22:60", clock("22:60")),
        ("Sat 2:00", clock("2:00")),
        ("Sat +2:00", clock("+2:00")),
        ("Sat", clock("Sat")),
        ("Sat  22:00", clock(" 22:00")),
        ("", clock("")),
    ] {
        assert_eq!(Start::parse(text), error, "{text}");
    }
}
