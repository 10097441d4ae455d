//! Normalization of recorded responses and responses of the sandbox, for comparison.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::decode_token;

/// Values of this run by recorded value.
#[derive(Debug, Default)]
pub(super) struct Mapping {
    revisions: BTreeMap<String, String>,
    uids: BTreeMap<String, String>,
    tokens: BTreeMap<String, String>,
}

/// Fields that contain times.
const TIMES: [&str; 4] = ["creationTimestamp", "deletionTimestamp", "lastTransitionTime", "time"];
/// Revisions that the recorder chose. They are equal in every run.
const RECORDER_REVISIONS: [&str; 4] = ["0", "1", "2", "7"];

fn is_uid(text: &str) -> bool {
    text.len() == 36 && text.matches('-').count() == 4 && !text.starts_with("11111111-")
}

impl Mapping {
    pub(super) fn revision(&self, recorded: &str) -> Option<String> {
        self.revisions.get(recorded).cloned()
    }

    pub(super) fn continuation(&self, recorded: &str) -> Option<String> {
        self.tokens.get(recorded).cloned()
    }

    pub(super) fn token(&mut self, recorded: &str, current: &str) {
        self.tokens.insert(recorded.to_owned(), current.to_owned());
    }

    /// Returns a recorded request with the uids and revisions of this run.
    pub(super) fn request(&self, recorded: &Value) -> Value {
        match recorded {
            Value::Object(map) => Value::Object(
                map.iter()
                    .map(|(key, value)| {
                        let current = match (key.as_str(), value.as_str()) {
                            ("uid", Some(uid)) => self.uids.get(uid),
                            ("resourceVersion", Some(version)) => self.revisions.get(version),
                            _ => None,
                        };
                        (key.clone(), current.map_or_else(|| self.request(value), |current| current.as_str().into()))
                    })
                    .collect(),
            ),
            Value::Array(list) => list.iter().map(|item| self.request(item)).collect(),
            other => other.clone(),
        }
    }

    /// Normalizes both responses: replaces values that differ between runs.
    pub(super) fn normalize(&mut self, case: &str, mut wanted: Value, mut found: Value) -> (Value, Value) {
        if case == "version" {
            // The recorded builds have no release stamp.
            for value in [&mut wanted, &mut found] {
                if let Some(body) = value.get_mut("body").and_then(Value::as_object_mut) {
                    for key in ["gitVersion", "gitCommit", "gitTreeState", "major", "minor"] {
                        body.shift_remove(key);
                    }
                }
            }
        }
        normalize_value(&mut wanted);
        normalize_value(&mut found);
        self.record(&wanted, &found);
        self.translate(&mut wanted);
        (wanted, found)
    }

    fn record(&mut self, recorded: &Value, current: &Value) {
        match (recorded, current) {
            (Value::Object(a), Value::Object(b)) => {
                for (key, x) in a {
                    let Some(y) = b.get(key) else { continue };
                    if let (Some(x), Some(y)) = (x.as_str(), y.as_str()) {
                        match key.as_str() {
                            "resourceVersion" if !RECORDER_REVISIONS.contains(&x) => {
                                self.revisions.entry(x.to_owned()).or_insert_with(|| y.to_owned());
                            }
                            "uid" if is_uid(x) => {
                                self.uids.entry(x.to_owned()).or_insert_with(|| y.to_owned());
                            }
                            "continue" if !x.is_empty() => {
                                self.tokens.insert(x.to_owned(), y.to_owned());
                            }
                            _ => {}
                        }
                    }
                    self.record(x, y);
                }
            }
            (Value::Array(a), Value::Array(b)) => {
                for (x, y) in a.iter().zip(b) {
                    self.record(x, y);
                }
            }
            _ => {}
        }
    }

    fn translate(&self, recorded: &mut Value) {
        match recorded {
            Value::Object(map) => {
                for (key, value) in map.iter_mut() {
                    let current = value.as_str().and_then(|text| match key.as_str() {
                        "resourceVersion" => self.revisions.get(text).cloned(),
                        "uid" => self.uids.get(text).cloned(),
                        "continue" => self.equal_token(text),
                        _ => None,
                    });
                    match current {
                        Some(current) => *value = current.into(),
                        None => self.translate(value),
                    }
                }
            }
            Value::Array(list) => list.iter_mut().for_each(|item| self.translate(item)),
            _ => {}
        }
    }

    /// Returns the token of this run if it equals the recorded token except for the revision.
    fn equal_token(&self, recorded: &str) -> Option<String> {
        let current = self.tokens.get(recorded)?;
        let (a, b) = (decode_token(recorded)?, decode_token(current)?);
        let inconsistent = |token: &Value| token["rv"] == -1;
        // A 1.36 server serves continuations from its cache. Their keys have a leading slash.
        let start = |token: &Value| token["start"].as_str().map(|start| start.trim_start_matches('/').to_owned());
        (start(&a) == start(&b) && inconsistent(&a) == inconsistent(&b)).then(|| current.clone())
    }
}

fn order(record: &Value) -> [String; 3] {
    ["manager", "operation", "subresource"].map(|key| record.get(key).map(Value::to_string).unwrap_or_default())
}

/// Replaces times, generated names, and the floor in messages about old revisions. Sorts managed fields, whose order
/// depends on the second.
fn normalize_value(value: &mut Value) {
    match value {
        Value::Object(map) => {
            let generated = map.get("generateName").and_then(Value::as_str).map(str::to_owned);
            for (key, child) in map.iter_mut() {
                if TIMES.contains(&key.as_str()) && child.is_string() {
                    *child = "<time>".into();
                } else if key == "managedFields" {
                    if let Value::Array(records) = child {
                        records.sort_by_key(order);
                    }
                } else if key == "message" {
                    if let Some((before, _)) =
                        child.as_str().and_then(|text| text.split_once("too old resource version: 2 ("))
                    {
                        *child = format!("{before}too old resource version: 2 (<floor>)").into();
                    }
                } else if key == "name"
                    && let (Some(prefix), Some(name)) = (&generated, child.as_str())
                    && name.strip_prefix(prefix.as_str()).is_some_and(|suffix| suffix.len() == 5)
                {
                    *child = "<generated>".into();
                }
                normalize_value(child);
            }
        }
        Value::Array(list) => list.iter_mut().for_each(normalize_value),
        _ => {}
    }
}

/// Removes what the sandbox does not imitate: texts and details of refusals, field ownership, and empty values, which Go
/// writes for missing ones.
pub(super) fn reduce(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if map.get("kind").and_then(Value::as_str) == Some("Status") {
                for key in ["message", "details"] {
                    map.shift_remove(key);
                }
            }
            map.shift_remove("managedFields");
            map.retain(|_, value| {
                reduce(value);
                !is_empty(value)
            });
        }
        Value::Array(list) => list.iter_mut().for_each(reduce),
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_u64() == Some(0),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) => false,
    }
}

/// Returns a copy with sorted keys, for readable output.
pub(super) fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let ordered: BTreeMap<&String, &Value> = map.iter().collect();
            Value::Object(ordered.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect::<Map<_, _>>())
        }
        Value::Array(list) => list.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

/// Returns the paths at which two values differ.
pub(super) fn differences(a: &Value, b: &Value) -> String {
    let mut found = Vec::new();
    collect(a, b, String::new(), &mut found);
    found.join("; ")
}

fn collect(a: &Value, b: &Value, path: String, found: &mut Vec<String>) {
    match (a, b) {
        (Value::Object(x), Value::Object(y)) => {
            let keys: std::collections::BTreeSet<&String> = x.keys().chain(y.keys()).collect();
            for key in keys {
                let null = Value::String("<absent>".to_owned());
                collect(x.get(key).unwrap_or(&null), y.get(key).unwrap_or(&null), format!("{path}/{key}"), found);
            }
        }
        (Value::Array(x), Value::Array(y)) if x.len() == y.len() => {
            for (index, (left, right)) in x.iter().zip(y).enumerate() {
                collect(left, right, format!("{path}/{index}"), found);
            }
        }
        _ if a != b => found.push(format!("{path}: {a} is not {b}")),
        _ => {}
    }
}
