//! Report of `effective`: the values that a kubelet runs, with their origins.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value as Json;

use super::count;
use super::document::{Block, Cell, Conclusion, Item, Report, Table};
use crate::status::Grade;
use kubelet_config::effective::{Effective, Origin, Refused};
use kubelet_config::fields::secrets;
use kubelet_config::verdict::Refusal;
use nodecfg_contract::json_document::Kind;
use nodecfg_contract::printable::one_line;

/// The configuration that a kubelet runs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Effective")]
pub struct EffectiveConfiguration {
    /// Whether the kubelet loads, merges and validates its files and flags.
    pub accepted: bool,
    /// Why the kubelet refuses them, with the file or flag. Null if it accepts them.
    pub error: Option<String>,
    /// The values by path. A dot separates keys, in maps with free keys too. A list is one value. Empty if the kubelet
    /// refuses its configuration.
    pub values: BTreeMap<String, ValueWithOrigin>,
    /// Why the kubelet accepts the configuration and fails to start, a sentence each.
    pub startup: Vec<String>,
}

/// A value that a kubelet runs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ValueWithOrigin {
    /// The value as the kubelet prints it.
    pub value: Json,
    /// The origin: `default`, `--config`, the path of a drop-in, or a flag. For a node of the cluster: `default`,
    /// `ConfigMap NAMESPACE/NAME`, or `node` for its own configuration and its flags.
    pub by: String,
}

impl Kind for EffectiveConfiguration {
    const KIND: &'static str = "Effective";
}

impl EffectiveConfiguration {
    /// Converts an answer. `changed`: without defaults.
    #[must_use]
    pub fn of(answer: Result<Effective, Refused>, changed: bool) -> Self {
        match answer {
            Err(refused) => Self {
                accepted: false,
                error: Some(one_line(&refused.to_string())),
                values: BTreeMap::new(),
                startup: Vec::new(),
            },
            Ok(effective) => Self {
                accepted: true,
                error: None,
                values: effective
                    .values
                    .into_iter()
                    .filter(|(_, value)| !changed || value.by != Origin::Default)
                    .map(|(path, value)| (path.clone(), with_origin(&path, value.value, value.by.to_string())))
                    .collect(),
                startup: effective.startup.iter().map(Refusal::sentence).collect(),
            },
        }
    }

    /// Converts the answer of a running kubelet: each value with its path and origin. `changed`: without defaults.
    #[must_use]
    pub fn of_node(values: impl IntoIterator<Item = (String, (Json, String))>, changed: bool) -> Self {
        let shown = values.into_iter().filter(|(_, (_, by))| !changed || *by != Origin::Default.to_string());
        let values = shown.map(|(path, (value, by))| (path.clone(), with_origin(&path, value, by))).collect();
        Self { accepted: true, error: None, values, startup: Vec::new() }
    }

    /// The values with their origins. `kubelet`: its version, or its version and node.
    #[must_use]
    pub fn report(&self, kubelet: &str) -> Report {
        let row = |(path, value): (&String, &ValueWithOrigin)| {
            vec![Cell::Name(path.clone()), Cell::Name(shown(&value.value)), Cell::Name(value.by.clone())]
        };
        let table = Table {
            caption: "Values".to_owned(),
            columns: vec!["field", "value", "origin"],
            rows: self.values.iter().map(row).collect(),
            complete: true,
            ..Table::default()
        };
        let startup = self
            .startup
            .iter()
            .map(|reason| Item::warning("startup", format!("kubelet {kubelet} fails to start: {reason}")).into());
        let result = match &self.error {
            Some(error) => Conclusion {
                label: format!("Kubelet {kubelet} refuses its configuration:"),
                grade: Grade::Bad,
                text: error.as_str().into(),
            },
            None => Conclusion::sentence(
                Grade::Neutral,
                format!("{} of kubelet {kubelet}.", count(self.values.len(), "value")),
            ),
        };
        Report {
            command: "effective",
            result: Some(result),
            blocks: [Block::Table(table)].into_iter().chain(startup).collect(),
            ..Report::default()
        }
    }
}

fn with_origin(path: &str, value: Json, by: String) -> ValueWithOrigin {
    let value = match value {
        Json::String(text) => Json::String(secrets::redacted(path, &text)),
        other => other,
    };
    ValueWithOrigin { value, by }
}

/// A text without quotes, and other values as JSON.
fn shown(value: &Json) -> String {
    match value {
        Json::String(text) if !text.is_empty() => text.clone(),
        other => other.to_string(),
    }
}
