//! Why a repository on a git server cannot be read. No message holds a secret.

use std::fmt;
use std::path::PathBuf;

use super::known_hosts::Verdict;

/// A server's SSH key that is not trusted.
#[derive(Debug)]
pub struct HostKey {
    /// The host as known_hosts files name it.
    pub host: String,
    /// The type of the key: `ssh-ed25519`.
    pub kind: String,
    /// `SHA256:…`
    pub fingerprint: String,
    /// What the files say.
    pub verdict: Verdict,
    /// The files that were looked at.
    pub files: Vec<String>,
}

/// What kept a remote repository from being read.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The server's SSH key is not the one that known_hosts has.
    #[error("{0}")]
    HostKey(Box<HostKey>),
    /// The server's certificate could not be verified.
    #[error("the server's certificate cannot be verified: {message}")]
    Certificate {
        /// What OpenSSL says.
        message: String,
    },
    /// The server wants credentials, and none that there are will do.
    #[error("the server asks for credentials, and {}", what_was_tried(tried))]
    Credentials {
        /// What was tried, and what became of it, in order.
        tried: Vec<String>,
        /// Whether the address is `https://`.
        https: bool,
    },
    /// The server answers that there is no such repository, or none for these credentials.
    #[error("the server answers {status}: there is no such repository, or no access to it ({})", sent_with(with.as_ref()))]
    NoAccess {
        /// HTTP's status code.
        status: u16,
        /// The credentials that were sent, by where they come from.
        with: Option<String>,
    },
    /// The server points to another host, which gets no credentials.
    #[error("the server redirects to another host, which nodecfg does not follow: {message}")]
    Redirected {
        /// What libgit2 says.
        message: String,
    },
    /// The user's git configuration turns the address into one that nodecfg refuses.
    #[error("url.<base>.insteadOf in the git configuration turns this address into one that cannot be used: {source}")]
    Rewritten {
        /// Why it cannot be used.
        source: super::super::AddressError,
    },
    /// Nothing happened for too long.
    #[error("nothing came from the server for {seconds} s, while {doing}")]
    Stalled {
        /// For how long.
        seconds: u64,
        /// What was being done.
        doing: &'static str,
    },
    /// There is more than nodecfg downloads.
    #[error("the repository is too large: nodecfg downloads no more than {bytes} bytes or {objects} objects")]
    TooLarge {
        /// The bound on bytes.
        bytes: u64,
        /// The bound on objects.
        objects: usize,
    },
    /// The revision is not on the server.
    #[error("the server has no revision {revision:?}")]
    UnknownRevision {
        /// The revision as given.
        revision: String,
        /// What there is, or what to do.
        hint: String,
    },
    /// The repository on the server has no commits.
    #[error("the repository has no commits on its HEAD")]
    Empty,
    /// The cache cannot be used.
    #[error("cannot {operation} the git cache {}: {source}", path.display())]
    Cache {
        /// What was tried.
        operation: &'static str,
        /// The folder or file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// There is no folder for the cache.
    #[error("there is no folder to keep remote repositories in: neither HOME nor XDG_CACHE_HOME is set")]
    NoCache,
    /// Git could not do it.
    #[error("cannot {operation}: {message}")]
    Git {
        /// What was tried.
        operation: &'static str,
        /// What libgit2 says, without secrets.
        message: String,
    },
}

fn what_was_tried(tried: &[String]) -> String {
    if tried.is_empty() { "there are none".to_owned() } else { format!("none was accepted: {}", tried.join(", ")) }
}

fn sent_with(with: Option<&String>) -> String {
    with.map_or_else(|| "without credentials".to_owned(), |with| format!("with {with}"))
}

impl fmt::Display for HostKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, kind, fingerprint, verdict, .. } = self;
        write!(f, "the SSH key of {host} ({kind} {fingerprint})")?;
        match verdict {
            Verdict::Known => write!(f, " is known"),
            Verdict::Revoked { place } => write!(f, " is revoked by {place}"),
            Verdict::Changed { place } => write!(f, " is not the one of {place}: somebody may stand between"),
            Verdict::Unknown { authority: true, .. } => {
                write!(f, " is not known: there is only a @cert-authority, which nodecfg does not support")
            }
            Verdict::Unknown { listed, .. } if listed.is_empty() => write!(f, " is not known"),
            Verdict::Unknown { listed, .. } => {
                write!(f, " is not known: known_hosts has only its {} key", listed.join(" and "))
            }
        }
    }
}

impl RemoteError {
    /// The way out.
    #[must_use]
    pub fn help(&self) -> String {
        match self {
            Self::HostKey(key) => key.help(),
            Self::Certificate { .. } => {
                "if the server's certificate is of a private authority, name its certificates in SSL_CERT_FILE; in an image \
                 without certificates, add ca-certificates"
                    .to_owned()
            }
            Self::Credentials { https: true, .. } => {
                "set NODECFG_GIT_TOKEN to a token that may read the repository".to_owned()
            }
            Self::Credentials { https: false, .. } => {
                "set NODECFG_SSH_KEY_FILE to a private key that may read the repository, or add it to the agent".to_owned()
            }
            Self::NoAccess { with: None, .. } => {
                "check the address; if the repository is private, set NODECFG_GIT_TOKEN".to_owned()
            }
            Self::NoAccess { .. } => {
                "check the address, and that the token may read the contents of this repository".to_owned()
            }
            Self::Redirected { .. } => "name the new address, if you trust it".to_owned(),
            Self::Rewritten { source } => source.help().to_owned(),
            Self::Stalled { .. } => {
                "check the network, the proxy (HTTPS_PROXY) and the server; --git-timeout waits longer".to_owned()
            }
            Self::TooLarge { .. } => {
                "give the configuration a repository of its own; a branch, a tag or a full commit id needs the least".to_owned()
            }
            Self::UnknownRevision { hint, .. } => hint.clone(),
            Self::Empty => "push a commit, or name a branch with --rev".to_owned(),
            Self::Cache { .. } => "name a folder of your own that can be written to with --git-cache".to_owned(),
            Self::NoCache => "name a folder with --git-cache or NODECFG_CACHE_DIR".to_owned(),
            Self::Git { .. } => "check the address, the network and the server; -vv logs what was done".to_owned(),
        }
    }
}

impl HostKey {
    /// The way out.
    fn help(&self) -> String {
        match &self.verdict {
            Verdict::Changed { .. } | Verdict::Revoked { .. } => {
                "find out from whoever runs the server whether its key was replaced, and compare the fingerprint; only then \
                 replace the line"
                    .to_owned()
            }
            Verdict::Known | Verdict::Unknown { .. } => format!(
                "compare the fingerprint with the one that the server's operator publishes, then add the key: ssh-keyscan \
                 {} >> {}",
                keyscan(&self.host),
                self.files.first().map_or("~/.ssh/known_hosts", String::as_str)
            ),
        }
    }
}

/// The arguments of ssh-keyscan for a host as known_hosts names it.
fn keyscan(host: &str) -> String {
    match host.strip_prefix('[').and_then(|rest| rest.split_once("]:")) {
        Some((host, port)) => format!("-p {port} {host}"),
        None => host.to_owned(),
    }
}
