//! Why a repository on a git server cannot be read. No message holds a secret.

use std::path::PathBuf;

use super::super::program::ProgramError;

/// What kept a remote repository from being read.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// A program could not be run, or was ended.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// Nothing happened for too long.
    #[error("nothing came from the server for {seconds} s, while {doing}")]
    Stalled {
        /// For how long.
        seconds: u64,
        /// What was being done.
        doing: &'static str,
    },
    /// It went on and on.
    #[error("the server was not done after {seconds} s, while {doing}")]
    TooSlow {
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
        objects: u64,
    },
    /// The revision is not on the server.
    #[error("the server has no revision {revision:?}")]
    UnknownRevision {
        /// The revision as given.
        revision: String,
        /// What there is, or what to do.
        hint: String,
    },
    /// What the server sent is not what it said it would, or what was asked for.
    #[error("the server was to send {told}, and sent {sent}")]
    Inconsistent {
        /// The id that the server listed, or that was asked for.
        told: String,
        /// The commit that came.
        sent: String,
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
    /// The ids of the repository are of another kind.
    #[error("the repository has SHA-256 object ids, which nodecfg does not read")]
    Sha256,
    /// The cache cannot be read.
    #[error("cannot {operation}: {message}")]
    Broken {
        /// What was tried.
        operation: &'static str,
        /// What libgit2 reports.
        message: String,
    },
    /// Git could not do it.
    #[error("cannot {operation}: {message}")]
    Git {
        /// What was tried.
        operation: &'static str,
        /// What git reports, without secrets.
        message: String,
        /// The host of the address.
        host: String,
        /// Its port.
        port: u16,
    },
}

impl RemoteError {
    /// The fix.
    #[must_use]
    pub fn help(&self) -> String {
        match self {
            Self::Program(error) => error.help(),
            Self::Stalled { .. } => {
                "check the network, the proxy (HTTPS_PROXY) and the server; --git-timeout waits longer".to_owned()
            }
            Self::TooSlow { .. } => {
                "check the network and the server; a fetch is given ten times --git-timeout as a whole".to_owned()
            }
            Self::TooLarge { .. } => {
                "give the configuration a repository of its own; a branch, a tag or a full commit id needs the least".to_owned()
            }
            Self::UnknownRevision { hint, .. } => hint.clone(),
            Self::Inconsistent { .. } => {
                "ask whoever runs the server: it is damaged, or somebody wants another commit read than the one that was named"
                    .to_owned()
            }
            Self::Empty => "push a commit, or name a branch with --rev".to_owned(),
            Self::Cache { .. } => "name a folder of your own that can be written to with --git-cache".to_owned(),
            Self::NoCache => "name a folder with --git-cache or NODECFG_CACHE_DIR".to_owned(),
            Self::Sha256 => "name a repository with SHA-1 object ids".to_owned(),
            Self::Broken { .. } => "remove the folder of the cache; -vv logs what was done".to_owned(),
            Self::Git { message, host, port, .. } => fix(message, host, *port),
        }
    }
}

/// The fix for what git reports, by the words of git, curl and OpenSSH in English.
fn fix(message: &str, host: &str, port: u16) -> String {
    let has = |words: &[&str]| words.iter().any(|word| message.contains(word));
    if has(&["Host key for", "revoked"]) {
        return "ask whoever runs the server whether its key was replaced, and compare the fingerprint; only then replace the \
                line of known_hosts"
            .to_owned();
    }
    if has(&["Host key verification failed"]) {
        let place = if port == 22 { host.to_owned() } else { format!("-p {port} {host}") };
        return format!(
            "compare the fingerprint with the one that the server's operator publishes, then add the key: ssh-keyscan \
             {place} >> ~/.ssh/known_hosts, or the file of NODECFG_SSH_KNOWN_HOSTS"
        );
    }
    let fixes: [(&[&str], &str); 7] = [
        (&["cannot run ssh", "ssh: not found"], "install OpenSSH, so that ssh is on the PATH"),
        (
            &["Permission denied"],
            "set NODECFG_SSH_KEY_FILE to a private key that may read the repository, or add it to the agent",
        ),
        (
            &[
                "could not read Username",
                "could not read Password",
                "Authentication failed",
                "terminal prompts disabled",
            ],
            "set NODECFG_GIT_TOKEN to a token that may read the repository, or a credential helper in the git configuration",
        ),
        (
            &["certificate", "SSL"],
            "if the server's certificate is of a private authority, name its certificates in SSL_CERT_FILE; in an image \
             without certificates, add ca-certificates",
        ),
        (&["not allowed"], "use https:// or ssh://, also in url.<base>.insteadOf of the git configuration"),
        (
            &["error: 30", "redirect"],
            "the server redirects, which nodecfg does not follow; name the new address, if you trust it: some servers want .git \
             at the end, and a repository may have been renamed",
        ),
        (
            &["error: 40", "error: 41", "not found", "does not appear to be a git repository"],
            "check the address; if the repository is private, check that NODECFG_GIT_TOKEN or the key may read it",
        ),
    ];
    let found = fixes.iter().find(|(words, _)| has(words)).map(|(_, fix)| *fix);
    found.unwrap_or("check the address, the network and the server; -vv logs what was done").to_owned()
}
