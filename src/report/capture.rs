//! What `capture` has found, for programs and as markdown.

use std::io::{self, Write};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::markdown::{code, prose};
use crate::capture::{Common, Difference, LeftOut, to_yaml};
use nodecfg_contract::json_document::Kind;
use nodecfg_contract::names::NodeName;

/// What nodes run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Capture<'a> {
    /// The nodes that answered, by name.
    pub nodes: &'a [NodeName],
    /// How many nodes there are to ask; more than answered when not all were asked.
    pub of: usize,
    /// Their KubeletConfiguration. For a field that they do not share, the value that most of them have.
    pub configuration: &'a Map<String, Value>,
    /// The fields that they do not share, by path.
    pub differences: &'a [Difference],
    /// Fields that are not in the configuration, though kubelets have them set.
    pub left_out: &'a [LeftOut],
    /// The nodes that did not answer.
    pub failed: Vec<Failed>,
    /// The files that were written.
    pub written: Vec<String>,
}

impl Kind for Capture<'_> {
    const KIND: &'static str = "Capture";
}

/// A node that did not answer.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Failed {
    /// Its name.
    pub node: NodeName,
    /// What went wrong, as an identifier.
    pub code: &'static str,
    /// What went wrong.
    pub message: String,
    /// The way out.
    pub help: String,
}

impl<'a> Capture<'a> {
    /// What these nodes have in common, of so many.
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

    /// For a ticket: the configuration, and a table of what differs.
    ///
    /// # Errors
    /// When the writer does.
    pub fn markdown(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "```yaml\n{}```", to_yaml(self.configuration).unwrap_or_default())?;
        if !self.differences.is_empty() {
            writeln!(out, "\n| field | value | nodes |\n|---|---|---|")?;
        }
        for differing in self.differences {
            for held in &differing.shares {
                let value = held.value.as_ref().map_or_else(|| "not set".to_owned(), |value| code(&value.to_string()));
                let nodes: Vec<String> = held.nodes.iter().map(|node| code(node.as_str())).collect();
                writeln!(out, "| {} | {value} | {} |", code(&differing.field), nodes.join(", "))?;
            }
        }
        for omitted in self.left_out {
            writeln!(out, "\n{} is left out: it {}.", code(&omitted.field), omitted.why.words())?;
        }
        for failed in &self.failed {
            writeln!(out, "\n{}", prose(&failed.message))?;
        }
        Ok(())
    }
}
