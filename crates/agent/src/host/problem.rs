//! Reasons why the kubelet was not restarted, or does not answer, as they may be published. They are closed: no text of
//! a command, of the kubelet, or of another program that answers in its place is a part of them.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

use kubelet_config::risk::StateFile;
use serde::{Deserialize, Serialize};

/// Messages of `systemctl` that are published (systemd `src/systemctl/systemctl-start-unit.c` and
/// `src/shared/bus-wait-for-jobs.c`, and errors of its bus).
const SYSTEMD_MESSAGES: [&str; 10] = [
    "control process exited with error code",
    "a timeout was exceeded",
    "a fatal signal was delivered",
    "start request repeated too quickly",
    "start of the service was attempted too often",
    "is masked",
    "access denied",
    "interactive authentication required",
    "failed to connect to",
    "not found",
];

/// Checks of a kubelet's `/healthz` that are published (`pkg/kubelet/server/server.go`, and the device manager's).
const HEALTH_CHECKS: [&str; 4] = ["ping", "log", "syncloop", "device-plugin"];

/// An error of the operating system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OsError(Option<i32>);

impl From<&io::Error> for OsError {
    fn from(error: &io::Error) -> Self {
        Self(error.raw_os_error())
    }
}

impl fmt::Display for OsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(number) => io::Error::from_raw_os_error(number).fmt(f),
            None => f.write_str("unknown error"),
        }
    }
}

/// One of a list of texts, by its place in the list. A place outside of the list has no text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownMessage(usize);

impl KnownMessage {
    /// The message of `systemctl` in the output of a command, if it is known.
    #[must_use]
    pub(crate) fn in_output(output: &str) -> Option<Self> {
        let output = output.to_lowercase();
        SYSTEMD_MESSAGES.iter().position(|message| output.contains(message)).map(Self)
    }
}

impl fmt::Display for KnownMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SYSTEMD_MESSAGES.get(self.0).copied().unwrap_or_default())
    }
}

/// Reason why a command failed. Its output stays on the node, except for a known message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CommandError {
    /// The command could not be started and had no effect.
    #[error("cannot be started: {0}")]
    NotStarted(OsError),
    /// The command failed. Holds its status as `wait` returns it.
    #[error("failed ({}){}", ExitStatus::from_raw(*status), suffix(message.as_ref()))]
    Failed {
        /// Status, as `wait` returns it.
        status: i32,
        /// Known message in its output.
        message: Option<KnownMessage>,
    },
    /// The command did not end in time.
    #[error("did not end within {} s and was killed", limit.as_secs_f64())]
    TimedOut {
        /// The time limit.
        limit: Duration,
    },
    /// The end of the command cannot be read.
    #[error("cannot be waited for: {0}")]
    Unwatched(OsError),
}

impl CommandError {
    /// Failure with an exit code.
    #[must_use]
    pub fn exited(code: u8) -> Self {
        Self::Failed { status: i32::from(code) << 8, message: None }
    }
}

fn suffix(message: Option<&KnownMessage>) -> String {
    message.map(|message| format!(": {message}")).unwrap_or_default()
}

/// Operation on a state file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FileOperation {
    /// Look for the file.
    Find,
    /// Rename the file.
    Move,
    /// Delete the file.
    Remove,
}

impl fmt::Display for FileOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Find => "find",
            Self::Move => "move",
            Self::Remove => "remove",
        })
    }
}

/// One reason why the kubelet was not restarted, or why a state file remains.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RestartProblem {
    /// The command of `--restart-command` failed.
    #[error("the command of --restart-command {0}")]
    Restart(CommandError),
    /// The command of `--stop-command` failed.
    #[error("the command of --stop-command {0}")]
    Stop(CommandError),
    /// The kubelet was stopped, and the restart command did not start.
    #[error("the kubelet may be stopped until the command starts")]
    MaybeStopped,
    /// The command ended without an error, and the same process still runs.
    #[error("the command of --restart-command has not restarted the kubelet: process {0} still runs")]
    SameProcess(u32),
    /// A state file could not be handled.
    #[error("cannot {operation} the kubelet's state file {file}: {cause}")]
    StateFile {
        /// The operation.
        operation: FileOperation,
        /// The file.
        file: StateFile,
        /// Error of the system.
        cause: OsError,
    },
    /// The host step is unreachable.
    #[error("cannot reach the host step: {0}")]
    Unreachable(OsError),
    /// The host step did not answer in time.
    #[error("the host step did not answer within {} s", limit.as_secs())]
    NoAnswer {
        /// The time limit.
        limit: Duration,
    },
    /// The host step sent another reply than the request has.
    #[error("the host step sent an invalid reply: run the same version of both programs")]
    InvalidReply,
    /// The host step does not know the request.
    #[error("the host step does not support this request: run the agent's version")]
    Unsupported,
}

/// Reasons why the kubelet was not restarted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestartProblems(Vec<RestartProblem>);

impl From<Vec<RestartProblem>> for RestartProblems {
    fn from(problems: Vec<RestartProblem>) -> Self {
        Self(problems)
    }
}

impl From<RestartProblem> for RestartProblems {
    fn from(problem: RestartProblem) -> Self {
        Self(vec![problem])
    }
}

impl fmt::Display for RestartProblems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&texts.join("; "))
    }
}

/// Reason why the kubelet's `/healthz` counts as unhealthy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HealthzError {
    /// The configuration disables the endpoint.
    #[error("its healthz port is disabled (healthzPort: 0)")]
    Disabled,
    /// The configuration has no usable address.
    #[error("healthzBindAddress is not an IP address")]
    NoAddress,
    /// No answer in time.
    #[error("http://{at}/healthz: no answer within {} s", limit.as_secs())]
    TimedOut {
        /// The endpoint.
        at: SocketAddr,
        /// The time limit.
        limit: Duration,
    },
    /// The connection failed.
    #[error("http://{at}/healthz: {cause}")]
    NoConnection {
        /// The endpoint.
        at: SocketAddr,
        /// Error of the system.
        cause: OsError,
    },
    /// The answer is not HTTP.
    #[error("http://{at}/healthz: its answer is not HTTP")]
    NotHttp {
        /// The endpoint.
        at: SocketAddr,
    },
    /// The kubelet answers with an error.
    #[error("http://{at}/healthz: answers {}{}", text_of(*status), failed_checks(checks))]
    Status {
        /// The endpoint.
        at: SocketAddr,
        /// Status code.
        status: http::StatusCode,
        /// Known checks that failed.
        checks: Vec<&'static str>,
    },
}

impl HealthzError {
    /// The error if nothing listens at the default endpoint.
    #[must_use]
    pub fn refused() -> Self {
        let cause = OsError(Some(rustix::io::Errno::CONNREFUSED.raw_os_error()));
        Self::NoConnection { at: SocketAddr::from(([127, 0, 0, 1], 10248)), cause }
    }
}

fn text_of(status: http::StatusCode) -> String {
    let reason = status.canonical_reason().map(|reason| format!(" {reason}"));
    format!("{}{}", status.as_u16(), reason.unwrap_or_default())
}

fn failed_checks(checks: &[&str]) -> String {
    if checks.is_empty() { String::new() } else { format!(": failed checks: {}", checks.join(", ")) }
}

/// The known checks that an answer of `/healthz` names as failed: `[-]syncloop failed: reason withheld`.
pub(super) fn named_checks(body: &str) -> Vec<&'static str> {
    let has_failed = |name: &&str| body.lines().any(|line| line.starts_with(&format!("[-]{name} failed")));
    HEALTH_CHECKS.into_iter().filter(has_failed).collect()
}
