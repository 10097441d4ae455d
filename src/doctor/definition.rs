//! Comparison of a cluster's definition of NodeConfigs with that of this program.
//!
//! An API server adds defaults to stored objects, so the comparison only requires every value of this program's
//! definition. Additional fields come from a later version of nodecfg.

use serde_json::Value;

use nodecfg_contract::nodeconfig;

/// Differences of a definition from that of this program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Differences {
    /// Fields that the definition lacks: values written to them are lost.
    pub missing: Vec<String>,
    /// Fields with other rules or limits, and other differing parts.
    pub other: Vec<String>,
    /// Fields that this program does not know.
    pub unknown: Vec<String>,
}

/// Compares a definition with that of this program.
#[must_use]
pub fn differences(found: &Value) -> Differences {
    let ours = nodeconfig::definition();
    let mut differences = Differences::default();
    let (Some(our_version), Some(version)) = (version(&ours), version(found)) else {
        differences.other.push("spec.versions (v1alpha1 is not served)".to_owned());
        return differences;
    };
    let schema = |version: &Value| version.pointer("/schema/openAPIV3Schema").cloned().unwrap_or_default();
    compare_schema(&schema(our_version), &schema(version), "", &mut differences);
    for part in ["subresources", "additionalPrinterColumns"] {
        if !contains(our_version.get(part), version.get(part)) {
            differences.other.push(part.to_owned());
        }
    }
    differences
}

/// Reports whether the API server serves a definition. A missing condition counts as served.
#[must_use]
pub fn is_established(found: &Value) -> bool {
    let conditions = found.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let mut established =
        conditions.filter(|condition| condition.get("type").and_then(Value::as_str) == Some("Established"));
    established.next().is_none_or(|condition| condition.get("status").and_then(Value::as_str) == Some("True"))
}

/// The served version v1alpha1.
fn version(definition: &Value) -> Option<&Value> {
    let versions = definition.pointer("/spec/versions")?.as_array()?;
    versions.iter().find(|version| {
        version.get("name").and_then(Value::as_str) == Some("v1alpha1")
            && version.get("served") != Some(&Value::Bool(false))
    })
}

/// Compares the schema of a value with its nested schemas.
fn compare_schema(ours: &Value, found: &Value, path: &str, differences: &mut Differences) {
    let properties = |schema: &Value| schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let (our_properties, properties) = (properties(ours), properties(found));
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    for (name, ours) in &our_properties {
        match properties.get(name) {
            Some(found) => compare_schema(ours, found, &below(name), differences),
            None => differences.missing.push(below(name)),
        }
    }
    // The common fields of all objects are not unknown: only one of the definitions may describe them.
    let common = ["apiVersion", "kind", "metadata"];
    let unknown = properties.keys().filter(|name| !our_properties.contains_key(*name));
    differences
        .unknown
        .extend(unknown.filter(|name| !path.is_empty() || !common.contains(&name.as_str())).map(|name| below(name)));
    if let (Some(ours), Some(found)) = (ours.get("items"), found.get("items")) {
        compare_schema(ours, found, &format!("{path}[]"), differences);
    }
    // A description does not affect validation.
    let rest = ours.as_object().into_iter().flatten();
    let mut rest = rest.filter(|(key, _)| !matches!(key.as_str(), "properties" | "items" | "description"));
    if rest.any(|(key, ours)| !contains(Some(ours), found.get(key))) {
        differences.other.push(if path.is_empty() { "the schema".to_owned() } else { path.to_owned() });
    }
}

/// Reports whether `found` contains every value of `ours`.
fn contains(ours: Option<&Value>, found: Option<&Value>) -> bool {
    match (ours, found) {
        (None, _) => true,
        (Some(Value::Object(ours)), Some(Value::Object(found))) => {
            ours.iter().all(|(key, value)| contains(Some(value), found.get(key)))
        }
        (Some(Value::Object(ours)), None) => ours.is_empty(),
        (Some(Value::Array(ours)), Some(Value::Array(found))) => {
            ours.len() == found.len() && ours.iter().zip(found).all(|(ours, found)| contains(Some(ours), Some(found)))
        }
        (Some(ours), found) => found == Some(ours),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn changed(change: impl FnOnce(&mut Value)) -> Differences {
        let mut definition = nodeconfig::definition();
        change(&mut definition);
        differences(&definition)
    }

    const STATUS: &str = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties";

    #[test]
    fn defaults_of_the_server_are_no_difference() {
        let differences = changed(|definition| {
            definition["metadata"]["uid"] = json!("u");
            definition["spec"]["conversion"] = json!({"strategy": "None"});
            definition["spec"]["names"]["listKind"] = json!("NodeConfigList");
            definition["status"] = json!({"conditions": [{"type": "Established", "status": "True"}]});
        });
        assert_eq!(differences, Differences::default());
    }

    #[test]
    fn names_missing_and_differing_fields() {
        let old = changed(|definition| {
            definition.pointer_mut(STATUS).unwrap().as_object_mut().unwrap().remove("agent");
        });
        assert_eq!((old.missing, old.other, old.unknown), (vec!["status.agent".to_owned()], vec![], vec![]));
        let other = changed(|definition| definition.pointer_mut(STATUS).unwrap()["pool"]["maxLength"] = json!(10));
        assert_eq!(other.other, ["status.pool"]);
        let newer = changed(|definition| definition.pointer_mut(STATUS).unwrap()["mood"] = json!({"type": "string"}));
        assert_eq!((newer.missing, newer.other, newer.unknown), (vec![], vec![], vec!["status.mood".to_owned()]));
        let columns = changed(|definition| definition["spec"]["versions"][0]["additionalPrinterColumns"] = json!([]));
        assert_eq!(columns.other, ["additionalPrinterColumns"]);
        let unserved = changed(|definition| definition["spec"]["versions"][0]["served"] = json!(false));
        assert_eq!(unserved.other.len(), 1);
    }

    #[test]
    fn detects_a_definition_that_is_not_established() {
        assert!(is_established(&nodeconfig::definition()));
        assert!(!is_established(&json!({"status": {"conditions": [{"type": "Established", "status": "False"}]}})));
    }
}
