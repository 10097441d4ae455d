//! `nodecfg reset`: nodes back to their local configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::cluster_args::{BindingArgs, ClusterArgs, label_keys_of};
use super::confirm::ConfirmArgs;
use super::fleet_args::FleetArgs;
use super::observe::{Allowances, warn};
use super::reconcile::{PaceArgs, Reconciliation};
use super::reports::ReportArgs;
use super::repository_args::{Loaded, RepositoryArgs};
use super::run::{self, Purpose};
use super::unknown::unknown;
use super::{CommandError, CommandResult, Exit, Terminal};
use crate::report::{Format, count, progress};
use crate::review::Side;
use kubelet_config::finding::Strictness;
use nodecfg_cluster::observe::look;
use nodecfg_cluster::{ClusterReader, LabelKeys};
use nodecfg_contract::names::{NamespaceName, NodeName, PoolName};
use nodecfg_contract::observed::POOL_LABEL;
use nodecfg_contract::observed::{Node, Observed};
use nodecfg_planning::desired::{Desired, LabelSelector, MaxUnavailable, PoolTarget, parse_selector};
use nodecfg_planning::plan::{
    NodeSelection, NodeSelectionError, Options, Scope, down_in_any_pool, membership, pools_of_nodes, select_nodes,
};
use nodecfg_planning::snapshot::Snapshot;

/// Point nodes back at the configuration that they were provisioned with.
///
/// Takes away what nodecfg has pointed them at, within the budget, and waits until each runs its own again. Without --repo, a
/// node's pool is that of the ConfigMap it is on, and one node of a pool goes at a time. The next sync points the nodes back,
/// unless their pools are paused (nodecfg pause) or local in git (spec.kubelet.local: true). Asks before it changes anything.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Nodes to reset.
    #[arg(value_name = "NODE")]
    nodes: Vec<NodeName>,
    /// Reset the nodes of this pool. May be given several times.
    #[arg(long, value_name = "POOL")]
    pool: Vec<PoolName>,
    /// Reset the nodes with such labels, as kubectl takes them: `zone=a,!gpu`.
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = parse_selector)]
    selector: Option<LabelSelector>,
    /// Reset the nodes of all pools of the fleet.
    #[arg(long)]
    all: bool,
    /// Take the pools and their budgets from HEAD of this repository.
    #[arg(long, value_name = "REPO")]
    repo: Option<PathBuf>,
    /// How many nodes of a pool may be unavailable at a time, instead of 1, or of what the repository says.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_unavailable: Option<u32>,
    /// Also reset nodes that point at ConfigMaps of others.
    #[arg(long)]
    take_over: bool,
    /// Show the plan and change nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    confirm: ConfirmArgs,
    #[command(flatten)]
    pace: PaceArgs,
    #[command(flatten)]
    fleet: FleetArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    binding: BindingArgs,
}

const EXAMPLES: &str = "\
Examples:
  nodecfg reset node-7 --dry-run      what would be done
  nodecfg reset --pool gpu            one node at a time, once it is confirmed
  nodecfg reset --all --repo . --yes  with the budgets of the repository, without being asked";

pub(super) async fn run(args: &Args, format: Format, verbose: u8, terminal: &mut Terminal) -> CommandResult {
    let choice = args.choice()?;
    if !args.dry_run {
        run::require_stream_format(format)?;
        args.confirm.possible()?;
    }
    let repository = match &args.repo {
        Some(path) => {
            let loaded = RepositoryArgs::of(path).load(terminal).await?;
            warn(&loaded, verbose, terminal)?;
            Some(loaded)
        }
        None => None,
    };
    let reader = args.cluster.reader(args.label_keys(repository.as_ref())).await?;
    let reader = args.binding.bind(reader).await?;
    let (loaded, namespace, observed) = args.pools(repository, &reader).await?;
    let text = matches!(format, Format::Text | Format::Markdown);
    let scene = run::scene(&loaded, &namespace, reader.server());
    if text {
        let place = progress::place(Some(&namespace), reader.server());
        writeln!(terminal.aside(), "fleet {} back to local configuration {place}\n", loaded.desired.fleet)?;
    } else {
        run::open(&scene, format, (!args.dry_run).then_some(&ReportArgs::default()), terminal)?;
    }
    let nodes = args.selected(&choice, &loaded.desired, &observed)?;
    if text && !Args::has_any(&nodes, &loaded.desired, &observed) {
        writeln!(
            terminal.aside(),
            "Nothing to reset: these nodes run their local configuration already,\nor are on ConfigMaps of others."
        )?;
        return Ok(Exit::Done);
    }
    let gate = if args.repo.is_some() { Strictness::Strict } else { Strictness::Lenient };
    let options = Options {
        scope: Scope::Nodes(nodes),
        despite_pause: loaded.desired.pools.keys().cloned().collect(),
        ..Allowances { take_over: args.take_over, allow_empty: true }.options(namespace, gate)
    };
    let reconciliation = Reconciliation {
        purpose: Purpose::Reset,
        loaded: &loaded,
        side: Side::Local,
        scene: &scene,
        reader: &reader,
        meeting: None,
        options,
        pause: None,
        pace: &args.pace,
        reports: &ReportArgs::default(),
        format,
        verbose,
    };
    if args.dry_run {
        return reconciliation.preview(terminal).await;
    }
    if !args.confirm.is_given() {
        let plan = reconciliation.planned_or_shown(text, terminal).await?;
        let number = plan.counts().assign;
        if number == 0 {
            return Ok(Exit::Done);
        }
        let question = format!("Reset {} to local configuration?", count(number, "node"));
        if !args.confirm.ask(&question, terminal).await? {
            return Ok(Exit::Failed);
        }
    }
    let exit = reconciliation.carry_out(terminal).await?;
    if text {
        terminal.out.flush()?;
        writeln!(
            terminal.aside(),
            "\nThe next sync points these nodes back, unless their pools are paused\n\
             (nodecfg pause POOL --reason TEXT) or local in git (spec.kubelet.local: true)."
        )?;
    }
    Ok(exit)
}

impl Args {
    fn choice(&self) -> Result<NodeSelection, CommandError> {
        let choice = NodeSelection {
            nodes: self.nodes.iter().cloned().collect(),
            pools: self.pool.iter().cloned().collect(),
            selector: self.selector.clone(),
            all: self.all,
        };
        if choice == NodeSelection::default() {
            return Err(CommandError::usage(
                "nothing says which nodes to reset",
                "name nodes, or pass --pool, --selector or --all",
            ));
        }
        Ok(choice)
    }

    fn label_keys(&self, repository: Option<&Loaded>) -> LabelKeys {
        let mut keys: BTreeSet<String> = match label_keys_of(repository.map(|loaded| &loaded.desired)) {
            LabelKeys::Only(keys) => keys,
            all @ LabelKeys::All => return all,
        };
        if repository.is_none() {
            keys.insert(POOL_LABEL.to_owned());
        }
        keys.extend(self.selector.iter().flat_map(LabelSelector::keys).map(str::to_owned));
        LabelKeys::Only(keys)
    }

    /// The pools, all of whose nodes shall run their local configuration; and what was seen of the cluster to find them.
    async fn pools(
        &self,
        repository: Option<Loaded>,
        reader: &ClusterReader,
    ) -> Result<(Loaded, NamespaceName, Observed), CommandError> {
        if let Some(mut loaded) = repository {
            let namespace = self.cluster.namespace(&loaded.desired, reader)?;
            let observed = look(reader, Some(namespace.as_str())).await?;
            for pool in loaded.desired.pools.values_mut() {
                pool.target = PoolTarget::Local;
                // Whoever resets has decided, and a pause is there to keep what comes of it.
                pool.policy.paused = false;
                if let Some(number) = self.max_unavailable {
                    pool.policy.max_unavailable = MaxUnavailable::Count(number);
                }
            }
            return Ok((loaded, namespace, observed));
        }
        let (fleet, namespace) = self.fleet.find(&self.cluster, reader).await?;
        let observed = look(reader, Some(namespace.as_str())).await?;
        let budget = self.max_unavailable.unwrap_or(1);
        let mut desired = pools_of_nodes(&observed, &fleet, budget, self.take_over);
        let down = down_in_any_pool(&desired, &observed);
        if let Some(example) = down.first() {
            let left = usize::try_from(budget).unwrap_or(usize::MAX).saturating_sub(down.len());
            let Some(left) = u32::try_from(left).ok().filter(|left| *left > 0) else {
                return Err(CommandError::usage(
                    format!(
                        "not available and of no known pool: {}, {example} among them. They may be of any, and use up a budget \
                         of {budget}",
                        count(down.len(), "node")
                    ),
                    format!(
                        "pass --repo for the pools of the repository, or --max-unavailable {} or more",
                        down.len().saturating_add(1)
                    ),
                ));
            };
            tracing::warn!(
                "not available and of no known pool: {}, {example} among them. They may be of any: of the budget of {budget}, {left} \
                 is left to each pool",
                count(down.len(), "node")
            );
            for pool in desired.pools.values_mut() {
                pool.policy.max_unavailable = MaxUnavailable::Count(left);
            }
        }
        Ok((Loaded { desired, snapshot: Snapshot::of_texts([]), findings: Vec::new() }, namespace, observed))
    }

    /// Whether any of the nodes is in a pool and points at something, or is on its way to its local configuration.
    fn has_any(nodes: &BTreeSet<NodeName>, desired: &Desired, observed: &Observed) -> bool {
        let seen = |name: &NodeName| observed.nodes.get(name);
        let away =
            |node: &Node| node.source.is_some() || node.status.assigned.is_some() || node.status.active.is_some();
        let homes = membership(desired, &observed.nodes).pools;
        let mut members = homes.values().flatten().filter(|name| nodes.contains(**name));
        members.any(|name| seen(name).is_some_and(away))
    }

    fn selected(
        &self,
        choice: &NodeSelection,
        desired: &Desired,
        observed: &Observed,
    ) -> Result<BTreeSet<NodeName>, CommandError> {
        let members = membership(desired, &observed.nodes);
        let homes: BTreeMap<&NodeName, &PoolName> =
            members.pools.iter().flat_map(|(pool, nodes)| nodes.iter().map(move |node| (*node, *pool))).collect();
        let labels = |selector: &LabelSelector, node: &Node| selector.matches(&node.labels);
        let pools: BTreeSet<&PoolName> = desired.pools.keys().collect();
        select_nodes(choice, observed, &homes, labels, &pools).map_err(|error| match &error {
            NodeSelectionError::UnknownNode { name, .. } => {
                let known = observed.nodes.keys().map(NodeName::as_str);
                unknown("node", name.as_str(), "in the cluster", known, &error.help())
            }
            NodeSelectionError::UnknownPool { name, .. } => {
                let known = pools.iter().map(|pool| pool.as_str());
                let place = if self.repo.is_some() { "in the repository" } else { "among those that nodes are in" };
                unknown("pool", name.as_str(), place, known, &error.help())
            }
            NodeSelectionError::Unpooled { .. } => CommandError::usage(error.to_string(), error.help()),
        })
    }
}
