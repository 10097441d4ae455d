//! The process as a user sees it: its environment and streams, the status area, prompts, logs, failures and the exit code.

pub(crate) mod confirm;
pub(crate) mod environment;
pub mod exit;
pub(crate) mod failure;
pub(crate) mod github_actions;
pub(crate) mod logging;
pub(crate) mod print_failure;
pub(crate) mod status_area;
pub(crate) mod streams;
