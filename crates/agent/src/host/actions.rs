//! Actions that need privileges on the host. Commands of the service manager stop and restart the kubelet and explain its
//! failures, and its binary reports its version.

use std::io;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::Semaphore;

use super::command::CommandLine;
use super::preflight::{HostView, Unmet};
use super::problem::{CommandError, FileOperation, OsError, RestartProblem};
use super::{RestartError, ServiceReport, StateFiles, StateHandling, process};
use jiff::Timestamp;
use kubelet_config::risk::StateFile;
use kubelet_config::startup_error::LastError;
use kubelet_config::verdict::HostNeed;
use nodecfg_contract::KubeletVersion;

/// Time limit of `kubelet --version`.
const VERSION_TIMEOUT: Duration = Duration::from_secs(10);

/// Time limit of the checks of this host.
const PREFLIGHT_TIMEOUT: Duration = Duration::from_secs(10);

/// One check of this host at a time.
static PREFLIGHT: Semaphore = Semaphore::const_new(1);

/// Time limit of each command of a service report.
const REPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// Size limit of the log in which errors are looked for, in bytes.
const MAX_LOG: usize = 256 * 1024;

/// Actions that need privileges on the host.
#[derive(Debug, Clone)]
pub struct Actions {
    /// Command that restarts the kubelet, or starts it if it is stopped.
    pub restart: CommandLine,
    /// Command that stops the kubelet, so that its state files can be removed.
    pub stop: CommandLine,
    /// Time limit of each command.
    pub limit: Duration,
    /// Root directory of the kubelet, with its state files.
    pub root: PathBuf,
    /// Where this process sees the files of the host; `None` in a pod.
    pub host_root: Option<PathBuf>,
    /// Command of the kubelet's binary, to which `--version` is appended.
    pub kubelet: CommandLine,
    /// Command that prints how often the service manager has started the kubelet again. `None`: unknown.
    pub restarts: Option<CommandLine>,
    /// Command that prints the kubelet's log, newest line first, to which `--since=@SECONDS` is appended. `None`: unknown.
    pub log: Option<CommandLine>,
}

impl Actions {
    /// Restarts the kubelet, and handles these files of its root directory while it is stopped. Once the stop command
    /// has run, the kubelet is always started again, because a failed stop may have stopped it. Files are touched
    /// only after a successful stop.
    ///
    /// # Errors
    /// All problems, joined. `NotRequested` if a command could not be started, otherwise `Failed`.
    pub async fn restart(&self, state: &StateFiles) -> Result<(), RestartError> {
        if state.files.is_empty() {
            return self.restart.run(self.limit).await.map(drop).map_err(|error| restart_error(error, None));
        }
        let mut problems = Vec::new();
        match self.stop.run(self.limit).await {
            Ok(_) => problems.extend(state.files.iter().filter_map(|file| self.handle(*file, state.handling).err())),
            Err(error @ CommandError::NotStarted(_)) => {
                return Err(RestartError::NotRequested(RestartProblem::Stop(error).into()));
            }
            Err(error) => problems.push(RestartProblem::Stop(error)),
        }
        match self.restart.run(self.limit).await {
            Ok(_) if problems.is_empty() => Ok(()),
            Ok(_) => Err(RestartError::Failed(problems.into())),
            Err(error) => Err(restart_error(error, Some(problems))),
        }
    }

    fn handle(&self, file: StateFile, handling: StateHandling) -> Result<(), RestartProblem> {
        let (path, aside) = (self.root.join(file.as_str()), self.aside(file));
        let cannot = |operation| {
            move |error: io::Error| RestartProblem::StateFile { operation, file, cause: OsError::from(&error) }
        };
        let is_aside = aside.try_exists().map_err(cannot(FileOperation::Find))?;
        match handling {
            // An empty file aside stands for a file that did not exist, so that it is put back only once.
            StateHandling::SetAside if !is_aside && !path.exists() => {
                std::fs::write(&aside, "").map_err(cannot(FileOperation::Move))
            }
            StateHandling::SetAside if !is_aside => rename(&path, &aside).map_err(cannot(FileOperation::Move)),
            StateHandling::SetAside => remove(&path).map_err(cannot(FileOperation::Remove)),
            StateHandling::PutBack if !is_aside => Ok(()),
            StateHandling::PutBack if std::fs::metadata(&aside).is_ok_and(|file| file.len() == 0) => {
                remove(&path).and_then(|()| remove(&aside)).map_err(cannot(FileOperation::Remove))
            }
            StateHandling::PutBack => rename(&aside, &path).map_err(cannot(FileOperation::Move)),
            StateHandling::Remove => remove(&path).and_then(|()| remove(&aside)).map_err(cannot(FileOperation::Remove)),
        }
    }

    /// Deletes the state files that were set aside.
    ///
    /// # Errors
    /// `Failed`, with all problems.
    pub fn discard(&self) -> Result<(), RestartError> {
        let removed = |file: StateFile| {
            let operation = FileOperation::Remove;
            let problem = |error| RestartProblem::StateFile { operation, file, cause: OsError::from(&error) };
            remove(&self.aside(file)).map_err(problem)
        };
        let problems: Vec<RestartProblem> = StateFile::ALL.into_iter().filter_map(|file| removed(file).err()).collect();
        if problems.is_empty() { Ok(()) } else { Err(RestartError::Failed(problems.into())) }
    }

    /// Where a state file is kept. In the kubelet's own folder, because only a rename in one file system is atomic.
    fn aside(&self, file: StateFile) -> PathBuf {
        self.root.join(format!(".{file}.nodecfg-replaced"))
    }

    /// Reads the service manager's count of restarts, and the kubelet's last error since this time.
    pub async fn service_report(&self, since: Timestamp) -> ServiceReport<LastError> {
        let restarts = match &self.restarts {
            Some(command) => explaining(command.run(REPORT_TIMEOUT).await).and_then(|text| text.trim().parse().ok()),
            None => None,
        };
        let log = match &self.log {
            Some(command) => {
                let command = command.with_argument(&format!("--since=@{}", since.as_second()));
                explaining(command.start_of_output(REPORT_TIMEOUT, MAX_LOG).await)
            }
            None => None,
        };
        let last_error = log.and_then(|log| LastError::in_log(&oldest_first(&log)));
        ServiceReport { restarts, last_error }
    }

    /// Checks what this host lacks, for each need. Empty if that is unknown, or takes too long, as on a network file
    /// system without its server.
    pub(crate) async fn unmet(&self, needs: &[HostNeed]) -> Vec<Option<Unmet>> {
        let (root, host_root, needs) = (self.root.clone(), self.host_root.clone(), needs.to_vec());
        // A check that hangs must not be joined by others.
        let Ok(permit) = PREFLIGHT.try_acquire() else { return Vec::new() };
        let checked = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            HostView::new(Path::new(process::PROC), &root, host_root.as_deref()).map(|view| view.unmet(&needs))
        });
        match tokio::time::timeout(PREFLIGHT_TIMEOUT, checked).await {
            Ok(Ok(unmet)) => unmet.unwrap_or_default(),
            Ok(Err(_)) | Err(_) => Vec::new(),
        }
    }

    /// Version that the kubelet's binary reports. `None` if unknown.
    pub async fn version(&self) -> Option<KubeletVersion> {
        version_of(&self.kubelet).await
    }
}

/// Output of a command that only explains failures: without it, the agent works as before.
fn explaining(output: Result<String, CommandError>) -> Option<String> {
    output.inspect_err(|error| tracing::debug!("{error}")).ok()
}

/// The complete lines of a log whose newest line comes first, in their order.
fn oldest_first(log: &str) -> String {
    let complete = if log.len() < MAX_LOG { log } else { log.rsplit_once('\n').map_or("", |(complete, _)| complete) };
    complete.lines().rev().collect::<Vec<_>>().join("\n")
}

/// Version that the kubelet's binary reports. `None` if unknown.
pub(crate) async fn version_of(kubelet: &CommandLine) -> Option<KubeletVersion> {
    let output = kubelet.with_argument("--version").run(VERSION_TIMEOUT).await;
    output
        .inspect_err(|error| tracing::debug!("the kubelet's version is unknown: {error}"))
        .ok()
        .and_then(|text| parse_version(&text))
}

/// Renames a state file. Does nothing if it is missing.
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    match std::fs::rename(from, to) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        Err(_) => Ok(()),
        Ok(()) => {
            tracing::info!(from = %from.display(), to = %to.display(), "moved a state file of the kubelet");
            Ok(())
        }
    }
}

/// Removes a state file. Does nothing if it is missing.
fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        Err(_) => Ok(()),
        Ok(()) => {
            tracing::info!(file = %path.display(), "removed a state file of the kubelet");
            Ok(())
        }
    }
}

/// Error of the restart command. `before`: problems since the stop command, if that has run. If the restart command did
/// not start, the configuration is not at fault, and the agent tries again.
fn restart_error(error: CommandError, before: Option<Vec<RestartProblem>>) -> RestartError {
    let (was_stopped, mut problems) = (before.is_some(), before.unwrap_or_default());
    let was_requested = !matches!(error, CommandError::NotStarted(_));
    problems.push(RestartProblem::Restart(error));
    if was_requested {
        return RestartError::Failed(problems.into());
    }
    if was_stopped {
        problems.push(RestartProblem::MaybeStopped);
    }
    RestartError::NotRequested(problems.into())
}

/// Parses the output of `kubelet --version`: `Kubernetes v1.36.2`.
fn parse_version(text: &str) -> Option<KubeletVersion> {
    text.split_whitespace().rev().find_map(KubeletVersion::parse)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// Commands that log their name and the existing state files.
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
            host_root: None,
            kubelet: "echo Kubernetes v1.36.2-eks-1".parse().expect("words"),
            restarts: "echo 4".parse().ok(),
            log: None,
        }
    }

    fn all(handling: StateHandling) -> StateFiles {
        StateFiles { files: StateFile::ALL.to_vec(), handling }
    }

    fn log(root: &Path) -> String {
        fs::read_to_string(root.join("log")).expect("a command ran")
    }

    #[tokio::test]
    async fn removes_state_files_while_kubelet_is_stopped() {
        let root = tempfile::tempdir().expect("a folder");
        let actions = recording(root.path(), "true");
        fs::write(root.path().join("cpu_manager_state"), "{}").expect("written");
        actions.restart(&StateFiles::default()).await.expect("restarts");
        assert_eq!(log(root.path()), "restart cpu_manager_state\n");
        actions.restart(&all(StateHandling::Remove)).await.expect("a missing state file is no error");
        assert_eq!(log(root.path()), "restart cpu_manager_state\nstop cpu_manager_state\nrestart\n");
    }

    #[tokio::test]
    async fn keeps_state_files_after_failed_stop() {
        let root = tempfile::tempdir().expect("a folder");
        fs::write(root.path().join("cpu_manager_state"), "{}").expect("written");
        let error = recording(root.path(), "exit 1").restart(&all(StateHandling::Remove)).await;
        let Err(RestartError::Failed(reason)) = error else { panic!("{error:?}") };
        assert_eq!(reason.to_string(), "the command of --stop-command failed (exit status: 1)");
        assert_eq!(log(root.path()), "stop cpu_manager_state\nrestart cpu_manager_state\n");
        // The error lists every problem.
        let actions = Actions { restart: "sh -c 'exit 7'".parse().expect("words"), ..recording(root.path(), "exit 3") };
        let error = actions.restart(&all(StateHandling::Remove)).await;
        let Err(RestartError::Failed(reason)) = error else { panic!("{error:?}") };
        assert_eq!(
            reason.to_string(),
            "the command of --stop-command failed (exit status: 3); the command of --restart-command failed (exit status: 7)"
        );
    }

    /// Content of the CPU manager's state file, and of the one that was set aside.
    fn cpu_state(actions: &Actions) -> [Option<String>; 2] {
        let file = StateFile::CpuManagerState;
        [actions.root.join(file.as_str()), actions.aside(file)].map(|path| fs::read_to_string(path).ok())
    }

    fn text(content: &str) -> Option<String> {
        Some(content.to_owned())
    }

    #[tokio::test]
    async fn state_files_return_if_failed_configuration_was_never_healthy() {
        for (handling, expected) in [(StateHandling::PutBack, text("good")), (StateHandling::Remove, None)] {
            let root = tempfile::tempdir().expect("a folder");
            let actions = recording(root.path(), "true");
            let file = root.path().join("cpu_manager_state");
            fs::write(&file, "good").expect("written");
            actions.restart(&all(StateHandling::SetAside)).await.expect("restarted");
            assert_eq!(cpu_state(&actions), [None, text("good")]);
            // A repeated activation must keep the file of the last known good, not that of the failing kubelet.
            fs::write(&file, "failed").expect("written");
            actions.restart(&all(StateHandling::SetAside)).await.expect("restarted");
            assert_eq!(cpu_state(&actions), [None, text("good")]);
            fs::write(&file, "failed").expect("written");
            actions.restart(&all(handling)).await.expect("restarted");
            assert_eq!(cpu_state(&actions), [expected.clone(), None]);
            // The restart may have failed, or its result was not saved.
            actions.restart(&all(handling)).await.expect("restarted");
            assert_eq!(cpu_state(&actions), [expected, None]);
        }
    }

    /// The file of the failed configuration contradicts the good one, which had none.
    #[tokio::test]
    async fn state_file_that_did_not_exist_does_not_return() {
        let root = tempfile::tempdir().expect("a folder");
        let actions = recording(root.path(), "true");
        for _ in 0..2 {
            actions.restart(&all(StateHandling::SetAside)).await.expect("restarted");
            assert_eq!(cpu_state(&actions), [None, text("")]);
            fs::write(root.path().join("cpu_manager_state"), "failed").expect("written");
        }
        for _ in 0..2 {
            actions.restart(&all(StateHandling::PutBack)).await.expect("restarted");
            assert_eq!(cpu_state(&actions), [None, None]);
        }
    }

    #[tokio::test]
    async fn discards_files_that_were_set_aside() {
        let root = tempfile::tempdir().expect("a folder");
        let actions = recording(root.path(), "true");
        fs::write(root.path().join("cpu_manager_state"), "old").expect("written");
        actions.restart(&all(StateHandling::SetAside)).await.expect("restarted");
        fs::write(root.path().join("cpu_manager_state"), "new").expect("written");
        assert_eq!((actions.discard(), cpu_state(&actions)), (Ok(()), [text("new"), None]));
        assert_eq!(actions.discard(), Ok(()));
    }

    #[tokio::test]
    async fn missing_command_counts_as_not_requested() {
        let root = tempfile::tempdir().expect("a folder");
        let missing: CommandLine = "/no/such/program".parse().expect("words");
        let actions = Actions { restart: missing.clone(), ..recording(root.path(), "true") };
        for state in [StateFiles::default(), all(StateHandling::Remove)] {
            let error = actions.restart(&state).await;
            let Err(RestartError::NotRequested(reason)) = error else { panic!("{error:?}") };
            let reason = reason.to_string();
            assert_eq!(reason.contains("the kubelet may be stopped"), !state.files.is_empty(), "{reason}");
        }
        assert_eq!(log(root.path()), "stop\n");
        // A kubelet that was not stopped keeps running.
        let actions = Actions { stop: missing, ..recording(root.path(), "true") };
        let error = actions.restart(&all(StateHandling::Remove)).await;
        assert!(matches!(error, Err(RestartError::NotRequested(_))), "{error:?}");
        assert_eq!(log(root.path()), "stop\n");
    }

    #[tokio::test]
    async fn restarts_kubelet_after_failed_removal() {
        let root = tempfile::tempdir().expect("a folder");
        fs::create_dir(root.path().join("cpu_manager_state")).expect("a folder is no file");
        let error = recording(root.path(), "true")
            .restart(&all(StateHandling::Remove))
            .await
            .expect_err("cannot remove")
            .to_string();
        assert!(error.contains("cannot remove the kubelet's state file"), "{error}");
        assert_eq!(log(root.path()), "stop cpu_manager_state\nrestart cpu_manager_state\n");
    }

    #[tokio::test]
    async fn reports_restarts_and_last_error() {
        let root = tempfile::tempdir().expect("a folder");
        let since = Timestamp::from_second(1_763_971_200).expect("a time");
        let mut actions = recording(root.path(), "true");
        let read = |log: &str| LastError::in_log(log);
        actions.log = r#"sh -c 'echo "Error: asked for $0"'"#.parse().ok();
        let last_error = read("Error: asked for --since=@1763971200");
        assert!(last_error.is_some());
        assert_eq!(actions.service_report(since).await, ServiceReport { restarts: Some(4), last_error });
        // A long error fits into a reply of the host step; text that is no number is no count.
        actions.log = r#"sh -c 'echo "Error: $(head -c 30000 /dev/zero | tr "\0" "\1")"'"#.parse().ok();
        actions.restarts = "echo [not set]".parse().ok();
        let report = actions.service_report(since).await;
        assert_eq!(report.restarts, None);
        assert!((10_000..16_000).contains(&serde_json::to_vec(&report).expect("JSON").len()));
        // The newest line comes first. A line that was cut may mislead, so it does not count.
        actions.log = r#"sh -c 'echo " >"; printf "\tnew\n"; echo "E1124 08:00:00.1 1 a.go:1] \"command failed\" err=<"
            yes "Error: old" | head -n 100000'"#
            .parse()
            .ok();
        assert_eq!(actions.service_report(since).await.last_error, read("Error: new"));
        actions.log =
            r#"sh -c 'yes I | head -c 262100; echo; echo "Error: $(head -c 1000 /dev/zero | tr "\0" x)"'"#.parse().ok();
        assert_eq!(actions.service_report(since).await.last_error, None);
        // A command that fails costs only the explanation.
        (actions.log, actions.restarts) = ("false".parse().ok(), "/no/such/program".parse().ok());
        assert_eq!(actions.service_report(since).await, ServiceReport::default());
    }

    #[tokio::test]
    async fn reads_kubelet_version() {
        let root = tempfile::tempdir().expect("a folder");
        let actions = recording(root.path(), "true");
        assert_eq!(actions.version().await, KubeletVersion::parse("v1.36.2"));
        let unknown = Actions { kubelet: "/no/such/kubelet".parse().expect("words"), ..actions };
        assert_eq!(unknown.version().await, None);
    }
}
