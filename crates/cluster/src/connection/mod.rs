//! The connection to an API server: which one, requests with their retries, and what failures mean.

pub mod connect;
pub mod error;
pub(crate) mod failure;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
#[cfg(test)]
mod hostile_tests;
pub mod operation;
pub(crate) mod proxy;
pub mod retry;
pub mod transport;
