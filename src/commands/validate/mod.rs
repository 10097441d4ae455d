//! `nodecfg validate`: checks repositories, parts of them, and single files.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::io::{BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{CommandError, CommandResult, Exit, Terminal};
use crate::arguments::output::require_findings;
use crate::arguments::reports::{OpenReport, ReportArgs};
use crate::arguments::repository::{RepositoryArgs, RevisionArgs, parse_kubernetes_version};
use crate::report::Format;
use crate::report::findings::WIDTH;
use crate::report::validation::{Batch, FileReport, Location, Renderer, Totals, annotations, renderer};
use crate::repository::signature::Signers;
use crate::repository::{Enclosing, read_file};
use crate::terminal::github_actions;
use kubelet_config::finding::{Finding, Place};
use kubelet_config::{Minor, NEWEST_RELEASED};
use nodecfg_contract::printable::escaped;
use nodecfg_fleet::snapshot::{Snapshot, SnapshotFile};
use nodecfg_fleet::{Built, CheckedPool, Checks, Kubelets, build, check_file};
use targets::{FileNames, Target};

mod targets;

/// Check repositories and single files, and report all problems.
///
/// Reports how kubelets of the selected versions would treat each configuration, plus the checks of nodecfg. For a file
/// or folder within a repository, checks the pools that use it, as on disk. Other files are checked alone: a
/// KubeletConfiguration, Fleet, NodePool or patch. Notes, and checks that only a node can decide, are counted; -v
/// prints them. Needs no cluster. Exits with code 3 if a file is unreadable or has errors, or if nothing was checked.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Check these repositories (folders, or addresses such as https://host/path), folders and files; - is standard
    /// input [default: .]
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Also check the files listed in FILE, one per line; - is standard input.
    #[arg(long, value_name = "FILE")]
    files_from: Option<PathBuf>,
    /// Check for these kubelet versions, such as 1.36,1.37. Default: spec.kubernetesVersion of the pool, or the
    /// newest release.
    #[arg(long, value_name = "VERSION", value_delimiter = ',', value_parser = parse_kubernetes_version)]
    kubernetes_version: Vec<Minor>,
    #[command(flatten)]
    revision: RevisionArgs,
    #[command(flatten)]
    pub(super) reports: ReportArgs,
}

const EXAMPLES: &str = "\
Examples:
  nodecfg validate                                     check the repository in this folder
  nodecfg validate --kubernetes-version 1.36,1.37      check before an upgrade
  nodecfg validate pools/gpu base/kubelet.yaml         check the pools that use these files
  nodecfg validate nodes/*.yaml --lenient              check single files
  git ls-files '*kubelet*.yaml' | nodecfg validate --files-from -
  nodecfg validate -o sarif > nodecfg.sarif            write a report for code scanning";

pub(super) async fn run(args: &Args, format: Format, verbose: u8, terminal: &mut Terminal) -> CommandResult {
    let mut enclosing = Enclosing::with(github_actions::checkout());
    let paths = args.paths(&mut enclosing)?;
    args.reports.create(require_findings)?;
    let location = github_actions::location();
    let with_parts = args.revision.git.folder.is_none();
    let targets = targets::targets(&paths, with_parts, &mut enclosing)?;
    let mut run = Run {
        checks: args.checks(),
        enclosing,
        single: targets.len() == 1,
        verbose: verbose > 0,
        renderer: renderer(format, verbose > 0, terminal.out_width, location.clone()),
        printed: Ok(()),
        reports: args
            .reports
            .open()
            .into_iter()
            .map(|report| (renderer(report.output, verbose > 0, WIDTH, location.clone()), report))
            .collect(),
        totals: Totals::default(),
        annotation_root: github_actions::is_active().then_some(location),
        signers: args.revision.signers.read()?,
    };
    for target in &targets {
        match target {
            Target::Repository(path) => {
                run.repository(&args.revision.of(path), terminal).await?;
            }
            Target::Part { root, paths } => {
                let is_wrong = |option: &&str| matches!(*option, "--rev" | "--verify-commits");
                args.refuse_options(is_wrong, paths.values().next(), "part of one")?;
                run.part(&args.revision.of(root).at_worktree(), paths, terminal).await?;
            }
            Target::File(path) => {
                let is_wrong = |option: &&str| matches!(*option, "--rev" | "--worktree" | "--verify-commits");
                args.refuse_options(is_wrong, Some(path), "a file")?;
                run.file(path, terminal)?;
            }
            Target::Outside(path) => run.outside(path, terminal)?,
        }
    }
    if run.totals.files == 0 && run.totals.pools == 0 && run.totals.errors == 0 {
        run.report_nothing_checked("no file was named", terminal)?;
    }
    let Run { mut renderer, printed, reports, totals, .. } = run;
    let printed = printed.and_then(|()| renderer.finish(&mut terminal.out, &totals));
    let closed = reports.into_iter().filter_map(|(mut renderer, mut report)| {
        report.write(|out| renderer.finish(out, &totals));
        report.close()
    });
    let unwritten: Vec<CommandError> = closed.collect();
    let exit = if totals.is_valid() { Exit::Done } else { Exit::InvalidRepository };
    Ok(terminal.end(exit, printed, &unwritten))
}

impl Args {
    /// Refuses an option that requires a repository.
    fn refuse_options(
        &self,
        is_wrong: impl FnMut(&&'static str) -> bool,
        path: Option<&PathBuf>,
        what: &str,
    ) -> Result<(), CommandError> {
        let Some(option) = self.revision.given().find(is_wrong) else { return Ok(()) };
        let path = path.map(|path| path.display().to_string()).unwrap_or_default();
        let message = format!("{option} requires a repository, and {path} is {what}");
        Err(CommandError::usage(message, format!("omit {option}")))
    }

    /// All paths to check, in the order given, and whether the list of files named each.
    fn paths(&self, enclosing: &mut Enclosing) -> Result<Vec<(PathBuf, bool)>, CommandError> {
        let mut paths: Vec<(PathBuf, bool)> = self.paths.iter().map(|path| (path.clone(), false)).collect();
        if let Some(list) = &self.files_from {
            let read_error = |error: io::Error| {
                let message = format!("cannot read the list of files {}: {error}", list.display());
                CommandError::usage(message, "name a text file with one path per line")
            };
            let source: Box<dyn Read> = if list == Path::new("-") {
                Box::new(io::stdin())
            } else {
                Box::new(enclosing.file(list).map_err(|error| read_error(error.into()))?)
            };
            for line in BufReader::new(source).lines() {
                let line = line.map_err(read_error)?;
                match line.trim_end_matches('\r') {
                    line if line.trim().is_empty() => {}
                    // The name of a file here, not standard input.
                    "-" => paths.push((PathBuf::from("./-"), true)),
                    line => paths.push((PathBuf::from(line), true)),
                }
            }
        } else if paths.is_empty() {
            paths.push((PathBuf::from("."), false));
        }
        Ok(paths)
    }

    fn checks(&self) -> Checks {
        let mut minors = self.kubernetes_version.clone();
        minors.sort_unstable();
        minors.dedup();
        Checks {
            gate: self.revision.gate(),
            kubelets: if minors.is_empty() {
                Kubelets::Declared(vec![NEWEST_RELEASED])
            } else {
                Kubelets::Given(minors)
            },
        }
    }
}

/// One run over many targets. Each target is dropped after its report.
struct Run {
    checks: Checks,
    enclosing: Enclosing,
    /// Whether there is only one target. Then paths in messages omit its name.
    single: bool,
    verbose: bool,
    renderer: Box<dyn Renderer>,
    /// Whether standard output could be written so far.
    printed: io::Result<()>,
    /// The reports of `--report`.
    reports: Vec<(Box<dyn Renderer>, OpenReport)>,
    totals: Totals,
    /// Location of annotations, in GitHub Actions.
    annotation_root: Option<Location>,
    /// Keys one of which must have signed the commits.
    signers: Option<Arc<Signers>>,
}

impl Run {
    fn file(&mut self, path: &Path, terminal: &mut Terminal) -> Result<(), CommandError> {
        let name = if path == Path::new("-") { "stdin".to_owned() } else { escaped(&path.to_string_lossy()) };
        let mut report = FileReport { file: name.clone(), ..FileReport::default() };
        let mut text = None;
        match read_file(&mut self.enclosing, path, &name) {
            SnapshotFile::Unusable(finding) => {
                // Names nothing that a refused link leads to.
                let near = if finding.code == "unreadable-file" { targets::nearest_path(path) } else { None };
                let near = near.map(|near| format!("did you mean {}?", escaped(&near)));
                report.findings.push(Finding { help: near.or(finding.help.clone()), ..*finding });
            }
            SnapshotFile::Text(read) => {
                let minors = self.checks.kubelets.among(&[]);
                let checked = check_file(&name, &read, minors, self.checks.gate);
                (report.verdicts, report.findings) = (checked.verdicts, checked.findings);
                self.assume(&report.verdicts);
                text = Some(read);
            }
        }
        self.single_file(report, text, terminal)
    }

    /// Reports a path in a list of files that leaves the repository.
    fn outside(&mut self, path: &Path, terminal: &mut Terminal) -> Result<(), CommandError> {
        let file = escaped(&path.to_string_lossy());
        let message = format!("{file} is in the list of files and leaves the repository; nodecfg does not read it");
        let finding = Finding::error("bad-path", message).at(Place::whole_file(&*file));
        let finding = finding.help("remove it from the list, or name it as an argument");
        self.single_file(FileReport { file, findings: vec![finding], ..FileReport::default() }, None, terminal)
    }

    fn single_file(
        &mut self,
        report: FileReport,
        text: Option<Arc<str>>,
        terminal: &mut Terminal,
    ) -> Result<(), CommandError> {
        self.totals.files += 1;
        let file = report.file.clone();
        let texts = |of: &str| text.as_ref().filter(|_| of == file);
        self.report(&Batch { root: "", files: &[report], findings: &[], texts: &texts }, terminal)
    }

    /// The files of a repository. `None` if it cannot be read, which is a finding beside those of other targets.
    async fn snapshot(
        &mut self,
        repository: &RepositoryArgs,
        terminal: &mut Terminal,
    ) -> Result<Option<Snapshot>, CommandError> {
        match repository.snapshot(self.signers.clone(), terminal.progress()).await {
            Ok(snapshot) => Ok(Some(snapshot)),
            Err(CommandError::Repository(error)) if !self.single => {
                let finding = Finding::error("repository", error.to_string()).help(error.help());
                self.report_general(&[finding], terminal)?;
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }

    async fn repository(&mut self, repository: &RepositoryArgs, terminal: &mut Terminal) -> Result<(), CommandError> {
        let name = repository.root();
        let Some(snapshot) = self.snapshot(repository, terminal).await? else { return Ok(()) };
        let Built { desired, mut findings, checked, .. } = build(&snapshot, &self.checks);
        self.totals.pools += desired.as_ref().map_or(checked.len(), |desired| desired.pools.len());
        for pool in checked.iter().filter(|pool| !pool.declared) {
            self.assume(&pool.verdicts);
        }
        if desired.is_some_and(|desired| desired.pools.is_empty()) {
            findings.retain(|finding| finding.code != "no-pools");
            let mut nothing = nothing_checked(&format!("{name} has no pools"));
            if let Some(file) = snapshot.files.keys().next() {
                // The folder most likely contains single configuration files.
                nothing = nothing.help(format!(
                    "to check single files, name them, such as `nodecfg validate {}`",
                    path_in(&name, file)
                ));
            }
            findings.insert(0, nothing);
        }
        let prefix = if self.single { String::new() } else { format!("{name}/") };
        let names = FileNames::prefixed(&prefix, snapshot.files.keys());
        let (files, others) = by_file(snapshot.files.keys(), findings, checked, &names);
        let root = if self.single { name } else { String::new() };
        let texts = |file: &str| snapshot.text(names.path(file)?);
        self.report(&Batch { root: &root, files: &files, findings: &others, texts: &texts }, terminal)
    }

    /// Checks the pools that use files at or below these paths of a repository. Other files are checked alone.
    async fn part(
        &mut self,
        repository: &RepositoryArgs,
        paths: &BTreeMap<String, PathBuf>,
        terminal: &mut Terminal,
    ) -> Result<(), CommandError> {
        let Some(snapshot) = self.snapshot(repository, terminal).await? else { return Ok(()) };
        let built = build(&snapshot, &self.checks).concerning(&paths.keys().cloned().collect());
        let used: BTreeSet<String> = built.files.values().flatten().cloned().collect();
        if !used.is_empty() {
            self.totals.pools += built.files.len();
            built.checked.iter().filter(|pool| !pool.declared).for_each(|pool| self.assume(&pool.verdicts));
            let names = FileNames::around(repository.path(), paths.values(), snapshot.files.keys());
            let (files, others) = by_file(used.iter(), built.findings, built.checked, &names);
            let texts = |file: &str| snapshot.text(names.path(file)?);
            self.report(&Batch { root: "", files: &files, findings: &others, texts: &texts }, terminal)?;
        }
        for path in targets::unused(paths, &used) {
            if path.is_dir() {
                let why = format!("no pool uses a file in {}", path.display());
                self.report_nothing_checked(&why, terminal)?;
            } else {
                self.file(path, terminal)?;
            }
        }
        Ok(())
    }

    fn report_nothing_checked(&mut self, why: &str, terminal: &mut Terminal) -> Result<(), CommandError> {
        self.report_general(&[nothing_checked(why)], terminal)
    }

    fn report_general(&mut self, findings: &[Finding], terminal: &mut Terminal) -> Result<(), CommandError> {
        self.report(&Batch { root: "", files: &[], findings, texts: &|_| None }, terminal)
    }

    fn report(&mut self, batch: &Batch<'_>, terminal: &mut Terminal) -> Result<(), CommandError> {
        self.totals.add(batch);
        if self.printed.is_ok() {
            self.printed = self.renderer.batch(&mut terminal.out, batch);
        }
        for (renderer, report) in &mut self.reports {
            report.write(|out| renderer.batch(out, batch));
        }
        if let Some(location) = &self.annotation_root {
            annotations::write(&mut terminal.commands(), batch, location, self.verbose)?;
        }
        Ok(())
    }

    /// Records that the version of these verdicts is a default.
    fn assume(&mut self, verdicts: &[kubelet_config::verdict::Verdict]) {
        if matches!(self.checks.kubelets, Kubelets::Declared(_)) {
            self.totals.assumed = verdicts.first().map(|verdict| verdict.minor).or(self.totals.assumed);
        }
    }
}

fn nothing_checked(why: &str) -> Finding {
    Finding::error("nothing-checked", format!("nothing was checked: {why}"))
        .help("name a folder that contains pools/, or create a repository with `nodecfg init`")
}

/// The path of a file in a folder, without a leading `./`.
fn path_in(folder: &str, file: &str) -> String {
    if folder == "." { file.to_owned() } else { format!("{}/{file}", folder.trim_end_matches('/')) }
}

/// Findings and verdicts of these files of a repository grouped by file, and findings without a file.
fn by_file<'f>(
    paths: impl Iterator<Item = &'f String>,
    findings: Vec<Finding>,
    checked: Vec<CheckedPool>,
    names: &FileNames,
) -> (Vec<FileReport>, Vec<Finding>) {
    let mut files: BTreeMap<String, FileReport> = paths.map(|path| (path.clone(), FileReport::default())).collect();
    let mut others = Vec::new();
    for mut finding in findings {
        let file = finding.place.as_ref().map(|place| place.file.to_string());
        for place in finding.place.iter_mut().chain(finding.related.iter_mut().map(|(place, _)| place)) {
            rename(place, names);
        }
        match file {
            Some(file) => files.entry(file).or_default().findings.push(finding),
            None => others.push(finding),
        }
    }
    for mut pool in checked {
        for verdict in &mut pool.verdicts {
            verdict.host_conditions.iter_mut().for_each(|condition| rename(&mut condition.place, names));
        }
        files.entry(pool.path).or_default().verdicts = pool.verdicts;
    }
    let named = |(path, report): (String, FileReport)| FileReport { file: names.name(&path).to_owned(), ..report };
    (files.into_iter().map(named).collect(), others)
}

fn rename(place: &mut Place, names: &FileNames) {
    let name = names.name(&place.file);
    if name != &*place.file {
        place.file = name.into();
    }
}
