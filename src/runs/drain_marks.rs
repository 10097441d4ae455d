//! Removal of the marks of drains from nodes.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use tokio::sync::watch;

use crate::arguments::fleet::FleetLocation;
use crate::arguments::unknown_name::unknown_name;
use crate::report::count;
use crate::report::release::{Release, ReleaseEnd, ReleasedNode};
use crate::runs::fleet_change::FleetChange;
use crate::terminal::exit::Exit;
use crate::terminal::failure::CommandError;
use nodecfg_cluster::ClusterWriter;
use nodecfg_contract::names::{FleetName, NamespaceName, NodeName};
use nodecfg_observed::{Node, Released};

/// Number of concurrent releases.
const CONCURRENCY: usize = 8;

/// The nodes to release, with their report.
pub(crate) struct MarkRemoval {
    /// The nodes of the report, in its order.
    nodes: Vec<Node>,
    pub(crate) report: Release,
}

impl MarkRemoval {
    /// Reads the nodes of these names, or all with a mark of the fleet or of no known one.
    ///
    /// # Errors
    /// A node does not exist, or another fleet drains it. Or a request fails.
    pub(crate) async fn prepare(
        location: &FleetLocation,
        names: &[NodeName],
        dry_run: bool,
    ) -> Result<Self, CommandError> {
        let (nodes, _) = location.reader.list_nodes().await?;
        Self::of(nodes, names, (location.fleet.clone(), location.namespace.clone()), dry_run)
    }

    fn of(
        mut nodes: BTreeMap<NodeName, Node>,
        names: &[NodeName],
        (fleet, namespace): (FleetName, NamespaceName),
        dry_run: bool,
    ) -> Result<Self, CommandError> {
        let other = |node: &Node| owner(node).filter(|owner| **owner != fleet).cloned();
        if names.is_empty() {
            nodes.retain(|_, node| node.drain_mark.is_some() && other(node).is_none());
        } else {
            let wanted: BTreeSet<&NodeName> = names.iter().collect();
            if let Some(name) = wanted.iter().find(|name| !nodes.contains_key(**name)) {
                let help = "name a node of the cluster, or pass --all";
                return Err(unknown_name("node", *name, "in the cluster", nodes.keys(), help));
            }
            nodes.retain(|name, _| wanted.contains(name));
            if let Some((name, other)) = nodes.values().find_map(|node| Some((&node.name, other(node)?))) {
                return Err(CommandError::usage(
                    format!("fleet {other} drains node {name}, not fleet {fleet}"),
                    format!("pass --fleet {other}"),
                ));
            }
        }
        let of = |node: &Node| {
            let drain = node.drain_mark.as_ref().and_then(|mark| mark.drain.as_ref());
            let end = match &node.drain_mark {
                None => ReleaseEnd::Unmarked,
                Some(mark) if names.is_empty() && mark.drain.is_none() => ReleaseEnd::Unattributed,
                Some(mark) => ReleaseEnd::ToRelease { tainted: mark.tainted, cordoned: node.cordoned },
            };
            let (pool, since) = (drain.map(|drain| drain.pool.clone()), drain.map(|drain| drain.since));
            ReleasedNode { node: node.name.clone(), pool, since, end }
        };
        let report = Release { nodes: nodes.values().map(of).collect(), fleet, namespace, dry_run };
        Ok(Self { nodes: nodes.into_values().collect(), report })
    }
}

/// Fleet of a node's mark, if the mark is readable.
fn owner(node: &Node) -> Option<&FleetName> {
    Some(&node.drain_mark.as_ref()?.drain.as_ref()?.fleet)
}

impl FleetChange for MarkRemoval {
    const STOPPING: &'static str = "stopping: no further node is released";

    fn question(&self) -> Option<String> {
        let number = Some(self.report.to_release()).filter(|number| *number > 0)?;
        Some(format!("Release {} of fleet {}?", count(number, "node"), self.report.fleet))
    }

    async fn make(
        &mut self,
        _: &FleetLocation,
        writer: ClusterWriter,
        stop: &watch::Receiver<bool>,
    ) -> Result<(), CommandError> {
        let writer = &writer;
        let wanted = self.nodes.iter().zip(&mut self.report.nodes);
        let wanted = wanted.filter(|(_, shown)| matches!(shown.end, ReleaseEnd::ToRelease { .. }));
        let releases = wanted.take_while(|_| !*stop.borrow()).map(|(node, shown)| async move {
            shown.end = match writer.release_drain(&node.name, &node.uid).await? {
                Released::Removed(removed) => ReleaseEnd::Released(removed),
                Released::Unmarked => ReleaseEnd::Unmarked,
                Released::Gone => ReleaseEnd::Gone,
            };
            Ok(())
        });
        stream::iter(releases).buffer_unordered(CONCURRENCY).try_collect().await
    }

    /// 5 if a mark is left.
    fn exit(&self) -> Exit {
        match self.report.number(|end| matches!(end, ReleaseEnd::ToRelease { .. } | ReleaseEnd::Unattributed)) {
            0 => Exit::Done,
            _ => Exit::NotConverged,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use nodecfg_observed::{Drain, DrainMark};
    use nodecfg_plan::fixtures::{fleet, namespace, node, pool_name};

    /// A node without a mark, and nodes with marks of this fleet, of another one, and without a readable reason.
    fn nodes() -> Vec<Node> {
        let of = |fleet: &str| Drain {
            fleet: FleetName::new(fleet).unwrap(),
            pool: pool_name("a"),
            to: None,
            from: None,
            since: Timestamp::UNIX_EPOCH,
            added: BTreeSet::new(),
        };
        let marked = |name: &str, drain: Option<Drain>| {
            let drain_mark = Some(Box::new(DrainMark { tainted: true, drain }));
            Node { drain_mark, ..node(name, "a") }
        };
        vec![
            node("none", "a"),
            marked("ours", Some(of("fleet"))),
            marked("other", Some(of("other"))),
            marked("bare", None),
        ]
    }

    /// Names and ends of the report, and the exit code if nothing is released.
    fn described(names: &str) -> Result<(Vec<String>, Exit), CommandError> {
        let nodes = nodes().into_iter().map(|node| (node.name.clone(), node)).collect();
        let names: Vec<NodeName> = names.split_whitespace().map(|name| NodeName::new(name).unwrap()).collect();
        let removal = MarkRemoval::of(nodes, &names, (fleet(), namespace()), false)?;
        let kind = |end: &ReleaseEnd| match end {
            ReleaseEnd::ToRelease { .. } => "release",
            ReleaseEnd::Unattributed => "leave",
            ReleaseEnd::Unmarked => "unmarked",
            _ => "ended",
        };
        let ends = removal.report.nodes.iter().map(|node| format!("{} {}", kind(&node.end), node.node)).collect();
        Ok((ends, removal.exit()))
    }

    #[test]
    fn all_releases_marks_of_the_fleet_alone() {
        let (ends, exit) = described("").unwrap();
        assert_eq!(ends, ["leave bare", "release ours"]);
        assert_eq!(exit, Exit::NotConverged, "a mark is left");
    }

    #[test]
    fn names_release_marks_without_a_reason_but_none_of_other_fleets() {
        let (ends, _) = described("ours none bare").unwrap();
        assert_eq!(ends, ["release bare", "unmarked none", "release ours"]);
        assert_eq!(described("none").unwrap().1, Exit::Done);
        for line in ["other", "ours other", "ours missing"] {
            assert!(described(line).is_err(), "{line}");
        }
    }

    #[test]
    fn unattributed_mark_alone_is_incomplete() {
        let bare = nodes().into_iter().filter(|node| node.name.as_str() == "bare");
        let bare = bare.map(|node| (node.name.clone(), node)).collect();
        let removal = MarkRemoval::of(bare, &[], (fleet(), namespace()), false);
        assert_eq!(removal.unwrap().exit(), Exit::NotConverged);
    }
}
