//! Report of `capture`: its JSON document and its markdown.

use std::io::{self, Write};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::markdown::{code, prose, row};
use crate::capture::{Common, Difference, OmittedField, to_yaml};
use nodecfg_contract::json_document::Kind;
use nodecfg_contract::names::NodeName;

/// Configuration that nodes run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Capture<'a> {
    /// The nodes that answered, by name.
    pub nodes: &'a [NodeName],
    /// The number of nodes to query. More than the answers when `capture` did not query all.
    pub of: usize,
    /// The KubeletConfiguration that the nodes share. A field with different values has the most common one.
    pub configuration: &'a Map<String, Value>,
    /// The fields whose values differ between nodes, by path.
    pub differences: &'a [Difference],
    /// Fields that kubelets have set, but that are omitted from the configuration.
    pub left_out: &'a [OmittedField],
    /// The nodes that did not answer.
    pub failed: Vec<Failed>,
    /// The written files.
    pub written: Vec<String>,
}

impl Kind for Capture<'_> {
    const KIND: &'static str = "Capture";
}

/// A node that did not answer.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Failed {
    /// The name of the node.
    pub node: NodeName,
    /// The error code.
    pub code: &'static str,
    /// The error message.
    pub message: String,
    /// How to fix the error.
    pub help: String,
}

impl<'a> Capture<'a> {
    /// The report on `common`, for `of` nodes in total.
    #[must_use]
    pub fn of(common: &'a Common, of: usize, failed: Vec<Failed>, written: Vec<String>) -> Self {
        Self {
            nodes: &common.nodes,
            of,
            configuration: &common.configuration,
            differences: &common.differences,
            left_out: &common.left_out,
            failed,
            written,
        }
    }

    /// Writes the configuration, a table of the differences, the omitted fields and the errors.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn markdown(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "```yaml\n{}```", to_yaml(self.configuration).unwrap_or_default())?;
        if !self.differences.is_empty() {
            writeln!(out, "\n| field | value | nodes |\n|---|---|---|")?;
        }
        for differing in self.differences {
            for held in &differing.shares {
                let value = held.value.as_ref().map_or_else(|| "not set".to_owned(), |value| code(&value.to_string()));
                let nodes: Vec<String> = held.nodes.iter().map(|node| code(node.as_str())).collect();
                out.write_all(row([code(&differing.field), value, nodes.join(", ")]).as_bytes())?;
            }
        }
        for omitted in self.left_out {
            writeln!(out, "\n{} is omitted: it {}.", code(&omitted.field), omitted.why.text())?;
        }
        for failed in &self.failed {
            writeln!(out, "\n{}", prose(&failed.message))?;
        }
        Ok(())
    }
}
