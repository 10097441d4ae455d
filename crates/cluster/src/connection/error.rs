//! Errors of requests to an API server. Each error names the operation and the object; [`help`] returns the fix. No
//! text may contain a credential.
//!
//! [`help`]: ClusterError::help

use std::fmt;
use std::time::Duration;

use super::operation::{Operation, Resource};
use nodecfg_contract::installation::options_for_writers;

/// User of a request without credentials (k8s.io/apiserver `pkg/authentication/user`).
pub const ANONYMOUS: &str = "system:anonymous";

/// Reason for a failed connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unreachable {
    /// The server name does not resolve.
    Name(String),
    /// The connection was refused.
    Refused,
    /// TLS failed, usually because of a certificate.
    Tls(String),
    /// No response came in time.
    Slow,
    /// Any other reason.
    Other(String),
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(text) => write!(f, "the host name does not resolve ({text})"),
            Self::Refused => f.write_str("connection refused"),
            Self::Tls(text) => write!(f, "TLS: {text}"),
            Self::Slow => f.write_str("no response in time"),
            Self::Other(text) => f.write_str(text),
        }
    }
}

/// Failed request to an API server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// The connection failed.
    #[error("cannot {operation}: the API server at {server} cannot be reached: {cause}")]
    Unreachable {
        /// Failed operation.
        operation: Box<Operation>,
        /// Address of the server.
        server: String,
        /// The reason.
        cause: Unreachable,
    },
    /// The server returned 401, or the credential plugin failed before the request.
    #[error("cannot {operation}: the API server at {server} does not accept the credentials: {message}")]
    Unauthorized {
        /// Failed operation.
        operation: Box<Operation>,
        /// Address of the server.
        server: String,
        /// Message of the server or the plugin.
        message: String,
    },
    /// RBAC or another authorizer refused the request.
    #[error("cannot {operation}: {} may not {} {} {}", user.as_deref().unwrap_or("this user"), operation.verb.as_str(),
        qualified(operation), scope(operation))]
    Forbidden {
        /// Failed operation.
        operation: Box<Operation>,
        /// User name that the server derived from the credentials.
        user: Option<String>,
    },
    /// The admission policy of `nodecfg install` refused a write of a ConfigMap of nodecfg.
    #[error(
        "cannot {operation}: the ValidatingAdmissionPolicy {policy} of this cluster does not list {user} \
             among the users who may write ConfigMaps of nodecfg"
    )]
    NotAWriter {
        /// Failed operation.
        operation: Box<Operation>,
        /// Name of the policy.
        policy: String,
        /// User name that the server derived from the credentials.
        user: String,
    },
    /// The namespace of the request is missing.
    #[error("cannot {operation}: namespace {namespace:?} does not exist")]
    NamespaceMissing {
        /// Failed operation.
        operation: Box<Operation>,
        /// The namespace.
        namespace: String,
    },
    /// The server does not serve the resource: its CustomResourceDefinition is missing.
    #[error("cannot {operation}: this cluster has no {}", qualified(operation))]
    DefinitionMissing {
        /// Failed operation.
        operation: Box<Operation>,
    },
    /// The server dropped `spec.contentHash` or `spec.placement` of a NodeConfig: its CustomResourceDefinition is older than this program.
    #[error(
        "cannot {operation}: the cluster's CustomResourceDefinition of NodeConfigs has no spec.contentHash or no spec.placement"
    )]
    DefinitionOutdated {
        /// Failed operation.
        operation: Box<Operation>,
    },
    /// The server keeps `Node.spec.configSource`, and NodeConfigs exist too.
    #[error(
        "cannot determine the binding: this API server keeps spec.configSource of Nodes, and NodeConfigs exist as well"
    )]
    BindingUnclear {
        /// Operation that found the NodeConfigs.
        operation: Box<Operation>,
    },
    /// The object is missing.
    #[error("cannot {operation}: the object does not exist")]
    NotFound {
        /// Failed operation.
        operation: Box<Operation>,
    },
    /// An object of this name exists already.
    #[error("cannot {operation}: the object already exists")]
    AlreadyExists {
        /// Failed operation.
        operation: Box<Operation>,
    },
    /// The version or uid of the object differs from the one in the request.
    #[error("cannot {operation}: another client changed the object: {message}")]
    Conflict {
        /// Failed operation.
        operation: Box<Operation>,
        /// Message of the server.
        message: String,
    },
    /// Another client manages fields of a server-side apply with other values.
    #[error("cannot {operation}: another client manages some of its fields: {message}")]
    FieldsTaken {
        /// Failed operation.
        operation: Box<Operation>,
        /// Message of the server, with the fields and their managers.
        message: String,
    },
    /// The server stored a CustomResourceDefinition but does not serve its resource.
    #[error("cannot {operation}: the API server stores the definition but does not serve it{}", suffix(message))]
    NotEstablished {
        /// Failed operation.
        operation: Box<Operation>,
        /// Message of the server; may be empty.
        message: String,
    },
    /// A JSON Patch `test` failed: the object changed since the patch was made. The API server returns 422 and names
    /// no object.
    #[error("cannot {operation}: the object changed after the change was planned")]
    PreconditionFailed {
        /// Failed operation.
        operation: Box<Operation>,
    },
    /// The server rejected the content of the request.
    #[error("cannot {operation}: the API server rejects the request: {message}")]
    Invalid {
        /// Failed operation.
        operation: Box<Operation>,
        /// Message of the server.
        message: String,
    },
    /// The start version of a list continuation or a watch expired (410). This crate handles the error and returns it
    /// only when it repeats.
    #[error("cannot {operation}: the API server no longer keeps this version of the collection")]
    Expired {
        /// Failed operation.
        operation: Box<Operation>,
    },
    /// The server accepted the patch and dropped `spec.configSource`.
    #[error(
        "cannot {operation}: the API server accepts the patch and silently drops spec.configSource, as versions from 1.26 do"
    )]
    FeatureDropped {
        /// Failed operation.
        operation: Box<Operation>,
    },
    /// A ConfigMap of the expected name has other content, is mutable or is being deleted.
    #[error("cannot {operation}: a ConfigMap of that name exists and {difference}")]
    ContentMismatch {
        /// Failed operation.
        operation: Box<Operation>,
        /// The difference, phrased to follow "and".
        difference: String,
    },
    /// The lock was lost, so the write was refused.
    #[error("cannot {operation}: the lock {lease} was lost, so nothing more was written: {reason}")]
    LockLost {
        /// Refused operation.
        operation: Box<Operation>,
        /// Namespace and name of the Lease.
        lease: String,
        /// The reason.
        reason: String,
    },
    /// All attempts until the deadline failed.
    #[error("cannot {operation}: gave up after {attempts} attempts in {}: {last}", seconds(*waited))]
    TimedOut {
        /// Failed operation.
        operation: Box<Operation>,
        /// Number of attempts.
        attempts: u32,
        /// Time since the first attempt.
        waited: Duration,
        /// Failure of the last attempt.
        last: String,
    },
    /// A kubelet refused a request of the API server.
    #[error("cannot {operation}: the kubelet refuses the API server: {message}")]
    KubeletRefuses {
        /// Failed operation.
        operation: Box<Operation>,
        /// Message of the kubelet.
        message: String,
    },
    /// The API server cannot reach a node's kubelet.
    #[error("cannot {operation}: the API server cannot reach the kubelet: {message}")]
    KubeletUnreachable {
        /// Failed operation.
        operation: Box<Operation>,
        /// Message of the API server.
        message: String,
    },
    /// A kubelet does not serve configz.
    #[error("cannot {operation}: the kubelet does not serve configz (enableDebuggingHandlers: false)")]
    KubeletSilent {
        /// Failed operation.
        operation: Box<Operation>,
    },
    /// A response that no Kubernetes API server sends.
    #[error("cannot {operation}: unexpected response: {message}")]
    Unexpected {
        /// Failed operation.
        operation: Box<Operation>,
        /// Summary of the response.
        message: String,
    },
}

/// `: message`, or an empty text.
fn suffix(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(": {message}") }
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

/// Resource with its group, for example `nodes` or `leases.coordination.k8s.io`.
fn qualified(operation: &Operation) -> String {
    match operation.resource.group() {
        "" => operation.resource.plural().to_owned(),
        group => format!("{}.{group}", operation.resource.plural()),
    }
}

fn scope(operation: &Operation) -> String {
    match &operation.namespace {
        Some(namespace) => format!("in namespace {namespace}"),
        None => "in the cluster".to_owned(),
    }
}

impl ClusterError {
    /// Failed operation.
    #[must_use]
    pub fn operation(&self) -> &Operation {
        match self {
            Self::Unreachable { operation, .. }
            | Self::Unauthorized { operation, .. }
            | Self::Forbidden { operation, .. }
            | Self::NotAWriter { operation, .. }
            | Self::NamespaceMissing { operation, .. }
            | Self::DefinitionMissing { operation }
            | Self::DefinitionOutdated { operation }
            | Self::BindingUnclear { operation }
            | Self::NotFound { operation }
            | Self::AlreadyExists { operation }
            | Self::Conflict { operation, .. }
            | Self::FieldsTaken { operation, .. }
            | Self::NotEstablished { operation, .. }
            | Self::PreconditionFailed { operation }
            | Self::Invalid { operation, .. }
            | Self::Expired { operation }
            | Self::FeatureDropped { operation }
            | Self::ContentMismatch { operation, .. }
            | Self::LockLost { operation, .. }
            | Self::TimedOut { operation, .. }
            | Self::KubeletRefuses { operation, .. }
            | Self::KubeletUnreachable { operation, .. }
            | Self::KubeletSilent { operation }
            | Self::Unexpected { operation, .. } => operation,
        }
    }

    /// Stable identifier in kebab case, for machine-readable reports.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => "cluster-unreachable",
            Self::Unauthorized { .. } => "cluster-unauthorized",
            Self::Forbidden { .. } => "cluster-forbidden",
            Self::NotAWriter { .. } => "not-a-writer",
            Self::NamespaceMissing { .. } => "namespace-missing",
            Self::DefinitionMissing { .. } => "definition-missing",
            Self::DefinitionOutdated { .. } => "definition-outdated",
            Self::BindingUnclear { .. } => "binding-unclear",
            Self::NotFound { .. } => "object-missing",
            Self::AlreadyExists { .. } => "object-exists",
            Self::Conflict { .. } => "object-changed",
            Self::FieldsTaken { .. } => "fields-taken",
            Self::NotEstablished { .. } => "definition-not-established",
            Self::PreconditionFailed { .. } => "precondition-failed",
            Self::Invalid { .. } => "request-refused",
            Self::Expired { .. } => "version-expired",
            Self::FeatureDropped { .. } => "config-source-dropped",
            Self::ContentMismatch { .. } => "config-map-differs",
            Self::LockLost { .. } => "lock-lost",
            Self::TimedOut { .. } => "cluster-timeout",
            Self::KubeletRefuses { .. } => "kubelet-refuses",
            Self::KubeletUnreachable { .. } => "kubelet-unreachable",
            Self::KubeletSilent { .. } => "kubelet-without-configz",
            Self::Unexpected { .. } => "cluster-unexpected",
        }
    }

    /// Fix for the user.
    #[must_use]
    pub fn help(&self) -> String {
        match self {
            Self::Unreachable { cause, server, .. } => match cause {
                Unreachable::Name(_) => format!("check the server address {server} in the kubeconfig"),
                Unreachable::Refused => format!("check that an API server listens on {server}"),
                Unreachable::Tls(_) => {
                    "check certificate-authority-data and tls-server-name of this cluster in the kubeconfig".to_owned()
                }
                Unreachable::Slow | Unreachable::Other(_) => {
                    format!("check the network to {server}: VPN, proxy, firewall")
                }
            },
            Self::Unauthorized { .. } => {
                "renew the credentials as for kubectl, until `kubectl auth whoami` succeeds".to_owned()
            }
            Self::Forbidden { user: Some(user), .. } if user == ANONYMOUS => {
                "the request had no credentials: check the user of this context in the kubeconfig".to_owned()
            }
            Self::Forbidden { operation, .. } if operation.resource == Resource::Configz => {
                "bind the user to the ClusterRole nodecfg-capture of deploy/capture".to_owned()
            }
            Self::Forbidden { operation, .. } if operation.is_of_drain() => {
                "bind the user to the ClusterRole nodecfg-drainer of deploy/drainer".to_owned()
            }
            Self::Forbidden { operation, .. } if operation.is_of_pool_pointers() => {
                "bind the user to the Role nodecfg-pool-pointers of deploy/pool-pointers".to_owned()
            }
            Self::Forbidden { operation, .. } => operation.right().grant(),
            Self::NotAWriter { operation, user, .. } => format!(
                "as an administrator, repeat the `nodecfg install` of the namespace {} with all its options and `{}`",
                operation.namespace.as_deref().unwrap_or_default(),
                options_for_writers([user.as_str()])
            ),
            Self::NamespaceMissing { namespace, .. } if namespace == nodecfg_contract::installation::NAMESPACE => {
                "create it with `nodecfg install`, or pass another --namespace".to_owned()
            }
            Self::DefinitionMissing { .. } => {
                "install the definition, the roles and the agents with `nodecfg install`".to_owned()
            }
            Self::DefinitionOutdated { .. } => {
                "update the definition with `nodecfg install`, and then the agents".to_owned()
            }
            Self::BindingUnclear { .. } => {
                "pass --binding nodeconfig if node agents follow the NodeConfigs, or --binding \
                node if the kubelets follow their Nodes"
                    .to_owned()
            }
            Self::NamespaceMissing { namespace, .. } => {
                format!("run `kubectl create namespace {namespace}`, or pass another --namespace")
            }
            Self::NotFound { .. }
            | Self::AlreadyExists { .. }
            | Self::Conflict { .. }
            | Self::PreconditionFailed { .. } => "run the command again: it reads the current objects".to_owned(),
            Self::FieldsTaken { .. } => {
                "run the command again with --force-conflicts to take over the fields".to_owned()
            }
            Self::NotEstablished { .. } => {
                "see the conditions with `kubectl describe crd nodeconfigs.nodecfg.dev`".to_owned()
            }
            Self::Invalid { .. } => "check the admission policies and webhooks of the cluster".to_owned(),
            Self::Expired { .. } => "run the command again when the server is less busy".to_owned(),
            Self::FeatureDropped { .. } => {
                "pass --binding nodeconfig, so that node agents carry out the assignments (`nodecfg install`)"
                    .to_owned()
            }
            Self::ContentMismatch { operation, .. } => format!(
                "inspect it with `kubectl get configmap -n {} {} -o yaml`, and delete it once no Node refers to it",
                operation.namespace.as_deref().unwrap_or_default(),
                operation.name.as_deref().unwrap_or_default()
            ),
            Self::LockLost { .. } => "run the command again: it continues from the state of the cluster".to_owned(),
            Self::TimedOut { .. } => "run the command again once the API server answers".to_owned(),
            Self::KubeletRefuses { .. } => {
                "bind the API server's own user to the ClusterRole system:kubelet-api-admin".to_owned()
            }
            Self::KubeletUnreachable { .. } => {
                "check that the kubelet runs and that the API server reaches port 10250 of the node".to_owned()
            }
            Self::KubeletSilent { .. } => {
                "use the kubelet's configuration file (--config, often /var/lib/kubelet/config.yaml)".to_owned()
            }
            Self::Unexpected { operation, .. } if operation.resource == Resource::Configz => {
                "check the node, or capture another one".to_owned()
            }
            Self::Unexpected { .. } => {
                "check that the kubeconfig points at a Kubernetes API server and not at a proxy's login page".to_owned()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::operation::Verb;

    #[test]
    fn forbidden_names_user_verb_scope_and_rule() {
        let operation = Box::new(Operation::on(Verb::Patch, Resource::Nodes, None, "n1"));
        let error = ClusterError::Forbidden { operation, user: Some("ci".to_owned()) };
        assert_eq!(error.to_string(), "cannot patch node n1: ci may not patch nodes in the cluster");
        assert_eq!(
            error.help(),
            "bind the user to a ClusterRole with the rule {apiGroups: [\"\"], resources: [nodes], verbs: [patch]}"
        );
        let operation = Box::new(Operation::on(Verb::Create, Resource::Leases, Some("kube-system"), "nodecfg-a"));
        let error = ClusterError::Forbidden { operation, user: None };
        assert_eq!(
            error.to_string(),
            "cannot create lease kube-system/nodecfg-a: this user may not create leases.coordination.k8s.io in namespace \
             kube-system"
        );
        assert!(error.help().contains("a Role in namespace kube-system with the rule"));
    }

    #[test]
    fn error_is_at_most_96_bytes() {
        assert!(size_of::<ClusterError>() <= 96, "{}", size_of::<ClusterError>());
    }
}
