//! Columns and cells of custom kinds, from the `additionalPrinterColumns` of their definition.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::field::{at, items, text};
use super::{Column, Printer, age, path};

/// Printer that a CustomResourceDefinition describes for one version. The default is name and age.
pub(super) fn printer(crd: &Value, version: &str) -> Printer {
    let described = items(crd, "/spec/versions")
        .iter()
        .find(|candidate| text(candidate, "/name") == version)
        .map(|found| items(found, "/additionalPrinterColumns"))
        .filter(|columns| !columns.is_empty());
    let age = [json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"})];
    let extra: Vec<(Column, String)> =
        described.unwrap_or(&age).iter().map(|column| (read(column), text(column, "/jsonPath").to_owned())).collect();
    let columns = std::iter::once(Column::name()).chain(extra.iter().map(|(column, _)| column.clone())).collect();
    let cells = move |object: &Value, now: Timestamp| {
        let name = text(object, "/metadata/name").into();
        std::iter::once(name).chain(extra.iter().map(|(column, path)| cell(object, &column.kind, path, now))).collect()
    };
    Printer { columns, cells: Box::new(cells) }
}

fn read(column: &Value) -> Column {
    let path = text(column, "/jsonPath");
    let description = match text(column, "/description") {
        "" => format!("Custom resource definition column (in JSONPath format): {path}"),
        description => description.to_owned(),
    };
    Column {
        name: text(column, "/name").to_owned(),
        kind: text(column, "/type").to_owned(),
        format: text(column, "/format").to_owned(),
        description,
        priority: at(column, "/priority").as_i64().unwrap_or_default(),
    }
}

/// Cell of a value by its column's type; null for a missing value or another type.
fn cell(object: &Value, kind: &str, path: &str, now: Timestamp) -> Value {
    let Some(value) = path::first(path, object) else { return Value::Null };
    match (kind, value) {
        (_, Value::Null) => Value::Null,
        ("string", value) => path::plain(value).into(),
        ("boolean", Value::Bool(_)) | ("number", Value::Number(_)) => value.clone(),
        #[expect(clippy::cast_possible_truncation, reason = "a whole number is asked for")]
        ("integer", Value::Number(number)) => {
            number.as_i64().or_else(|| number.as_f64().map(|float| float as i64)).into()
        }
        ("date", Value::String(time)) => age::since(time, now).unwrap_or_else(|| "<invalid>".to_owned()).into(),
        _ => Value::Null,
    }
}
