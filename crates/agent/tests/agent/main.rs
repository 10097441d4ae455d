//! The node agent from end to end: the real program, real files and processes, an API server over HTTPS, and a stand-in for
//! the kubelet, which is this program started again (`kubelet.rs`).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::exit
)]

use std::time::Duration;

mod commands;
mod help;
mod kubelet;
mod lifecycle;
mod node;
#[allow(dead_code, reason = "the other tests use the rest")]
#[path = "../../../../tests/scenarios/harness/command.rs"]
mod program;
mod site;
mod trouble;

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_nodecfg-agent");
/// How long a condition is waited for, on a busy machine, before the test fails.
const PATIENCE: Duration = Duration::from_secs(180);
/// How long a run of the program may take to end.
const LIMIT: Duration = Duration::from_secs(180);

/// Waits until a condition holds.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    until_within(PATIENCE, what, &mut holds).await;
}

async fn until_within(patience: Duration, what: &str, holds: &mut impl AsyncFnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + patience;
    while !holds().await {
        assert!(tokio::time::Instant::now() < deadline, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Declares scenarios as tests, each on a site of its own.
macro_rules! scenarios {
    ($($(#[$attribute:meta])* $name:ident),* $(,)?) => {
        mod tests {
            $(
                $(#[$attribute])*
                #[test]
                fn $name() {
                    $crate::site::run(super::$name);
                }
            )*
        }
    };
}
use scenarios;
