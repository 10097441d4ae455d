//! `nodecfg rollback`: a pool back to an earlier revision.

use std::collections::BTreeSet;

use super::against::side_of;
use super::cluster_args::{BindingArgs, ClusterArgs, label_keys};
use super::observe::{Allowances, warn};
use super::order_args::{Place, parse_reason};
use super::past::{Past, unknown_pool};
use super::reconcile::{PaceArgs, Reconciliation};
use super::reports::ReportArgs;
use super::repository_args::{Loaded, RepositoryArgs};
use super::run::{self, Purpose};
use super::{CommandError, CommandResult, Exit, Terminal, diff};
use crate::history::{Content, Frame, Revision, Subject, content_of, frame, held, previous};
use crate::report::{Format, count, names};
use nodecfg_cluster::observe::look;
use nodecfg_cluster::{ClusterReader, LabelKeys};
use nodecfg_contract::names::{NamespaceName, PoolName};
use nodecfg_contract::observed::{Observed, Pause};
use nodecfg_planning::desired::{Desired, Pool, PoolTarget, RolloutPolicy, draft};
use nodecfg_planning::plan::{Options, Scope};

/// How many revisions are gone through to find the one before.
const FAR: usize = 50;

/// Roll a pool back to the configuration of an earlier revision.
///
/// A sync of that pool alone: through the same plan, checks, budget and lock, with the selectors and the policy of HEAD, and the
/// configuration of the earlier revision. Pauses the pool first, so that the next sync of HEAD leaves it there; revert in git, then
/// `nodecfg resume POOL`. Does not ask: --dry-run shows what it would do.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The pool.
    #[arg(value_name = "POOL")]
    pool: PoolName,
    #[command(flatten)]
    pub(super) repository: RepositoryArgs,
    /// The revision to go back to, instead of the newest one before that had another configuration of the pool, and that nodes
    /// have run (`nodecfg history POOL`).
    #[arg(long, value_name = "REV")]
    to: Option<String>,
    /// Do not pause the pool. The next sync brings back what HEAD says.
    #[arg(long)]
    no_pause: bool,
    /// Why, for those who see that the pool is paused.
    #[arg(long, value_name = "TEXT", value_parser = parse_reason, conflicts_with = "no_pause")]
    reason: Option<String>,
    /// Also move nodes that point at ConfigMaps of others.
    #[arg(long)]
    take_over: bool,
    /// Show the plan and change nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    pace: PaceArgs,
    #[command(flatten)]
    pub(super) reports: ReportArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    binding: BindingArgs,
}

const EXAMPLES: &str = "\
Examples:
  nodecfg rollback gpu --dry-run     what going back to the revision before would do
  nodecfg rollback gpu --to v1.4.0   to a revision by name
  nodecfg resume gpu                 once git says the same";

pub(super) async fn run(args: &Args, format: Format, verbose: u8, terminal: &mut Terminal) -> CommandResult {
    if args.dry_run {
        diff::create_reports(&args.reports)?;
    } else {
        run::require_stream_format(format)?;
        run::create_reports(&args.reports)?;
    }
    let head = args.head(verbose, terminal).await?;
    let named = match &args.to {
        Some(revision) => Some(args.target(&head, revision, terminal).await?),
        None => None,
    };
    let reader = args.cluster.reader(head.label_keys()).await?;
    let reader = args.binding.bind(reader).await?;
    let namespace = args.cluster.namespace(&head.desired, &reader)?;
    let (mut back, revision) = match (named, &args.to) {
        (Some(back), Some(revision)) => (back, revision.clone()),
        _ => {
            let revision = args.chosen(&head, &reader, &namespace, terminal).await?;
            (args.target(&head, &revision, terminal).await?, revision)
        }
    };
    let text = matches!(format, Format::Text | Format::Markdown);
    if back.same && text {
        let message =
            format!("Nothing to roll back: pool {} has the same configuration\nat {revision} as now.", args.pool);
        writeln!(terminal.aside(), "{message}")?;
        return Ok(Exit::Done);
    }
    if !head.unread.is_empty() {
        args.hold(&mut back.loaded, &head, &look(&reader, Some(namespace.as_str())).await?, terminal)?;
    }
    let Back { loaded: back, same } = back;
    let scene = run::scene(&back, &namespace, reader.server());
    run::open(&scene, format, (!args.dry_run).then_some(&args.reports), terminal)?;
    let allowances = Allowances { take_over: args.take_over, allow_empty: false };
    let options = Options {
        // Nothing is touched where there is nothing to go back to, and that is told in the same documents.
        scope: if same { Scope::Nodes(BTreeSet::new()) } else { Scope::Pools([args.pool.clone()].into()) },
        despite_pause: [args.pool.clone()].into(),
        ..allowances.options(namespace, args.repository.gate())
    };
    let place = Place { reader, fleet: head.desired.fleet.clone(), namespace: options.namespace.clone() };
    let pause = Pause {
        by: if args.dry_run || args.no_pause { String::new() } else { place.who().await? },
        at: nodecfg_clock::now(),
        reason: args.reason.clone().unwrap_or_else(|| format!("rolled back to {}", short(&back, &revision))),
    };
    let reconciliation = Reconciliation {
        purpose: Purpose::RollBack,
        loaded: &back,
        side: side_of(&back.snapshot, Some(revision)),
        scene: &scene,
        reader: &place.reader,
        meeting: None,
        options,
        pause: (!args.no_pause && !same).then(|| (args.pool.clone(), pause)),
        pace: &args.pace,
        reports: &args.reports,
        format,
        verbose,
    };
    if args.dry_run {
        let exit = reconciliation.preview(terminal).await?;
        if text && !args.no_pause {
            terminal.out.flush()?;
            writeln!(terminal.aside(), "\nPool {} would be paused as well.", args.pool)?;
        }
        return Ok(exit);
    }
    let exit = reconciliation.carry_out(terminal).await?;
    if text {
        terminal.out.flush()?;
        let pool = &args.pool;
        if args.no_pause {
            writeln!(
                terminal.aside(),
                "\nThe next sync brings back what HEAD says of pool {pool}:\nrevert it in git."
            )?;
        } else {
            writeln!(
                terminal.aside(),
                "\nPool {pool} is paused, so that no sync undoes this.\nRevert it in git, then run: nodecfg resume {pool}"
            )?;
        }
    }
    Ok(exit)
}

/// HEAD, as far as it can be read.
struct Head {
    desired: Desired,
    /// The folders of pools that do not say which nodes they select.
    unread: BTreeSet<String>,
    /// Whether anything is wrong with it.
    invalid: bool,
}

impl Head {
    /// The labels to look at: all, where HEAD leaves it open which pools look at which.
    fn label_keys(&self) -> LabelKeys {
        if self.invalid { LabelKeys::All } else { label_keys(&self.desired) }
    }
}

/// What to go back to.
struct Back {
    /// HEAD with the pool's configuration of the earlier revision.
    loaded: Loaded,
    /// Whether HEAD asks for that already.
    same: bool,
}

impl Args {
    /// HEAD. What is wrong with pools does not matter, as long as it is clear who owns which nodes.
    async fn head(&self, verbose: u8, terminal: &mut Terminal) -> Result<Head, CommandError> {
        let (findings, snapshot) = match self.repository.load(terminal).await {
            Ok(head) => {
                warn(&head, verbose, terminal)?;
                self.require_pool(&head.desired, head.desired.pools.contains_key(&self.pool))?;
                return Ok(Head { desired: head.desired, unread: BTreeSet::new(), invalid: false });
            }
            Err(CommandError::Invalid { findings, snapshot }) => (findings, snapshot),
            Err(failure) => return Err(failure),
        };
        let Some(Frame { desired, unread, errors }) = frame(&snapshot, self.repository.gate()) else {
            return Err(CommandError::Invalid { findings, snapshot });
        };
        let there = desired.pools.contains_key(&self.pool) || unread.contains(self.pool.as_str());
        self.require_pool(&desired, there)?;
        terminal.record.read(&desired.fleet, desired.commit.as_ref());
        let errors = count(errors, "error");
        writeln!(terminal.err, "warning: HEAD is invalid ({errors}; nodecfg validate shows them).")?;
        Ok(Head { desired, unread, invalid: true })
    }

    fn require_pool(&self, desired: &Desired, there: bool) -> Result<(), CommandError> {
        if there { Ok(()) } else { Err(unknown_pool(&self.pool, Some(desired))) }
    }

    /// The revision to go back to where none is named: the newest before that nodes have run.
    async fn chosen(
        &self,
        head: &Head,
        reader: &ClusterReader,
        namespace: &NamespaceName,
        terminal: &mut Terminal,
    ) -> Result<String, CommandError> {
        let Past { mut revisions, end, .. } = Past::read(&self.repository, &self.pool, FAR, terminal).await?;
        let observed = look(reader, Some(namespace.as_str())).await?;
        let fleet = &head.desired.fleet;
        let subject = Subject { fleet, pool: &self.pool, namespace, desired: Some(&head.desired) };
        let _ = subject.find(&mut revisions, &observed, &BTreeSet::new());
        let told = |revision: &Revision| format!("{} ({})", revision.commit.short(), revision.subject);
        match previous(&revisions) {
            Ok(revision) => {
                writeln!(terminal.aside(), "pool {} back to {}", self.pool, told(revision))?;
                Ok(revision.commit.to_string())
            }
            Err(Some(never)) => Err(CommandError::usage(
                format!(
                    "no earlier configuration of pool {} is known to have run: the newest is of {}, and neither is its \
                     ConfigMap in the cluster nor does a node run it",
                    self.pool,
                    told(never)
                ),
                format!(
                    "it was never rolled out, or was pruned; to go there all the same: nodecfg rollback {} --to {}",
                    self.pool,
                    never.commit.short()
                ),
            )),
            Err(None) => {
                let help = crate::report::history::note(end).unwrap_or_else(|| {
                    format!(
                        "`nodecfg history {}` lists its revisions; `nodecfg reset` goes back to the local configuration",
                        self.pool
                    )
                });
                let message = format!("pool {} has no earlier configuration in this repository", self.pool);
                Err(CommandError::usage(message, help))
            }
        }
    }

    /// HEAD with the pool's configuration of the earlier revision.
    async fn target(&self, head: &Head, revision: &str, terminal: &mut Terminal) -> Result<Back, CommandError> {
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
            let help = format!("choose another: `nodecfg history {}`", self.pool);
            return Err(CommandError::usage(message, help));
        };
        let mut desired = head.desired.clone();
        if let PoolTarget::Config(rendered) = &mut then.target {
            // The fleet may have had another name then.
            rendered.config_map = format!("{}-{}-{}", desired.fleet, self.pool, rendered.hash.short());
        }
        let mut same = false;
        let pool = match desired.pools.remove(&self.pool) {
            Some(pool) => {
                // What HEAD asks for is not known where it is invalid.
                same = !head.invalid && is_same(&pool.target, &then.target);
                Pool { target: then.target, ..pool }
            }
            None => {
                writeln!(
                    terminal.err,
                    "warning: pools/{0}/pool.yaml cannot be read at HEAD: its selector and\npolicy are those of {revision}.",
                    self.pool
                )?;
                then
            }
        };
        // It is paused against others.
        let policy = RolloutPolicy { paused: false, ..pool.policy };
        desired.pools.insert(self.pool.clone(), Pool { policy, ..pool });
        desired.commit.clone_from(&earlier.commit);
        Ok(Back { loaded: Loaded { desired, snapshot: earlier, findings: Vec::new() }, same })
    }

    /// Keeps to the nodes that are the pool's for certain: a pool that cannot be read may select any other.
    fn hold(
        &self,
        back: &mut Loaded,
        head: &Head,
        observed: &Observed,
        terminal: &mut Terminal,
    ) -> Result<(), CommandError> {
        let Some(pool) = back.desired.pools.get_mut(&self.pool) else { return Ok(()) };
        let held = held(&back.desired.fleet, pool, observed);
        let unread = names(head.unread.iter().map(String::as_str), 3);
        if held.is_empty() {
            return Err(CommandError::usage(
                format!("it is open which nodes are of pool {}: HEAD does not say which {unread} selects", self.pool),
                "no node is on a ConfigMap of the pool; mend pool.yaml, or begin at a revision that is valid: --rev",
            ));
        }
        writeln!(
            terminal.err,
            "warning: HEAD does not say which nodes these pools select: {unread}.\n\
             Only nodes on ConfigMaps of pool {} are touched: {}.",
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

fn short(loaded: &Loaded, revision: &str) -> String {
    loaded.desired.commit.as_ref().map_or_else(|| revision.to_owned(), |commit| commit.short().to_string())
}
