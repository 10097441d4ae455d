//! Description of one request: verb and object, as text for errors, as RBAC names, and as a path.

use std::borrow::Cow;
use std::fmt;

use nodecfg_contract::installation::Right;

/// Verb of a request, as in RBAC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read a collection.
    List,
    /// Follow a collection.
    Watch,
    /// Create an object.
    Create,
    /// Replace an object.
    Update,
    /// Change parts of an object.
    Patch,
    /// Remove an object.
    Delete,
}

impl Verb {
    /// Verb as in an RBAC rule.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
        }
    }
}

/// Resources that nodecfg uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Resource {
    /// core/v1 nodes.
    Nodes,
    /// Configuration of a kubelet, read through the proxy of its Node.
    Configz,
    /// core/v1 configmaps.
    ConfigMaps,
    /// core/v1 events.
    Events,
    /// core/v1 namespaces.
    Namespaces,
    /// coordination.k8s.io/v1 leases.
    Leases,
    /// core/v1 pods.
    Pods,
    /// Eviction of a core/v1 pod: a subresource.
    Evictions,
    /// policy/v1 poddisruptionbudgets.
    PodDisruptionBudgets,
    /// storage.k8s.io/v1 volumeattachments.
    VolumeAttachments,
    /// nodecfg.dev/v1alpha1 nodeconfigs.
    NodeConfigs,
    /// authorization.k8s.io/v1 selfsubjectaccessreviews.
    AccessReviews,
    /// Version of the server; not an object.
    Version,
    /// Resource that nodecfg only installs.
    Other(&'static Kind),
}

/// Names of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Kind {
    /// API group; empty for core.
    pub group: &'static str,
    /// Version within the group.
    pub version: &'static str,
    /// `kind` in an object.
    pub kind: &'static str,
    /// Plural, as in paths and RBAC rules.
    pub plural: &'static str,
    /// Singular, as in messages.
    pub singular: &'static str,
}

impl Resource {
    /// API group; empty for core.
    #[must_use]
    pub fn group(self) -> &'static str {
        match self {
            Self::Leases => "coordination.k8s.io",
            Self::PodDisruptionBudgets => "policy",
            Self::VolumeAttachments => "storage.k8s.io",
            Self::NodeConfigs => "nodecfg.dev",
            Self::AccessReviews => "authorization.k8s.io",
            Self::Other(kind) => kind.group,
            _ => "",
        }
    }

    /// Plural, as in paths and RBAC rules.
    #[must_use]
    pub fn plural(self) -> &'static str {
        match self {
            Self::Nodes => "nodes",
            Self::Configz => "nodes/proxy",
            Self::ConfigMaps => "configmaps",
            Self::Events => "events",
            Self::Namespaces => "namespaces",
            Self::Leases => "leases",
            Self::Pods => "pods",
            Self::Evictions => "pods/eviction",
            Self::PodDisruptionBudgets => "poddisruptionbudgets",
            Self::VolumeAttachments => "volumeattachments",
            Self::NodeConfigs => "nodeconfigs",
            Self::AccessReviews => "selfsubjectaccessreviews",
            Self::Version => "version",
            Self::Other(kind) => kind.plural,
        }
    }

    /// Singular, as in messages.
    #[must_use]
    pub fn singular(self) -> &'static str {
        match self {
            Self::Other(kind) => kind.singular,
            _ => self.plural().trim_end_matches('s'),
        }
    }

    /// Path of the group and version.
    pub(crate) fn root(self) -> Cow<'static, str> {
        match self {
            Self::Leases => "/apis/coordination.k8s.io/v1".into(),
            Self::PodDisruptionBudgets => "/apis/policy/v1".into(),
            Self::VolumeAttachments => "/apis/storage.k8s.io/v1".into(),
            Self::NodeConfigs => "/apis/nodecfg.dev/v1alpha1".into(),
            Self::AccessReviews => "/apis/authorization.k8s.io/v1".into(),
            Self::Other(Kind { group, version, .. }) if !group.is_empty() => format!("/apis/{group}/{version}").into(),
            _ => "/api/v1".into(),
        }
    }
}

/// Verb and object of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// The verb.
    pub verb: Verb,
    /// Kind of the object.
    pub resource: Resource,
    /// Namespace; unset for cluster-scoped kinds.
    pub namespace: Option<String>,
    /// Name of the object; unset for a collection.
    pub name: Option<String>,
}

impl Operation {
    /// Operation on a collection.
    #[must_use]
    pub fn on_all(verb: Verb, resource: Resource, namespace: Option<&str>) -> Self {
        Self { verb, resource, namespace: namespace.map(str::to_owned), name: None }
    }

    /// Operation on one object.
    #[must_use]
    pub fn on(verb: Verb, resource: Resource, namespace: Option<&str>, name: &str) -> Self {
        Self { verb, resource, namespace: namespace.map(str::to_owned), name: Some(name.to_owned()) }
    }

    /// Path of the request. Escapes each segment, since names may come from objects of other clients.
    #[must_use]
    pub fn path(&self) -> String {
        if self.resource == Resource::Version {
            return "/version".to_owned();
        }
        if let (Resource::Configz, Some(name)) = (self.resource, &self.name) {
            return format!("/api/v1/nodes/{}/proxy/configz", escape(name));
        }
        if let (Resource::Evictions, Some(namespace), Some(name)) = (self.resource, &self.namespace, &self.name) {
            return format!("/api/v1/namespaces/{}/pods/{}/eviction", escape(namespace), escape(name));
        }
        let mut path = self.resource.root().into_owned();
        if let Some(namespace) = &self.namespace {
            path.push_str("/namespaces/");
            path.push_str(&escape(namespace));
        }
        path.push('/');
        path.push_str(self.resource.plural());
        // A create is posted to the collection, without the name.
        if let (Some(name), false) = (&self.name, self.verb == Verb::Create) {
            path.push('/');
            path.push_str(&escape(name));
        }
        path
    }

    /// Reports whether only a drain sends the operation. A review lists pods and their budgets, too.
    pub(crate) fn is_of_drain(&self) -> bool {
        matches!(
            (self.verb, self.resource),
            (_, Resource::Evictions | Resource::VolumeAttachments) | (Verb::Watch | Verb::Delete, Resource::Pods)
        )
    }

    /// Reports whether only fleets with pool pointers need this operation.
    pub(crate) fn is_of_pool_pointers(&self) -> bool {
        (self.verb, self.resource) == (Verb::Update, Resource::ConfigMaps)
    }

    /// The right that allows the operation. Only a right on Namespaces names its object, so that other namespaces
    /// stay private. Operations on other resources concern many objects in turn.
    pub(crate) fn right(&self) -> Right {
        Right {
            group: self.resource.group().to_owned(),
            resource: self.resource.plural().to_owned(),
            verb: self.verb.as_str().to_owned(),
            namespace: self.namespace.as_deref().map(str::to_owned),
            name: self.name.as_deref().filter(|_| self.resource == Resource::Namespaces).map(str::to_owned),
        }
    }
}

impl fmt::Display for Operation {
    /// Prints for example `list nodes`, `patch node n1`, `create configmap kube-system/a`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.resource == Resource::Version {
            return f.write_str("read the server's version");
        }
        if let (Resource::Configz, Some(name)) = (self.resource, &self.name) {
            return write!(f, "read the configuration of the kubelet on node {name}");
        }
        match (&self.namespace, &self.name) {
            (Some(namespace), Some(name)) if self.resource == Resource::Evictions => {
                write!(f, "evict pod {namespace}/{name}")
            }
            (Some(namespace), Some(name)) => {
                write!(f, "{} {} {namespace}/{name}", self.verb.as_str(), self.resource.singular())
            }
            (None, Some(name)) => write!(f, "{} {} {name}", self.verb.as_str(), self.resource.singular()),
            (Some(namespace), None) => {
                write!(f, "{} {} in namespace {namespace}", self.verb.as_str(), self.resource.plural())
            }
            (None, None) => write!(f, "{} {}", self.verb.as_str(), self.resource.plural()),
        }
    }
}

/// Escapes one path segment or query value: everything but RFC 3986's unreserved characters.
#[must_use]
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_operations() {
        let text = |operation: Operation| operation.to_string();
        assert_eq!(text(Operation::on_all(Verb::List, Resource::Nodes, None)), "list nodes");
        assert_eq!(text(Operation::on(Verb::Patch, Resource::Nodes, None, "n1")), "patch node n1");
        assert_eq!(
            text(Operation::on(Verb::Create, Resource::ConfigMaps, Some("kube-system"), "a")),
            "create configmap kube-system/a"
        );
        assert_eq!(
            text(Operation::on_all(Verb::List, Resource::ConfigMaps, Some("kube-system"))),
            "list configmaps in namespace kube-system"
        );
        assert_eq!(text(Operation::on(Verb::Create, Resource::Evictions, Some("web"), "a-0")), "evict pod web/a-0");
    }

    #[test]
    fn path_escapes_names() {
        let path = |verb, resource, namespace, name| Operation::on(verb, resource, namespace, name).path();
        assert_eq!(path(Verb::Get, Resource::Nodes, None, "n1"), "/api/v1/nodes/n1");
        assert_eq!(
            path(Verb::Get, Resource::ConfigMaps, Some("a/b"), "../x?y"),
            "/api/v1/namespaces/a%2Fb/configmaps/..%2Fx%3Fy"
        );
        assert_eq!(
            path(Verb::Create, Resource::Leases, Some("kube-system"), "l"),
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
        );
        assert_eq!(path(Verb::Patch, Resource::NodeConfigs, None, "n1"), "/apis/nodecfg.dev/v1alpha1/nodeconfigs/n1");
        assert_eq!(
            path(Verb::Create, Resource::Evictions, Some("a/b"), "c?d"),
            "/api/v1/namespaces/a%2Fb/pods/c%3Fd/eviction"
        );
    }
}
