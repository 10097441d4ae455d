//! Arguments for repositories on git servers, and the fetch with its timeouts and progress line.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::arguments::cluster::parse_timeout;
use crate::repository::remote::{Environment, Extent, Progress, Request, read};
use crate::repository::signature::Signers;
use crate::repository::{Address, Folder, OpenOptions, RemoteAddress, RemoteError, RepositoryError, open, resolve};
use crate::terminal::environment;
use crate::terminal::failure::CommandError;
use crate::terminal::github_actions;
use crate::terminal::status_area::{StatusArea, StatusLine};
use nodecfg_contract::names::CommitId;
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

/// The files to read: repository, revision and signers.
#[derive(Debug, Clone)]
pub(crate) struct SnapshotSource<'a> {
    /// A folder or an address.
    pub(crate) repository: &'a Path,
    pub(crate) revision: Option<String>,
    pub(crate) worktree: bool,
    pub(crate) git: &'a GitArgs,
    /// Keys one of which must have signed the commit.
    pub(crate) signers: Option<Arc<Signers>>,
}

impl SnapshotSource<'_> {
    /// The address, if the repository is on a server.
    pub(crate) fn remote(&self) -> Result<Option<RemoteAddress>, CommandError> {
        // An address is always UTF-8.
        let Some(text) = self.repository.to_str() else { return Ok(None) };
        match Address::parse(text, Path::exists) {
            Ok(Address::Local(_)) => Ok(None),
            Ok(Address::Remote(address)) => Ok(Some(address)),
            Err(error) => Err(repository_error(RepositoryError::Address(error))),
        }
    }

    /// The files to read from a folder.
    fn local(&self) -> OpenOptions {
        OpenOptions {
            path: self.repository.to_owned(),
            folder: self.git.folder.clone().unwrap_or_default(),
            revision: self.revision.clone(),
            worktree: self.worktree,
            signers: self.signers.clone(),
            checkout: github_actions::checkout(),
        }
    }

    /// Commit of the revision of a local repository. `None` if only reading the files tells it.
    pub(crate) async fn commit(&self) -> Result<Option<CommitId>, CommandError> {
        if self.remote()?.is_some() {
            return Ok(None);
        }
        let options = self.local();
        on_thread(move || resolve(&options))?.await.map_err(panicked)?.map_err(repository_error)
    }

    /// Reads the files, from a server if necessary. The status area shows the progress of a fetch.
    pub(crate) async fn snapshot(&self, progress: Option<&StatusArea>) -> Result<Snapshot, CommandError> {
        let options = self.local();
        let Some(address) = self.remote()? else {
            return on_thread(move || open(&options))?.await.map_err(panicked)?.map_err(repository_error);
        };
        let OpenOptions { folder, revision, .. } = options;
        if self.worktree {
            return Err(CommandError::usage(
                format!("--worktree reads files in a folder, and {address} is on a server"),
                "omit --worktree",
            ));
        }
        let Some(cache) = self.git.git_cache.clone().or_else(default_cache) else {
            return Err(repository_error(RepositoryError::Remote {
                address: address.to_string(),
                source: Box::new(RemoteError::NoCache),
            }));
        };
        let environment = Environment::new(std::env::vars_os());
        let request = Request { address, revision, folder, cache, signers: self.signers.clone(), environment };
        fetch(request, self.git.git_timeout, progress).await
    }

    /// The folder that file paths in messages start from, or the address of a remote repository.
    pub(crate) fn root(&self) -> String {
        let folder = self.git.folder.as_ref().map(Folder::as_str).unwrap_or_default();
        match self.remote() {
            Ok(Some(address)) if folder.is_empty() => address.to_string(),
            Ok(Some(address)) => format!("{address}/{folder}"),
            _ if folder.is_empty() => self.repository.to_string_lossy().into_owned(),
            _ => self.repository.join(folder).to_string_lossy().into_owned(),
        }
    }
}

fn repository_error(error: RepositoryError) -> CommandError {
    CommandError::Repository(Box::new(error))
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
        |source| repository_error(RepositoryError::Remote { address: address.clone(), source: Box::new(source) });
    loop {
        tokio::select! {
            result = &mut receiver => {
                return result.map_err(panicked)?.map_err(repository_error);
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
