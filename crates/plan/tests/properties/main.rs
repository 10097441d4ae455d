//! Property tests of planning, through what the crate exports.

mod foretold;
mod plans;
mod saved;
