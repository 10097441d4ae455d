//! Label and field selectors, with the error messages of apimachinery `pkg/labels` and `pkg/fields`.

use nodecfg_contract::label_selector::LabelSelector;
use serde_json::Value;

use super::object::StoredObject;
use super::request::Query;
use super::resource::ResourceType;
use super::status::{ApiError, ApiResult};

/// A field selector.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fields(Vec<(String, bool, String)>);

/// Reports whether objects of a type can be selected by a field.
fn is_field(resource_type: ResourceType, field: &str) -> bool {
    match (resource_type, field) {
        (_, "metadata.name" | "metadata.namespace") => true,
        (ResourceType::Node, "spec.unschedulable") | (ResourceType::Namespace, "status.phase") => true,
        (ResourceType::Pod, field) => matches!(field, "spec.nodeName" | "status.phase"),
        (ResourceType::Event, field) => matches!(field, "reason" | "type") || field.starts_with("involvedObject."),
        _ => false,
    }
}

impl Fields {
    /// Parses a field selector for a resource type.
    ///
    /// # Errors
    /// 400 for a malformed selector, or for a field that the resource type does not support.
    pub(crate) fn parse(text: &str, resource_type: ResourceType) -> ApiResult<Self> {
        let mut terms = Vec::new();
        for term in text.split(',').map(str::trim).filter(|term| !term.is_empty()) {
            let split = |sign: &str| term.split_once(sign);
            let (field, equal, value) = match (split("!="), split("=="), split("=")) {
                (Some((field, value)), _, _) => (field, false, value),
                (_, Some((field, value)), _) | (_, _, Some((field, value))) => (field, true, value),
                _ => {
                    let why = format!("invalid selector: '{text}'; can't understand '{term}'");
                    return Err(ApiError::bad_request(why));
                }
            };
            if !is_field(resource_type, field) {
                return Err(ApiError::bad_request(format!("field label not supported: {field}")));
            }
            terms.push((field.to_owned(), equal, value.to_owned()));
        }
        Ok(Self(terms))
    }

    /// Reports whether the selector selects everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the name that the selector requires, if any.
    pub(crate) fn name(&self) -> Option<&str> {
        self.0.iter().find(|(field, equal, _)| field == "metadata.name" && *equal).map(|(_, _, value)| value.as_str())
    }

    fn matches(&self, stored: &StoredObject) -> bool {
        let mut decoded: Option<Value> = None;
        self.0.iter().all(|(field, equal, wanted)| {
            let is_wanted = match field.as_str() {
                "metadata.name" => *stored.name == **wanted,
                "metadata.namespace" => *stored.namespace == **wanted,
                // Without decoding: each watch of a node's pods tests every event of every pod.
                "spec.nodeName" => *stored.node_name == **wanted,
                "status.phase" => *stored.phase == **wanted,
                other => lookup(decoded.get_or_insert_with(|| stored.value()), other) == *wanted,
            };
            is_wanted == *equal
        })
    }
}

fn lookup(object: &Value, field: &str) -> String {
    match object.pointer(&format!("/{}", field.replace('.', "/"))) {
        Some(Value::String(text)) => text.clone(),
        None if field == "spec.unschedulable" => "false".to_owned(),
        None => String::new(),
        Some(other) => other.to_string(),
    }
}

/// Label and field selector of a list or watch.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selector {
    /// Label selector.
    pub(crate) labels: LabelSelector,
    /// Field selector.
    pub(crate) fields: Fields,
}

impl Selector {
    /// Parses the selectors of a query for a resource type.
    ///
    /// # Errors
    /// 400 for a malformed selector.
    pub(crate) fn of(query: &Query, resource_type: ResourceType) -> ApiResult<Self> {
        let labels = query.text("labelSelector").parse();
        let labels = labels.map_err(|why| ApiError::bad_request(format!("unable to parse requirement: {why}")))?;
        Ok(Self { labels, fields: Fields::parse(query.text("fieldSelector"), resource_type)? })
    }

    /// Reports whether the selector selects everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_everything() && self.fields.is_empty()
    }

    /// Reports whether the selector selects an object.
    pub(crate) fn matches(&self, stored: &StoredObject) -> bool {
        let value_of = |key: &str| {
            let mut labels = stored.labels.iter();
            labels.find(|(label, _)| **label == *key).map(|(_, value)| &**value)
        };
        self.labels.matches_values(value_of) && self.fields.matches(stored)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::object::Change;
    use super::*;

    fn selector(labels: &str) -> ApiResult<Selector> {
        let labels: String = labels.bytes().map(|byte| format!("%{byte:02x}")).collect();
        Selector::of(&Query::of(&format!("/?labelSelector={labels}").parse().unwrap())?, ResourceType::Node)
    }

    #[test]
    fn matches_labels() {
        let object = json!({"metadata": {"name": "n1", "labels": {"pool": "gpu", "zone": "a"}}});
        let node = StoredObject::new(&object, 1, Change::Added);
        for good in ["", "pool==gpu,zone", "pool in (gpu, cpu)", "pool notin (x),zone!=b", "!other", "other!=x"] {
            assert!(selector(good).unwrap().matches(&node), "{good}");
        }
        for bad in ["pool=cpu", "other", "!pool", "zone!=a", "other=", "zone in ()", "pool=gpu,pool=cpu"] {
            assert!(!selector(bad).unwrap().matches(&node), "{bad}");
        }
    }

    #[test]
    fn refuses_malformed_selectors() {
        for malformed in ["pool in a", "a b", "a,"] {
            assert_eq!(selector(malformed).unwrap_err().code, 400, "{malformed}");
        }
        assert_eq!(
            Fields::parse("spec.x=1", ResourceType::Node).unwrap_err().message,
            "field label not supported: spec.x"
        );
    }
}
