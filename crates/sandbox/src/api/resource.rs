//! The resources that are served: the built-in ones and those that CustomResourceDefinitions add.

use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

use super::builtin;
use super::character::ServerProfile;
use super::decode::decode;
use super::rules::Rules;
use super::shape::Shape;

/// What a resource is, beyond its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nature {
    /// core/v1 Node.
    Node,
    /// core/v1 ConfigMap.
    ConfigMap,
    /// core/v1 Event.
    Event,
    /// The events.k8s.io/v1 view of core/v1 Event.
    NewEvent,
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
    /// core/v1 Pod, of which there are none: only for clients that ask which pods a node runs.
    Pod,
    /// What `nodecfg install` or a manifest for a CronJob brings along: kept as it comes, and nobody here acts on it.
    Inert,
    /// A resource that a definition added.
    Custom,
}

/// A resource that is served.
#[derive(Debug)]
pub(crate) struct Resource {
    /// What it is.
    pub(crate) nature: Nature,
    /// API group; empty for core.
    pub(crate) group: String,
    /// API version.
    pub(crate) version: String,
    /// Plural name, as in paths.
    pub(crate) plural: String,
    /// Kind.
    pub(crate) kind: String,
    /// Kind of its lists.
    pub(crate) list_kind: String,
    /// Whether its objects live in namespaces.
    pub(crate) namespaced: bool,
    /// Whether it has `/status`.
    pub(crate) status: bool,
    /// The shape of its objects.
    pub(crate) shape: Shape,
    /// The name of its collection in the store.
    pub(crate) collection: String,
    /// The OpenAPI schema of a custom resource's version.
    pub(crate) schema: Option<Arc<Value>>,
    /// The rules in CEL of a custom resource's version.
    pub(crate) rules: Rules,
    /// The definition of a custom resource.
    pub(crate) definition: Option<Arc<Value>>,
    /// See [`Resource::blank`].
    pub(crate) blank: OnceLock<Value>,
}

impl Resource {
    /// `v1` or `group/version`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The version that its objects are stored in.
    pub(crate) fn stored_version(&self) -> String {
        if self.nature == Nature::NewEvent { "v1".to_owned() } else { self.api_version() }
    }

    /// An object of this resource in which nothing is set: what a new one is compared with, to see which fields its
    /// creator set.
    pub(crate) fn blank(&self) -> &Value {
        self.blank.get_or_init(|| {
            let mut blank = json!({"metadata": {}});
            if self.is_typed() {
                decode(&self.shape, &mut blank, &self.kind);
            }
            blank
        })
    }

    /// Whether the server decodes it into a Go type, rather than keeping it by schema.
    pub(crate) fn is_typed(&self) -> bool {
        self.nature != Nature::Custom
    }

    /// Whether items of lists carry kind and version themselves.
    pub(crate) fn lists_typed_items(&self) -> bool {
        self.nature == Nature::Custom
    }

    /// Whether an update may leave out the resourceVersion.
    pub(crate) fn takes_unconditional_updates(&self) -> bool {
        !matches!(self.nature, Nature::Lease | Nature::Definition | Nature::Custom)
    }

    /// Whether PUT of an object that is not there creates it.
    pub(crate) fn creates_on_update(&self) -> bool {
        matches!(self.nature, Nature::Lease | Nature::Event | Nature::NewEvent)
    }

    /// Whether a verb can be used on it.
    pub(crate) fn has_verb(&self, verb: &str) -> bool {
        match self.nature {
            Nature::AccessReview | Nature::SelfReview => verb == "create",
            Nature::Pod => matches!(verb, "get" | "list" | "watch"),
            Nature::Namespace => verb != "deletecollection",
            _ => true,
        }
    }

    /// Whether `metadata.generation` counts changes of the spec.
    pub(crate) fn counts_generations(&self) -> bool {
        matches!(self.nature, Nature::Definition | Nature::Custom)
    }
}

fn built_in(
    nature: Nature,
    group: &str,
    plural: &str,
    kind: &str,
    namespaced: bool,
    status: bool,
    shape: Shape,
) -> Resource {
    Resource {
        nature,
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
        rules: Rules::default(),
        definition: None,
        blank: OnceLock::new(),
    }
}

/// The name of the collection that holds definitions.
pub(crate) const DEFINITIONS: &str = "customresourcedefinitions";

/// The built-in resources.
pub(crate) fn built_ins(character: ServerProfile) -> Vec<Resource> {
    let acting = vec![
        built_in(Nature::Node, "", "nodes", "Node", false, true, builtin::node()),
        built_in(Nature::ConfigMap, "", "configmaps", "ConfigMap", true, false, builtin::config_map()),
        built_in(Nature::Event, "", "events", "Event", true, false, builtin::event(character)),
        built_in(Nature::NewEvent, "events.k8s.io", "events", "Event", true, false, builtin::event(character)),
        built_in(Nature::Pod, "", "pods", "Pod", true, false, Shape::Free),
        built_in(Nature::Namespace, "", "namespaces", "Namespace", false, true, builtin::namespace()),
        built_in(Nature::Lease, "coordination.k8s.io", "leases", "Lease", true, false, builtin::lease()),
        built_in(
            Nature::Definition,
            "apiextensions.k8s.io",
            DEFINITIONS,
            "CustomResourceDefinition",
            false,
            true,
            builtin::custom_resource_definition(),
        ),
        built_in(
            Nature::AccessReview,
            "authorization.k8s.io",
            "selfsubjectaccessreviews",
            "SelfSubjectAccessReview",
            false,
            false,
            builtin::self_subject_access_review(),
        ),
    ];
    // Who asks can be asked since 1.28.
    let later = (character != ServerProfile::V1_21).then(|| {
        let (group, plural) = ("authentication.k8s.io", "selfsubjectreviews");
        built_in(Nature::SelfReview, group, plural, "SelfSubjectReview", false, false, Shape::Free)
    });
    // The policies came with 1.30, and are served where agents are.
    let inert = INERT
        .iter()
        .filter(|(_, plural, ..)| character != ServerProfile::V1_21 || !plural.starts_with("validatingadmission"))
        .map(|(group, plural, kind, namespaced)| {
            built_in(Nature::Inert, group, plural, kind, *namespaced, false, Shape::Free)
        });
    acting.into_iter().chain(later).chain(inert).collect()
}

/// Kinds that are merely kept: group, plural, kind, whether in namespaces. They are not validated, and roles give no
/// rights: who may do what is fixed when a sandbox starts.
const INERT: &[(&str, &str, &str, bool)] = &[
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
