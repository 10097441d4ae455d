//! The verdict is never stricter than the kubelet. This crate's stricter checks are [`dropped_fields`] and the
//! findings of [`crate::document`] and [`crate::advice`]. Conditions that depend on the host are reported as unknown,
//! never guessed.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::document::Document;
use crate::fields::secrets;
use crate::finding::Place;
use crate::{API_VERSION, KIND, Minor};

mod config;
mod findings;
mod gates;
mod host_need;
mod load;
mod refusals;
pub mod rules;
mod startup;
mod sysctls;
mod validate;

pub use config::Config;
pub use findings::{dropped_fields, findings};
pub use host_need::{HostNeed, KeptMemory, StateFile};
pub(crate) use load::folds_to;
pub(crate) use startup::{cpu_manager, log_rotation, server};

/// The last stage that a kubelet reaches with a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// The kubelet cannot decode the file.
    Load,
    /// The kubelet refuses the feature gates.
    Gates,
    /// The kubelet refuses the values.
    Validate,
    /// The kubelet accepts the file; it may still fail to start.
    Ok,
}

/// The verdict of one kubelet version.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The version.
    pub minor: Minor,
    /// The last stage.
    pub stage: Stage,
    /// The reasons for a refusal; empty if the file is accepted.
    pub refusals: Vec<Refusal>,
    /// The reasons why the kubelet fails to start with an accepted file.
    pub startup: Vec<Refusal>,
    /// Further refusals, after the ones above are fixed. The kubelet stops before it reports them.
    pub later: Vec<Refusal>,
    /// Conditions that depend on the host; empty unless the file is accepted.
    pub host_conditions: Vec<HostCondition>,
}

impl Verdict {
    fn refused(minor: Minor, stage: Stage, refusals: Vec<Refusal>) -> Self {
        let (startup, later, host_conditions) = (Vec::new(), Vec::new(), Vec::new());
        Self { minor, stage, refusals, startup, later, host_conditions }
    }

    /// The verdict on an accepted configuration.
    fn accepted_as(config: &Config<'_>) -> Self {
        let (startup, host_conditions) = (startup::check(config), startup::host_conditions(config));
        Self { startup, host_conditions, ..Self::refused(config.minor(), Stage::Ok, Vec::new()) }
    }

    /// Reports whether the kubelet loads and validates the file.
    #[must_use]
    pub fn accepted(&self) -> bool {
        self.stage == Stage::Ok
    }

    /// Reports whether the kubelet accepts the file and starts, as far as the file determines this.
    #[must_use]
    pub fn runs(&self) -> bool {
        self.accepted() && self.startup.is_empty()
    }

    /// Returns the refusals of the file and the reasons why the kubelet fails to start.
    pub fn reasons(&self) -> impl Iterator<Item = &Refusal> {
        self.refusals.iter().chain(&self.startup)
    }
}

/// One reason why a kubelet refuses a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Identifier of the rule in the table of rules.
    pub rule: &'static str,
    /// Path of the field in the file, such as `evictionHard.memory.available`; empty for the whole file.
    pub field: String,
    /// One sentence with the offending value.
    pub message: String,
    /// The offending value; for a default, the nearest place in the file.
    pub place: Place,
    /// Related places, each with a short label.
    pub related: Vec<(Place, String)>,
    /// The fix.
    pub help: Option<String>,
}

impl Refusal {
    /// Returns the message, preceded by the field unless it names it.
    #[must_use]
    pub fn sentence(&self) -> String {
        if self.message.contains(&self.field) {
            self.message.clone()
        } else {
            format!("{}: {}", self.field, self.message)
        }
    }
}

/// A condition on the host that decides whether the kubelet starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCondition {
    /// The field.
    pub field: String,
    /// The condition, in one sentence.
    pub message: String,
    /// The condition for a program on the host. `None` if only people can tell.
    pub need: Option<HostNeed>,
    /// The place of the value.
    pub place: Place,
}

/// Returns the verdict of a kubelet version on a document. Messages do not quote values that may be secret.
#[must_use]
pub fn assess(document: &Document, minor: Minor) -> Verdict {
    let mut verdict = assess_unredacted(document, minor);
    redact(verdict.refusals.iter_mut().chain(&mut verdict.startup).chain(&mut verdict.later));
    verdict
}

/// Returns the verdict on a configuration that writes out every default: a missing or zero value has no default.
pub(crate) fn assess_explicit(document: &Document, minor: Minor) -> Verdict {
    let mut verdict = match gates::apply(document, minor) {
        Err(refusals) => Verdict::refused(minor, Stage::Gates, refusals),
        Ok(enabled) => {
            let config = Config::explicit(document, minor, enabled);
            let mut refusals = validate::check(&config);
            refusals.extend(validate::only_flags::check(&config));
            if refusals.is_empty() {
                Verdict::accepted_as(&config)
            } else {
                Verdict::refused(minor, Stage::Validate, refusals)
            }
        }
    };
    redact(verdict.refusals.iter_mut().chain(&mut verdict.startup));
    verdict
}

/// Returns the reasons why a kubelet cannot decode a document.
pub(crate) fn load_refusals(document: &Document, minor: Minor) -> Vec<Refusal> {
    let mut refusals = load::check(document, minor);
    redact(&mut refusals);
    refusals
}

/// Returns the reasons why a kubelet cannot decode a document as an untyped map. `is_versioned`: whether it requires the
/// `apiVersion` and `kind` of KubeletConfiguration, and not only any kind.
pub(crate) fn untyped_refusals(document: &Document, minor: Minor, is_versioned: bool) -> Vec<Refusal> {
    let header = [("api-version", "apiVersion", API_VERSION), ("kind", "kind", KIND)];
    load::check_untyped(document, minor, if is_versioned { &header } else { &[("kind", "kind", "")] })
}

/// Returns the reasons why a kubelet refuses the gates of a document.
pub(crate) fn gate_refusals(document: &Document, minor: Minor) -> Vec<Refusal> {
    gates::apply(document, minor).err().unwrap_or_default()
}

/// Removes values that may be secret from messages.
fn redact<'r>(refusals: impl IntoIterator<Item = &'r mut Refusal>) {
    for refusal in refusals.into_iter().filter(|refusal| secrets::is_secret(&refusal.field)) {
        refusal.message = secrets::redacted_message(&refusal.message);
        refusal.help = refusal.help.as_deref().map(secrets::redacted_message);
    }
}

fn assess_unredacted(document: &Document, minor: Minor) -> Verdict {
    let refused = |stage, refusals: Vec<Refusal>| {
        let later = later(document, &configuration(document, minor), stage, &refusals);
        Verdict { later, ..Verdict::refused(minor, stage, refusals) }
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
    let refusals = validate::check(&config);
    if !refusals.is_empty() {
        return refused(Stage::Validate, refusals);
    }
    Verdict::accepted_as(&config)
}

/// Returns the further refusals of the stages from `stage` on; none if the whole file is refused. Rules that read the
/// same top-level field as a refusal are skipped, because its value is not what the author meant.
fn later(document: &Document, config: &Config<'_>, stage: Stage, refused: &[Refusal]) -> Vec<Refusal> {
    let top = |path: &str| path.split(['.', '[', '{']).next().unwrap_or_default().to_owned();
    let fields: BTreeSet<String> = refused.iter().map(|refusal| top(&refusal.field)).collect();
    if fields.contains("") {
        // The whole file was refused: it may not be a configuration.
        return Vec::new();
    }
    let gates = if stage == Stage::Load { gates::apply(document, config.minor()).err() } else { None };
    let found = gates.into_iter().flatten().chain(validate::all(config)).chain(startup::check(config));
    let touches = |refusal: &Refusal| match rules::lookup(refusal.rule) {
        Some(rule) => rule.fields.iter().any(|field| fields.contains(&top(field))),
        None => false,
    };
    found.filter(|refusal| !touches(refusal)).collect()
}

/// Returns the configuration of a document: values with defaults, and the effective gates. Refused gates are ignored;
/// if a dependency between the remaining gates fails, all gates have their defaults.
#[must_use]
pub fn configuration(document: &Document, minor: Minor) -> Config<'_> {
    Config::new(document, minor, gates::apply_valid(document, minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusals(text: &str) -> (Stage, Vec<String>, Vec<String>) {
        let document = Document::parse("kubelet.yaml", text).document.unwrap();
        let verdict = assess(&document, Minor(36));
        let fields = |refusals: Vec<Refusal>| refusals.into_iter().map(|refusal| refusal.field).collect();
        (verdict.stage, fields(verdict.refusals), fields(verdict.later))
    }

    #[test]
    fn reports_further_refusals_at_once() {
        let header = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
        let text = format!(
            "{header}featureGates: {{NodeSwap: false}}\nmaxPods: -1\nimageGCHighThresholdPercent: 70\nlogging: {{format: x}}\n\
             cpuManagerPolicy: x\n"
        );
        let (stage, refused, later) = refusals(&text);
        assert_eq!((stage, refused), (Stage::Gates, vec!["featureGates.NodeSwap".to_owned()]));
        assert_eq!(later, ["maxPods", "imageGCLowThresholdPercent", "logging.format", "cpuManagerPolicy"]);

        // Logging is validated before all other fields.
        let (stage, refused, later) = refusals(&format!("{header}maxPods: -1\nlogging: {{format: x}}\n"));
        assert_eq!((stage, refused), (Stage::Validate, vec!["logging.format".to_owned()]));
        assert_eq!(later, ["maxPods"]);
    }
}
