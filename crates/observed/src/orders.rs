//! Orders of operators for a fleet: paused pools, and a request to stop a rollout.
//!
//! Orders are stored as annotations of the fleet's Lease, beside the lock, where a rollout watches them. This module
//! only reads and writes annotation values.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use kubelet_config::risk::Class;
use nodecfg_contract::names::PoolName;
use nodecfg_contract::printable::{at_most, one_line};

/// Annotation of the pauses: a JSON object of [`Pause`] by pool, or by `*` for the whole fleet.
pub const PAUSES_ANNOTATION: &str = "nodecfg.dev/pauses";
/// Annotation that requests the holder of the lock to stop: a JSON object, [`Abort`].
pub const ABORT_ANNOTATION: &str = "nodecfg.dev/abort";

/// Key of the pause of the whole fleet. No pool has this name, so that a reconciler that does not know it refuses the
/// orders instead of ignoring this pause.
const WHOLE_FLEET: &str = "*";

/// Maximum length of a reason in characters. Every plan shows it, and one object stores all reasons.
pub const LONGEST_REASON: usize = 500;
/// Maximum length of a name in characters; the rest is cut.
const LONGEST_NAME: usize = 200;

/// All orders for a fleet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Orders {
    /// Pause of the whole fleet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<Pause>,
    /// Pools that were paused one by one.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(default)]
    pub pauses: BTreeMap<PoolName, Pause>,
    /// Request to stop the rollout of one holder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub abort: Option<Abort>,
}

/// Pause of a pool, or of the whole fleet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pause {
    /// Author: the user name on the API server, or else on the author's machine.
    pub by: String,
    /// Time of the order.
    pub at: Timestamp,
    /// Reason.
    pub reason: String,
    /// Whether it pauses every pool of the fleet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub whole_fleet: bool,
    /// Disruption that the latest rollback of the paused pool was allowed beyond the pool's policy. A record: it
    /// allows nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed: Option<AllowedDisruption>,
}

impl fmt::Display for Pause {
    /// Author, time, reason and allowed disruption on one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.whole_fleet {
            f.write_str("the whole fleet, ")?;
        }
        write!(f, "by {} since {:.0}, {}", one_line(&self.by), self.at, one_line(&self.reason))?;
        self.allowed.iter().try_for_each(|allowed| write!(f, "; {allowed}"))
    }
}

/// Disruption of running pods that one run was allowed beyond the policy of its pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AllowedDisruption {
    /// Highest allowed class.
    pub class: Class,
    /// Author, as of a pause.
    pub by: String,
    /// Time of the run.
    pub at: Timestamp,
    /// Reason.
    pub reason: String,
}

impl fmt::Display for AllowedDisruption {
    /// Class, author and reason on one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "disruption up to {} allowed by {}: {}", self.class, one_line(&self.by), one_line(&self.reason))
    }
}

/// Request to stop the rollout of one holder of the lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Abort {
    /// Identity of the lock holder whose rollout must stop.
    pub holder: String,
    /// Author of the request.
    pub by: String,
    /// Time of the request.
    pub at: Timestamp,
    /// Reason, if given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether nodes that have not converged are rolled back.
    #[serde(default)]
    pub back: bool,
    /// Whether the repository pauses the fleet, and a sync found that. It stops another sync, and no rollback or reset,
    /// which operators run despite a pause.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fleet_paused: bool,
}

impl Orders {
    /// Reads the annotations of a Lease. Authors and reasons are untrusted, so they are cut and put on one line.
    ///
    /// # Errors
    /// An annotation is invalid. An invalid order must not be ignored.
    pub fn read(annotations: &BTreeMap<String, String>) -> Result<Self, String> {
        let invalid = |name: &str, error: serde_json::Error| format!("the annotation {name} cannot be read: {error}");
        let pauses = annotations.get(PAUSES_ANNOTATION).map(|text| read_pauses(text));
        let abort = annotations.get(ABORT_ANNOTATION).map(|text| serde_json::from_str(text));
        let (paused, pauses) =
            pauses.transpose().map_err(|error| invalid(PAUSES_ANNOTATION, error))?.unwrap_or_default();
        let mut orders =
            Self { paused, pauses, abort: abort.transpose().map_err(|error| invalid(ABORT_ANNOTATION, error))? };
        for pause in orders.pauses.values_mut().chain(&mut orders.paused) {
            pause.by = at_most(&one_line(&pause.by), LONGEST_NAME);
            pause.reason = at_most(&one_line(&pause.reason), LONGEST_REASON);
            if let Some(allowed) = &mut pause.allowed {
                allowed.by = at_most(&one_line(&allowed.by), LONGEST_NAME);
                allowed.reason = at_most(&one_line(&allowed.reason), LONGEST_REASON);
            }
        }
        if let Some(abort) = &mut orders.abort {
            abort.by = at_most(&one_line(&abort.by), LONGEST_NAME);
            abort.reason = abort.reason.as_deref().map(|reason| at_most(&one_line(reason), LONGEST_REASON));
        }
        Ok(orders)
    }

    /// Writes the orders into the annotations of a Lease, and keeps other annotations.
    pub fn write(&self, annotations: &mut BTreeMap<String, String>) {
        let of_pools = self.pauses.iter().map(|(pool, pause)| (pool.as_str(), pause));
        let pauses: BTreeMap<&str, &Pause> =
            self.paused.iter().map(|pause| (WHOLE_FLEET, pause)).chain(of_pools).collect();
        let pauses = (!pauses.is_empty()).then(|| serde_json::to_string(&pauses).unwrap_or_default());
        let abort = self.abort.as_ref().map(|abort| serde_json::to_string(abort).unwrap_or_default());
        for (name, value) in [(PAUSES_ANNOTATION, pauses), (ABORT_ANNOTATION, abort)] {
            match value {
                Some(value) => annotations.insert(name.to_owned(), value),
                None => annotations.remove(name),
            };
        }
    }
}

/// The pause of the whole fleet, and those of pools.
fn read_pauses(text: &str) -> serde_json::Result<(Option<Pause>, BTreeMap<PoolName, Pause>)> {
    let mut all: BTreeMap<String, Pause> = serde_json::from_str(text)?;
    all.iter_mut().for_each(|(name, pause)| pause.whole_fleet = name == WHOLE_FLEET);
    let whole = all.remove(WHOLE_FLEET);
    let of_pool = |(name, pause)| PoolName::new(name).map(|name| (name, pause)).map_err(serde::de::Error::custom);
    Ok((whole, all.into_iter().map(of_pool).collect::<serde_json::Result<_>>()?))
}

impl Orders {
    /// The pause that holds for a pool: that of the whole fleet, or else its own.
    #[must_use]
    pub fn pause_of(&self, pool: &PoolName) -> Option<&Pause> {
        self.paused.as_ref().or_else(|| self.pauses.get(pool))
    }

    /// Pauses a pool, or the whole fleet without one. Replaces and returns the previous pause.
    pub fn pause(&mut self, pool: Option<&PoolName>, pause: &Pause) -> Option<Pause> {
        match pool {
            Some(pool) => self.pauses.insert(pool.clone(), pause.clone()),
            None => self.paused.replace(Pause { whole_fleet: true, ..pause.clone() }),
        }
    }

    /// Ends and returns the pause of a pool, or that of the whole fleet without one. Other pauses stay.
    pub fn resume(&mut self, pool: Option<&PoolName>) -> Option<Pause> {
        match pool {
            Some(pool) => self.pauses.remove(pool),
            None => self.paused.take(),
        }
    }

    /// Requests a holder of the lock to stop. A request for another holder replaces the previous one. A second
    /// request for the same holder may add a rollback but not remove it, and keeps the first reason unless it has its
    /// own. That of an operator replaces that of a paused fleet, and not the reverse. Returns whether the request changed
    /// anything.
    pub fn abort(&mut self, abort: &Abort) -> bool {
        let before = self.abort.take().filter(|before| before.holder == abort.holder);
        let before = before.filter(|before| abort.fleet_paused || !before.fleet_paused);
        if let Some(before) = before.as_ref().filter(|before| before.back || !abort.back) {
            self.abort = Some(before.clone());
            return false;
        }
        let reason = abort.reason.clone().or(before.and_then(|before| before.reason));
        self.abort = Some(Abort { reason, ..abort.clone() });
        true
    }
}

/// Removes the request to stop another holder than `me`, or an unreadable one, which stops no holder.
pub fn remove_other_aborts(annotations: &mut BTreeMap<String, String>, me: &str) {
    let mine = |text: &String| serde_json::from_str::<Abort>(text).is_ok_and(|abort| abort.holder == me);
    if !annotations.get(ABORT_ANNOTATION).is_some_and(mine) {
        annotations.remove(ABORT_ANNOTATION);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_round_trip_and_keep_other_annotations() {
        let at = Timestamp::from_second(1_800_000_000).unwrap();
        let allowed =
            AllowedDisruption { class: Class::Drain, by: "bob".to_owned(), at, reason: "incident 4711".to_owned() };
        let pause = Pause {
            by: "ada".to_owned(),
            at,
            reason: "disks \"full\"".to_owned(),
            whole_fleet: false,
            allowed: Some(allowed.clone()),
        };
        let shown = "disks \"full\"; disruption up to drain allowed by bob: incident 4711";
        assert!(pause.to_string().ends_with(shown), "{pause}");
        let orders = Orders {
            paused: Some(Pause { whole_fleet: true, ..pause.clone() }),
            pauses: [(PoolName::new("gpu").unwrap(), pause)].into(),
            abort: Some(Abort {
                holder: "ci_1".to_owned(),
                by: "ada".to_owned(),
                at,
                reason: None,
                back: true,
                fleet_paused: false,
            }),
        };
        let mut annotations = BTreeMap::from([("other".to_owned(), "x".to_owned())]);
        orders.write(&mut annotations);
        assert_eq!(Orders::read(&annotations), Ok(orders));
        Orders::default().write(&mut annotations);
        assert_eq!(annotations, BTreeMap::from([("other".to_owned(), "x".to_owned())]));
        assert_eq!(Orders::read(&annotations), Ok(Orders::default()));
    }

    #[test]
    fn abort_names_one_holder() {
        let at = Timestamp::UNIX_EPOCH;
        let abort = Abort {
            holder: "ci_1".to_owned(),
            by: "ada".to_owned(),
            at,
            reason: None,
            back: false,
            fleet_paused: false,
        };
        let orders = Orders { abort: Some(abort), ..Orders::default() };
        let left = |me, garbled: Option<&str>| {
            let mut annotations = BTreeMap::from([("other".to_owned(), "x".to_owned())]);
            orders.write(&mut annotations);
            annotations.extend(garbled.map(|text| (ABORT_ANNOTATION.to_owned(), text.to_owned())));
            remove_other_aborts(&mut annotations, me);
            assert!(annotations.contains_key("other"));
            annotations.contains_key(ABORT_ANNOTATION)
        };
        assert_eq!([left("ci_1", None), left("ci_2", None), left("ci_1", Some("{"))], [true, false, false]);
    }

    #[test]
    fn abort_gains_but_never_loses_rollback() {
        let abort = |holder: &str, by: &str, reason: Option<&str>, back| Abort {
            holder: holder.to_owned(),
            by: by.to_owned(),
            at: Timestamp::UNIX_EPOCH,
            reason: reason.map(str::to_owned),
            back,
            fleet_paused: false,
        };
        let mut orders = Orders::default();
        assert!(orders.abort(&abort("ci_1", "ada", Some("disks"), false)));
        assert!(!orders.abort(&abort("ci_1", "bob", None, false)), "already requested");
        assert!(orders.abort(&abort("ci_1", "bob", None, true)));
        assert_eq!(orders.abort, Some(abort("ci_1", "bob", Some("disks"), true)));
        assert!(!orders.abort(&abort("ci_1", "ada", Some("fans"), false)));
        assert!(orders.abort(&abort("ci_2", "ada", None, false)), "another rollout");
        assert_eq!(orders.abort, Some(abort("ci_2", "ada", None, false)));
        let found = Abort { fleet_paused: true, ..abort("ci_2", "bot", None, false) };
        assert!(!orders.abort(&found), "an operator has requested more");
        orders.abort = None;
        assert!(orders.abort(&found) && !orders.abort(&found));
        assert!(orders.abort(&abort("ci_2", "ada", None, false)), "an operator requests more");
    }

    #[test]
    fn puts_reason_on_one_line() {
        let at = Timestamp::UNIX_EPOCH;
        let pause = Pause {
            by: "ada\u{1b}[2J".to_owned(),
            at,
            reason: "disks\n\tfull ".to_owned(),
            whole_fleet: false,
            allowed: None,
        };
        assert_eq!(pause.to_string(), "by ada [2J since 1970-01-01T00:00:00Z, disks full");
    }

    #[test]
    fn cuts_and_sanitizes_read_texts() {
        let at = Timestamp::UNIX_EPOCH;
        let (by, reason) =
            (format!("\u{202e}ada{}", "a".repeat(500)), format!("x\u{9b}2J\u{200b}{}", "r".repeat(9000)));
        let allowed = AllowedDisruption { class: Class::Drain, by: by.clone(), at, reason: reason.clone() };
        let pause = Pause { by: by.clone(), at, reason: reason.clone(), whole_fleet: false, allowed: Some(allowed) };
        let abort = Abort { holder: "ci_1".to_owned(), by, at, reason: Some(reason), back: false, fleet_paused: false };
        let mut annotations = BTreeMap::new();
        let pauses = [(PoolName::new("gpu").unwrap(), pause)].into();
        Orders { paused: None, pauses, abort: Some(abort) }.write(&mut annotations);
        let read = Orders::read(&annotations).unwrap();
        let (pause, abort) = (read.pauses.values().next().unwrap(), read.abort.as_ref().unwrap());
        assert_eq!((pause.by.chars().count(), pause.reason.chars().count()), (201, 501));
        assert_eq!((&abort.by, abort.reason.as_ref()), (&pause.by, Some(&pause.reason)));
        let allowed = pause.allowed.as_ref().unwrap();
        assert_eq!((&allowed.by, &allowed.reason), (&pause.by, &pause.reason));
        assert!(pause.by.starts_with("adaa") && pause.reason.starts_with("x 2Jrr"), "{pause}");
    }

    #[test]
    fn rejects_invalid_order() {
        let bad = Orders::read(&[(PAUSES_ANNOTATION.to_owned(), "{\"**\": {}}".to_owned())].into());
        assert!(bad.is_err(), "{bad:?}");
        for name in [PAUSES_ANNOTATION, ABORT_ANNOTATION] {
            let problem = Orders::read(&[(name.to_owned(), "{".to_owned())].into()).unwrap_err();
            assert!(problem.contains(name), "{problem}");
        }
    }
}
