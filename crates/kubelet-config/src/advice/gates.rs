//! Advice on feature gates: redundant gates, gates for a whole stage, and gates that later versions remove. Refusals
//! of a version are in `verdict`; refusals of the next version are in `upgrade`.

use super::remarks::Remarks;
use crate::document::{Entry, Reading};
use crate::gates::{self, GateProperties, GateStage};
use crate::verdict::Config;
use crate::{Minor, NEWEST};

pub(super) fn check(config: &Config<'_>, minors: &[Minor], next: Option<Minor>, remarks: &mut Remarks) {
    for (gate, entry) in config.entries("featureGates") {
        let Some(Reading::Bool(on)) = entry.value.reading() else { continue };
        let Some(at) = gates::lookup(gate, config.minor()) else { continue };
        if matches!(gate, "AllAlpha" | "AllBeta") {
            all_of_a_stage(gate, on, entry, remarks);
        } else if remarks.has_remark(&field(gate), config.minor()) {
            // The next version refuses the gate: that finding is enough.
        } else if at.locked {
            locked(gate, on, config.minor(), entry, remarks);
        } else if is_of_other_components(gate, at) {
            remarks
                .at(
                    "gate-of-other-components",
                    field(gate),
                    entry.value.place.clone(),
                    format!("the kubelet accepts the feature gate {gate}, but only other components use it"),
                )
                .help("remove it here, and set it on the API server, controller manager or scheduler");
        } else if on == at.default {
            let same = |other: Minor| gates::lookup(gate, other).is_none_or(|other| other.default == on);
            // An explicit value keeps the behavior where versions, or the next version, differ.
            if minors.iter().copied().chain(next).all(same) {
                remarks
                    .at(
                        "gate-equals-default",
                        field(gate),
                        entry.value.place.clone(),
                        format!("the feature gate {gate} ({}) is {on} by default", at.stage),
                    )
                    .help("remove the line; later kubelets without the gate refuse a file that sets it");
            }
        } else {
            changed(gate, on, at, config.minor(), entry, remarks);
        }
    }
}

fn field(gate: &str) -> String {
    format!("featureGates.{gate}")
}

fn all_of_a_stage(gate: &str, on: bool, entry: &Entry, remarks: &mut Remarks) {
    let message = match (gate, on) {
        ("AllAlpha", true) => {
            "AllAlpha switches on every alpha feature, including those of other components and of later versions"
        }
        ("AllBeta", true) => "AllBeta switches on every beta feature, including those that are off by default",
        ("AllBeta", false) => "AllBeta switches off every beta feature, and clusters depend on most of them",
        _ => return,
    };
    remarks
        .at("gates-wholesale", field(gate), entry.value.place.clone(), message)
        .help("set only the required gates, by name");
}

fn locked(gate: &str, on: bool, minor: Minor, entry: &Entry, remarks: &mut Remarks) {
    let since = gates::locked_since(gate, minor).unwrap_or(minor);
    let until = gates::known_by(gate).map(|(_, until)| until).filter(|until| *until < NEWEST);
    let message = format!("the feature gate {gate} is locked to {on} since {since}: setting it has no effect");
    remarks.at("gate-locked", field(gate), entry.value.place.clone(), message).help(match until {
        Some(until) => format!("remove the line before nodes run {}, which refuses it", Minor(until.0 + 1)),
        None => "remove the line; later versions without the gate refuse it".to_owned(),
    });
}

/// Reports whether a gate has no effect on a kubelet. This is certain only for gates in current use. For a gate of a
/// generally available feature, its former users are unknown.
fn is_of_other_components(gate: &str, at: GateProperties) -> bool {
    let history = gates::history(gate);
    let alive = history.last().is_some_and(|span| span.until == NEWEST && span.at.stage != GateStage::Ga);
    !at.kubelet && alive && history.iter().all(|span| !span.at.kubelet && !span.at.library)
}

fn changed(gate: &str, on: bool, at: GateProperties, minor: Minor, entry: &Entry, remarks: &mut Remarks) {
    let place = entry.value.place.clone();
    match at.stage {
        GateStage::Alpha => {
            remarks
                .at(
                    "gate-alpha",
                    field(gate),
                    place,
                    format!("the feature gate {gate} is alpha in {minor} and switched on"),
                )
                .help("use it only on test nodes: alpha features change without notice");
        }
        GateStage::Ga | GateStage::Deprecated => {
            let default = at.default;
            let (code, what) = match at.stage {
                GateStage::Deprecated => ("gate-deprecated", "deprecated"),
                _ => ("gate-soon-locked", "generally available"),
            };
            let message = format!(
                "the feature gate {gate} is {what} in {minor}; it is set to {on}, but will be locked to {default}"
            );
            remarks
                .at(code, field(gate), place, message)
                .help(format!("prepare for {gate}: {default}, then remove the line"));
        }
        GateStage::Beta => {}
    }
}
