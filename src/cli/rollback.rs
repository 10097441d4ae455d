//! `nodecfg rollback`: a pool back to an earlier revision.

use super::against::side_of;
use super::cluster_args::{BindingArgs, ClusterArgs, label_keys};
use super::observe::{Allowances, warn};
use super::order_args::{Place, parse_reason};
use super::past::{Past, unknown_pool};
use super::reconcile::{PaceArgs, Reconciliation};
use super::reports::ReportArgs;
use super::repository_args::{Loaded, RepositoryArgs};
use super::run::{self, Purpose};
use super::{Exit, Failure, Terminal, diff};
use crate::clock;
use crate::desired::{Draft, PoolTarget, draft};
use crate::history::{Content, content_of, previous};
use crate::names::PoolName;
use crate::observed::Pause;
use crate::plan::{Options, Scope};
use crate::report::Format;
use crate::repository::Snapshot;

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
    /// The revision to go back to, instead of the newest one before with another configuration of the pool (`nodecfg history POOL`).
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

pub(super) async fn run(args: &Args, format: Format, verbose: u8, terminal: &mut Terminal) -> Result<Exit, Failure> {
    if args.dry_run {
        diff::create_reports(&args.reports)?;
    } else {
        run::require_stream_format(format)?;
        run::create_reports(&args.reports)?;
    }
    let head = args.repository.load(terminal).await?;
    warn(&head, verbose, terminal)?;
    let revision = args.revision(&head, terminal).await?;
    let earlier = args.repository.load_signed(&revision, terminal).await?;
    let Some(back) = args.back(&head, &earlier, &revision)? else {
        if matches!(format, Format::Text | Format::Markdown) {
            writeln!(
                terminal.err,
                "Nothing to roll back: pool {} has the same configuration at {revision} as now.",
                args.pool
            )?;
        }
        return Ok(Exit::Done);
    };
    let reader = args.cluster.reader(label_keys(&back.desired)).await?;
    let reader = args.binding.bind(reader).await?;
    let namespace = args.cluster.namespace(&head.desired, &reader)?;
    let scene = run::scene(&back, &namespace, reader.server());
    run::open(&scene, format, (!args.dry_run).then_some(&args.reports), terminal)?;
    let allowances = Allowances { take_over: args.take_over, allow_empty: false };
    let options = Options {
        scope: Scope::Pools([args.pool.clone()].into()),
        despite_pause: [args.pool.clone()].into(),
        ..allowances.options(namespace, args.repository.gate())
    };
    let place = Place { reader, fleet: head.desired.fleet.clone(), namespace: options.namespace.clone() };
    let pause = Pause {
        by: if args.dry_run || args.no_pause { String::new() } else { place.who().await? },
        at: clock::now(),
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
        pause: (!args.no_pause).then(|| (args.pool.clone(), pause)),
        pace: &args.pace,
        reports: &args.reports,
        format,
        verbose,
    };
    let text = matches!(format, Format::Text | Format::Markdown);
    if args.dry_run {
        let exit = reconciliation.preview(terminal).await?;
        if text && !args.no_pause {
            terminal.out.flush()?;
            writeln!(terminal.err, "\nPool {} would be paused as well.", args.pool)?;
        }
        return Ok(exit);
    }
    let exit = reconciliation.carry_out(terminal).await?;
    if text {
        terminal.out.flush()?;
        let pool = &args.pool;
        if args.no_pause {
            writeln!(terminal.err, "\nThe next sync brings back what HEAD says of pool {pool}: revert it in git.")?;
        } else {
            writeln!(
                terminal.err,
                "\nPool {pool} is paused, so that no sync undoes this. Revert it in git, then run: nodecfg resume {pool}"
            )?;
        }
    }
    Ok(exit)
}

impl Args {
    /// The revision to go back to.
    async fn revision(&self, head: &Loaded, terminal: &mut Terminal) -> Result<String, Failure> {
        if !head.desired.pools.contains_key(&self.pool) {
            let draft = Draft { desired: Some(head.desired.clone()), errors: Vec::new() };
            return Err(unknown_pool(&self.pool, &draft));
        }
        if let Some(revision) = &self.to {
            return Ok(revision.clone());
        }
        let Past { revisions, end, .. } = Past::read(&self.repository, &self.pool, FAR, terminal).await?;
        if let Some(revision) = previous(&revisions) {
            return Ok(revision.commit.to_string());
        }
        let help = crate::report::history::note(end).unwrap_or_else(|| {
            format!(
                "`nodecfg history {}` lists its revisions; `nodecfg reset` goes back to the local configuration",
                self.pool
            )
        });
        Err(Failure::usage(format!("pool {} has no earlier configuration in this repository", self.pool), help))
    }

    /// HEAD with the pool's configuration of the earlier revision. `None`: that is the same.
    fn back(&self, head: &Loaded, earlier: &Snapshot, revision: &str) -> Result<Option<Loaded>, Failure> {
        let gate = self.repository.gate();
        let problem = match content_of(earlier, &self.pool, gate) {
            Content::Config { .. } | Content::Local => None,
            Content::Absent => Some(format!("revision {revision} has no pool {}", self.pool)),
            Content::Invalid { problem } => {
                Some(format!("the configuration of pool {} is invalid at revision {revision}: {problem}", self.pool))
            }
        };
        let target = draft(earlier, gate)
            .desired
            .and_then(|mut desired| desired.pools.remove(&self.pool))
            .map(|pool| pool.target)
            .filter(|_| problem.is_none());
        let Some(mut target) = target else {
            let message = problem.unwrap_or_else(|| format!("revision {revision} cannot be read"));
            let help = format!("choose another: `nodecfg history {}`", self.pool);
            return Err(Failure::usage(message, help));
        };
        let mut desired = head.desired.clone();
        let Some(pool) = desired.pools.get_mut(&self.pool) else { return Ok(None) };
        let same = match (&pool.target, &target) {
            (PoolTarget::Local, PoolTarget::Local) => true,
            (PoolTarget::Config(now), PoolTarget::Config(then)) => now.hash == then.hash,
            _ => false,
        };
        if same {
            return Ok(None);
        }
        if let PoolTarget::Config(rendered) = &mut target {
            // The fleet may have had another name then.
            rendered.config_map = format!("{}-{}-{}", desired.fleet, self.pool, rendered.hash.short());
        }
        pool.target = target;
        // It is paused against others.
        pool.policy.paused = false;
        desired.commit.clone_from(&earlier.commit);
        Ok(Some(Loaded { desired, snapshot: earlier.clone(), findings: Vec::new() }))
    }
}

fn short(loaded: &Loaded, revision: &str) -> String {
    loaded.desired.commit.as_ref().map_or_else(|| revision.to_owned(), |commit| commit.short().to_string())
}
