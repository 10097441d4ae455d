//! Errors of all commands, and their conversion to an exit code, a message and a fix.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::doctor::{SyncFailure, Unavailable};
use crate::report;
use crate::report::error::{ErrorMessage, ErrorReport};
use crate::report::{findings, stale};
use crate::repository::RepositoryError;
use crate::telemetry::facts::RunFailure;
use crate::terminal::exit::Exit;
use kubelet_config::finding::{Finding, Severity};
use nodecfg_cluster::lock::OrderError;
use nodecfg_cluster::{ClusterError, ConnectError, LockError};
use nodecfg_contract::json_document::Document;
use nodecfg_contract::names::NodeName;
use nodecfg_fleet::snapshot::Snapshot;
use nodecfg_plan::saved::{Difference, SavedPlanError};
use nodecfg_plan::{Problem, Violation};

/// Result of a command.
pub(crate) type CommandResult = Result<Exit, CommandError>;

/// Reason why a command failed.
#[derive(Debug)]
pub(crate) enum CommandError {
    /// Arguments conflict, or one is invalid here.
    Usage { message: String, help: String },
    /// The repository cannot be read.
    Repository(Box<RepositoryError>),
    /// The repository can be read and is invalid.
    Invalid { findings: Vec<Finding>, snapshot: Box<Snapshot> },
    /// No cluster is configured or its configuration is invalid.
    Connect(ConnectError),
    /// The cluster refused a request or failed.
    Cluster(ClusterError),
    /// None of the nodes answered.
    Nodes(Vec<ClusterError>),
    /// The node does not exist.
    UnknownNode { node: NodeName, help: String },
    /// Another sync holds the lock, or the lock could not be taken.
    Lock(LockError),
    /// The orders in the Lease are malformed.
    Orders(OrderError),
    /// A signal arrived before the first change.
    Interrupted,
    /// No plan is possible.
    Problems { problems: Vec<Problem>, snapshot: Box<Snapshot> },
    /// A saved plan cannot be read, written or used.
    PlanFile { path: PathBuf, error: PlanFileError },
    /// The cluster or repository changed after the plan was saved.
    Stale { path: PathBuf, differences: Vec<Difference> },
    /// The plan violates an invariant, which is a bug.
    Violations(Vec<Violation>),
    /// The embedded cluster failed.
    Sandbox { message: String, help: String },
    /// Output could not be written.
    Output(io::Error),
    /// A file of `--report` could not be written.
    Report { path: PathBuf, error: io::Error },
    /// The asynchronous runtime could not start.
    Runtime(io::Error),
}

/// Reason why a saved plan cannot be written or used.
#[derive(Debug)]
pub(crate) enum PlanFileError {
    /// The file cannot be read.
    Read(io::Error),
    /// The file cannot be written.
    Write(io::Error),
    /// The content is not a valid plan.
    Unreadable(SavedPlanError),
}

impl PlanFileError {
    fn message(&self, path: &Path) -> ErrorMessage {
        let path = path.display();
        let (code, text, help) = match self {
            Self::Read(error) => (
                "plan-file-unreadable",
                format!("cannot read the saved plan {path}: {error}"),
                "name a file that `nodecfg diff --out FILE` wrote",
            ),
            Self::Write(error) => (
                "plan-file-unwritable",
                format!("cannot save the plan as {path}: {error}"),
                "name a file in an existing, writable folder",
            ),
            Self::Unreadable(why) => (why.code(), format!("the saved plan {path} {why}"), why.help()),
        };
        message(code, text, help)
    }
}

impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl From<RepositoryError> for CommandError {
    fn from(error: RepositoryError) -> Self {
        Self::Repository(Box::new(error))
    }
}

impl From<SyncFailure> for Exit {
    /// Uses the exit code of a sync that ends for the same reason.
    fn from(failure: SyncFailure) -> Self {
        match failure {
            SyncFailure::BadRepository | SyncFailure::NoPlan => Self::InvalidRepository,
            SyncFailure::Cluster | SyncFailure::InTheWay => Self::Cluster,
            SyncFailure::Locked => Self::Locked,
            SyncFailure::LeftOut => Self::NotConverged,
        }
    }
}

impl Unavailable {
    /// Summary of a failure for `doctor`: the first message, and the number of further ones.
    pub(crate) fn of(failure: &CommandError) -> Self {
        let mut messages = failure.error_messages().into_iter();
        let Some(ErrorMessage { code, mut message, mut help }) = messages.next() else { return Self::default() };
        let more = messages.count();
        if more > 0 {
            message = format!("{message}, and {} more", report::count(more, "error"));
        }
        if matches!(failure, CommandError::Invalid { .. }) {
            help = format!("{help}\nnodecfg validate shows every finding").trim().to_owned();
        }
        Self { code, message, help }
    }
}

impl From<serde_json::Error> for CommandError {
    fn from(error: serde_json::Error) -> Self {
        Self::Output(error.into())
    }
}

impl From<ClusterError> for CommandError {
    fn from(error: ClusterError) -> Self {
        Self::Cluster(error)
    }
}

impl From<ConnectError> for CommandError {
    fn from(error: ConnectError) -> Self {
        Self::Connect(error)
    }
}

impl From<LockError> for CommandError {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Cluster(error) => Self::Cluster(error),
            held => Self::Lock(held),
        }
    }
}

impl From<OrderError> for CommandError {
    fn from(error: OrderError) -> Self {
        match error {
            OrderError::Cluster(error) => Self::Cluster(error),
            garbled => Self::Orders(garbled),
        }
    }
}

fn message(code: &str, message: impl ToString, help: impl Into<String>) -> ErrorMessage {
    ErrorMessage { code: code.to_owned(), message: message.to_string(), help: help.into() }
}

fn of_finding(finding: &Finding) -> ErrorMessage {
    let place = finding.place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default();
    message(finding.code, format!("{place}{}", finding.message), finding.help.clone().unwrap_or_default())
}

/// The messages of a problem and of its findings.
fn of_problem(problem: &Problem) -> Vec<ErrorMessage> {
    let mut messages = vec![message(problem.code(), problem, problem.help())];
    if let Problem::Refused { findings, .. } = problem {
        messages.extend(findings.iter().map(of_finding));
    }
    messages
}

impl CommandError {
    /// An error about conflicting or invalid arguments.
    pub(crate) fn usage(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), help: help.into() }
    }

    /// Kind of the failure, for metrics.
    pub(crate) fn kind(&self) -> RunFailure {
        match self {
            Self::Usage { .. } => RunFailure::Usage,
            Self::Repository(_) => RunFailure::Repository,
            Self::Invalid { .. } => RunFailure::Invalid,
            Self::Connect(_) => RunFailure::NoCluster,
            Self::Cluster(ClusterError::LockLost { .. }) | Self::Lock(_) => RunFailure::Locked,
            Self::Cluster(_) | Self::Nodes(_) | Self::UnknownNode { .. } | Self::Orders(_) => RunFailure::Cluster,
            Self::Interrupted => RunFailure::Interrupted,
            Self::Problems { .. } => RunFailure::NoPlan,
            Self::Stale { .. } => RunFailure::StalePlan,
            Self::PlanFile { .. } => RunFailure::PlanFile,
            Self::Report { .. } => RunFailure::Usage,
            Self::Violations(_) | Self::Sandbox { .. } | Self::Output(_) | Self::Runtime(_) => RunFailure::Internal,
        }
    }

    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Usage { .. }
            | Self::Violations(_)
            | Self::Sandbox { .. }
            | Self::Output(_)
            | Self::Report { .. }
            | Self::Runtime(_) => Exit::Failed,
            Self::Repository(error) if matches!(**error, RepositoryError::NothingSigned { .. }) => Exit::Failed,
            Self::Repository(_) | Self::Invalid { .. } => Exit::InvalidRepository,
            Self::Problems { problems, .. } => {
                if problems.iter().any(Problem::is_of_repository) {
                    Exit::InvalidRepository
                } else {
                    Exit::Cluster
                }
            }
            Self::Cluster(ClusterError::LockLost { .. }) => Exit::Locked,
            Self::Connect(_) | Self::Cluster(_) | Self::Nodes(_) | Self::Orders(_) => Exit::Cluster,
            Self::UnknownNode { .. } => Exit::Failed,
            Self::Lock(_) => Exit::Locked,
            Self::Interrupted => Exit::NotConverged,
            Self::PlanFile { error: PlanFileError::Unreadable(_), .. } | Self::Stale { .. } => Exit::StalePlan,
            Self::PlanFile { .. } => Exit::Failed,
        }
    }

    /// All messages with their fixes.
    pub(crate) fn error_messages(&self) -> Vec<ErrorMessage> {
        let one = match self {
            Self::Usage { message: text, help } => message("usage", text, help),
            Self::Repository(error) => message("repository", error, error.help()),
            Self::Invalid { findings, .. } => {
                let errors = findings.iter().filter(|finding| finding.severity == Severity::Error);
                return errors.map(of_finding).collect();
            }
            Self::Connect(error) => message("no-cluster", error, error.help()),
            Self::Cluster(error) => message(error.code(), error, error.help()),
            Self::Nodes(errors) => {
                return errors.iter().map(|error| message(error.code(), error, error.help())).collect();
            }
            Self::UnknownNode { node, help } => {
                message("unknown-node", format!("node {node} does not exist in the cluster"), help)
            }
            Self::Lock(error) => message("locked", error, error.help()),
            Self::Orders(error) => message("orders", error, error.help()),
            Self::Interrupted => {
                message("interrupted", "interrupted before anything was changed", "run the command again")
            }
            Self::Problems { problems, .. } => return problems.iter().flat_map(of_problem).collect(),
            Self::PlanFile { path, error } => error.message(path),
            Self::Stale { path, differences } => {
                message("stale-plan", stale::summary(path, differences), stale::help(path, differences))
            }
            Self::Violations(violations) => {
                let text = |violation| format!("the plan breaks an invariant, so nothing was written: {violation}");
                let help = "report this text as a bug of nodecfg";
                return violations.iter().map(|violation| message("plan-violation", text(violation), help)).collect();
            }
            Self::Sandbox { message: text, help } => message("sandbox", text, help),
            Self::Output(error) => {
                message("output", format!("cannot write the output: {error}"), "check the free space of the disk")
            }
            Self::Report { path, error } => {
                let help = match error.kind() {
                    io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free space on the disk of this file",
                    _ => "name a file in an existing, writable folder",
                };
                message("output", format!("cannot write the report {}: {error}", path.display()), help)
            }
            Self::Runtime(error) => message(
                "runtime",
                format!("cannot start the asynchronous runtime: {error}"),
                "check the limits on threads and open files (`ulimit -a`)",
            ),
        };
        vec![one]
    }

    /// The findings of the failure, and the snapshot with their texts.
    pub(crate) fn findings(&self) -> Option<(Vec<&Finding>, &Snapshot)> {
        match self {
            Self::Invalid { findings, snapshot } => Some((findings.iter().collect(), snapshot)),
            Self::Problems { problems, snapshot } => {
                let refused = problems.iter().filter_map(|problem| match problem {
                    Problem::Refused { findings, .. } => Some(findings),
                    _ => None,
                });
                Some((refused.flatten().collect(), snapshot))
            }
            _ => None,
        }
    }

    /// The failure for programs: `{formatVersion, kind, exitCode, errors}`, plus `validation` for an invalid
    /// repository.
    pub(crate) fn document(&self) -> serde_json::Result<Value> {
        let errors = self.error_messages();
        let validation = match self {
            Self::Invalid { findings, snapshot } => Some(findings::by_file(snapshot, findings)),
            _ => None,
        };
        let differences = match self {
            Self::Stale { differences, .. } => differences.clone(),
            _ => Vec::new(),
        };
        let exit_code = self.exit() as u8;
        Document::value(ErrorReport { exit_code, errors, validation, differences })
    }
}
