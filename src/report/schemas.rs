//! The JSON Schemas of everything that nodecfg writes for programs, made from the types that are written.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;

use super::capture::Capture;
use super::coded::Coded;
use super::doctor::Doctor;
use super::error::ErrorReport;
use super::field::Explained;
use super::history::History;
use super::initialization::Initialization;
use super::installation::Installed;
use super::orders::{Aborted, PoolOrders};
use super::outcome::Ended;
use super::progress::Scene;
use super::pruning::Pruning;
use super::review::Diff;
use super::status::{Line as StatusLine, Status};
use super::validation::Validation;
use nodecfg_agent::cli::description::AgentStatus;
use nodecfg_agent::cli::pass::AgentPass;
use nodecfg_contract::json_document::{Document, Kind, format_version, prepend};
use nodecfg_planning::desired::schema::tidy;
use nodecfg_planning::rollout::progress::Progress;

/// The schema of a kind of output.
#[must_use]
pub fn schema(output: Output) -> Value {
    match output {
        Output::Validation => of::<Document<Validation>>("validation"),
        Output::Diff => of::<Document<Diff<'_>>>("diff"),
        Output::Events => of::<Line>("events"),
        Output::Status => of::<Document<Status<'_>>>("status"),
        Output::Doctor => of::<Document<Doctor<'_>>>("doctor"),
        Output::Code => of::<Document<&Coded>>("code"),
        Output::StatusLines => of::<WatchLine>("status-lines"),
        Output::Explanation => of::<Document<Explained<'_>>>("explanation"),
        Output::Initialization => of::<Document<Initialization>>("initialization"),
        Output::Capture => of::<Document<Capture<'_>>>("capture"),
        Output::Installation => of::<Document<Installed<'_>>>("installation"),
        Output::AgentStatus => of::<Document<AgentStatus<'_>>>("agent-status"),
        Output::AgentPass => of::<Document<AgentPass<'_>>>("agent-pass"),
        Output::History => of::<Document<History>>("history"),
        Output::Pruning => of::<Document<Pruning>>("pruning"),
        Output::PoolOrders => of::<Document<PoolOrders>>("pool-orders"),
        Output::Abort => of::<Document<Aborted>>("abort"),
        Output::Error => of::<Document<ErrorReport<'_>>>("error"),
    }
}

/// What is written for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// By `validate`.
    Validation,
    /// By `diff`, and by `sync --dry-run`.
    Diff,
    /// A line of `sync` and `verify`.
    Events,
    /// By `status`.
    Status,
    /// By `doctor`.
    Doctor,
    /// By `explain` of a code.
    Code,
    /// By `explain` of a field.
    /// A line of `status --watch`.
    StatusLines,
    /// By `explain`.
    Explanation,
    /// By `init`.
    Initialization,
    /// By `capture`.
    Capture,
    /// By `install`.
    Installation,
    /// By `nodecfg-agent status`.
    AgentStatus,
    /// By `nodecfg-agent --once`.
    AgentPass,
    /// By `history`.
    History,
    /// By `prune`.
    Pruning,
    /// By `pause` and `resume`.
    PoolOrders,
    /// By `abort`.
    Abort,
    /// By every command that cannot do its work.
    Error,
}

/// The schema (2020-12) of what is written as a type.
fn of<T: JsonSchema>(name: &str) -> Value {
    let mut schema = SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>();
    schema.insert("$id".to_owned(), format!("https://nodecfg.dev/schemas/output/{name}.v1.json").into());
    let mut schema = schema.to_value();
    tidy(&mut schema);
    schema
}

/// One line of a run.
struct Line;

impl JsonSchema for Line {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Line".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut lines = vec![
            line::<Scene>(generator, "started", "What the run is about to work on. The first line."),
            line::<Diff<'_>>(generator, "planned", "What there is to do. The second line."),
            line::<Ended>(generator, "finished", "How the run ended. The last line."),
        ];
        lines.extend(variants::<&Progress>(generator));
        // A run that cannot do its work ends with an error in place of the last line.
        lines.push(generator.subschema_for::<Document<ErrorReport<'_>>>().to_value());
        json_schema!({
            "description": "One line of what `sync` and `verify` write with `-o json`.",
            "oneOf": lines,
        })
    }
}

/// One line of a status that is watched.
struct WatchLine;

impl JsonSchema for WatchLine {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Line".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut lines = vec![line::<Status<'_>>(generator, "status", "How everything is. The first line.")];
        lines.extend(variants::<StatusLine<'_>>(generator));
        lines.push(generator.subschema_for::<Document<ErrorReport<'_>>>().to_value());
        json_schema!({
            "description": "One line of what `status --watch` writes with `-o json`.",
            "oneOf": lines,
        })
    }
}

/// The variants of what happens, each as a line.
fn variants<T: Kind + JsonSchema>(generator: &mut SchemaGenerator) -> Vec<Value> {
    let Some(Value::Array(variants)) = T::json_schema(generator).remove("oneOf") else { return Vec::new() };
    let lines = variants.into_iter().filter_map(|variant| {
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

/// A document as a line.
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
    schema.insert("description".to_owned(), "When it was written.".into());
    schema
}
