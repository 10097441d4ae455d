//! The configuration of a pool in the formats of programs that create nodes.
//!
//! - `node_file.rs`: a file on a node, as such or as a drop-in.
//! - `cloud_init.rs`, `nodeadm.rs`, `kubeadm.rs`, `karpenter.rs`, `cluster_api.rs`: one consumer each, with the source
//!   of its schema.
//! - `scheduling.rs`: warnings about programs that calculate with other values than the kubelet.
//!
//! The output depends only on content, fleet and pool: a commit that leaves the pool unchanged must not replace nodes.
//! So no output names a commit or the version of nodecfg.
//!
//! Pure: must not use a client, a file or the clock.

use std::fmt::Write as _;

use kubelet_config::Minor;
use nodecfg_contract::Placement;
use nodecfg_contract::names::{FleetName, PoolName};
use nodecfg_fleet::Rendered;

mod cloud_init;
mod cluster_api;
mod karpenter;
mod kubeadm;
mod node_file;
mod nodeadm;
mod scheduling;
#[cfg(test)]
mod tests;

pub use node_file::{DROP_IN_NAME, NodeFile, overlay_as_file};
pub use scheduling::findings;

/// A format of a consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Consumer {
    /// The KubeletConfiguration, as in the ConfigMap.
    File,
    /// A file for the kubelet's --config-dir (kubelet 1.28).
    DropIn,
    /// User data for cloud-init that writes the file.
    CloudInit,
    /// A NodeConfig of nodeadm, for EKS with Amazon Linux 2023.
    Nodeadm,
    /// A file for kubeadm's --patches (kubeadm 1.25).
    KubeadmPatch,
    /// Fields of an EC2NodeClass of Karpenter with Amazon Linux 2023.
    Karpenter,
    /// A KubeadmConfigTemplate of Cluster API.
    ClusterApi,
}

impl Consumer {
    /// Name on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::DropIn => "drop-in",
            Self::CloudInit => "cloud-init",
            Self::Nodeadm => "nodeadm",
            Self::KubeadmPatch => "kubeadm-patch",
            Self::Karpenter => "karpenter",
            Self::ClusterApi => "cluster-api",
        }
    }
}

/// The configuration of a pool.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The fleet.
    pub fleet: &'a FleetName,
    /// The pool.
    pub pool: &'a PoolName,
    /// Its configuration.
    pub rendered: &'a Rendered,
    /// How nodes combine it with their own configuration.
    pub placement: Placement,
    /// Declared kubelet versions of the pool; empty if undeclared.
    pub kubelets: &'a [Minor],
}

impl Subject<'_> {
    /// Name of an object for this pool: two DNS labels are a DNS subdomain.
    fn object_name(&self) -> String {
        format!("{}-{}", self.fleet, self.pool)
    }

    /// Comment that names the pool and the content, with further lines.
    fn heading(&self, lines: &[String]) -> String {
        let mut out = format!(
            "# KubeletConfiguration of pool {} in fleet {}.\n# Content: {}\n",
            self.pool, self.fleet, self.rendered.hash
        );
        for line in lines {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "# {line}");
        }
        out
    }

    /// Fails if the pool declares a kubelet older than `needed`.
    fn require(&self, needed: Minor, what: &'static str) -> Result<(), RenderError> {
        match self.kubelets.iter().copied().min().filter(|oldest| *oldest < needed) {
            Some(oldest) => Err(RenderError::OldKubelet { pool: self.pool.clone(), oldest, needed, what }),
            None => Ok(()),
        }
    }
}

/// Settings of the output.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// File on the node that cloud-init writes.
    pub file: NodeFile,
    /// Name of the object. Default: `<fleet>-<pool>`.
    pub name: Option<String>,
}

/// Reason why a consumer cannot have a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// A declared kubelet lacks the feature.
    #[error("pool {pool} declares kubelet {oldest}, and {what} {needed}")]
    OldKubelet {
        /// The pool.
        pool: PoolName,
        /// Its oldest declared version.
        oldest: Minor,
        /// The first version with the feature.
        needed: Minor,
        /// What requires the version.
        what: &'static str,
    },
    /// The content exceeds a limit of the consumer's schema.
    #[error(
        "the configuration of pool {pool} has {length} characters, and a file of a KubeadmConfigTemplate at most {limit}"
    )]
    TooLong {
        /// The pool.
        pool: PoolName,
        /// Length of the content.
        length: usize,
        /// The limit.
        limit: usize,
    },
}

impl RenderError {
    /// The fix.
    #[must_use]
    pub fn help(&self) -> &'static str {
        match self {
            Self::OldKubelet { .. } => "use --format file or --format cloud-init with --kubelet-config",
            Self::TooLong { .. } => {
                "put the output of --format kubeadm-patch into a Secret, and name it in contentFrom of the file"
            }
        }
    }
}

/// Renders the configuration of a pool for a consumer. Equal arguments give equal bytes.
///
/// # Errors
/// The consumer cannot have this configuration.
pub fn render(subject: &Subject<'_>, consumer: Consumer, settings: &Settings) -> Result<String, RenderError> {
    let name = || settings.name.clone().unwrap_or_else(|| subject.object_name());
    match consumer {
        Consumer::File => Ok(subject.rendered.canonical.clone()),
        Consumer::DropIn => node_file::drop_in(subject),
        Consumer::CloudInit => cloud_init::render(subject, &settings.file),
        Consumer::Nodeadm => Ok(nodeadm::render(subject)),
        Consumer::KubeadmPatch => kubeadm::render(subject),
        Consumer::Karpenter => Ok(karpenter::render(subject, &name())),
        Consumer::ClusterApi => cluster_api::render(subject, &name()),
    }
}

/// The text with each line indented, as a YAML map or the content of a literal block scalar.
///
/// The canonical form makes that safe: it is printable ASCII, each scalar is on one line, and no line starts with a
/// space at the top level.
fn indented(text: &str, spaces: usize) -> String {
    let indent = " ".repeat(spaces);
    text.lines().fold(String::new(), |mut out, line| {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{indent}{line}");
        out
    })
}
