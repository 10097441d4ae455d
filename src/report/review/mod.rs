//! A [`Review`](crate::review::Review) as people and programs get to see it: text for a terminal, markdown for a pull request,
//! a document for programs. All of them tell the same facts, in the words of `words`.

mod document;
mod markdown;
mod nodes;
mod text;
pub(super) mod words;

pub use document::{Diff, document};
pub use markdown::{LEAST_CHARS, write as markdown};
pub use text::{awaited, write as text};
pub(super) use words::clipped;
pub use words::opening;
