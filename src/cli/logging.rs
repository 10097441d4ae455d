//! Logs on standard error.

use tracing_subscriber::EnvFilter;

/// Starts logging: warnings, with `-v` what nodecfg does, with `-vv` every request. NODECFG_LOG overrides, in the syntax of
/// `tracing_subscriber::EnvFilter`.
pub(super) fn start(verbose: u8, colored: bool) {
    let default = match verbose {
        0 => "nodecfg=warn",
        1 => "nodecfg=info",
        _ => "nodecfg=debug",
    };
    let filter = EnvFilter::try_from_env("NODECFG_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(colored)
        .with_target(false);
    // A second start in one process, as in tests, keeps the first one's logger.
    let _ = subscriber.compact().without_time().try_init();
}
