//! Conversion of a kubelet's `configz` output to a configuration for a repository.
//!
//! `configz` returns the kubelet's own view, converted back: with defaults and flags, and without `apiVersion`,
//! `kind` and the values that Go's `omitempty` drops. Go also drops empty maps and lists. A missing field with a
//! non-empty default was therefore emptied on purpose, and becomes an explicit empty value.

use serde_json::{Map, Value as Json};

use kubelet_config::defaults::{has_nonempty_default, is_struct, is_zero, remove_filled_in};
use kubelet_config::document::{Document, path_of};
use kubelet_config::fields::{child, children, items, secrets};
use kubelet_config::{API_VERSION, KIND, Minor, NEWEST};
use nodecfg_contract::names::NodeName;

/// Fields that describe one machine, never a pool.
const OF_ONE_NODE: [&str; 2] = ["providerID", "podCIDR"];

/// Configuration of one node.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeConfiguration {
    /// The node.
    pub node: NodeName,
    /// Version of the kubelet; unset when unreadable.
    pub minor: Option<Minor>,
    /// Configuration with `apiVersion` and `kind`.
    pub configuration: Map<String, Json>,
    /// Fields of the kubelet that the configuration omits.
    pub left_out: Vec<OmittedField>,
}

/// Omitted field.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, schemars::JsonSchema)]
#[schemars(rename = "Omitted")]
pub struct OmittedField {
    /// Path of the field.
    pub field: String,
    /// Reason of the omission.
    pub why: OmissionReason,
}

/// Reason why a captured configuration omits a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, schemars::JsonSchema)]
#[schemars(rename = "Withheld")]
#[serde(rename_all = "camelCase")]
pub enum OmissionReason {
    /// The field may contain a secret, which does not belong in git.
    Secret,
    /// The field describes one node.
    OfOneNode,
    /// The field differs between the nodes, and no node can use the value of another node.
    Differs,
}

impl OmissionReason {
    /// Text that follows the field in a sentence.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Secret => "may contain a secret, which does not belong in git",
            Self::OfOneNode => "describes one node",
            Self::Differs => "differs and describes one node",
        }
    }
}

impl NodeConfiguration {
    /// Converts the `kubeletconfig` of a response.
    #[must_use]
    pub fn of(node: NodeName, minor: Option<Minor>, kubeletconfig: Map<String, Json>) -> Self {
        let mut configuration = kubeletconfig;
        remove_filled_in(&mut configuration);
        let mut left_out = Vec::new();
        configuration.retain(|field, value| {
            let why = if OF_ONE_NODE.contains(&field.as_str()) {
                OmissionReason::OfOneNode
            } else if is_secret(field, value) {
                OmissionReason::Secret
            } else {
                return !value.is_null();
            };
            if !is_zero(value) {
                left_out.push(OmittedField { field: field.clone(), why });
            }
            false
        });
        left_out.sort();
        restore_omitted(&mut configuration, minor);
        Self { node, minor, configuration, left_out }
    }
}

/// Configuration of the `kubeletconfig` of a response, as text, to compare it with another one: with all fields that do
/// not describe one node. It may contain secrets. `None` when it is beyond the limits of a document.
#[must_use]
pub fn running_config(kubeletconfig: Map<String, Json>, minor: Option<Minor>) -> Option<String> {
    let mut configuration = kubeletconfig;
    configuration.retain(|field, value| !OF_ONE_NODE.contains(&field.as_str()) && !value.is_null());
    restore_omitted(&mut configuration, minor);
    to_yaml(&configuration)
}

/// Restores what Go omits: `apiVersion` and `kind`, and the fields with a non-empty default that were emptied on
/// purpose.
fn restore_omitted(configuration: &mut Map<String, Json>, minor: Option<Minor>) {
    without_empty_structs(configuration, "");
    for field in children("") {
        let name = field.name();
        if has_nonempty_default(field, minor.unwrap_or(NEWEST)) && !configuration.contains_key(name) {
            let is_list = items(name).is_some();
            let nothing = if is_list { Json::Array(Vec::new()) } else { Json::Object(Map::new()) };
            configuration.insert(name.to_owned(), nothing);
        }
    }
    configuration.insert("apiVersion".to_owned(), API_VERSION.into());
    configuration.insert("kind".to_owned(), KIND.into());
}

/// Fields of a text that may contain secrets, in values or in comments.
#[must_use]
pub(super) fn secret_fields(text: &str) -> Vec<&'static str> {
    let content = Document::parse("configuration", text).document.map(|document| document.to_json());
    let fields = content.as_ref().and_then(Json::as_object);
    let in_text = !secrets::lines(text).is_empty();
    let lower = text.to_ascii_lowercase();
    let has_secret = |name: &str| {
        let same = |(field, value): (&String, &Json)| field.eq_ignore_ascii_case(name) && is_secret(field, value);
        fields.is_some_and(|fields| fields.iter().any(same)) || (in_text && lower.contains(&name.to_ascii_lowercase()))
    };
    // `staticPodURLHeader` contains the name `staticPodURL`, so the shorter one counts only if the longer one was not
    // found.
    let mut found: Vec<&'static str> = secrets::SECRET.into_iter().filter(|name| has_secret(name)).collect();
    if found.is_empty() && has_secret(secrets::URL) {
        found.push(secrets::URL);
    }
    found
}

fn is_secret(field: &str, value: &Json) -> bool {
    let text = value.as_str().unwrap_or_default();
    secrets::is_secret(field) || secrets::redacted(field, text) != text
}

/// Removes empty structs, for example `memorySwap: {}`.
fn without_empty_structs(map: &mut Map<String, Json>, parent: &str) {
    map.retain(|key, value| {
        let Some(field) = child(parent, key).filter(|field| is_struct(field)) else { return true };
        let Json::Object(inner) = value else { return true };
        without_empty_structs(inner, &field.path);
        // A pointer to an empty object differs from a missing one.
        !inner.is_empty() || field.pointer_since.is_some()
    });
}

/// Configuration as nodecfg's canonical YAML. `None` when it is beyond the limits of a document, or would be parsed
/// differently.
#[must_use]
pub fn to_yaml(configuration: &Map<String, Json>) -> Option<String> {
    let text = serde_json::to_string(configuration).ok()?;
    let parsed = Document::parse("configz", &text);
    // The parser drops values that are nested too deep.
    if parsed.findings.iter().any(|finding| finding.code == "too-deep") {
        return None;
    }
    let canonical = parsed.document?.canonical();
    let reparsed = Document::parse("kubelet.yaml", &canonical).document?.canonical();
    (reparsed == canonical).then_some(canonical)
}

/// Path of a field from its names.
#[must_use]
pub(super) fn path(names: &[String]) -> String {
    names.iter().fold(String::new(), |path, name| path_of(&path, name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn converted(kubeletconfig: Json) -> NodeConfiguration {
        NodeConfiguration::of(NodeName::new("n1").unwrap(), Some(Minor(36)), kubeletconfig.as_object().unwrap().clone())
    }

    #[test]
    fn converts_configz_output() {
        let converted = converted(json!({
            "maxPods": 250, "memorySwap": {}, "authentication": {"x509": {}, "anonymous": {"enabled": false}},
            "evictionHard": {"memory.available": "1Gi"}, "enforceNodeAllocatable": ["pods"], "tracing": {},
        }));
        let expected = json!({
            "apiVersion": API_VERSION, "kind": KIND, "maxPods": 250, "authentication": {"anonymous": {"enabled": false}},
            "evictionHard": {"memory.available": "1Gi"}, "enforceNodeAllocatable": ["pods"], "tracing": {},
        });
        assert_eq!(Json::Object(converted.configuration), expected);
        assert_eq!(converted.left_out, []);
    }

    #[test]
    fn omits_what_the_kubelet_fills_in() {
        let own = json!({
            "maxPods": 7, "tlsCertFile": "/var/lib/kubelet/pki/kubelet.crt",
            "tlsPrivateKeyFile": "/var/lib/kubelet/pki/kubelet.key",
        });
        assert!(!converted(own.clone()).configuration.contains_key("tlsCertFile"));
        // A comparison reads the value that runs.
        let running = running_config(own.as_object().unwrap().clone(), Some(Minor(36))).unwrap();
        assert!(running.contains("tlsCertFile"), "{running}");
    }

    #[test]
    fn running_config_keeps_everything_that_a_change_may_replace() {
        let answer = json!({"maxPods": 7, "providerID": "aws:///a/i-1", "staticPodURL": "https://u:p@host/pods"});
        let text = running_config(answer.as_object().unwrap().clone(), Some(Minor(36))).unwrap();
        assert!(text.contains("staticPodURL") && text.contains("evictionHard: {}"), "{text}");
        assert!(!text.contains("providerID"), "{text}");
        assert_eq!(running_config(json!({"a": "x".repeat(8 << 20)}).as_object().unwrap().clone(), None), None);
    }

    #[test]
    fn keeps_fields_that_were_emptied_on_purpose() {
        let converted = converted(json!({"maxPods": 1}));
        assert_eq!(converted.configuration["evictionHard"], json!({}));
        assert_eq!(converted.configuration["enforceNodeAllocatable"], json!([]));
        assert_eq!(converted.configuration.get("clusterDNS"), None);
    }

    #[test]
    fn finds_secrets_in_values_and_comments() {
        for (text, fields) in [
            ("staticPodURLHeader:\n  X-Token: [s3cr3t]\n", &["staticPodURLHeader"][..]),
            ("\"static\\x50odURLHeader\": {X-Token: [s3cr3t]}\n", &["staticPodURLHeader"]),
            ("maxPods: 1\n# staticPodURLHeader: {X-Token: [s3cr3t]}\n", &["staticPodURLHeader"]),
            ("staticPodURL:\n  https://u:p@host/pods\n", &["staticPodURL"]),
            ("staticPodURL: https://host/pods\n", &[]),
            ("maxPods: 1\n", &[]),
        ] {
            assert_eq!(secret_fields(text), fields, "{text}");
        }
    }

    #[test]
    fn rejects_too_deep_nesting() {
        let deep = (0..100).fold(json!(1), |inner, _| json!({"a": inner}));
        assert_eq!(to_yaml(json!({"maxPods": 1, "evictionHard": deep}).as_object().unwrap()), None);
    }

    #[test]
    fn omits_secrets_and_fields_of_one_node() {
        let converted = converted(json!({
            "staticPodURLHeader": {"X-Token": ["s3cr3t"]}, "staticPodURL": "https://u:p@host/pods",
            "providerID": "aws:///a/i-1", "podCIDR": "",
        }));
        let fields: Vec<_> = converted.left_out.iter().map(|out| (out.field.as_str(), out.why)).collect();
        assert_eq!(
            fields,
            [
                ("providerID", OmissionReason::OfOneNode),
                ("staticPodURL", OmissionReason::Secret),
                ("staticPodURLHeader", OmissionReason::Secret)
            ]
        );
        let text = to_yaml(&converted.configuration).unwrap();
        assert!(!text.contains("s3cr3t") && !text.contains("u:p") && text.starts_with("apiVersion:"), "{text}");
    }
}
