//! The kubelet of this host. Another process may carry out the privileged actions ([`step`]).

use std::path::{Path, PathBuf};

use super::actions::Actions;
use super::preflight::Unmet;
use super::problem::HealthzError;
use super::process::{KubeletProcess, ProcessProblem};
use super::{Healthz, Host, RestartError, ServiceReport, StateFiles, healthz, process, step};
use jiff::Timestamp;
use kubelet_config::startup_error::LastError;
use kubelet_config::verdict::HostNeed;
use nodecfg_contract::KubeletVersion;

/// Process that carries out privileged actions.
#[derive(Debug, Clone)]
pub enum ActionRunner {
    /// This process.
    InProcess(Box<Actions>),
    /// `nodecfg-agent host-step`, behind this socket.
    HostStep(PathBuf),
}

/// Kubelet of this host.
#[derive(Debug, Clone)]
pub struct SystemHost {
    /// Process that restarts the kubelet.
    pub runner: ActionRunner,
    /// Configured version; unset to detect it.
    pub version: Option<KubeletVersion>,
}

impl Host for SystemHost {
    async fn version(&self) -> Option<KubeletVersion> {
        match (&self.version, &self.runner) {
            (Some(version), _) => Some(*version),
            (None, ActionRunner::InProcess(actions)) => actions.version().await,
            (None, ActionRunner::HostStep(path)) => step::version(path).await,
        }
    }

    async fn restart(&self, state: &StateFiles) -> Result<(), RestartError> {
        match &self.runner {
            ActionRunner::InProcess(actions) => actions.restart(state).await,
            ActionRunner::HostStep(path) => step::restart(path, state).await,
        }
    }

    async fn discard_state_files(&self) -> Result<(), RestartError> {
        match &self.runner {
            ActionRunner::InProcess(actions) => actions.discard(),
            ActionRunner::HostStep(path) => step::discard(path).await,
        }
    }

    async fn healthz(&self, endpoint: &Healthz) -> Result<(), HealthzError> {
        healthz::probe(endpoint).await
    }

    async fn service_report(&self, since: Timestamp) -> ServiceReport<LastError> {
        match &self.runner {
            ActionRunner::InProcess(actions) => actions.service_report(since).await,
            ActionRunner::HostStep(path) => step::service_report(path, since).await,
        }
    }

    async fn process(&self) -> Result<KubeletProcess, ProcessProblem> {
        match &self.runner {
            ActionRunner::InProcess(_) => process::find(Path::new(process::PROC)),
            ActionRunner::HostStep(path) => step::process(path).await,
        }
    }

    async fn unmet(&self, needs: &[HostNeed]) -> Vec<Option<Unmet>> {
        match &self.runner {
            ActionRunner::InProcess(actions) => actions.unmet(needs).await,
            ActionRunner::HostStep(path) => step::unmet(path, needs).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn configured_version_comes_before_the_one_of_the_binary() {
        let actions = Actions {
            restart: "true".parse().expect("words"),
            stop: "true".parse().expect("words"),
            limit: Duration::from_secs(60),
            root: PathBuf::new(),
            host_root: None,
            kubelet: "echo Kubernetes v1.36.2-eks-1".parse().expect("words"),
            restarts: None,
            log: None,
        };
        let runner = ActionRunner::InProcess(Box::new(actions));
        let configured = SystemHost { runner, version: KubeletVersion::parse("v1.30.0") };
        assert_eq!(Host::version(&configured).await, KubeletVersion::parse("v1.30.0"));
    }
}
