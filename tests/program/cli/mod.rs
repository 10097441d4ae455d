//! Tests that run the built program and compare its output with snapshots.
//!
//! Variable parts such as times, ports and plan names are replaced by `[…]`. Clusters are served by the test process
//! with a fixed seed, high speed and a budget of one node, so that events have a fixed order.

mod cluster;
mod conventions;
mod diff;
mod diff_against;
mod doctor;
mod effective;
mod errors;
mod explain;
mod help;
mod hostile;
mod install;
mod limited;
mod links;
mod mistakes;
mod program;
mod render;
mod reports;
mod repository;
mod revisions;
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
