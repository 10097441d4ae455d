//! Files of saved plans: written by `diff --out`, and read and enforced by `sync --plan`.
//!
//! A sync takes no option from the file: a user who can edit the file must not be able to widen the sync. It must have the
//! options of the plan itself.

use std::env;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::kubelet_samples::KubeletArgs;
use super::planning::{Allowances, Planned, plan};
use crate::arguments::cluster::{BoundClusterArgs, binding_name};
use crate::arguments::repository::{Loaded, RepositoryArgs, quoted};
use crate::atomic_file::{Readers, replace};
use crate::report::Format;
use crate::repository::Enclosing;
use crate::terminal::failure::CommandError;
use crate::terminal::failure::PlanFileError;
use crate::terminal::streams::Terminal;
use kubelet_config::finding::Strictness;
use nodecfg_cluster::{ClusterError, ClusterReader};
use nodecfg_contract::printable::escaped;
use nodecfg_plan::Options;
use nodecfg_plan::saved::{ClusterIdentity, Difference, FreshPlan, LIMIT, SavedOptions, SavedPlan};

/// Parses the path of a saved plan.
pub(crate) fn parse_path(text: &str) -> Result<PathBuf, String> {
    match text {
        "" => Err("the path must not be empty".to_owned()),
        "-" => Err("a plan is saved to a file; standard input and output are not supported".to_owned()),
        path => Ok(PathBuf::from(path)),
    }
}

/// Identity of the cluster.
pub(crate) async fn identify(reader: &ClusterReader) -> Result<ClusterIdentity, ClusterError> {
    Ok(ClusterIdentity { uid: reader.cluster_uid().await?, server: reader.server().to_owned() })
}

/// The saved form of a plan for this cluster; `given` has the options of the command line.
pub(crate) fn saved(
    cluster: ClusterIdentity,
    reader: &ClusterReader,
    planned: &Planned,
    given: SavedOptions,
) -> SavedPlan {
    let Options { take_over, allow_empty, gate, .. } = planned.options;
    let options = SavedOptions { take_over, allow_empty, lenient: gate == Strictness::Lenient, ..given };
    SavedPlan::of(&planned.plan, cluster, binding_name(reader.binding()), options)
}

/// Writes the plan atomically, also one that a sync refuses, so that the file always belongs to the last diff. `command`
/// carries the plan out.
pub(crate) fn save(
    path: &Path,
    saved: &SavedPlan,
    command: &str,
    format: Format,
    terminal: &mut Terminal,
) -> Result<(), CommandError> {
    replace(path, saved.text().as_bytes(), Readers::AsUsual)
        .map_err(|error| CommandError::PlanFile { path: path.to_owned(), error: PlanFileError::Write(error) })?;
    if format.is_for_people() {
        terminal.out.flush()?;
        let path = path.display();
        if !saved.refused.is_empty() {
            writeln!(terminal.info(), "\nSaved as {path}. sync refuses this plan; correct the refused pools first.")?;
        } else {
            writeln!(terminal.info(), "\nSaved as {path}. Apply exactly this plan with: {command}")?;
        }
    }
    Ok(())
}

/// A saved plan, as read.
pub(crate) struct PlanFile {
    path: PathBuf,
    saved: SavedPlan,
    /// The options of the command line.
    given: SavedOptions,
}

/// A saved plan that a sync must match, of the cluster of the sync.
pub(crate) struct CheckedPlan {
    file: PlanFile,
    /// The cluster of the sync.
    cluster: ClusterIdentity,
    /// Differences found before planning.
    differences: Vec<Difference>,
}

impl PlanFile {
    /// Reads the file. Fails if the command line gives other options than those of the plan.
    pub(crate) fn read(path: &Path, given: SavedOptions) -> Result<Self, CommandError> {
        let fail = |error| CommandError::PlanFile { path: path.to_owned(), error };
        let mut bytes = Vec::new();
        let limit = u64::try_from(LIMIT).unwrap_or(u64::MAX).saturating_add(1);
        let file = Enclosing::default().file(path).map_err(|error| fail(PlanFileError::Read(error.into())))?;
        file.take(limit).read_to_end(&mut bytes).map_err(|error| fail(PlanFileError::Read(error)))?;
        let saved = nodecfg_plan::saved::read(&bytes).map_err(|why| fail(PlanFileError::Unreadable(why)))?;
        let words = env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
        require_same(path, &saved.options, &given, words)?;
        Ok(Self { path: path.to_owned(), saved, given })
    }

    /// Checks the cluster and the fleet before the lock is taken.
    pub(crate) async fn check(self, reader: &ClusterReader, loaded: &Loaded) -> Result<CheckedPlan, CommandError> {
        let desired = &loaded.desired;
        let cluster = identify(reader).await?;
        let differences = self.saved.context_differences(&cluster, &desired.fleet, desired.commit.as_ref());
        // For another cluster or fleet, further differences are meaningless.
        let is_foreign = self.saved.cluster.uid != cluster.uid || self.saved.plan.fleet != desired.fleet;
        if is_foreign { Err(self.stale(differences)) } else { Ok(CheckedPlan { file: self, cluster, differences }) }
    }

    fn stale(&self, differences: Vec<Difference>) -> CommandError {
        CommandError::Stale { path: self.path.clone(), differences }
    }
}

impl CheckedPlan {
    /// Fails early if the plan is known to be stale, and lists all differences. Reads the cluster without a lock.
    pub(crate) async fn fail_if_stale(
        &self,
        loaded: &Loaded,
        reader: &ClusterReader,
        options: &Options,
    ) -> Result<(), CommandError> {
        if self.differences.is_empty() {
            return Ok(());
        }
        // If planning fails, the known differences are reported.
        if let Ok(planned) = plan(loaded, reader, None, options.clone(), KubeletArgs::NEVER).await {
            self.require_match(&planned, reader)?;
        }
        Err(self.file.stale(self.differences.clone()))
    }

    /// Checks that a new plan equals the saved one.
    pub(crate) fn require_match(&self, planned: &Planned, reader: &ClusterReader) -> Result<(), CommandError> {
        let PlanFile { saved: plan, given, .. } = &self.file;
        let fresh = saved(self.cluster.clone(), reader, planned, given.clone());
        let differences = plan.differences(&fresh, FreshPlan { plan: &planned.plan, observed: &planned.observed });
        if differences.is_empty() { Ok(()) } else { Err(self.file.stale(differences)) }
    }
}

/// The options of the command line.
pub(crate) fn given(allowances: Allowances, repository: &RepositoryArgs, bound: &BoundClusterArgs) -> SavedOptions {
    SavedOptions {
        take_over: allowances.take_over,
        allow_empty: allowances.allow_empty,
        lenient: repository.revision.lenient,
        namespace: bound.cluster.named_namespace().cloned(),
        binding: bound.binding.named().map(str::to_owned),
    }
}

/// The command that carries out a plan with these options, made from these files for this cluster.
pub(crate) fn sync_command(
    path: &Path,
    options: &SavedOptions,
    repository: &RepositoryArgs,
    bound: &BoundClusterArgs,
) -> String {
    let plan = ["--plan".to_owned(), path.to_string_lossy().into_owned()];
    let words = ["sync".to_owned()].into_iter().chain(repository.arguments()).chain(plan);
    let words = words.chain(repository.revision.signers.arguments()).chain(bound.cluster.arguments());
    command(words.chain(options.arguments()))
}

/// Requires that the command line has exactly the options of the plan. `words` are its arguments, which the fix
/// repeats.
pub(crate) fn require_same(
    path: &Path,
    saved: &SavedOptions,
    given: &SavedOptions,
    words: impl Iterator<Item = String>,
) -> Result<(), CommandError> {
    let (saved, given) = (saved.arguments(), given.arguments());
    let without = |all: &[String], others: &[String]| -> Vec<String> {
        all.iter().filter(|option| !others.contains(option)).cloned().collect()
    };
    let (missing, extra) = (without(&saved, &given), without(&given, &saved));
    let parts = [(&missing, "missing"), (&extra, "not in the plan")].into_iter().filter(|(list, _)| !list.is_empty());
    let differences: Vec<String> = parts
        .map(|(list, state)| {
            let are = if list.len() == 1 { "is" } else { "are" };
            format!("{} {are} {state}", escaped(&list.join(" ")))
        })
        .collect();
    if differences.is_empty() {
        return Ok(());
    }
    Err(CommandError::usage(
        format!("the options of this sync differ from those of --plan {}: {}", path.display(), differences.join(", ")),
        format!(
            "if these options of the plan were reviewed, run `{}`",
            escaped(&command(corrected(words, missing, &extra)))
        ),
    ))
}

fn command(words: impl Iterator<Item = String>) -> String {
    quoted(["nodecfg".to_owned()].into_iter().chain(words))
}

/// The arguments with the options `missing`, and without the options `extra`.
fn corrected(
    words: impl Iterator<Item = String>,
    missing: Vec<String>,
    extra: &[String],
) -> impl Iterator<Item = String> {
    let mut words = words.peekable();
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        let name = if word == "-n" { "--namespace" } else { &word };
        // An option and its value may be two arguments.
        if words.peek().is_some_and(|value| extra.contains(&format!("{name}={value}"))) {
            words.next();
        } else if !extra.contains(&word) {
            kept.push(word);
        }
    }
    let end = kept.iter().position(|word| word == "--").unwrap_or(kept.len());
    kept.splice(end..end, missing);
    kept.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_standard_streams_as_plan_files() {
        assert!(parse_path("-").is_err() && parse_path("").is_err());
        assert_eq!(parse_path("plan.json"), Ok(PathBuf::from("plan.json")));
    }

    #[test]
    fn corrects_a_command() {
        let words = |text: &str| shlex::split(text).unwrap().into_iter();
        let missing = || vec!["--take-over".to_owned()];
        let extra = ["--namespace=x".to_owned(), "--lenient".to_owned()];
        for (given, expected) in [
            ("sync --plan p", "nodecfg sync --plan p --take-over"),
            ("sync --lenient --plan p -n x -- 'a b'", "nodecfg sync --plan p --take-over -- 'a b'"),
            ("sync --plan p --namespace=x . --context x", "nodecfg sync --plan p . --context x --take-over"),
        ] {
            assert_eq!(command(corrected(words(given), missing(), &extra)), expected);
        }
    }
}
