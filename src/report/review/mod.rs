//! A [`Review`](crate::review::Review) as a report: the changes of each group of pools, the order of their nodes, and the
//! verdict.

mod build;
mod drains;
mod group;
mod json;
mod order;
mod outlook;
mod pointers;
mod sentences;
#[cfg(test)]
mod tests;
mod verdict;

pub(super) use build::aside;
pub use build::{awaited, report};
#[cfg(test)]
pub(super) use drains::tests::troubled as troubled_drain;
pub use json::{Diff, body};
pub use outlook::remarks;
pub(super) use outlook::suffix;
pub use sentences::header_line;
