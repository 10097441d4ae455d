//! The agent is killed, loses power, and works on a disk that fails: it ends in the same state all the same, and never leaves
//! the kubelet on a configuration that was refused or failed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout)]

mod child;
mod contents;
mod faults;
mod processes;
mod random;
mod server;
mod snapshot;
mod story;
mod world;
