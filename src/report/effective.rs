//! Report of `effective`: the values that a kubelet runs, with their origins.

use std::collections::BTreeMap;
use std::io::{self, Write};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value as Json;

use super::count;
use super::markdown::{code, prose};
use super::style::{bad, quiet, warning};
use super::table::{TextColumn, TextTable};
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

    /// Writes a table. `kubelet`: its version, or its version and node.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn text(&self, out: &mut dyn Write, kubelet: &str, width: usize) -> io::Result<()> {
        if let Some(error) = &self.error {
            return writeln!(out, "{} kubelet {kubelet} refuses its configuration: {error}", bad("✗"));
        }
        let each = |cell: &dyn Fn(&str, &ValueWithOrigin) -> String| -> Vec<String> {
            self.values.iter().map(|(path, value)| cell(path, value)).collect()
        };
        let columns = vec![
            TextColumn::new("FIELD", each(&|path, _| path.to_owned())),
            TextColumn::new("VALUE", each(&|_, value| shown(&value.value))).cut(),
            TextColumn::new("ORIGIN", each(&|_, value| value.by.clone())).cut_last(),
        ];
        if !self.values.is_empty() {
            writeln!(out, "{}", TextTable::new(columns).lines(width).join("\n"))?;
        }
        for reason in &self.startup {
            writeln!(out, "{} kubelet {kubelet} fails to start: {}", warning("!"), one_line(reason))?;
        }
        writeln!(out, "{}", quiet(format!("{} of kubelet {kubelet}", count(self.values.len(), "value"))))
    }

    /// Writes a markdown table. `kubelet`: as for [`text`](Self::text).
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn markdown(&self, out: &mut dyn Write, kubelet: &str) -> io::Result<()> {
        if let Some(error) = &self.error {
            return writeln!(out, "Kubelet {kubelet} refuses its configuration: {}", prose(error));
        }
        writeln!(out, "| field | value | origin |\n|---|---|---|")?;
        for (path, value) in &self.values {
            writeln!(out, "| {} | {} | {} |", code(path), code(&shown(&value.value)), code(&value.by))?;
        }
        for reason in &self.startup {
            writeln!(out, "\nKubelet {kubelet} fails to start: {}", prose(reason))?;
        }
        Ok(())
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
