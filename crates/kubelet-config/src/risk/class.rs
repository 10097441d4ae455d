//! The classes of risk, and the state files that a drained node may have to lose.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// What a change does to a node that runs pods, from harmless to ruinous.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Pods do not notice: it is about the kubelet's own work.
    None,
    /// Pods that run go on as they are. The kubelet treats those that start afterwards otherwise, or itself answers, reports
    /// or reacts otherwise.
    Restart,
    /// Pods that run may be stopped, evicted or rejected, or keep what no longer holds. The node must be drained first, and
    /// the state files that the risk names must be removed before the kubelet starts again.
    Drain,
    /// Draining is not enough: the node must be rebooted, or replaced by one that was made with the new configuration.
    Replace,
    /// Not on a live node at all.
    Never,
}

impl Class {
    /// All of them, from harmless to ruinous.
    pub const ALL: [Self; 5] = [Self::None, Self::Restart, Self::Drain, Self::Replace, Self::Never];

    /// Its name in files and reports, in kebab case.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Restart => "restart",
            Self::Drain => "drain",
            Self::Replace => "replace",
            Self::Never => "never",
        }
    }

    /// The class of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.as_str() == name)
    }

    /// What it means, to follow "a change".
    #[must_use]
    pub fn means(self) -> &'static str {
        match self {
            Self::None => "has no effect on pods",
            Self::Restart => "takes a restart of the kubelet, which running pods survive",
            Self::Drain => "needs the node drained first",
            Self::Replace => "needs a reboot or another node",
            Self::Never => "must not happen on a live node",
        }
    }
}

impl JsonSchema for Class {
    fn schema_name() -> Cow<'static, str> {
        "Disruption".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "What a change of configuration does to pods that run, from harmless to ruinous.",
            "enum": Self::ALL.map(Self::as_str),
        })
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A file in the kubelet's root directory that holds what a manager gave to which container. A kubelet does not start on one
/// that does not fit its configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StateFile {
    /// `cpu_manager_state`.
    CpuManagerState,
    /// `memory_manager_state`.
    MemoryManagerState,
}

impl StateFile {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::CpuManagerState, Self::MemoryManagerState];

    /// Its name in the kubelet's root directory, which is `/var/lib/kubelet` unless a flag says otherwise.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CpuManagerState => "cpu_manager_state",
            Self::MemoryManagerState => "memory_manager_state",
        }
    }

    /// The field and the value of it without which the kubelet makes nothing of what is in the file.
    #[must_use]
    pub fn policy(self) -> (&'static str, &'static str) {
        match self {
            Self::CpuManagerState => ("cpuManagerPolicy", "static"),
            Self::MemoryManagerState => ("memoryManagerPolicy", "Static"),
        }
    }
}

impl fmt::Display for StateFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
