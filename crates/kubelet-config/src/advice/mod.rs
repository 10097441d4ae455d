//! What there is to say about a configuration beyond the kubelet's own refusals: settings that a kubelet takes and that
//! do not do what their author meant, that are about to go, that leave a node open, or that could be left out.
//!
//! One file per theme. What each code says, how it is graded and where it comes from is in `crates/kubelet-config/data/advice.csv`
//! ([`table`]); the code here finds the places. A remark needs certainty: what depends on the host, on flags or on taste
//! is left alone. Pure; what a kubelet refuses is [`crate::verdict`]'s to say, and is not said here again.

use crate::Minor;
use crate::document::Document;
use crate::finding::Finding;
use crate::verdict::{Config, Stage, Verdict, configuration};

mod access;
mod defaults;
mod eviction;
#[cfg(test)]
mod examples;
mod fields;
mod gates;
mod images;
mod managers;
mod network;
mod node;
mod remarks;
mod reservations;
pub mod table;
mod upgrade;

use remarks::Remarks;

type Theme = fn(&Config<'_>, &mut Remarks);

const THEMES: [Theme; 9] = [
    access::check,
    eviction::check,
    fields::check,
    images::check,
    managers::cgroup_driver,
    managers::check,
    network::check,
    node::check,
    reservations::check,
];

/// What there is to say about a document to kubelets of the versions of these verdicts, which are the document's own.
/// A finding names the versions that it holds for, and the findings are in the order of reports. A version that cannot
/// decode the document is left out: what it would make of the values is not known.
#[must_use]
pub fn review(document: &Document, verdicts: &[Verdict]) -> Vec<Finding> {
    let mut remarks = Remarks::default();
    let configs: Vec<(&Verdict, Config<'_>)> = verdicts
        .iter()
        .filter(|verdict| verdict.stage != Stage::Load)
        .map(|verdict| (verdict, configuration(document, verdict.minor)))
        .collect();
    for (verdict, config) in &configs {
        remarks.turn_to(verdict);
        for theme in THEMES {
            theme(config, &mut remarks);
        }
    }
    let minors: Vec<Minor> = configs.iter().map(|(verdict, _)| verdict.minor).collect();
    let next = minors.iter().max().map(|newest| Minor(newest.0 + 1)).filter(|next| next.is_known());
    if let Some((newest, config)) = configs.iter().max_by_key(|(verdict, _)| verdict.minor)
        && let Some(next) = next
    {
        upgrade::check(document, newest, config, next, &mut remarks);
    }
    for (verdict, config) in &configs {
        remarks.turn_to(verdict);
        gates::check(config, &minors, next, &mut remarks);
        defaults::check(config, &minors, next, &mut remarks);
    }
    remarks.into_findings()
}
