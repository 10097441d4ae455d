//! Refusal of a pool's changes, with its fixes.

use schemars::JsonSchema;
use serde::Serialize;

use kubelet_config::risk::Class;
use nodecfg_contract::names::PoolName;
use nodecfg_fleet::RolloutPolicy;
use nodecfg_plan::{Disruption, LostField, OmittedField};

/// Why a sync refuses the changes of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    /// The worst risk that the pool allows (`spec.rollout.allowDisruption`).
    pub allowed: Class,
    /// Omitted fields whose loss harms the nodes and is not accepted (`spec.kubelet.acceptRemoved`), by path.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<LostField>,
    /// Refused fields that the new configuration omits, by path. Naming them keeps what the nodes run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub omitted: Vec<OmittedField>,
    /// How to fix the refusal.
    pub help: String,
}

impl Refusal {
    /// The refusal of a pool with this policy. `None` if a sync carries the changes out.
    pub(super) fn of(pool: &PoolName, disruption: &Disruption, policy: &RolloutPolicy) -> Option<Self> {
        let Disruption { worst, omitted, lost, state_files, .. } = disruption;
        let class =
            worst.filter(|_| disruption.refused).map(|worst| nodecfg_plan::fix(pool, worst, state_files, omitted));
        let loss = (!lost.is_empty()).then(|| nodecfg_plan::loss_fix(pool, lost));
        let fixes: Vec<String> = class.into_iter().chain(loss).collect();
        let (allowed, omitted, lost) = (policy.allow_disruption, omitted.clone(), lost.clone());
        (!fixes.is_empty()).then(|| Self { allowed, omitted, lost, help: fixes.join("; and ") })
    }
}
