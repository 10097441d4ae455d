//! Encoding of a source in the kubelet's format: `SerializedNodeConfigSource` of kubelet.config.k8s.io/v1beta1.
//! Kubelets 1.11 to 1.23 keep it in `meta/assigned` and `meta/last-known-good` (`checkpoint/download.go`,
//! `checkpoint/store/fsstore.go`).
//!
//! An empty file is the local configuration. Invalid content is always an error.

use std::fmt;

use serde_json::Value;

use super::names::check_plain;
use kubelet_config::document::{Document, canonical_text};
use nodecfg_contract::{ConfigMapSource, ConfigSource};

/// API version and kind of the format.
const API_VERSION: &str = "kubelet.config.k8s.io/v1beta1";
const KIND: &str = "SerializedNodeConfigSource";

/// Source with uid and resourceVersion, whose names are safe as file names. It identifies one checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resolved<'a> {
    /// Uid of the ConfigMap.
    pub uid: &'a str,
    /// ResourceVersion of the ConfigMap.
    pub resource_version: &'a str,
    /// Key of the ConfigMap.
    pub key: &'a str,
}

impl<'a> Resolved<'a> {
    /// Resolves a source.
    ///
    /// # Errors
    /// A part is missing, or a name is not safe as a file name.
    pub fn of(source: &'a ConfigSource) -> Result<Self, String> {
        let map = source.config_map.as_ref().ok_or("it names no ConfigMap")?;
        let present = |field: &'a Option<String>| field.as_deref().filter(|text| !text.is_empty());
        let uid = present(&map.uid).ok_or("it has no uid")?;
        let resource_version = present(&map.resource_version).ok_or("it has no resourceVersion")?;
        let resolved = Self { uid, resource_version, key: &map.kubelet_config_key };
        check_plain("the uid", uid)?;
        check_plain("the resourceVersion", resource_version)?;
        check_plain("the key", resolved.key)?;
        Ok(resolved)
    }
}

impl fmt::Display for Resolved<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.uid, self.resource_version, self.key)
    }
}

/// Encodes a source as kubelets do, with keys in alphabetical order. Unlike kubelets, quotes every value whose type a
/// reader could mistake.
///
/// # Errors
/// See [`Resolved::of`]; kubelets refuse unresolved sources too.
pub fn encode(source: Option<&ConfigSource>) -> Result<String, String> {
    let Some(source) = source else { return Ok(String::new()) };
    let Resolved { uid, resource_version, key } = Resolved::of(source)?;
    let map = source.config_map.as_ref();
    let name = map.map(|map| map.name.as_str()).unwrap_or_default();
    let namespace = map.map(|map| map.namespace.as_str()).unwrap_or_default();
    let mut text = format!("apiVersion: {API_VERSION}\nkind: {KIND}\nsource:\n  configMap:\n");
    let fields = [
        ("kubeletConfigKey", key),
        ("name", name),
        ("namespace", namespace),
        ("resourceVersion", resource_version),
        ("uid", uid),
    ];
    for (field, value) in fields {
        text.push_str(&format!("    {field}: {}\n", canonical_text(value)));
    }
    Ok(text)
}

/// Decodes the file of a source, YAML or JSON. Unknown fields are ignored, as by kubelets.
///
/// # Errors
/// Reason why the content is invalid.
pub fn decode(content: &[u8]) -> Result<Option<ConfigSource>, String> {
    if content.is_empty() {
        return Ok(None);
    }
    let text = std::str::from_utf8(content).map_err(|error| format!("it is not UTF-8: {error}"))?;
    let parsed = Document::parse("", text);
    let Some(document) = parsed.document else {
        let why = parsed.findings.first().map(|finding| finding.message.clone());
        return Err(why.unwrap_or_else(|| "it cannot be read".to_owned()));
    };
    let root = document.to_json();
    for (field, expected) in [("apiVersion", API_VERSION), ("kind", KIND)] {
        match root.get(field).and_then(Value::as_str) {
            Some(found) if found == expected => {}
            Some(found) => return Err(format!("its {field} is {found:?}, expected {expected:?}")),
            None => return Err(format!("it has no {field}")),
        }
    }
    let map = root.get("source").and_then(|source| source.get("configMap"));
    let map = map.filter(|map| map.is_object()).ok_or("it names no ConfigMap")?;
    let field = |name: &str| match map.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("its {name} is not a string")),
    };
    let source = ConfigSource::from(ConfigMapSource {
        kubelet_config_key: field("kubeletConfigKey")?.unwrap_or_default(),
        name: field("name")?.unwrap_or_default(),
        namespace: field("namespace")?.unwrap_or_default(),
        resource_version: field("resourceVersion")?,
        uid: field("uid")?,
    });
    Resolved::of(&source)?;
    Ok(Some(source))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn source(key: &str, version: &str, uid: &str) -> ConfigSource {
        let mut source = ConfigSource::config_map("kube-system", "prod-gpu-x5c2", key);
        if let Some(map) = source.config_map_mut() {
            map.resource_version = Some(version.to_owned());
            map.uid = Some(uid.to_owned());
        }
        source
    }

    /// Bytes written by a kubelet 1.21 (sigs.k8s.io/yaml over JSON, keys sorted by yaml.v2).
    const WRITTEN: &str = "\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: SerializedNodeConfigSource
source:
  configMap:
    kubeletConfigKey: kubelet
    name: prod-gpu-x5c2
    namespace: kube-system
    resourceVersion: \"4711\"
    uid: 0cc3d1d6-7f0f-4c7f-8c52-5c2ab4f9f5ff
";

    #[test]
    fn matches_kubelet_format() {
        let source = source("kubelet", "4711", "0cc3d1d6-7f0f-4c7f-8c52-5c2ab4f9f5ff");
        let ours = WRITTEN.replace("0cc3d1d6-7f0f-4c7f-8c52-5c2ab4f9f5ff", "\"0cc3d1d6-7f0f-4c7f-8c52-5c2ab4f9f5ff\"");
        assert_eq!(encode(Some(&source)).expect("encodes"), ours);
        for text in [WRITTEN, &ours] {
            assert_eq!(decode(text.as_bytes()).expect("decodes"), Some(source.clone()));
        }
        assert_eq!(encode(None).expect("encodes"), "");
        assert_eq!(decode(b"").expect("decodes"), None);
    }

    #[test]
    fn reads_json_with_unknown_fields() {
        let json = r#"{"source":{"newer":1,"configMap":{"uid":"u","namespace":"n","resourceVersion":"1","name":"a",
            "kubeletConfigKey":"k","other":null}},"kind":"SerializedNodeConfigSource",
            "apiVersion":"kubelet.config.k8s.io/v1beta1"}"#;
        let found = decode(json.as_bytes()).expect("decodes").expect("is a source");
        assert_eq!(Resolved::of(&found).expect("is resolved").to_string(), "u/1/k");
    }

    #[test]
    fn rejects_invalid_source_files() {
        let cases = [
            ("\n".to_owned(), "no YAML document"),
            (WRITTEN.replace("v1beta1", "v1"), "expected \"kubelet.config.k8s.io/v1beta1\""),
            (WRITTEN.replace("SerializedNode", "Node"), "its kind is"),
            (WRITTEN.replace("apiVersion", "version"), "it has no apiVersion"),
            (WRITTEN.replace("configMap", "secret"), "names no ConfigMap"),
            (WRITTEN.replace("\"4711\"", "4711"), "resourceVersion is not a string"),
            (WRITTEN.replace("\"4711\"", ""), "it has no resourceVersion"),
            (WRITTEN.replace("\"4711\"", "../.."), "cannot be a file name"),
            (WRITTEN.split_at(90).0.to_owned(), "names no ConfigMap"),
            ("\u{0}\u{0}\u{0}\u{0}".to_owned(), ""),
        ];
        for (text, expected) in cases {
            let error = decode(text.as_bytes()).expect_err(&text);
            assert!(error.contains(expected), "{text}: {error}");
        }
        decode(&[0xff, 0xfe]).expect_err("is not UTF-8");
        encode(Some(&ConfigSource::config_map("n", "a", "k"))).expect_err("is unresolved");
        encode(Some(&ConfigSource::default())).expect_err("names no ConfigMap");
    }

    proptest! {
        #[test]
        fn decodes_encoded_source(key in "[-._a-zA-Z0-9]{1,40}", version in "[0-9]{1,20}", uid in "[0-9a-f-]{1,40}") {
            prop_assume!(![".", ".."].contains(&key.as_str()));
            let source = source(&key, &version, &uid);
            let written = encode(Some(&source)).unwrap();
            prop_assert_eq!(decode(written.as_bytes()), Ok(Some(source)));
        }

        #[test]
        fn decode_does_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = decode(&bytes);
        }
    }
}
