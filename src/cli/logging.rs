//! Logs on standard error.

use std::io::{self, Write};

use tracing_subscriber::EnvFilter;

use crate::report::bars::Foot;

/// Starts logging: warnings, with `-v` what nodecfg does, with `-vv` every request. NODECFG_LOG overrides, in the syntax of
/// `tracing_subscriber::EnvFilter`. `foot` is drawn below the logs.
pub(super) fn start(verbose: u8, colored: bool, foot: Foot) {
    let default = match verbose {
        0 => "nodecfg=warn",
        1 => "nodecfg=info",
        _ => "nodecfg=debug",
    };
    let filter = EnvFilter::try_from_env("NODECFG_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || AboveFoot(foot.clone()))
        .with_ansi(colored)
        // The complaint about a closed standard error would itself go to standard error, and panic.
        .log_internal_errors(false)
        .with_target(false);
    // A second start in one process, as in tests, keeps the first one's logger.
    let _ = subscriber.compact().without_time().try_init();
}

/// Standard error above what is drawn at the foot of the terminal.
struct AboveFoot(Foot);

impl Write for AboveFoot {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Each event comes whole, and is text.
        self.0.print(&String::from_utf8_lossy(bytes))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
