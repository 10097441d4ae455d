//! Property tests of planning, through what the crate exports.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod foretold;
mod plans;
mod saved;
