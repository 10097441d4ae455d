//! A weekly window: days of the week, a time of the day in a time zone, and a length.

use std::fmt;
use std::time::Duration;

use jiff::civil::{Date, Time, Weekday};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{Span, Timestamp};

use serde_json::json;

use super::{earlier, later};
use crate::fields::{At, ReadField, map};
use kubelet_config::finding::nearest;
use kubelet_config::values::duration;

/// Maximum length of a window: the time until it opens again.
const MAX_LENGTH: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// The number of findings after which an unknown time zone gets no proposal.
const MAX_PROPOSING: usize = 200;
/// Names of the days, from Monday on.
const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

map! {
    /// A window that opens on some days of each week.
    #[derive(PartialEq, Eq)]
    pub struct Window {
        /// Day or days, and time of the day, at which it opens: Sat 22:00, Mon-Fri 22:00, or 22:00 for each day.
        #[required("start: \"Sat 22:00\"")]
        #[schema(json!({
            "pattern": "^((Mon|Tue|Wed|Thu|Fri|Sat|Sun)(-(Mon|Tue|Wed|Thu|Fri|Sat|Sun))? )?([01][0-9]|2[0-3]):[0-5][0-9]$",
        }))]
        "start" => start: Start,
        /// Time from its opening to its end, at most 168h. A change of the clocks does not change it.
        #[required("length: 6h")]
        #[check(allowed_length)]
        "length" => length: Duration,
        /// Time zone of the start, by its name in the IANA time zone database, such as Europe/Berlin.
        #[required("timeZone: UTC")]
        "timeZone" => zone: TimeZone,
    }
}

fn allowed_length(length: Duration, at: &mut At<'_>) -> Option<Duration> {
    if length.is_zero() || length > MAX_LENGTH {
        at.refuse("it must be greater than 0 and at most 168h", "write a duration such as 6h");
        return None;
    }
    Some(length)
}

/// Start of a window: `Sat 22:00`, `Mon-Fri 22:00`, or `22:00` on each day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// First and last day, which may be of the next week. `None`: each day.
    days: Option<(Weekday, Weekday)>,
    time: Time,
}

/// A text that is no start of a window.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The name of a day is unknown.
    #[error("unknown day {0:?}")]
    Day(String),
    /// The time of the day is invalid.
    #[error("{0:?} is no time from 00:00 to 23:59")]
    Time(String),
}

impl Start {
    /// Reads `[DAY[-DAY] ]HH:MM`.
    ///
    /// # Errors
    /// The part that is invalid.
    pub fn parse(text: &str) -> Result<Self, StartError> {
        let (days, time) = match text.split_once(' ') {
            Some((days, time)) => {
                let (first, last) = days.split_once('-').unwrap_or((days, days));
                (Some((day(first)?, day(last)?)), time)
            }
            None => (None, text),
        };
        let two = |part: &str| {
            let is_number = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
            part.parse::<i8>().ok().filter(|_| is_number)
        };
        let read = time.split_once(':').and_then(|(hour, minute)| Time::new(two(hour)?, two(minute)?, 0, 0).ok());
        read.map(|time| Self { days, time }).ok_or_else(|| StartError::Time(time.to_owned()))
    }

    /// Names of the days, from Monday on.
    pub fn days() -> impl Iterator<Item = &'static str> {
        DAYS.into_iter()
    }

    fn is_on(&self, date: Date) -> bool {
        self.days.is_none_or(|(first, last)| first.until(date.weekday()) <= first.until(last))
    }
}

impl ReadField for Start {
    type Schema = String;

    fn read(at: &mut At<'_>) -> Option<Self> {
        at.parse(|text| {
            Self::parse(text).map_err(|error| {
                let near = match &error {
                    StartError::Day(day) => nearest(day, Self::days()).map(|near| text.replacen(day.as_str(), near, 1)),
                    StartError::Time(_) => None,
                };
                let help = near.map_or_else(
                    || "write \"Sat 22:00\", \"Mon-Fri 22:00\", or \"22:00\" for each day".to_owned(),
                    |near| format!("did you mean {near}?"),
                );
                (error.to_string(), help)
            })
        })
    }
}

impl ReadField for TimeZone {
    type Schema = String;

    fn read(at: &mut At<'_>) -> Option<Self> {
        // The search compares with 600 names, and a repository may have thousands of windows.
        let proposes = at.findings.len() < MAX_PROPOSING;
        at.parse(|text| {
            let database = TimeZoneDatabase::bundled();
            database.get(text).map_err(|_| {
                let known: Vec<String> =
                    database.available().filter(|_| proposes).map(|name| name.to_string()).collect();
                let help = match nearest(text, known.iter().map(String::as_str)) {
                    Some(near) => format!("did you mean {near}?"),
                    None => "write a name of the IANA time zone database such as Europe/Berlin or UTC".to_owned(),
                };
                (format!("unknown time zone {text:?}"), help)
            })
        })
    }
}

fn day(text: &str) -> Result<Weekday, StartError> {
    let number = DAYS.iter().position(|name| *name == text).and_then(|index| i8::try_from(index).ok());
    number
        .and_then(|index| Weekday::from_monday_zero_offset(index).ok())
        .ok_or_else(|| StartError::Day(text.to_owned()))
}

impl fmt::Display for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |day: Weekday| usize::try_from(day.to_monday_zero_offset()).ok().and_then(|index| DAYS.get(index));
        if let Some((first, last)) = self.days {
            write!(f, "{}", name(first).unwrap_or(&""))?;
            if first != last {
                write!(f, "-{}", name(last).unwrap_or(&""))?;
            }
            f.write_str(" ")?;
        }
        write!(f, "{:02}:{:02}", self.time.hour(), self.time.minute())
    }
}

impl fmt::Display for Window {
    /// `Sat 22:00 for 6h Europe/Berlin`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let zone = self.zone.iana_name().unwrap_or("UTC");
        write!(f, "{} for {} {zone}", self.start, duration::format(self.length))
    }
}

impl Window {
    /// The openings that overlap the time between `from` and `to`, with their ends. A start that the clocks of the
    /// zone skip is as much later as they skip. Of a start that comes twice, the first counts.
    pub(super) fn openings(&self, from: Timestamp, to: Timestamp) -> impl Iterator<Item = (Timestamp, Timestamp)> + '_ {
        let date = |at: Timestamp| self.zone.to_datetime(at).date();
        let day = Span::new().days(1);
        // The clocks of a zone may skip a whole day.
        let first = date(earlier(from, self.length)).saturating_sub(day);
        let last = date(to);
        let days = first.series(day).take_while(move |date| *date <= last).filter(|date| self.start.is_on(*date));
        let opens = |date: Date| self.zone.to_ambiguous_timestamp(date.to_datetime(self.start.time)).compatible().ok();
        days.filter_map(opens)
            .map(|opens| (opens, later(opens, self.length)))
            .filter(move |(opens, until)| *until > from && *opens < to)
    }
}
