//! Advice on fields that are deprecated or have no effect, because a feature gate is off or a flag overrides them, and
//! advice on the next version: the kubelet after the newest of the given versions.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use crate::advice::defaults;
use crate::advice::remarks::Remarks;
use crate::document::Document;
use crate::fields::{self, Field};
use crate::verdict::{Config, Verdict, assess};
use crate::{Minor, NEWEST};

/// Fields that are deprecated in some version.
static DEPRECATED: LazyLock<Vec<&'static Field>> =
    LazyLock::new(|| fields::all().filter(|field| field.deprecated_since.is_some()).collect());

/// Fields with a value, and with a gate in some version.
static GATED: LazyLock<Vec<&'static Field>> = LazyLock::new(|| {
    let is_value = |field: &&Field| !field.path.contains(['[', '{']) && fields::children(&field.path).is_empty();
    fields::all().filter(|field| field.gate.iter().next().is_some()).filter(is_value).collect()
});

/// The first minor known to register its flags over the loaded file, with false as default.
const SPLIT_STREAM_LOST: Minor = Minor(25);

pub(super) fn check(config: &Config<'_>, remarks: &mut Remarks) {
    for path in ["logging.options.text.splitStream", "logging.options.json.splitStream"] {
        if config.minor() >= SPLIT_STREAM_LOST && config.is(path) {
            let message = format!("`{path}` has no effect: the kubelet reads it only from its flag");
            let flag = if path.contains("text") { "--log-text-split-stream" } else { "--log-json-split-stream" };
            remarks
                .field(config, "split-stream-lost", path, message)
                .help(format!("remove it, and use the flag {flag}"));
        }
    }
    for field in deprecated(config.minor()).filter(|field| defaults::is_set(config, &field.path)) {
        let path = field.path.as_str();
        let since = field.deprecated_since.map(|since| since.to_string()).unwrap_or_default();
        remarks
            .field(config, "deprecated-field", path, format!("`{path}` is deprecated since {since}"))
            .help(replacement(field));
    }
    // Refusals because of a gate are not repeated here.
    for (field, gate) in GATED.iter().filter_map(|field| Some((field, field.gate.at(config.minor())?))) {
        let path = field.path.as_str();
        if !config.gate(gate) && defaults::is_effective(config, path) {
            remarks
                .field(config, "gate-off", path, format!("`{path}` has no effect while the feature gate {gate} is off"))
                .help(format!("remove it, or set featureGates: {{{gate}: true}}"));
        }
    }
}

/// Returns the fields that are deprecated in a version.
pub(super) fn deprecated(minor: Minor) -> impl Iterator<Item = &'static Field> {
    let is =
        move |field: &&&Field| field.deprecated_since.is_some_and(|since| since <= minor) && field.is_known_to(minor);
    DEPRECATED.iter().filter(is).copied()
}

/// Returns the fix for a deprecated field.
pub(super) fn replacement(field: &Field) -> String {
    let Some(text) = &field.replaced_by else { return "remove it before kubelets drop the field".to_owned() };
    let mut chars = text.trim_end_matches('.').chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}

/// Fields that are removed, or whose default changes.
static CHANGING: LazyLock<Vec<&'static Field>> = LazyLock::new(|| {
    let changes = |field: &&Field| field.until < NEWEST || field.default.iter().count() > 1;
    fields::all().filter(|field| !field.path.contains(['[', '{'])).filter(changes).collect()
});

pub(super) fn next_version(
    document: &Document,
    newest: &Verdict,
    config: &Config<'_>,
    next: Minor,
    remarks: &mut Remarks,
) {
    remarks.set_version(newest);
    let known: BTreeSet<_> = newest.reasons().map(|refusal| (refusal.rule, refusal.field.as_str())).collect();
    let coming = assess(document, next);
    for refusal in coming.reasons() {
        if known.contains(&(refusal.rule, refusal.field.as_str())) {
            continue;
        }
        let message = format!("{next} refuses this: {}", refusal.message);
        remarks.at("next-version", refusal.field.clone(), refusal.place.clone(), message);
        for (place, label) in &refusal.related {
            remarks.related(place.clone(), label.clone());
        }
        let help = format!("change it before nodes run {next}");
        remarks.help(refusal.help.as_ref().map_or_else(|| help.clone(), |known| format!("{help}: {known}")));
    }
    let is_over = |field: &&&Field| field.until == newest.minor;
    for path in CHANGING.iter().filter(is_over).map(|field| field.path.as_str()) {
        if config.given(path).is_some() {
            let message = format!("`{path}` has no effect from {next} on: kubelets drop it");
            remarks.field(config, "dropped-next", path, message).help(format!("remove it before nodes run {next}"));
        }
    }
    for field in deprecated(next).filter(|field| field.deprecated_since == Some(next)) {
        let path = field.path.as_str();
        if defaults::is_set(config, path) {
            remarks
                .field(config, "deprecated-next", path, format!("`{path}` is deprecated from {next} on"))
                .help(replacement(field));
        }
    }
    for field in CHANGING.iter().filter(|field| field.is_known_to(newest.minor) && field.is_known_to(next)) {
        let (path, now, then) = (field.path.as_str(), field.default.at(newest.minor), field.default.at(next));
        if let (Some(now), Some(then)) = (now, then)
            && now != then
            && !defaults::is_set(config, path)
            // The field has no effect while its feature gate is off.
            && field.gate.at(newest.minor).is_none_or(|gate| config.gate(gate))
        {
            let message = format!("`{path}` is not set, and its default changes from {now} to {then} in {next}");
            remarks
                .field(config, "default-changes-next", path, message)
                .help(format!("set {path}: {now} to keep the current behavior"));
        }
    }
}
