//! `nodecfg diff`: what a change does, to a cluster or between two revisions.

use std::io::Write;
use std::path::PathBuf;

use super::against::{Against, declared, side};
use super::cluster_args::{BindingArgs, ClusterArgs, label_keys_of};
use super::observe::{Allowances, plan, warn, warn_of_plan};
use super::reports::ReportArgs;
use super::repository_args::{Loaded, RepositoryArgs};
use super::telemetry::MetricsArgs;
use super::{CommandError, CommandResult, Exit, Terminal, plan_file, run};
use crate::report::{self, Format, findings, review as shown};
use crate::review::{Review, moves, of_plan};
use kubelet_config::finding::Severity;
use kubelet_config::minor::NEWEST_RELEASED;
use nodecfg_planning::plan::saved::SavedPlan;

/// Show what a sync or a merge would do: which fields change, what that does to running pods, on which nodes, in which order.
///
/// Changes nothing. With --against it compares two revisions, and asks no cluster unless --kubeconfig or --context names one.
/// With -v each field says why it has its class of risk, and by which source. Ends with exit code 1 when there is something to
/// change.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) repository: RepositoryArgs,
    /// Compare with this revision of the repository instead of with a cluster. With --kubeconfig or --context, show also what
    /// that does to the nodes of the cluster.
    #[arg(long, value_name = "REV")]
    against: Option<String>,
    /// Keep markdown on standard output within so many characters, at least 2000, by leaving out details of the pools with the
    /// least risk; what is left out is said. A comment on GitHub holds 65536.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(shown::LEAST_CHARS..))]
    max_chars: Option<u32>,
    #[command(flatten)]
    pub(super) reports: ReportArgs,
    #[command(flatten)]
    allowances: Allowances,
    /// Save the plan to a file. `nodecfg sync --plan FILE` carries out exactly that, or says what has changed since.
    #[arg(long, value_name = "FILE", value_parser = plan_file::parse_path)]
    out: Option<PathBuf>,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    binding: BindingArgs,
    #[command(flatten)]
    pub(super) metrics: MetricsArgs,
}

const EXAMPLES: &str = "\
Examples:
  nodecfg diff                        the commit that is checked out here, and the cluster
  nodecfg diff --rev origin/main      another revision
  nodecfg diff --worktree             uncommitted changes too
  nodecfg diff --against origin/main  what a merge changes, without a cluster
  nodecfg diff --against origin/main -o markdown --max-chars 65536
                                      the same as a comment on a pull request
  nodecfg diff --out plan.json        for `nodecfg sync --plan plan.json`, once it is approved";

pub(super) async fn run(args: &Args, format: Format, verbose: u8, terminal: &mut Terminal) -> CommandResult {
    if args.max_chars.is_some() && format != Format::Markdown {
        return Err(CommandError::usage("--max-chars is about markdown alone", "add -o markdown, or leave it out"));
    }
    create_reports(&args.reports)?;
    let loaded = args.repository.load(terminal).await?;
    let base = match &args.against {
        Some(revision) => Some(Against::load(&args.repository, revision, terminal).await?),
        None => None,
    };
    let (review, saved) = match &base {
        Some(_) if !args.cluster.is_named() && args.out.is_some() => {
            return Err(CommandError::usage(
                "--out saves a plan for a cluster, and --against alone asks none",
                "name the cluster with --kubeconfig or --context, or leave --out away",
            ));
        }
        Some(_) if !args.cluster.is_named() && (args.allowances.take_over || args.allowances.allow_empty) => {
            return Err(CommandError::usage(
                "--take-over and --allow-empty are about what a cluster has, and --against alone asks none",
                "name the cluster with --kubeconfig or --context, or leave them away",
            ));
        }
        Some(base) if !args.cluster.is_named() => (args.offline(base, &loaded, format, verbose, terminal)?, None),
        base => args.online(base.as_ref(), &loaded, format, verbose, terminal).await?,
    };
    write(&review, format, args.max_chars, &args.reports, verbose, terminal)?;
    if let (Some(path), Some(saved)) = (&args.out, saved) {
        plan_file::save(path, &saved, format, terminal)?;
    }
    Ok(if review.is_changed() { Exit::Changes } else { Exit::Done })
}

impl Args {
    /// Compares two revisions, and asks the kubelets that the pools declare what they do with the new one.
    fn offline(
        &self,
        base: &Against,
        loaded: &Loaded,
        format: Format,
        verbose: u8,
        terminal: &mut Terminal,
    ) -> Result<Review, CommandError> {
        let found = declared(loaded, self.repository.gate())?;
        let mut review = base.compare(&side(&self.repository, loaded), loaded);
        if matches!(format, Format::Text | Format::Markdown) {
            writeln!(terminal.aside(), "{}\n", shown::opening(&review))?;
            let told = found.iter().filter(|finding| !matches!(finding.code, "not-in-git" | "verified-commit"));
            findings::remarks(&mut terminal.err, &loaded.snapshot, told, verbose > 0, terminal.err_width)?;
        }
        review.findings = found.into_iter().filter(|finding| finding.severity != Severity::Note).collect();
        let undeclared = loaded.desired.pools.values().any(|pool| pool.kubelets.is_empty());
        review.assumed_version = undeclared.then_some(NEWEST_RELEASED);
        Ok(review)
    }

    /// Looks at the cluster, and at the base revision where there is one; and with `--out` makes what is to be saved.
    async fn online(
        &self,
        base: Option<&Against>,
        loaded: &Loaded,
        format: Format,
        verbose: u8,
        terminal: &mut Terminal,
    ) -> Result<(Review, Option<SavedPlan>), CommandError> {
        warn(loaded, verbose, terminal)?;
        let old = base.and_then(|base| base.desired());
        let reader = self.cluster.reader(label_keys_of(old.into_iter().chain([&loaded.desired]))).await?;
        let cluster = match &self.out {
            Some(_) => Some(plan_file::identify(&reader).await?),
            None => None,
        };
        let reader = self.binding.bind(reader).await?;
        let namespace = self.cluster.namespace(&loaded.desired, &reader)?;
        run::open(&run::scene(loaded, &namespace, reader.server()), format, None, terminal)?;
        let options = self.allowances.options(namespace, self.repository.gate());
        let planned = plan(loaded, &reader, None, options).await?;
        let (plan, observed) = (&planned.plan, &planned.observed);
        terminal.record.planned(plan);
        warn_of_plan(plan, loaded, format, verbose, terminal)?;
        let to = side(&self.repository, loaded);
        let review = match base {
            None => of_plan(to, &loaded.desired, plan),
            Some(base) => {
                let moved = old.map(|old| moves(old, &loaded.desired, &observed.nodes)).unwrap_or_default();
                base.compare(&to, loaded).with_plan(&loaded.desired, plan, moved)
            }
        };
        let saved = cluster.map(|cluster| {
            let named = self.cluster.named_namespace().cloned();
            SavedPlan::of(plan, &plan_file::circumstances(cluster, &reader, &planned, named))
        });
        Ok((review, saved))
    }
}

/// The reports of a review: all that there is for people and for programs.
pub(super) fn create_reports(reports: &ReportArgs) -> Result<(), CommandError> {
    reports.create(|output| output.format().map(drop))
}

/// Writes a review in any format, and its reports. These are whole: `max_chars` is about what goes to standard output.
pub(super) fn write(
    review: &Review,
    format: Format,
    max_chars: Option<u32>,
    reports: &ReportArgs,
    verbose: u8,
    terminal: &mut Terminal,
) -> Result<(), CommandError> {
    let max_chars = max_chars.map(|number| usize::try_from(number).unwrap_or(usize::MAX));
    let width = terminal.out_width;
    reports.each(|output, out| write_one(out, review, output.format()?, None, verbose, findings::WIDTH))?;
    write_one(&mut terminal.out, review, format, max_chars, verbose, width)
}

fn write_one(
    out: &mut dyn Write,
    review: &Review,
    format: Format,
    max_chars: Option<usize>,
    verbose: u8,
    width: usize,
) -> Result<(), CommandError> {
    match format {
        Format::Text => shown::text(out, review, verbose > 0, width)?,
        Format::Markdown => shown::markdown(out, review, max_chars)?,
        Format::Json => report::json(out, &shown::document(review)?)?,
        Format::Yaml => report::yaml(out, &shown::document(review)?)?,
    }
    Ok(())
}
