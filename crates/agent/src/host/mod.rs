//! The seam to the kubelet process of this host.

pub mod command;
pub mod healthz;
pub mod step;
pub mod system;

use kubelet_config::risk::StateFile;
use nodecfg_contract::observed::KubeletVersion;

/// Where a kubelet answers whether it is healthy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Healthz {
    /// Address, as `127.0.0.1` (`healthzBindAddress`).
    pub address: String,
    /// Port (`healthzPort`); 0: it is switched off, and nothing can be asked.
    pub port: u16,
}

/// Why the kubelet was not restarted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RestartError {
    /// Nobody could be asked for it: the command cannot be started, or the process that has the privileges cannot be reached.
    /// That says nothing of the kubelet or its configuration. The reason in full.
    #[error("{0}")]
    NotAsked(String),
    /// It was tried and failed: the reason in full, with the command and the end of what it wrote.
    #[error("{0}")]
    Failed(String),
}

/// The kubelet process of this host.
pub trait Host: Send + Sync {
    /// The version of the kubelet that is installed. `None`: it could not be found out; the Node's own word counts then.
    fn version(&self) -> impl Future<Output = Option<KubeletVersion>> + Send;
    /// Restarts the kubelet, with these files of its root directory removed while it does not run. Ends when the service
    /// manager says that it has been started, or gives up after a limit of its own.
    ///
    /// # Errors
    /// Whether it was tried at all, and the reason in full.
    fn restart(&self, remove: &[StateFile]) -> impl Future<Output = Result<(), RestartError>> + Send;
    /// Whether the kubelet answers, within a few seconds: a node that is busy is not one that is broken.
    ///
    /// # Errors
    /// Why it does not.
    fn healthz(&self, at: &Healthz) -> impl Future<Output = Result<(), String>> + Send;
}
