//! Errors of reading a repository on a git server. Messages contain no secrets.

use std::path::PathBuf;

use super::program::ProgramError;

/// Error of reading a remote repository.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// A program failed or was stopped.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The server was silent for too long.
    #[error("the server sent nothing for {seconds} s, while {doing}")]
    Stalled {
        /// The duration.
        seconds: u64,
        /// The current operation.
        doing: &'static str,
    },
    /// The fetch took too long.
    #[error("the server did not finish within {seconds} s, while {doing}")]
    TooSlow {
        /// The duration.
        seconds: u64,
        /// The current operation.
        doing: &'static str,
    },
    /// The download is too large.
    #[error("the repository is too large: nodecfg downloads at most {bytes} bytes and {objects} objects")]
    TooLarge {
        /// The maximum number of bytes.
        bytes: u64,
        /// The maximum number of objects.
        objects: u64,
    },
    /// Unknown revision.
    #[error("the server has no revision {revision:?}")]
    UnknownRevision {
        /// The revision as given.
        revision: String,
        /// The known revisions, or how to fix the error.
        hint: String,
    },
    /// The server sent another commit than it listed or than was requested.
    #[error("the server sent {sent} instead of {expected}")]
    Inconsistent {
        /// The listed or requested commit.
        expected: String,
        /// The received commit.
        sent: String,
    },
    /// The repository on the server has no commits.
    #[error("the repository has no commit on HEAD")]
    Empty,
    /// The cache is unusable.
    #[error("cannot {operation} the git cache {}: {source}", path.display())]
    Cache {
        /// The failed operation.
        operation: &'static str,
        /// The folder or file.
        path: PathBuf,
        /// The I/O error.
        source: std::io::Error,
    },
    /// The folder of the cache is unknown.
    #[error("the folder for the git cache is unknown: neither HOME nor XDG_CACHE_HOME is set")]
    NoCache,
    /// The repository uses SHA-256.
    #[error("the repository uses SHA-256 object IDs, which nodecfg does not support")]
    Sha256,
    /// The cache is unreadable.
    #[error("cannot {operation}: {message}")]
    Broken {
        /// The failed operation.
        operation: &'static str,
        /// The libgit2 error.
        message: String,
    },
    /// Git failed.
    #[error("cannot {operation}: {message}")]
    Git {
        /// The failed operation.
        operation: &'static str,
        /// The message of git, without secrets.
        message: String,
        /// The host of the address.
        host: String,
        /// The port of the host.
        port: u16,
    },
}

impl RemoteError {
    /// How to fix the error.
    #[must_use]
    pub fn help(&self) -> String {
        match self {
            Self::Program(error) => error.help(),
            Self::Stalled { .. } => {
                "check the network, the proxy (HTTPS_PROXY) and the server, or raise --git-timeout".to_owned()
            }
            Self::TooSlow { .. } => "raise --git-timeout: the limit of a fetch is ten times its value".to_owned(),
            Self::TooLarge { .. } => "move the configuration to a separate repository".to_owned(),
            Self::UnknownRevision { hint, .. } => hint.clone(),
            Self::Inconsistent { .. } => "contact the operator of the server".to_owned(),
            Self::Empty => "push a commit, or specify a branch with --rev".to_owned(),
            Self::Cache { .. } => "set --git-cache to a writable folder of yours".to_owned(),
            Self::NoCache => "set --git-cache or NODECFG_CACHE_DIR".to_owned(),
            Self::Sha256 => "use a repository with SHA-1 object IDs".to_owned(),
            Self::Broken { .. } => "remove the folder of the cache".to_owned(),
            Self::Git { message, host, port, .. } => fix(message, host, *port),
        }
    }
}

/// The fix for a message of git, curl or OpenSSH, matched by English texts.
fn fix(message: &str, host: &str, port: u16) -> String {
    let has = |words: &[&str]| words.iter().any(|word| message.contains(word));
    if has(&["Host key for", "revoked"]) {
        return "replace the line in known_hosts after the server's operator has confirmed the new fingerprint"
            .to_owned();
    }
    if has(&["Host key verification failed"]) {
        let place = if port == 22 { host.to_owned() } else { format!("-p {port} {host}") };
        return format!(
            "compare the fingerprint with the published one, then run `ssh-keyscan {place} >> ~/.ssh/known_hosts`"
        );
    }
    let fixes: [(&[&str], &str); 7] = [
        (&["cannot run ssh", "ssh: not found"], "install OpenSSH, so that ssh is on the PATH"),
        (
            &["Permission denied"],
            "set NODECFG_SSH_KEY_FILE to a private key with read access to the repository, or add the key to the agent",
        ),
        (
            &[
                "could not read Username",
                "could not read Password",
                "Authentication failed",
                "terminal prompts disabled",
            ],
            "set NODECFG_GIT_TOKEN to a token with read access to the repository, or a credential helper in the git \
             configuration",
        ),
        (
            &["certificate", "SSL"],
            "install ca-certificates, or set SSL_CERT_FILE to the certificates of a private authority",
        ),
        (&["not allowed"], "use https:// or ssh://, also in url.<base>.insteadOf of the git configuration"),
        (&["error: 30", "redirect"], "use the new address of the repository: nodecfg follows no redirects"),
        (
            &["error: 40", "error: 41", "not found", "does not appear to be a git repository"],
            "check the address, and that NODECFG_GIT_TOKEN or the key has read access",
        ),
    ];
    let found = fixes.iter().find(|(words, _)| has(words)).map(|(_, fix)| *fix);
    found.unwrap_or("check the address, the network and the server").to_owned()
}
