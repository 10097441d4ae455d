//! Advice on fields that are deprecated or have no effect, because a feature gate is off or a flag overrides them.

use std::sync::LazyLock;

use super::defaults;
use super::remarks::Remarks;
use crate::Minor;
use crate::fields::{self, Field};
use crate::verdict::Config;

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
