//! Report of `release`: the marks of drains that are or were removed from nodes.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::count;
use super::document::{Conclusion, Item, Report, Text};
use crate::status::Grade;
use nodecfg_contract::json_document::Kind;
use nodecfg_contract::names::{FleetName, NamespaceName, NodeName, PoolName};
use nodecfg_observed::drain::{DRAIN_ANNOTATION, DRAIN_TAINT};
use nodecfg_observed::{Protection, RemovedMark};

/// Result of a release of nodes.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Release {
    /// The fleet.
    pub fleet: FleetName,
    /// The namespace of the lock.
    pub namespace: NamespaceName,
    /// Whether this is a dry run, which changes nothing.
    pub dry_run: bool,
    /// The nodes, by name.
    pub nodes: Vec<ReleasedNode>,
}

/// One node.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleasedNode {
    /// The name.
    pub node: NodeName,
    /// The pool that the mark names.
    pub pool: Option<PoolName>,
    /// Time of the mark.
    pub since: Option<Timestamp>,
    /// The result.
    pub end: ReleaseEnd,
}

/// Result for a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum ReleaseEnd {
    /// To be released: the node has a mark.
    ToRelease {
        /// Whether the mark has its taint. Without it, pods are still scheduled on the node.
        tainted: bool,
        /// Whether the node is cordoned. A release does not change that.
        cordoned: bool,
    },
    /// Released: these parts of the mark were removed.
    Released(RemovedMark),
    /// The node has no mark.
    Unmarked,
    /// The node is gone.
    Gone,
    /// Left unchanged: the mark names no fleet, and the node is not named.
    Unattributed,
}

impl Kind for Release {
    const KIND: &'static str = "Release";
}

impl Release {
    /// Number of nodes to release.
    #[must_use]
    pub fn to_release(&self) -> usize {
        self.number(|end| matches!(end, ReleaseEnd::ToRelease { .. }))
    }

    /// Number of nodes with such a result.
    #[must_use]
    pub fn number(&self, is: impl Fn(&ReleaseEnd) -> bool) -> usize {
        self.nodes.iter().filter(|node| is(&node.end)).count()
    }
}

fn word(end: &ReleaseEnd) -> &'static str {
    match end {
        ReleaseEnd::ToRelease { .. } => "to release",
        ReleaseEnd::Released(_) => "released",
        ReleaseEnd::Unmarked => "no mark",
        ReleaseEnd::Gone => "gone",
        ReleaseEnd::Unattributed => "left",
    }
}

/// What is known about the mark, or what was removed.
fn detail(node: &ReleasedNode) -> Option<String> {
    let stays_cordoned = |cordoned: bool| if cordoned { "; the node stays cordoned" } else { "" };
    match &node.end {
        ReleaseEnd::ToRelease { tainted, cordoned } => {
            let pool = node.pool.as_ref().map(|pool| format!("pool {pool}"));
            let since = node.since.map(|at| at.strftime("draining since %Y-%m-%d %H:%M UTC").to_string());
            let reason = since.is_none().then(|| "draining".to_owned());
            let taint = (!tainted).then(|| "no taint".to_owned());
            let parts: Vec<String> = [pool, since, reason, taint].into_iter().flatten().collect();
            Some(format!("{}{}", parts.join(", "), stays_cordoned(*cordoned)))
        }
        ReleaseEnd::Released(removed) => {
            let protections = removed.protections.iter().copied().map(Protection::annotation);
            let annotations: Vec<&str> =
                removed.annotation.then_some(DRAIN_ANNOTATION).into_iter().chain(protections).collect();
            let taint = removed.taint.then(|| format!("taint {DRAIN_TAINT}"));
            let annotations = match annotations.len() {
                0 => None,
                1 => Some(format!("annotation {}", annotations.join(""))),
                _ => Some(format!("annotations {}", annotations.join(", "))),
            };
            let parts: Vec<String> = [taint, annotations].into_iter().flatten().collect();
            Some(format!("removed {}{}", parts.join("; "), stays_cordoned(removed.cordoned)))
        }
        ReleaseEnd::Unattributed => Some("its mark names no fleet: `nodecfg release NODE` removes it".to_owned()),
        ReleaseEnd::Unmarked | ReleaseEnd::Gone => None,
    }
}

/// The nodes one by one, and the totals.
#[must_use]
pub fn report(release: &Release) -> Report {
    let node = |node: &ReleasedNode| {
        let name = Text::nodes([(node.pool.as_ref(), &node.node)]);
        Item::warning(word(&node.end), name).with(detail(node).map(Item::quiet)).into()
    };
    Report {
        command: "release",
        result: Some(Conclusion::sentence(Grade::Neutral, totals(release))),
        blocks: release.nodes.iter().map(node).collect(),
        complete: true,
        ..Report::default()
    }
}

fn totals(release: &Release) -> String {
    if release.nodes.is_empty() {
        return format!("No node has a mark of fleet {}.", release.fleet);
    }
    let of = |end: &ReleaseEnd| release.number(|other| other == end);
    let released = release.number(|end| matches!(end, ReleaseEnd::Released(_)));
    // After a release, these were not tried.
    let left = if released > 0 { "not tried" } else { "to release" };
    let parts = [
        (released, "released"),
        (release.to_release(), left),
        (of(&ReleaseEnd::Unmarked), "without a mark"),
        (of(&ReleaseEnd::Gone), "gone"),
        (of(&ReleaseEnd::Unattributed), "left with a mark that names no fleet"),
    ];
    let mut texts: Vec<String> = Vec::new();
    for (number, text) in parts.into_iter().filter(|(number, _)| *number > 0) {
        let number = if texts.is_empty() { count(number, "node") } else { number.to_string() };
        texts.push(format!("{number} {text}"));
    }
    format!("{}.", texts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::document::tests::{markdown, text};

    fn node(name: &str, end: ReleaseEnd) -> ReleasedNode {
        ReleasedNode { node: NodeName::new(name).unwrap(), pool: None, since: None, end }
    }

    fn release(nodes: Vec<ReleasedNode>) -> Release {
        let fleet = FleetName::new("prod").unwrap();
        Release { fleet, namespace: NamespaceName::new("nodecfg-system").unwrap(), dry_run: false, nodes }
    }

    fn shown(release: &Release) -> String {
        text(&report(release), 200, true) + &markdown(&report(release))
    }

    #[test]
    fn prints_what_was_removed_and_what_stays() {
        let marked = |name: &str, end| ReleasedNode {
            pool: Some(PoolName::new("gpu").unwrap()),
            since: Some("2026-11-23T10:00:07Z".parse().unwrap()),
            ..node(name, end)
        };
        let whole = RemovedMark { taint: true, annotation: true, protections: Protection::ALL.into(), cordoned: true };
        let part = RemovedMark { taint: true, annotation: false, protections: [].into(), cordoned: false };
        insta::assert_snapshot!(shown(&release(vec![
            marked("gpu-1", ReleaseEnd::Released(whole)),
            node("gpu-2", ReleaseEnd::Released(part)),
            marked("gpu-3", ReleaseEnd::ToRelease { tainted: true, cordoned: true }),
            node("gpu-7", ReleaseEnd::ToRelease { tainted: false, cordoned: false }),
            node("gpu-4", ReleaseEnd::Unmarked),
            node("gpu-5", ReleaseEnd::Gone),
            node("gpu-6", ReleaseEnd::Unattributed),
        ])));
    }

    #[test]
    fn last_line_counts_results() {
        let last = |nodes| totals(&release(nodes));
        let to_release = ReleaseEnd::ToRelease { tainted: true, cordoned: false };
        assert_eq!(last(Vec::new()), "No node has a mark of fleet prod.");
        assert_eq!(last(vec![node("a", to_release.clone()), node("b", to_release)]), "2 nodes to release.");
        assert_eq!(last(vec![node("a", ReleaseEnd::Unmarked)]), "1 node without a mark.");
    }
}
