//! Findings about accepted settings that are likely mistakes: settings without the intended effect, settings that
//! later versions drop, insecure settings, and redundant settings.
//!
//! Each file covers one topic. Code, severity, description and source of each kind of finding are in
//! `crates/kubelet-config/data/advice.csv` ([`table`]). A finding must be certain: settings whose effect depends on
//! the host, on flags or on preference get none. Refusals of the kubelet are in [`crate::verdict`] and not repeated
//! here.

use crate::Minor;
use crate::document::Document;
use crate::finding::Finding;
use crate::verdict::{Config, Stage, Verdict, configuration};

mod access;
mod defaults;
mod eviction;
#[cfg(test)]
mod example_files;
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

use remarks::Remarks;

type Topic = fn(&Config<'_>, &mut Remarks);

const TOPICS: [Topic; 10] = [
    access::check,
    reservations::units,
    eviction::check,
    fields::check,
    images::check,
    managers::cgroup_driver,
    managers::check,
    network::check,
    node::check,
    reservations::check,
];

/// Returns the findings about a document for the versions of its verdicts, in the order of reports. Each finding
/// lists its versions. Versions that cannot decode the document are skipped, because its values are unknown to them.
#[must_use]
pub fn review(document: &Document, verdicts: &[Verdict]) -> Vec<Finding> {
    let mut remarks = Remarks::default();
    let configs: Vec<(&Verdict, Config<'_>)> = verdicts
        .iter()
        .filter(|verdict| verdict.stage != Stage::Load)
        .map(|verdict| (verdict, configuration(document, verdict.minor)))
        .collect();
    for (verdict, config) in &configs {
        remarks.set_version(verdict);
        for topic in TOPICS {
            topic(config, &mut remarks);
        }
    }
    let minors: Vec<Minor> = configs.iter().map(|(verdict, _)| verdict.minor).collect();
    let next = minors.iter().max().map(|newest| Minor(newest.0 + 1)).filter(|next| next.is_known());
    if let Some((newest, config)) = configs.iter().max_by_key(|(verdict, _)| verdict.minor)
        && let Some(next) = next
    {
        fields::next_version(document, newest, config, next, &mut remarks);
    }
    for (verdict, config) in &configs {
        remarks.set_version(verdict);
        gates::check(config, &minors, next, &mut remarks);
        defaults::check(config, &minors, next, &mut remarks);
    }
    remarks.into_findings()
}
