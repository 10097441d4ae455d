//! Comparison of two revisions without a cluster, for `diff --against`.

use crate::arguments::repository::{Loaded, RepositoryArgs};
use crate::review::{Base, Head, Review, Side, compare};
use crate::terminal::failure::CommandError;
use crate::terminal::streams::Terminal;
use kubelet_config::NEWEST_RELEASED;
use kubelet_config::finding::{Finding, Strictness};
use nodecfg_fleet::snapshot::{Snapshot, Source};
use nodecfg_fleet::{Built, Checks, Desired, Draft, Kubelets, build};

/// The revision to compare with. It may be invalid.
pub(crate) struct ComparisonBase {
    side: Side,
    snapshot: Snapshot,
    draft: Draft,
}

impl ComparisonBase {
    /// Reads the revision. Invalid content is accepted, because the change under review may fix it.
    pub(crate) async fn load(
        repository: &RepositoryArgs,
        revision: &str,
        terminal: &mut Terminal,
    ) -> Result<Self, CommandError> {
        // The reviewed revision must be signed, not its base.
        let (snapshot, draft) = repository.at(revision).draft(None, terminal).await?;
        Ok(Self { side: side_of(&snapshot, Some(revision.to_owned())), snapshot, draft })
    }

    /// The valid part of the revision.
    pub(crate) fn desired(&self) -> Option<&Desired> {
        self.draft.desired.as_ref()
    }

    /// Compares this revision with the revision under review.
    pub(crate) fn compare(&self, to: &Side, loaded: &Loaded) -> Review {
        let Draft { desired, errors, .. } = &self.draft;
        let base = Base { side: &self.side, desired: desired.as_ref(), snapshot: &self.snapshot, errors };
        compare(&base, &Head { side: to, desired: &loaded.desired, snapshot: &loaded.snapshot })
    }
}

/// Findings for the kubelet versions that the pools declare, or for the newest release.
pub(crate) fn declared(loaded: &Loaded, gate: Strictness) -> Result<Vec<Finding>, CommandError> {
    let checks = Checks { gate, kubelets: Kubelets::Declared(vec![NEWEST_RELEASED]) };
    let Built { desired, findings, .. } = build(&loaded.snapshot, &checks);
    match desired {
        Some(_) => Ok(findings),
        None => Err(CommandError::Invalid { findings, snapshot: Box::new(loaded.snapshot.clone()) }),
    }
}

/// Name of the loaded revision, for display.
pub(crate) fn side(repository: &RepositoryArgs, loaded: &Loaded) -> Side {
    side_of(&loaded.snapshot, repository.rev())
}

/// Name of the revision of a snapshot, for display.
pub(crate) fn side_of(snapshot: &Snapshot, name: Option<String>) -> Side {
    match (&snapshot.commit, snapshot.source) {
        (Some(commit), Source::Commit) => Side::Revision {
            name,
            commit: commit.clone(),
            signer: snapshot.signer.clone(),
            uncommitted: Some(snapshot.uncommitted).filter(|files| *files > 0),
        },
        _ => Side::WorkingTree,
    }
}
