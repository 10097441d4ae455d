//! What people have ordered of a fleet from a command line: pools to hold as they are, and a rollout to stop.
//!
//! Orders are kept as annotations of the fleet's Lease, beside the lock: whoever rolls out reads them there, and holds the
//! Lease's version while doing so. Pure: what the annotations say, and what they are to say.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::names::PoolName;
use crate::printable::{at_most, one_line};

/// Annotation that holds the paused pools: a JSON object of [`Pause`]s by pool.
pub const PAUSES_ANNOTATION: &str = "nodecfg.dev/pauses";
/// Annotation that asks the holder of the lock to stop: a JSON object, [`Abort`].
pub const ABORT_ANNOTATION: &str = "nodecfg.dev/abort";

/// How long a reason may be, in characters: it is shown in every plan, and kept beside others in one object.
pub const LONGEST_REASON: usize = 500;
/// How much is read of a name, in characters.
const LONGEST_NAME: usize = 200;

/// Everything that is ordered of a fleet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Orders {
    /// The pools that are held as they are.
    pub pauses: BTreeMap<PoolName, Pause>,
    /// That the rollout of one holder stops.
    pub abort: Option<Abort>,
}

/// A pool is held as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pause {
    /// Who wants that: the user as the API server knows them, or else as their machine does.
    pub by: String,
    /// Since when.
    pub at: Timestamp,
    /// Why.
    pub reason: String,
}

impl fmt::Display for Pause {
    /// By whom, since when, and why: on one line, whatever was typed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "by {} since {:.0}, {}", one_line(&self.by), self.at, one_line(&self.reason))
    }
}

/// The rollout of one holder of the lock stops.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Abort {
    /// Whose rollout: the identity that holds the lock. Nobody else's.
    pub holder: String,
    /// Who wants that.
    pub by: String,
    /// Since when.
    pub at: Timestamp,
    /// Why, if they said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether nodes that have not converged are pointed back at what they had.
    #[serde(default)]
    pub back: bool,
}

impl Orders {
    /// What the annotations of a Lease say. Whoever may write the Lease chooses the words: they are cut, and on one line.
    ///
    /// # Errors
    /// What cannot be understood, with the annotation that it stands in: an order must not be overlooked because it is garbled.
    pub fn read(annotations: &BTreeMap<String, String>) -> Result<Self, String> {
        let told = |name: &str, error: serde_json::Error| format!("the annotation {name} cannot be read: {error}");
        let pauses = annotations.get(PAUSES_ANNOTATION).map(|text| serde_json::from_str(text));
        let abort = annotations.get(ABORT_ANNOTATION).map(|text| serde_json::from_str(text));
        let mut orders = Self {
            pauses: pauses.transpose().map_err(|error| told(PAUSES_ANNOTATION, error))?.unwrap_or_default(),
            abort: abort.transpose().map_err(|error| told(ABORT_ANNOTATION, error))?,
        };
        for pause in orders.pauses.values_mut() {
            pause.by = at_most(&one_line(&pause.by), LONGEST_NAME);
            pause.reason = at_most(&one_line(&pause.reason), LONGEST_REASON);
        }
        if let Some(abort) = &mut orders.abort {
            abort.by = at_most(&one_line(&abort.by), LONGEST_NAME);
            abort.reason = abort.reason.as_deref().map(|reason| at_most(&one_line(reason), LONGEST_REASON));
        }
        Ok(orders)
    }

    /// Writes itself into the annotations of a Lease; all others stay.
    pub fn write(&self, annotations: &mut BTreeMap<String, String>) {
        let pauses = (!self.pauses.is_empty()).then(|| serde_json::to_string(&self.pauses).unwrap_or_default());
        let abort = self.abort.as_ref().map(|abort| serde_json::to_string(abort).unwrap_or_default());
        for (name, value) in [(PAUSES_ANNOTATION, pauses), (ABORT_ANNOTATION, abort)] {
            match value {
                Some(value) => annotations.insert(name.to_owned(), value),
                None => annotations.remove(name),
            };
        }
    }
}

impl Orders {
    /// Pauses a pool, or says anew why it is. Answers with the pause that was there before.
    pub fn pause(&mut self, pool: &PoolName, pause: &Pause) -> Option<Pause> {
        self.pauses.insert(pool.clone(), pause.clone())
    }

    /// Asks a holder of the lock to stop. An abort of the same holder is raised at most: what it takes back is not
    /// left after all, and its reason stays where there is no other. Answers whether there is anything new to it.
    pub fn abort(&mut self, abort: &Abort) -> bool {
        let before = self.abort.take().filter(|before| before.holder == abort.holder);
        if let Some(before) = before.as_ref().filter(|before| before.back || !abort.back) {
            self.abort = Some(before.clone());
            return false;
        }
        let reason = abort.reason.clone().or(before.and_then(|before| before.reason));
        self.abort = Some(Abort { reason, ..abort.clone() });
        true
    }
}

/// Takes out the annotation that asks a holder of the lock to stop, unless it is `me`. One that cannot be read asks nobody.
pub fn forget_aborts_of_others(annotations: &mut BTreeMap<String, String>, me: &str) {
    let mine = |text: &String| serde_json::from_str::<Abort>(text).is_ok_and(|abort| abort.holder == me);
    if !annotations.get(ABORT_ANNOTATION).is_some_and(mine) {
        annotations.remove(ABORT_ANNOTATION);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again_and_others_stay() {
        let at = Timestamp::from_second(1_800_000_000).unwrap();
        let pause = Pause { by: "ada".to_owned(), at, reason: "disks \"full\"".to_owned() };
        let orders = Orders {
            pauses: [(PoolName::new("gpu").unwrap(), pause)].into(),
            abort: Some(Abort { holder: "ci_1".to_owned(), by: "ada".to_owned(), at, reason: None, back: true }),
        };
        let mut annotations = BTreeMap::from([("other".to_owned(), "x".to_owned())]);
        orders.write(&mut annotations);
        assert_eq!(Orders::read(&annotations), Ok(orders));
        Orders::default().write(&mut annotations);
        assert_eq!(annotations, BTreeMap::from([("other".to_owned(), "x".to_owned())]));
        assert_eq!(Orders::read(&annotations), Ok(Orders::default()));
    }

    #[test]
    fn an_abort_is_for_one_holder() {
        let at = Timestamp::UNIX_EPOCH;
        let abort = Abort { holder: "ci_1".to_owned(), by: "ada".to_owned(), at, reason: None, back: false };
        let orders = Orders { abort: Some(abort), ..Orders::default() };
        let left = |me, garbled: Option<&str>| {
            let mut annotations = BTreeMap::from([("other".to_owned(), "x".to_owned())]);
            orders.write(&mut annotations);
            annotations.extend(garbled.map(|text| (ABORT_ANNOTATION.to_owned(), text.to_owned())));
            forget_aborts_of_others(&mut annotations, me);
            assert!(annotations.contains_key("other"));
            annotations.contains_key(ABORT_ANNOTATION)
        };
        assert_eq!([left("ci_1", None), left("ci_2", None), left("ci_1", Some("{"))], [true, false, false]);
    }

    #[test]
    fn an_abort_is_raised_and_never_lowered() {
        let abort = |holder: &str, by: &str, reason: Option<&str>, back| Abort {
            holder: holder.to_owned(),
            by: by.to_owned(),
            at: Timestamp::UNIX_EPOCH,
            reason: reason.map(str::to_owned),
            back,
        };
        let mut orders = Orders::default();
        assert!(orders.abort(&abort("ci_1", "ada", Some("disks"), false)));
        assert!(!orders.abort(&abort("ci_1", "bob", None, false)), "asked for already");
        assert!(orders.abort(&abort("ci_1", "bob", None, true)));
        assert_eq!(orders.abort, Some(abort("ci_1", "bob", Some("disks"), true)));
        assert!(!orders.abort(&abort("ci_1", "ada", Some("fans"), false)));
        assert!(orders.abort(&abort("ci_2", "ada", None, false)), "another rollout");
        assert_eq!(orders.abort, Some(abort("ci_2", "ada", None, false)));
    }

    #[test]
    fn what_was_typed_fits_one_line() {
        let at = Timestamp::UNIX_EPOCH;
        let pause = Pause { by: "ada\u{1b}[2J".to_owned(), at, reason: "disks\n\tfull ".to_owned() };
        assert_eq!(pause.to_string(), "by ada [2J since 1970-01-01T00:00:00Z, disks full");
    }

    #[test]
    fn what_is_read_is_cut_and_hides_nothing() {
        let at = Timestamp::UNIX_EPOCH;
        let (by, reason) =
            (format!("\u{202e}ada{}", "a".repeat(500)), format!("x\u{9b}2J\u{200b}{}", "r".repeat(9000)));
        let pause = Pause { by: by.clone(), at, reason: reason.clone() };
        let abort = Abort { holder: "ci_1".to_owned(), by, at, reason: Some(reason), back: false };
        let mut annotations = BTreeMap::new();
        Orders { pauses: [(PoolName::new("gpu").unwrap(), pause)].into(), abort: Some(abort) }.write(&mut annotations);
        let read = Orders::read(&annotations).unwrap();
        let (pause, abort) = (read.pauses.values().next().unwrap(), read.abort.as_ref().unwrap());
        assert_eq!((pause.by.chars().count(), pause.reason.chars().count()), (201, 501));
        assert_eq!((&abort.by, abort.reason.as_ref()), (&pause.by, Some(&pause.reason)));
        assert!(pause.by.starts_with("adaa") && pause.reason.starts_with("x 2Jrr"), "{pause}");
    }

    #[test]
    fn a_garbled_order_is_an_error() {
        for name in [PAUSES_ANNOTATION, ABORT_ANNOTATION] {
            let problem = Orders::read(&[(name.to_owned(), "{".to_owned())].into()).unwrap_err();
            assert!(problem.contains(name), "{problem}");
        }
    }
}
