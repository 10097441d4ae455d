//! A report as an HTML page: self-contained and accessible, without network, and complete without scripts.
//!
//! `frame` and the modules of its sections are maud templates, which escape all texts. The page's content security policy
//! allows only its own style and script, by hash. State is never shown by color alone.

mod blocks;
mod frame;
mod nodes;
mod text;
mod timeline;

#[cfg(test)]
mod tests;

pub use frame::write;
