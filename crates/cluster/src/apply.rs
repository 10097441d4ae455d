//! Applies whole objects server-side, for `nodecfg install`. Not part of a reader, which must not write, and without the lock
//! of a sync, which is about a fleet. Decides nothing: what to apply, and in which order, comes from the crate `nodecfg-install`.

use std::time::Duration;

use http::Method;
use serde::Deserialize;
use serde_json::Value;

use super::error::ClusterError;
use super::operation::{Kind, Operation, Resource, Verb};
use super::reader::{ClusterReader, found};
use super::transport::{Call, Transport, Whole};
use super::wire::Anything;

/// Names nodecfg in managedFields.
const FIELD_MANAGER: &str = "nodecfg";
/// How often to look whether a definition is established. It takes a server some 100 ms.
const LOOK: Duration = Duration::from_millis(100);

/// The kinds that are applied: those of `install::objects`.
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

/// What an object is and is called, as far as a request for it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    kind: &'static Kind,
    namespace: Option<String>,
    name: String,
}

impl Target {
    /// Reads it off an object. `None` for a kind that is not applied, or without a name.
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

    /// `daemonset.apps/nodecfg-agent`: as kubectl names it.
    #[must_use]
    pub fn resource(&self) -> String {
        let dot = if self.kind.group.is_empty() { "" } else { "." };
        format!("{}{dot}{}", self.kind.singular, self.kind.group)
    }

    /// Its namespace; unset for cluster-scoped kinds.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is a CustomResourceDefinition.
    #[must_use]
    pub fn is_definition(&self) -> bool {
        self.kind.kind == "CustomResourceDefinition"
    }

    /// Whether it is an admission policy or its binding, which not every server has.
    #[must_use]
    pub fn is_policy(&self) -> bool {
        self.kind.group == "admissionregistration.k8s.io"
    }

    pub(super) fn operation(&self, verb: Verb) -> Operation {
        Operation::on(verb, Resource::Other(self.kind), self.namespace.as_deref(), &self.name)
    }
}

/// Applies objects to a cluster. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Applier {
    transport: Transport,
}

/// apiextensions.k8s.io/v1 CustomResourceDefinition, of which only this is read.
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

/// meta/v1 APIResourceList, of which only this is read.
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
    /// Writes to the cluster that this reader reads.
    #[must_use]
    pub fn new(reader: &ClusterReader) -> Self {
        Self { transport: reader.transport.clone() }
    }

    /// Whether the server has this kind of object. A server that is too old for it does not.
    ///
    /// # Errors
    /// Every [`ClusterError`] of a request but `NotFound`.
    pub async fn serves(&self, target: &Target) -> Result<bool, ClusterError> {
        let operation = Operation::on_all(Verb::List, Resource::Other(target.kind), None);
        let call = Call::new(Method::GET, Resource::Other(target.kind).root().into_owned());
        let served: Option<Served> = found(self.transport.call(&operation, &call, Whole::new).await)?;
        Ok(served.unwrap_or_default().resources.iter().any(|resource| resource.name == target.kind.plural))
    }

    /// Makes an object what it is to be, creating it where it is not there. Fields that nodecfg applied before and no longer
    /// does are removed; others' fields stay. `force` takes over fields that somebody else has set otherwise.
    ///
    /// # Errors
    /// `FieldsTaken` when somebody else has set a field otherwise, and every [`ClusterError`] of a request.
    pub async fn apply(&self, target: &Target, object: &Value, force: bool) -> Result<(), ClusterError> {
        let operation = target.operation(Verb::Patch);
        let uri = format!("{}?fieldManager={FIELD_MANAGER}&fieldValidation=Strict&force={force}", operation.path());
        let call = Call::new(Method::PATCH, uri).content("application/apply-patch+yaml", object.to_string());
        match self.transport.call(&operation, &call, Whole::<Anything>::new).await {
            Ok(_) => Ok(()),
            // The other 409 is about a resourceVersion, and none is sent.
            Err(ClusterError::Conflict { operation, message }) => Err(ClusterError::FieldsTaken { operation, message }),
            Err(error) => Err(error),
        }
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
            let wire: WireDefinition = self.transport.call(&operation, &call, Whole::new).await?;
            let conditions = wire.status.unwrap_or_default().conditions.unwrap_or_default();
            if conditions.iter().any(|condition| condition.kind == "Established" && condition.status == "True") {
                return Ok(());
            }
            if began.elapsed() >= self.transport.limits.total {
                // What keeps it from being established says so in a condition that does not hold.
                let refusal = conditions.into_iter().find(|condition| condition.status == "False");
                let message = refusal.and_then(|condition| condition.message).unwrap_or_default();
                return Err(ClusterError::NotEstablished { operation: Box::new(operation), message });
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

#[cfg(test)]
#[path = "apply_tests.rs"]
mod tests;
