//! `metadata.managedFields`: one record per manager, operation, version and subresource.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::compare::{Comparison, compare};
use super::set::{FieldSet, fields_of, format_path};
use crate::api::object::time_text;
use crate::api::server_profile::ServerProfile;
use crate::api::shape::Shape;
use crate::api::status::{ApiError, ApiResult};

/// Field manager and context of a write.
#[derive(Debug, Clone)]
pub(crate) struct Writer<'a> {
    /// Name of the field manager.
    pub(crate) manager: &'a str,
    /// `apiVersion` of the request.
    pub(crate) version: &'a str,
    /// Subresource; empty for the object itself.
    pub(crate) subresource: &'a str,
    /// Time of the write.
    pub(crate) now: Timestamp,
    /// Server version.
    pub(crate) profile: ServerProfile,
    /// Top-level fields that this write does not change, such as `status`. `only:status` means all fields except
    /// `status`.
    pub(crate) reset_fields: &'a [&'static str],
}

#[derive(Debug, Clone)]
struct Record {
    manager: String,
    apply: bool,
    version: String,
    subresource: String,
    time: String,
    fields: FieldSet,
}

impl Record {
    fn is_of(&self, writer: &Writer<'_>, apply: bool) -> bool {
        self.apply == apply
            && self.manager == writer.manager
            && self.version == writer.version
            && self.subresource == subresource(writer)
    }

    fn describe(&self) -> String {
        let mut text = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            text.push_str(&format!(" with subresource {:?}", self.subresource));
        }
        if !self.apply {
            text.push_str(&format!(" using {}", self.version));
        }
        text
    }
}

fn subresource<'a>(writer: &Writer<'a>) -> &'a str {
    if writer.profile.tracks_subresources() { writer.subresource } else { "" }
}

fn read_records(object: &Value) -> Vec<Record> {
    let text = |entry: &Value, key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let records = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    records
        .into_iter()
        .flatten()
        .filter(|entry| entry.get("fieldsV1").is_some())
        .map(|entry| Record {
            manager: text(entry, "manager"),
            apply: entry.get("operation").and_then(Value::as_str) == Some("Apply"),
            version: text(entry, "apiVersion"),
            subresource: text(entry, "subresource"),
            time: text(entry, "time"),
            fields: FieldSet::from_value(entry.get("fieldsV1").unwrap_or(&Value::Null)),
        })
        .collect()
}

fn write_records(object: &mut Value, mut records: Vec<Record>) {
    records.retain(|record| !record.fields.is_empty());
    records.sort_by(|a, b| {
        let key = |r: &Record| (!r.apply, r.time.clone(), r.manager.clone(), r.version.clone(), r.subresource.clone());
        key(a).cmp(&key(b))
    });
    let list: Vec<Value> = records
        .into_iter()
        .map(|record| {
            let mut entry = json!({
                "manager": record.manager,
                "operation": if record.apply { "Apply" } else { "Update" },
                "apiVersion": record.version,
                "time": record.time,
                "fieldsType": "FieldsV1",
                "fieldsV1": record.fields.to_value(),
            });
            if let (false, Some(map)) = (record.subresource.is_empty(), entry.as_object_mut()) {
                map.insert("subresource".to_owned(), record.subresource.into());
            }
            entry
        })
        .collect();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.shift_remove("managedFields");
        if !list.is_empty() {
            metadata.insert("managedFields".to_owned(), list.into());
        }
    }
}

/// Removes fields that have no owner: identity fields, and fields that this write does not change.
fn strip(set: &mut FieldSet, reset_fields: &[&'static str]) {
    set.remove(&["f:apiVersion"]);
    set.remove(&["f:kind"]);
    set.remove(&["f:metadata"]);
    for name in
        ["name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation", "resourceVersion"]
    {
        set.remove_tree(&["f:metadata", &format!("f:{name}")]);
    }
    set.remove_tree(&["f:metadata", "f:managedFields"]);
    for top in reset_fields {
        if let Some(only) = top.strip_prefix("only:") {
            set.retain_top(&[&format!("f:{only}")]);
        } else {
            set.remove_tree(&[&format!("f:{top}")]);
        }
    }
}

fn stripped(mut comparison: Comparison, reset_fields: &[&'static str]) -> Comparison {
    for set in [&mut comparison.added, &mut comparison.modified, &mut comparison.removed] {
        strip(set, reset_fields);
    }
    comparison
}

/// Returns the records before a write: those of the new object, or else those of the live object.
fn inherited(live: &Value, new: &Value) -> Vec<Record> {
    match new.pointer("/metadata/managedFields").and_then(Value::as_array) {
        None => read_records(live),
        Some(_) => read_records(new),
    }
}

/// Records a create, update or patch: the writer owns the fields that it changes, and other managers lose them.
pub(crate) fn update(shape: &Shape, live: &Value, new: &mut Value, writer: &Writer<'_>) {
    let comparison = stripped(compare(shape, live, new), writer.reset_fields);
    let mut records = inherited(live, new);
    let changed = comparison.added.clone().union(&comparison.modified);
    let lost = changed.clone().union(&comparison.removed);
    let mut own = FieldSet::default();
    let mut since = None;
    records.retain_mut(|record| {
        if record.is_of(writer, false) {
            own = record.fields.clone();
            since = Some(record.time.clone());
            return false;
        }
        record.fields = record.fields.difference(&lost);
        true
    });
    let fields = own.clone().difference(&comparison.removed).union(&changed);
    let time = since.filter(|_| fields == own && changed.is_empty()).unwrap_or_else(|| time_text(writer.now));
    records.push(Record {
        manager: writer.manager.to_owned(),
        apply: false,
        version: writer.version.to_owned(),
        subresource: subresource(writer).to_owned(),
        time,
        fields,
    });
    write_records(new, records);
}

/// Returns the fields that an apply removes: this manager applied them before, no longer does, and no other manager
/// owns them.
pub(crate) fn dropped_by_apply(shape: &Shape, live: &Value, config: &Value, writer: &Writer<'_>) -> FieldSet {
    let mut wanted = fields_of(shape, config);
    strip(&mut wanted, writer.reset_fields);
    let records = read_records(live);
    let last = records.iter().find(|record| record.is_of(writer, true));
    let mut dropped = last.map(|record| record.fields.difference(&wanted)).unwrap_or_default();
    let others = records.iter().filter(|record| !record.is_of(writer, true));
    let kept = others.fold(wanted, |kept, record| kept.union(&record.fields));
    dropped = dropped.difference(&kept);
    // A struct that an earlier update owned as a whole stays while one of its fields stays.
    for path in dropped.paths().iter().filter(|path| kept.contains_below(path)) {
        dropped.remove(&path.iter().map(String::as_str).collect::<Vec<_>>());
    }
    dropped
}

/// Records an apply.
///
/// # Errors
/// 409 if it changes fields of other managers and `force` is not set.
pub(crate) fn apply(
    shape: &Shape,
    live: &Value,
    config: &Value,
    new: &mut Value,
    writer: &Writer<'_>,
    force: bool,
) -> ApiResult<()> {
    let mut wanted = fields_of(shape, config);
    strip(&mut wanted, writer.reset_fields);
    let comparison = stripped(compare(shape, live, new), writer.reset_fields);
    let changed = comparison.added.union(&comparison.modified);
    let mut records = read_records(live);
    let mut conflicts: Vec<(String, FieldSet)> = Vec::new();
    let mut since = None;
    records.retain_mut(|record| {
        if record.is_of(writer, true) {
            since = Some((record.time.clone(), record.fields.clone()));
            return false;
        }
        let meets = record.fields.intersection(&changed);
        if !meets.is_empty() {
            conflicts.push((record.describe(), meets.clone()));
        }
        record.fields = record.fields.difference(&meets).difference(&comparison.removed);
        true
    });
    if !force && !conflicts.is_empty() {
        return Err(conflict(conflicts));
    }
    let time = since
        .filter(|(_, fields)| *fields == wanted && changed.is_empty())
        .map_or_else(|| time_text(writer.now), |(time, _)| time);
    records.push(Record {
        manager: writer.manager.to_owned(),
        apply: true,
        version: writer.version.to_owned(),
        subresource: subresource(writer).to_owned(),
        time,
        fields: wanted,
    });
    write_records(new, records);
    Ok(())
}

fn conflict(mut conflicts: Vec<(String, FieldSet)>) -> ApiError {
    conflicts.sort_by(|a, b| a.0.cmp(&b.0));
    let mut causes = Vec::new();
    let mut texts = Vec::new();
    let mut single = String::new();
    for (manager, set) in &conflicts {
        let paths: Vec<String> = set.paths().iter().map(|path| format_path(path)).collect();
        for path in &paths {
            let mut cause = Map::new();
            cause.insert("reason".to_owned(), "FieldManagerConflict".into());
            cause.insert("message".to_owned(), format!("conflict with {manager}").into());
            cause.insert("field".to_owned(), path.as_str().into());
            causes.push(Value::Object(cause));
            single = format!("conflict with {manager}: {path}");
        }
        let list: Vec<String> = paths.iter().map(|path| format!("- {path}")).collect();
        texts.push(format!("conflicts with {manager}:\n{}", list.join("\n")));
    }
    let message = match causes.len() {
        1 => format!("Apply failed with 1 conflict: {single}"),
        count => format!("Apply failed with {count} conflicts: {}", texts.join("\n")),
    };
    ApiError::apply_conflict(message, causes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::builtin;

    #[test]
    fn apply_keeps_struct_while_a_field_is_applied() {
        // kubectl leaves this record when it migrates from client-side apply: the struct itself is owned.
        let owned = json!({"f:spec": {".": {}, "f:podCIDR": {}, "f:providerID": {}}});
        let live = json!({"metadata": {"managedFields": [{
            "manager": "kubectl", "operation": "Apply", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z", "fieldsV1": owned
        }]}});
        let writer = Writer {
            manager: "kubectl",
            version: "v1",
            subresource: "",
            now: Timestamp::UNIX_EPOCH,
            profile: ServerProfile::V1_36,
            reset_fields: &[],
        };
        let dropped = |config: Value| dropped_by_apply(&builtin::node(), &live, &config, &writer).to_value();
        assert_eq!(dropped(json!({"spec": {"podCIDR": "a"}})), json!({"f:spec": {"f:providerID": {}}}));
        assert_eq!(dropped(json!({})), owned);
    }
}
