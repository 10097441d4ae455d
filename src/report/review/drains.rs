//! Texts about the drains of a sync. They contain names of pods and budgets on one line; the formats escape them.

use std::collections::{BTreeMap, BTreeSet};

use super::group::budgets;
use crate::report::document::{Block, Cell, Item, Table};
use crate::report::{clipped, count, names, whole_duration};
use crate::review::{ClusterReview, DrainedPods, Group, PlannedDrain, PoolChange, Review};
use nodecfg_contract::printable::one_line;
use nodecfg_plan::drain::forecast::{NodeForecast, PodForecast};
use nodecfg_plan::drain::pods::Refusal;

/// Maximum number of nodes, pods or fields in a list.
pub(super) const MAX_NAMES: usize = 4;
/// Maximum number of PodDisruptionBudgets.
const MAX_BUDGETS: usize = 3;

/// The drain of pools with the same change: a line with the facts about its pods, and the pods of each node. Empty if a
/// sync drains no node of them.
pub(super) fn blocks(group: &Group<'_>) -> Vec<Block> {
    let Some((summary, drain)) = summary(group).zip(group.merged.drain()) else { return Vec::new() };
    let item = Item::new(summary).with(pod_facts(drain));
    let pods = drain.forecast().map(|forecast| Block::Detail(vec![Block::Table(pods(forecast))]));
    [Some(item.into()), pods].into_iter().flatten().collect()
}

/// The pods that prevent the drain of a node.
fn prevented(node: &NodeForecast) -> String {
    let refused: Vec<&str> = node.refused.iter().map(|pod| pod.pod.as_str()).collect();
    let blocked: Vec<&str> = node.blocked.iter().map(|pod| pod.pod.as_str()).collect();
    let part = |(what, pods): (&str, Vec<&str>)| (!pods.is_empty()).then(|| format!("{what}: {}", listed(&pods)));
    let parts: Vec<String> = [("refused", refused), ("blocked now", blocked)].into_iter().filter_map(part).collect();
    parts.join("; ")
}

/// The pods of each drained node.
fn pods(forecast: &PodForecast) -> Table {
    let number = |number: usize| if number == 0 { Cell::Empty } else { Cell::Number(number) };
    let row = |node: &NodeForecast| {
        vec![
            Cell::Node(None, node.node.clone()),
            Cell::Number(node.evict),
            number(node.tolerant),
            Cell::words(prevented(node)),
        ]
    };
    Table {
        caption: format!("Pods of {}", count(forecast.nodes.len(), "node")),
        columns: vec!["node", "pods to evict", "tolerate the taint", "prevented by"],
        rows: forecast.nodes.iter().map(row).collect(),
        ..Table::default()
    }
}

/// The drain of pools with the same change. `None` if a sync drains no node of them.
fn summary(group: &Group<'_>) -> Option<String> {
    let pool = &*group.merged;
    let drain = pool.drain()?;
    let each = if group.is_several() { " in each pool" } else { "" };
    let at_a_time = budgets(group).map_or_else(String::new, |budgets| format!(", {budgets} at a time{each}"));
    let unknown = match pool.change {
        PoolChange::ToLocal => "the local configuration is unknown",
        _ if drain.fields.is_empty() => "their current configuration is unknown",
        _ => "the current configuration of some is unknown",
    };
    let paths: Vec<String> = drain.fields.iter().map(|path| clipped(path, 60)).collect();
    let fields = names(paths.iter().map(String::as_str), MAX_NAMES);
    let why = match (drain.fields.is_empty(), drain.unknown) {
        (true, _) => unknown.to_owned(),
        (false, true) => format!("{fields}, and {unknown}"),
        (false, false) => fields,
    };
    let rollout = pool.rollout.as_ref()?;
    let mut nodes = count(drain.nodes, "node");
    if drain.nodes < rollout.assign {
        let steps = rollout.waves.iter().flat_map(|wave| &wave.steps).filter(|step| step.drain);
        nodes.push_str(&format!(" ({})", names(steps.map(|step| step.node.as_str()), MAX_NAMES)));
    }
    Some(format!("drains {nodes}{at_a_time}: {why}; {}", limits(drain)))
}

/// The time limits of a drain: `up to 15m per node, and 30s to settle; at least 3m in total`.
fn limits(drain: &PlannedDrain) -> String {
    let mut text = format!("up to {} per node", whole_duration(drain.timeout_seconds));
    if drain.settle_seconds > 0 {
        text.push_str(&format!(", and {} to settle", whole_duration(drain.settle_seconds)));
    }
    if drain.least_seconds > drain.settle_seconds {
        text.push_str(&format!("; at least {} in total", whole_duration(drain.least_seconds)));
    }
    text
}

/// The facts about the pods of a drain: totals, refused pods, budgets that allow no eviction, or why they are unknown.
fn pod_facts(drain: &PlannedDrain) -> Vec<Item> {
    match &drain.pods {
        None => Vec::new(),
        Some(DrainedPods::Unread(unread)) => {
            let text =
                format!("the pods to evict are unknown: {}; {}", one_line(&unread.error), one_line(&unread.help));
            vec![Item::warning("note", text)]
        }
        Some(DrainedPods::Read(forecast)) => {
            let totals = Item::new(totals(forecast));
            let refused = refused(forecast).into_iter().map(|text| Item::warning("drain refused", text));
            let blocked = blocked(forecast).into_iter().map(|text| Item::warning("drain blocked now", text));
            [totals].into_iter().chain(refused).chain(blocked).collect()
        }
    }
}

fn totals(forecast: &PodForecast) -> String {
    let nodes = forecast.nodes.iter().filter(|node| node.evict > 0).count();
    let mut text = match nodes {
        0 => "no pods to evict".to_owned(),
        nodes => format!("{} to evict on {}", count(forecast.evict, "pod"), count(nodes, "node")),
    };
    if forecast.tolerant > 0 {
        let (pods, verb) =
            (count(forecast.tolerant, "pod"), if forecast.tolerant == 1 { "tolerates" } else { "tolerate" });
        text.push_str(&format!(
            "; {pods} {verb} the taint and {}",
            if forecast.tolerant == 1 { "stays" } else { "stay" }
        ));
    }
    text
}

/// The pods that the policy does not allow to evict, per reason, with the setting that would allow it.
fn refused(forecast: &PodForecast) -> Vec<String> {
    let mut reasons: BTreeMap<Refusal, (Vec<&str>, BTreeSet<&str>)> = BTreeMap::new();
    for node in &forecast.nodes {
        for pod in &node.refused {
            let (pods, nodes) = reasons.entry(pod.reason).or_default();
            pods.push(&pod.pod);
            nodes.insert(node.node.as_str());
        }
    }
    let line = |(reason, (pods, nodes)): (Refusal, (Vec<&str>, BTreeSet<&str>))| {
        let (kind, fix) = match reason {
            Refusal::EmptyDir => {
                ("with emptyDir volumes", "to lose these volumes, set spec.rollout.drain.emptyDir: delete")
            }
            Refusal::Unmanaged => {
                ("without a controller", "to delete such pods, set spec.rollout.drain.unmanaged: delete")
            }
            Refusal::SkippedWithExclusiveCpus => {
                ("with exclusive CPUs that the drain skips", "exclude them from spec.rollout.drain.skip")
            }
        };
        format!("{} {kind} on {} ({}); {fix}", count(pods.len(), "pod"), listed(&nodes), listed(&pods))
    };
    reasons.into_iter().map(line).collect()
}

/// The PodDisruptionBudgets that allow no eviction now, with the number of their pods.
fn blocked(forecast: &PodForecast) -> Vec<String> {
    let mut found: BTreeMap<&[String], (Vec<&str>, BTreeSet<&str>)> = BTreeMap::new();
    for node in &forecast.nodes {
        for pod in &node.blocked {
            let (pods, nodes) = found.entry(&pod.budgets).or_default();
            pods.push(&pod.pod);
            nodes.insert(node.node.as_str());
        }
    }
    let more = found.len().saturating_sub(MAX_BUDGETS);
    let line = |(budgets, (pods, nodes)): (&[String], (Vec<&str>, BTreeSet<&str>))| {
        let pods = match pods.as_slice() {
            [pod] => format!("pod {}", one_line(pod)),
            pods => count(pods.len(), "pod"),
        };
        let pods = format!("{pods} on {}", listed(&nodes));
        match budgets {
            [budget] => format!("PodDisruptionBudget {} allows no eviction of {pods}", one_line(budget)),
            budgets => {
                let budgets = listed(budgets.iter().map(String::as_str).collect::<Vec<_>>().iter());
                format!("several PodDisruptionBudgets ({budgets}) cover {pods}, which prevents every eviction")
            }
        }
    };
    let mut lines: Vec<String> = found.into_iter().take(MAX_BUDGETS).map(line).collect();
    if more > 0 {
        lines.push(format!("by {} more", count(more, "PodDisruptionBudget")));
    }
    lines
}

/// The first names, on one line each.
fn listed<'n>(texts: impl IntoIterator<Item = &'n &'n str>) -> String {
    let texts: Vec<String> = texts.into_iter().map(|text| one_line(text)).collect();
    names(texts.iter().map(String::as_str), MAX_NAMES)
}

/// The nodes that a sync releases from an earlier drain. `None` without any.
pub(super) fn releases(cluster: &ClusterReview) -> Option<String> {
    let of = |tainted: bool| {
        let releases = cluster.releases.iter().filter(|release| release.tainted == tainted);
        names(releases.map(|release| release.node.as_str()), MAX_NAMES)
    };
    let (marked, annotated) = (of(true), of(false));
    let marked = (!marked.is_empty()).then(|| format!("releases {marked}: marked by the drain of an earlier run"));
    let annotated = (!annotated.is_empty())
        .then(|| format!("removes the annotations of an earlier drain from {annotated}, whose taint is gone"));
    let texts: Vec<String> = marked.into_iter().chain(annotated).collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}

/// The nodes whose drain is refused, for the last line. `None` without any.
pub(super) fn refused_nodes(review: &Review) -> Option<String> {
    let refused = review.refused_drains();
    (refused > 0).then(|| format!("drain of {} refused", count(refused, "node")))
}

#[cfg(test)]
#[path = "drains_tests.rs"]
pub(super) mod tests;
