//! Saved plan: the file that a reviewer approves and that a later sync must match.
//!
//! The file contains the [reviewed part](ReviewedPlan) of a plan, with the cluster and the options of the plan. A sync
//! with a saved plan makes a new plan and runs it only if that part is equal. So a saved plan can only restrict a sync.
//! [`differences`](SavedPlan::differences) lists what changed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Plan;
use crate::reviewed::{PlanId, ReviewedPlan, digest};
use nodecfg_contract::names::{NamespaceName, PoolName};
use nodecfg_fleet::formats::schema;

mod differences;
mod read;
#[cfg(test)]
mod scenarios;

pub use differences::{Difference, FreshPlan};
pub use read::{LIMIT, SavedPlanError, read};

/// Version of the format. It changes when a field is removed or changes its meaning.
pub const FORMAT_VERSION: u32 = 2;

/// A reviewed plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "SavedPlan")]
pub struct SavedPlan {
    /// Version of this format: 2.
    pub format_version: u32,
    /// Kind of this document.
    pub kind: Kind,
    /// `blake3:` and the hash of all other fields, as compact JSON in the order of this schema. It detects accidental
    /// changes but is no signature.
    pub digest: String,
    /// Version of nodecfg that created the file.
    pub nodecfg_version: String,
    /// Pools whose changes sync refuses, because they exceed the policy of the pool. Not compared.
    pub refused: Vec<PoolName>,
    /// Cluster of the plan.
    pub cluster: ClusterIdentity,
    /// Where assignments are written: `node` (Nodes) or `nodeconfig` (NodeConfigs).
    pub binding: String,
    /// Options of the plan. `sync --plan` requires the same ones.
    pub options: SavedOptions,
    /// Id of the plan: the hash of its reviewed part, as `diff` shows it.
    pub plan_id: PlanId,
    /// The reviewed part of the plan.
    pub plan: ReviewedPlan,
}

/// Kind of the document: `SavedPlan`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Kind {
    /// The only kind.
    SavedPlan,
}

/// Identity of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterIdentity {
    /// Uid of the namespace kube-system.
    pub uid: String,
    /// Address of the API server, for readers. It is not compared, because a cluster may have several addresses.
    pub server: String,
}

/// Options of `diff` that affect the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SavedOptions {
    /// `--take-over`.
    pub take_over: bool,
    /// `--allow-empty`.
    pub allow_empty: bool,
    /// `--lenient`.
    pub lenient: bool,
    /// `--namespace`; null if unset.
    pub namespace: Option<NamespaceName>,
    /// `--binding`; null if unset or `auto`.
    pub binding: Option<String>,
}

impl SavedOptions {
    /// The arguments that give these options.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        let flags = [("--take-over", self.take_over), ("--allow-empty", self.allow_empty), ("--lenient", self.lenient)];
        let flags = flags.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag.to_owned());
        let namespace = self.namespace.iter().map(|name| format!("--namespace={name}"));
        flags.chain(namespace).chain(self.binding.iter().map(|name| format!("--binding={name}"))).collect()
    }
}

impl SavedPlan {
    /// Saves a plan for this cluster. `binding` has the notation of the command line.
    #[must_use]
    pub fn of(plan: &Plan, cluster: ClusterIdentity, binding: &str, options: SavedOptions) -> Self {
        let refused = plan.pools.iter().filter(|pool| pool.disruption.is_refused());
        let saved = Self {
            format_version: FORMAT_VERSION,
            kind: Kind::SavedPlan,
            digest: String::new(),
            nodecfg_version: env!("CARGO_PKG_VERSION").to_owned(),
            refused: refused.map(|pool| pool.name.clone()).collect(),
            cluster,
            binding: binding.to_owned(),
            options,
            plan_id: plan.id.clone(),
            plan: plan.into(),
        };
        saved.with_digest()
    }

    /// Sets the id of the plan and the digest that match the content.
    #[must_use]
    pub fn with_digest(self) -> Self {
        let identified = Self { plan_id: PlanId::of(&self.plan), ..self };
        Self { digest: identified.expected_digest(), ..identified }
    }

    /// Digest of all other fields.
    fn expected_digest(&self) -> String {
        format!("blake3:{}", digest(&Self { digest: String::new(), ..self.clone() }))
    }

    /// File content: indented JSON with a final newline.
    #[must_use]
    pub fn text(&self) -> String {
        // Strings, numbers and maps of them always serialize.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }
}

/// JSON Schema (2020-12) of the output of `diff --out`.
#[must_use]
pub fn plan_schema() -> Value {
    schema::of::<SavedPlan>("plan.v2")
}
