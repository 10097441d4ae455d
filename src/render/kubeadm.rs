//! A file for kubeadm's `--patches`, or `patches.directory` of its configuration.
//!
//! The name is `target[suffix][+patchtype].extension`; kubeadm has the target `kubeletconfiguration` from 1.25 on
//! (<https://kubernetes.io/docs/setup/production-environment/tools/kubeadm/control-plane-flags/#patches>). The type
//! `merge` (RFC 7386) replaces lists, as nodecfg does. kubeadm patches the file of the kubelet's `--config` in `init`,
//! `join` and `upgrade`.

use kubelet_config::Minor;

use super::{RenderError, Subject};

/// Name of the file.
pub(super) const PATCH_NAME: &str = "kubeletconfiguration+merge.yaml";

/// kubeadm, which has the minor version of its kubelets or the next, has the target from this version on.
const TARGET: Minor = Minor(25);

pub(super) fn check(subject: &Subject<'_>) -> Result<(), RenderError> {
    subject.require(TARGET, "patches of the kubelet by kubeadm need")
}

pub(super) fn render(subject: &Subject<'_>) -> Result<String, RenderError> {
    check(subject)?;
    let place = format!("Save it as {PATCH_NAME} in the folder of kubeadm's --patches.");
    Ok(subject.heading(&[place]) + &subject.rendered.canonical)
}
