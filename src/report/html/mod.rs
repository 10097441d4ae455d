//! HTML report of a run or a status: one self-contained, accessible page that works without network and scripts.
//!
//! [`page`] holds the data. [`of_run`], [`of_status`] and [`failed`] create it. `document` and its sections are maud
//! templates, which escape all texts. The page's content security policy allows only its own style and script, by
//! hash. State is never shown by color alone.

mod changes;
mod document;
mod drains;
mod elements;
mod failures;
mod nodes;
pub mod page;
mod recovery;
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
