//! `nodecfg validate`: are these repositories and configurations good?

use std::io::{BufRead as _, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::git_args::{GitArgs, Which};
use super::reports::ReportArgs;
use super::repository_args::parse_kubernetes_version;
use super::signers_args::SignersArgs;
use super::{CommandError, CommandResult, Exit, Terminal, actions};
use crate::report::findings::{Texts, WIDTH};
use crate::report::validation::{Batch, FileReport, Location, Renderer, Shape, Totals, annotations, renderer};
use crate::repository::read_file;
use crate::repository::signature::Signers;
use kubelet_config::Minor;
use kubelet_config::finding::{Finding, Place, Strictness};
use kubelet_config::minor::NEWEST_RELEASED;
use nodecfg_planning::desired::{Built, CheckedPool, Checks, Kubelets, build, check_file};
use nodecfg_planning::snapshot::text::is_candidate;
use nodecfg_planning::snapshot::{Snapshot, SnapshotFile};

/// Check repositories and KubeletConfiguration files, and report everything that is wrong with them.
///
/// Says what kubelets of the versions in question would do with each configuration, and what nodecfg finds beyond that.
/// Notes, and what only a node's host can tell, are counted; -v shows them. Needs no cluster. Ends with exit code 3 when a
/// file cannot be read, has an error, or when there is nothing to check.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Repositories (folders, or addresses such as https://host/path), KubeletConfiguration files, or - for standard input
    /// [default: .]
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Also check the files named in this one, one a line; - for standard input.
    #[arg(long, value_name = "FILE")]
    files_from: Option<PathBuf>,
    /// Kubelet versions to check for, such as 1.36; several with commas. Default: what a pool's spec.kubernetesVersion
    /// says, or else the newest release that nodecfg knows.
    #[arg(long, value_name = "VERSION", value_delimiter = ',', value_parser = parse_kubernetes_version)]
    kubernetes_version: Vec<Minor>,
    /// Only warn of what the kubelet would drop or misread without a word: unknown fields, duplicate keys, ambiguous values.
    #[arg(long)]
    lenient: bool,
    /// Branch, tag or commit to read, instead of HEAD. Uncommitted changes are never part of it.
    #[arg(long, value_name = "REV", env = "NODECFG_REV", conflicts_with = "worktree")]
    rev: Option<String>,
    /// Read the files as they lie in the folder, uncommitted changes included.
    #[arg(long)]
    worktree: bool,
    #[command(flatten)]
    git: GitArgs,
    #[command(flatten)]
    pub(super) reports: ReportArgs,
    #[command(flatten)]
    signers: SignersArgs,
}

const EXAMPLES: &str = "\
Examples:
  nodecfg validate                                     the repository here
  nodecfg validate --kubernetes-version 1.36,1.37      before an upgrade
  nodecfg validate nodes/*.yaml --lenient              files on their own
  git ls-files '*kubelet*.yaml' | nodecfg validate --files-from -
  nodecfg validate -o sarif > nodecfg.sarif            for code scanning";

pub(super) async fn run(args: &Args, shape: Shape, verbose: u8, terminal: &mut Terminal) -> CommandResult {
    let targets = args.targets()?;
    args.reports.create(|output| output.shape().map(drop))?;
    let location = actions::location();
    let mut run = Run {
        checks: args.checks(),
        alone: targets.len() == 1,
        verbose: verbose > 0,
        renderer: renderer(shape, verbose > 0, terminal.out_width, location.clone()),
        reports: args
            .reports
            .writers()?
            .into_iter()
            .map(|(output, out)| Ok((renderer(output.shape()?, verbose > 0, WIDTH, location.clone()), out)))
            .collect::<Result<_, CommandError>>()?,
        totals: Totals::default(),
        annotated: actions::are_here().then_some(location),
        signers: args.signers.read()?,
    };
    for (index, target) in targets.iter().enumerate() {
        let which = Which { signers: run.signers.clone(), ..args.which(target) };
        // What a list names, or what is called like a configuration, is a file even where it is missing.
        let named = index < args.paths.len() && !is_candidate(&target.to_string_lossy()) && !target.exists();
        if target != Path::new("-") && (target.is_dir() || (named && which.remote()?.is_some())) {
            run.repository(which, terminal).await?;
        } else if args.worktree || args.rev.is_some() || args.signers.are_given() {
            return Err(CommandError::usage(
                format!(
                    "--rev, --worktree and --verify-commits are about repositories, and {} is a file",
                    target.display()
                ),
                "name the folder of the repository, or leave the option out: files are read as they are",
            ));
        } else {
            run.file(target, terminal)?;
        }
    }
    if run.totals.files == 0 && run.totals.pools == 0 && run.totals.errors == 0 {
        run.nothing("no file was named", terminal)?;
    }
    run.renderer.finish(&mut terminal.out, &run.totals)?;
    for (renderer, out) in &mut run.reports {
        renderer.finish(out, &run.totals)?;
        out.flush()?;
    }
    Ok(if run.totals.is_valid() { Exit::Done } else { Exit::InvalidRepository })
}

impl Args {
    /// Everything that is to be checked, in the order in which it was named.
    fn targets(&self) -> Result<Vec<PathBuf>, CommandError> {
        let mut targets = self.paths.clone();
        if let Some(list) = &self.files_from {
            let cannot = |error: std::io::Error| {
                let message = format!("cannot read the list of files {}: {error}", list.display());
                CommandError::usage(message, "name a text file with one path a line, or - for standard input")
            };
            let source: Box<dyn Read> = if list == Path::new("-") {
                Box::new(std::io::stdin())
            } else {
                Box::new(std::fs::File::open(list).map_err(cannot)?)
            };
            for line in BufReader::new(source).lines() {
                let line = line.map_err(cannot)?;
                if !line.trim().is_empty() {
                    targets.push(PathBuf::from(line.trim_end_matches('\r')));
                }
            }
        } else if targets.is_empty() {
            targets.push(PathBuf::from("."));
        }
        Ok(targets)
    }

    fn which<'a>(&'a self, repository: &'a Path) -> Which<'a> {
        Which { repository, revision: self.rev.as_deref(), worktree: self.worktree, git: &self.git, signers: None }
    }

    fn checks(&self) -> Checks {
        let mut minors = self.kubernetes_version.clone();
        minors.sort_unstable();
        minors.dedup();
        Checks {
            gate: if self.lenient { Strictness::Lenient } else { Strictness::Strict },
            kubelets: if minors.is_empty() {
                Kubelets::Declared(vec![NEWEST_RELEASED])
            } else {
                Kubelets::Given(minors)
            },
        }
    }
}

/// One run over many targets. Nothing of a target is kept once it is reported.
struct Run {
    checks: Checks,
    /// Whether there is one target only: then paths within a repository need not say which.
    alone: bool,
    verbose: bool,
    renderer: Box<dyn Renderer>,
    /// The other outputs that are asked for.
    reports: Vec<(Box<dyn Renderer>, Box<dyn Write + Send>)>,
    totals: Totals,
    /// Where annotations point, if any are wanted.
    annotated: Option<Location>,
    /// Who must have signed the commits.
    signers: Option<Arc<Signers>>,
}

impl Run {
    fn file(&mut self, path: &Path, terminal: &mut Terminal) -> Result<(), CommandError> {
        let name = if path == Path::new("-") { "stdin".to_owned() } else { path.to_string_lossy().into_owned() };
        let mut report = FileReport { file: name.clone(), ..FileReport::default() };
        let mut text = None;
        match read_file(path, &name) {
            SnapshotFile::Unusable(finding) => report.findings.push(*finding),
            SnapshotFile::Text(read) => {
                let minors = self.checks.kubelets.among(&[]);
                let checked = check_file(&name, &read, minors, self.checks.gate);
                (report.verdicts, report.findings) = (checked.verdicts, checked.findings);
                self.assume(&report.verdicts);
                text = Some(read);
            }
        }
        self.totals.files += 1;
        let texts = OneText { name, text };
        self.report(&Batch { root: "", files: &[report], findings: &[], texts: &texts }, terminal)
    }

    async fn repository(&mut self, which: Which<'_>, terminal: &mut Terminal) -> Result<(), CommandError> {
        let name = which.root();
        let snapshot = match which.snapshot(terminal).await {
            Ok(snapshot) => snapshot,
            Err(CommandError::Repository(error)) if !self.alone => {
                let finding = Finding::error("repository", error.to_string()).help(error.help());
                return self.general(&[finding], terminal);
            }
            Err(failure) => return Err(failure),
        };
        let Built { desired, mut findings, checked } = build(&snapshot, &self.checks);
        self.totals.pools += desired.as_ref().map_or(checked.len(), |desired| desired.pools.len());
        for pool in checked.iter().filter(|pool| !pool.declared) {
            self.assume(&pool.verdicts);
        }
        if desired.is_some_and(|desired| desired.pools.is_empty()) {
            findings.retain(|finding| finding.code != "no-pools");
            let mut nothing = nothing_checked(&format!("{name} has no pools"));
            if !snapshot.files.is_empty() {
                // Most likely files on their own, which a folder alone does not say.
                let help = format!("to check its files one by one: `nodecfg validate {name}/*.yaml`");
                nothing = nothing.help(help);
            }
            findings.insert(0, nothing);
        }
        let prefix = if self.alone { String::new() } else { format!("{name}/") };
        let (files, others) = by_file(&snapshot, findings, checked, &prefix);
        let root = if self.alone { name } else { String::new() };
        let texts = Rooted { prefix: &prefix, snapshot: &snapshot };
        self.report(&Batch { root: &root, files: &files, findings: &others, texts: &texts }, terminal)
    }

    fn nothing(&mut self, why: &str, terminal: &mut Terminal) -> Result<(), CommandError> {
        self.general(&[nothing_checked(why)], terminal)
    }

    fn general(&mut self, findings: &[Finding], terminal: &mut Terminal) -> Result<(), CommandError> {
        let texts = OneText { name: String::new(), text: None };
        self.report(&Batch { root: "", files: &[], findings, texts: &texts }, terminal)
    }

    fn report(&mut self, batch: &Batch<'_>, terminal: &mut Terminal) -> Result<(), CommandError> {
        self.totals.add(batch);
        self.renderer.batch(&mut terminal.out, batch)?;
        for (renderer, out) in &mut self.reports {
            renderer.batch(out, batch)?;
        }
        if let Some(location) = &self.annotated {
            annotations::write(&mut terminal.err, batch, location, self.verbose)?;
        }
        Ok(())
    }

    /// Remembers that nobody named the version of these answers.
    fn assume(&mut self, verdicts: &[kubelet_config::verdict::Verdict]) {
        if matches!(self.checks.kubelets, Kubelets::Declared(_)) {
            self.totals.assumed = verdicts.first().map(|verdict| verdict.minor).or(self.totals.assumed);
        }
    }
}

fn nothing_checked(why: &str) -> Finding {
    Finding::error("nothing-checked", format!("nothing was checked: {why}")).help(
        "name a repository, which has its pools in folders pools/<pool>, or KubeletConfiguration files one by one, as in \
         `nodecfg validate nodes/*.yaml`",
    )
}

/// The findings and verdicts of a repository by file; what belongs to no file comes apart.
fn by_file(
    snapshot: &Snapshot,
    findings: Vec<Finding>,
    checked: Vec<CheckedPool>,
    prefix: &str,
) -> (Vec<FileReport>, Vec<Finding>) {
    let mut files: std::collections::BTreeMap<String, FileReport> = std::collections::BTreeMap::new();
    for file in snapshot.files.keys() {
        files.insert(file.clone(), FileReport::default());
    }
    let mut others = Vec::new();
    for mut finding in findings {
        let file = finding.place.as_ref().map(|place| place.file.to_string());
        for place in finding.place.iter_mut().chain(finding.related.iter_mut().map(|(place, _)| place)) {
            root(place, prefix);
        }
        match file {
            Some(file) => files.entry(file).or_default().findings.push(finding),
            None => others.push(finding),
        }
    }
    for mut pool in checked {
        for verdict in &mut pool.verdicts {
            verdict.unknown.iter_mut().for_each(|unknown| root(&mut unknown.place, prefix));
        }
        files.entry(pool.path).or_default().verdicts = pool.verdicts;
    }
    let reports = files.into_iter().map(|(file, report)| FileReport { file: format!("{prefix}{file}"), ..report });
    (reports.collect(), others)
}

fn root(place: &mut Place, prefix: &str) {
    if !prefix.is_empty() {
        place.file = format!("{prefix}{}", place.file).into();
    }
}

/// The text of a file that was named on its own.
struct OneText {
    name: String,
    text: Option<Arc<str>>,
}

impl Texts for OneText {
    fn text_of(&self, file: &str) -> Option<&Arc<str>> {
        if file == self.name { self.text.as_ref() } else { None }
    }
}

/// The texts of a repository among several.
struct Rooted<'a> {
    prefix: &'a str,
    snapshot: &'a Snapshot,
}

impl Texts for Rooted<'_> {
    fn text_of(&self, file: &str) -> Option<&Arc<str>> {
        self.snapshot.text(file.strip_prefix(self.prefix)?)
    }
}
