//! What one request does to which object: in the words of an error message, as RBAC names it, and as a path.

use std::borrow::Cow;
use std::fmt;

/// What a request does, as RBAC names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read a collection.
    List,
    /// Follow a collection.
    Watch,
    /// Make an object.
    Create,
    /// Replace an object.
    Update,
    /// Change parts of an object.
    Patch,
    /// Remove an object.
    Delete,
}

impl Verb {
    /// The word of an RBAC rule.
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

/// The kinds of object that nodecfg touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Resource {
    /// core/v1 nodes.
    Nodes,
    /// What a Node's kubelet shows of its configuration, through the Node's proxy.
    Configz,
    /// core/v1 configmaps.
    ConfigMaps,
    /// core/v1 events.
    Events,
    /// core/v1 namespaces.
    Namespaces,
    /// coordination.k8s.io/v1 leases.
    Leases,
    /// nodecfg.dev/v1alpha1 nodeconfigs.
    NodeConfigs,
    /// authorization.k8s.io/v1 selfsubjectaccessreviews.
    AccessReviews,
    /// The server's version, which is no object.
    Version,
    /// Of another kind, that nodecfg only installs.
    Other(&'static Kind),
}

/// A kind of object, by its names.
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

    /// The path of its group and version.
    pub(super) fn root(self) -> Cow<'static, str> {
        match self {
            Self::Leases => "/apis/coordination.k8s.io/v1".into(),
            Self::NodeConfigs => "/apis/nodecfg.dev/v1alpha1".into(),
            Self::AccessReviews => "/apis/authorization.k8s.io/v1".into(),
            Self::Other(Kind { group, version, .. }) if !group.is_empty() => format!("/apis/{group}/{version}").into(),
            _ => "/api/v1".into(),
        }
    }
}

/// One request: the verb and what it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// What it does.
    pub verb: Verb,
    /// To what kind of object.
    pub resource: Resource,
    /// In which namespace; unset for cluster-scoped kinds.
    pub namespace: Option<String>,
    /// To which object; unset for a collection.
    pub name: Option<String>,
}

impl Operation {
    /// An operation on a collection.
    #[must_use]
    pub fn on_all(verb: Verb, resource: Resource, namespace: Option<&str>) -> Self {
        Self { verb, resource, namespace: namespace.map(str::to_owned), name: None }
    }

    /// An operation on one object.
    #[must_use]
    pub fn on(verb: Verb, resource: Resource, namespace: Option<&str>, name: &str) -> Self {
        Self { verb, resource, namespace: namespace.map(str::to_owned), name: Some(name.to_owned()) }
    }

    /// The path of the request. Names come from other people's objects too, so each segment is escaped.
    #[must_use]
    pub fn path(&self) -> String {
        if self.resource == Resource::Version {
            return "/version".to_owned();
        }
        if let (Resource::Configz, Some(name)) = (self.resource, &self.name) {
            return format!("/api/v1/nodes/{}/proxy/configz", escape(name));
        }
        let mut path = self.resource.root().into_owned();
        if let Some(namespace) = &self.namespace {
            path.push_str("/namespaces/");
            path.push_str(&escape(namespace));
        }
        path.push('/');
        path.push_str(self.resource.plural());
        // A create is posted to the collection, whatever the new object is called.
        if let (Some(name), false) = (&self.name, self.verb == Verb::Create) {
            path.push('/');
            path.push_str(&escape(name));
        }
        path
    }
}

impl fmt::Display for Operation {
    /// `list nodes`, `patch node n1`, `create configmap kube-system/a`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.resource == Resource::Version {
            return f.write_str("read the server's version");
        }
        if let (Resource::Configz, Some(name)) = (self.resource, &self.name) {
            return write!(f, "read what the kubelet of node {name} runs");
        }
        match (&self.namespace, &self.name) {
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
pub(super) fn escape(text: &str) -> String {
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
    fn operations_as_people_read_them() {
        let say = |operation: Operation| operation.to_string();
        assert_eq!(say(Operation::on_all(Verb::List, Resource::Nodes, None)), "list nodes");
        assert_eq!(say(Operation::on(Verb::Patch, Resource::Nodes, None, "n1")), "patch node n1");
        assert_eq!(
            say(Operation::on(Verb::Create, Resource::ConfigMaps, Some("kube-system"), "a")),
            "create configmap kube-system/a"
        );
        assert_eq!(
            say(Operation::on_all(Verb::List, Resource::ConfigMaps, Some("kube-system"))),
            "list configmaps in namespace kube-system"
        );
    }

    #[test]
    fn paths_escape_what_others_named() {
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
    }
}
