//! `nodecfg status`: what every node runs.

use std::collections::BTreeSet;

use super::cluster_args::{BindingArgs, ClusterArgs};
use super::{Exit, Failure, Terminal};
use crate::cluster::LabelKeys;
use crate::cluster::observe::look;
use crate::judge::{Patience, Target, judge};
use crate::names::NamespaceName;
use crate::observed::{ConfigMapKey, Node, Observed};
use crate::report::progress;
use crate::report::status::{self, Row};
use crate::report::{self, Format};

/// Show what every node runs.
///
/// Needs no repository: a node's pool is that of the ConfigMap it points at. ConfigMaps are looked for wherever nodes point
/// at some, or in --namespace alone.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    binding: BindingArgs,
}

pub(super) async fn run(args: &Args, format: Format, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let reader = args.cluster.reader(LabelKeys::Only(BTreeSet::new())).await?;
    let namespace = args.cluster.named_namespace();
    if matches!(format, Format::Text | Format::Markdown) {
        writeln!(terminal.aside(), "{}\n", progress::place(namespace, reader.server()))?;
    }
    let reader = args.binding.bind(reader).await?;
    let observed = look(&reader, namespace.map(NamespaceName::as_str)).await?;
    let mut rows: Vec<Row> = observed.nodes.values().map(|node| row(node, &observed)).collect();
    rows.sort_by(|a, b| (a.pool.is_none(), &a.pool, &a.node).cmp(&(b.pool.is_none(), &b.pool, &b.node)));
    match format {
        Format::Text => status::text(&mut terminal.out, &rows)?,
        Format::Markdown => status::markdown(&mut terminal.out, &rows)?,
        Format::Json => report::json(&mut terminal.out, &status::document(&rows)?)?,
        Format::Yaml => report::yaml(&mut terminal.out, &status::document(&rows)?)?,
    }
    Ok(Exit::Done)
}

fn row(node: &Node, observed: &Observed) -> Row {
    let managed = node.source.as_ref().and_then(ConfigMapKey::of).and_then(|key| observed.config_maps.get(&key));
    let present = node.source.clone().map_or(Target::Local, Target::Source);
    Row {
        node: node.name.clone(),
        pool: managed.and_then(|map| map.pool.as_ref()).map(ToString::to_string),
        fleet: managed.and_then(|map| map.fleet.as_ref()).map(ToString::to_string),
        ready: node.ready,
        kubelet: node.kubelet_version,
        wanted: node.source.clone(),
        assigned: node.status.assigned.clone(),
        active: node.status.active.clone(),
        last_known_good: node.status.last_known_good.clone(),
        verdict: judge(&present, node, Patience::STATE_ONLY),
    }
}
