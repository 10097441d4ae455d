//! Tests of the GitHub Action: the steps of action.yml run with bash, GitHub's files and variables, the built
//! program, and a simulated GitHub on loopback.
//!
//! Simulated are the runner (`job.rs`), its expressions (`expression.rs`), releases and the comments API
//! (`github.rs`). They follow GitHub's documentation and the source of actions/runner.

mod expression;
mod failures;
mod github;
mod install;
mod job;
mod other_events;
mod pull_request;
mod repository_rules;
mod rollout;
mod working_directory;
mod workspace;
