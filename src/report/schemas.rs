//! JSON Schemas of files and outputs: the files of `schemas/`. Tests generate them from the serialized types. The program
//! has only their texts, which are smaller than the code that generates them.

/// Schema of `nodecfg.yaml`.
pub const FLEET: &str = include_str!("../../schemas/fleet.v1alpha1.json");
/// Schema of `pool.yaml`.
pub const NODEPOOL: &str = include_str!("../../schemas/nodepool.v1alpha1.json");
/// Schema of the output of `diff --out`.
pub const PLAN: &str = include_str!("../../schemas/plan.v2.json");

/// Schema of a JSON output.
pub struct Output {
    /// The name, used in `nodecfg schema NAME` and `schemas/output/NAME.v1.json`.
    pub name: &'static str,
    /// The commands that write this output.
    pub written_by: &'static str,
    /// The JSON Schema (2020-12).
    pub schema: &'static str,
}

macro_rules! output {
    ($name:literal, $written_by:literal) => {
        Output {
            name: $name,
            written_by: $written_by,
            schema: include_str!(concat!("../../schemas/output/", $name, ".v1.json")),
        }
    };
}

/// All JSON outputs.
pub const OUTPUTS: &[Output] = &[
    output!("validation", "`validate -o json`"),
    output!("diff", "`diff -o json` and `sync --dry-run -o json`"),
    output!("events", "`sync`, `rollback`, `reset` and `verify` with `-o json`"),
    output!("status", "`status -o json`"),
    output!("doctor", "`doctor -o json`"),
    output!("effective", "`effective -o json`"),
    output!("code", "`explain -o json` of a code"),
    output!("reservations", "`explain -o json reserve`"),
    output!("status-lines", "`status --watch -o json`"),
    output!("explanation", "`explain -o json` of a field"),
    output!("initialization", "`init -o json`"),
    output!("capture", "`capture -o json`"),
    output!("installation", "`install -o json`"),
    output!("agent-status", "`nodecfg-agent status -o json`"),
    output!("agent-pass", "`nodecfg-agent --once -o json`"),
    output!("history", "`history -o json`"),
    output!("gates", "`gates -o json`"),
    output!("pruning", "`prune -o json`"),
    output!("release", "`release -o json`"),
    output!("pool-orders", "`pause -o json` and `resume -o json`"),
    output!("version", "`version -o json`"),
    output!("abort", "`abort -o json`"),
    output!("error", "any command with `-o json` that fails"),
];

#[cfg(test)]
mod tests {
    use schemars::generate::SchemaSettings;
    use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
    use serde_json::Value;

    use super::super::capture::Capture;
    use super::super::code_explanation::CodeExplanation;
    use super::super::doctor::Doctor;
    use super::super::document::json::Noticed;
    use super::super::effective::EffectiveConfiguration;
    use super::super::error::ErrorReport;
    use super::super::field::Explained;
    use super::super::gates::GateAnswers;
    use super::super::history::History;
    use super::super::initialization::Initialization;
    use super::super::installation::Installed;
    use super::super::orders::{Aborted, PoolOrders};
    use super::super::outcome::Ended;
    use super::super::progress::RunHeader;
    use super::super::pruning::Pruning;
    use super::super::release::Release;
    use super::super::reservations::Reservations;
    use super::super::review::Diff;
    use super::super::status::{Line as StatusLine, Status};
    use super::super::validation::Validation;
    use super::super::version::Version;
    use nodecfg_agent::cli::description::AgentStatus;
    use nodecfg_agent::cli::pass::AgentPass;
    use nodecfg_contract::json_document::{Document, Kind, format_version, prepend};
    use nodecfg_fleet::formats::schema::tidy;
    use nodecfg_rollout::progress::Event;

    use super::{FLEET, NODEPOOL, OUTPUTS, PLAN};
    use nodecfg_fleet::formats::schema::{fleet_schema, nodepool_schema, pretty};
    use nodecfg_plan::saved::plan_schema;

    /// Makes the schema of a type under a name.
    type MakeSchema = fn(&str) -> Value;

    /// Type of each output.
    const TYPES: [(&str, MakeSchema); 23] = [
        ("validation", of::<Document<Validation>>),
        ("diff", of::<Document<Noticed<'_, Diff<'_>>>>),
        ("events", of::<Line>),
        ("status", of::<Document<Noticed<'_, Status<'_>>>>),
        ("doctor", of::<Document<Noticed<'_, Doctor<'_>>>>),
        ("effective", of::<Document<Noticed<'_, EffectiveConfiguration>>>),
        ("code", of::<Document<&CodeExplanation>>),
        ("reservations", of::<Document<Noticed<'_, Reservations>>>),
        ("status-lines", of::<WatchLine>),
        ("explanation", of::<Document<Explained<'_>>>),
        ("initialization", of::<Document<Noticed<'_, Initialization>>>),
        ("capture", of::<Document<Capture<'_>>>),
        ("installation", of::<Document<Installed<'_>>>),
        ("agent-status", of::<Document<AgentStatus<'_>>>),
        ("agent-pass", of::<Document<AgentPass<'_>>>),
        ("history", of::<Document<Noticed<'_, History>>>),
        ("gates", of::<Document<Noticed<'_, GateAnswers>>>),
        ("pruning", of::<Document<Noticed<'_, Pruning>>>),
        ("release", of::<Document<Noticed<'_, Release>>>),
        ("pool-orders", of::<Document<Noticed<'_, PoolOrders>>>),
        ("version", of::<Document<Version>>),
        ("abort", of::<Document<Noticed<'_, Aborted>>>),
        ("error", of::<Document<ErrorReport<'_>>>),
    ];

    #[test]
    fn files_equal_the_types() {
        let outputs = TYPES.map(|(name, schema)| {
            let file = OUTPUTS.iter().find(|output| output.name == name).unwrap_or_else(|| panic!("{name}"));
            (format!("output/{name}.v1.json"), file.schema, schema(name))
        });
        assert_eq!(TYPES.len(), OUTPUTS.len());
        let files = [
            ("fleet.v1alpha1.json", FLEET, fleet_schema()),
            ("nodepool.v1alpha1.json", NODEPOOL, nodepool_schema()),
            ("plan.v2.json", PLAN, plan_schema()),
        ];
        let files = files.map(|(file, text, schema)| (file.to_owned(), text, schema));
        let mut outdated = Vec::new();
        for (file, text, schema) in files.into_iter().chain(outputs) {
            let made = pretty(&schema);
            if made == text {
                continue;
            }
            if std::env::var_os("UPDATE_DOCS").is_some() {
                let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas").join(&file);
                std::fs::write(path, &made).unwrap();
            } else {
                outdated.push(file);
            }
        }
        assert!(outdated.is_empty(), "{outdated:?}: UPDATE_DOCS=always cargo test --lib report::schemas");
    }

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
}
