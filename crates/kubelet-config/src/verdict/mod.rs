//! What a kubelet of one minor version does with a configuration: loads it or not, applies its feature gates or not,
//! validates it or not, and starts on it or not. Pure; the stages are the kubelet's own, in its order:
//!
//! load → gates → validate → start-up
//!
//! This is the kubelet's answer, not ours: what it lets through without a word is let through here. This crate's own,
//! stricter opinion is in [`crate::document`]'s findings and in `advice`. What only the host can know is said to be
//! unknown, never guessed.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::document::Document;
use crate::finding::Place;
use crate::{Minor, secrets};

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
pub(crate) use startup::memory_manager;

/// How far a kubelet gets with a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, schemars::JsonSchema)]
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
    /// What it would refuse next, once the above is mended. The kubelet itself does not get so far as to say so.
    pub later: Vec<Refusal>,
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

    /// Why it does not run: what it refuses, or what it does not start on.
    pub fn reasons(&self) -> impl Iterator<Item = &Refusal> {
        self.refusals.iter().chain(&self.startup)
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

/// What a kubelet of this version does with a document. Values that may be secrets are not quoted.
#[must_use]
pub fn assess(document: &Document, minor: Minor) -> Verdict {
    let mut verdict = judged(document, minor);
    let refusals = verdict.refusals.iter_mut().chain(&mut verdict.startup).chain(&mut verdict.later);
    for refusal in refusals.filter(|refusal| secrets::is_secret(&refusal.field)) {
        refusal.message = secrets::masked(&refusal.message);
        refusal.help = refusal.help.as_deref().map(secrets::masked);
    }
    verdict
}

fn judged(document: &Document, minor: Minor) -> Verdict {
    let refused = |stage, refusals: Vec<Refusal>| {
        let config = Config::new(document, minor, gates::as_far_as_possible(document, minor));
        let later = later(document, &config, stage, &refusals);
        Verdict { minor, stage, refusals, later, startup: Vec::new(), unknown: Vec::new() }
    };
    let refusals = load::check(document, minor);
    if !refusals.is_empty() {
        return refused(Stage::Load, refusals);
    }
    let enabled = match gates::apply(document, minor) {
        Ok(enabled) => enabled,
        Err(refusals) => return refused(Stage::Gates, refusals),
    };
    let config = Config::new(document, minor, enabled);
    let refusals = rules::check(&config);
    if !refusals.is_empty() {
        return refused(Stage::Validate, refusals);
    }
    let startup = startup::check(&config);
    let mut unknown = rules::host::unknown(&config);
    unknown.extend(startup::unknown(&config));
    Verdict { minor, stage: Stage::Ok, refusals, later: Vec::new(), startup, unknown }
}

/// What the stages from `stage` on would refuse besides what was refused already. A rule that looks at a field which was
/// refused is left out: it would judge a value that nobody meant.
fn later(document: &Document, config: &Config<'_>, stage: Stage, refused: &[Refusal]) -> Vec<Refusal> {
    let top = |path: &str| path.split(['.', '[', '{']).next().unwrap_or_default().to_owned();
    let fields: BTreeSet<String> = refused.iter().map(|refusal| top(&refusal.field)).collect();
    if fields.contains("") {
        // The whole file was refused: it may be something else altogether.
        return Vec::new();
    }
    let gates = if stage == Stage::Load { gates::apply(document, config.minor()).err() } else { None };
    let found = gates.into_iter().flatten().chain(rules::all(config)).chain(startup::check(config));
    let touches = |refusal: &Refusal| match crate::rules::lookup(refusal.rule) {
        Some(rule) => rule.fields.iter().any(|field| fields.contains(&top(field))),
        None => false,
    };
    found.filter(|refusal| !touches(refusal)).collect()
}

/// What a kubelet of this version makes of a document that it decodes: the values with its defaults, and the gates as they
/// stand, but for those that it refuses.
#[must_use]
pub fn configuration(document: &Document, minor: Minor) -> Config<'_> {
    Config::new(document, minor, gates::as_far_as_possible(document, minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> (Stage, Vec<String>, Vec<String>) {
        let document = Document::parse("kubelet.yaml", text).document.unwrap();
        let verdict = assess(&document, Minor(36));
        let fields = |refusals: Vec<Refusal>| refusals.into_iter().map(|refusal| refusal.field).collect();
        (verdict.stage, fields(verdict.refusals), fields(verdict.later))
    }

    #[test]
    fn what_would_be_refused_next_is_told_at_once() {
        let header = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
        let text = format!(
            "{header}featureGates: {{NodeSwap: false}}\nmaxPods: -1\nimageGCHighThresholdPercent: 70\nlogging: {{format: x}}\n\
             cpuManagerPolicy: x\n"
        );
        let (stage, refused, later) = told(&text);
        assert_eq!((stage, refused), (Stage::Gates, vec!["featureGates.NodeSwap".to_owned()]));
        assert_eq!(later, ["maxPods", "imageGCLowThresholdPercent", "logging.format", "cpuManagerPolicy"]);

        // Logging is validated first, and alone.
        let (stage, refused, later) = told(&format!("{header}maxPods: -1\nlogging: {{format: x}}\n"));
        assert_eq!((stage, refused), (Stage::Validate, vec!["logging.format".to_owned()]));
        assert_eq!(later, ["maxPods"]);
    }
}
