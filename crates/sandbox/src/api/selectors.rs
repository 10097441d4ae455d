//! Label and field selectors, with the error messages of apimachinery `pkg/labels` and `pkg/fields`.

use serde_json::Value;

use super::object::StoredObject;
use super::resource::ResourceType;
use super::status::{ApiError, ApiResult};

#[derive(Debug, Clone, PartialEq, Eq)]
enum Operator {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
}

/// A label selector. The empty selector selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Labels(Vec<Requirement>);

/// Splits at commas outside of parentheses.
fn terms(text: &str) -> Vec<&str> {
    let mut depth = 0_u32;
    let outside = |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    };
    text.split(outside).map(str::trim).collect()
}

fn requirement(term: &str) -> Option<Requirement> {
    let key = |text: &str| {
        let key = text.trim();
        (!key.is_empty() && !key.contains(|c: char| c.is_whitespace() || "()=!<>".contains(c))).then(|| key.to_owned())
    };
    let value = |text: &str| vec![text.trim().to_owned()];
    if let Some((left, right)) = term.split_once('(') {
        let values = right.strip_suffix(')')?.split(',').map(|value| value.trim().to_owned()).collect();
        let (left, operator) = match left.trim().rsplit_once(char::is_whitespace)? {
            (left, "in") => (left, Operator::In(values)),
            (left, "notin") => (left, Operator::NotIn(values)),
            _ => return None,
        };
        return Some(Requirement { key: key(left)?, operator });
    }
    if let Some(absent) = term.strip_prefix('!') {
        return Some(Requirement { key: key(absent)?, operator: Operator::Absent });
    }
    let (left, operator) = match term.split_once("!=") {
        Some((left, right)) => (left, Operator::NotIn(value(right))),
        None => match term.split_once('=') {
            Some((left, right)) => (left, Operator::In(value(right.strip_prefix('=').unwrap_or(right)))),
            None => (term, Operator::Exists),
        },
    };
    Some(Requirement { key: key(left)?, operator })
}

impl Labels {
    /// Parses a label selector.
    ///
    /// # Errors
    /// 400 with the message of the API server.
    pub(crate) fn parse(text: &str) -> ApiResult<Self> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let requirements = terms(text).into_iter().map(|term| {
            requirement(term).ok_or_else(|| ApiError::bad_request(format!("unable to parse requirement: {term:?}")))
        });
        requirements.collect::<ApiResult<_>>().map(Self)
    }

    /// Reports whether the selector selects everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn matches(&self, labels: &[(Box<str>, Box<str>)]) -> bool {
        self.0.iter().all(|requirement| {
            let value = labels.iter().find(|(key, _)| **key == *requirement.key).map(|(_, value)| &**value);
            match &requirement.operator {
                Operator::Exists => value.is_some(),
                Operator::Absent => value.is_none(),
                Operator::In(values) => value.is_some_and(|value| values.iter().any(|wanted| wanted == value)),
                Operator::NotIn(values) => value.is_none_or(|value| !values.iter().any(|wanted| wanted == value)),
            }
        })
    }
}

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
    pub(crate) labels: Labels,
    /// Field selector.
    pub(crate) fields: Fields,
}

impl Selector {
    /// Reports whether the selector selects everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Reports whether the selector selects an object.
    pub(crate) fn matches(&self, stored: &StoredObject) -> bool {
        self.labels.matches(&stored.labels) && self.fields.matches(stored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selects(selector: &str, labels: &[(&str, &str)]) -> bool {
        let labels: Vec<(Box<str>, Box<str>)> = labels.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        Labels::parse(selector).unwrap().matches(&labels)
    }

    #[test]
    fn matches_equality_and_set_requirements() {
        let gpu = [("pool", "gpu"), ("zone", "a")];
        for good in
            ["", "pool=gpu", "pool==gpu,zone", "pool in (gpu, cpu)", "pool notin (x),zone!=b", "!other", "other!=x"]
        {
            assert!(selects(good, &gpu), "{good}");
        }
        for bad in
            ["pool=cpu", "other", "!pool", "pool in (cpu)", "pool notin (gpu)", "zone!=a", "other=", "zone in ()"]
        {
            assert!(!selects(bad, &gpu), "{bad}");
        }
    }

    #[test]
    fn refuses_malformed_selectors() {
        for malformed in ["pool in a", "a b", "a,", "a in (b", "=a", "!"] {
            assert_eq!(Labels::parse(malformed).map_err(|error| error.code), Err(400), "{malformed}");
        }
        assert_eq!(
            Fields::parse("spec.x=1", ResourceType::Node).unwrap_err().message,
            "field label not supported: spec.x"
        );
    }
}
