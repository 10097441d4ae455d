//! What a plan does to pods that run, for people: the worst of a pool in a line, and whether a sync refuses it.

use super::count;
use crate::kubelet::risk::{Class, Risk};
use crate::plan::PoolPlan;

/// The worst that the changes of a pool do, and for how many nodes that is not known. `None` when nothing changes.
#[must_use]
pub fn worst(pool: &PoolPlan) -> Option<String> {
    let disruption = &pool.disruption;
    let unknown = || format!("not known for {}", count(disruption.unknown, "node"));
    match disruption.worst {
        None if disruption.unknown == 0 => None,
        None => Some(format!("{}: what they run now, or shall run, is not known to nodecfg", unknown())),
        Some(class) => {
            let mut line = format!("{class}: {}", class.means());
            if !disruption.state_files.is_empty() {
                let files: Vec<&str> = disruption.state_files.iter().map(|file| file.as_str()).collect();
                line.push_str(&format!(", and {} removed", files.join(" and ")));
            }
            if disruption.unknown > 0 {
                line.push_str(&format!("; {}", unknown()));
            }
            Some(line)
        }
    }
}

/// Why a sync refuses the changes of a pool, where it does.
#[must_use]
pub fn refused(pool: &PoolPlan) -> Option<String> {
    let allowed = pool.policy.allow_disruption;
    pool.disruption
        .refused
        .then(|| format!("sync refuses this: the pool allows no more than {allowed} (spec.rollout.allowDisruption)"))
}

/// The class of one field for a column, empty where it is not known.
#[must_use]
pub fn class(risk: Option<&Risk>) -> &'static str {
    risk.map_or("", |risk| risk.class.as_str())
}

/// Why a field has its class, with the state files that must go and the source.
#[must_use]
pub fn why(risk: &Risk) -> String {
    let mut text = risk.why.clone();
    if !risk.state_files.is_empty() {
        let files: Vec<&str> = risk.state_files.iter().map(|file| file.as_str()).collect();
        text.push_str(&format!(" {} must be removed.", files.join(" and ")));
    }
    if risk.class > Class::None && !risk.source.is_empty() {
        text.push_str(&format!(" [{}]", risk.source));
    }
    text
}
