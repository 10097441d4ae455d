//! Repositories on git servers: the options for them, what the environment offers, and the wait for a fetch.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::cluster_args::parse_duration;
use super::failure::CommandError;
use super::status_area::FootLine;
use super::terminal::Terminal;
use crate::repository::remote::{Environment, Extent, Progress, RemoteError, Request, read};
use crate::repository::signature::Signers;
use crate::repository::{Address, Folder, OpenOptions, RemoteAddress, RepositoryError, open};
use nodecfg_planning::snapshot::Snapshot;

/// Without a sign of life from a server for this long, a fetch has failed.
const TIMEOUT: &str = "60s";
/// So many times that long is a fetch given as a whole, however lively the server is.
const OVERALL: u32 = 10;
/// How often a terminal shows how far a fetch is.
const GLANCE: Duration = Duration::from_millis(200);
const HEADING: &str = "Remote repositories";

/// What all commands take that read a repository.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct GitArgs {
    /// Folder of the configuration within the repository [default: its root]
    #[arg(long = "path", value_name = "FOLDER", value_parser = Folder::parse, hide_default_value = true)]
    pub(super) folder: Option<Folder>,
    /// Where to keep what was fetched [default: $NODECFG_CACHE_DIR, $XDG_CACHE_HOME/nodecfg or ~/.cache/nodecfg]
    #[arg(long, value_name = "DIR", help_heading = HEADING)]
    git_cache: Option<PathBuf>,
    /// How long to wait for a git server that sends nothing.
    #[arg(long, value_name = "DURATION", default_value = TIMEOUT, value_parser = parse_duration, help_heading = HEADING)]
    git_timeout: Duration,
}

impl Default for GitArgs {
    fn default() -> Self {
        Self { folder: None, git_cache: None, git_timeout: Duration::from_secs(60) }
    }
}

/// Which files to read.
#[derive(Debug, Clone)]
pub(super) struct Which<'a> {
    /// A folder or an address.
    pub(super) repository: &'a Path,
    pub(super) revision: Option<&'a str>,
    pub(super) worktree: bool,
    pub(super) git: &'a GitArgs,
    /// Who must have signed the commit.
    pub(super) signers: Option<Arc<Signers>>,
}

impl Which<'_> {
    /// The address on a server, when it is one.
    pub(super) fn remote(&self) -> Result<Option<RemoteAddress>, CommandError> {
        // What is not UTF-8 is no address.
        let Some(text) = self.repository.to_str() else { return Ok(None) };
        match Address::parse(text, Path::exists) {
            Ok(Address::Local(_)) => Ok(None),
            Ok(Address::Remote(address)) => Ok(Some(address)),
            Err(error) => Err(failed(RepositoryError::Address(error))),
        }
    }

    /// Reads the files, from a server if need be.
    pub(super) async fn snapshot(&self, terminal: &mut Terminal) -> Result<Snapshot, CommandError> {
        let folder = self.git.folder.clone().unwrap_or_default();
        let revision = self.revision.map(str::to_owned);
        let Some(address) = self.remote()? else {
            let path = self.repository.to_owned();
            return open(&OpenOptions {
                path,
                folder,
                revision,
                worktree: self.worktree,
                signers: self.signers.clone(),
            })
            .map_err(failed);
        };
        if self.worktree {
            return Err(CommandError::usage(
                format!("--worktree is about files in a folder, and {address} is on a server"),
                "leave it out, or choose a revision with --rev",
            ));
        }
        let Some(cache) = self.git.git_cache.clone().or_else(default_cache) else {
            return Err(failed(RepositoryError::Remote {
                address: address.to_string(),
                source: Box::new(RemoteError::NoCache),
            }));
        };
        let environment = Environment::new(std::env::vars_os());
        let request = Request { address, revision, folder, cache, signers: self.signers.clone(), environment };
        fetch(request, self.git.git_timeout, terminal).await
    }

    /// The folder on this machine that files are named from; the address where there is none.
    pub(super) fn root(&self) -> String {
        let folder = self.git.folder.as_ref().map(Folder::as_str).unwrap_or_default();
        match self.remote() {
            Ok(Some(address)) if folder.is_empty() => address.to_string(),
            Ok(Some(address)) => format!("{address}/{folder}"),
            _ if folder.is_empty() => self.repository.to_string_lossy().into_owned(),
            _ => self.repository.join(folder).to_string_lossy().into_owned(),
        }
    }
}

fn failed(error: RepositoryError) -> CommandError {
    CommandError::Repository(Box::new(error))
}

/// A variable that is set to something.
fn variable(name: &str) -> Option<std::ffi::OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn default_cache() -> Option<PathBuf> {
    let cache = variable("NODECFG_CACHE_DIR").map(PathBuf::from);
    // As the XDG Base Directory Specification has it, what is not absolute does not count.
    let xdg = || variable("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    cache.or_else(|| xdg().map(|path| path.join("nodecfg"))).or_else(|| {
        let home = PathBuf::from(variable("HOME")?);
        Some(home.join(".cache/nodecfg"))
    })
}

/// Ends a fetch that nobody waits for any more, and the program that it runs.
struct Waiting(Arc<Progress>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.give_up();
    }
}

/// Fetches on a thread of its own, which is ended when it has not got on for `timeout`, or nobody waits any more.
async fn fetch(request: Request, timeout: Duration, terminal: &Terminal) -> Result<Snapshot, CommandError> {
    tracing::info!("fetching {} of {}", request.revision.as_deref().unwrap_or("HEAD"), request.address);
    let address = request.address.to_string();
    let progress = Arc::new(Progress::default());
    let waiting = Waiting(Arc::clone(&progress));
    let (sender, mut receiver) = oneshot::channel();
    let thread = std::thread::Builder::new().name("git".to_owned());
    // Nobody joins it: what it came to is sent, to whoever is still there.
    drop(thread.spawn(move || drop(sender.send(read(&request, &progress)))).map_err(CommandError::Runtime)?);
    let line = (terminal.interactive && !terminal.quiet).then(|| FootLine::new(&terminal.foot));
    let mut last = waiting.0.extent();
    let mut quiet = Box::pin(tokio::time::sleep(timeout));
    let overall = timeout.saturating_mul(OVERALL);
    let mut all = Box::pin(tokio::time::sleep(overall));
    let failed_with = |source| failed(RepositoryError::Remote { address: address.clone(), source: Box::new(source) });
    loop {
        tokio::select! {
            result = &mut receiver => {
                return result.map_err(|_| CommandError::Runtime(std::io::Error::other("the thread that fetches has died")))?
                    .map_err(failed);
            }
            () = tokio::time::sleep(GLANCE) => {}
            () = &mut quiet => {
                return Err(failed_with(RemoteError::Stalled { seconds: timeout.as_secs(), doing: last.doing }));
            }
            () = &mut all => {
                return Err(failed_with(RemoteError::TooSlow { seconds: overall.as_secs(), doing: last.doing }));
            }
        }
        let extent = waiting.0.extent();
        // Reading is this machine's own work, and bounded by what is read.
        if extent.doing == READING {
            quiet.set(tokio::time::sleep(timeout));
            all.set(tokio::time::sleep(overall));
        } else if extent.got_on(&last) {
            quiet.set(tokio::time::sleep(timeout));
        }
        last = extent;
        if let Some(line) = &line {
            line.show(&shown(&address, extent));
        }
    }
}

/// What [`read`] says it does when the server is done with.
const READING: &str = "reading the revision";

/// A line for people who wait.
fn shown(address: &str, extent: Extent) -> String {
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
    fn a_line_says_how_far_a_fetch_is() {
        let extent = Extent { ticks: 1, received: 0, total: 0, bytes: 0, indexed: 0, doing: "connecting" };
        assert_eq!(shown("h:r", extent), "h:r: connecting");
        let extent = Extent { received: 3, total: 9, bytes: 4096, doing: "downloading", ..extent };
        assert_eq!(shown("h:r", extent), "h:r: downloading, 3 of 9 objects, 4 KiB");
    }
}
