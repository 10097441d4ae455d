//! Report of `init`: the written repository as text, markdown and JSON.

use std::io::{self, Write};

use schemars::JsonSchema;
use serde::Serialize;

use super::count;
use super::table::{TextColumn, TextTable};
use crate::layout::hanging;
use nodecfg_contract::json_document::Kind;
use nodecfg_contract::names::{FleetName, NodeName, PoolName};

/// A new repository.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Initialization {
    /// The folder of the repository.
    pub folder: String,
    /// The name of the fleet.
    pub fleet: FleetName,
    /// The label that separates pools. Unset without a cluster.
    pub label: Option<String>,
    /// The pools, by name.
    pub pools: Vec<InitialPool>,
    /// The written files, relative to the folder.
    pub files: Vec<String>,
    /// Remarks for the author.
    pub remarks: Vec<String>,
}

impl Kind for Initialization {
    const KIND: &'static str = "Initialization";
}

/// A pool of a new repository.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InitialPool {
    /// The name of the pool.
    pub name: PoolName,
    /// The number of nodes.
    pub nodes: usize,
    /// What most of the nodes run.
    pub runs: InitialRuns,
    /// Whether the pool is paused.
    pub paused: bool,
    /// The nodes whose configuration was captured.
    pub captured: Vec<NodeName>,
}

/// The kind of configuration that the nodes of a pool run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum InitialRuns {
    /// The local configuration.
    Local,
    /// The content of ConfigMaps.
    ConfigMap,
    /// Unknown, without a cluster.
    Unknown,
}

impl Initialization {
    /// Writes the result and the next steps as text, `width` columns wide. Commands stay on one line.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn text(&self, out: &mut dyn Write, next: &[String], width: usize) -> io::Result<()> {
        let by = self.label.as_ref().map_or_else(String::new, |label| format!(" by the label {label}"));
        let (files, pools) = (count(self.files.len(), "file"), count(self.pools.len(), "pool"));
        writeln!(out, "{}\n", hanging(&format!("Wrote {files} to {}: {pools}{by}.", self.folder), 2, width))?;
        if self.label.is_some() && !self.pools.is_empty() {
            let columns = vec![
                TextColumn::new("POOL", self.pools.iter().map(|pool| &pool.name)).cut_last(),
                TextColumn::new("NODES", self.pools.iter().map(|pool| pool.nodes)),
                TextColumn::new("CURRENT CONFIGURATION", self.pools.iter().map(InitialPool::configuration)),
            ];
            writeln!(out, "{}\n", TextTable::new(columns).spaced().lines(width).join("\n"))?;
        }
        writeln!(out, "Next:")?;
        for line in next {
            writeln!(out, "  {line}")?;
        }
        Ok(())
    }

    /// Writes the pools as a markdown table.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn markdown(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "| pool | nodes | current configuration |\n|---|---|---|")?;
        for pool in &self.pools {
            writeln!(out, "| {} | {} | {} |", pool.name, pool.nodes, pool.configuration())?;
        }
        Ok(())
    }
}

impl InitialPool {
    fn configuration(&self) -> String {
        let runs = match (self.runs, self.captured.len()) {
            (InitialRuns::Local, 0) => "local configuration, not captured".to_owned(),
            (InitialRuns::Local, captured) => format!("local configuration ({captured} captured)"),
            (InitialRuns::ConfigMap, _) => "ConfigMap".to_owned(),
            (InitialRuns::Unknown, _) => "unknown".to_owned(),
        };
        if self.paused { format!("{runs}; paused") } else { runs }
    }
}
