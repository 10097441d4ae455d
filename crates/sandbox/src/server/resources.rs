//! Resources that the sandbox serves: a table of built-in ones, and those of CustomResourceDefinitions. Discovery and
//! OpenAPI use this list.

use std::cmp::{Ordering, Reverse};

use serde_json::Value;

use super::field::{at, items, text};
use crate::api::ServerProfile;

/// A resource with its subresources.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Resource {
    /// API group; empty for core.
    pub group: String,
    /// API version.
    pub version: String,
    /// Plural name in paths.
    pub plural: String,
    /// Singular name for kubectl.
    pub singular: String,
    /// Kind of the objects.
    pub kind: String,
    /// Set for namespaced resources.
    pub namespaced: bool,
    /// Verbs in the order of API servers.
    pub verbs: &'static [&'static str],
    /// Short names for kubectl.
    pub short_names: Vec<String>,
    /// Resource categories for kubectl.
    pub categories: Vec<String>,
    /// Subresources, by name.
    pub subresources: Vec<Subresource>,
    /// Hash of the storage version, if recorded.
    pub hash: Option<&'static str>,
    /// Schema of a custom resource.
    pub schema: Option<Value>,
}

const EVERYTHING: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const NO_COLLECTION: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];
const CUSTOM: &[&str] = &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
const CREATE: &[&str] = &["create"];

/// A subresource.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Subresource {
    /// Name in paths.
    pub name: &'static str,
    /// Verbs in the order of API servers.
    pub verbs: &'static [&'static str],
    /// Group, version and kind of the objects, if they differ from the resource's.
    pub kind: Option<[&'static str; 3]>,
}

impl Subresource {
    fn of(name: &'static str, profile: ServerProfile) -> Self {
        let verbs = if name == "eviction" { CREATE } else { &["get", "patch", "update"] };
        let kind = match (name, profile) {
            ("eviction", ServerProfile::V1_21) => Some(["policy", "v1beta1", "Eviction"]),
            ("eviction", ServerProfile::V1_36) => Some(["policy", "v1", "Eviction"]),
            ("scale", _) => Some(["autoscaling", "v1", "Scale"]),
            _ => None,
        };
        Self { name, verbs, kind }
    }
}

struct BuiltIn {
    group: &'static str,
    plural: &'static str,
    singular: &'static str,
    kind: &'static str,
    namespaced: bool,
    verbs: &'static [&'static str],
    short_names: &'static [&'static str],
    categories: &'static [&'static str],
    subresources: &'static [&'static str],
    hash: Option<&'static str>,
}

/// Built-in resources, all of version v1. Groups are in the order of API servers, resources by name.
#[rustfmt::skip]
const BUILT_IN: &[BuiltIn] = &[
    BuiltIn { group: "", plural: "configmaps", singular: "configmap", kind: "ConfigMap", namespaced: true, verbs: EVERYTHING,
        short_names: &["cm"], categories: &[], subresources: &[], hash: Some("qFsyl6wFWjQ=") },
    BuiltIn { group: "", plural: "events", singular: "event", kind: "Event", namespaced: true, verbs: EVERYTHING,
        short_names: &["ev"], categories: &[], subresources: &[], hash: Some("r2yiGXH7wu8=") },
    BuiltIn { group: "", plural: "namespaces", singular: "namespace", kind: "Namespace", namespaced: false, verbs: NO_COLLECTION,
        short_names: &["ns"], categories: &[], subresources: &["status"], hash: Some("Q3oi5N2YM8M=") },
    BuiltIn { group: "", plural: "nodes", singular: "node", kind: "Node", namespaced: false, verbs: EVERYTHING,
        short_names: &["no"], categories: &[], subresources: &["status"], hash: Some("XwShjMxG9Fs=") },
    BuiltIn { group: "", plural: "pods", singular: "pod", kind: "Pod", namespaced: true, verbs: EVERYTHING,
        short_names: &["po"], categories: &["all"], subresources: &["eviction", "status"], hash: Some("xPOwRZ+Yhw8=") },
    BuiltIn { group: "", plural: "serviceaccounts", singular: "serviceaccount",
        kind: "ServiceAccount", namespaced: true, verbs: EVERYTHING,
        short_names: &["sa"], categories: &[], subresources: &[], hash: Some("pbx9ZvyFpBE=") },
    BuiltIn { group: "apps", plural: "daemonsets", singular: "daemonset",
        kind: "DaemonSet", namespaced: true, verbs: EVERYTHING,
        short_names: &["ds"], categories: &["all"], subresources: &[], hash: None },
    BuiltIn { group: "apps", plural: "replicasets", singular: "replicaset",
        kind: "ReplicaSet", namespaced: true, verbs: EVERYTHING,
        short_names: &["rs"], categories: &["all"], subresources: &["status"], hash: None },
    BuiltIn { group: "events.k8s.io", plural: "events", singular: "event", kind: "Event", namespaced: true, verbs: EVERYTHING,
        short_names: &["ev"], categories: &[], subresources: &[], hash: Some("r2yiGXH7wu8=") },
    BuiltIn { group: "authentication.k8s.io", plural: "selfsubjectreviews", singular: "selfsubjectreview",
        kind: "SelfSubjectReview", namespaced: false, verbs: CREATE,
        short_names: &[], categories: &[], subresources: &[], hash: None },
    BuiltIn { group: "authorization.k8s.io", plural: "selfsubjectaccessreviews", singular: "selfsubjectaccessreview",
        kind: "SelfSubjectAccessReview", namespaced: false, verbs: CREATE,
        short_names: &[], categories: &[], subresources: &[], hash: None },
    BuiltIn { group: "batch", plural: "cronjobs", singular: "cronjob",
        kind: "CronJob", namespaced: true, verbs: EVERYTHING,
        short_names: &["cj"], categories: &["all"], subresources: &[], hash: None },
    BuiltIn { group: "policy", plural: "poddisruptionbudgets", singular: "poddisruptionbudget",
        kind: "PodDisruptionBudget", namespaced: true, verbs: EVERYTHING,
        short_names: &["pdb"], categories: &[], subresources: &["status"], hash: None },
    BuiltIn { group: "rbac.authorization.k8s.io", plural: "clusterrolebindings", singular: "clusterrolebinding",
        kind: "ClusterRoleBinding", namespaced: false, verbs: EVERYTHING,
        short_names: &[], categories: &[], subresources: &[], hash: None },
    BuiltIn { group: "rbac.authorization.k8s.io", plural: "clusterroles", singular: "clusterrole",
        kind: "ClusterRole", namespaced: false, verbs: EVERYTHING,
        short_names: &[], categories: &[], subresources: &[], hash: None },
    BuiltIn { group: "rbac.authorization.k8s.io", plural: "rolebindings", singular: "rolebinding",
        kind: "RoleBinding", namespaced: true, verbs: EVERYTHING,
        short_names: &[], categories: &[], subresources: &[], hash: None },
    BuiltIn { group: "rbac.authorization.k8s.io", plural: "roles", singular: "role",
        kind: "Role", namespaced: true, verbs: EVERYTHING,
        short_names: &[], categories: &[], subresources: &[], hash: None },
    BuiltIn { group: "storage.k8s.io", plural: "volumeattachments", singular: "volumeattachment",
        kind: "VolumeAttachment", namespaced: false, verbs: EVERYTHING,
        short_names: &[], categories: &[], subresources: &["status"], hash: None },
    BuiltIn { group: "admissionregistration.k8s.io", plural: "validatingadmissionpolicies", singular: "validatingadmissionpolicy",
        kind: "ValidatingAdmissionPolicy", namespaced: false, verbs: EVERYTHING,
        short_names: &[], categories: &["api-extensions"], subresources: &[], hash: None },
    BuiltIn { group: "admissionregistration.k8s.io", plural: "validatingadmissionpolicybindings", singular: "validatingadmissionpolicybinding",
        kind: "ValidatingAdmissionPolicyBinding", namespaced: false, verbs: EVERYTHING,
        short_names: &[], categories: &["api-extensions"], subresources: &[], hash: None },
    BuiltIn { group: "apiextensions.k8s.io", plural: "customresourcedefinitions", singular: "customresourcedefinition",
        kind: "CustomResourceDefinition", namespaced: false, verbs: EVERYTHING,
        short_names: &["crd", "crds"], categories: &["api-extensions"], subresources: &["status"], hash: None },
    BuiltIn { group: "coordination.k8s.io", plural: "leases", singular: "lease", kind: "Lease", namespaced: true, verbs: EVERYTHING,
        short_names: &[], categories: &[], subresources: &[], hash: None },
];

/// All served resources: built-in ones first, then custom ones by group, version (the preferred one first) and name.
pub(super) fn all(profile: ServerProfile, crds: &[Value]) -> Vec<Resource> {
    let mut custom: Vec<Resource> = crds.iter().flat_map(|crd| of_definition(crd, profile)).collect();
    custom.sort_by(|a, b| {
        a.group.cmp(&b.group).then_with(|| by_priority(&a.version, &b.version)).then_with(|| a.plural.cmp(&b.plural))
    });
    // ValidatingAdmissionPolicy exists since 1.30, SelfSubjectReview since 1.28.
    let late = |plural: &str| plural.starts_with("validatingadmission") || plural == "selfsubjectreviews";
    let exists = |built_in: &&BuiltIn| profile != ServerProfile::V1_21 || !late(built_in.plural);
    BUILT_IN.iter().filter(exists).map(|built_in| of_built_in(built_in, profile)).chain(custom).collect()
}

fn of_built_in(built_in: &BuiltIn, profile: ServerProfile) -> Resource {
    let own = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    // API servers list the singular of built-in resources since 1.27, and the category of CRDs since 1.22.
    let old = profile == ServerProfile::V1_21;
    Resource {
        group: built_in.group.to_owned(),
        version: "v1".to_owned(),
        plural: built_in.plural.to_owned(),
        singular: if old { String::new() } else { built_in.singular.to_owned() },
        kind: built_in.kind.to_owned(),
        namespaced: built_in.namespaced,
        verbs: built_in.verbs,
        short_names: own(built_in.short_names),
        categories: if old && built_in.group == "apiextensions.k8s.io" { Vec::new() } else { own(built_in.categories) },
        subresources: built_in.subresources.iter().map(|name| Subresource::of(name, profile)).collect(),
        hash: built_in.hash,
        schema: None,
    }
}

/// Served versions of a CustomResourceDefinition. An incomplete definition defines none.
fn of_definition(crd: &Value, profile: ServerProfile) -> Vec<Resource> {
    let own = |pointer: &str| text(crd, pointer).to_owned();
    let texts = |pointer: &str| items(crd, pointer).iter().filter_map(Value::as_str).map(str::to_owned).collect();
    let kind = own("/spec/names/kind");
    let singular = match text(crd, "/spec/names/singular") {
        "" => kind.to_lowercase(),
        singular => singular.to_owned(),
    };
    items(crd, "/spec/versions")
        .iter()
        .filter(|version| at(version, "/served") == true)
        .map(|version| Resource {
            group: own("/spec/group"),
            version: text(version, "/name").to_owned(),
            plural: own("/spec/names/plural"),
            singular: singular.clone(),
            kind: kind.clone(),
            namespaced: text(crd, "/spec/scope") == "Namespaced",
            verbs: CUSTOM,
            short_names: texts("/spec/names/shortNames"),
            categories: texts("/spec/names/categories"),
            subresources: ["status", "scale"]
                .into_iter()
                .filter(|name| at(version, "/subresources").get(name).is_some_and(Value::is_object))
                .map(|name| Subresource::of(name, profile))
                .collect(),
            hash: None,
            schema: Some(at(version, "/schema/openAPIV3Schema").clone()),
        })
        .filter(|resource| !resource.group.is_empty() && !resource.plural.is_empty() && !resource.kind.is_empty())
        .collect()
}

/// Orders versions by Kubernetes' preference (apimachinery `version.CompareKubeAwareVersionStrings`): `v2`, `v1`,
/// `v2beta1`, `v1alpha1`, then other names.
fn by_priority(a: &str, b: &str) -> Ordering {
    let rank = |version: &str| Reverse(parse_version(version));
    rank(a).cmp(&rank(b)).then_with(|| a.cmp(b))
}

/// Stability (2 stable, 1 beta, 0 alpha), major version, and number within alpha or beta.
fn parse_version(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (major, stage) = rest.split_at_checked(digits)?;
    let major = major.parse().ok()?;
    if stage.is_empty() {
        return Some((2, major, 0));
    }
    let (stability, number) = match (stage.strip_prefix("beta"), stage.strip_prefix("alpha")) {
        (Some(number), _) => (1, number),
        (_, Some(number)) => (0, number),
        _ => return None,
    };
    Some((stability, major, number.parse().ok()?))
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    /// A definition with two served versions, one unserved version, and printer columns.
    pub(crate) fn definition() -> Value {
        json!({
            "metadata": {"name": "widgets.example.dev"},
            "spec": {
                "group": "example.dev",
                "scope": "Namespaced",
                "names": {"plural": "widgets", "kind": "Widget", "singular": "widget", "shortNames": ["wg"], "categories": ["all"]},
                "versions": [
                    {"name": "v1alpha1", "served": true, "storage": false, "schema": {"openAPIV3Schema": {"type": "object"}}},
                    {"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                     "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "description":
                        "What is wanted.", "properties": {"size": {"type": "integer", "description": "How big."}}}}}},
                     "additionalPrinterColumns": [
                        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                        {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
                        {"name": "Since", "type": "date", "jsonPath": ".status.since", "priority": 1}
                     ]},
                    {"name": "v0", "served": false, "storage": false}
                ]
            }
        })
    }

    #[test]
    fn orders_versions_by_kubernetes_priority() {
        let mut versions =
            ["foo1", "v1alpha1", "v10", "v11beta2", "v2", "v1", "v11alpha2", "v12alpha1", "foo10", "v3beta1"];
        versions.sort_by(|a, b| by_priority(a, b));
        assert_eq!(
            versions,
            ["v10", "v2", "v1", "v11beta2", "v3beta1", "v12alpha1", "v11alpha2", "v1alpha1", "foo1", "foo10"]
        );
    }

    #[test]
    fn definition_serves_its_served_versions() {
        let all =
            all(ServerProfile::V1_36, &[definition(), json!({"spec": {"versions": [{"served": true}]}}), json!(null)]);
        let custom: Vec<_> = all.iter().skip(BUILT_IN.len()).collect();
        assert_eq!(custom.iter().map(|resource| &*resource.version).collect::<Vec<_>>(), ["v1", "v1alpha1"]);
        let status = Subresource::of("status", ServerProfile::V1_36);
        assert_eq!((&*custom[0].subresources, custom[0].namespaced), (&[status][..], true));
        assert!(custom[1].subresources.is_empty());
    }
}
