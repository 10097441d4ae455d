//! Writes, which require the lock of the fleet, and what is known before the first of them.

pub mod apply;
mod assignment_writer;
mod deletion;
pub mod diagnostics;
pub mod permission;
pub(crate) mod pointer_writer;
pub mod writer;
