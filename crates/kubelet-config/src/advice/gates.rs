//! Feature gates that say nothing, that say too much, or that are about to go. Those that a version refuses are the
//! verdict's; those that the next one will refuse are in `upgrade`.

use super::remarks::Remarks;
use crate::Minor;
use crate::document::{Entry, Reading};
use crate::gates::{self, GateAt, GateStage};
use crate::minor::NEWEST;
use crate::verdict::Config;

/// Gates that the kubelet's own code does not ask for, and that its clients and servers do
/// (`k8s.io/client-go/features/known_features.go`, `k8s.io/apiserver/pkg/features/kube_features.go`), or that API
/// validation does, which static pods pass through.
const IN_LIBRARIES: [&str; 17] = [
    "APIServingWithRoutine",
    "AllowParsingUserUIDFromCertAuth",
    "AtomicFIFO",
    "ClientsAllowCARotation",
    "ClientsAllowCBOR",
    "ClientsAllowTLSCacheGC",
    "ClientsPreferCBOR",
    "InOrderInformers",
    "InOrderInformersBatchProcess",
    "InformerResourceVersion",
    "NativeHistograms",
    "RelaxedServiceNameValidation",
    "RemoteRequestHeaderUID",
    "StrictIPCIDRValidation",
    "UnauthenticatedHTTP2DOSMitigation",
    "UnlockWhileProcessingFIFO",
    "WatchListClient",
];

pub(super) fn check(config: &Config<'_>, minors: &[Minor], next: Option<Minor>, remarks: &mut Remarks) {
    for (gate, entry) in config.entries("featureGates") {
        let Some(Reading::Bool(on)) = entry.value.reading() else { continue };
        let Some(at) = gates::lookup(gate, config.minor()) else { continue };
        if matches!(gate, "AllAlpha" | "AllBeta") {
            all_of_a_stage(gate, on, entry, remarks);
        } else if remarks.mention(&field(gate), config.minor()) {
            // The next version refuses it: no more needs to be said.
        } else if at.locked {
            locked(gate, on, config.minor(), entry, remarks);
        } else if is_of_other_components(gate, at) {
            remarks
                .at(
                    "gate-of-other-components",
                    field(gate),
                    entry.value.place.clone(),
                    format!("the kubelet takes the feature gate {gate} and asks for it nowhere; other components do"),
                )
                .help("set it on the API server, controller manager or scheduler, and remove it here");
        } else if on == at.default {
            let same = |other: Minor| gates::lookup(gate, other).is_none_or(|other| other.default == on);
            // Where versions differ, or the next one will, writing it down is what keeps it.
            if minors.iter().copied().chain(next).all(same) {
                remarks
                    .at(
                        "gate-equals-default",
                        field(gate),
                        entry.value.place.clone(),
                        format!("the feature gate {gate} ({}) is {on} anyway", at.stage),
                    )
                    .help("it may be left out; kubelets that no longer know a gate refuse a file that names it");
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
            "AllAlpha switches on every alpha feature, those of other components and of later versions too"
        }
        ("AllBeta", true) => "AllBeta switches on every beta feature, those that are off by default for a reason too",
        ("AllBeta", false) => "AllBeta switches off every beta feature, most of which clusters count on",
        _ => return,
    };
    remarks
        .at("gates-wholesale", field(gate), entry.value.place.clone(), message)
        .help("name the gates that are meant, one by one");
}

fn locked(gate: &str, on: bool, minor: Minor, entry: &Entry, remarks: &mut Remarks) {
    let since = gates::locked_since(gate, minor).unwrap_or(minor);
    let until = gates::known_by(gate).map(|(_, until)| until).filter(|until| *until < NEWEST);
    let message = format!("the feature gate {gate} is locked to {on} since {since}: setting it changes nothing");
    remarks.at("gate-locked", field(gate), entry.value.place.clone(), message).help(match until {
        Some(until) => format!("remove the line before nodes run {}, which refuses it", Minor(until.0 + 1)),
        None => "remove the line; a version that no longer knows the gate will refuse it".to_owned(),
    });
}

/// Whether a gate says nothing to a kubelet. That is certain only of gates that are still asked for somewhere: of one
/// that became generally available nobody can tell any more who did.
fn is_of_other_components(gate: &str, at: GateAt) -> bool {
    let history = gates::history(gate);
    let alive = history.last().is_some_and(|span| span.until == NEWEST && span.at.stage != GateStage::Ga);
    !at.kubelet && alive && history.iter().all(|span| !span.at.kubelet) && !IN_LIBRARIES.contains(&gate)
}

fn changed(gate: &str, on: bool, at: GateAt, minor: Minor, entry: &Entry, remarks: &mut Remarks) {
    let place = entry.value.place.clone();
    match at.stage {
        GateStage::Alpha => {
            remarks
                .at(
                    "gate-alpha",
                    field(gate),
                    place,
                    format!("the feature gate {gate} is alpha in {minor}, and switched on"),
                )
                .help("alpha features change and go without notice: try them on nodes that may fail");
        }
        GateStage::Ga | GateStage::Deprecated => {
            let default = at.default;
            let (code, what) = match at.stage {
                GateStage::Deprecated => ("gate-deprecated", "deprecated"),
                _ => ("gate-soon-locked", "generally available"),
            };
            let message = format!(
                "the feature gate {gate} is {what} in {minor}; it is set to {on}, and will be {default} for good"
            );
            remarks
                .at(code, field(gate), place, message)
                .help(format!("find a way to live with {gate}: {default} before the gate goes, and remove the line"));
        }
        GateStage::Beta => {}
    }
}
