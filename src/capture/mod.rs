//! Kubelet configurations of running nodes as files of a repository.
//!
//! - `configz.rs` converts the output of a kubelet's `configz` to a KubeletConfiguration, `strip_defaults.rs` removes
//!   defaults.
//! - `agreement.rs` and `remarks.rs` compare the configurations of several nodes.
//! - `pools.rs`, `starter.rs` and `adoption.rs` create a repository that changes no node of a cluster.
//! - `editor_schemas.rs` adds JSON Schemas for editors.
//! - `from_cluster.rs` and `running.rs` read the cluster, and `write_files.rs` writes the files. All others are pure: they
//!   must not use a client, a file or the clock.

mod adoption;
mod agreement;
mod configz;
mod editor_schemas;
pub(crate) mod from_cluster;
mod pools;
mod remarks;
pub(crate) mod running;
mod starter;
mod strip_defaults;
pub(crate) mod write_files;

pub use adoption::Draft;
pub use agreement::{Common, Difference, Share, common};
pub use configz::{NodeConfiguration, OmissionReason, OmittedField, running_config, to_yaml};
pub use pools::{Group, Selection};
use remarks::{comments, is_same_yaml, wrapped};
pub use remarks::{names, remarks};
pub(crate) use starter::RepositoryFiles;
pub use starter::{CurrentConfig, StarterPool};

/// A `kubelet.yaml` with the common configuration, and with `from` and remarks as comments. `None` for a
/// configuration beyond the limits of a document. Omits the comments when they would change the parsed content.
pub fn kubelet_file(common: &Common, from: &str) -> Option<String> {
    let mut lines = wrapped(from, 78, "");
    lines.extend(remarks(common, 78));
    let bare = to_yaml(&common.configuration)?;
    let commented = comments(&lines) + &bare;
    Some(if is_same_yaml(&commented, &bare) { commented } else { bare })
}
