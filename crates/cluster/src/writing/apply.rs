//! Server-side apply of whole objects and removal of replaced ones, for `nodecfg install`. Separate from the reader, which must not write. Needs
//! no lock: the lock of a sync protects a fleet. The crate `nodecfg-install` decides what to apply and in which
//! order.

use std::time::Duration;

use http::Method;
use serde::Deserialize;
use serde_json::Value;

use crate::connection::error::ClusterError;
use crate::connection::operation::{Kind, Operation, Resource, Verb};
use crate::connection::transport::{Call, Transport, whole};
use crate::reading::reader::{ClusterReader, found};
use crate::reading::wire::IgnoredContent;

/// Name of nodecfg in managedFields.
const FIELD_MANAGER: &str = "nodecfg";
/// Interval of the checks whether a definition is established. A server needs some 100 ms.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Kinds that can be applied: those of `install::objects`.
static KINDS: [Kind; 10] = [
    kind("", "v1", "Namespace", "namespaces", "namespace"),
    kind("", "v1", "ServiceAccount", "serviceaccounts", "serviceaccount"),
    kind(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        "customresourcedefinition",
    ),
    kind("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", "clusterrole"),
    kind("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", "clusterrolebinding"),
    kind("rbac.authorization.k8s.io", "v1", "Role", "roles", "role"),
    kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", "rolebinding"),
    kind(
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        "validatingadmissionpolicy",
    ),
    kind(
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        "validatingadmissionpolicybinding",
    ),
    kind("apps", "v1", "DaemonSet", "daemonsets", "daemonset"),
];

const fn kind(
    group: &'static str,
    version: &'static str,
    name: &'static str,
    plural: &'static str,
    singular: &'static str,
) -> Kind {
    Kind { group, version, kind: name, plural, singular }
}

/// Kind, namespace and name of an object: what a request for the object needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    kind: &'static Kind,
    namespace: Option<String>,
    name: String,
}

impl Target {
    /// Reads the target from an object. `None` for an unknown kind or a missing name.
    #[must_use]
    pub fn of(object: &Value) -> Option<Self> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let (api_version, kind) = (text("/apiVersion")?, text("/kind")?);
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let kind = KINDS.iter().find(|known| (known.group, known.version, known.kind) == (group, version, kind))?;
        Some(Self {
            kind,
            namespace: text("/metadata/namespace").map(str::to_owned),
            name: text("/metadata/name")?.to_owned(),
        })
    }

    /// Resource as kubectl prints it, for example `daemonset.apps/nodecfg-agent`.
    #[must_use]
    pub fn resource(&self) -> String {
        let dot = if self.kind.group.is_empty() { "" } else { "." };
        format!("{}{dot}{}", self.kind.singular, self.kind.group)
    }

    /// Namespace; unset for cluster-scoped kinds.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Name of the object.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reports whether the object is a CustomResourceDefinition.
    #[must_use]
    pub fn is_definition(&self) -> bool {
        self.kind.kind == "CustomResourceDefinition"
    }

    /// Reports whether the object is an admission policy or a policy binding. Old servers serve neither.
    #[must_use]
    pub fn is_policy(&self) -> bool {
        self.kind.group == "admissionregistration.k8s.io"
    }

    pub(crate) fn operation(&self, verb: Verb) -> Operation {
        Operation::on(verb, Resource::Other(self.kind), self.namespace.as_deref(), &self.name)
    }
}

/// Applies objects to a cluster. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Applier {
    transport: Transport,
}

/// The parts of apiextensions.k8s.io/v1 CustomResourceDefinition that are read.
#[derive(Debug, Deserialize)]
struct WireDefinition {
    #[serde(default)]
    status: Option<DefinitionStatus>,
}

#[derive(Debug, Default, Deserialize)]
struct DefinitionStatus {
    #[serde(default)]
    conditions: Option<Vec<DefinitionCondition>>,
}

#[derive(Debug, Deserialize)]
struct DefinitionCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    #[serde(default)]
    message: Option<String>,
}

/// The parts of meta/v1 APIResourceList that are read.
#[derive(Debug, Default, Deserialize)]
struct Served {
    #[serde(default)]
    resources: Vec<ServedResource>,
}

#[derive(Debug, Deserialize)]
struct ServedResource {
    name: String,
}

impl Applier {
    /// Applier for the cluster of this reader.
    #[must_use]
    pub fn new(reader: &ClusterReader) -> Self {
        Self { transport: reader.transport.clone() }
    }

    /// Reports whether the server serves this kind of object. An old server may not.
    pub async fn serves(&self, target: &Target) -> Result<bool, ClusterError> {
        let operation = Operation::on_all(Verb::List, Resource::Other(target.kind), None);
        let call = Call::new(Method::GET, Resource::Other(target.kind).root().into_owned());
        let served: Option<Served> = found(self.transport.call(&operation, &call, whole).await)?;
        Ok(served.unwrap_or_default().resources.iter().any(|resource| resource.name == target.kind.plural))
    }

    /// Applies an object, and creates a missing one. Removes fields that nodecfg applied before and no longer
    /// applies; keeps fields of other clients. `force` takes over fields that another client manages with a different
    /// value.
    ///
    /// # Errors
    /// `FieldsTaken` when another client manages a field with a different value, and every [`ClusterError`] of a
    /// request.
    pub async fn apply(&self, target: &Target, object: &Value, force: bool) -> Result<(), ClusterError> {
        let operation = target.operation(Verb::Patch);
        let uri = format!("{}?fieldManager={FIELD_MANAGER}&fieldValidation=Strict&force={force}", operation.path());
        let call = Call::new(Method::PATCH, uri).content("application/apply-patch+yaml", object.to_string());
        match self.transport.call(&operation, &call, whole::<IgnoredContent>).await {
            Ok(_) => Ok(()),
            // The other 409 is about a resourceVersion, and this request sends none.
            Err(ClusterError::Conflict { operation, message }) => Err(ClusterError::FieldsTaken { operation, message }),
            Err(error) => Err(error),
        }
    }

    /// Deletes an object. A missing one is no error.
    pub async fn remove(&self, target: &Target) -> Result<(), ClusterError> {
        let operation = target.operation(Verb::Delete);
        let call = Call::new(Method::DELETE, operation.path());
        found(self.transport.call(&operation, &call, whole::<IgnoredContent>).await).map(drop)
    }

    /// Waits until the server serves what a CustomResourceDefinition describes.
    ///
    /// # Errors
    /// `NotEstablished` when it still does not after the time for one request, and every [`ClusterError`] of a request.
    pub async fn await_established(&self, target: &Target) -> Result<(), ClusterError> {
        let operation = target.operation(Verb::Get);
        let call = Call::new(Method::GET, operation.path());
        let began = nodecfg_clock::instant();
        loop {
            let wire: WireDefinition = self.transport.call(&operation, &call, whole).await?;
            let conditions = wire.status.unwrap_or_default().conditions.unwrap_or_default();
            if conditions.iter().any(|condition| condition.kind == "Established" && condition.status == "True") {
                return Ok(());
            }
            if began.elapsed() >= self.transport.limits.total {
                // A false condition holds the reason.
                let refusal = conditions.into_iter().find(|condition| condition.status == "False");
                let message = refusal.and_then(|condition| condition.message).unwrap_or_default();
                return Err(ClusterError::NotEstablished { operation: Box::new(operation), message });
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

#[cfg(test)]
#[path = "apply_tests.rs"]
mod tests;
