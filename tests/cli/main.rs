//! The command line from outside: the program is run as its users run it, and what it writes is held against snapshots.
//!
//! What differs from run to run (times, ports, the names of plans) is written as `[…]` before it is compared. Clusters are
//! served by this process, seeded and fast, with budgets of one node, so that things happen in one order.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::print_stderr)]

mod cluster;
mod diff;
mod diff_against;
mod doctor;
mod errors;
mod explain;
mod help;
mod install;
mod program;
mod repository;
mod run;
mod sandbox;
mod secrets;
mod shell;
mod signed;
mod status;
mod telemetry;
mod terminal;
mod validate;
mod validate_files;
