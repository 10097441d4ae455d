//! Machine of a simulated Node: files and flags of its kubelet.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::fault::Fault;

/// The `--config` file of a kubelet as kubeadm 1.36 writes it.
pub const KUBEADM_FILE: &str = include_str!("kubeadm.yaml");

/// Annotation of a simulated Node with its [`HostSpec`].
pub(crate) const HOST_ANNOTATION: &str = "sandbox.nodecfg.dev/host";

/// Description of the machine of a Node, which an annotation of the Node carries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HostSpec {
    /// Text of the kubelet's own `--config` file. `None`: [`KUBEADM_FILE`].
    pub file: Option<String>,
    /// Texts of other files in the folder of `--config-dir`, by their path below it. Without any, a kubelet whose agent
    /// writes no drop-in has no such folder.
    pub drop_ins: BTreeMap<String, String>,
    /// Further arguments of the kubelet's command line.
    pub flags: Vec<String>,
    /// Whether the agent writes a drop-in instead of the kubelet's `--config` file.
    pub writes_drop_in: bool,
    /// Configuration that `nodecfg-agent boot` put in place before the first start of the kubelet.
    pub booted: Option<BootedConfig>,
}

/// Configuration that `nodecfg-agent boot` put in place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootedConfig {
    /// The pool.
    pub pool: String,
    /// ConfigMap that the pointer of the pool names, and its namespace.
    pub config_map: String,
    /// Namespace of the ConfigMap.
    pub namespace: String,
    /// The KubeletConfiguration.
    pub kubelet: String,
}

impl HostSpec {
    /// Reads the description from the annotations of a Node.
    pub(crate) fn of(annotations: &BTreeMap<String, String>) -> Self {
        annotations.get(HOST_ANNOTATION).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// Text of the kubelet's own `--config` file.
    pub(crate) fn own_file(&self) -> &str {
        self.file.as_deref().unwrap_or(KUBEADM_FILE)
    }

    /// Arguments of the kubelet's command line, with that of a fault.
    pub(crate) fn arguments(&self, fault: Option<&Fault>) -> Vec<String> {
        let of_fault = match fault {
            Some(Fault::Flag(setting)) => setting.flag(),
            _ => None,
        };
        self.flags.iter().cloned().chain(of_fault).collect()
    }
}
