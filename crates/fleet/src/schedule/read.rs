//! Readers of the values of windows and exclusions.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::window::{Start, StartError};
use super::{Exclusion, later};
use crate::fields::{At, Fields, ReadField, bad_value};
use kubelet_config::finding::Finding;
use kubelet_config::spelling::nearest;

/// The number of findings after which an unknown time zone gets no proposal.
const MAX_PROPOSING: usize = 200;
/// Maximum length of a window: the time until it opens again.
const MAX_LENGTH: Duration = Duration::from_secs(7 * 24 * 60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum length of a reason, in characters.
pub(super) const MAX_REASON: usize = 200;

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

pub(super) fn length(length: Duration, at: &mut At<'_>) -> Option<Duration> {
    if length.is_zero() || length > MAX_LENGTH {
        at.refuse("it must be greater than 0 and at most 168h", "write a duration such as 6h");
        return None;
    }
    Some(length)
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

impl ReadField for Timestamp {
    type Schema = String;

    fn read(at: &mut At<'_>) -> Option<Self> {
        let problem = |text: &str| format!("{text:?} is no time with an offset (RFC 3339)");
        at.parse(|text| text.parse().map_err(|_| (problem(text), "write 2026-12-18T00:00:00Z".to_owned())))
    }
}

pub(super) fn reason(text: String, at: &mut At<'_>) -> Option<String> {
    if text.trim().is_empty() || text.chars().count() > MAX_REASON || text.chars().any(char::is_control) {
        let problem = format!("it must be one line of 1 to {MAX_REASON} characters");
        at.refuse(&problem, "write a reason such as freeze");
        return None;
    }
    Some(text.trim().to_owned())
}

pub(super) fn ends_after_start(
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
