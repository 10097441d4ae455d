//! Served resources: built-in ones, and those that CustomResourceDefinitions add.

use std::sync::Arc;

use serde_json::Value;

use super::object::text;
use super::server_profile::ServerProfile;

/// Type of a resource, which determines its special behavior.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResourceType {
    /// core/v1 Node.
    Node,
    /// core/v1 ConfigMap.
    ConfigMap,
    /// core/v1 Event.
    Event,
    /// core/v1 Namespace.
    Namespace,
    /// coordination.k8s.io/v1 Lease.
    Lease,
    /// CustomResourceDefinition.
    Definition,
    /// SelfSubjectAccessReview or SelfSubjectReview.
    Review,
    /// core/v1 Pod.
    Pod,
    /// policy/v1 PodDisruptionBudget.
    PodDisruptionBudget,
    /// Built-in resource that the server only stores, such as those of `nodecfg install`. Roles grant no rights, and
    /// admission policies refuse nothing.
    StoredOnly,
    /// Resource of a CustomResourceDefinition.
    Custom,
}

/// A served resource.
#[derive(Debug)]
pub(crate) struct Resource {
    /// Type.
    pub(crate) resource_type: ResourceType,
    /// API group; empty for core.
    pub(crate) group: String,
    /// API version.
    pub(crate) version: String,
    /// Plural name, as in paths.
    pub(crate) plural: String,
    /// Kind.
    pub(crate) kind: String,
    /// Singular name for kubectl.
    pub(crate) singular: String,
    /// Kind of lists.
    pub(crate) list_kind: String,
    /// Short names for kubectl.
    pub(crate) short_names: Vec<String>,
    /// True for namespaced resources.
    pub(crate) namespaced: bool,
    /// True if the resource has `/status`.
    pub(crate) status: bool,
    /// Name of the collection in the store.
    pub(crate) collection: String,
    /// Version of the CustomResourceDefinition: its schema and its columns.
    pub(crate) definition: Option<Arc<Value>>,
}

impl Resource {
    /// Returns `v1` or `group/version`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Returns the schema of a custom resource.
    pub(crate) fn schema(&self) -> Option<&Value> {
        self.definition.as_ref()?.pointer("/schema/openAPIV3Schema")
    }

    /// Reports whether a CustomResourceDefinition describes the resource.
    pub(crate) fn is_custom(&self) -> bool {
        self.resource_type == ResourceType::Custom
    }

    /// Reports whether an update may omit the resourceVersion.
    pub(crate) fn takes_unconditional_updates(&self) -> bool {
        !matches!(self.resource_type, ResourceType::Lease | ResourceType::Definition | ResourceType::Custom)
    }

    /// Reports whether PUT creates a missing object.
    pub(crate) fn creates_on_update(&self) -> bool {
        self.resource_type == ResourceType::Lease
    }

    /// Returns the verbs that the resource supports.
    pub(crate) fn verbs(&self) -> &'static [&'static str] {
        match self.resource_type {
            ResourceType::Review => &["create"],
            _ => &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        }
    }

    /// Reports whether `metadata.generation` counts changes of the spec.
    pub(crate) fn counts_generations(&self) -> bool {
        self.is_custom() || self.status && !matches!(self.resource_type, ResourceType::Node | ResourceType::Namespace)
    }
}

/// A built-in resource of version v1.
struct BuiltIn {
    resource_type: ResourceType,
    group: &'static str,
    plural: &'static str,
    kind: &'static str,
    short_names: &'static [&'static str],
    namespaced: bool,
    status: bool,
}

const fn built_in(
    resource_type: ResourceType,
    group: &'static str,
    plural: &'static str,
    kind: &'static str,
    short_names: &'static [&'static str],
) -> BuiltIn {
    BuiltIn { resource_type, group, plural, kind, short_names, namespaced: false, status: false }
}

impl BuiltIn {
    const fn namespaced(self) -> Self {
        Self { namespaced: true, ..self }
    }

    const fn with_status(self) -> Self {
        Self { status: true, ..self }
    }
}

/// Name of the collection of CustomResourceDefinitions.
pub(crate) const DEFINITIONS: &str = "customresourcedefinitions";
/// Name of the collection of Pods.
pub(crate) const PODS: &str = "pods";
/// Name of the collection of ReplicaSets.
pub(crate) const REPLICA_SETS: &str = "replicasets";
/// Name of the collection of PodDisruptionBudgets.
pub(crate) const BUDGETS: &str = "poddisruptionbudgets";
/// Name of the collection of VolumeAttachments.
pub(crate) const VOLUME_ATTACHMENTS: &str = "volumeattachments";

/// Built-in resources, sorted by group.
const BUILT_IN: &[BuiltIn] = {
    use ResourceType as T;
    const ADMISSION: &str = "admissionregistration.k8s.io";
    const RBAC: &str = "rbac.authorization.k8s.io";
    &[
        built_in(T::ConfigMap, "", "configmaps", "ConfigMap", &["cm"]).namespaced(),
        built_in(T::Event, "", "events", "Event", &["ev"]).namespaced(),
        built_in(T::Namespace, "", "namespaces", "Namespace", &["ns"]).with_status(),
        built_in(T::Node, "", "nodes", "Node", &["no"]).with_status(),
        built_in(T::Pod, "", PODS, "Pod", &["po"]).namespaced().with_status(),
        built_in(T::StoredOnly, "", "serviceaccounts", "ServiceAccount", &["sa"]).namespaced(),
        built_in(T::StoredOnly, ADMISSION, "validatingadmissionpolicies", "ValidatingAdmissionPolicy", &[]),
        built_in(
            T::StoredOnly,
            ADMISSION,
            "validatingadmissionpolicybindings",
            "ValidatingAdmissionPolicyBinding",
            &[],
        ),
        built_in(T::Definition, "apiextensions.k8s.io", DEFINITIONS, "CustomResourceDefinition", &["crd", "crds"])
            .with_status(),
        built_in(T::StoredOnly, "apps", "daemonsets", "DaemonSet", &["ds"]).namespaced(),
        built_in(T::StoredOnly, "apps", REPLICA_SETS, "ReplicaSet", &["rs"]).namespaced().with_status(),
        built_in(T::Review, "authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview", &[]),
        built_in(T::Review, "authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview", &[]),
        built_in(T::StoredOnly, "batch", "cronjobs", "CronJob", &["cj"]).namespaced(),
        built_in(T::Lease, "coordination.k8s.io", "leases", "Lease", &[]).namespaced(),
        built_in(T::PodDisruptionBudget, "policy", BUDGETS, "PodDisruptionBudget", &["pdb"]).namespaced().with_status(),
        built_in(T::StoredOnly, RBAC, "clusterrolebindings", "ClusterRoleBinding", &[]),
        built_in(T::StoredOnly, RBAC, "clusterroles", "ClusterRole", &[]),
        built_in(T::StoredOnly, RBAC, "rolebindings", "RoleBinding", &[]).namespaced(),
        built_in(T::StoredOnly, RBAC, "roles", "Role", &[]).namespaced(),
        built_in(T::StoredOnly, "storage.k8s.io", VOLUME_ATTACHMENTS, "VolumeAttachment", &[]).with_status(),
    ]
};

/// Returns the built-in resources. Validating admission policies exist since 1.30, and SelfSubjectReview since 1.28.
pub(crate) fn built_ins(profile: ServerProfile) -> impl Iterator<Item = Resource> {
    let is_new = |row: &BuiltIn| row.group == "admissionregistration.k8s.io" || row.group == "authentication.k8s.io";
    BUILT_IN.iter().filter(move |row| profile != ServerProfile::V1_21 || !is_new(row)).map(|row| Resource {
        resource_type: row.resource_type,
        group: row.group.to_owned(),
        version: "v1".to_owned(),
        plural: row.plural.to_owned(),
        kind: row.kind.to_owned(),
        singular: row.kind.to_lowercase(),
        list_kind: format!("{}List", row.kind),
        short_names: row.short_names.iter().map(|name| (*name).to_owned()).collect(),
        namespaced: row.namespaced,
        status: row.status,
        collection: row.plural.to_owned(),
        definition: None,
    })
}

/// Returns the resources of a CustomResourceDefinition, one for each served version.
pub(crate) fn of_definition(definition: &Value) -> Vec<Resource> {
    let of = |pointer: &str| text(definition, pointer).to_owned();
    let or = |pointer: &str, default: String| match text(definition, pointer) {
        "" => default,
        given => given.to_owned(),
    };
    let list = |pointer: &str| definition.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
    let served = list("/spec/versions").filter(|version| version.get("served") == Some(&Value::Bool(true)));
    served
        .map(|version| Resource {
            resource_type: ResourceType::Custom,
            group: of("/spec/group"),
            version: text(version, "/name").to_owned(),
            plural: of("/spec/names/plural"),
            kind: of("/spec/names/kind"),
            singular: or("/spec/names/singular", of("/spec/names/kind").to_lowercase()),
            list_kind: or("/spec/names/listKind", format!("{}List", of("/spec/names/kind"))),
            short_names: list("/spec/names/shortNames").filter_map(Value::as_str).map(str::to_owned).collect(),
            namespaced: text(definition, "/spec/scope") == "Namespaced",
            status: version.pointer("/subresources/status").is_some(),
            collection: of("/metadata/name"),
            definition: Some(Arc::new(version.clone())),
        })
        .collect()
}
