//! A `KubeadmConfigTemplate` of Cluster API that patches the kubelet's configuration by kubeadm.
//!
//! Schema: `bootstrap/kubeadm/config/crd/bases/bootstrap.cluster.x-k8s.io_kubeadmconfigtemplates.yaml`. The fields are
//! equal in `v1beta1` and `v1beta2`. The pattern is that of the book, "Use kubeadm's `kubeletconfiguration` patch
//! target".
//!
//! The name does not contain the content hash. A changed template applies to new Machines only; another name would
//! replace all Machines ("Updating Bootstrap Templates" in the book).

use super::{RenderError, Subject, indented, kubeadm};

/// Folder of the patches, as in the book.
const FOLDER: &str = "/etc/kubernetes/patches";
/// `maxLength` of `content`.
const LIMIT: usize = 10_240;

pub(super) fn render(subject: &Subject<'_>, name: &str) -> Result<String, RenderError> {
    kubeadm::check(subject)?;
    let length = subject.rendered.canonical.chars().count();
    if length > LIMIT {
        return Err(RenderError::TooLong { pool: subject.pool.clone(), length, limit: LIMIT });
    }
    let heading = subject.heading(&["Cluster API before 1.11 needs apiVersion v1beta1 instead of v1beta2.".to_owned()]);
    let content = indented(&subject.rendered.canonical, 10);
    let patch = kubeadm::PATCH_NAME;
    Ok(format!(
        "{heading}apiVersion: bootstrap.cluster.x-k8s.io/v1beta2
kind: KubeadmConfigTemplate
metadata:
  name: {name:?}
spec:
  template:
    spec:
      files:
      - path: {FOLDER}/{patch}
        owner: \"root:root\"
        permissions: \"0600\"
        content: |
{content}      joinConfiguration:
        patches:
          directory: {FOLDER}
"
    ))
}
