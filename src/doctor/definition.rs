//! Whether the definition of NodeConfigs on a cluster is the one that this program brings.
//!
//! An API server adds what is left out to what it stores, so a definition is compared by what ours says: whatever that is must
//! be there. Fields that only the other has are from a later version of nodecfg.

use serde_json::Value;

use nodecfg_contract::nodeconfig;

/// In what a definition differs from ours.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Differences {
    /// Fields of a NodeConfig that it does not know: what is written to them is lost.
    pub missing: Vec<String>,
    /// Fields whose rules or bounds are others, and whatever else is not as it should be.
    pub other: Vec<String>,
    /// Fields that this program does not know.
    pub unknown: Vec<String>,
}

/// Compares a definition with ours.
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
        if !holds(our_version.get(part), version.get(part)) {
            differences.other.push(part.to_owned());
        }
    }
    differences
}

/// Whether the API server serves what a definition describes. One that does not say counts as served.
#[must_use]
pub fn is_established(found: &Value) -> bool {
    let conditions = found.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let mut established =
        conditions.filter(|condition| condition.get("type").and_then(Value::as_str) == Some("Established"));
    established.next().is_none_or(|condition| condition.get("status").and_then(Value::as_str) == Some("True"))
}

fn version(definition: &Value) -> Option<&Value> {
    let versions = definition.pointer("/spec/versions")?.as_array()?;
    versions.iter().find(|version| {
        version.get("name").and_then(Value::as_str) == Some("v1alpha1")
            && version.get("served") != Some(&Value::Bool(false))
    })
}

/// Compares the schema of a value, and of what is within it.
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
    // What every object has is described by one and left out by the other.
    let common = ["apiVersion", "kind", "metadata"];
    let unknown = properties.keys().filter(|name| !our_properties.contains_key(*name));
    differences
        .unknown
        .extend(unknown.filter(|name| !path.is_empty() || !common.contains(&name.as_str())).map(|name| below(name)));
    if let (Some(ours), Some(found)) = (ours.get("items"), found.get("items")) {
        compare_schema(ours, found, &format!("{path}[]"), differences);
    }
    // A description changes nothing of what is taken and what is refused.
    let rest = ours.as_object().into_iter().flatten();
    let mut rest = rest.filter(|(key, _)| !matches!(key.as_str(), "properties" | "items" | "description"));
    if rest.any(|(key, ours)| !holds(Some(ours), found.get(key))) {
        differences.other.push(if path.is_empty() { "the schema".to_owned() } else { path.to_owned() });
    }
}

/// Whether all that `ours` says is in `found`.
fn holds(ours: Option<&Value>, found: Option<&Value>) -> bool {
    match (ours, found) {
        (None, _) => true,
        (Some(Value::Object(ours)), Some(Value::Object(found))) => {
            ours.iter().all(|(key, value)| holds(Some(value), found.get(key)))
        }
        (Some(Value::Object(ours)), None) => ours.is_empty(),
        (Some(Value::Array(ours)), Some(Value::Array(found))) => {
            ours.len() == found.len() && ours.iter().zip(found).all(|(ours, found)| holds(Some(ours), Some(found)))
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
    fn what_a_server_adds_is_no_difference() {
        let differences = changed(|definition| {
            definition["metadata"]["uid"] = json!("u");
            definition["spec"]["conversion"] = json!({"strategy": "None"});
            definition["spec"]["names"]["listKind"] = json!("NodeConfigList");
            definition["status"] = json!({"conditions": [{"type": "Established", "status": "True"}]});
        });
        assert_eq!(differences, Differences::default());
    }

    #[test]
    fn fields_that_are_missing_or_other_are_named() {
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
    fn a_definition_that_is_not_established_is_seen() {
        assert!(is_established(&nodeconfig::definition()));
        assert!(!is_established(&json!({"status": {"conditions": [{"type": "Established", "status": "False"}]}})));
    }
}
