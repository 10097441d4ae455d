//! Report of `init`: the written repository, its pools, and what to do next.

use schemars::JsonSchema;
use serde::Serialize;

use super::count;
use super::document::{Block, Cell, Conclusion, Item, Report, Section, Table, Text};
use crate::status::Grade;
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
    /// The written repository, its pools and the commands to run next.
    #[must_use]
    pub fn report(&self, next: &[String]) -> Report {
        let by = self.label.as_ref().map_or_else(String::new, |label| format!(" by the label {label}"));
        let (files, pools) = (count(self.files.len(), "file"), count(self.pools.len(), "pool"));
        let row = |pool: &InitialPool| {
            vec![Cell::name(Some(&pool.name)), Cell::Number(pool.nodes), Cell::Words(pool.configuration())]
        };
        let table = Table {
            caption: "Pools".to_owned(),
            columns: vec!["pool", "nodes", "current configuration"],
            rows: self.pools.iter().filter(|_| self.label.is_some()).map(row).collect(),
            complete: true,
            ..Table::default()
        };
        let next = next.iter().map(|command| Item::new(Text::name(command.as_str())).into());
        let next = Section { title: "Next".into(), blocks: next.collect(), ..Section::default() };
        Report {
            command: "init",
            result: Some(Conclusion::sentence(Grade::Good, format!("Wrote {files} to {}: {pools}{by}.", self.folder))),
            blocks: vec![Block::Table(table), Block::Section(next)],
            ..Report::default()
        }
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
