//! What a simulated kubelet reports, and the patches and texts that it reports it with.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::verdict::Problem;
use nodecfg_contract::{ConfigMapSource, ConfigSource, ConfigStatus, error_text};

/// A source whose content has been taken, shared by all kubelets that took it.
pub(super) type Taken = Option<Arc<ConfigMapSource>>;

/// Why the assignment in spec has not been taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SyncProblem {
    Download,
    AllNil,
    /// An error that an earlier kubelet process left on the Node.
    Internal,
}

impl SyncProblem {
    fn text(self) -> &'static str {
        match self {
            Self::Download => error_text::DOWNLOAD,
            Self::AllNil => error_text::ALL_NIL,
            Self::Internal => error_text::INTERNAL,
        }
    }
}

/// What `status.config` says, in full.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Status {
    pub assigned: Taken,
    pub active: Taken,
    pub last_known_good: Taken,
    /// What a new process found wrong with `assigned`.
    pub problem: Option<Problem>,
    /// What keeps the sync loop from taking spec; it hides `problem` while it lasts.
    pub sync_problem: Option<SyncProblem>,
}

impl Status {
    /// Reads what a Node says.
    pub(super) fn read(seen: &ConfigStatus) -> Self {
        let taken = |source: Option<&ConfigSource>| source.and_then(|s| s.config_map.clone()).map(Arc::new);
        let (problem, sync_problem) = match seen.error() {
            None => (None, None),
            Some(error_text::LOAD) => (Some(Problem::Load), None),
            Some(error_text::VALIDATE) => (Some(Problem::Validate), None),
            Some(error) => {
                let download = error.strip_prefix(error_text::SYNC_PREFIX) == Some(error_text::DOWNLOAD);
                (None, Some(if download { SyncProblem::Download } else { SyncProblem::Internal }))
            }
        };
        Self {
            assigned: taken(seen.assigned.as_ref()),
            active: taken(seen.active.as_ref()),
            last_known_good: taken(seen.last_known_good.as_ref()),
            problem,
            sync_problem,
        }
    }

    /// The merge patch of `status.config` that brings it from an earlier status to this one. From an unknown one, it sets
    /// and removes everything.
    pub(super) fn patch_from(&self, earlier: Option<&Self>) -> Map<String, Value> {
        let before = earlier.map(Self::fields);
        self.fields()
            .into_iter()
            .enumerate()
            .filter(|(index, field)| before.as_ref().is_none_or(|before| before.get(*index) != Some(field)))
            .map(|(_, (name, value))| (name.to_owned(), value))
            .collect()
    }

    /// Its fields by their names; null is an absent one.
    fn fields(&self) -> [(&'static str, Value); 4] {
        let source = |taken: &Taken| {
            let source = taken.as_deref().map(|source| ConfigSource { config_map: Some(source.clone()) });
            source.and_then(|source| serde_json::to_value(source).ok()).unwrap_or(Value::Null)
        };
        let error = match (self.sync_problem, self.problem) {
            (Some(problem), _) => Value::String(format!("{}{}", error_text::SYNC_PREFIX, problem.text())),
            (None, Some(problem)) => problem.text().into(),
            (None, None) => Value::Null,
        };
        [
            ("active", source(&self.active)),
            ("assigned", source(&self.assigned)),
            ("error", error),
            ("lastKnownGood", source(&self.last_known_good)),
        ]
    }
}
