//! The GitHub Action as a runner runs it: the steps of action.yml, each with bash and the files and variables that GitHub
//! gives it, the built program, and a stand-in for GitHub on loopback.
//!
//! What is a stand-in: the runner (`job.rs`), its expressions (`expression.rs`), releases and the comments API (`github.rs`).
//! Facts about the real ones are from GitHub's documentation and the sources of actions/runner.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod expression;
mod github;
mod house;
mod install;
mod job;
mod other_events;
mod pull_request;
mod rollout;
mod trouble;
mod workspace;
