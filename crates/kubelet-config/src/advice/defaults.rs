//! Advice on values that equal the default, and on zeros that mean unset.

use std::sync::LazyLock;

use serde_json::Value as Json;

use super::remarks::Remarks;
use crate::Minor;
use crate::defaults::is_zero_of;
use crate::document::{Node, Value};
use crate::fields::{self, Field, FieldType};
use crate::values::duration;
use crate::verdict::Config;

/// Prefixes of the fields that audits require in the file even with the default value (CIS Kubernetes Benchmark,
/// section 4.2).
const AUDITED: [&str; 9] = [
    "authentication.",
    "authorization.",
    "eventRecordQPS",
    "makeIPTablesUtilChains",
    "protectKernelDefaults",
    "readOnlyPort",
    "rotateCertificates",
    "seccompDefault",
    "serverTLSBootstrap",
];

/// Fields with a value instead of subfields, and with a default in some version.
static LEAVES: LazyLock<Vec<&'static Field>> = LazyLock::new(|| {
    let is_leaf = |field: &&Field| {
        !field.path.contains(['[', '{'])
            && fields::children(&field.path).is_empty()
            && field.default.iter().next().is_some()
    };
    fields::all().filter(is_leaf).collect()
});

/// A field's value in relation to its default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    /// A zero that means unset, with another default.
    Unset,
    /// The default.
    Default,
    /// Another value, or a field without a default.
    Other,
}

/// Reports whether the file sets a field to a value that is neither the default nor a zero that means unset.
pub(super) fn is_changed(config: &Config<'_>, path: &str) -> bool {
    let field = fields::lookup(path);
    field.zip(config.given(path)).is_some_and(|(field, node)| relation(node, field, config.minor()) == Relation::Other)
}

/// Reports whether the file sets a field to a value that is not a zero that means unset.
pub(super) fn is_set(config: &Config<'_>, path: &str) -> bool {
    let field = fields::lookup(path);
    field.zip(config.given(path)).is_some_and(|(field, node)| relation(node, field, config.minor()) != Relation::Unset)
}

/// Reports whether the file sets a field to a value that is neither the default nor zero, false or empty.
pub(super) fn is_effective(config: &Config<'_>, path: &str) -> bool {
    let Some((field, node)) = fields::lookup(path).zip(config.given(path)) else { return false };
    let is_empty = match &node.value {
        Value::Scalar(_) => is_zero_of(field, &node.to_json(), config.minor()) || node.text() == Some("0"),
        Value::Sequence(list) => list.is_empty(),
        Value::Mapping(map) => map.is_empty(),
    };
    is_changed(config, path) && !is_empty
}

pub(super) fn check(config: &Config<'_>, minors: &[Minor], next: Option<Minor>, remarks: &mut Remarks) {
    let minor = config.minor();
    for field in LEAVES.iter() {
        let path = field.path.as_str();
        let Some(node) = config.given(path) else { continue };
        match relation(node, field, minor) {
            Relation::Unset => {
                let default = shown(field, minor);
                let message = format!("`{path}`: {} means unset, and the kubelet uses {default}", written(node));
                remarks.field(config, "zero-is-unset", path, message).help(format!("remove it, or write {default}"));
            }
            Relation::Default if !AUDITED.iter().any(|audited| path.starts_with(audited)) => {
                let default = field.default.at(minor);
                // An explicit value keeps the behavior where versions, or the next version, differ.
                let steady = minors
                    .iter()
                    .chain(&next)
                    .all(|other| !field.is_known_to(*other) || field.default.at(*other) == default);
                if steady && !affects_another(config, path) && !remarks.has_remark(path, minor) {
                    let message = format!("`{path}` is {}, the default", shown(field, minor));
                    remarks
                        .field(config, "equals-default", path, message)
                        .help("remove it, unless it overrides a base");
                }
            }
            _ => {}
        }
    }
}

/// Reports whether a field with its default value still has an effect, because an unset report frequency follows a
/// set update frequency (`pkg/kubelet/apis/config/v1beta1/defaults.go`).
fn affects_another(config: &Config<'_>, path: &str) -> bool {
    match path {
        "nodeStatusUpdateFrequency" => !is_set(config, "nodeStatusReportFrequency"),
        "nodeStatusReportFrequency" => is_set(config, "nodeStatusUpdateFrequency"),
        _ => false,
    }
}

fn relation(node: &Node, field: &Field, minor: Minor) -> Relation {
    let Some(default) = field.default.at(minor).filter(|default| !default.is_null()) else { return Relation::Other };
    let types = field.types.at(minor).map_or(&[][..], Vec::as_slice);
    if same(node, default, types) {
        return Relation::Default;
    }
    if !field.keeps_zero(minor) && is_zero_of(field, &node.to_json(), minor) {
        Relation::Unset
    } else {
        Relation::Other
    }
}

fn same(node: &Node, json: &Json, types: &[FieldType]) -> bool {
    if types.contains(&FieldType::Duration)
        && let (Some(text), Some(other)) = (node.text(), json.as_str())
    {
        return duration::is_same(text, other);
    }
    node.to_json() == *json
}

fn shown(field: &Field, minor: Minor) -> String {
    match field.default.at(minor) {
        Some(Json::String(text)) if !text.is_empty() => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    }
}

fn written(node: &Node) -> String {
    match node.text() {
        Some("") => "\"\"".to_owned(),
        Some(text) => text.to_owned(),
        None => "0".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;
    use crate::gates::EnabledGates;

    #[test]
    fn relates_values_to_defaults() {
        for (line, minor, wanted) in [
            ("maxPods: 110", 36, Relation::Default),
            ("maxPods: 110.0", 36, Relation::Default),
            ("maxPods: 0", 36, Relation::Unset),
            ("maxPods: 111", 36, Relation::Other),
            ("syncFrequency: 60s", 36, Relation::Default),
            ("syncFrequency: 0s", 36, Relation::Unset),
            ("eventRecordQPS: 0", 36, Relation::Other),
            ("eventRecordQPS: 5", 26, Relation::Default),
            ("eventRecordQPS: 5", 27, Relation::Other),
            ("shutdownGracePeriod: 0s", 36, Relation::Default),
            ("memoryThrottlingFactor: 0.9", 36, Relation::Default),
            ("enforceNodeAllocatable: [pods]", 36, Relation::Default),
            ("enforceNodeAllocatable: []", 36, Relation::Other),
            ("resolvConf: ''", 21, Relation::Unset),
            ("resolvConf: ''", 36, Relation::Other),
            ("failSwapOn: true", 36, Relation::Default),
            ("failSwapOn: false", 36, Relation::Other),
            ("clusterDNS: []", 36, Relation::Other),
        ] {
            let document = Document::parse("kubelet.yaml", line).document.unwrap();
            let config = Config::new(&document, Minor(minor), EnabledGates::default());
            let path = line.split(':').next().unwrap();
            let (node, field) = (config.given(path).unwrap(), fields::lookup(path).unwrap());
            assert_eq!(relation(node, field, Minor(minor)), wanted, "{line} in 1.{minor}");
        }
    }
}
