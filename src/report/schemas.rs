//! JSON Schemas of all JSON outputs, generated from the serialized types.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;

use super::capture::Capture;
use super::code_explanation::CodeExplanation;
use super::doctor::Doctor;
use super::document::json::Noticed;
use super::effective::EffectiveConfiguration;
use super::error::ErrorReport;
use super::field::Explained;
use super::gates::GateAnswers;
use super::history::History;
use super::initialization::Initialization;
use super::installation::Installed;
use super::orders::{Aborted, PoolOrders};
use super::outcome::Ended;
use super::progress::RunHeader;
use super::pruning::Pruning;
use super::release::Release;
use super::reservations::Reservations;
use super::review::Diff;
use super::status::{Line as StatusLine, Status};
use super::validation::Validation;
use super::version::Version;
use nodecfg_agent::cli::description::AgentStatus;
use nodecfg_agent::cli::pass::AgentPass;
use nodecfg_contract::json_document::{Document, Kind, format_version, prepend};
use nodecfg_fleet::formats::schema::tidy;
use nodecfg_rollout::progress::Event;

/// Schema of a JSON output.
pub struct Output {
    /// The name, used in `nodecfg schema NAME` and `schemas/output/NAME.v1.json`.
    pub name: &'static str,
    /// The commands that write this output.
    pub written_by: &'static str,
    schema: fn(&str) -> Value,
}

impl Output {
    /// The JSON Schema (2020-12).
    #[must_use]
    pub fn schema(&self) -> Value {
        (self.schema)(self.name)
    }
}

/// All JSON outputs.
pub const OUTPUTS: &[Output] = &[
    Output { name: "validation", written_by: "`validate -o json`", schema: of::<Document<Validation>> },
    Output {
        name: "diff",
        written_by: "`diff -o json` and `sync --dry-run -o json`",
        schema: of::<Document<Noticed<'_, Diff<'_>>>>,
    },
    Output {
        name: "events",
        written_by: "`sync`, `rollback`, `reset` and `verify` with `-o json`",
        schema: of::<Line>,
    },
    Output { name: "status", written_by: "`status -o json`", schema: of::<Document<Noticed<'_, Status<'_>>>> },
    Output { name: "doctor", written_by: "`doctor -o json`", schema: of::<Document<Noticed<'_, Doctor<'_>>>> },
    Output {
        name: "effective",
        written_by: "`effective -o json`",
        schema: of::<Document<Noticed<'_, EffectiveConfiguration>>>,
    },
    Output { name: "code", written_by: "`explain -o json` of a code", schema: of::<Document<&CodeExplanation>> },
    Output {
        name: "reservations",
        written_by: "`explain -o json reserve`",
        schema: of::<Document<Noticed<'_, Reservations>>>,
    },
    Output { name: "status-lines", written_by: "`status --watch -o json`", schema: of::<WatchLine> },
    Output { name: "explanation", written_by: "`explain -o json` of a field", schema: of::<Document<Explained<'_>>> },
    Output {
        name: "initialization",
        written_by: "`init -o json`",
        schema: of::<Document<Noticed<'_, Initialization>>>,
    },
    Output { name: "capture", written_by: "`capture -o json`", schema: of::<Document<Capture<'_>>> },
    Output { name: "installation", written_by: "`install -o json`", schema: of::<Document<Installed<'_>>> },
    Output {
        name: "agent-status",
        written_by: "`nodecfg-agent status -o json`",
        schema: of::<Document<AgentStatus<'_>>>,
    },
    Output { name: "agent-pass", written_by: "`nodecfg-agent --once -o json`", schema: of::<Document<AgentPass<'_>>> },
    Output { name: "history", written_by: "`history -o json`", schema: of::<Document<Noticed<'_, History>>> },
    Output { name: "gates", written_by: "`gates -o json`", schema: of::<Document<Noticed<'_, GateAnswers>>> },
    Output { name: "pruning", written_by: "`prune -o json`", schema: of::<Document<Noticed<'_, Pruning>>> },
    Output { name: "release", written_by: "`release -o json`", schema: of::<Document<Noticed<'_, Release>>> },
    Output {
        name: "pool-orders",
        written_by: "`pause -o json` and `resume -o json`",
        schema: of::<Document<Noticed<'_, PoolOrders>>>,
    },
    Output { name: "version", written_by: "`version -o json`", schema: of::<Document<Version>> },
    Output { name: "abort", written_by: "`abort -o json`", schema: of::<Document<Noticed<'_, Aborted>>> },
    Output {
        name: "error",
        written_by: "any command with `-o json` that fails",
        schema: of::<Document<ErrorReport<'_>>>,
    },
];

/// The JSON Schema (2020-12) of a type.
fn of<T: JsonSchema>(name: &str) -> Value {
    let mut schema = SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>();
    schema.insert("$id".to_owned(), format!("https://nodecfg.dev/schemas/output/{name}.v1.json").into());
    let mut schema = schema.to_value();
    tidy(&mut schema);
    schema
}

/// A line of a run with `-o json`.
struct Line;

impl JsonSchema for Line {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Line".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut lines = vec![
            line::<RunHeader>(generator, "started", "The repository and the cluster of the run. The first line."),
            line::<Noticed<'_, Diff<'_>>>(generator, "planned", "The plan. The second line."),
            line::<Noticed<'_, Ended<'static>>>(generator, "finished", "The result of the run. The last line."),
        ];
        lines.extend(variants::<Event>(generator));
        // A run that fails early ends with an error instead of the last line.
        lines.push(generator.subschema_for::<Document<ErrorReport<'_>>>().to_value());
        json_schema!({
            "description": "One line of `sync`, `rollback`, `reset` or `verify` with `-o json`.",
            "oneOf": lines,
        })
    }
}

/// A line of `status --watch -o json`.
struct WatchLine;

impl JsonSchema for WatchLine {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Line".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut lines =
            vec![line::<Noticed<'_, Status<'_>>>(generator, "status", "The complete status. The first line.")];
        lines.extend(variants::<StatusLine<'_>>(generator));
        lines.push(generator.subschema_for::<Document<ErrorReport<'_>>>().to_value());
        json_schema!({
            "description": "One line of `status --watch -o json`.",
            "oneOf": lines,
        })
    }
}

/// The line schemas of the variants of an event.
fn variants<T: Kind + JsonSchema>(generator: &mut SchemaGenerator) -> Vec<Value> {
    let mut event = T::json_schema(generator);
    let Some(Value::Array(variants)) = event.remove("oneOf") else { return Vec::new() };
    let shared = event.remove("properties").unwrap_or_default();
    let lines = variants.into_iter().filter_map(|mut variant| {
        if let (Some(own), Some(shared)) =
            (variant.get_mut("properties").and_then(Value::as_object_mut), shared.as_object())
        {
            own.extend(shared.clone());
        }
        let mut schema = Schema::try_from(variant).ok()?;
        let head = [
            ("formatVersion", format_version()),
            ("kind", json_schema!({"const": T::KIND})),
            ("time", time(generator)),
        ];
        prepend(&mut schema, head);
        Some(schema.to_value())
    });
    lines.collect()
}

/// The line schema of a document.
fn line<T: Kind + JsonSchema>(generator: &mut SchemaGenerator, event: &str, description: &str) -> Value {
    let mut schema = T::json_schema(generator);
    prepend(
        &mut schema,
        [
            ("formatVersion", format_version()),
            ("kind", json_schema!({"const": T::KIND})),
            ("time", time(generator)),
            ("event", json_schema!({"const": event})),
        ],
    );
    schema.insert("description".to_owned(), description.into());
    schema.to_value()
}

fn time(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = jiff::Timestamp::json_schema(generator);
    schema.insert("description".to_owned(), "The time of writing.".into());
    schema
}
