//! What nodes run, as files of a repository: the answer of a kubelet's `configz` as a KubeletConfiguration (`taken.rs`), the
//! same without defaults (`lean.rs`), those of several nodes compared (`common.rs`), and the nodes of a cluster sorted into
//! pools (`pools.rs`, `starter.rs`).
//!
//! Pure: values in, values out. What must not be in here: a client, a file, the clock.

mod common;
mod lean;
mod taken;

pub use common::{Common, Difference, Share, common};
pub use lean::without_defaults;
pub use taken::{LeftOut, Taken, Withheld, to_yaml};
