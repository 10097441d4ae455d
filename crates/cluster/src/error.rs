//! What can go wrong between nodecfg and an API server. Each error names the operation and the object; [`help`] says the
//! way out. No text here ever holds a credential.
//!
//! [`help`]: ClusterError::help

use std::fmt;
use std::time::Duration;

use super::operation::{Operation, Resource};

/// Why no connection to the server could be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unreachable {
    /// Its name does not resolve.
    Name(String),
    /// Nothing listens there.
    Refused,
    /// TLS failed, most often over a certificate.
    Tls(String),
    /// No answer came in time.
    Slow,
    /// Anything else.
    Other(String),
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(text) => write!(f, "its name does not resolve ({text})"),
            Self::Refused => f.write_str("connection refused"),
            Self::Tls(text) => write!(f, "TLS: {text}"),
            Self::Slow => f.write_str("no answer in time"),
            Self::Other(text) => f.write_str(text),
        }
    }
}

/// A failed conversation with an API server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// No connection could be made.
    #[error("cannot {operation}: the API server at {server} cannot be reached: {cause}")]
    Unreachable {
        /// What was to be done.
        operation: Box<Operation>,
        /// Address of the server.
        server: String,
        /// Why.
        cause: Unreachable,
    },
    /// The server answers 401, or the credential plugin failed before anything was sent.
    #[error("cannot {operation}: the API server at {server} does not accept the credentials: {message}")]
    Unauthorized {
        /// What was to be done.
        operation: Box<Operation>,
        /// Address of the server.
        server: String,
        /// The server's or the plugin's words.
        message: String,
    },
    /// RBAC (or another authorizer) refuses.
    #[error("cannot {operation}: {} may not {} {} {}", user.as_deref().unwrap_or("this user"), operation.verb.as_str(),
        qualified(operation), scope(operation))]
    Forbidden {
        /// What was to be done.
        operation: Box<Operation>,
        /// Who the server takes nodecfg for.
        user: Option<String>,
    },
    /// The namespace of the request does not exist.
    #[error("cannot {operation}: namespace {namespace:?} does not exist")]
    NamespaceMissing {
        /// What was to be done.
        operation: Box<Operation>,
        /// The namespace.
        namespace: String,
    },
    /// The server does not know the resource: its CustomResourceDefinition is not there.
    #[error("cannot {operation}: this cluster has no {}", qualified(operation))]
    DefinitionMissing {
        /// What was to be done.
        operation: Box<Operation>,
    },
    /// The server keeps `Node.spec.configSource`, and there are NodeConfigs too.
    #[error(
        "cannot tell where the assignments are: this API server keeps spec.configSource of Nodes, and there are \
        NodeConfigs as well"
    )]
    BindingUnclear {
        /// How the NodeConfigs were found.
        operation: Box<Operation>,
    },
    /// The object does not exist.
    #[error("cannot {operation}: it does not exist")]
    NotFound {
        /// What was to be done.
        operation: Box<Operation>,
    },
    /// An object of this name is there already.
    #[error("cannot {operation}: it exists already")]
    AlreadyExists {
        /// What was to be done.
        operation: Box<Operation>,
    },
    /// The object has another version or uid than the request was made for.
    #[error("cannot {operation}: it was changed meanwhile: {message}")]
    Conflict {
        /// What was to be done.
        operation: Box<Operation>,
        /// The server's words.
        message: String,
    },
    /// A server-side apply met fields that somebody else has set otherwise.
    #[error("cannot {operation}: somebody else has set some of its fields otherwise: {message}")]
    FieldsTaken {
        /// What was to be done.
        operation: Box<Operation>,
        /// The server's words, which name the fields and their managers.
        message: String,
    },
    /// The server took a CustomResourceDefinition and does not serve what it describes.
    #[error("cannot {operation}: it is stored, but what it describes is not served{}", said(message))]
    NotEstablished {
        /// What was looked at.
        operation: Box<Operation>,
        /// The server's words; empty when it says nothing.
        message: String,
    },
    /// A JSON Patch `test` failed: the object is no longer what the patch was made for. The API server says so with 422
    /// and names nothing.
    #[error("cannot {operation}: it is no longer as it was when the change was planned")]
    PreconditionFailed {
        /// What was to be done.
        operation: Box<Operation>,
    },
    /// The server refuses the content of the request.
    #[error("cannot {operation}: the API server refuses it: {message}")]
    Invalid {
        /// What was to be done.
        operation: Box<Operation>,
        /// The server's words.
        message: String,
    },
    /// The version that a list continuation or a watch starts from is gone (410). Handled within the cluster layer;
    /// it comes out only when it repeats.
    #[error("cannot {operation}: the server no longer has that version of the collection")]
    Expired {
        /// What was to be done.
        operation: Box<Operation>,
    },
    /// The server took the patch and dropped `spec.configSource`.
    #[error("cannot {operation}: the API server accepted the patch and dropped spec.configSource")]
    FeatureDropped {
        /// What was to be done.
        operation: Box<Operation>,
    },
    /// A ConfigMap of the right name holds something else.
    #[error("cannot {operation}: a ConfigMap of that name exists and {difference}")]
    ContentDiffers {
        /// What was to be done.
        operation: Box<Operation>,
        /// In what it differs, ready to follow "and".
        difference: String,
    },
    /// The lock was lost, so nothing is written any more.
    #[error("cannot {operation}: the lock {lease} was lost: {reason}")]
    LockLost {
        /// What was to be done.
        operation: Box<Operation>,
        /// Namespace and name of the Lease.
        lease: String,
        /// How.
        reason: String,
    },
    /// It went wrong again and again until the deadline.
    #[error("cannot {operation}: gave up after {attempts} attempts in {}: {last}", seconds(*waited))]
    TimedOut {
        /// What was to be done.
        operation: Box<Operation>,
        /// How often it was tried.
        attempts: u32,
        /// For how long.
        waited: Duration,
        /// What the last attempt met.
        last: String,
    },
    /// A node's kubelet does not let the API server have what it asked for.
    #[error("cannot {operation}: the kubelet refuses the API server: {message}")]
    KubeletRefuses {
        /// What was to be done.
        operation: Box<Operation>,
        /// The kubelet's words.
        message: String,
    },
    /// The API server cannot reach a node's kubelet.
    #[error("cannot {operation}: the API server does not reach it: {message}")]
    KubeletUnreachable {
        /// What was to be done.
        operation: Box<Operation>,
        /// The API server's words.
        message: String,
    },
    /// A node's kubelet does not serve what was asked for.
    #[error("cannot {operation}: the kubelet does not serve configz")]
    KubeletSilent {
        /// What was to be done.
        operation: Box<Operation>,
    },
    /// An answer that a Kubernetes API server does not give.
    #[error("cannot {operation}: unexpected answer: {message}")]
    Unexpected {
        /// What was to be done.
        operation: Box<Operation>,
        /// What came back.
        message: String,
    },
}

/// `: words`, or nothing.
fn said(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(": {message}") }
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

/// `nodes`, `leases.coordination.k8s.io`.
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
    /// What was to be done.
    #[must_use]
    pub fn operation(&self) -> &Operation {
        match self {
            Self::Unreachable { operation, .. }
            | Self::Unauthorized { operation, .. }
            | Self::Forbidden { operation, .. }
            | Self::NamespaceMissing { operation, .. }
            | Self::DefinitionMissing { operation }
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
            | Self::ContentDiffers { operation, .. }
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
            Self::NamespaceMissing { .. } => "namespace-missing",
            Self::DefinitionMissing { .. } => "definition-missing",
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
            Self::ContentDiffers { .. } => "config-map-differs",
            Self::LockLost { .. } => "lock-lost",
            Self::TimedOut { .. } => "cluster-timeout",
            Self::KubeletRefuses { .. } => "kubelet-refuses",
            Self::KubeletUnreachable { .. } => "kubelet-unreachable",
            Self::KubeletSilent { .. } => "kubelet-without-configz",
            Self::Unexpected { .. } => "cluster-unexpected",
        }
    }

    /// The way out, in whole sentences.
    #[must_use]
    pub fn help(&self) -> String {
        match self {
            Self::Unreachable { cause, server, .. } => match cause {
                Unreachable::Name(_) => format!("check the server address {server} in the kubeconfig, and DNS or VPN"),
                Unreachable::Refused => {
                    format!("check that the API server runs and that {server} is its address, port included")
                }
                Unreachable::Tls(_) => "check certificate-authority-data and tls-server-name of this cluster in the \
                    kubeconfig, and the clock of this machine"
                    .to_owned(),
                Unreachable::Slow | Unreachable::Other(_) => {
                    format!("check the network between here and {server}: VPN, proxy, firewall")
                }
            },
            Self::Unauthorized { .. } => "the credentials are wrong or have expired. Renew them as you would for kubectl \
                (log in again, refresh the cloud provider's kubeconfig entry, or make a new token: \
                kubectl create token <serviceaccount>), then check with: kubectl auth whoami"
                .to_owned(),
            Self::Forbidden { operation, .. } if operation.resource == Resource::Configz => format!(
                "grant it with this rule, for as long as it is needed: it allows more than reading a configuration \
                 (docs/security.md). The role nodecfg-capture has it (deploy/capture)\n{}",
                rbac_rule(operation)
            ),
            Self::Forbidden { operation, .. } => format!("grant it with this rule:\n{}", rbac_rule(operation)),
            Self::NamespaceMissing { namespace, .. } if namespace == nodecfg_contract::installation::NAMESPACE => {
                "nodecfg install makes it, with the CustomResourceDefinition and the roles that belong to it: nodecfg install \
                 --dry-run shows what that is. Or name another namespace in nodecfg.yaml under spec.namespace or with \
                 --namespace"
                    .to_owned()
            }
            Self::DefinitionMissing { .. } => "API servers from 1.26 on drop spec.configSource of Nodes, so the assignments are kept \
                in NodeConfigs, which node agents follow. Install the definition, the roles and the agents with nodecfg \
                install (--dry-run shows them), then run this again"
                .to_owned(),
            Self::BindingUnclear { .. } => "say --binding nodeconfig if node agents follow the NodeConfigs, or --binding node if the \
                kubelets follow their Nodes; NodeConfigs that nobody needs any more can be deleted: kubectl get nodeconfigs"
                .to_owned(),
            Self::NamespaceMissing { namespace, .. } => {
                format!(
                    "create it (kubectl create namespace {namespace}), or name another one in nodecfg.yaml under \
                     spec.namespace or with --namespace"
                )
            }
            Self::NotFound { operation } => match operation.resource {
                Resource::Nodes => "the Node was deleted meanwhile. Run the command again".to_owned(),
                _ => "it was deleted meanwhile, or never was there. Run the command again".to_owned(),
            },
            Self::AlreadyExists { .. } | Self::Conflict { .. } | Self::PreconditionFailed { .. } => {
                "somebody else changed it at the same time. Run the command again: it reads the cluster anew".to_owned()
            }
            Self::FieldsTaken { .. } => "if they are to be as nodecfg installs them, run the command again with \
                --force-conflicts, which takes them over. Otherwise apply what --dry-run prints with the tool that owns them, \
                changed as you need it"
                .to_owned(),
            Self::NotEstablished { .. } => "look at its conditions (kubectl describe crd nodeconfigs.nodecfg.dev), then run \
                the command again: it goes on where it stopped"
                .to_owned(),
            Self::Invalid { .. } => "the server's words above say what it does not accept. An admission policy or webhook of \
                the cluster may be at work"
                .to_owned(),
            Self::Expired { .. } => {
                "the server forgets old versions faster than nodecfg can read them. Run the command again when the server \
                 is less busy"
                    .to_owned()
            }
            Self::FeatureDropped { .. } => "API servers from 1.26 on accept Node.spec.configSource and silently drop it: \
                Dynamic Kubelet Configuration was removed there, and from kubelets in 1.24. Nothing was changed. Leave out \
                --binding, or say --binding nodeconfig: the assignments are then kept in NodeConfigs, which node agents follow \
                (nodecfg install)"
                .to_owned(),
            Self::ContentDiffers { operation, .. } => format!(
                "A ConfigMap is named after the hash of its content, so somebody made or changed this one by hand, and \
                 nodecfg never overwrites it. Look at it (kubectl get configmap -n {} {} -o yaml); once no Node refers \
                 to it, delete it and run the command again",
                operation.namespace.as_deref().unwrap_or_default(),
                operation.name.as_deref().unwrap_or_default()
            ),
            Self::LockLost { .. } => "nothing more was written. Look at who holds the Lease, and run the command again: it \
                goes on from what the cluster says"
                .to_owned(),
            Self::TimedOut { .. } => {
                "the API server is overloaded, restarting or cut off. Run the command again once it answers".to_owned()
            }
            Self::KubeletRefuses { .. } => "the API server's own user may not ask kubelets: bind the ClusterRole \
                system:kubelet-api-admin to the user in the text above (it is in the certificate that the API server's \
                --kubelet-client-certificate names)"
                .to_owned(),
            Self::KubeletUnreachable { .. } => "check that the node is up and its kubelet runs (kubectl get node), and that the \
                API server reaches port 10250 of its address: kubectl logs for a pod on it goes the same way. Or capture \
                another node of the pool"
                .to_owned(),
            Self::KubeletSilent { .. } => "its configuration says enableDebuggingHandlers: false, which turns configz off. Take \
                the file that the kubelet was started with (--config, often /var/lib/kubelet/config.yaml), or another node"
                .to_owned(),
            Self::Unexpected { operation, .. } if operation.resource == Resource::Configz => {
                "no kubelet that is well answers like that: look at the node, and capture another one".to_owned()
            }
            Self::Unexpected { .. } => {
                "check that the kubeconfig points at a Kubernetes API server and not at a proxy's login page".to_owned()
            }
        }
    }
}

/// The RBAC rule that allows an operation. A rule and not a whole role: applied over the user's own, that would take the
/// other rules away.
fn rbac_rule(operation: &Operation) -> String {
    let (kind, namespace) = match &operation.namespace {
        Some(namespace) => ("Role", format!(" in namespace {namespace}")),
        None => ("ClusterRole", String::new()),
    };
    // Which namespaces there are is nobody's business; of other kinds the next object has another name.
    let names = match (operation.resource, &operation.name) {
        (Resource::Namespaces, Some(name)) => format!("resourceNames: [{name}]\n  "),
        _ => String::new(),
    };
    format!(
        "- apiGroups: [\"{}\"]  # of a {kind}{namespace} that is bound to the user\n  \
           resources: [{}]\n  \
           {names}verbs: [{}]",
        operation.resource.group(),
        operation.resource.plural(),
        operation.verb.as_str()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Verb;

    #[test]
    fn forbidden_names_who_what_where_and_the_rule_to_grant() {
        let operation = Box::new(Operation::on(Verb::Patch, Resource::Nodes, None, "n1"));
        let error = ClusterError::Forbidden { operation, user: Some("ci".to_owned()) };
        assert_eq!(error.to_string(), "cannot patch node n1: ci may not patch nodes in the cluster");
        assert_eq!(
            error.help(),
            "grant it with this rule:\n\
             - apiGroups: [\"\"]  # of a ClusterRole that is bound to the user\n  resources: [nodes]\n  verbs: [patch]"
        );
        let operation = Box::new(Operation::on(Verb::Create, Resource::Leases, Some("kube-system"), "nodecfg-a"));
        let error = ClusterError::Forbidden { operation, user: None };
        assert_eq!(
            error.to_string(),
            "cannot create lease kube-system/nodecfg-a: this user may not create leases.coordination.k8s.io in namespace \
             kube-system"
        );
        assert!(error.help().contains("# of a Role in namespace kube-system"));
    }

    #[test]
    fn an_error_stays_small() {
        assert!(size_of::<ClusterError>() <= 96, "{}", size_of::<ClusterError>());
    }
}
