//! Status that a simulated kubelet reports, with its patches and error texts.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::verdict::ConfigProblem;
use nodecfg_contract::{ConfigMapSource, ConfigSource, ConfigStatus, error_text};

/// A source whose content was loaded, shared by all kubelets that loaded it.
pub(super) type LoadedSource = Option<Arc<ConfigMapSource>>;

/// Reason why the assignment in spec is not applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SyncProblem {
    Download,
    AllNil,
    /// Any other error that an earlier kubelet process left on the Node.
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

/// Complete content of `status.config`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Status {
    pub assigned: LoadedSource,
    pub active: LoadedSource,
    pub last_known_good: LoadedSource,
    /// Problem that a new process found in `assigned`.
    pub problem: Option<ConfigProblem>,
    /// Problem of the sync loop; its text replaces that of `problem`.
    pub sync_problem: Option<SyncProblem>,
}

impl Status {
    /// Reads the status of a Node.
    pub(super) fn read(seen: &ConfigStatus) -> Self {
        let taken = |source: Option<&ConfigSource>| source.and_then(|source| source.config_map.clone());
        let (problem, sync_problem) = match seen.error() {
            None => (None, None),
            Some(error_text::LOAD) => (Some(ConfigProblem::Load), None),
            Some(error_text::VALIDATE) => (Some(ConfigProblem::Validate), None),
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

    /// Merge patch of `status.config` from an earlier status to this one. From an unknown status, the patch sets or
    /// removes every field.
    pub(super) fn patch_from(&self, earlier: Option<&Self>) -> Map<String, Value> {
        let before = earlier.map(Self::fields);
        self.fields()
            .into_iter()
            .enumerate()
            .filter(|(index, field)| before.as_ref().is_none_or(|before| before.get(*index) != Some(field)))
            .map(|(_, (name, value))| (name.to_owned(), value))
            .collect()
    }

    /// Fields by name; null removes a field.
    fn fields(&self) -> [(&'static str, Value); 4] {
        let source = |taken: &LoadedSource| {
            let source = taken.clone().map(|source| ConfigSource { config_map: Some(source) });
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
