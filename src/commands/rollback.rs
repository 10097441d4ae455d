//! `nodecfg rollback`: rolls a pool back to an earlier revision.

use std::collections::BTreeSet;

use super::{CommandError, CommandResult, Exit, Terminal};
use crate::arguments::cluster::{BoundClusterArgs, label_keys};
use crate::arguments::disruption::DisruptionArgs;
use crate::arguments::dry_run::DryRunArgs;
use crate::arguments::orders::{FleetLocation, parse_reason};
use crate::arguments::reports::ReportArgs;
use crate::arguments::repository::{Loaded, RepositoryArgs};
use crate::commands::history::pool_history::{PoolHistory, unknown_pool};
use crate::history::{Content, ReadablePools, Revision, Subject, certain_nodes, content_of, previous, readable_pools};
use crate::report::progress::RunHeader;
use crate::report::{Format, count, names};
use crate::runs::comparison::side_of;
use crate::runs::kubelet_samples::KubeletArgs;
use crate::runs::planning::Allowances;
use crate::runs::reconcile::{Reconciliation, RolloutArgs, TrialArgs};
use crate::runs::run;
use crate::runs::run::Purpose;
use crate::runs::write_review;
use kubelet_config::risk::{Class, removals};
use nodecfg_clock::ScaledClock;
use nodecfg_cluster::reading::observe::list;
use nodecfg_cluster::{ClusterReader, LabelKeys};
use nodecfg_contract::Placement;
use nodecfg_contract::names::{NamespaceName, PoolName};
use nodecfg_fleet::{Desired, Pool, PoolTarget, RolloutPolicy, draft};
use nodecfg_observed::{AllowedDisruption, ConfigMapKey, Node, Observed, Pause};
use nodecfg_plan::{Options, Scope};

/// Number of revisions searched for the previous configuration.
const SEARCH_LIMIT: usize = 50;

/// Roll a pool back to the configuration of an earlier revision.
///
/// Runs a sync of this pool only, with the same checks, budget and lock. Takes the configuration from the earlier
/// revision, and the selector and policy from HEAD. Pauses the pool first, so that the next sync of HEAD keeps the
/// result. Revert the change in git, then run `nodecfg resume POOL`. Does not ask for confirmation.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Roll back this pool.
    #[arg(value_name = "POOL")]
    pool: PoolName,
    #[command(flatten)]
    pub(super) repository: RepositoryArgs,
    /// Roll back to this revision, instead of the newest earlier one with another configuration that nodes have run. See
    /// `nodecfg history POOL`.
    #[arg(long, value_name = "REV")]
    to: Option<String>,
    /// Do not pause the pool, so that the next sync applies HEAD again.
    #[arg(long)]
    no_pause: bool,
    /// Record this reason for the pause, and for --allow-disruption and --ignore-windows, which require it.
    #[arg(long, value_name = "TEXT", value_parser = parse_reason)]
    reason: Option<String>,
    #[command(flatten)]
    disruption: DisruptionArgs,
    /// Also move nodes that point at ConfigMaps not managed by this fleet.
    #[arg(long)]
    take_over: bool,
    #[command(flatten)]
    dry_run: DryRunArgs,
    #[command(flatten)]
    trial: TrialArgs,
    #[command(flatten)]
    rollout_args: RolloutArgs,
    #[command(flatten)]
    pub(super) reports: ReportArgs,
    #[command(flatten)]
    bound: BoundClusterArgs,
}

const EXAMPLES: &str = "\
Examples:
  nodecfg rollback gpu --dry-run     show the plan of a rollback to the previous revision
  nodecfg rollback gpu --to v1.4.0   roll back to this revision
  nodecfg rollback gpu --allow-disruption drain --reason 'incident 4711'
  nodecfg resume gpu                 resume rollouts after the change is reverted in git";

pub(super) async fn run(args: &Args, format: Format, verbose: u8, terminal: &mut Terminal) -> CommandResult {
    let allowed_class = args.allowed_class()?;
    if args.dry_run.is_requested() {
        write_review::create_reports(&args.reports)?;
    } else {
        run::require_stream_format(format)?;
        run::create_reports(&args.reports)?;
    }
    let head = args.head(terminal).await?;
    let named = match &args.to {
        Some(revision) => Some(args.target(&head, revision, terminal).await?),
        None => None,
    };
    let reader = args.bound.reader(head.label_keys()).await?;
    let namespace = args.bound.cluster.namespace(&head.desired, &reader)?;
    let (mut target, revision) = match (named, &args.to) {
        (Some(target), Some(revision)) => (target, revision.clone()),
        _ => {
            let revision = args.previous_revision(&head, &reader, &namespace, terminal).await?;
            (args.target(&head, &revision, terminal).await?, revision)
        }
    };
    let text = matches!(format, Format::Text | Format::Markdown);
    if target.unchanged && text {
        let message =
            format!("Nothing to roll back: pool {} has the same configuration\nat {revision} as now.", args.pool);
        writeln!(terminal.info(), "{message}")?;
        if args.reports.is_empty() {
            return Ok(Exit::Done);
        }
    }
    if !head.unread.is_empty() {
        args.restrict_nodes(&mut target.loaded, &head, &list(&reader, Some(namespace.as_str())).await?, terminal)?;
    }
    let now = head.desired.pools.get(&args.pool).and_then(|pool| pool.placement);
    args.place(&mut target.loaded, now, &reader, &namespace).await?;
    let RollbackTarget { loaded, unchanged } = target;
    let ignored_windows = args.reason.clone().filter(|_| args.rollout_args.ignore_windows);
    let header = RunHeader { ignored_windows, ..run::header(&loaded, &namespace, reader.server()) };
    run::print_header(&header, format, (!args.dry_run.is_requested()).then_some(&args.reports), terminal)?;
    let allowances = Allowances { take_over: args.take_over, allow_empty: false };
    let options = Options {
        // With an unchanged configuration nothing is changed, but the same documents and reports are written.
        scope: if unchanged { Scope::Nodes(BTreeSet::new()) } else { Scope::Pools([args.pool.clone()].into()) },
        despite_pause: [args.pool.clone()].into(),
        ..allowances.options(namespace, args.repository.gate())
    };
    let location = FleetLocation { reader, fleet: head.desired.fleet.clone(), namespace: options.namespace.clone() };
    let by = if args.dry_run.is_requested() || args.no_pause { String::new() } else { location.requester().await? };
    let at = nodecfg_clock::now();
    let reason = args.reason.clone().unwrap_or_else(|| format!("rolled back to {}", short_commit(&loaded, &revision)));
    let allowed = allowed_class.map(|class| AllowedDisruption { class, by: by.clone(), at, reason: reason.clone() });
    let pause = Pause { by, at, reason, allowed };
    let reconciliation = Reconciliation {
        purpose: Purpose::RollBack,
        loaded: &loaded,
        side: side_of(&loaded.snapshot, Some(revision)),
        header: &header,
        reader: &location.reader,
        saved_plan: None,
        options,
        pause: (!args.no_pause && !unchanged).then(|| (args.pool.clone(), pause)),
        kubelets: KubeletArgs::NEVER,
        rollout_args: &args.rollout_args,
        wait_trial: args.trial.wait_trial,
        speed: 1.0,
        clock: ScaledClock::real(),
        // For incidents: a gate must not delay the way back.
        gates: None,
        reports: &args.reports,
        format,
        verbose,
    };
    let is_dry_run = args.dry_run.is_requested();
    let exit = match is_dry_run {
        true => reconciliation.preview(terminal).await?,
        false => reconciliation.apply_plan(terminal).await?,
    };
    if text && !unchanged {
        let pool = &args.pool;
        match (is_dry_run, args.no_pause) {
            (true, true) => {}
            (true, false) => terminal.advise(format_args!("\nPool {pool} would be paused as well.")),
            (false, true) => terminal
                .advise(format_args!("\nThe next sync applies HEAD to pool {pool} again: revert the change in git.")),
            (false, false) => terminal.advise(format_args!(
                "\nPool {pool} is paused, so that no sync undoes the rollback.\n\
                 Revert the change in git, then run: nodecfg resume {pool}"
            )),
        }
    }
    Ok(exit)
}

/// HEAD, as far as it is valid.
struct Head {
    desired: Desired,
    /// Folders of pools whose node selector cannot be read.
    unread: BTreeSet<String>,
    /// Whether HEAD has errors.
    invalid: bool,
}

impl Head {
    /// Labels to read. All, if some selectors are unknown.
    fn label_keys(&self) -> LabelKeys {
        if self.invalid { LabelKeys::All } else { label_keys(&self.desired) }
    }
}

/// Target of the rollback.
struct RollbackTarget {
    /// HEAD, with the configuration of the pool from the earlier revision.
    loaded: Loaded,
    /// Whether HEAD already has that configuration.
    unchanged: bool,
}

impl Args {
    /// The class of --allow-disruption, which requires a reason.
    fn allowed_class(&self) -> Result<Option<Class>, CommandError> {
        if self.no_pause && self.reason.is_some() && !self.rollout_args.ignore_windows {
            return Err(CommandError::usage(
                "--reason is recorded with the pause, which --no-pause omits",
                "omit --reason or --no-pause",
            ));
        }
        match (self.disruption.allow_disruption, &self.reason) {
            (Some(class), None) => Err(CommandError::usage(
                "--allow-disruption requires a reason, which is recorded",
                format!("run `nodecfg rollback {} --allow-disruption {class} --reason TEXT`", self.pool),
            )),
            (class, _) => Ok(class),
        }
    }

    /// Reads HEAD. Invalid pools are accepted if the selectors of the others are known.
    async fn head(&self, terminal: &mut Terminal) -> Result<Head, CommandError> {
        let (findings, snapshot) = match self.repository.load(terminal).await {
            Ok(head) => {
                head.record(terminal);
                self.require_pool(&head.desired, head.desired.pools.contains_key(&self.pool))?;
                return Ok(Head { desired: head.desired, unread: BTreeSet::new(), invalid: false });
            }
            Err(CommandError::Invalid { findings, snapshot }) => (findings, snapshot),
            Err(failure) => return Err(failure),
        };
        let Some(ReadablePools { desired, unread, errors }) = readable_pools(&snapshot, self.repository.gate()) else {
            return Err(CommandError::Invalid { findings, snapshot });
        };
        let exists = desired.pools.contains_key(&self.pool) || unread.contains(self.pool.as_str());
        self.require_pool(&desired, exists)?;
        terminal.record.read(&desired.fleet, desired.commit.as_ref());
        let errors = count(errors, "error");
        writeln!(terminal.err, "warning: HEAD is invalid ({errors}); run nodecfg validate to list them.")?;
        Ok(Head { desired, unread, invalid: true })
    }

    fn require_pool(&self, desired: &Desired, exists: bool) -> Result<(), CommandError> {
        if exists { Ok(()) } else { Err(unknown_pool(&self.pool, Some(desired))) }
    }

    /// The default target: the newest earlier revision that nodes have run.
    async fn previous_revision(
        &self,
        head: &Head,
        reader: &ClusterReader,
        namespace: &NamespaceName,
        terminal: &mut Terminal,
    ) -> Result<String, CommandError> {
        let PoolHistory { mut revisions, end, .. } =
            PoolHistory::read(&self.repository, &self.pool, SEARCH_LIMIT, terminal).await?;
        let observed = list(reader, Some(namespace.as_str())).await?;
        let fleet = &head.desired.fleet;
        let subject = Subject { fleet, pool: &self.pool, namespace, desired: Some(&head.desired) };
        let _ = subject.find(&mut revisions, &observed, &BTreeSet::new());
        let describe = |revision: &Revision| format!("{} ({})", revision.commit.short(), revision.subject);
        match previous(&revisions) {
            Ok(revision) => {
                writeln!(terminal.info(), "rollback target of pool {}: {}", self.pool, describe(revision))?;
                Ok(revision.commit.to_string())
            }
            Err(Some(never)) => Err(CommandError::usage(
                format!(
                    "pool {} has no earlier configuration that is known to have run: {} has neither a ConfigMap in the \
                     cluster nor a node",
                    self.pool,
                    describe(never)
                ),
                format!(
                    "if that revision is right, run `nodecfg rollback {} --to {}`",
                    self.pool,
                    never.commit.short()
                ),
            )),
            Err(None) => {
                let help = crate::report::history::note(end).unwrap_or_else(|| {
                    format!("return the nodes to local configuration with `nodecfg reset --pool {}`", self.pool)
                });
                let message = format!("pool {} has no earlier configuration in this repository", self.pool);
                Err(CommandError::usage(message, help))
            }
        }
    }

    /// HEAD, with the configuration of the pool from the earlier revision.
    async fn target(
        &self,
        head: &Head,
        revision: &str,
        terminal: &mut Terminal,
    ) -> Result<RollbackTarget, CommandError> {
        let earlier = self.repository.load_signed(revision, terminal).await?;
        let gate = self.repository.gate();
        let problem = match content_of(&earlier, &self.pool, gate) {
            Content::Config { .. } | Content::Local => None,
            Content::Absent => Some(format!("revision {revision} has no pool {}", self.pool)),
            Content::Invalid { problem } => {
                Some(format!("the configuration of pool {} is invalid at revision {revision}: {problem}", self.pool))
            }
        };
        let then = draft(&earlier, gate)
            .desired
            .and_then(|mut desired| desired.pools.remove(&self.pool))
            .filter(|_| problem.is_none());
        let Some(mut then) = then else {
            let message = problem.unwrap_or_else(|| format!("revision {revision} cannot be read"));
            let help = format!("choose another revision from `nodecfg history {}`", self.pool);
            return Err(CommandError::usage(message, help));
        };
        let mut desired = head.desired.clone();
        if let PoolTarget::Config(rendered) = &mut then.target {
            // The fleet may have been renamed since.
            rendered.config_map = format!("{}-{}-{}", desired.fleet, self.pool, rendered.hash.short());
        }
        let mut unchanged = false;
        let pool = match desired.pools.remove(&self.pool) {
            Some(pool) => {
                // The target of an invalid HEAD is unknown.
                unchanged = !head.invalid && is_same(&pool.target, &then.target);
                Pool { target: then.target, placement: then.placement, ..pool }
            }
            None => {
                writeln!(
                    terminal.err,
                    "warning: pools/{0}/pool.yaml cannot be read at HEAD; the selector and policy\n\
                     of {revision} apply.",
                    self.pool
                )?;
                then
            }
        };
        // The pause applies to other commands. The configuration of a rollback is fixed, so what it omits is accepted.
        let accept_removed = removals::all().map(|removal| removal.field.clone()).collect();
        let mut policy = RolloutPolicy { paused: false, accept_removed, ..pool.policy };
        self.disruption.apply(&mut policy);
        desired.pools.insert(self.pool.clone(), Pool { policy, ..pool });
        desired.commit.clone_from(&earlier.commit);
        let arguments = self.repository.at(revision);
        Ok(RollbackTarget { loaded: Loaded { desired, snapshot: earlier, findings: Vec::new(), arguments }, unchanged })
    }

    /// Sets how nodes combine a configuration with their own whose revision does not say it: as nodes report that run it, or
    /// else as its ConfigMap records it, which another client can change, or else as the repository says now.
    async fn place(
        &self,
        back: &mut Loaded,
        now: Option<Placement>,
        reader: &ClusterReader,
        namespace: &NamespaceName,
    ) -> Result<(), CommandError> {
        let Some(pool) = back.desired.pools.get_mut(&self.pool) else { return Ok(()) };
        let PoolTarget::Config(rendered) = &pool.target else { return Ok(()) };
        if pool.placement.is_some() {
            return Ok(());
        }
        let source = rendered.source(namespace);
        let observed = list(reader, Some(namespace.as_str())).await?;
        let runs = |node: &&Node| node.status.active.as_ref().is_some_and(|active| active.names_same(&source));
        let reported = observed.nodes.values().filter(runs).filter_map(|node| node.content?.active_placement);
        let recorded = ConfigMapKey::of(&source).and_then(|key| observed.config_maps.get(&key)?.placement);
        pool.placement = reported.min().or(recorded).or(now);
        Ok(())
    }

    /// Restricts the rollback to nodes that certainly belong to the pool. An unreadable pool may select any other
    /// node.
    fn restrict_nodes(
        &self,
        back: &mut Loaded,
        head: &Head,
        observed: &Observed,
        terminal: &mut Terminal,
    ) -> Result<(), CommandError> {
        let Some(pool) = back.desired.pools.get_mut(&self.pool) else { return Ok(()) };
        let held = certain_nodes(&back.desired.fleet, pool, observed);
        let unread = names(head.unread.iter().map(String::as_str), 3);
        if held.is_empty() {
            return Err(CommandError::usage(
                format!("the nodes of pool {} are unknown: HEAD has no valid selector for {unread}", self.pool),
                "fix pool.yaml in these folders",
            ));
        }
        writeln!(
            terminal.err,
            "warning: HEAD has no valid selector for these pools: {unread}.\n\
             Only nodes on ConfigMaps of pool {} are changed: {}.",
            self.pool,
            count(held.len(), "node")
        )?;
        pool.named = Some(held);
        Ok(())
    }
}

fn is_same(now: &PoolTarget, then: &PoolTarget) -> bool {
    match (now, then) {
        (PoolTarget::Local, PoolTarget::Local) => true,
        (PoolTarget::Config(now), PoolTarget::Config(then)) => now.hash == then.hash,
        _ => false,
    }
}

fn short_commit(loaded: &Loaded, revision: &str) -> String {
    loaded.desired.commit.as_ref().map_or_else(|| revision.to_owned(), |commit| commit.short().to_string())
}
