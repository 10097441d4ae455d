//! Report of `effective`: the values that a kubelet runs, with their origins.

use std::collections::BTreeMap;
use std::io::{self, Write};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value as Json;

use super::count;
use super::markdown::{code, prose};
use super::style::{bad, quiet, warning};
use super::table::{Column, Table};
use kubelet_config::effective::{Effective, EffectiveValue, Origin, Refused};
use kubelet_config::verdict::Refusal;
use kubelet_config::{Minor, secrets};
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
    /// The origin: `default`, `--config`, the path of a drop-in, or a flag.
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
                    .map(|(path, value)| (path.clone(), with_origin(&path, value)))
                    .collect(),
                startup: effective.startup.iter().map(Refusal::sentence).collect(),
            },
        }
    }

    /// Writes a table.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn text(&self, out: &mut dyn Write, minor: Minor, width: usize) -> io::Result<()> {
        if let Some(error) = &self.error {
            return writeln!(out, "{} kubelet {minor} refuses its configuration: {error}", bad("✗"));
        }
        let each = |cell: &dyn Fn(&str, &ValueWithOrigin) -> String| -> Vec<String> {
            self.values.iter().map(|(path, value)| cell(path, value)).collect()
        };
        let columns = vec![
            Column::new("FIELD", each(&|path, _| path.to_owned())),
            Column::new("VALUE", each(&|_, value| shown(&value.value))).cut(),
            Column::new("ORIGIN", each(&|_, value| value.by.clone())).cut_last(),
        ];
        if !self.values.is_empty() {
            writeln!(out, "{}", Table::new(columns).lines(width).join("\n"))?;
        }
        for reason in &self.startup {
            writeln!(out, "{} kubelet {minor} fails to start: {}", warning("!"), one_line(reason))?;
        }
        writeln!(out, "{}", quiet(format!("{} of kubelet {minor}", count(self.values.len(), "value"))))
    }

    /// Writes a markdown table.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn markdown(&self, out: &mut dyn Write, minor: Minor) -> io::Result<()> {
        if let Some(error) = &self.error {
            return writeln!(out, "Kubelet {minor} refuses its configuration: {}", prose(error));
        }
        writeln!(out, "| field | value | origin |\n|---|---|---|")?;
        for (path, value) in &self.values {
            writeln!(out, "| {} | {} | {} |", code(path), code(&shown(&value.value)), code(&value.by))?;
        }
        for reason in &self.startup {
            writeln!(out, "\nKubelet {minor} fails to start: {}", prose(reason))?;
        }
        Ok(())
    }
}

fn with_origin(path: &str, EffectiveValue { value, by }: EffectiveValue) -> ValueWithOrigin {
    let value = match value {
        Json::String(text) => Json::String(secrets::redacted(path, &text)),
        other => other,
    };
    ValueWithOrigin { value, by: by.to_string() }
}

/// A text without quotes, and other values as JSON.
fn shown(value: &Json) -> String {
    match value {
        Json::String(text) if !text.is_empty() => text.clone(),
        other => other.to_string(),
    }
}
