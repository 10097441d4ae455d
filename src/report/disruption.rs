//! What a plan does to pods that run, for people: the worst of a pool in a line, and whether a sync refuses it.

use super::count;
use crate::judge::Target;
use crate::kubelet::risk::Risk;
use crate::plan::PoolPlan;

/// The worst that the changes of a pool do, and for how many nodes that is not known. `None` when nothing changes.
#[must_use]
pub fn worst(pool: &PoolPlan) -> Option<String> {
    let disruption = &pool.disruption;
    let Some(class) = disruption.worst else {
        let side = if pool.target == Target::Local { "they shall run" } else { "they run now" };
        return (disruption.unknown > 0).then(|| format!("not known, since what {side} is not"));
    };
    let mut line = format!("{class}: {}", class.means());
    if !disruption.state_files.is_empty() {
        let files: Vec<&str> = disruption.state_files.iter().map(|file| file.as_str()).collect();
        line.push_str(&format!(", and {} removed", files.join(" and ")));
    }
    if disruption.unknown > 0 {
        line.push_str(&format!("; not known for {}", count(disruption.unknown, "node")));
    }
    Some(line)
}

/// Why a sync refuses the changes of a pool, where it does.
#[must_use]
pub fn refused(pool: &PoolPlan) -> Option<String> {
    let allowed = pool.policy.allow_disruption;
    pool.disruption.refused.then(|| format!("the pool allows no more than {allowed} (spec.rollout.allowDisruption)"))
}

/// The class of one field for a column, empty where it is not known.
#[must_use]
pub fn class(risk: Option<&Risk>) -> &'static str {
    risk.map_or("", |risk| risk.class.as_str())
}

/// Why a field has its class, and who says so.
#[must_use]
pub fn why_and_source(risk: &Risk) -> String {
    if risk.source.is_empty() { risk.why.clone() } else { format!("{} [{}]", risk.why, risk.source) }
}
