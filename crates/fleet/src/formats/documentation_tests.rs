//! The page about the files describes each field, with its type and its default.

use schemars::JsonSchema;
use serde_json::Value;

use super::gates::{GateSpec, ObjectSpec, PrometheusSpec};
use super::kubelet::{FleetKubeletSpec, KubeletSpec};
use super::rollout::{OrderSpec, RolloutSpec};
use super::{FleetFile, FleetSpec, Metadata, NodePoolFile, NodePoolSpec, schema};
use crate::Canary;
use crate::drain::DrainPolicy;
use crate::fields::{FieldInfo, Map};
use crate::reserve::{Formula, Reserve, Reserved, RoundTo, Tier};
use crate::schedule::Exclusion;
use crate::schedule::window::Window;

const PAGE: &str = include_str!("../../../../docs/reference/repository.md");

/// Fields of a map, with their schemas.
struct Described {
    /// Heading of the table with the fields.
    heading: &'static str,
    /// Path of the map in that table.
    path: &'static str,
    fields: Vec<FieldInfo>,
    schema: Value,
}

fn of<M: Map + JsonSchema>(heading: &'static str, path: &'static str) -> Described {
    Described { heading, path, fields: M::fields(), schema: schema::of::<M>("map") }
}

fn described() -> Vec<Described> {
    vec![
        of::<FleetFile>("## nodecfg.yaml", ""),
        of::<Metadata>("## nodecfg.yaml", "metadata."),
        of::<FleetSpec>("## nodecfg.yaml", "spec."),
        of::<FleetKubeletSpec>("## nodecfg.yaml", "spec.kubelet."),
        of::<NodePoolFile>("## pool.yaml", ""),
        of::<Metadata>("## pool.yaml", "metadata."),
        of::<NodePoolSpec>("## pool.yaml", "spec."),
        of::<KubeletSpec>("## pool.yaml", "spec.kubelet."),
        of::<Reserve>("### Reservations by size", ""),
        of::<Reserved>("### Reservations by size", "kubeReserved."),
        of::<Formula>("### Reservations by size", "kubeReserved.RESOURCE."),
        of::<Tier>("### Reservations by size", "kubeReserved.RESOURCE.tiers[]."),
        of::<RoundTo>("### Reservations by size", "roundTo."),
        of::<RolloutSpec>("## pool.yaml", "spec.rollout."),
        of::<Canary>("## pool.yaml", "spec.rollout.canary."),
        of::<OrderSpec>("## pool.yaml", "spec.rollout.order."),
        of::<Window>("### Windows", "windows[]."),
        of::<Exclusion>("### Windows", "exclusions[]."),
        of::<DrainPolicy>("### Drain", ""),
        of::<GateSpec>("### Gates", ""),
        of::<PrometheusSpec>("### Gates", "prometheus."),
        of::<ObjectSpec>("### Gates", "object."),
    ]
}

/// Type of a field in a table.
fn type_of(field: &Value, root: &Value) -> String {
    if let Some(name) = field["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
        return match name {
            "Duration" => "duration",
            "NodeShare" => "number or percentage",
            "LabelSelector" => "label selector",
            "KubernetesVersions" => "text or text[]",
            "Quantity" => "quantity",
            "Share" => "percentage",
            "ReserveLimits" => "quantity or percentage, or a list",
            _ if root["$defs"][name]["type"] == "object" => "map",
            _ => "enum",
        }
        .to_owned();
    }
    match field["type"].as_str() {
        Some("string") => "text".to_owned(),
        Some("integer") => "number".to_owned(),
        Some("array") => format!("{}[]", type_of(&field["items"], root)),
        other => other.unwrap_or_default().to_owned(),
    }
}

/// Type and default of a field in the table under a heading. `None`: the table has no row for it.
fn row(heading: &str, path: &str) -> Option<(&'static str, &'static str)> {
    let section = PAGE.split_once(&format!("\n{heading}\n")).expect("a section").1;
    let table = section.lines().skip_while(|line| !line.starts_with("| field |"));
    let mut rows = table.take_while(|line| line.starts_with('|'));
    let row = rows.find_map(|row| row.strip_prefix(&format!("| `{path}` | ")))?;
    let (kind, rest) = row.split_once(" | ")?;
    Some((kind, rest.trim_end_matches('|').rsplit_once('|')?.1.trim()))
}

#[test]
fn page_describes_each_field_with_its_type_and_default() {
    let all = described();
    let is_described = |heading: &str, path: &str| all.iter().any(|map| map.heading == heading && map.path == path);
    let mut problems = Vec::new();
    for Described { heading, path: map, fields, schema } in &all {
        for field in fields {
            let path = format!("{map}{}", field.key);
            let expected = type_of(&schema["properties"][field.key], schema);
            let Some((kind, default)) = row(heading, &path) else {
                if !is_described(heading, &format!("{path}.")) {
                    problems.push(format!("{heading}: write a row | `{path}` | {expected} | {} |", field.doc));
                }
                continue;
            };
            if kind != expected {
                problems.push(format!("{heading}: the type of `{path}` is {expected}, not {kind}"));
            }
            match &field.default {
                Some(text) if !default.trim_start_matches('`').starts_with(text) => {
                    problems.push(format!("{heading}: the default of `{path}` is {text}, not {default}"));
                }
                _ if field.is_required != (default == "required") => {
                    problems.push(format!("{heading}: whether `{path}` is required: {default}"));
                }
                _ => {}
            }
        }
    }
    assert!(problems.is_empty(), "fix docs/reference/repository.md:\n{}", problems.join("\n"));
}
