//! A session with a git server through the `git` program: list references, and download.

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use git2::Oid;

use super::super::address::RemoteAddress;
use super::super::program::{Answer, Limits, run};
use super::environment::{ASKPASS, Environment};
use super::fetch_target::ListedReference;
use super::{MAX_DOWNLOAD, MAX_OBJECTS, Progress, RemoteError};

/// The maximum size of a reference list, in bytes.
const MAX_LIST: usize = 64 << 20;
/// The maximum run time of git. A backstop: the waiting thread stops git much earlier.
const MAX_RUN_TIME: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum number of lines of git output in an error. The last lines name the cause.
const MAX_LINES: usize = 8;
/// The lines that git adds to every ssh failure.
const ADVICE: [&str; 3] = [
    "fatal: Could not read from remote repository.",
    "Please make sure you have the correct access rights",
    "and the repository exists.",
];
/// The file name of the passphrase program.
const ASKPASS_FILE: &str = "nodecfg-askpass";

/// Settings that override configuration files. They prevent that git runs programs of the repository, writes
/// unrelated data or follows redirects of the server.
const SETTINGS: [&str; 14] = [
    "safe.bareRepository=explicit",
    "protocol.ext.allow=never",
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "fetch.recurseSubmodules=false",
    "fetch.unpackLimit=1",
    "fetch.writeCommitGraph=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "http.followRedirects=false",
    "http.sslVerify=true",
    "transfer.bundleURI=false",
    // Version 0 lists the references first, and serves unreferenced commits only if the server allows it.
    "protocol.version=0",
    "submodule.recurse=false",
];

/// A session with a git server.
pub struct Session<'a> {
    address: &'a RemoteAddress,
    environment: &'a Environment,
    progress: &'a Progress,
    /// The bare repository for fetched objects.
    folder: &'a Path,
}

impl<'a> Session<'a> {
    /// Prepares a session for the bare repository in `folder`.
    ///
    /// # Errors
    /// When the cache cannot be written.
    pub fn new(
        folder: &'a Path,
        address: &'a RemoteAddress,
        environment: &'a Environment,
        progress: &'a Progress,
    ) -> Result<Self, RemoteError> {
        if environment.has_passphrase() {
            let path = folder.join(ASKPASS_FILE);
            let written = fs::write(&path, ASKPASS)
                .and_then(|()| fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o700)));
            written.map_err(|source| RemoteError::Cache { operation: "write to", path, source })?;
        }
        Ok(Self { address, environment, progress, folder })
    }

    /// Lists the references of the server.
    ///
    /// # Errors
    /// When the server is unreachable, untrusted or denies access, or the repository uses SHA-256.
    pub fn list(&self) -> Result<Vec<ListedReference>, RemoteError> {
        self.progress.start("connecting");
        let mut command = self.git("ls-remote");
        command.args(["--symref", "--end-of-options"]).arg(self.address.for_git());
        let answer = self.run(&mut command, |_| Ok(()))?;
        self.progress.tick();
        if !answer.status.success() {
            return Err(self.git_error("connect to the server", &answer));
        }
        parse_references(&String::from_utf8_lossy(&answer.out))
    }

    /// Downloads refspecs, if `shallow` without history.
    pub fn fetch(&self, refspecs: &[String], shallow: bool) -> Result<(), RemoteError> {
        self.progress.start("downloading");
        let mut command = self.git("fetch");
        command.args(["--progress", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-gc"]);
        if shallow {
            command.args(["--depth", "1"]);
        }
        command.arg("--end-of-options").arg(self.address.for_git()).args(refspecs);
        let before = bytes_of_packs(self.folder);
        let seen = Cell::new((0, 0));
        let answer = self.run(&mut command, |written| {
            let (received, total) = received_objects(written).unwrap_or(seen.get());
            seen.set((received, total));
            let bytes = bytes_of_packs(self.folder).saturating_sub(before);
            self.progress.transferred(received, total, bytes);
            self.progress.indexed(resolved_deltas(written));
            if bytes > MAX_DOWNLOAD || total > MAX_OBJECTS {
                return Err(RemoteError::TooLarge { bytes: MAX_DOWNLOAD, objects: MAX_OBJECTS });
            }
            Ok(())
        })?;
        if answer.status.success() { Ok(()) } else { Err(self.git_error("download the revision", &answer)) }
    }

    fn git(&self, subcommand: &str) -> Command {
        let mut command = Command::new("git");
        let askpass = self.folder.join(ASKPASS_FILE);
        command.env_clear().envs(self.environment.variables(self.address, askpass.as_os_str()));
        command.env("GIT_DIR", self.folder).current_dir(self.folder);
        let own = self.environment.settings(self.address);
        for setting in SETTINGS.into_iter().chain(own.iter().map(String::as_str)) {
            command.args([OsStr::new("-c"), OsStr::new(setting)]);
        }
        command.arg(subcommand);
        command
    }

    fn run(
        &self,
        command: &mut Command,
        on_stderr: impl FnMut(&[u8]) -> Result<(), RemoteError>,
    ) -> Result<Answer, RemoteError> {
        let limits = Limits { time: MAX_RUN_TIME, bytes: MAX_LIST };
        let answer = run("git", command, limits, self.progress.stopper(), on_stderr)?;
        tracing::debug!("git ended with {}: {}", answer.status, self.environment.redacted(&tail(&answer.err)));
        Ok(answer)
    }

    /// The error of a failed git command.
    fn git_error(&self, operation: &'static str, answer: &Answer) -> RemoteError {
        let message = self.environment.redacted(&tail(&answer.err));
        let message = if message.is_empty() { format!("git ended with {}", answer.status) } else { message };
        RemoteError::Git { operation, message, host: self.address.host().to_owned(), port: self.address.port() }
    }
}

/// The last lines without progress and without git's advice, joined by semicolons.
fn tail(err: &[u8]) -> String {
    let text = String::from_utf8_lossy(err);
    let mut lines: Vec<&str> = text
        .lines()
        .filter_map(|line| line.rsplit('\r').find(|part| !part.trim().is_empty()))
        .filter(|line| !is_progress(line) && !ADVICE.contains(line) && !line.trim().is_empty())
        .collect();
    lines.drain(..lines.len().saturating_sub(MAX_LINES));
    lines.join("; ")
}

fn is_progress(line: &str) -> bool {
    let line = line.trim_start_matches("remote: ");
    let kinds = ["Enumerating", "Counting", "Compressing", "Receiving", "Resolving", "Checking connectivity", "Total "];
    kinds.iter().any(|kind| line.starts_with(kind))
}

/// Parses the received and total objects: `Receiving objects:  45% (9/20), 1.20 MiB | 3.00 MiB/s`.
fn received_objects(err: &[u8]) -> Option<(u64, u64)> {
    last_counts(err, b"Receiving objects: ")
}

/// Parses the number of resolved deltas: `Resolving deltas:  50% (1/2)`.
fn resolved_deltas(err: &[u8]) -> u64 {
    last_counts(err, b"Resolving deltas: ").map_or(0, |(done, _)| done)
}

/// The numbers of the last line with this prefix.
fn last_counts(err: &[u8], begin: &[u8]) -> Option<(u64, u64)> {
    let at = err.windows(begin.len()).rposition(|window| window == begin)?;
    let line = err.get(at..)?.split(|byte| matches!(byte, b'\r' | b'\n')).next()?;
    let (_, counts) = std::str::from_utf8(line).ok()?.split_once('(')?;
    let (done, total) = counts.split_once(')')?.0.split_once('/')?;
    Some((done.parse().ok()?, total.parse().ok()?))
}

/// The size of all packs, including unfinished ones.
fn bytes_of_packs(folder: &Path) -> u64 {
    let files = fs::read_dir(folder.join("objects/pack")).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
}

/// Parses `git ls-remote --symref`: `ref: refs/heads/main\tHEAD`, and `<id>\t<name>`.
fn parse_references(text: &str) -> Result<Vec<ListedReference>, RemoteError> {
    let mut targets: Vec<(&str, &str)> = Vec::new();
    let mut listed = Vec::new();
    for (first, name) in text.lines().filter_map(|line| line.split_once('\t')) {
        if let Some(target) = first.strip_prefix("ref: ") {
            targets.push((name, target));
            continue;
        }
        let id = (first.len() == 40).then(|| Oid::from_str(first).ok()).flatten().ok_or(RemoteError::Sha256)?;
        let target = targets.iter().find(|(link, _)| *link == name).map(|(_, target)| (*target).to_owned());
        listed.push(ListedReference { name: name.to_owned(), id, target });
    }
    Ok(listed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_reference_lists() {
        let (a, b) = ("a".repeat(40), "b".repeat(40));
        let text = format!("ref: refs/heads/main\tHEAD\n{a}\tHEAD\n{a}\trefs/heads/main\n{b}\trefs/tags/v1^{{}}\n");
        let listed = parse_references(&text).unwrap();
        let names: Vec<&str> = listed.iter().map(|reference| reference.name.as_str()).collect();
        assert_eq!(names, ["HEAD", "refs/heads/main", "refs/tags/v1^{}"]);
        assert_eq!(listed[0].target.as_deref(), Some("refs/heads/main"));
        assert_eq!((listed[1].target.as_deref(), listed[2].id.to_string()), (None, b));
        assert!(parse_references("").unwrap().is_empty());
        assert!(matches!(parse_references(&format!("{}\tHEAD\n", "a".repeat(64))), Err(RemoteError::Sha256)));
    }

    #[test]
    fn parses_progress_and_omits_it_from_messages() {
        let err = b"remote: Enumerating objects: 5, done.\nremote: Counting objects: 100% (5/5), done.\r\n\
            Receiving objects:  20% (1/5)\rReceiving objects: 100% (5/5), 1.20 MiB | 3.00 MiB/s, done.\n\
            Resolving deltas:  50% (1/2)\rfatal: early EOF\nfatal: fetch-pack: invalid index-pack output\n";
        assert_eq!((received_objects(err), resolved_deltas(err)), (Some((5, 5)), 1));
        assert_eq!(received_objects(b"Receiving objects:  20% (1"), None);
        assert_eq!(tail(err), "fatal: early EOF; fatal: fetch-pack: invalid index-pack output");
        assert_eq!(tail(b""), "");
    }
}
