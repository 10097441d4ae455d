//! The configuration as a file on a node.
//!
//! A kubelet merges each `*.conf` of its `--config-dir` over its `--config`, in the order of names. Each must have
//! `apiVersion` and `kind`, which every configuration has
//! (<https://kubernetes.io/docs/tasks/administer-cluster/kubelet-config-file/#kubelet-conf-d>).

use kubelet_config::Minor;

use super::{Consumer, RenderError, Subject};
use kubelet_config::finding::{Finding, Place};
use nodecfg_contract::Placement;

/// Name of the drop-in. The agent's own, `90-nodecfg.conf`, comes later. An agent without a ledger removes a file of its
/// name that it did not write.
pub const DROP_IN_NAME: &str = "80-nodecfg.conf";

/// Kubelets read drop-ins from this version on (KEP-3983).
const DROP_INS: Minor = Minor(28);

/// File on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeFile {
    /// The file of the kubelet's `--config`.
    Config(String),
    /// A drop-in in the folder of the kubelet's `--config-dir`.
    DropIn(String),
}

impl Default for NodeFile {
    fn default() -> Self {
        Self::Config("/var/lib/kubelet/config.yaml".to_owned())
    }
}

impl NodeFile {
    /// Path of the file.
    pub(super) fn path(&self) -> String {
        match self {
            Self::Config(path) => path.clone(),
            Self::DropIn(folder) => format!("{}/{DROP_IN_NAME}", folder.trim_end_matches('/')),
        }
    }

    /// Fails if a declared kubelet does not read this file.
    pub(super) fn check(&self, subject: &Subject<'_>) -> Result<(), RenderError> {
        match self {
            Self::Config(_) => Ok(()),
            Self::DropIn(_) => subject.require(DROP_INS, "drop-ins need"),
        }
    }
}

/// Warns of an overlay that a kubelet would read as its whole file.
#[must_use]
pub fn overlay_as_file(subject: &Subject<'_>, consumer: Consumer, file: &NodeFile) -> Option<Finding> {
    let is_whole = match consumer {
        Consumer::File => true,
        Consumer::CloudInit => matches!(file, NodeFile::Config(_)),
        // These merge over what the node has.
        Consumer::DropIn | Consumer::Nodeadm | Consumer::KubeadmPatch | Consumer::Karpenter | Consumer::ClusterApi => {
            false
        }
    };
    let message = format!(
        "pool {} overlays the own configuration of its nodes: a kubelet that reads only this file has the default of every \
         other field",
        subject.pool
    );
    let help = match consumer {
        Consumer::CloudInit => "pass --kubelet-config-dir, so that the kubelet merges it",
        _ => "use --format drop-in, or write the complete configuration with placement: replace",
    };
    let place = Place { len: 0, ..subject.rendered.document.root.place.clone() };
    (is_whole && subject.placement == Placement::Overlay)
        .then(|| Finding::warning("overlay-as-file", message).at(place).help(help))
}

pub(super) fn drop_in(subject: &Subject<'_>) -> Result<String, RenderError> {
    subject.require(DROP_INS, "drop-ins need")?;
    let place = format!("Save it as {DROP_IN_NAME} in the kubelet's --config-dir.");
    Ok(subject.heading(&[place]) + &subject.rendered.canonical)
}
