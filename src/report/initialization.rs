//! What `init` has written, for people and for programs.

use std::io::{self, Write};

use schemars::JsonSchema;
use serde::Serialize;

use super::count;
use super::table::Table;
use nodecfg_contract::json_document::Kind;
use nodecfg_contract::names::{FleetName, NodeName, PoolName};

/// A repository to begin with.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Initialization {
    /// The folder that it was written to.
    pub folder: String,
    /// The name of the fleet.
    pub fleet: FleetName,
    /// The label that pools were made by; unset when no cluster was asked.
    pub label: Option<String>,
    /// The pools, by name.
    pub pools: Vec<InitialPool>,
    /// The files that were written, by path from the folder.
    pub files: Vec<String>,
    /// What the author may want to know.
    pub remarks: Vec<String>,
}

impl Kind for Initialization {
    const KIND: &'static str = "Initialization";
}

/// A pool of it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InitialPool {
    /// Its name.
    pub name: PoolName,
    /// How many nodes it has.
    pub nodes: usize,
    /// What its nodes run, or most of them.
    pub runs: InitialRuns,
    /// Whether its nodes are left alone for now.
    pub paused: bool,
    /// The nodes whose configuration was captured.
    pub captured: Vec<NodeName>,
}

/// What the nodes of a pool run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum InitialRuns {
    /// The configuration that they were provisioned with.
    Local,
    /// The content of ConfigMaps.
    ConfigMap,
    /// Nothing that is known: there was no cluster to ask.
    Unknown,
}

impl Initialization {
    /// What was written, and what comes next.
    ///
    /// # Errors
    /// When the writer does.
    pub fn text(&self, out: &mut dyn Write, next: &[String]) -> io::Result<()> {
        let by = self.label.as_ref().map_or_else(String::new, |label| format!(" by the label {label}"));
        let (files, pools) = (count(self.files.len(), "file"), count(self.pools.len(), "pool"));
        writeln!(out, "Wrote {files} to {}: {pools}{by}.\n", self.folder)?;
        if self.label.is_some() && !self.pools.is_empty() {
            let rows = self.pools.iter().map(|pool| [pool.name.to_string(), pool.nodes.to_string(), pool.words()]);
            writeln!(out, "{}\n", Table::plain(["POOL", "NODES", "WHAT THEY RUN"], rows))?;
        }
        writeln!(out, "Next:")?;
        for line in next {
            writeln!(out, "  {line}")?;
        }
        Ok(())
    }

    /// The same for a ticket.
    ///
    /// # Errors
    /// When the writer does.
    pub fn markdown(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "| pool | nodes | what they run |\n|---|---|---|")?;
        for pool in &self.pools {
            writeln!(out, "| {} | {} | {} |", pool.name, pool.nodes, pool.words())?;
        }
        Ok(())
    }
}

impl InitialPool {
    fn words(&self) -> String {
        let runs = match (self.runs, self.captured.len()) {
            (InitialRuns::Local, 0) => "their local configuration, not captured".to_owned(),
            (InitialRuns::Local, captured) => format!("their local configuration ({captured} captured)"),
            (InitialRuns::ConfigMap, _) => "what their ConfigMap holds".to_owned(),
            (InitialRuns::Unknown, _) => "not known".to_owned(),
        };
        if self.paused { format!("{runs}; paused") } else { runs }
    }
}
