//! `nodecfg release`: removes the marks of drains from nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use tokio::sync::watch;

use super::{CommandError, CommandResult, Exit, Terminal};
use crate::arguments::cluster::BoundClusterArgs;
use crate::arguments::dry_run::DryRunArgs;
use crate::arguments::fleet::FleetArgs;
use crate::arguments::repository::RepositoryArgs;
use crate::arguments::unknown_name::unknown_name;
use crate::report;
use crate::report::release::{Release, ReleaseEnd, ReleasedNode};
use crate::report::{Format, count, progress, release};
use crate::runs::reconcile::LockArgs;
use crate::runs::run;
use crate::terminal::confirm::ConfirmArgs;
use nodecfg_cluster::lock::HeldLock;
use nodecfg_cluster::{ClusterError, ClusterReader, ClusterWriter, LabelKeys};
use nodecfg_contract::json_document::Document;
use nodecfg_contract::names::{FleetName, NamespaceName, NodeName};
use nodecfg_observed::{Node, Released};

/// Number of concurrent releases.
const CONCURRENCY: usize = 8;

/// Remove the marks of drains from nodes.
///
/// Removes the taint and the annotations that a drain added, so that pods are scheduled on the nodes again. Cordons,
/// other taints and changed annotations stay. A sync releases its nodes itself: use this if no sync will follow. The
/// next sync marks a node again if its change still needs a drain, unless its pool is paused (nodecfg pause). Asks for
/// confirmation.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("dry_run", |dry_run| dry_run.help(
    "Print what would be released, and change nothing (client, the default of --dry-run); none turns it off"
)))]
#[command(mut_arg("repository", |repository| repository.long("repo").display_order(1).conflicts_with("fleet").help(
    "Read the fleet and its namespace from this repository: a folder in a git repository, or an address on a git server"
)))]
pub(super) struct Args {
    /// Release these nodes.
    #[arg(value_name = "NODE", conflicts_with = "all")]
    nodes: Vec<NodeName>,
    /// Release all nodes with a mark of the fleet.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    repository: RepositoryArgs,
    #[command(flatten)]
    dry_run: DryRunArgs,
    #[command(flatten)]
    confirm: ConfirmArgs,
    #[command(flatten)]
    lock: LockArgs,
    #[command(flatten)]
    fleet: FleetArgs,
    #[command(flatten)]
    bound: BoundClusterArgs,
}

const EXAMPLES: &str = "\
Examples:
  nodecfg release --all --dry-run   print the nodes with a mark of the fleet
  nodecfg release gpu-7             release one node, after a confirmation
  nodecfg release --all --yes       release every node, without a confirmation";

pub(super) async fn run(args: &Args, format: Format, terminal: &mut Terminal) -> CommandResult {
    if args.nodes.is_empty() && !args.all {
        return Err(CommandError::usage("no nodes are selected", "name the nodes to release, or pass --all"));
    }
    if !args.dry_run.is_requested() {
        args.confirm.require_terminal()?;
    }
    let desired = args.repository.load_named(terminal).await?.map(|loaded| loaded.desired);
    let reader = args.bound.reader(LabelKeys::Only(BTreeSet::new())).await?;
    let (fleet, namespace) = match &desired {
        Some(desired) => (desired.fleet.clone(), args.bound.cluster.namespace(desired, &reader)?),
        None => args.fleet.find(&args.bound.cluster, &reader).await?,
    };
    if matches!(format, Format::Text | Format::Markdown) {
        writeln!(terminal.info(), "fleet {fleet} {}\n", progress::place(Some(&namespace), reader.server()))?;
    }
    let (nodes, _) = reader.list_nodes().await?;
    let selected = args.select(nodes, &fleet)?;
    let mut shown = args.describe(&selected, fleet, namespace);
    let number = shown.to_release();
    if args.dry_run.is_requested() || number == 0 {
        write(&shown, format, terminal)?;
        return Ok(if args.dry_run.is_requested() { Exit::Done } else { exit(&shown) });
    }
    if matches!(format, Format::Text) {
        write(&shown, format, terminal)?;
    }
    let question = format!("Release {} of fleet {}?", count(number, "node"), shown.fleet);
    if !args.confirm.ask(&question, terminal).await? {
        return Ok(Exit::Failed);
    }
    let mut stop = run::defer_signals("stopping: no further node is released");
    let lock = tokio::select! {
        lock = args.lock.take(&reader, &shown.namespace, &shown.fleet) => lock?,
        Ok(_) = stop.wait_for(|stopped| *stopped) => return Err(CommandError::Interrupted),
    };
    let result = release_all(&reader, &lock, &selected, &mut shown, &stop).await;
    lock.release().await;
    // Releases before a failure are printed too, unless the failure replaces the document.
    let printed = match format {
        Format::Text => writeln!(terminal.out).and_then(|()| write(&shown, format, terminal)),
        _ if result.is_ok() || format == Format::Markdown => write(&shown, format, terminal),
        _ => Ok(()),
    };
    let exit = terminal.end(exit(&shown), printed, &[]);
    result.map(|()| exit).map_err(CommandError::from)
}

impl Args {
    /// The selected nodes, by name: the named ones, or all with a mark of this fleet or of no known one.
    fn select(&self, mut nodes: BTreeMap<NodeName, Node>, fleet: &FleetName) -> Result<Vec<Node>, CommandError> {
        let other = |node: &Node| owner(node).filter(|owner| *owner != fleet).cloned();
        if self.all {
            nodes.retain(|_, node| node.drain_mark.is_some() && other(node).is_none());
            return Ok(nodes.into_values().collect());
        }
        let wanted: BTreeSet<&NodeName> = self.nodes.iter().collect();
        if let Some(name) = wanted.iter().find(|name| !nodes.contains_key(**name)) {
            let help = "name a node of the cluster, or pass --all";
            return Err(unknown_name(
                "node",
                name.as_str(),
                "in the cluster",
                nodes.keys().map(NodeName::as_str),
                help,
            ));
        }
        nodes.retain(|name, _| wanted.contains(name));
        match nodes.values().find_map(|node| Some((&node.name, other(node)?))) {
            Some((name, other)) => Err(CommandError::usage(
                format!("fleet {other} drains node {name}, not fleet {fleet}"),
                format!("pass --fleet {other}"),
            )),
            None => Ok(nodes.into_values().collect()),
        }
    }

    /// The report before the release.
    fn describe(&self, nodes: &[Node], fleet: FleetName, namespace: NamespaceName) -> Release {
        let of = |node: &Node| {
            let drain = node.drain_mark.as_ref().and_then(|mark| mark.drain.as_ref());
            let end = match &node.drain_mark {
                None => ReleaseEnd::Unmarked,
                Some(mark) if self.all && mark.drain.is_none() => ReleaseEnd::Unattributed,
                Some(mark) => ReleaseEnd::ToRelease { tainted: mark.tainted, cordoned: node.cordoned },
            };
            let (pool, since) = (drain.map(|drain| drain.pool.clone()), drain.map(|drain| drain.since));
            ReleasedNode { node: node.name.clone(), pool, since, end }
        };
        Release { fleet, namespace, dry_run: self.dry_run.is_requested(), nodes: nodes.iter().map(of).collect() }
    }
}

/// Fleet of a node's mark, if the mark is readable.
fn owner(node: &Node) -> Option<&FleetName> {
    Some(&node.drain_mark.as_ref()?.drain.as_ref()?.fleet)
}

/// Releases the nodes of the report, and writes the results into it. Stops at the first error or signal.
async fn release_all(
    reader: &ClusterReader,
    lock: &HeldLock,
    nodes: &[Node],
    shown: &mut Release,
    stop: &watch::Receiver<bool>,
) -> Result<(), ClusterError> {
    let writer = ClusterWriter::new(reader.clone(), lock);
    let one = |(at, node): (usize, &Node)| {
        let (writer, name, uid) = (writer.clone(), node.name.clone(), node.uid.clone());
        async move { writer.release_drain(&name, &uid).await.map(|released| (at, released)) }
    };
    let wanted: Vec<(usize, &Node)> = nodes
        .iter()
        .enumerate()
        .filter(|(at, _)| shown.nodes.get(*at).is_some_and(|node| matches!(node.end, ReleaseEnd::ToRelease { .. })))
        .collect();
    let mut releases =
        stream::iter(wanted.into_iter().take_while(|_| !*stop.borrow()).map(one)).buffer_unordered(CONCURRENCY);
    while let Some((at, released)) = releases.try_next().await? {
        if let Some(node) = shown.nodes.get_mut(at) {
            node.end = match released {
                Released::Removed(removed) => ReleaseEnd::Released(removed),
                Released::Unmarked => ReleaseEnd::Unmarked,
                Released::Gone => ReleaseEnd::Gone,
            };
        }
    }
    Ok(())
}

/// Exit code of a release: 5 if a mark is left.
fn exit(shown: &Release) -> Exit {
    match shown.number(|end| matches!(end, ReleaseEnd::ToRelease { .. } | ReleaseEnd::Unattributed)) {
        0 => Exit::Done,
        _ => Exit::NotConverged,
    }
}

fn write(shown: &Release, format: Format, terminal: &mut Terminal) -> io::Result<()> {
    match format {
        Format::Text => release::text(&mut terminal.out, shown, terminal.out_line),
        Format::Markdown => release::markdown(&mut terminal.out, shown),
        Format::Json => report::json(&mut terminal.out, &Document::value(shown.clone())?),
        Format::Yaml => report::yaml(&mut terminal.out, &Document::value(shown.clone())?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;
    use jiff::Timestamp;
    use nodecfg_observed::{Drain, DrainMark};
    use nodecfg_plan::fixtures::{fleet, namespace, node, pool_name};

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn args(line: &str) -> Args {
        Line::parse_from(["release"].into_iter().chain(line.split_whitespace())).args
    }

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
    fn described(line: &str) -> Result<(Vec<String>, Exit), CommandError> {
        let args = args(line);
        let nodes = nodes().into_iter().map(|node| (node.name.clone(), node)).collect();
        let selected = args.select(nodes, &fleet())?;
        let shown = args.describe(&selected, fleet(), namespace());
        let kind = |end: &ReleaseEnd| match end {
            ReleaseEnd::ToRelease { .. } => "release",
            ReleaseEnd::Unattributed => "leave",
            ReleaseEnd::Unmarked => "unmarked",
            _ => "ended",
        };
        let ends = shown.nodes.iter().map(|node| format!("{} {}", kind(&node.end), node.node)).collect();
        Ok((ends, exit(&shown)))
    }

    #[test]
    fn all_releases_marks_of_the_fleet_alone() {
        let (ends, exit) = described("--all").unwrap();
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
        let args = args("--all");
        let bare: Vec<Node> = nodes().into_iter().filter(|node| node.name.as_str() == "bare").collect();
        assert_eq!(exit(&args.describe(&bare, fleet(), namespace())), Exit::NotConverged);
    }
}
