//! A run or a state of the cluster as one page for a browser: complete in itself, without a network, readable without scripts, in light and
//! dark, by eye, by keyboard and by ear.
//!
//! [`page`] is what it says; [`of_run`] and its neighbours make that of what a command has; `document` and its parts are its templates,
//! in maud, which escapes every text. The page forbids itself everything but its own style and its own script, by their hashes.

mod changes;
mod document;
mod failures;
mod nodes;
pub mod page;
mod run;
mod run_timeline;
mod status;
mod text;
mod timeline;

#[cfg(test)]
mod tests;

pub use document::write;
pub use run::{Run, failed, of_run};
pub use run_timeline::RunTimeline;
pub use status::of_status;
