//! `nodecfg diff`: shows the effect of a revision on a cluster, or the difference between two revisions.

use std::path::PathBuf;

use super::{CommandError, CommandResult, Exit, Terminal};
use crate::arguments::cluster::{BoundClusterArgs, label_keys_of};
use crate::arguments::reports::ReportArgs;
use crate::arguments::repository::{Loaded, RepositoryArgs};
use crate::arguments::scope::ScopeArgs;
use crate::arguments::telemetry::MetricsArgs;
use crate::layout;
use crate::report::document::markdown::LEAST_CHARS;
use crate::report::{Format, review as shown};
use crate::repository::merged_into;
use crate::review::{Review, moves, of_plan};
use crate::runs::comparison::{ComparisonBase, declared, side};
use crate::runs::drain_forecast::with_drained_pods;
use crate::runs::kubelet_samples::KubeletArgs;
use crate::runs::planning::{Allowances, plan, warn, warn_of};
use crate::runs::{plan_file, run, write_review};
use kubelet_config::NEWEST_RELEASED;
use kubelet_config::finding::Severity;
use nodecfg_contract::names::{CommitId, NameError};
use nodecfg_plan::Options;
use nodecfg_plan::saved::SavedPlan;

/// Show what a sync or a merge would change: fields, effects on running pods, nodes and their order.
///
/// Changes nothing. With --against or --merge-of it compares two revisions, and contacts a cluster only if --kubeconfig or
/// --context is given. -v adds the reason and source of each risk class. Exits with code 1 if there are changes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) repository: RepositoryArgs,
    /// Compare with this revision of the repository instead of a cluster. Add --kubeconfig or --context to show
    /// affected nodes too.
    #[arg(long, value_name = "REV")]
    against: Option<String>,
    /// Compare the merge commit of COMMIT with its first parent, the branch that it merges into. Fails if the revision
    /// is not this merge commit.
    #[arg(long, value_name = "COMMIT", value_parser = parse_commit, conflicts_with_all = ["against", "worktree"])]
    merge_of: Option<CommitId>,
    /// Limit markdown on standard output to N characters (at least 2000) by omitting details of low-risk pools, with a
    /// note. A GitHub comment holds 65536.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(LEAST_CHARS..))]
    max_chars: Option<u32>,
    #[command(flatten)]
    pub(super) reports: ReportArgs,
    #[command(flatten)]
    allowances: Allowances,
    /// Save the plan to FILE, for `nodecfg sync --plan FILE`. With the same options, it applies exactly this plan, or
    /// fails if anything changed.
    #[arg(long, value_name = "FILE", value_parser = plan_file::parse_path, conflicts_with_all = ["pool", "selector"])]
    out: Option<PathBuf>,
    #[command(flatten)]
    scope: ScopeArgs,
    #[command(flatten)]
    kubelets: KubeletArgs,
    #[command(flatten)]
    bound: BoundClusterArgs,
    #[command(flatten)]
    pub(super) metrics: MetricsArgs,
}

const EXAMPLES: &str = "\
Examples:
  nodecfg diff                        compare the commit checked out here with the cluster
  nodecfg diff --rev origin/main      compare another revision
  nodecfg diff --worktree             include uncommitted changes
  nodecfg diff --against origin/main  show what a merge changes, without a cluster
  nodecfg diff --against origin/main -o markdown --max-chars 65536
                                      the same as a pull request comment
  nodecfg diff --out plan.json        save the plan for `nodecfg sync --plan plan.json`";

pub(super) async fn run(args: &Args, format: Format, verbose: u8, terminal: &mut Terminal) -> CommandResult {
    if args.max_chars.is_some() && format != Format::Markdown {
        return Err(CommandError::usage("--max-chars requires -o markdown", "add -o markdown"));
    }
    write_review::create_reports(&args.reports)?;
    let against = args.base()?;
    let loaded = args.repository.load(terminal).await?;
    let base = match against {
        Some(revision) => Some(ComparisonBase::load(&args.repository, &revision, terminal).await?),
        None => None,
    };
    let (review, saved) = match &base {
        Some(_) if !args.bound.cluster.is_named() && args.out.is_some() => {
            return Err(CommandError::usage(
                "--out saves a plan for a cluster, and a comparison of revisions reads none",
                "name the cluster with --kubeconfig or --context",
            ));
        }
        Some(_) if !args.bound.cluster.is_named() && (args.allowances.take_over || args.allowances.allow_empty) => {
            return Err(CommandError::usage(
                "--take-over and --allow-empty depend on a cluster, and a comparison of revisions reads none",
                "name the cluster with --kubeconfig or --context",
            ));
        }
        Some(_) if !args.bound.cluster.is_named() && args.scope.is_limited() => {
            return Err(CommandError::usage(
                "--pool and --selector choose nodes of a cluster, and a comparison of revisions reads none",
                "name the cluster with --kubeconfig or --context",
            ));
        }
        Some(base) if !args.bound.cluster.is_named() => (args.offline(base, &loaded, format, verbose, terminal)?, None),
        base => args.online(base.as_ref(), &loaded, format, verbose, terminal).await?,
    };
    let written = write_review::write("diff", &review, format, args.max_chars, &args.reports, verbose, terminal);
    let exit = written.max(if review.is_changed() { Exit::Changes } else { Exit::Done });
    let Some((path, saved)) = args.out.as_ref().zip(saved) else { return Ok(exit) };
    let command = plan_file::sync_command(path, &saved.options, &args.repository, &args.bound);
    Ok(match plan_file::save(path, &saved, &command, format, terminal) {
        Ok(()) => exit,
        // The review is printed already. A second document would make it unreadable.
        Err(failure) => terminal.end(exit, Ok(()), &[failure]),
    })
}

impl Args {
    /// Name of the command in metrics. A limited run has its own name, because it does not compare all nodes.
    pub(super) fn name(&self) -> &'static str {
        if self.scope.is_limited() { "diff-limited" } else { "diff" }
    }

    /// The revision to compare with, if any.
    fn base(&self) -> Result<Option<String>, CommandError> {
        let Some(merged) = &self.merge_of else { return Ok(self.against.clone()) };
        Ok(Some(merged_into(&self.repository.history_options()?, merged)?.as_str().to_owned()))
    }

    /// Compares two revisions, and checks the new one for the kubelet versions that the pools declare.
    fn offline(
        &self,
        base: &ComparisonBase,
        loaded: &Loaded,
        format: Format,
        verbose: u8,
        terminal: &mut Terminal,
    ) -> Result<Review, CommandError> {
        let mut found = declared(loaded, self.repository.gate())?;
        let mut review = base.compare(&side(&self.repository, loaded), loaded);
        found.append(&mut review.findings);
        if format.is_for_people() {
            let line = layout::hanging(&shown::header_line(&review), 2, terminal.err_line);
            writeln!(terminal.info(), "{line}\n")?;
            warn_of(found.iter(), loaded, verbose, terminal)?;
        }
        review.findings = found.into_iter().filter(|finding| finding.severity != Severity::Note).collect();
        let undeclared = loaded.desired.pools.values().any(|pool| pool.kubelets.is_empty());
        review.assumed_version = undeclared.then_some(NEWEST_RELEASED);
        Ok(review)
    }

    /// Compares the loaded revision with the cluster, and with the base revision if any. With `--out`, also returns
    /// the plan to save.
    async fn online(
        &self,
        base: Option<&ComparisonBase>,
        loaded: &Loaded,
        format: Format,
        verbose: u8,
        terminal: &mut Terminal,
    ) -> Result<(Review, Option<SavedPlan>), CommandError> {
        loaded.record(terminal);
        let old = base.and_then(|base| base.desired());
        let keys = self.scope.label_keys(label_keys_of(old.into_iter().chain([&loaded.desired])));
        let reader = self.bound.cluster.reader(keys).await?;
        let cluster = match &self.out {
            Some(_) => Some(plan_file::identify(&reader).await?),
            None => None,
        };
        let reader = self.bound.binding.bind(reader).await?;
        let namespace = self.bound.cluster.namespace(&loaded.desired, &reader)?;
        run::print_header(&run::header(loaded, &namespace, reader.server()), format, None, terminal)?;
        let scope = self.scope.resolve(&loaded.desired, &reader, &namespace).await?;
        let options = Options { scope, ..self.allowances.options(namespace, self.repository.gate()) };
        let planned = plan(loaded, &reader, None, options, self.kubelets).await?;
        let (plan, observed) = (&planned.plan, &planned.observed);
        terminal.record.planned(plan, observed);
        warn(plan, loaded, format, verbose, terminal)?;
        let to = side(&self.repository, loaded);
        let now = nodecfg_clock::now();
        let review = match base {
            None => of_plan(to, &loaded.desired, plan, now),
            Some(base) => {
                let moved = old.map(|old| moves(old, &loaded.desired, &observed.nodes)).unwrap_or_default();
                base.compare(&to, loaded).with_plan(&loaded.desired, plan, moved, now)
            }
        };
        let review = with_drained_pods(review, plan, &reader).await;
        let saved = cluster.map(|cluster| {
            let given = plan_file::given(self.allowances, &self.repository, &self.bound);
            plan_file::saved(cluster, &reader, &planned, given)
        });
        Ok((review, saved))
    }
}

/// Parses a full commit id.
fn parse_commit(text: &str) -> Result<CommitId, NameError> {
    CommitId::new(text)
}
