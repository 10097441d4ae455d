//! Exit codes of the agent, and the errors behind them.

use std::io::Write as _;

use anstream::eprint;
use anstyle::{AnsiColor, Style};
use nodecfg_cluster::ClusterError;
use nodecfg_cluster::connection::connect::ConnectError;
use nodecfg_cluster::connection::error::ANONYMOUS;
use nodecfg_contract::json_document::{Document, Kind};
use serde::Serialize;

use super::Format;

/// Exit code of the agent; the numbers match those of `nodecfg`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exit {
    /// Success.
    Done = 0,
    /// Wrong usage, a problem of this host, or damaged state.
    Failed = 2,
    /// No API server is configured, or it is unreachable or refused a request.
    Cluster = 4,
    /// The node does not run the assignment or the configuration of its pool, or did not finish in time.
    NotConverged = 5,
}

/// Error that ends the agent.
#[derive(Debug)]
pub(super) struct AgentError {
    exit: Exit,
    code: &'static str,
    message: String,
    help: String,
}

impl AgentError {
    /// Error for invalid arguments.
    pub(super) fn usage(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { exit: Exit::Failed, code: "usage", message: message.into(), help: help.into() }
    }

    /// Error for a problem of this host.
    pub(super) fn agent(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { exit: Exit::Failed, code: "agent", message: message.into(), help: help.into() }
    }

    /// Error for a configuration that this node must not run.
    pub(super) fn refused(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { exit: Exit::NotConverged, code: "refused", message: message.into(), help: help.into() }
    }

    /// The error in one sentence.
    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// Writes the error, as text to standard error or as a document to `out`.
    pub(super) fn report(&self, format: Format, out: &mut Vec<u8>) -> Exit {
        let error = ErrorMessage { code: self.code, message: &self.message, help: &self.help };
        let document = Document::new(Report { exit_code: self.exit as u8, errors: [error] });
        // If the report cannot be written, the exit code remains.
        let _ = match format {
            Format::Json => serde_json::to_string(&document).map(|text| writeln!(out, "{text}")).is_ok(),
            Format::Yaml => serde_saphyr::to_string(&document).map(|text| out.extend(text.into_bytes())).is_ok(),
            Format::Text => {
                let (error, help) = (Style::new().fg_color(Some(AnsiColor::Red.into())).bold(), Style::new().bold());
                eprint!("{error}error:{error:#} {}\n", self.message);
                if !self.help.is_empty() {
                    eprint!("  {help}help:{help:#} {}\n", self.help);
                }
                true
            }
        };
        self.exit
    }
}

/// Document of an error, in the format of `nodecfg`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
    exit_code: u8,
    errors: [ErrorMessage<'a>; 1],
}

impl Kind for Report<'_> {
    const KIND: &'static str = "Error";
}

#[derive(Serialize)]
struct ErrorMessage<'a> {
    code: &'a str,
    message: &'a str,
    help: &'a str,
}

impl From<ConnectError> for AgentError {
    fn from(error: ConnectError) -> Self {
        let help = error.help().to_owned();
        Self { exit: Exit::Cluster, code: "no-cluster", message: error.to_string(), help }
    }
}

impl From<ClusterError> for AgentError {
    fn from(error: ClusterError) -> Self {
        // A request without credentials has another fix.
        let help = match &error {
            ClusterError::Forbidden { user, .. } if user.as_deref() != Some(ANONYMOUS) => {
                "as an administrator, install the rights of the agents: `nodecfg install --agent systemd`, or `nodecfg install \
                 --agent daemonset --image IMAGE`"
                    .to_owned()
            }
            _ => error.help(),
        };
        Self { exit: Exit::Cluster, code: error.code(), message: error.to_string(), help }
    }
}

impl From<std::io::Error> for AgentError {
    fn from(error: std::io::Error) -> Self {
        Self::agent(format!("cannot write the output: {error}"), "check the disk's free space")
    }
}

impl From<serde_json::Error> for AgentError {
    fn from(error: serde_json::Error) -> Self {
        std::io::Error::from(error).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodecfg_cluster::connection::operation::{Operation, Resource, Verb};

    /// An administrator of agents installs their rights, and binds no user by hand.
    #[test]
    fn forbidden_request_names_the_installation_of_agents() {
        let help = |user: &str| {
            let operation = Box::new(Operation::on(Verb::Get, Resource::Nodes, None, "n1"));
            AgentError::from(ClusterError::Forbidden { operation, user: Some(user.to_owned()) }).help
        };
        assert!(help("system:node:n1").contains("nodecfg install --agent"));
        assert!(help(ANONYMOUS).contains("kubeconfig"));
    }
}
