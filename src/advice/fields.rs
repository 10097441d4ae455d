//! Fields that are deprecated, or that do nothing while their feature gate is off.

use super::defaults;
use super::remarks::Remarks;
use crate::kubelet::Minor;
use crate::kubelet::fields::{self, Field};
use crate::verdict::Config;

/// Fields that the kubelet reads, and uses only while a gate is on; it refuses none of them when the gate is off.
const GATED: [(&str, &str); 2] = [("memoryThrottlingFactor", "MemoryQoS"), ("qosReserved", "QOSReserved")];

pub(super) fn check(config: &Config<'_>, remarks: &mut Remarks) {
    for field in deprecated(config.minor()).filter(|field| defaults::is_set(config, &field.path)) {
        let path = field.path.as_str();
        let since = field.deprecated_since.map(|since| since.to_string()).unwrap_or_default();
        remarks
            .field(config, "deprecated-field", path, format!("`{path}` is deprecated since {since} and has no effect any more"))
            .help("remove it before a kubelet no longer knows it");
    }
    for (path, gate) in GATED {
        if !config.gate(gate) && defaults::is_changed(config, path) {
            remarks
                .field(config, "gate-off", path, format!("`{path}` has no effect while the feature gate {gate} is off"))
                .help(format!("remove it, or write featureGates: {{{gate}: true}}"));
        }
    }
}

/// The fields that a version has as deprecated.
pub(super) fn deprecated(minor: Minor) -> impl Iterator<Item = &'static Field> {
    fields::all().filter(move |field| field.deprecated_since.is_some_and(|since| since <= minor) && field.is_known_to(minor))
}
