//! A fleet as its repository describes it: from the files of one revision to pools, their policies and their rendered
//! configurations. Independent of any cluster.
//!
//! The one type to know is [`Desired`]. [`build`] makes it from a [`Snapshot`](snapshot::Snapshot).
//!
//! - [`snapshot`]: the files of a revision as names and texts.
//! - [`formats`]: the files that users write, their reader and their JSON Schemas.
//! - [`drain`], [`gates`], [`schedule`]: policies of a rollout.
//! - [`hold`]: why nodes do not start now although nothing has failed.
//!
//! The caller passes time as a value.

mod build;
mod checked;
mod desired;
pub mod drain;
mod fields;
pub mod formats;
pub mod gates;
pub mod hold;
mod kubelet_file;
mod own;
mod render;
mod reserve;
#[cfg(test)]
mod scenarios;
pub mod schedule;
pub mod settings;
mod single_file;
mod sizes;
pub mod snapshot;

pub use build::{Built, CheckedPool, Draft, FLEET_FILE, POOLS_FOLDER, build, draft};
pub use checked::{Checked, Checks, Kubelets, check_document, dedupe, judge_document};
pub use desired::*;
pub use formats::DEFAULT_FLEET;
pub use reserve::{Formula, Pods, Preset, Reserve, Reserved};
pub use single_file::check_file;
pub use sizes::{MAX_SIZES, REFERENCE, Sizes, TYPICAL, reserved_field, typical_sizes};
