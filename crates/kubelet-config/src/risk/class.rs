//! The risk classes, and the kubelet's state files that a risk may require to remove.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// The effect of a change on a node with running pods, by severity. The restart of the kubelet has its own effect, see
/// [`restart_resets_readiness`](super::restart_resets_readiness).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// No effect on pods: the change concerns the kubelet's own work.
    None,
    /// Running pods continue unchanged. The change affects pods that start later, or the kubelet's responses and
    /// reports.
    Restart,
    /// Running pods may be stopped, evicted, rejected, or keep outdated settings. Drain the node first. Remove the
    /// state files of the risk before the kubelet starts.
    Drain,
    /// Draining is not enough: reboot the node, or replace it with one created with the new configuration.
    Replace,
    /// Not possible on a live node.
    Never,
}

impl Class {
    /// All classes, by severity.
    pub const ALL: [Self; 5] = [Self::None, Self::Restart, Self::Drain, Self::Replace, Self::Never];

    /// Returns the name in files and reports, in kebab case.
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

    /// Returns the class with a name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.as_str() == name)
    }

    /// Returns the meaning, as a predicate of "a change".
    #[must_use]
    pub fn means(self) -> &'static str {
        match self {
            Self::None => "has no effect on pods",
            Self::Restart => "requires a restart of the kubelet, which running pods survive",
            Self::Drain => "requires draining the node first",
            Self::Replace => "requires a reboot or a new node",
            Self::Never => "is not possible on a live node",
        }
    }
}

impl JsonSchema for Class {
    fn schema_name() -> Cow<'static, str> {
        "Disruption".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Effect of a configuration change on running pods, by severity.",
            "enum": Self::ALL.map(Self::as_str),
        })
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
