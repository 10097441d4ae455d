//! Field ownership: `metadata.managedFields`, and the conflicts and removals of server-side apply.
//!
//! Managers own the keys of maps, and any list as a whole. API servers also know lists whose items have own managers.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::object::{text, time_text};
use super::status::{ApiError, ApiResult};

/// Path of a field: the keys from the object down.
type Path = Vec<String>;
type Paths = BTreeSet<Path>;

/// Metadata that clients may set, and therefore own.
const OWNED_METADATA: [&str; 4] = ["annotations", "finalizers", "labels", "ownerReferences"];

/// Who writes, and what.
#[derive(Debug, Clone)]
pub(crate) struct Writer<'a> {
    /// Field manager.
    pub(crate) manager: &'a str,
    /// API version of the object.
    pub(crate) version: &'a str,
    /// True for the subresource `status`. Other writes of the resource then do not own the status.
    pub(crate) status: bool,
    /// True if the resource has the subresource `status`.
    pub(crate) has_status: bool,
    /// Time of the write.
    pub(crate) now: Timestamp,
}

impl Writer<'_> {
    /// Reports whether the write can own a top-level field.
    fn owns(&self, field: &str) -> bool {
        match field {
            "apiVersion" | "kind" => false,
            "status" => self.status || !self.has_status,
            "metadata" => true,
            _ => !self.status,
        }
    }
}

/// Fields of one manager: an entry of `managedFields`.
#[derive(Debug, Clone, PartialEq)]
struct Record {
    manager: String,
    apply: bool,
    version: String,
    status: bool,
    time: String,
    fields: Paths,
}

impl Record {
    fn new(writer: &Writer<'_>, apply: bool) -> Self {
        Self {
            manager: writer.manager.to_owned(),
            apply,
            version: writer.version.to_owned(),
            status: writer.status,
            time: time_text(writer.now),
            fields: Paths::new(),
        }
    }

    fn is_like(&self, other: &Self) -> bool {
        (&self.manager, self.apply, &self.version, self.status)
            == (&other.manager, other.apply, &other.version, other.status)
    }

    fn read(entry: &Value) -> Self {
        let mut fields = Paths::new();
        read_tree(entry.get("fieldsV1").unwrap_or(&Value::Null), &mut Vec::new(), &mut fields);
        Self {
            manager: text(entry, "/manager").to_owned(),
            apply: text(entry, "/operation") == "Apply",
            version: text(entry, "/apiVersion").to_owned(),
            status: text(entry, "/subresource") == "status",
            time: text(entry, "/time").to_owned(),
            fields,
        }
    }

    fn to_value(&self) -> Value {
        let mut tree = Value::Object(Map::new());
        for path in &self.fields {
            let mut at = &mut tree;
            for key in path {
                let Some(map) = at.as_object_mut() else { break };
                at = map.entry(format!("f:{key}")).or_insert_with(|| json!({}));
            }
        }
        let mut entry = json!({
            "manager": self.manager,
            "operation": if self.apply { "Apply" } else { "Update" },
            "apiVersion": self.version,
            "time": self.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": tree,
        });
        if self.status {
            super::object::set_field(&mut entry, "subresource", "status");
        }
        entry
    }

    /// Names the manager in a conflict, as API servers do.
    fn described(&self) -> String {
        let subresource = if self.status { " with subresource \"status\"" } else { "" };
        let version = if self.apply { String::new() } else { format!(" using {}", self.version) };
        format!("{:?}{subresource}{version}", self.manager)
    }
}

fn read_tree(tree: &Value, at: &mut Path, fields: &mut Paths) {
    let children = tree.as_object().into_iter().flatten();
    let children: Vec<_> = children.filter_map(|(key, below)| Some((key.strip_prefix("f:")?, below))).collect();
    if children.is_empty() && !at.is_empty() {
        fields.insert(at.clone());
    }
    for (key, below) in children {
        at.push(key.to_owned());
        read_tree(below, at, fields);
        at.pop();
    }
}

fn read_records(object: &Value) -> Vec<Record> {
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    entries.into_iter().flatten().map(Record::read).collect()
}

fn write_records(object: &mut Value, mut records: Vec<Record>) {
    records.retain(|record| !record.fields.is_empty());
    // One order, so that an apply without changes changes nothing.
    records.sort_by(|a, b| (&a.manager, a.apply, a.status).cmp(&(&b.manager, b.apply, b.status)));
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.shift_remove("managedFields");
        if !records.is_empty() {
            let entries: Vec<Value> = records.iter().map(Record::to_value).collect();
            metadata.insert("managedFields".to_owned(), entries.into());
        }
    }
}

/// Returns the parts of an object that a write can own, by path.
fn parts<'a>(object: &'a Value, writer: &Writer<'_>) -> BTreeMap<Path, &'a Value> {
    let mut parts = BTreeMap::new();
    for (field, value) in object.as_object().into_iter().flatten().filter(|(field, _)| writer.owns(field)) {
        if field != "metadata" {
            parts.insert(vec![field.clone()], value);
            continue;
        }
        let owned = |key: &&str| value.get(*key).map(|value| (vec![field.clone(), (*key).to_owned()], value));
        parts.extend(OWNED_METADATA.iter().filter_map(owned));
    }
    parts
}

/// Adds the paths of the leaves of a value: of all values but maps with entries.
fn add_leaves(value: &Value, at: &mut Path, leaves: &mut Paths) {
    match value.as_object().filter(|map| !map.is_empty()) {
        Some(map) => {
            for (key, below) in map {
                at.push(key.clone());
                add_leaves(below, at, leaves);
                at.pop();
            }
        }
        None => {
            leaves.insert(at.clone());
        }
    }
}

/// Adds the paths of leaves that differ: to `gone` those of `old`, to `set` those of `new`.
fn compare(old: Option<&Value>, new: Option<&Value>, at: &mut Path, gone: &mut Paths, set: &mut Paths) {
    match (old, new) {
        (Some(Value::Object(before)), Some(Value::Object(after))) if !before.is_empty() && !after.is_empty() => {
            for key in before.keys().chain(after.keys().filter(|key| !before.contains_key(*key))) {
                at.push(key.clone());
                compare(before.get(key), after.get(key), at, gone, set);
                at.pop();
            }
        }
        _ if old == new => {}
        _ => {
            old.into_iter().for_each(|old| add_leaves(old, at, gone));
            new.into_iter().for_each(|new| add_leaves(new, at, set));
        }
    }
}

/// Records a create, update or patch of `old` to `new`: the writer owns what it sets, and other managers lose what it
/// changes or removes.
pub(crate) fn update(old: &Value, new: &mut Value, writer: &Writer<'_>) {
    let (mut gone, mut set) = (Paths::new(), Paths::new());
    let (before, after) = (parts(old, writer), parts(new, writer));
    for path in before.keys().chain(after.keys().filter(|path| !before.contains_key(*path))) {
        compare(before.get(path).copied(), after.get(path).copied(), &mut path.clone(), &mut gone, &mut set);
    }
    let mut records = read_records(old);
    let mut own = Record::new(writer, false);
    for record in &mut records {
        record.fields.retain(|path| !gone.contains(path));
        if !record.is_like(&own) {
            record.fields.retain(|path| !set.contains(path));
        }
    }
    if !set.is_empty() {
        if let Some(place) = records.iter().position(|record| record.is_like(&own)) {
            own.fields = records.remove(place).fields;
        }
        own.fields.extend(set);
        records.push(own);
    }
    write_records(new, records);
}

/// Applies a configuration to an object: sets its fields, removes those that the manager applied before and no longer
/// does, and records the owners.
///
/// # Errors
/// 409 if it changes fields of other managers and `force` is not set.
pub(crate) fn apply(live: &Value, config: &Value, writer: &Writer<'_>, force: bool) -> ApiResult<Value> {
    let mut own = Record::new(writer, true);
    let mut new = live.clone();
    let mut changed = Paths::new();
    let wanted = parts(config, writer);
    for (path, value) in &wanted {
        add_leaves(value, &mut path.clone(), &mut own.fields);
        compare(lookup(live, path), Some(value), &mut path.clone(), &mut Paths::new(), &mut changed);
    }
    // An empty map of the configuration changes no map.
    let is_map = |object: &Value, path: &Path| lookup(object, path).is_some_and(Value::is_object);
    changed.retain(|path| !(is_map(config, path) && is_map(live, path)));
    let mut records = read_records(live);
    let last = records.iter().position(|record| record.is_like(&own)).map(|place| records.remove(place));
    let conflicts: Vec<(String, Vec<&Path>)> = records
        .iter()
        .map(|record| (record.described(), record.fields.intersection(&changed).collect::<Vec<_>>()))
        .filter(|(_, paths)| !paths.is_empty())
        .collect();
    if !force && !conflicts.is_empty() {
        return Err(conflict(&conflicts));
    }
    for record in &mut records {
        record.fields.retain(|path| !changed.contains(path));
    }
    if let Some(last) = last {
        // A map stays while a manager owns one of its fields.
        let owned = |path: &Path| {
            let all = own.fields.iter().chain(records.iter().flat_map(|record| &record.fields));
            all.into_iter().any(|owned| owned.starts_with(path))
        };
        let dropped: Vec<&Path> = last.fields.iter().filter(|path| !owned(path)).collect();
        for path in &dropped {
            remove(&mut new, path);
        }
        if dropped.is_empty() && changed.is_empty() && last.fields == own.fields {
            own.time = last.time;
        }
    }
    // After the removals, which remove maps that they leave empty.
    for (path, value) in &wanted {
        merge(&mut new, &nested(path, value));
    }
    records.push(own);
    write_records(&mut new, records);
    Ok(new)
}

fn lookup<'a>(object: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(object, |at, key| at.get(key))
}

/// A value within the maps that lead to it.
fn nested(path: &[String], value: &Value) -> Value {
    let within = |below, key: &String| Value::Object(Map::from_iter([(key.clone(), below)]));
    path.iter().rev().fold(value.clone(), within)
}

/// Merges maps; any other value is replaced.
fn merge(target: &mut Value, config: &Value) {
    match (target, config) {
        (Value::Object(map), Value::Object(wanted)) => {
            for (key, value) in wanted {
                merge(map.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (target, config) => *target = config.clone(),
    }
}

/// Removes a field, and maps that it leaves empty.
fn remove(target: &mut Value, path: &[String]) {
    let ([key, below @ ..], Some(map)) = (path, target.as_object_mut()) else { return };
    if !below.is_empty() {
        let Some(child) = map.get_mut(key) else { return };
        remove(child, below);
        if child.as_object().is_none_or(|child| !child.is_empty()) {
            return;
        }
    }
    map.shift_remove(key);
}

fn conflict(conflicts: &[(String, Vec<&Path>)]) -> ApiError {
    let field = |path: &Path| format!(".{}", path.join("."));
    let message = match conflicts {
        [(manager, paths)] if paths.len() == 1 => {
            let fields: String = paths.iter().map(|path| field(path)).collect();
            format!("Apply failed with 1 conflict: conflict with {manager}: {fields}")
        }
        _ => {
            let of = |(manager, paths): &(String, Vec<&Path>)| {
                let list: Vec<String> = paths.iter().map(|path| format!("- {}", field(path))).collect();
                format!("conflicts with {manager}:\n{}", list.join("\n"))
            };
            let texts: Vec<String> = conflicts.iter().map(of).collect();
            let count: usize = conflicts.iter().map(|(_, paths)| paths.len()).sum();
            format!("Apply failed with {count} conflicts: {}", texts.join("\n"))
        }
    };
    ApiError::apply_conflict(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writer(manager: &str) -> Writer<'_> {
        Writer { manager, version: "v1", status: false, has_status: true, now: Timestamp::UNIX_EPOCH }
    }

    fn managers(object: &Value) -> Vec<(String, Paths)> {
        read_records(object).into_iter().map(|record| (record.described(), record.fields)).collect()
    }

    fn paths(texts: &[&str]) -> Paths {
        texts.iter().map(|text| text.split('.').map(str::to_owned).collect()).collect()
    }

    #[test]
    fn owners_follow_updates() {
        let mut first =
            json!({"metadata": {"name": "n", "labels": {"a": "1", "b": "1"}}, "spec": {"list": [1]}, "status": 1});
        update(&Value::Null, &mut first, &writer("one"));
        assert_eq!(
            managers(&first),
            [("\"one\" using v1".to_owned(), paths(&["metadata.labels.a", "metadata.labels.b", "spec.list"]))]
        );
        let mut second = first.clone();
        second["metadata"]["labels"] = json!({"a": "2"});
        update(&first, &mut second, &writer("two"));
        assert_eq!(
            managers(&second),
            [
                ("\"one\" using v1".to_owned(), paths(&["spec.list"])),
                ("\"two\" using v1".to_owned(), paths(&["metadata.labels.a"]))
            ]
        );
        let mut same = second.clone();
        update(&second, &mut same, &Writer { now: Timestamp::MAX, ..writer("three") });
        assert_eq!(same, second);
    }

    #[test]
    fn apply_takes_shares_and_releases_fields() {
        let config = |data: Value| json!({"metadata": {"name": "c"}, "data": data});
        let one = apply(&config(json!({})), &config(json!({"x": "1", "y": "1"})), &writer("one"), false).unwrap();
        assert_eq!(
            apply(&one, &config(json!({"x": "1", "y": "1"})), &Writer { now: Timestamp::MAX, ..writer("one") }, false)
                .unwrap(),
            one
        );
        let refused = apply(&one, &config(json!({"x": "2"})), &writer("two"), false).unwrap_err();
        assert_eq!(refused.message, "Apply failed with 1 conflict: conflict with \"one\": .data.x");
        let shared = apply(&one, &config(json!({"x": "1"})), &writer("two"), false).unwrap();
        assert_eq!(managers(&shared).len(), 2);
        let released = apply(&shared, &config(json!({})), &writer("one"), false).unwrap();
        assert_eq!(released["data"], json!({"x": "1"}), "y lost its only owner, x has another one");
        let emptied = apply(&one, &config(json!({})), &writer("one"), false).unwrap();
        let filled = apply(&emptied, &config(json!({"a": "1"})), &writer("one"), false).unwrap();
        assert_eq!(filled["data"], json!({"a": "1"}), "the map was applied as an empty one before");
        let forced = apply(&one, &config(json!({"x": "2"})), &writer("two"), true).unwrap();
        assert_eq!(forced["data"], json!({"x": "2", "y": "1"}));
        assert_eq!(managers(&forced)[0], ("\"one\"".to_owned(), paths(&["data.y"])));
    }
}
