//! Reader of `spec.rollout.windows` and `spec.rollout.exclusions`, and their check against the rest of the policy.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::fields::Fields;
use super::read::{duration_of, missing_field};
use crate::RolloutPolicy;
use crate::formats::WindowList;
use crate::schedule::window::{Start, StartError, Window};
use crate::schedule::{Exclusion, Schedule, later};
use kubelet_config::document::Node;
use kubelet_config::duration;
use kubelet_config::finding::Finding;
use kubelet_config::spelling::nearest;

/// Keys of a window.
pub(crate) const WINDOW: [&str; 3] = ["start", "length", "timeZone"];
/// Keys of an exclusion.
pub(crate) const EXCLUSION: [&str; 3] = ["from", "to", "reason"];

/// Maximum number of windows, and of exclusions, of one file. Bounds the time of a search for the next opening.
const MAX_ENTRIES: usize = 50;
/// The number of findings after which an unknown time zone gets no proposal.
const MAX_PROPOSING: usize = 200;
/// Maximum length of a window: the time until it opens again.
const MAX_LENGTH: Duration = Duration::from_secs(7 * 24 * 60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum length of a reason, in characters.
const MAX_REASON: usize = 200;
/// Start of the year for which the length of the windows is checked. Fixed, so that the same files give the same
/// findings.
const CHECKED_YEAR: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// Reads the windows of a rollout policy. `None`: those of the fleet apply.
pub(crate) fn windows(rollout: &Fields<'_>, findings: &mut Vec<Finding>) -> Option<WindowList> {
    let node = rollout.get("windows")?;
    let list = entries(rollout, "windows", findings);
    let windows = list.into_iter().filter_map(|(path, node)| window(node, &path, findings)).collect();
    Some(WindowList { windows, place: node.place.clone() })
}

/// Reads the exclusions of a rollout policy.
pub(crate) fn exclusions(rollout: &Fields<'_>, findings: &mut Vec<Finding>) -> Vec<Exclusion> {
    let list = entries(rollout, "exclusions", findings);
    list.into_iter().filter_map(|(path, node)| exclusion(node, &path, findings)).collect()
}

/// Entries of a list with the path of each.
fn entries<'n>(rollout: &Fields<'n>, key: &str, findings: &mut Vec<Finding>) -> Vec<(String, &'n Node)> {
    let list = rollout.list(key, findings);
    if list.len() > MAX_ENTRIES
        && let Some(node) = rollout.get(key)
    {
        let finding =
            rollout.bad_value(key, node, &format!("{} entries, at most {MAX_ENTRIES} are allowed", list.len()));
        findings.push(finding.help("remove entries that have no effect"));
    }
    let path = rollout.path(key);
    list.iter().take(MAX_ENTRIES).enumerate().map(|(at, node)| (format!("{path}[{at}]"), node)).collect()
}

fn window(node: &Node, path: &str, findings: &mut Vec<Finding>) -> Option<Window> {
    let fields = Fields::open(node, path, &WINDOW, findings)?;
    for (key, example) in [("start", "start: \"Sat 22:00\""), ("length", "length: 6h"), ("timeZone", "timeZone: UTC")] {
        if fields.get(key).is_none() {
            findings.push(missing_field(&fields, key, example));
        }
    }
    let (start, length, zone) = (start(&fields, findings), length(&fields, findings), zone(&fields, findings));
    Some(Window { start: start?, length: length?, zone: zone? })
}

fn start(fields: &Fields<'_>, findings: &mut Vec<Finding>) -> Option<Start> {
    let (text, _) = fields.text("start", findings)?;
    let node = fields.get("start")?;
    Start::parse(text)
        .map_err(|error| {
            let near = match &error {
                StartError::Day(day) => nearest(day, Start::days()).map(|near| text.replacen(day.as_str(), near, 1)),
                StartError::Time(_) => None,
            };
            let help = near.map_or_else(
                || "write \"Sat 22:00\", \"Mon-Fri 22:00\", or \"22:00\" for each day".to_owned(),
                |near| format!("did you mean {near}?"),
            );
            findings.push(fields.bad_value("start", node, &error.to_string()).help(help));
        })
        .ok()
}

fn length(fields: &Fields<'_>, findings: &mut Vec<Finding>) -> Option<Duration> {
    let length = duration_of(fields, "length", findings)?;
    if length.is_zero() || length > MAX_LENGTH {
        let node = fields.get("length")?;
        let finding = fields.bad_value("length", node, "it must be greater than 0 and at most 168h");
        findings.push(finding.help("write a duration such as 6h"));
        return None;
    }
    Some(length)
}

fn zone(fields: &Fields<'_>, findings: &mut Vec<Finding>) -> Option<TimeZone> {
    let (text, _) = fields.text("timeZone", findings)?;
    let database = TimeZoneDatabase::bundled();
    database
        .get(text)
        .map_err(|_| {
            // The search compares with 600 names, and a repository may have thousands of windows.
            let known: Vec<String> = if findings.len() < MAX_PROPOSING {
                database.available().map(|name| name.to_string()).collect()
            } else {
                Vec::new()
            };
            let help = match nearest(text, known.iter().map(String::as_str)) {
                Some(near) => format!("did you mean {near}?"),
                None => "write a name of the IANA time zone database such as Europe/Berlin or UTC".to_owned(),
            };
            if let Some(node) = fields.get("timeZone") {
                findings.push(fields.bad_value("timeZone", node, &format!("unknown time zone {text:?}")).help(help));
            }
        })
        .ok()
}

fn exclusion(node: &Node, path: &str, findings: &mut Vec<Finding>) -> Option<Exclusion> {
    let fields = Fields::open(node, path, &EXCLUSION, findings)?;
    let example = "2026-12-18T00:00:00Z";
    for (key, value) in [("from", example), ("to", "2027-01-04T00:00:00Z"), ("reason", "freeze")] {
        if fields.get(key).is_none() {
            findings.push(missing_field(&fields, key, &format!("{key}: {value}")));
        }
    }
    let mut time = |key: &str| {
        let (text, _) = fields.text(key, findings)?;
        let node = fields.get(key)?;
        text.parse::<Timestamp>()
            .map_err(|_| {
                let finding = fields.bad_value(key, node, &format!("{text:?} is no time with an offset (RFC 3339)"));
                findings.push(finding.help(format!("write {example}")));
            })
            .ok()
    };
    let (from, to) = (time("from"), time("to"));
    let reason = reason(&fields, findings);
    let (from, to, reason) = (from?, to?, reason?);
    if to <= from {
        let finding = fields.bad_value("to", fields.get("to")?, "it must be after `from`");
        findings.push(finding.help(format!("write {}, or another later time", later(from, DAY))));
        return None;
    }
    Some(Exclusion { from, to, reason })
}

fn reason(fields: &Fields<'_>, findings: &mut Vec<Finding>) -> Option<String> {
    let (text, _) = fields.text("reason", findings)?;
    let node = fields.get("reason")?;
    if text.trim().is_empty() || text.chars().count() > MAX_REASON || text.chars().any(char::is_control) {
        let problem = format!("it must be one line of 1 to {MAX_REASON} characters");
        findings.push(fields.bad_value("reason", node, &problem).help("write a reason such as freeze"));
        return None;
    }
    Some(text.trim().to_owned())
}

/// Checks that the windows of a policy are long enough for a node, and for the soak time of its canaries. `None`: they
/// are.
pub(crate) fn too_short(policy: &RolloutPolicy) -> Option<Finding> {
    let Schedule { windows, outside, .. } = &policy.schedule;
    if windows.is_empty() || outside.is_some_and(|outside| policy.allow_disruption <= outside) {
        return None;
    }
    let longest = policy.schedule.longest(CHECKED_YEAR);
    let node = policy.node_time(policy.drains_nodes());
    let of_canaries = policy.canary.map_or(Duration::ZERO, |canary| canary.soak);
    let soak = policy.order.as_ref().map_or(of_canaries, |order| order.soak.max(of_canaries));
    // Nodes that converged in an earlier window soak again before the next nodes start.
    let (needed, who) = if longest < node {
        (node, "a node may take")
    } else if longest < node + soak {
        (node + soak, "a soak time and a node after it take")
    } else {
        return None;
    };
    let parts =
        if policy.drains_nodes() { "convergenceTimeout, drain.timeout and drain.settle" } else { "convergenceTimeout" };
    let message = format!(
        "`spec.rollout.windows`: the longest is {}, but {who} up to {}, so no node could start",
        duration::format(longest),
        duration::format(needed)
    );
    let help = format!("lengthen a window to at least {}, or lower {parts}", duration::format(needed));
    Some(Finding::error("window-too-short", message).field("spec.rollout.windows").help(help))
}
