//! A [`Review`](crate::review::Review) as text, markdown and JSON. All formats share the texts of `sentences`.

mod document;
mod drains;
mod group;
mod markdown;
mod nodes;
mod outlook;
mod page;
mod pointers;
pub(super) mod sentences;
mod text;
mod verdict;

pub use document::{Diff, body};
#[cfg(test)]
pub(super) use drains::tests::troubled as troubled_drain;
pub(super) use drains::{pod_facts, summary as drain_summary};
pub(super) use group::title;
pub use markdown::{LEAST_CHARS, write as markdown};
pub use outlook::remarks;
pub(super) use outlook::{conditions, suffix};
pub(super) use pointers::changes_beside_assignments;
pub(super) use sentences::clipped;
pub use sentences::header_line;
pub use text::{awaited, write as text};
pub(super) use verdict::verdict;
