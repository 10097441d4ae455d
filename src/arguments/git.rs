//! Arguments for repositories on git servers, and the fetch with its timeouts and progress line.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::arguments::cluster::parse_timeout;
use crate::repository::remote::{Environment, Extent, Progress, Request, read};
use crate::repository::signature::Signers;
use crate::repository::{Folder, RemoteAddress, RemoteError, RepositoryError};
use crate::terminal::environment;
use crate::terminal::failure::CommandError;
use crate::terminal::status_area::{StatusArea, StatusLine};
use nodecfg_fleet::snapshot::Snapshot;

/// Time without data from the server after which a fetch fails.
const TIMEOUT: &str = "60s";
/// A fetch as a whole may take this many times the timeout.
const OVERALL_FACTOR: u32 = 10;
/// Interval at which the progress line is redrawn.
const REFRESH: Duration = Duration::from_millis(200);
const HEADING: &str = "Remote repositories";

/// Arguments of all commands that read a repository.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct GitArgs {
    /// Read the configuration from this folder of the repository [default: its root]
    #[arg(long = "path", value_name = "FOLDER", value_parser = Folder::parse, hide_default_value = true)]
    pub(crate) folder: Option<Folder>,
    /// Keep fetched data in this folder [default: $NODECFG_CACHE_DIR, $XDG_CACHE_HOME/nodecfg or ~/.cache/nodecfg]
    #[arg(long, value_name = "DIR", help_heading = HEADING)]
    git_cache: Option<PathBuf>,
    /// Fail a fetch when the git server sends nothing for this long; 0 sets no limit.
    #[arg(long, value_name = "DURATION", default_value = TIMEOUT, value_parser = parse_timeout, help_heading = HEADING)]
    git_timeout: Duration,
}

impl Default for GitArgs {
    fn default() -> Self {
        Self { folder: None, git_cache: None, git_timeout: Duration::from_secs(60) }
    }
}

impl GitArgs {
    /// Fetches a revision of a repository on a server. The status area shows the progress.
    pub(crate) async fn fetch(
        &self,
        address: RemoteAddress,
        revision: Option<String>,
        signers: Option<Arc<Signers>>,
        progress: Option<&StatusArea>,
    ) -> Result<Snapshot, CommandError> {
        let Some(cache) = self.git_cache.clone().or_else(default_cache) else {
            let source = Box::new(RemoteError::NoCache);
            return Err(RepositoryError::Remote { address: address.to_string(), source }.into());
        };
        let folder = self.folder.clone().unwrap_or_default();
        let environment = Environment::new(std::env::vars_os());
        let request = Request { address, revision, folder, cache, signers, environment };
        fetch(request, self.git_timeout, progress).await
    }
}

fn default_cache() -> Option<PathBuf> {
    let cache = environment::value("NODECFG_CACHE_DIR").map(PathBuf::from);
    // The XDG Base Directory Specification ignores relative paths.
    let xdg = || environment::value("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    cache.or_else(|| xdg().map(|path| path.join("nodecfg"))).or_else(|| {
        let home = PathBuf::from(environment::value("HOME")?);
        Some(home.join(".cache/nodecfg"))
    })
}

/// Stops a fetch and its git process when dropped.
struct FetchGuard(Arc<Progress>);

impl Drop for FetchGuard {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Does work with git on a separate thread, because it may take long.
pub(crate) async fn with_git<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RepositoryError> + Send + 'static,
) -> Result<T, CommandError> {
    Ok(on_thread(work)?.await.map_err(panicked)??)
}

/// Starts work with git on a separate thread, because it may take long. The receiver gets the result.
fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<oneshot::Receiver<T>, CommandError> {
    let (sender, receiver) = oneshot::channel();
    let thread = std::thread::Builder::new().name("git".to_owned());
    // The thread is never joined: it sends its result, and the receiver may be dropped.
    drop(thread.spawn(move || drop(sender.send(work()))).map_err(CommandError::Runtime)?);
    Ok(receiver)
}

fn panicked(_: oneshot::error::RecvError) -> CommandError {
    CommandError::Runtime(std::io::Error::other("the git thread panicked"))
}

/// Fetches on a separate thread, which is stopped after `timeout` without progress or when the caller stops waiting.
async fn fetch(
    request: Request,
    timeout: Duration,
    status_area: Option<&StatusArea>,
) -> Result<Snapshot, CommandError> {
    tracing::info!("fetching {} of {}", request.revision.as_deref().unwrap_or("HEAD"), request.address);
    let address = request.address.to_string();
    let progress = Arc::new(Progress::default());
    let guard = FetchGuard(Arc::clone(&progress));
    let mut receiver = on_thread(move || read(&request, &progress))?;
    let line = status_area.map(StatusLine::new);
    let mut last = guard.0.extent();
    let mut idle_timeout = Box::pin(tokio::time::sleep(timeout));
    let overall = timeout.saturating_mul(OVERALL_FACTOR);
    let mut overall_timeout = Box::pin(tokio::time::sleep(overall));
    let failed_with =
        |source| CommandError::from(RepositoryError::Remote { address: address.clone(), source: Box::new(source) });
    loop {
        tokio::select! {
            result = &mut receiver => {
                return Ok(result.map_err(panicked)??);
            }
            () = tokio::time::sleep(REFRESH) => {}
            () = &mut idle_timeout => {
                return Err(failed_with(RemoteError::Stalled { seconds: timeout.as_secs(), doing: last.doing }));
            }
            () = &mut overall_timeout => {
                return Err(failed_with(RemoteError::TooSlow { seconds: overall.as_secs(), doing: last.doing }));
            }
        }
        let extent = guard.0.extent();
        // Reading is local work without a server, so the timeouts restart.
        if extent.doing == READING {
            idle_timeout.set(tokio::time::sleep(timeout));
            overall_timeout.set(tokio::time::sleep(overall));
        } else if extent.has_progressed_since(&last) {
            idle_timeout.set(tokio::time::sleep(timeout));
        }
        last = extent;
        if let Some(line) = &line {
            line.show(&progress_line(&address, extent));
        }
    }
}

/// The value of [`Extent::doing`] while fetched objects are read.
const READING: &str = "reading the revision";

/// Progress line of a fetch.
fn progress_line(address: &str, extent: Extent) -> String {
    let Extent { received, total, bytes, doing, .. } = extent;
    if total == 0 {
        return format!("{address}: {doing}");
    }
    format!("{address}: {doing}, {received} of {total} objects, {} KiB", bytes >> 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_fetch_progress() {
        let extent = Extent { ticks: 1, received: 0, total: 0, bytes: 0, indexed: 0, doing: "connecting" };
        assert_eq!(progress_line("h:r", extent), "h:r: connecting");
        let extent = Extent { received: 3, total: 9, bytes: 4096, doing: "downloading", ..extent };
        assert_eq!(progress_line("h:r", extent), "h:r: downloading, 3 of 9 objects, 4 KiB");
    }
}
