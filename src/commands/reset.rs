//! `nodecfg reset`: returns nodes to their local configuration.

use std::collections::{BTreeMap, BTreeSet};

use super::{CommandError, CommandResult, Exit, Terminal};
use crate::arguments::cluster::{BoundClusterArgs, label_keys};
use crate::arguments::disruption::DisruptionArgs;
use crate::arguments::dry_run::DryRunArgs;
use crate::arguments::fleet::FleetArgs;
use crate::arguments::reports::ReportArgs;
use crate::arguments::repository::{Loaded, RepositoryArgs};
use crate::arguments::scope::with_keys_of;
use crate::arguments::unknown_name::unknown_name;
use crate::report::progress::RunHeader;
use crate::report::{Format, count, progress};
use crate::review::Side;
use crate::runs::kubelet_samples::KubeletArgs;
use crate::runs::planning::Allowances;
use crate::runs::reconcile::{ReasonArgs, Reconciliation, RolloutArgs};
use crate::runs::run;
use crate::runs::run::Purpose;
use crate::terminal::confirm::ConfirmArgs;
use kubelet_config::finding::Strictness;
use nodecfg_clock::ScaledClock;
use nodecfg_cluster::reading::observe::list;
use nodecfg_cluster::{ClusterReader, LabelKeys};
use nodecfg_contract::label_selector::LabelSelector;
use nodecfg_contract::labels::POOL_LABEL;
use nodecfg_contract::names::{NamespaceName, NodeName, PoolName};
use nodecfg_fleet::formats::parse_selector;
use nodecfg_fleet::snapshot::Snapshot;
use nodecfg_fleet::{Desired, MaxUnavailable, PoolTarget};
use nodecfg_observed::{Node, Observed};
use nodecfg_plan::{
    NodeSelection, NodeSelectionError, Options, Scope, membership, pools_of_nodes, select_nodes,
    unavailable_without_pool,
};

/// Return nodes to their local configuration.
///
/// Removes the assignments of the nodes, within the budget of their pools, and waits until each node runs its local
/// configuration. Without --repo, a node belongs to the pool of its ConfigMap, and each pool resets one node at a
/// time. The next sync assigns the nodes again unless their pools are paused (nodecfg pause) or local in git
/// (spec.kubelet.local: true). Asks for confirmation.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("repository", |repository| repository.long("repo").display_order(3).help(
    "Read the pools and their budgets from this repository: a folder in a git repository, or an address on a git server"
)))]
pub(super) struct Args {
    /// Reset these nodes.
    #[arg(value_name = "NODE")]
    nodes: Vec<NodeName>,
    /// Reset the nodes of this pool. May be repeated.
    #[arg(long, value_name = "POOL")]
    pool: Vec<PoolName>,
    /// Reset nodes that match this label selector, in the syntax of kubectl: `zone=a,!gpu`.
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = parse_selector)]
    selector: Option<LabelSelector>,
    /// Reset the nodes of all pools of the fleet.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    repository: RepositoryArgs,
    /// Allow N unavailable nodes of each pool. Default: 1, or the budget in the repository.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_unavailable: Option<u32>,
    #[command(flatten)]
    disruption: DisruptionArgs,
    /// Also reset nodes that point at ConfigMaps not managed by this fleet.
    #[arg(long)]
    take_over: bool,
    #[command(flatten)]
    dry_run: DryRunArgs,
    #[command(flatten)]
    confirm: ConfirmArgs,
    #[command(flatten)]
    rollout_args: RolloutArgs,
    #[command(flatten)]
    reason: ReasonArgs,
    #[command(flatten)]
    fleet: FleetArgs,
    #[command(flatten)]
    bound: BoundClusterArgs,
}

const EXAMPLES: &str = "\
Examples:
  nodecfg reset node-7 --dry-run      show the plan
  nodecfg reset --pool gpu            reset one node at a time, after a confirmation
  nodecfg reset --all --repo . --yes  use the budgets of the repository, without a confirmation";

pub(super) async fn run(args: &Args, format: Format, verbose: u8, terminal: &mut Terminal) -> CommandResult {
    let selection = args.selection()?;
    if !args.dry_run.is_requested() {
        run::require_stream_format(format)?;
        args.confirm.require_terminal()?;
    }
    let repository = args.repository.load_named(terminal).await?;
    let gate = repository.as_ref().map_or(Strictness::Lenient, |loaded| loaded.arguments.gate());
    let reader = args.bound.reader(args.label_keys(repository.as_ref())).await?;
    let (loaded, namespace, observed) = args.pools(repository, &reader).await?;
    let text = matches!(format, Format::Text | Format::Markdown);
    let header =
        RunHeader { ignored_windows: args.reason.reason.clone(), ..run::header(&loaded, &namespace, reader.server()) };
    if text {
        let place = progress::place(Some(&namespace), reader.server());
        writeln!(terminal.info(), "reset of fleet {} to local configuration {place}\n", loaded.desired.fleet)?;
    } else {
        run::print_header(&header, format, (!args.dry_run.is_requested()).then_some(&ReportArgs::default()), terminal)?;
    }
    let nodes = args.select(&selection, &loaded.desired, &observed)?;
    if text && !Args::any_assigned(&nodes, &loaded.desired, &observed) {
        writeln!(
            terminal.info(),
            "Nothing to reset: the selected nodes run their local configuration,\n\
             or ConfigMaps not managed by this fleet."
        )?;
        return Ok(Exit::Done);
    }
    let options = Options {
        scope: Scope::Nodes(nodes),
        despite_pause: loaded.desired.pools.keys().cloned().collect(),
        ..Allowances { take_over: args.take_over, allow_empty: true }.options(namespace, gate)
    };
    let reconciliation = Reconciliation {
        purpose: Purpose::Reset,
        loaded: &loaded,
        side: Side::Local,
        header: &header,
        reader: &reader,
        saved_plan: None,
        options,
        pause: None,
        kubelets: KubeletArgs::NEVER,
        rollout_args: &args.rollout_args,
        // The local configuration has no trial.
        wait_trial: false,
        speed: 1.0,
        clock: ScaledClock::real(),
        // For incidents: a gate must not delay the way back.
        gates: None,
        reports: &ReportArgs::default(),
        format,
        verbose,
    };
    if args.dry_run.is_requested() {
        return reconciliation.preview(terminal).await;
    }
    if !args.confirm.is_given() {
        let (plan, printed) = reconciliation.plan_or_print(text, terminal).await?;
        let number = plan.counts().assign;
        if number == 0 || printed != Exit::Done {
            return Ok(printed);
        }
        let question = format!("Reset {} to local configuration?", count(number, "node"));
        if !args.confirm.ask(&question, terminal).await? {
            return Ok(Exit::Failed);
        }
    }
    let exit = reconciliation.apply_plan(terminal).await?;
    if text {
        terminal.advise(format_args!(
            "\nThe next sync points these nodes back, unless their pools are paused\n\
             (`nodecfg pause POOL --reason TEXT`) or local in git (spec.kubelet.local: true)."
        ));
    }
    Ok(exit)
}

impl Args {
    fn selection(&self) -> Result<NodeSelection, CommandError> {
        let selection = NodeSelection {
            nodes: self.nodes.iter().cloned().collect(),
            pools: self.pool.iter().cloned().collect(),
            selector: self.selector.clone(),
            all: self.all,
        };
        if selection == NodeSelection::default() {
            return Err(CommandError::usage("no nodes are selected", "name the nodes to reset"));
        }
        Ok(selection)
    }

    fn label_keys(&self, repository: Option<&Loaded>) -> LabelKeys {
        let keys = match repository {
            Some(loaded) => label_keys(&loaded.desired),
            None => LabelKeys::Only([POOL_LABEL.to_owned()].into()),
        };
        with_keys_of(self.selector.as_ref(), keys)
    }

    /// The pools with local configuration as their target, and the observed state of the cluster.
    async fn pools(
        &self,
        repository: Option<Loaded>,
        reader: &ClusterReader,
    ) -> Result<(Loaded, NamespaceName, Observed), CommandError> {
        if let Some(mut loaded) = repository {
            let namespace = self.bound.cluster.namespace(&loaded.desired, reader)?;
            let observed = list(reader, Some(namespace.as_str())).await?;
            for pool in loaded.desired.pools.values_mut() {
                pool.target = PoolTarget::Local;
                // A reset is an explicit request, so it includes paused pools.
                pool.policy.paused = false;
                self.disruption.apply(&mut pool.policy);
                if let Some(number) = self.max_unavailable {
                    pool.policy.max_unavailable = MaxUnavailable::Count(number);
                }
            }
            return Ok((loaded, namespace, observed));
        }
        let (fleet, namespace) = self.fleet.find(&self.bound.cluster, reader).await?;
        let observed = list(reader, Some(namespace.as_str())).await?;
        let budget = self.max_unavailable.unwrap_or(1);
        let mut desired = pools_of_nodes(&observed, &fleet, budget, self.take_over);
        for pool in desired.pools.values_mut() {
            self.disruption.apply(&mut pool.policy);
        }
        let down = unavailable_without_pool(&desired, &observed);
        if let Some(example) = down.first() {
            let left = usize::try_from(budget).unwrap_or(usize::MAX).saturating_sub(down.len());
            let Some(left) = u32::try_from(left).ok().filter(|left| *left > 0) else {
                return Err(CommandError::usage(
                    format!(
                        "{} unavailable and in no known pool, for example {example}. They use up the budget of \
                         {budget} of every pool",
                        count(down.len(), "node")
                    ),
                    format!("pass --max-unavailable {} or more", down.len().saturating_add(1)),
                ));
            };
            tracing::warn!(
                "{} unavailable and in no known pool, for example {example}. They count for every pool: \
                 {left} of its budget of {budget} remains",
                count(down.len(), "node")
            );
            for pool in desired.pools.values_mut() {
                pool.policy.max_unavailable = MaxUnavailable::Count(left);
            }
        }
        Ok((
            Loaded {
                desired,
                snapshot: Snapshot::of_texts([]),
                findings: Vec::new(),
                arguments: RepositoryArgs::default(),
            },
            namespace,
            observed,
        ))
    }

    /// Reports whether any of the nodes is in a pool and has an assignment, or has not finished its return to local
    /// configuration.
    fn any_assigned(nodes: &BTreeSet<NodeName>, desired: &Desired, observed: &Observed) -> bool {
        let is_assigned =
            |node: &Node| node.source.is_some() || node.status.assigned.is_some() || node.status.active.is_some();
        let pools = membership(desired, &observed.nodes).pools;
        pools.values().flatten().any(|node| is_assigned(node) && nodes.contains(&node.name))
    }

    fn select(
        &self,
        selection: &NodeSelection,
        desired: &Desired,
        observed: &Observed,
    ) -> Result<BTreeSet<NodeName>, CommandError> {
        let members = membership(desired, &observed.nodes);
        let pool_of_node: BTreeMap<&NodeName, &PoolName> =
            members.pools.iter().flat_map(|(pool, nodes)| nodes.iter().map(move |node| (&node.name, *pool))).collect();
        let matches = |selector: &LabelSelector, node: &Node| selector.matches(&node.labels);
        let pools: BTreeSet<&PoolName> = desired.pools.keys().collect();
        select_nodes(selection, observed, &pool_of_node, matches, &pools).map_err(|error| match &error {
            NodeSelectionError::UnknownNode { name, .. } => {
                let known = observed.nodes.keys().map(NodeName::as_str);
                unknown_name("node", name.as_str(), "in the cluster", known, &error.help())
            }
            NodeSelectionError::UnknownPool { name, .. } => {
                let known = pools.iter().map(|pool| pool.as_str());
                let place =
                    if self.repository.is_named() { "in the repository" } else { "among those that nodes are in" };
                unknown_name("pool", name.as_str(), place, known, &error.help())
            }
            NodeSelectionError::Unpooled { .. } => CommandError::usage(error.to_string(), error.help()),
        })
    }
}
