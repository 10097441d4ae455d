//! Times at which nodes may be touched: weekly windows in time zones, and exclusions.
//!
//! Time zones are those of the IANA database that is compiled into the program, so that the same repository gives the
//! same times on every machine.

use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::fields::{At, Fields, ReadField, bad_value, map};
use crate::hold::{Hold, HoldReason};
use kubelet_config::finding::Finding;
use kubelet_config::risk::Class;
use window::Window;

pub mod window;

#[cfg(test)]
mod oracle_tests;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum length of the reason of an exclusion, in characters.
const MAX_REASON: usize = 200;
/// Range of a search for the next start, and the longest time that fits into windows.
const YEAR: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// When the nodes of a pool may be touched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Schedule {
    /// The schedule is open in each of these windows. Without a window, it is always open.
    pub windows: Vec<Window>,
    /// Times at which it is closed for every change.
    pub exclusions: Vec<Exclusion>,
    /// Highest class of changes that may start outside of the windows. `None`: no change may, because each restarts the
    /// kubelet. Exclusions hold them, too.
    pub outside: Option<Class>,
}

map! {
    /// A time at which no node may start, for example a freeze before the holidays.
    #[derive(PartialEq, Eq)]
    #[check(ends_after_start)]
    pub struct Exclusion {
        /// Start, included: 2026-12-18T00:00:00Z.
        #[required("from: 2026-12-18T00:00:00Z")]
        "from" => from: Timestamp,
        /// End, not included: 2027-01-04T00:00:00Z.
        #[required("to: 2027-01-04T00:00:00Z")]
        "to" => to: Timestamp,
        /// Reason, which reports contain.
        #[required("reason: freeze")]
        #[schema(json!({"minLength": 1, "maxLength": MAX_REASON}))]
        #[check(one_line)]
        "reason" => reason: String,
    }
}

impl ReadField for Timestamp {
    type Schema = String;

    fn read(at: &mut At<'_>) -> Option<Self> {
        let problem = |text: &str| format!("{text:?} is no time with an offset (RFC 3339)");
        at.parse(|text| text.parse().map_err(|_| (problem(text), "write 2026-12-18T00:00:00Z".to_owned())))
    }
}

fn one_line(text: String, at: &mut At<'_>) -> Option<String> {
    if text.trim().is_empty() || text.chars().count() > MAX_REASON || text.chars().any(char::is_control) {
        let problem = format!("it must be one line of 1 to {MAX_REASON} characters");
        at.refuse(&problem, "write a reason such as freeze");
        return None;
    }
    Some(text.trim().to_owned())
}

fn ends_after_start(
    exclusion: Option<Exclusion>,
    fields: &Fields<'_>,
    findings: &mut Vec<Finding>,
) -> Option<Exclusion> {
    let exclusion = exclusion?;
    if exclusion.to <= exclusion.from {
        let finding = bad_value(&fields.path("to"), fields.get("to")?, "it must be after `from`");
        findings.push(finding.help(format!("write {}, or another later time", later(exclusion.from, DAY))));
        return None;
    }
    Some(exclusion)
}

impl fmt::Display for Schedule {
    /// Settings in the notation of `pool.yaml`: `Sat 22:00 for 6h Europe/Berlin; not 2026-… to 2027-… (freeze)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = self.windows.iter().map(ToString::to_string).collect();
        if parts.is_empty() {
            parts.push("always".to_owned());
        }
        let excluded =
            |exclusion: &Exclusion| format!("not {} to {} ({})", exclusion.from, exclusion.to, exclusion.reason);
        parts.extend(self.exclusions.iter().map(excluded));
        parts.extend(self.outside.map(|class| format!("{class} at any time")));
        f.write_str(&parts.join("; "))
    }
}

/// An open time: from its start until its end, which is not included.
type Span = (Timestamp, Timestamp);

impl Schedule {
    /// Reports whether the schedule is never closed.
    #[must_use]
    pub(crate) fn is_always_open(&self) -> bool {
        self.windows.is_empty() && self.exclusions.is_empty()
    }

    /// Checks whether a change of this class that takes at most `need` may start now.
    ///
    /// # Errors
    /// Why it may not, and when it may.
    pub fn check(&self, now: Timestamp, class: Class, need: Duration) -> Result<(), Hold> {
        if self.is_always_open() {
            return Ok(());
        }
        if self.outside.is_some_and(|outside| class <= outside) && !self.windows.is_empty() {
            return Self { windows: Vec::new(), ..self.clone() }.check(now, class, need);
        }
        let until = match self.open_spans(now, later(now, need.max(Duration::from_secs(1)))).first() {
            Some((from, until)) if *from <= now => *until,
            _ => now,
        };
        if self.can_fit(need) && now < until && later(now, need) <= until {
            return Ok(());
        }
        let in_effect = |exclusion: &&Exclusion| exclusion.from <= now && now < exclusion.to;
        let why = match self.exclusions.iter().find(in_effect) {
            Some(exclusion) => HoldReason::Exclusion { reason: exclusion.reason.clone() },
            None if until > now => HoldReason::TooShort { until },
            None => HoldReason::NoWindow,
        };
        Err(Hold { why, next: self.next_start(now, need) })
    }

    /// The first time from `from` on at which the schedule is open for `need` without a break. `None`: not within a
    /// year.
    #[must_use]
    pub fn next_start(&self, from: Timestamp, need: Duration) -> Option<Timestamp> {
        if !self.can_fit(need) {
            return None;
        }
        let spans = self.open_spans(from, later(later(from, YEAR), need));
        spans.into_iter().find(|(opens, until)| later(*opens, need) <= *until).map(|(opens, _)| opens)
    }

    fn can_fit(&self, need: Duration) -> bool {
        self.windows.is_empty() || need <= YEAR
    }

    /// The longest time that the schedule is open without a break in the year from `from`, ignoring exclusions.
    #[must_use]
    pub fn longest(&self, from: Timestamp) -> Duration {
        let spans = Self { exclusions: Vec::new(), ..self.clone() }.open_spans(from, later(from, YEAR));
        spans.into_iter().map(|(opens, until)| elapsed(opens, until)).max().unwrap_or_default()
    }

    /// The open times between two times, in order and apart, and cut off at both.
    fn open_spans(&self, from: Timestamp, to: Timestamp) -> Vec<Span> {
        let opened = if self.windows.is_empty() {
            vec![(from, to)]
        } else {
            let openings = self.windows.iter().flat_map(|window| window.openings(from, to));
            united(openings.map(|(opens, until)| (opens.max(from), until.min(to))).collect())
        };
        let excluded = self.exclusions.iter().map(|exclusion| (exclusion.from, exclusion.to));
        without(opened, &united(excluded.filter(|(from, to)| from < to).collect()))
    }
}

/// Unites times that overlap or touch.
fn united(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable();
    let mut united: Vec<Span> = Vec::new();
    for (opens, until) in spans {
        match united.last_mut() {
            Some((_, last)) if opens <= *last => *last = until.max(*last),
            _ => united.push((opens, until)),
        }
    }
    united
}

/// Removes times. Both lists are in order and apart.
fn without(spans: Vec<Span>, excluded: &[Span]) -> Vec<Span> {
    let mut left = Vec::new();
    for (mut opens, until) in spans {
        for &(from, to) in excluded {
            if to <= opens || from >= until {
                continue;
            }
            if opens < from {
                left.push((opens, from));
            }
            opens = to;
        }
        if opens < until {
            left.push((opens, until));
        }
    }
    left
}

/// The time after a duration.
#[must_use]
pub fn later(now: Timestamp, by: Duration) -> Timestamp {
    SignedDuration::try_from(by).ok().and_then(|by| now.checked_add(by).ok()).unwrap_or(Timestamp::MAX)
}

/// The time before a duration.
#[must_use]
pub fn earlier(now: Timestamp, by: Duration) -> Timestamp {
    SignedDuration::try_from(by).ok().and_then(|by| now.checked_sub(by).ok()).unwrap_or(Timestamp::MIN)
}

/// The duration since a time; zero if the time is in the future.
#[must_use]
pub fn elapsed(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}
