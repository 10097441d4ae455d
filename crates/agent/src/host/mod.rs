//! Interface to the kubelet process of this host.

pub mod actions;
pub(crate) mod capacity;
pub mod command;
pub mod healthz;
pub mod preflight;
pub mod problem;
pub mod process;
pub mod step;
pub mod system;

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use kubelet_config::risk::StateFile;
use kubelet_config::startup_error::{LastError, StartupError};
use kubelet_config::verdict::HostNeed;
use nodecfg_contract::KubeletVersion;
use preflight::Unmet;
use problem::{HealthzError, RestartProblems};
use process::{KubeletProcess, ProcessProblem};

/// Health endpoint of a kubelet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Healthz {
    /// Address, as `127.0.0.1` (`healthzBindAddress`).
    pub address: String,
    /// Port (`healthzPort`). 0 disables the endpoint.
    pub port: u16,
}

/// Reason why the kubelet was not restarted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RestartError {
    /// The restart could not be requested: a command did not start, or the privileged process is unreachable. The
    /// kubelet and its configuration are not at fault.
    #[error("{0}")]
    NotRequested(RestartProblems),
    /// The restart failed.
    #[error("{0}")]
    Failed(RestartProblems),
}

/// State files of the kubelet that contradict a change of its configuration, and what happens to them while the kubelet
/// is stopped. A deleted file takes the CPUs and memory of running pods with it, so it is set aside at first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StateFiles {
    /// The files.
    pub files: Vec<StateFile>,
    /// What happens to them.
    pub handling: StateHandling,
}

impl fmt::Display for StateFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files: Vec<&str> = self.files.iter().map(|file| file.as_str()).collect();
        let handling = match self.handling {
            StateHandling::SetAside => "set aside",
            StateHandling::PutBack => "put back",
            StateHandling::Remove => "remove",
        };
        if files.is_empty() { f.write_str("unchanged") } else { write!(f, "{handling} {}", files.join(", ")) }
    }
}

/// Handling of state files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StateHandling {
    /// Keep the files beside, unless files are kept there already: those are from the last known good.
    #[default]
    SetAside,
    /// Put back the files that were set aside, and remove the others: the failed configuration never became healthy, so
    /// pods still have the resources of the last known good.
    PutBack,
    /// Remove the files and those set aside: pods may have started with the failed configuration.
    Remove,
}

/// What the service manager knows about the kubelet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceReport<E = StartupError> {
    /// Number of times that it has started the kubelet again after an exit (`NRestarts` of systemd). It may count exits
    /// before the last restart by the agent. `None` if unknown.
    pub restarts: Option<u32>,
    /// Last error of the kubelet: as its host reads it, or as it may be published. `None` if unknown.
    pub last_error: Option<E>,
}

impl<E> Default for ServiceReport<E> {
    fn default() -> Self {
        Self { restarts: None, last_error: None }
    }
}

/// The kubelet process of this host.
pub trait Host: Send + Sync {
    /// Version of the installed kubelet. `None` if unknown; the agent then uses the version in the Node's status.
    fn version(&self) -> impl Future<Output = Option<KubeletVersion>> + Send;
    /// Restarts the kubelet, and handles these files of its root directory while it is stopped. Returns when the
    /// service manager reports the start, or after a time limit.
    ///
    /// # Errors
    /// `NotRequested` or `Failed`.
    fn restart(&self, state: &StateFiles) -> impl Future<Output = Result<(), RestartError>> + Send;
    /// Deletes all state files that were set aside.
    ///
    /// # Errors
    /// Reason why files remain.
    fn discard_state_files(&self) -> impl Future<Output = Result<(), RestartError>> + Send;
    /// Probes the kubelet's health. Waits up to a few seconds, since a busy kubelet may answer late.
    ///
    /// # Errors
    /// Reason why the kubelet counts as unhealthy.
    fn healthz(&self, endpoint: &Healthz) -> impl Future<Output = Result<(), HealthzError>> + Send;
    /// Reads how often the service manager has started the kubelet again, and the kubelet's last error since this time.
    /// Both are unknown without a service manager.
    fn service_report(&self, _since: Timestamp) -> impl Future<Output = ServiceReport<LastError>> + Send {
        std::future::ready(ServiceReport::default())
    }
    /// Reads the command line of the running kubelet.
    ///
    /// # Errors
    /// Reason why it is unknown.
    fn process(&self) -> impl Future<Output = Result<KubeletProcess, ProcessProblem>> + Send {
        std::future::ready(Err(ProcessProblem::NotRunning))
    }
    /// Checks what this host lacks, for each need. `None` if it has it, or that is unknown.
    fn unmet(&self, needs: &[HostNeed]) -> impl Future<Output = Vec<Option<Unmet>>> + Send {
        std::future::ready(vec![None; needs.len()])
    }
}
