//! Tests of the programs as their users run them: commands, those of the documents, the GitHub Action, git servers, browsers
//! and kubectl.

#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::print_stderr, clippy::unwrap_used)]

mod action;
mod browser;
mod cli;
mod docs;
mod kubectl;
mod permissions;
mod remote;
