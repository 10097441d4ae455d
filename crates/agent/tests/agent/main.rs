//! End-to-end tests of the node agent: the real program with real files and processes, an API server over HTTPS, and
//! a simulated kubelet process (`kubelet.rs`). `crash` kills the agent at every effect.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::exit
)]

use std::time::Duration;

mod boot;
mod commands;
mod crash;
mod failures;
mod help;
mod host;
mod kubelet;
mod lifecycle;
#[allow(dead_code, reason = "the other tests use the rest")]
#[path = "../../../../tests/scenarios/harness/command.rs"]
mod program;
mod test_env;
mod trust;

/// Program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_nodecfg-agent");
/// Time limit for a condition, generous for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(180);
/// Time limit for a run of the program.
const LIMIT: Duration = Duration::from_secs(180);

/// Waits until a condition holds.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    until_within(TIMEOUT, what, &mut holds).await;
}

async fn until_within(timeout: Duration, what: &str, holds: &mut impl AsyncFnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + timeout;
    while !holds().await {
        assert!(tokio::time::Instant::now() < deadline, "timed out waiting until {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Declares scenarios as tests, each with its own test environment.
macro_rules! scenarios {
    ($($(#[$attribute:meta])* $name:ident),* $(,)?) => {
        mod tests {
            $(
                $(#[$attribute])*
                #[test]
                fn $name() {
                    $crate::test_env::run(super::$name);
                }
            )*
        }
    };
}
use scenarios;
