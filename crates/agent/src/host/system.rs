//! The kubelet as this host runs it: restarted by a command of the service manager, asked for its version by running its
//! binary. What needs privileges can be left to another process ([`step`]).

use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use super::command::{CommandError, CommandLine};
use super::{Healthz, Host, RestartError, healthz, step};
use kubelet_config::risk::StateFile;
use nodecfg_contract::observed::KubeletVersion;

/// How long `kubelet --version` may take.
const VERSION_LIMIT: Duration = Duration::from_secs(10);

/// What needs privileges on the host.
#[derive(Debug, Clone)]
pub struct Actions {
    /// Restarts the kubelet, and starts one that does not run.
    pub restart: CommandLine,
    /// Stops the kubelet, so that its state files can be removed.
    pub stop: CommandLine,
    /// How long each of the two may take.
    pub limit: Duration,
    /// The kubelet's root directory, where its state files are.
    pub root: PathBuf,
    /// The kubelet's binary, to which `--version` is appended.
    pub kubelet: CommandLine,
}

impl Actions {
    /// Restarts the kubelet, with these files of its root directory removed while it does not run. Once the command that
    /// stops it has run, it is started again, however that and the removal went: a stop that failed or took too long may
    /// have stopped it all the same. Files are removed only when it is known to be stopped.
    ///
    /// # Errors
    /// Everything that went wrong. `NotAsked` when a command could not be started.
    pub async fn restart(&self, remove: &[StateFile]) -> Result<(), RestartError> {
        if remove.is_empty() {
            return self.restart.run(self.limit).await.map(drop).map_err(RestartError::from);
        }
        let mut problems = Vec::new();
        match self.stop.run(self.limit).await {
            Ok(_) => problems.extend(remove.iter().filter_map(|file| self.remove(*file).err())),
            Err(CommandError::Failed(reason)) => problems.push(reason),
            Err(error @ CommandError::NotStarted(_)) => return Err(error.into()),
        }
        match self.restart.run(self.limit).await {
            Ok(_) if problems.is_empty() => Ok(()),
            Ok(_) => Err(RestartError::Failed(problems.join("; "))),
            Err(CommandError::Failed(reason)) => {
                problems.push(reason);
                Err(RestartError::Failed(problems.join("; ")))
            }
            Err(CommandError::NotStarted(reason)) => {
                problems.push(reason);
                Err(RestartError::NotAsked(problems.join("; ")))
            }
        }
    }

    fn remove(&self, file: StateFile) -> Result<(), String> {
        let path = self.root.join(file.as_str());
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(format!("cannot remove the kubelet's state file {}: {error}", path.display()))
            }
            Ok(()) => {
                tracing::info!(file = %path.display(), "removed a state file of the kubelet");
                Ok(())
            }
            Err(_) => Ok(()),
        }
    }

    /// The version that the kubelet's binary says it has; `None` when it says nothing that is one.
    pub async fn version(&self) -> Option<KubeletVersion> {
        let said = self.kubelet.with("--version").run(VERSION_LIMIT).await;
        said.inspect_err(|error| tracing::debug!("the kubelet's version is not known: {error}"))
            .ok()
            .and_then(|text| parse_version(&text))
    }
}

impl From<CommandError> for RestartError {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::NotStarted(reason) => Self::NotAsked(reason),
            CommandError::Failed(reason) => Self::Failed(reason),
        }
    }
}

/// Reads what `kubelet --version` writes: `Kubernetes v1.36.2`.
fn parse_version(text: &str) -> Option<KubeletVersion> {
    text.split_whitespace().rev().find_map(KubeletVersion::parse)
}

/// Who carries out what needs privileges.
#[derive(Debug, Clone)]
pub enum Hands {
    /// This process.
    Own(Actions),
    /// `nodecfg-agent host-step`, behind this socket.
    Socket(PathBuf),
}

/// The kubelet of this host.
#[derive(Debug, Clone)]
pub struct SystemHost {
    /// Who restarts it.
    pub hands: Hands,
    /// Its version, where somebody said it.
    pub version: Option<KubeletVersion>,
}

impl Host for SystemHost {
    async fn version(&self) -> Option<KubeletVersion> {
        match (&self.version, &self.hands) {
            (Some(version), _) => Some(*version),
            (None, Hands::Own(actions)) => actions.version().await,
            (None, Hands::Socket(path)) => step::version(path).await,
        }
    }

    async fn restart(&self, remove: &[StateFile]) -> Result<(), RestartError> {
        match &self.hands {
            Hands::Own(actions) => actions.restart(remove).await,
            Hands::Socket(path) => step::restart(path, remove).await,
        }
    }

    async fn healthz(&self, at: &Healthz) -> Result<(), String> {
        healthz::ask(at).await
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// Commands that write down what they are and which state files were there.
    fn recording(root: &Path, stop: &str) -> Actions {
        let script = |name: &str, end: &str| {
            format!("sh -c 'cd {} && echo {name} $(ls | grep state) >> log; {end}'", root.display())
                .parse()
                .expect("words")
        };
        Actions {
            restart: script("restart", "true"),
            stop: script("stop", stop),
            limit: Duration::from_secs(60),
            root: root.to_path_buf(),
            kubelet: "echo Kubernetes v1.36.2-eks-1".parse().expect("words"),
        }
    }

    fn log(root: &Path) -> String {
        fs::read_to_string(root.join("log")).expect("something ran")
    }

    #[tokio::test]
    async fn state_files_are_removed_while_the_kubelet_does_not_run() {
        let root = tempfile::tempdir().expect("a folder");
        let actions = recording(root.path(), "true");
        fs::write(root.path().join("cpu_manager_state"), "{}").expect("written");
        actions.restart(&[]).await.expect("restarts");
        assert_eq!(log(root.path()), "restart cpu_manager_state\n");
        actions.restart(&StateFile::ALL).await.expect("one of them is not there, which is fine");
        assert_eq!(log(root.path()), "restart cpu_manager_state\nstop cpu_manager_state\nrestart\n");
    }

    #[tokio::test]
    async fn a_kubelet_that_may_not_have_stopped_keeps_its_files_and_is_started_again() {
        let root = tempfile::tempdir().expect("a folder");
        fs::write(root.path().join("cpu_manager_state"), "{}").expect("written");
        let error = recording(root.path(), "exit 1").restart(&StateFile::ALL).await;
        let Err(RestartError::Failed(reason)) = error else { panic!("{error:?}") };
        assert!(reason.contains("failed (exit status: 1)"), "{reason}");
        assert_eq!(log(root.path()), "stop cpu_manager_state\nrestart cpu_manager_state\n");
        // All that went wrong is told.
        let actions = Actions { restart: "sh -c 'exit 7'".parse().expect("words"), ..recording(root.path(), "exit 3") };
        let error = actions.restart(&StateFile::ALL).await;
        let Err(RestartError::Failed(reason)) = error else { panic!("{error:?}") };
        assert!(reason.contains("(exit status: 3)") && reason.contains("(exit status: 7)"), "{reason}");
    }

    #[tokio::test]
    async fn a_command_that_is_not_there_was_not_asked() {
        let root = tempfile::tempdir().expect("a folder");
        let missing: CommandLine = "/no/such/program".parse().expect("words");
        let actions = Actions { restart: missing.clone(), ..recording(root.path(), "true") };
        for remove in [&[][..], &StateFile::ALL] {
            let error = actions.restart(remove).await;
            assert!(matches!(error, Err(RestartError::NotAsked(_))), "{error:?}");
        }
        assert_eq!(log(root.path()), "stop\n");
        // One that was not stopped is left as it is.
        let actions = Actions { stop: missing, ..recording(root.path(), "true") };
        let error = actions.restart(&StateFile::ALL).await;
        assert!(matches!(error, Err(RestartError::NotAsked(_))), "{error:?}");
        assert_eq!(log(root.path()), "stop\n");
    }

    #[tokio::test]
    async fn a_stopped_kubelet_is_started_again_whatever_became_of_the_files() {
        let root = tempfile::tempdir().expect("a folder");
        fs::create_dir(root.path().join("cpu_manager_state")).expect("a folder is no file");
        let error =
            recording(root.path(), "true").restart(&StateFile::ALL).await.expect_err("cannot remove").to_string();
        assert!(error.contains("cannot remove the kubelet's state file"), "{error}");
        assert_eq!(log(root.path()), "stop cpu_manager_state\nrestart cpu_manager_state\n");
    }

    #[tokio::test]
    async fn versions() {
        let root = tempfile::tempdir().expect("a folder");
        let actions = recording(root.path(), "true");
        assert_eq!(actions.version().await, KubeletVersion::parse("v1.36.2"));
        let silent = Actions { kubelet: "/no/such/kubelet".parse().expect("words"), ..actions.clone() };
        assert_eq!(silent.version().await, None);
        let said = SystemHost { hands: Hands::Own(actions), version: KubeletVersion::parse("v1.30.0") };
        assert_eq!(Host::version(&said).await, KubeletVersion::parse("v1.30.0"));
    }
}
