//! Makes a recorded answer and ours comparable.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::decode_token;

/// What of the recording stands for what of ours.
#[derive(Debug, Default)]
pub(super) struct Mapping {
    revisions: BTreeMap<String, String>,
    uids: BTreeMap<String, String>,
    tokens: BTreeMap<String, String>,
}

/// Fields that hold times.
const TIMES: [&str; 4] = ["creationTimestamp", "deletionTimestamp", "lastTransitionTime", "time"];
/// Revisions that are not of the run: they were chosen by whoever recorded.
const CHOSEN: [&str; 4] = ["0", "1", "2", "7"];

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

    pub(super) fn token(&mut self, recorded: &str, ours: &str) {
        self.tokens.insert(recorded.to_owned(), ours.to_owned());
    }

    /// A recorded request with our uids and revisions in it.
    pub(super) fn request(&self, recorded: &Value) -> Value {
        match recorded {
            Value::Object(map) => Value::Object(
                map.iter()
                    .map(|(key, value)| {
                        let ours = match (key.as_str(), value.as_str()) {
                            ("uid", Some(uid)) => self.uids.get(uid),
                            ("resourceVersion", Some(version)) => self.revisions.get(version),
                            _ => None,
                        };
                        (key.clone(), ours.map_or_else(|| self.request(value), |ours| ours.as_str().into()))
                    })
                    .collect(),
            ),
            Value::Array(list) => list.iter().map(|item| self.request(item)).collect(),
            other => other.clone(),
        }
    }

    /// Both answers with what differs from run to run replaced: the recording's by ours where they correspond.
    pub(super) fn normalise(&mut self, case: &str, mut wanted: Value, mut found: Value) -> (Value, Value) {
        if case == "version" {
            // The recorded builds carry no stamp of their release.
            for value in [&mut wanted, &mut found] {
                if let Some(body) = value.get_mut("body").and_then(Value::as_object_mut) {
                    for key in ["gitVersion", "gitCommit", "gitTreeState", "major", "minor"] {
                        body.shift_remove(key);
                    }
                }
            }
        }
        tidy(&mut wanted);
        tidy(&mut found);
        self.learn(&wanted, &found);
        self.translate(&mut wanted);
        (wanted, found)
    }

    fn learn(&mut self, recorded: &Value, ours: &Value) {
        match (recorded, ours) {
            (Value::Object(a), Value::Object(b)) => {
                for (key, x) in a {
                    let Some(y) = b.get(key) else { continue };
                    if let (Some(x), Some(y)) = (x.as_str(), y.as_str()) {
                        match key.as_str() {
                            "resourceVersion" if !CHOSEN.contains(&x) => {
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
                    self.learn(x, y);
                }
            }
            (Value::Array(a), Value::Array(b)) => {
                for (x, y) in a.iter().zip(b) {
                    self.learn(x, y);
                }
            }
            _ => {}
        }
    }

    fn translate(&self, recorded: &mut Value) {
        match recorded {
            Value::Object(map) => {
                for (key, value) in map.iter_mut() {
                    let ours = value.as_str().and_then(|text| match key.as_str() {
                        "resourceVersion" => self.revisions.get(text).cloned(),
                        "uid" => self.uids.get(text).cloned(),
                        "continue" => self.same_place(text),
                        _ => None,
                    });
                    match ours {
                        Some(ours) => *value = ours.into(),
                        None => self.translate(value),
                    }
                }
            }
            Value::Array(list) => list.iter_mut().for_each(|item| self.translate(item)),
            _ => {}
        }
    }

    /// Our token, when it says the same as the recorded one but for the revision.
    fn same_place(&self, recorded: &str) -> Option<String> {
        let ours = self.tokens.get(recorded)?;
        let (a, b) = (decode_token(recorded)?, decode_token(ours)?);
        let inconsistent = |token: &Value| token["rv"] == -1;
        (a["start"] == b["start"] && inconsistent(&a) == inconsistent(&b)).then(|| ours.clone())
    }
}

fn order(record: &Value) -> [String; 3] {
    ["manager", "operation", "subresource"].map(|key| record.get(key).map(Value::to_string).unwrap_or_default())
}

/// Replaces times and generated names, and puts managed fields, whose order depends on the second, into one order.
fn tidy(value: &mut Value) {
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
                tidy(child);
            }
        }
        Value::Array(list) => list.iter_mut().for_each(tidy),
        _ => {}
    }
}

/// With keys in order, for reading.
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

/// The paths at which two values differ.
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
