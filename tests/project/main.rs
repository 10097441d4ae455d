//! Tests of the project: its generated files, rules, and tables against recorded verdicts.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used
)]

mod chart;
mod deploy;
mod findings;
mod monitoring;
mod oracle;
mod outputs;
mod schema;
mod tidy;
