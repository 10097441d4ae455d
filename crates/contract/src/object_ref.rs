//! References to Kubernetes objects of any kind.

use std::fmt;

use crate::names::NamespaceName;

/// A Kubernetes object of any kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// `v1`, or `<group>/<version>`.
    pub api_version: String,
    /// Kind, such as `Deployment`.
    pub kind: String,
    /// Namespace; `None` for objects of the cluster.
    pub namespace: Option<NamespaceName>,
    /// What identifies it.
    pub by: ObjectId,
}

/// What identifies an object of a kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectId {
    /// Its name.
    Name(String),
    /// A label that no other object of the kind has with this value.
    Label {
        /// Key of the label.
        key: String,
        /// Value of the label.
        value: String,
    },
}

impl fmt::Display for ObjectRef {
    /// Prints for example `Deployment mesh/gw`, or `Volume storage with node=n1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, namespace, by, .. } = self;
        match (namespace, by) {
            (Some(namespace), ObjectId::Name(name)) => write!(f, "{kind} {namespace}/{name}"),
            (None, ObjectId::Name(name)) => write!(f, "{kind} {name}"),
            (Some(namespace), ObjectId::Label { key, value }) => write!(f, "{kind} {namespace} with {key}={value}"),
            (None, ObjectId::Label { key, value }) => write!(f, "{kind} with {key}={value}"),
        }
    }
}
