//! Served resources: built-in resources, and those that CustomResourceDefinitions add.

use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

use super::builtin;
use super::cel_rules::CelRules;
use super::decode::decode;
use super::server_profile::ServerProfile;
use super::shape::Shape;
use super::workload_shapes;

/// Type of a resource, which determines its special behavior.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResourceType {
    /// core/v1 Node.
    Node,
    /// core/v1 ConfigMap.
    ConfigMap,
    /// core/v1 Event.
    Event,
    /// events.k8s.io/v1 view of core/v1 Event.
    EventsV1,
    /// core/v1 Namespace.
    Namespace,
    /// coordination.k8s.io/v1 Lease.
    Lease,
    /// CustomResourceDefinition.
    Definition,
    /// SelfSubjectAccessReview.
    AccessReview,
    /// SelfSubjectReview.
    SelfReview,
    /// core/v1 Pod.
    Pod,
    /// apps/v1 ReplicaSet.
    ReplicaSet,
    /// policy/v1 PodDisruptionBudget.
    PodDisruptionBudget,
    /// storage.k8s.io/v1 VolumeAttachment.
    VolumeAttachment,
    /// Resource of `nodecfg install` or of a CronJob manifest. The sandbox only stores it; no controller acts on it.
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
    /// Kind of lists.
    pub(crate) list_kind: String,
    /// True for namespaced resources.
    pub(crate) namespaced: bool,
    /// True if the resource has `/status`.
    pub(crate) status: bool,
    /// Shape of objects.
    pub(crate) shape: Shape,
    /// Name of the collection in the store.
    pub(crate) collection: String,
    /// OpenAPI schema of a custom resource's version.
    pub(crate) schema: Option<Arc<Value>>,
    /// CEL rules of a custom resource's version.
    pub(crate) rules: CelRules,
    /// CustomResourceDefinition of a custom resource.
    pub(crate) definition: Option<Arc<Value>>,
    /// See [`Resource::blank`].
    pub(crate) blank: OnceLock<Value>,
}

impl Resource {
    /// Returns `v1` or `group/version`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Returns the API version of stored objects.
    pub(crate) fn stored_version(&self) -> String {
        if self.resource_type == ResourceType::EventsV1 { "v1".to_owned() } else { self.api_version() }
    }

    /// Returns an object without any field set. A create compares new objects with it, to find the fields that the
    /// client set.
    pub(crate) fn blank(&self) -> &Value {
        self.blank.get_or_init(|| {
            let mut blank = json!({"metadata": {}});
            if self.is_typed() {
                decode(&self.shape, &mut blank, &self.kind);
            }
            blank
        })
    }

    /// Reports whether the server decodes objects into a Go type, instead of keeping them by schema.
    pub(crate) fn is_typed(&self) -> bool {
        self.resource_type != ResourceType::Custom
    }

    /// Reports whether items of lists contain kind and version.
    pub(crate) fn lists_typed_items(&self) -> bool {
        self.resource_type == ResourceType::Custom
    }

    /// Reports whether an update may omit the resourceVersion.
    pub(crate) fn takes_unconditional_updates(&self) -> bool {
        !matches!(
            self.resource_type,
            ResourceType::Lease
                | ResourceType::Definition
                | ResourceType::Custom
                | ResourceType::PodDisruptionBudget
                | ResourceType::VolumeAttachment
        )
    }

    /// Reports whether PUT creates a missing object.
    pub(crate) fn creates_on_update(&self) -> bool {
        matches!(self.resource_type, ResourceType::Lease | ResourceType::Event | ResourceType::EventsV1)
    }

    /// Reports whether the resource supports a verb.
    pub(crate) fn has_verb(&self, verb: &str) -> bool {
        match self.resource_type {
            ResourceType::AccessReview | ResourceType::SelfReview => verb == "create",
            ResourceType::Namespace => verb != "deletecollection",
            _ => true,
        }
    }

    /// Reports whether `metadata.generation` counts changes of the spec. Pods have it since 1.33.
    pub(crate) fn counts_generations(&self, profile: ServerProfile) -> bool {
        match self.resource_type {
            ResourceType::Pod => profile != ServerProfile::V1_21,
            ResourceType::Definition
            | ResourceType::Custom
            | ResourceType::ReplicaSet
            | ResourceType::PodDisruptionBudget => true,
            _ => false,
        }
    }
}

fn built_in(
    resource_type: ResourceType,
    group: &str,
    plural: &str,
    kind: &str,
    namespaced: bool,
    status: bool,
    shape: Shape,
) -> Resource {
    Resource {
        resource_type,
        group: group.to_owned(),
        version: "v1".to_owned(),
        plural: plural.to_owned(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        namespaced,
        status,
        shape,
        collection: plural.to_owned(),
        schema: None,
        rules: CelRules::default(),
        definition: None,
        blank: OnceLock::new(),
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

/// Returns the built-in resources.
pub(crate) fn built_ins(profile: ServerProfile) -> Vec<Resource> {
    let active = vec![
        built_in(ResourceType::Node, "", "nodes", "Node", false, true, builtin::node()),
        built_in(ResourceType::ConfigMap, "", "configmaps", "ConfigMap", true, false, builtin::config_map()),
        built_in(ResourceType::Event, "", "events", "Event", true, false, builtin::event(profile)),
        built_in(ResourceType::EventsV1, "events.k8s.io", "events", "Event", true, false, builtin::event(profile)),
        built_in(ResourceType::Pod, "", PODS, "Pod", true, true, workload_shapes::pod()),
        built_in(
            ResourceType::ReplicaSet,
            "apps",
            REPLICA_SETS,
            "ReplicaSet",
            true,
            true,
            workload_shapes::replica_set(),
        ),
        built_in(
            ResourceType::PodDisruptionBudget,
            "policy",
            BUDGETS,
            "PodDisruptionBudget",
            true,
            true,
            workload_shapes::pod_disruption_budget(profile),
        ),
        built_in(
            ResourceType::VolumeAttachment,
            "storage.k8s.io",
            VOLUME_ATTACHMENTS,
            "VolumeAttachment",
            false,
            true,
            workload_shapes::volume_attachment(),
        ),
        built_in(ResourceType::Namespace, "", "namespaces", "Namespace", false, true, builtin::namespace()),
        built_in(ResourceType::Lease, "coordination.k8s.io", "leases", "Lease", true, false, builtin::lease()),
        built_in(
            ResourceType::Definition,
            "apiextensions.k8s.io",
            DEFINITIONS,
            "CustomResourceDefinition",
            false,
            true,
            builtin::custom_resource_definition(),
        ),
        built_in(
            ResourceType::AccessReview,
            "authorization.k8s.io",
            "selfsubjectaccessreviews",
            "SelfSubjectAccessReview",
            false,
            false,
            builtin::self_subject_access_review(),
        ),
    ];
    // SelfSubjectReview exists since 1.28.
    let self_review = (profile != ServerProfile::V1_21).then(|| {
        let (group, plural) = ("authentication.k8s.io", "selfsubjectreviews");
        built_in(ResourceType::SelfReview, group, plural, "SelfSubjectReview", false, false, Shape::Untyped)
    });
    // Validating admission policies exist since 1.30. Agents need them, and only the 1.36 profile runs agents.
    let stored_only = STORED_ONLY
        .iter()
        .filter(|(_, plural, ..)| profile != ServerProfile::V1_21 || !plural.starts_with("validatingadmission"))
        .map(|(group, plural, kind, namespaced)| {
            built_in(ResourceType::StoredOnly, group, plural, kind, *namespaced, false, Shape::Untyped)
        });
    active.into_iter().chain(self_review).chain(stored_only).collect()
}

/// Resources that are only stored: group, plural, kind, namespaced. Only their metadata is validated. Roles grant no
/// rights, because permissions are fixed when a sandbox starts.
const STORED_ONLY: &[(&str, &str, &str, bool)] = &[
    ("", "serviceaccounts", "ServiceAccount", true),
    ("apps", "daemonsets", "DaemonSet", true),
    ("batch", "cronjobs", "CronJob", true),
    ("rbac.authorization.k8s.io", "clusterrolebindings", "ClusterRoleBinding", false),
    ("rbac.authorization.k8s.io", "clusterroles", "ClusterRole", false),
    ("rbac.authorization.k8s.io", "rolebindings", "RoleBinding", true),
    ("rbac.authorization.k8s.io", "roles", "Role", true),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", false),
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", false),
];
