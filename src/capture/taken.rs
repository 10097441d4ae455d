//! The answer of a kubelet's `configz` as a configuration that can stand in a repository.
//!
//! `configz` shows the kubelet's own view, converted back: defaults filled in, flags laid over, `apiVersion` and `kind` left
//! away, and whatever Go's `omitempty` drops. An empty map or list is dropped as well: where the default is not empty, one
//! that is not there was set to nothing on purpose, and is written down as such.

use serde_json::{Map, Value as Json};

use kubelet_config::defaults::{has_filled_default, is_struct, is_zero};
use kubelet_config::document::{Document, path_of};
use kubelet_config::fields::{child, children, items};
use kubelet_config::minor::NEWEST;
use kubelet_config::{API_VERSION, KIND, Minor, secrets};
use nodecfg_contract::names::NodeName;

/// Fields that say something of one machine, and never of a pool.
const OF_ONE_NODE: [&str; 2] = ["providerID", "podCIDR"];

/// What one node runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Taken {
    /// The node.
    pub node: NodeName,
    /// The version of its kubelet; unset when it is not readable.
    pub minor: Option<Minor>,
    /// The configuration, with `apiVersion` and `kind`.
    pub configuration: Map<String, Json>,
    /// What its kubelet runs and is not in there.
    pub left_out: Vec<LeftOut>,
}

/// A field that was left out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, schemars::JsonSchema)]
#[schemars(rename = "Omitted")]
pub struct LeftOut {
    /// Its path.
    pub field: String,
    /// Why.
    pub why: Withheld,
}

/// Why a field is not in a captured configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Withheld {
    /// It may hold a secret, which does not belong into git.
    Secret,
    /// It is of this one node.
    OfOneNode,
    /// It differs between the nodes, and no node can run with another's.
    Differs,
}

impl Withheld {
    /// Ready to follow the field in a sentence.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Secret => "may hold a secret, which does not belong into git",
            Self::OfOneNode => "is of one node alone",
            Self::Differs => "differs, and is of one node alone",
        }
    }
}

impl Taken {
    /// Takes the `kubeletconfig` of an answer.
    #[must_use]
    pub fn of(node: NodeName, minor: Option<Minor>, kubeletconfig: Map<String, Json>) -> Self {
        let mut configuration = kubeletconfig;
        let mut left_out = Vec::new();
        configuration.retain(|field, value| {
            let why = if OF_ONE_NODE.contains(&field.as_str()) {
                Withheld::OfOneNode
            } else if is_secret(field, value) {
                Withheld::Secret
            } else {
                return !value.is_null();
            };
            if !is_zero(value) {
                left_out.push(LeftOut { field: field.clone(), why });
            }
            false
        });
        left_out.sort();
        without_empty_structs(&mut configuration, "");
        for name in children("") {
            let emptied = child("", name).is_some_and(|field| {
                has_filled_default(field, minor.unwrap_or(NEWEST)) && !configuration.contains_key(name)
            });
            if emptied {
                let is_list = items(name).is_some();
                let nothing = if is_list { Json::Array(Vec::new()) } else { Json::Object(Map::new()) };
                configuration.insert(name.clone(), nothing);
            }
        }
        configuration.insert("apiVersion".to_owned(), API_VERSION.into());
        configuration.insert("kind".to_owned(), KIND.into());
        Self { node, minor, configuration, left_out }
    }
}

/// The fields of a text in which secrets may stand: as values, or in what is only a comment.
#[must_use]
pub(super) fn secret_fields(text: &str) -> Vec<&'static str> {
    let content = Document::parse("configuration", text).document.map(|document| document.to_json());
    let fields = content.as_ref().and_then(Json::as_object);
    let in_words = !secrets::lines(text).is_empty();
    let lower = text.to_ascii_lowercase();
    let held = |name: &str| {
        let same = |(field, value): (&String, &Json)| field.eq_ignore_ascii_case(name) && is_secret(field, value);
        fields.is_some_and(|fields| fields.iter().any(same)) || (in_words && lower.contains(&name.to_ascii_lowercase()))
    };
    // Where the one is named, the other's name is found in it.
    let mut found: Vec<&'static str> = secrets::SECRET.into_iter().filter(|name| held(name)).collect();
    if found.is_empty() && held(secrets::URL) {
        found.push(secrets::URL);
    }
    found
}

fn is_secret(field: &str, value: &Json) -> bool {
    let text = value.as_str().unwrap_or_default();
    secrets::is_secret(field) || secrets::shown(field, text) != text
}

/// Removes objects with fields of their own in which nothing is said: `memorySwap: {}`.
fn without_empty_structs(map: &mut Map<String, Json>, parent: &str) {
    map.retain(|key, value| {
        let Some(field) = child(parent, key).filter(|field| is_struct(field)) else { return true };
        let Json::Object(inner) = value else { return true };
        without_empty_structs(inner, &field.path);
        // A pointer to an empty object is not the same as none.
        !inner.is_empty() || field.pointer_since.is_some()
    });
}

/// A configuration as the canonical YAML that nodecfg writes everywhere. `None` for one that is beyond the bounds of a
/// document, or would be read as another one.
#[must_use]
pub fn to_yaml(configuration: &Map<String, Json>) -> Option<String> {
    let text = serde_json::to_string(configuration).ok()?;
    let parsed = Document::parse("configz", &text);
    // Of what is nested too deep, the rest would be left.
    if parsed.findings.iter().any(|finding| finding.code == "too-deep") {
        return None;
    }
    let meant = parsed.document?.canonical();
    let read = Document::parse("kubelet.yaml", &meant).document?.canonical();
    (read == meant).then_some(meant)
}

/// The path of a field from its names.
#[must_use]
pub(super) fn path(names: &[String]) -> String {
    names.iter().fold(String::new(), |path, name| path_of(&path, name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn taken(kubeletconfig: Json) -> Taken {
        Taken::of(NodeName::new("n1").unwrap(), Some(Minor(36)), kubeletconfig.as_object().unwrap().clone())
    }

    #[test]
    fn what_a_kubelet_shows_becomes_a_configuration() {
        let taken = taken(json!({
            "maxPods": 250, "memorySwap": {}, "authentication": {"x509": {}, "anonymous": {"enabled": false}},
            "evictionHard": {"memory.available": "1Gi"}, "enforceNodeAllocatable": ["pods"], "tracing": {},
        }));
        let expected = json!({
            "apiVersion": API_VERSION, "kind": KIND, "maxPods": 250, "authentication": {"anonymous": {"enabled": false}},
            "evictionHard": {"memory.available": "1Gi"}, "enforceNodeAllocatable": ["pods"], "tracing": {},
        });
        assert_eq!(Json::Object(taken.configuration), expected);
        assert_eq!(taken.left_out, []);
    }

    #[test]
    fn what_was_emptied_on_purpose_stays_empty() {
        let taken = taken(json!({"maxPods": 1}));
        assert_eq!(taken.configuration["evictionHard"], json!({}));
        assert_eq!(taken.configuration["enforceNodeAllocatable"], json!([]));
        assert_eq!(taken.configuration.get("clusterDNS"), None);
    }

    #[test]
    fn texts_with_secrets_are_known_by_value_and_by_word() {
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
    fn what_is_too_deep_for_a_file_is_in_none() {
        let deep = (0..100).fold(json!(1), |inner, _| json!({"a": inner}));
        assert_eq!(to_yaml(json!({"maxPods": 1, "evictionHard": deep}).as_object().unwrap()), None);
    }

    #[test]
    fn secrets_and_what_is_of_one_node_stay_on_the_node() {
        let taken = taken(json!({
            "staticPodURLHeader": {"X-Token": ["s3cr3t"]}, "staticPodURL": "https://u:p@host/pods",
            "providerID": "aws:///a/i-1", "podCIDR": "",
        }));
        let fields: Vec<_> = taken.left_out.iter().map(|out| (out.field.as_str(), out.why)).collect();
        assert_eq!(
            fields,
            [
                ("providerID", Withheld::OfOneNode),
                ("staticPodURL", Withheld::Secret),
                ("staticPodURLHeader", Withheld::Secret)
            ]
        );
        let text = to_yaml(&taken.configuration).unwrap();
        assert!(!text.contains("s3cr3t") && !text.contains("u:p") && text.starts_with("apiVersion:"), "{text}");
    }
}
