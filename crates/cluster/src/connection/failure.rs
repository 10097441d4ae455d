//! Classification of failed attempts: by the server's Status, or by the chain of client errors. Must not quote the
//! output of a credential plugin or an unreadable response, which may contain credentials.

use std::error::Error as StdError;
use std::io::ErrorKind;
use std::time::Duration;

use kube::client::AuthError;
use serde::Deserialize;

use super::error::{ClusterError, Unreachable};
use super::operation::{Operation, Resource, Verb};
use super::retry::FailureClass;
use nodecfg_contract::installation::{FORMER_CONFIG_MAPS_POLICY, NOT_A_WRITER, config_maps_policy};
use nodecfg_contract::printable;

/// Limit of a Status's message, in characters: the API server reports all faults of an object in one message.
const LONGEST_MESSAGE: usize = 10_000;
/// Limit of the shorter fields, in characters; object names have up to 253.
const LONGEST_NAME: usize = 300;
/// Limit of the causes of a failure.
const MOST_CAUSES: usize = 100;

/// Failure of one attempt.
#[derive(Debug)]
pub enum AttemptError {
    /// The server returned an error status.
    Status { code: u16, retry_after: Option<Duration>, status: Box<Status> },
    /// The connection was not established.
    NoConnection(Unreachable),
    /// The connection broke before the end of the response.
    Lost(String),
    /// No response within the time limit of one attempt.
    TooSlow(Duration),
    /// The credentials could not be obtained.
    Credentials(String),
    /// The response has an unexpected content.
    Unreadable(String),
}

/// The parts of meta/v1 `Status` that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Status {
    pub reason: Option<String>,
    pub message: Option<String>,
    pub code: Option<u16>,
    pub details: Option<Details>,
}

/// The parts of `StatusDetails` that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Details {
    pub kind: Option<String>,
    pub name: Option<String>,
    pub causes: Option<Vec<Cause>>,
}

/// The parts of `StatusCause` that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Cause {
    pub reason: Option<String>,
    pub message: Option<String>,
}

impl Status {
    /// Reads an error response. Text that is not a Status (a proxy's page, the API server's plain `404 page not
    /// found`) becomes a Status without a reason; its message is the start of the text. Kubelets and proxies answer
    /// here too, so messages are truncated and control characters removed.
    pub fn read(body: &[u8]) -> Self {
        match serde_json::from_slice::<Self>(body) {
            Ok(status) if status.message.is_some() || status.reason.is_some() => status.sanitized(),
            _ => {
                let text: String = printable::lines(String::from_utf8_lossy(body).trim()).chars().take(200).collect();
                Self { message: Some(text), ..Self::default() }
            }
        }
    }

    /// The Status with short texts that contain no control characters.
    pub(crate) fn sanitized(self) -> Self {
        let short = |text: String| printable::at_most(&printable::one_line(&text), LONGEST_NAME);
        let cause = |cause: Cause| Cause { reason: cause.reason.map(short), message: cause.message.map(short) };
        let clean = |details: Details| Details {
            kind: details.kind.map(short),
            name: details.name.map(short),
            causes: details.causes.map(|causes| causes.into_iter().take(MOST_CAUSES).map(cause).collect()),
        };
        Self {
            reason: self.reason.map(short),
            message: self.message.map(|text| printable::at_most(&printable::lines(&text), LONGEST_MESSAGE)),
            code: self.code,
            details: self.details.map(clean),
        }
    }
}

impl AttemptError {
    /// Classifies an error of the client stack. Only the connector's error kind proves that no connection was made.
    pub(crate) fn of_client(error: kube::Error) -> Self {
        let chain = || std::iter::successors(Some(&error as &(dyn StdError + 'static)), |&e| e.source());
        if let Some(auth) = chain().find_map(|e| e.downcast_ref::<AuthError>()) {
            return Self::Credentials(describe_auth(auth));
        }
        let connecting =
            chain().filter_map(|e| e.downcast_ref::<hyper_util::client::legacy::Error>()).any(|e| e.is_connect());
        if !connecting {
            return Self::Lost(root_cause(&error));
        }
        if let Some(tls) = chain().find_map(tls_error) {
            return Self::NoConnection(Unreachable::Tls(tls));
        }
        let io = chain().filter_map(|e| e.downcast_ref::<std::io::Error>()).last().map(std::io::Error::kind);
        let text = root_cause(&error);
        Self::NoConnection(match io {
            Some(ErrorKind::ConnectionRefused) => Unreachable::Refused,
            Some(ErrorKind::TimedOut) => Unreachable::Slow,
            _ if chain().any(|e| e.to_string().contains("dns error")) => Unreachable::Name(text),
            _ => Unreachable::Other(text),
        })
    }

    /// Class of the failure, which decides about a retry.
    pub fn class(&self) -> FailureClass {
        match self {
            Self::Status { code, retry_after, .. } => FailureClass::Status { code: *code, retry_after: *retry_after },
            Self::NoConnection(Unreachable::Tls(_)) | Self::Credentials(_) | Self::Unreadable(_) => {
                FailureClass::Permanent
            }
            Self::NoConnection(_) => FailureClass::NoConnection,
            Self::Lost(_) => FailureClass::Lost,
            Self::TooSlow(_) => FailureClass::TooSlow,
        }
    }

    /// Short message on one line, for the log and for [`ClusterError::TimedOut`].
    pub fn summary(&self) -> String {
        match self {
            Self::Status { code: 429, .. } => "the API server limits requests (429)".to_owned(),
            Self::Status { code, status, .. } => match status.message.as_deref().filter(|text| !text.is_empty()) {
                Some(message) => format!("the API server returns {code}: {}", printable::one_line(message)),
                None => format!("the API server returns {code}"),
            },
            Self::NoConnection(cause) => format!("the API server cannot be reached: {cause}"),
            Self::Lost(text) => format!("the connection was lost: {text}"),
            Self::TooSlow(limit) => format!("no response within {:.0} s", limit.as_secs_f64()),
            Self::Credentials(text) | Self::Unreadable(text) => text.clone(),
        }
    }

    /// Error of an operation whose failure is final.
    pub(crate) fn into_error(self, operation: &Operation, server: &str) -> ClusterError {
        let operation = Box::new(operation.clone());
        let server = server.to_owned();
        match self {
            Self::Status { code, status, .. } => of_status(operation, server, code, *status),
            Self::NoConnection(cause) => ClusterError::Unreachable { operation, server, cause },
            Self::Lost(text) => ClusterError::Unreachable { operation, server, cause: Unreachable::Other(text) },
            Self::TooSlow(_) => ClusterError::Unreachable { operation, server, cause: Unreachable::Slow },
            Self::Credentials(message) => ClusterError::Unauthorized { operation, server, message },
            Self::Unreadable(message) => ClusterError::Unexpected { operation, message },
        }
    }
}

fn of_status(operation: Box<Operation>, server: String, code: u16, status: Status) -> ClusterError {
    let Status { reason, message, details, .. } = status;
    let structured = reason.is_some();
    let reason = reason.unwrap_or_default();
    let message = message.unwrap_or_else(|| format!("status {code}"));
    let details = details.unwrap_or_default();
    if operation.resource == Resource::Configz
        && !structured
        && let Some(error) = kubelet_refusal(&operation, code, &message)
    {
        return error;
    }
    match code {
        401 => ClusterError::Unauthorized { operation, server, message },
        403 => match (refused_writer(&message), user_of(&message)) {
            (Some((policy, user)), _) => ClusterError::NotAWriter { operation, policy, user },
            // Quotas, terminating namespaces and admission plugins return 403 as well; only RBAC's message contains
            // the user.
            (None, None) if !message.contains("cannot ") => ClusterError::Invalid { operation, message },
            (None, user) => ClusterError::Forbidden { operation, user },
        },
        404 if details.kind.as_deref() == Some("namespaces") => {
            ClusterError::NamespaceMissing { operation, namespace: details.name.unwrap_or_default() }
        }
        // For a missing object the server names the object; for an unknown resource it names nothing.
        404 if operation.resource == Resource::NodeConfigs && details.name.is_none() => {
            ClusterError::DefinitionMissing { operation }
        }
        404 if structured => ClusterError::NotFound { operation },
        409 if reason == "AlreadyExists" => ClusterError::AlreadyExists { operation },
        409 => ClusterError::Conflict { operation, message },
        410 => ClusterError::Expired { operation },
        // A failed `test`, and a `remove` of a missing field: reason Invalid, with details that name nothing.
        422 if operation.verb == Verb::Patch && details.kind.is_none() && details.name.is_none() => {
            ClusterError::PreconditionFailed { operation }
        }
        400 | 405 | 406 | 413 | 415 | 422 if structured => ClusterError::Invalid { operation, message },
        _ => ClusterError::Unexpected { operation, message: format!("status {code}: {message}") },
    }
}

/// Refusal by the kubelet, recognized by the status code of a response that is not a Status. `None` for every other
/// response.
fn kubelet_refusal(operation: &Operation, code: u16, message: &str) -> Option<ClusterError> {
    let operation = || Box::new(operation.clone());
    match code {
        401 | 403 => Some(ClusterError::KubeletRefuses { operation: operation(), message: message.to_owned() }),
        404 | 405 => Some(ClusterError::KubeletSilent { operation: operation() }),
        _ => None,
    }
}

/// User in RBAC's refusal: `nodes is forbidden: User "ci" cannot list resource …`.
fn user_of(message: &str) -> Option<String> {
    let (_, rest) = message.split_once("User \"")?;
    let (user, rest) = rest.split_once('"')?;
    rest.trim_start().starts_with("cannot").then(|| user.to_owned())
}

/// Policy of `nodecfg install` for ConfigMaps, and the user that it refuses. The policy takes the name from the request, so
/// it is the one of a SelfSubjectReview.
fn refused_writer(message: &str) -> Option<(String, String)> {
    let (_, rest) = message.split_once("ValidatingAdmissionPolicy '")?;
    let (policy, rest) = rest.split_once('\'')?;
    let is_ours = policy == FORMER_CONFIG_MAPS_POLICY || policy.starts_with(&config_maps_policy(""));
    let (_, user) = rest.split_once(NOT_A_WRITER).filter(|_| is_ours)?;
    Some((policy.to_owned(), user.to_owned()))
}

pub(crate) fn describe_auth(error: &AuthError) -> String {
    match error {
        // The error's own text quotes the whole output of the plugin, which contains the token.
        AuthError::AuthExecRun { out, .. } => {
            format!("the credential plugin of the kubeconfig failed ({})", out.status)
        }
        AuthError::AuthExecParse(_) => "the credential plugin of the kubeconfig returned unreadable output".to_owned(),
        AuthError::AuthExecStart(cause) => format!("the credential plugin of the kubeconfig cannot be run: {cause}"),
        AuthError::ReadTokenFile(cause, path) => format!("the token file {} cannot be read: {cause}", path.display()),
        AuthError::InvalidBasicAuth(_) | AuthError::InvalidBearerToken(_) => {
            "the credentials in the kubeconfig contain characters that are invalid in a header".to_owned()
        }
        AuthError::ExecPluginFailed => "the credential plugin of the kubeconfig returned no credentials".to_owned(),
        AuthError::MissingCommand => "the credential plugin of the kubeconfig has no command".to_owned(),
        _ => "the credentials of the kubeconfig cannot be used".to_owned(),
    }
}

fn tls_error(error: &(dyn StdError + 'static)) -> Option<String> {
    if let Some(tls) = error.downcast_ref::<rustls::Error>() {
        return Some(tls.to_string());
    }
    // An io::Error hides its payload from `source()` and exposes the payload's own source instead. Here the errors
    // are nested.
    tls_error(error.downcast_ref::<std::io::Error>()?.get_ref()?)
}

/// Text at the end of the chain: the cause. The outer texts only repeat the layers of the client. Removes the link to
/// its manual that rustls appends.
fn root_cause(error: &(dyn StdError + 'static)) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    let text = last.to_string();
    text.split_once(": https://docs.rs/").map_or(text.clone(), |(cause, _)| cause.to_owned())
}

#[cfg(test)]
#[path = "failure_tests.rs"]
mod tests;
