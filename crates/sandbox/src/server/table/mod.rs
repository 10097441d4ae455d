//! Tables: objects as rows of `kubectl get` (`meta.k8s.io/v1 Table`).
//!
//! Columns and cells of built-in kinds follow kube-apiserver (`pkg/printers/internalversion`); those of custom kinds
//! follow their definition.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::field::at;
use crate::api::TableRequest;

mod age;
mod built_in;
mod custom;
mod path;
mod workloads;

#[cfg(test)]
mod tests;

/// A column.
#[derive(Debug, Clone)]
struct Column {
    name: String,
    kind: String,
    format: String,
    description: String,
    /// 0 is always printed, higher priorities only with `-o wide`.
    priority: i64,
}

impl Column {
    fn new(name: &str, kind: &str, priority: i64, description: &str) -> Self {
        Self {
            name: name.to_owned(),
            kind: kind.to_owned(),
            format: if name == "Name" && priority == 0 { "name".to_owned() } else { String::new() },
            description: description.to_owned(),
            priority,
        }
    }

    fn name() -> Self {
        Self::new("Name", "string", 0, "Name of the object, unique among its kind in its namespace.")
    }

    fn age() -> Self {
        Self::new("Age", "string", 0, "Time since the creation of the object.")
    }

    fn to_value(&self) -> Value {
        json!({
            "name": self.name,
            "type": self.kind,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        })
    }
}

/// Function that returns an object's cells, one per column, with ages relative to a time.
type Cells = dyn Fn(&Value, Timestamp) -> Vec<Value>;

/// Columns and cell function of a kind.
struct Printer {
    columns: Vec<Column>,
    cells: Box<Cells>,
}

/// Renders objects as a Table.
#[must_use]
pub fn render(request: TableRequest<'_>) -> Value {
    let printer = match request.crd {
        Some(crd) => custom::printer(crd, request.version),
        None => built_in::printer(request.group, request.resource),
    };
    let rows: Vec<Value> =
        request.objects.iter().map(|object| row(&printer, object, request.include_object, request.now)).collect();
    // A watch sends columns only once; columns in a later event would make kubectl print the header again.
    let columns = match request.is_watch_event {
        true => Value::Null,
        false => printer.columns.iter().map(Column::to_value).collect(),
    };
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata(&request),
        "columnDefinitions": columns,
        "rows": rows,
    })
}

/// Metadata of the list; for a single object, its resourceVersion.
fn metadata(request: &TableRequest<'_>) -> Value {
    match (request.list_meta.as_object(), request.objects) {
        (Some(meta), _) if !meta.is_empty() => request.list_meta.clone(),
        (_, [object]) => match at(object, "/metadata/resourceVersion") {
            Value::Null => json!({}),
            version => json!({"resourceVersion": version}),
        },
        _ => json!({}),
    }
}

fn row(printer: &Printer, object: &Value, include: &str, now: Timestamp) -> Value {
    let mut row = Map::new();
    row.insert("cells".to_owned(), Value::Array((printer.cells)(object, now)));
    match include {
        "None" => {}
        "Object" => {
            row.insert("object".to_owned(), object.clone());
        }
        _ => {
            let metadata = json!({
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": at(object, "/metadata"),
            });
            row.insert("object".to_owned(), metadata);
        }
    }
    Value::Object(row)
}

/// Age of the time at a pointer; `None` without a time.
fn age_at(object: &Value, pointer: &str, now: Timestamp) -> Option<String> {
    let time = object.pointer(pointer)?.as_str()?;
    Some(age::since(time, now).unwrap_or_else(|| "<invalid>".to_owned()))
}

fn creation_age(object: &Value, now: Timestamp) -> Value {
    age_at(object, "/metadata/creationTimestamp", now).unwrap_or_else(|| "<unknown>".to_owned()).into()
}
