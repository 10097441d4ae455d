//! Inputs of the simulation: behaviours of the kubelet, ConfigMaps of the API server, and faults around the agent.

use std::time::Duration;

use kubelet_config::startup_error::{LastError, StartupError};

use super::sim_harness::SimHarness;
use crate::events::{ActivationError, ConfigCheck};
use crate::host::ServiceReport;
use crate::host::problem::{CommandError, RestartProblem};
use nodecfg_contract::ConfigSource;

/// Behaviour of the simulated kubelet on a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Behaviour {
    Good,
    /// Never answers.
    Silent,
    /// Answers until this number of seconds after its start.
    Dies(u64),
    /// Answers for 5 s, then fails for 3 s, repeatedly.
    Loops,
    /// Answers, but its Node is never Ready.
    Unready,
    /// Answers, and its Node stays Ready, but it renews no Lease.
    NoLease,
    /// Its restart command fails.
    NoRestart,
    /// Never answers, and exits every 10 s.
    Exits,
    /// Like `Exits` with every configuration, because of a state file. The restart command may report that.
    StaleState {
        command_fails: bool,
    },
}

impl Behaviour {
    /// Last error in the log of a kubelet that exits.
    fn last_error(self) -> Option<StartupError> {
        let error = match self {
            Self::Exits => "Error: cgroup-root was not specified, hunter2",
            Self::StaleState { .. } => "Error: start cpu manager error: default cpuset cannot be empty",
            _ => return None,
        };
        Some(LastError::in_log(error)?.explain(None, None, "journalctl"))
    }

    /// What the service manager reports this long after the last restart by the agent. It counted exits before, too.
    pub(super) fn service_report(self, age: Duration) -> ServiceReport {
        let exits = u32::try_from(age.as_secs() / 10).unwrap_or(u32::MAX);
        match self.last_error() {
            None => ServiceReport::default(),
            last_error => ServiceReport {
                restarts: Some(7_u32.saturating_add(exits)),
                last_error: last_error.filter(|_| exits > 0),
            },
        }
    }

    /// Result of the restart command.
    pub(super) fn restart(self) -> Result<(), ActivationError> {
        match self {
            Self::NoRestart | Self::StaleState { command_fails: true } => Err(ActivationError::NotRestarted {
                reason: RestartProblem::Restart(CommandError::exited(1)).into(),
                last_error: self.last_error(),
            }),
            _ => Ok(()),
        }
    }
}

/// ConfigMap with the result of its config check. Only the key `kubelet` exists. A version with a dash carries the
/// result instead: with the suffix `fine` it is accepted, with any other it is refused.
#[derive(Debug, Clone)]
pub(super) struct SimConfigMap {
    pub(super) uid: String,
    pub(super) version: String,
    pub(super) immutable: bool,
    pub(super) hash: Option<String>,
    pub(super) config_check: ConfigCheck,
}

/// Faults around the agent; each lasts until it is reset.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Faults {
    pub(super) api_down: bool,
    /// Saving ledgers and checkpoints fails.
    pub(super) disk_full: bool,
    /// Replacing the kubelet's configuration fails.
    pub(super) placement_fails: bool,
    /// The change to the local configuration needs a drained node.
    pub(super) needs_drain: bool,
    /// Another placement makes the same text of a content.
    pub(super) same_text: bool,
    /// The last known good has another text than the one that passed its trial.
    pub(super) good_changed: bool,
    /// The server refuses reports.
    pub(super) reports_fail: bool,
}

impl SimHarness {
    pub(super) fn config_check(&self, source: &ConfigSource) -> ConfigCheck {
        let map = source.config_map.as_ref().unwrap();
        if map.kubelet_config_key != "kubelet" {
            return ConfigCheck::NotLoaded { message: "no such key".to_owned(), kubelet: None };
        }
        match map.resource_version.as_deref().and_then(|version| version.split_once('-')) {
            Some((_, "fine")) => return ConfigCheck::Accepted,
            Some(_) => return ConfigCheck::NotValid { message: "refused".to_owned(), kubelet: None },
            None => {}
        }
        let same = |known: &&SimConfigMap| Some(&known.uid) == map.uid.as_ref();
        self.config_maps.values().find(same).map_or(ConfigCheck::Accepted, |known| known.config_check.clone())
    }

    pub(super) fn put_config_map(&mut self, name: &str, version: &str, config_check: ConfigCheck) {
        let (uid, version) = (format!("uid-{name}"), version.to_owned());
        self.config_maps
            .insert(name.to_owned(), SimConfigMap { uid, version, immutable: false, hash: None, config_check });
    }
}
