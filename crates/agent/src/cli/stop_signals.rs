//! Signals that ask a process to end.

/// Signal to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT, Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGHUP, after the terminal closed. The kernel sends it and a shell may send it again, so two count as one.
    HangUp,
}

/// Waits for SIGINT, SIGTERM or SIGHUP. `None` if signals cannot be handled; they keep their default effect.
pub async fn signalled() -> Option<Signal> {
    next_signal().await.inspect_err(|error| tracing::error!("cannot wait for signals: {error}")).ok()
}

#[cfg(unix)]
async fn next_signal() -> std::io::Result<Signal> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    // A handler would replace the inherited setting to ignore SIGHUP.
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

/// Reports whether SIGHUP was ignored at start, as nohup does for processes that outlive their terminal.
#[cfg(unix)]
fn outlives_terminal() -> bool {
    use std::sync::OnceLock;
    static OUTLIVES: OnceLock<bool> = OnceLock::new();
    *OUTLIVES.get_or_init(|| match std::fs::read_to_string("/proc/self/status") {
        Ok(status) => ignores_hang_up(&status),
        // Without /proc: nohup redirects standard error away from the terminal.
        Err(_) => !std::io::IsTerminal::is_terminal(&std::io::stderr()),
    })
}

/// Reports whether a process with this `/proc/PID/status` ignores SIGHUP, signal 1.
#[cfg(unix)]
fn ignores_hang_up(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn detects_nohup() {
        assert!(ignores_hang_up("Name:\tnodecfg\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n"));
        assert!(!ignores_hang_up("Name:\tnodecfg\nSigBlk:\t0000000000000001\nSigIgn:\t0000000000001000\n"));
        assert!(!ignores_hang_up(""));
    }
}
