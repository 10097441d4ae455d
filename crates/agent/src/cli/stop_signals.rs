//! What asks a process to end.

/// A signal that does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Ctrl-C, SIGINT.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// The terminal is gone, SIGHUP. The kernel sends it, and a shell may send it once more: two are no more than one.
    HangUp,
}

/// Waits for SIGINT, SIGTERM or SIGHUP. `None`: they cannot be waited for, and keep their usual effect.
pub async fn signalled() -> Option<Signal> {
    next_signal().await.inspect_err(|error| tracing::error!("cannot wait for signals: {error}")).ok()
}

#[cfg(unix)]
async fn next_signal() -> std::io::Result<Signal> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    // To wait for a signal that is ignored would be to ignore it no longer.
    let mut hang_up = if outlives_terminal() { None } else { Some(signal(SignalKind::hangup())?) };
    let hung_up = async {
        match &mut hang_up {
            Some(hang_up) => hang_up.recv().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        result = tokio::signal::ctrl_c() => result.map(|()| Signal::Interrupt),
        _ = terminate.recv() => Ok(Signal::Terminate),
        _ = hung_up => Ok(Signal::HangUp),
    }
}

#[cfg(not(unix))]
async fn next_signal() -> std::io::Result<Signal> {
    tokio::signal::ctrl_c().await.map(|()| Signal::Interrupt)
}

/// Whether somebody asked, as nohup does, that the process go on without its terminal: SIGHUP was ignored when it started.
#[cfg(unix)]
fn outlives_terminal() -> bool {
    use std::sync::OnceLock;
    static OUTLIVES: OnceLock<bool> = OnceLock::new();
    *OUTLIVES.get_or_init(|| match std::fs::read_to_string("/proc/self/status") {
        Ok(status) => ignores_hang_up(&status),
        // Where the system does not tell: nohup takes standard error from the terminal.
        Err(_) => !std::io::IsTerminal::is_terminal(&std::io::stderr()),
    })
}

/// Whether a process with this `/proc/PID/status` ignores SIGHUP, which is signal 1.
#[cfg(unix)]
fn ignores_hang_up(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn nohup_is_seen() {
        assert!(ignores_hang_up("Name:\tnodecfg\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n"));
        assert!(!ignores_hang_up("Name:\tnodecfg\nSigBlk:\t0000000000000001\nSigIgn:\t0000000000001000\n"));
        assert!(!ignores_hang_up(""));
    }
}
