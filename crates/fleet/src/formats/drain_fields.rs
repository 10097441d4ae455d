//! Reader of `spec.rollout.drain`.

use std::time::Duration;

use super::fields::{Fields, choice};
use super::read::{SELECTOR, duration_of, selector_of};
use crate::drain::{DrainMode, OnTimeout, PodLoss};
use crate::formats::DrainSpec;
use kubelet_config::finding::Finding;
use nodecfg_contract::label_selector::LabelSelector;

/// Keys of `spec.rollout.drain`.
pub(super) const DRAIN: [&str; 7] = ["mode", "timeout", "settle", "emptyDir", "unmanaged", "skip", "onTimeout"];

const LOSSES: [(&str, PodLoss); 2] = [("refuse", PodLoss::Refuse), ("delete", PodLoss::Delete)];

/// Reads the drain of a rollout policy.
pub(super) fn drain(rollout: &Fields<'_>, findings: &mut Vec<Finding>) -> Option<DrainSpec> {
    let fields = rollout.object("drain", &DRAIN, findings)?;
    let timeout = duration_of(&fields, "timeout", findings);
    if timeout == Some(Duration::ZERO)
        && let Some(node) = fields.get("timeout")
    {
        let finding = fields.bad_value("timeout", node, "it must be greater than 0");
        findings.push(finding.help("write 15m, the default"));
    }
    Some(DrainSpec {
        mode: choice(&fields, "mode", &[("evict", DrainMode::Evict), ("accept", DrainMode::Accept)], findings),
        timeout,
        settle: duration_of(&fields, "settle", findings),
        empty_dir: choice(&fields, "emptyDir", &LOSSES, findings),
        unmanaged: choice(&fields, "unmanaged", &LOSSES, findings),
        skip: skip(&fields, findings),
        on_timeout: choice(
            &fields,
            "onTimeout",
            &[("release", OnTimeout::Release), ("hold", OnTimeout::Hold)],
            findings,
        ),
    })
}

/// Pods that stay on the node. A selector without a requirement would select every pod.
fn skip(fields: &Fields<'_>, findings: &mut Vec<Finding>) -> Option<LabelSelector> {
    let before = findings.len();
    let selector = selector_of(&fields.object("skip", &SELECTOR, findings)?, findings);
    if selector.is_everything()
        && findings.len() == before
        && let Some(node) = fields.get("skip")
    {
        let finding = fields.bad_value("skip", node, "without a requirement, it selects every pod");
        findings.push(finding.help("remove it, or add a label of the pods that stay"));
    }
    Some(selector).filter(|selector| !selector.is_everything())
}
