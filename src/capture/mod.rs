//! Kubelet configurations of running nodes as files of a repository.
//!
//! - `configz.rs` converts the output of a kubelet's `configz` to a KubeletConfiguration, `strip_defaults.rs` removes
//!   defaults.
//! - `agreement.rs` and `remarks.rs` compare the configurations of several nodes.
//! - `pools.rs`, `starter.rs` and `adoption.rs` create a repository that changes no node of a cluster.
//! - `editor_schemas.rs` adds JSON Schemas for editors.
//!
//! Pure: must not use a client, a file or the clock.

mod adoption;
mod agreement;
mod configz;
mod editor_schemas;
mod pools;
mod remarks;
mod starter;
mod strip_defaults;

pub use adoption::{AdoptionError, Draft, adopt, common_config};
pub use agreement::{Common, Difference, Share, common};
pub use configz::{NodeConfiguration, OmissionReason, OmittedField, running_config, to_yaml};
pub use editor_schemas::{SCHEMA_FOLDER, schema_of, with_schema_line, with_schemas};
pub use pools::{Group, Selection, group_nodes};
use remarks::wrapped;
pub use remarks::{comments, is_same_yaml, names, remarks};
pub use starter::{CurrentConfig, Repository, StarterPool, captured_pool, empty_repository, starter_repository};
pub use strip_defaults::without_defaults;

/// A `kubelet.yaml` with the common configuration, and with `from` and remarks as comments. `None` for a
/// configuration beyond the limits of a document. Omits the comments when they would change the parsed content.
pub fn kubelet_file(common: &Common, from: &str) -> Option<String> {
    let mut lines = wrapped(from, 78, "");
    lines.extend(remarks(common, 78));
    let bare = to_yaml(&common.configuration)?;
    let commented = comments(&lines) + &bare;
    Some(if is_same_yaml(&commented, &bare) { commented } else { bare })
}
