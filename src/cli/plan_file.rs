//! Saved plans as files: `diff --out` writes one, `sync --plan` reads it and holds to it.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::cluster_args::{BindingArgs, ClusterArgs, binding_word};
use super::observe::{Allowances, Planned, plan};
use super::repository_args::{Loaded, RepositoryArgs};
use super::{CommandError, Exit, Terminal};
use crate::replaced_file::{Readers, replace};
use crate::report::Format;
use kubelet_config::finding::Strictness;
use nodecfg_cluster::{ClusterError, ClusterReader};
use nodecfg_contract::names::NamespaceName;
use nodecfg_planning::plan::Options;
use nodecfg_planning::plan::saved::{
    self, Circumstances, ClusterIdentity, Code, Difference, LIMIT, Now, SavedOptions, SavedPlan, Unreadable,
};

/// Why a saved plan could not be written or used.
#[derive(Debug)]
pub(super) enum PlanFileError {
    /// The file cannot be read.
    Read(io::Error),
    /// The file cannot be written.
    Write(io::Error),
    /// What is in it is no plan that could be held to.
    Unreadable(Unreadable),
}

impl PlanFileError {
    pub(super) fn exit(&self) -> Exit {
        match self {
            Self::Read(_) | Self::Write(_) => Exit::Failed,
            Self::Unreadable(_) => Exit::StalePlan,
        }
    }

    pub(super) fn code(&self) -> &'static str {
        match self {
            Self::Read(_) => "plan-file-unreadable",
            Self::Write(_) => "plan-file-unwritable",
            Self::Unreadable(why) => why.code(),
        }
    }

    pub(super) fn says(&self, path: &Path) -> String {
        let path = path.display();
        match self {
            Self::Read(error) => format!("cannot read the saved plan {path}: {error}"),
            Self::Write(error) => format!("cannot save the plan as {path}: {error}"),
            Self::Unreadable(why) => format!("the saved plan {path} {why}"),
        }
    }

    pub(super) fn help(&self) -> &'static str {
        match self {
            Self::Read(_) => "is this the path of what `nodecfg diff --out FILE` wrote?",
            Self::Write(_) => "name a file in a folder that exists and may be written to",
            Self::Unreadable(why) => why.help(),
        }
    }
}

/// The path of a saved plan.
pub(super) fn parse_path(text: &str) -> Result<PathBuf, String> {
    match text {
        "" => Err("a file must be named".to_owned()),
        "-" => Err("a plan is saved to a file and read from one; `-` is none".to_owned()),
        path => Ok(PathBuf::from(path)),
    }
}

/// Which cluster this is.
pub(super) async fn identify(reader: &ClusterReader) -> Result<ClusterIdentity, ClusterError> {
    Ok(ClusterIdentity { uid: reader.cluster_uid().await?, server: reader.server().to_owned() })
}

/// What a plan was made under; `named` is the namespace that the command line named.
pub(super) fn circumstances(
    cluster: ClusterIdentity,
    reader: &ClusterReader,
    planned: &Planned,
    named: Option<NamespaceName>,
) -> Circumstances {
    let Options { take_over, allow_empty, gate, .. } = planned.options;
    let options = SavedOptions { take_over, allow_empty, lenient: gate == Strictness::Lenient, namespace: named };
    Circumstances { cluster, binding: binding_word(reader.binding()).to_owned(), options }
}

/// Writes the plan to its file: completely, or not at all.
pub(super) fn save(
    path: &Path,
    saved: &SavedPlan,
    format: Format,
    terminal: &mut Terminal,
) -> Result<(), CommandError> {
    replace(path, saved.text().as_bytes(), Readers::AsUsual)
        .map_err(|error| CommandError::PlanFile { path: path.to_owned(), error: PlanFileError::Write(error) })?;
    if matches!(format, Format::Text | Format::Markdown) {
        terminal.out.flush()?;
        let path = path.display();
        writeln!(terminal.aside(), "\nSaved as {path}. `nodecfg sync --plan {path}` carries out exactly this.")?;
    }
    Ok(())
}

/// A plan that was reviewed, and that a sync is to hold to.
pub(super) struct LoadedPlan {
    path: PathBuf,
    saved: SavedPlan,
}

/// The arguments that a saved plan fixes.
pub(super) struct Fixed {
    pub(super) repository: RepositoryArgs,
    pub(super) allowances: Allowances,
    pub(super) cluster: ClusterArgs,
    pub(super) binding: BindingArgs,
}

impl LoadedPlan {
    /// Reads the file.
    pub(super) fn read(path: &Path) -> Result<Self, CommandError> {
        let fail = |error| CommandError::PlanFile { path: path.to_owned(), error };
        let mut bytes = Vec::new();
        let limit = u64::try_from(LIMIT).unwrap_or(u64::MAX).saturating_add(1);
        let file = fs::File::open(path).map_err(|error| fail(PlanFileError::Read(error)))?;
        file.take(limit).read_to_end(&mut bytes).map_err(|error| fail(PlanFileError::Read(error)))?;
        let saved = saved::read(&bytes).map_err(|why| fail(PlanFileError::Unreadable(why)))?;
        Ok(Self { path: path.to_owned(), saved })
    }

    /// The arguments as the plan fixes them. What was given must not say otherwise.
    pub(super) fn fix(&self, mut given: Fixed) -> Result<Fixed, CommandError> {
        let saved = &self.saved.options;
        for (option, given, reviewed) in [
            ("--take-over", given.allowances.take_over, saved.take_over),
            ("--allow-empty", given.allowances.allow_empty, saved.allow_empty),
            ("--lenient", given.repository.lenient, saved.lenient),
        ] {
            if given && !reviewed {
                return Err(self.contradicts(option, format!("the plan was made without {option}")));
            }
        }
        if let Some(named) = given.cluster.named_namespace().filter(|named| **named != self.saved.namespace) {
            let option = format!("--namespace {named}");
            return Err(self.contradicts(&option, format!("the plan is for namespace {}", self.saved.namespace)));
        }
        if let Some(named) = given.binding.named().filter(|named| *named != self.saved.binding) {
            let option = format!("--binding {named}");
            return Err(self.contradicts(&option, format!("the plan is for binding {}", self.saved.binding)));
        }
        given.allowances = Allowances { take_over: saved.take_over, allow_empty: saved.allow_empty };
        given.repository.lenient = saved.lenient;
        given.cluster = given.cluster.naming(saved.namespace.clone());
        given.binding = given.binding.naming(&self.saved.binding);
        Ok(given)
    }

    fn contradicts(&self, option: &str, fixed: String) -> CommandError {
        let path = self.path.display();
        CommandError::usage(
            format!("{option} goes against --plan {path}: {fixed}"),
            format!(
                "leave {option} out, or make a plan with it (nodecfg diff {option} --out {path}) and have it reviewed"
            ),
        )
    }

    /// Makes sure, before anything is locked, that this is the cluster and the repository of the plan.
    pub(super) async fn meet(self, reader: &ClusterReader, loaded: &Loaded) -> Result<SavedPlanCheck, CommandError> {
        let cluster = identify(reader).await?;
        let desired = &loaded.desired;
        let apart = self.saved.surroundings(&cluster, &desired.fleet, desired.commit.as_ref());
        let meeting = SavedPlanCheck { reviewed: self, cluster, apart };
        // Of another cluster or fleet there is nothing more to be said.
        let foreign = meeting.apart.iter().any(|difference| matches!(difference.code, Code::Cluster | Code::Fleet));
        if foreign { Err(meeting.stale(meeting.apart.clone())) } else { Ok(meeting) }
    }
}

/// A reviewed plan in the cluster that it is for.
pub(super) struct SavedPlanCheck {
    reviewed: LoadedPlan,
    cluster: ClusterIdentity,
    /// What is known to have changed before anything is planned.
    apart: Vec<Difference>,
}

impl SavedPlanCheck {
    /// When the plan is known to be stale: ends with all that has changed, having looked without a lock.
    pub(super) async fn in_time(
        &self,
        loaded: &Loaded,
        reader: &ClusterReader,
        options: &Options,
    ) -> Result<(), CommandError> {
        if self.apart.is_empty() {
            return Ok(());
        }
        // Where there can be no plan now, what is known is enough.
        if let Ok(planned) = plan(loaded, reader, None, options.clone()).await {
            self.hold(&planned, reader)?;
        }
        Err(self.stale(self.apart.clone()))
    }

    /// Makes sure that a plan is what was reviewed.
    pub(super) fn hold(&self, planned: &Planned, reader: &ClusterReader) -> Result<(), CommandError> {
        let saved = &self.reviewed.saved;
        let circumstances = circumstances(self.cluster.clone(), reader, planned, saved.options.namespace.clone());
        let fresh = SavedPlan::of(&planned.plan, &circumstances);
        let differences = saved.differences(&fresh, Now { plan: &planned.plan, observed: &planned.observed });
        if differences.is_empty() { Ok(()) } else { Err(self.stale(differences)) }
    }

    fn stale(&self, differences: Vec<Difference>) -> CommandError {
        CommandError::Stale { path: self.reviewed.path.clone(), differences }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_in_a_file() {
        assert!(parse_path("-").is_err() && parse_path("").is_err());
        assert_eq!(parse_path("plan.json"), Ok(PathBuf::from("plan.json")));
    }
}
