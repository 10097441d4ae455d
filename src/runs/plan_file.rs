//! Files of saved plans: written by `diff --out`, and read and enforced by `sync --plan`.

use std::env;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::kubelet_samples::KubeletArgs;
use super::plan_options;
use super::planning::{Planned, plan};
use crate::arguments::cluster::binding_name;
use crate::arguments::repository::Loaded;
use crate::atomic_file::{Readers, replace};
use crate::report::Format;
use crate::repository::Enclosing;
use crate::terminal::failure::CommandError;
use crate::terminal::failure::PlanFileError;
use crate::terminal::streams::Terminal;
use kubelet_config::finding::Strictness;
use nodecfg_cluster::{ClusterError, ClusterReader};
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
    if matches!(format, Format::Text | Format::Markdown) {
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

/// A saved plan that a sync must match.
pub(crate) struct LoadedPlan {
    path: PathBuf,
    saved: SavedPlan,
    /// The options of the command line.
    given: SavedOptions,
}

impl LoadedPlan {
    /// Reads the file. Fails if the command line gives other options than those of the plan.
    pub(crate) fn read(path: &Path, given: SavedOptions) -> Result<Self, CommandError> {
        let fail = |error| CommandError::PlanFile { path: path.to_owned(), error };
        let mut bytes = Vec::new();
        let limit = u64::try_from(LIMIT).unwrap_or(u64::MAX).saturating_add(1);
        let file = Enclosing::default().file(path).map_err(|error| fail(PlanFileError::Read(error.into())))?;
        file.take(limit).read_to_end(&mut bytes).map_err(|error| fail(PlanFileError::Read(error)))?;
        let saved = nodecfg_plan::saved::read(&bytes).map_err(|why| fail(PlanFileError::Unreadable(why)))?;
        let words = env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
        plan_options::require_same(path, &saved.options, &given, words)?;
        Ok(Self { path: path.to_owned(), saved, given })
    }

    /// Checks the cluster and the fleet before the lock is taken.
    pub(crate) async fn check(self, reader: &ClusterReader, loaded: &Loaded) -> Result<SavedPlanCheck, CommandError> {
        let cluster = identify(reader).await?;
        let desired = &loaded.desired;
        let SavedPlan { cluster: planned, plan, .. } = &self.saved;
        // For another cluster or fleet, further differences are meaningless.
        let foreign = planned.uid != cluster.uid || plan.fleet != desired.fleet;
        let differences = self.saved.context_differences(&cluster, &desired.fleet, desired.commit.as_ref());
        let saved_plan = SavedPlanCheck { loaded_plan: self, cluster, differences };
        if foreign { Err(saved_plan.stale(saved_plan.differences.clone())) } else { Ok(saved_plan) }
    }
}

/// A saved plan whose cluster and fleet match.
pub(crate) struct SavedPlanCheck {
    loaded_plan: LoadedPlan,
    cluster: ClusterIdentity,
    /// Differences found before planning.
    differences: Vec<Difference>,
}

impl SavedPlanCheck {
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
        Err(self.stale(self.differences.clone()))
    }

    /// Checks that a new plan equals the saved one.
    pub(crate) fn require_match(&self, planned: &Planned, reader: &ClusterReader) -> Result<(), CommandError> {
        let LoadedPlan { saved: reviewed, given, .. } = &self.loaded_plan;
        let fresh = saved(self.cluster.clone(), reader, planned, given.clone());
        let differences = reviewed.differences(&fresh, FreshPlan { plan: &planned.plan, observed: &planned.observed });
        if differences.is_empty() { Ok(()) } else { Err(self.stale(differences)) }
    }

    fn stale(&self, differences: Vec<Difference>) -> CommandError {
        CommandError::Stale { path: self.loaded_plan.path.clone(), differences }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_standard_streams_as_plan_files() {
        assert!(parse_path("-").is_err() && parse_path("").is_err());
        assert_eq!(parse_path("plan.json"), Ok(PathBuf::from("plan.json")));
    }
}
