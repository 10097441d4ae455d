//! A NodeConfig of nodeadm, which configures nodes of EKS with Amazon Linux 2023.
//!
//! Type: `nodeadm/api/v1alpha1/nodeconfig_types.go` of awslabs/amazon-eks-ami. nodeadm writes `spec.kubelet.config` to the
//! drop-in `/etc/kubernetes/kubelet/config.json.d/40-nodeadm.conf`, and adds `apiVersion` and `kind`
//! (`nodeadm/internal/kubelet/config.go`). It merges all NodeConfigs of the user data, so this one needs no
//! `spec.cluster`.

use kubelet_config::document::{Document, Node, Value};

use super::{Subject, indented};

/// `apiVersion` of a NodeConfig, and the content type of its part in user data.
pub(super) const API_VERSION: &str = "node.eks.aws/v1alpha1";

pub(super) fn render(subject: &Subject<'_>) -> String {
    let fields = fields(subject, |key| !is_header(key));
    subject.heading(&[]) + &node_config(fields.as_ref())
}

/// A NodeConfig with these fields.
pub(super) fn node_config(fields: Option<&Document>) -> String {
    let config = match fields {
        Some(fields) => format!("\n{}", indented(&fields.canonical(), 6)),
        None => " {}\n".to_owned(),
    };
    format!("apiVersion: {API_VERSION}\nkind: NodeConfig\nspec:\n  kubelet:\n    config:{config}")
}

/// The selected top-level fields of the configuration. `None` if it has none of them.
pub(super) fn fields(subject: &Subject<'_>, select: impl Fn(&str) -> bool) -> Option<Document> {
    let document = &subject.rendered.document;
    let mut map = document.root.mapping()?.clone();
    map.retain(|key, _| select(key));
    let root = Node { value: Value::Mapping(map), place: document.root.place.clone() };
    root.mapping().is_some_and(|map| !map.is_empty()).then_some(Document { root, syntax: document.syntax })
}

/// Reports whether the key is no field of the kubelet. Kubelets read it in any case.
pub(super) fn is_header(key: &str) -> bool {
    ["apiVersion", "kind"].iter().any(|header| key.eq_ignore_ascii_case(header))
}
