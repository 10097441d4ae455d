//! What a kubelet of one minor version does with a configuration: loads it or not, applies its feature gates or not,
//! validates it or not, and starts on it or not. Pure; the stages are the kubelet's own, in its order:
//!
//! load → gates → validate → start-up
//!
//! This is the kubelet's answer, not ours: what it lets through without a word is let through here. nodecfg's own,
//! stricter opinion is in [`crate::document`]'s findings and in `advice`. What only the host can know is said to be
//! unknown, never guessed.

use serde::Serialize;

use crate::document::Document;
use crate::finding::Place;
use crate::kubelet::Minor;
use crate::kubelet::gates::Enabled;

mod config;
mod defaults;
mod findings;
mod gates;
mod load;
mod refusals;
mod rules;
mod startup;

pub use config::{Config, whole};
pub use findings::{dropped_fields, findings};
pub use refusals::Refusals;

/// How far a kubelet gets with a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// It cannot decode the file.
    Load,
    /// It refuses the feature gates.
    Gates,
    /// It refuses the values.
    Validate,
    /// It accepts the file; it may still refuse to start on it.
    Ok,
}

/// The answer of kubelets of one version.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The version.
    pub minor: Minor,
    /// How far it gets.
    pub stage: Stage,
    /// Why it gets no further; empty when it accepts.
    pub refusals: Vec<Refusal>,
    /// Why it does not start on a file that it accepts.
    pub startup: Vec<Refusal>,
    /// What only the host can know.
    pub unknown: Vec<Unknown>,
}

impl Verdict {
    /// Whether the kubelet loads and validates the file.
    #[must_use]
    pub fn accepted(&self) -> bool {
        self.stage == Stage::Ok
    }

    /// Whether the kubelet accepts the file and starts on it, as far as the file alone tells.
    #[must_use]
    pub fn runs(&self) -> bool {
        self.accepted() && self.startup.is_empty()
    }
}

/// One reason of a kubelet to refuse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Identifier of the rule, as in the table of rules.
    pub rule: &'static str,
    /// The field as a path in the file, such as `evictionHard.memory.available`; empty for the whole file.
    pub field: String,
    /// One sentence with the offending value.
    pub message: String,
    /// The value that caused it; where it is a default, the closest place that the file has.
    pub place: Place,
    /// Other values that belong to it, each with a few words.
    pub related: Vec<(Place, String)>,
    /// The way out.
    pub help: Option<String>,
}

/// Something that decides whether the kubelet starts and that the file alone cannot tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    /// The field.
    pub field: String,
    /// What has to be true of the host, in one sentence.
    pub message: String,
    /// Where the value is.
    pub place: Place,
}

/// What a kubelet of this version does with a document.
#[must_use]
pub fn assess(document: &Document, minor: Minor) -> Verdict {
    let mut verdict =
        Verdict { minor, stage: Stage::Ok, refusals: Vec::new(), startup: Vec::new(), unknown: Vec::new() };
    let refusals = load::check(document, minor);
    if !refusals.is_empty() {
        return Verdict { stage: Stage::Load, refusals, ..verdict };
    }
    let enabled = match gates::apply(document, minor) {
        Ok(enabled) => enabled,
        Err(refusals) => return Verdict { stage: Stage::Gates, refusals, ..verdict },
    };
    let config = Config::new(document, minor, enabled);
    let refusals = rules::check(&config);
    if !refusals.is_empty() {
        return Verdict { stage: Stage::Validate, refusals, ..verdict };
    }
    verdict.startup = startup::check(&config);
    verdict.unknown = rules::host::unknown(&config);
    verdict.unknown.extend(startup::unknown(&config));
    verdict
}

/// What a kubelet of this version makes of a document, with the gates as they are by default where it refuses the
/// document's; `None` when it cannot decode it.
#[must_use]
pub fn configuration(document: &Document, minor: Minor) -> Option<Config<'_>> {
    if !load::check(document, minor).is_empty() {
        return None;
    }
    Some(Config::new(document, minor, gates::apply(document, minor).unwrap_or_else(|_| Enabled::defaults(minor))))
}
