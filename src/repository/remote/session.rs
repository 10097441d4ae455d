//! One conversation with a git server through libgit2: who it is, who we are, what it has, and the download.

use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;

use git2::cert::Cert;
use git2::{
    AutotagOption, CertificateCheckStatus, Config, Direction, ErrorClass, ErrorCode, FetchOptions, ProxyOptions,
    Remote, RemoteCallbacks, RemoteConnection, RemoteRedirect, Repository,
};

use super::super::address::{Address, AddressError, RemoteAddress, Scheme};
use super::credentials::{Environment, Offers, without_user};
use super::known_hosts::{self, KnownHosts, Verdict};
use super::wanted::Listed;
use super::{HostKey, MAX_DOWNLOAD, MAX_OBJECTS, Progress, RemoteError};

/// Where the machine keeps the keys of hosts.
const SYSTEM_KNOWN_HOSTS: &str = "/etc/ssh/ssh_known_hosts";

/// What a conversation needs to know, and what it has come to.
pub struct Session<'a> {
    /// What is connected to: the address, or what the user's git configuration makes of it.
    address: RemoteAddress,
    environment: &'a Environment,
    progress: &'a Progress,
    config: Option<Config>,
    offers: RefCell<Offers>,
    /// What a callback found wrong, which libgit2 has no words for.
    problem: RefCell<Option<RemoteError>>,
}

impl<'a> Session<'a> {
    /// Makes ready to talk to the server of `address` on behalf of `repository`.
    ///
    /// # Errors
    /// When the user's git configuration turns the address into one that cannot be used.
    pub fn new<'r>(
        repository: &'r Repository,
        address: &RemoteAddress,
        environment: &'a Environment,
        progress: &'a Progress,
    ) -> Result<(Self, Remote<'r>), RemoteError> {
        let git = |error: git2::Error| RemoteError::Git {
            operation: "prepare the git cache",
            message: error.message().to_owned(),
        };
        let config = repository.config().map_err(git)?;
        // Or libgit2 would follow the server to any host with its first request. The user's own files stay as they are.
        let mut own = config.open_level(git2::ConfigLevel::Local).map_err(git)?;
        own.set_bool("http.followRedirects", false).map_err(git)?;
        let remote = repository.remote_anonymous(&address.url()).map_err(git)?;
        let effective = rewritten(address, remote.url().unwrap_or_default())?;
        let mut offered = environment.clone();
        if effective.host() != address.host() {
            offered.token = None;
        }
        let session = Self {
            offers: RefCell::new(Offers::new(&effective, &offered)),
            address: effective,
            environment,
            progress,
            config: Some(config),
            problem: RefCell::new(None),
        };
        Ok((session, remote))
    }

    /// Connects and lists what the server has.
    ///
    /// # Errors
    /// When the server cannot be reached, is not who it should be, or does not let us in.
    pub fn connect<'s, 'r: 's, 'c>(
        &'s self,
        remote: &'c mut Remote<'r>,
    ) -> Result<(RemoteConnection<'r, 'c, 's>, Vec<Listed>), RemoteError> {
        self.progress.start("connecting");
        let connected = remote.connect_auth(Direction::Fetch, Some(self.callbacks()), Some(proxy()));
        let connection = connected.map_err(|error| self.explain("connect to the server", &error))?;
        self.progress.tick();
        let heads = connection.list().map_err(|error| self.explain("list what the server has", &error))?;
        let listed = heads
            .iter()
            .map(|head| Listed {
                name: head.name().to_owned(),
                id: head.oid(),
                target: head.symref_target().map(str::to_owned),
            })
            .collect();
        Ok((connection, listed))
    }

    /// Downloads what the refspecs name, a single commit deep or with the whole history.
    ///
    /// # Errors
    /// When the server does not give it, the connection breaks, or it is too much.
    pub fn fetch<'s, 'r>(
        &'s self,
        connection: &mut RemoteConnection<'r, '_, 's>,
        refspecs: &[String],
        shallow: bool,
    ) -> Result<(), RemoteError> {
        self.progress.start("downloading");
        let mut options = FetchOptions::new();
        options.remote_callbacks(self.callbacks()).proxy_options(proxy());
        options.update_fetchhead(false).download_tags(AutotagOption::None).follow_redirects(RemoteRedirect::None);
        if shallow {
            options.depth(1);
        }
        let fetched = connection.remote().fetch(refspecs, Some(&mut options), None);
        fetched.map_err(|error| self.explain("download the revision", &error))
    }

    fn callbacks(&self) -> RemoteCallbacks<'_> {
        let mut callbacks = RemoteCallbacks::new();
        callbacks.credentials(|url, _, allowed| {
            self.progress.tick();
            let mut offers = self.offers.borrow_mut();
            offers.next(url, allowed, self.config.as_ref()).inspect_err(|_| {
                let https = self.address.scheme() == Scheme::Https;
                self.fail(RemoteError::Credentials { tried: offers.tried(), https });
            })
        });
        callbacks.certificate_check(|certificate, host| {
            self.progress.tick();
            self.check(certificate, host)
        });
        callbacks.sideband_progress(|_| {
            self.progress.tick();
            self.progress.is_awaited()
        });
        callbacks.transfer_progress(|transfer| {
            let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
            let bytes = count(transfer.received_bytes());
            self.progress.transferred(count(transfer.received_objects()), count(transfer.total_objects()), bytes);
            if bytes > MAX_DOWNLOAD || transfer.total_objects() > MAX_OBJECTS {
                self.fail(RemoteError::TooLarge { bytes: MAX_DOWNLOAD, objects: MAX_OBJECTS });
                return false;
            }
            self.progress.is_awaited()
        });
        callbacks
    }

    fn fail(&self, problem: RemoteError) {
        self.problem.borrow_mut().get_or_insert(problem);
    }

    /// Who the server is. Of TLS that is OpenSSL's to say; of SSH it is for known_hosts alone, since libgit2 would take the
    /// key of any port and knows nothing of revoked ones.
    fn check(&self, certificate: &Cert<'_>, host: &str) -> Result<CertificateCheckStatus, git2::Error> {
        let Some(hostkey) = certificate.as_hostkey() else {
            return Ok(CertificateCheckStatus::CertificatePassthrough);
        };
        let blob = hostkey.hostkey().unwrap_or_default();
        let port = self.address.port();
        let files = self.known_hosts();
        let verdict = known_hosts::judge(&files, host, port, blob);
        if verdict == Verdict::Known {
            return Ok(CertificateCheckStatus::CertificateOk);
        }
        self.fail(RemoteError::HostKey(Box::new(HostKey {
            host: if port == 22 { host.to_owned() } else { format!("[{host}]:{port}") },
            kind: known_hosts::kind(blob).unwrap_or("of an unknown type").to_owned(),
            fingerprint: known_hosts::fingerprint(blob),
            verdict,
            files: self.known_hosts_paths().iter().map(|path| path.display().to_string()).collect(),
        })));
        Err(git2::Error::new(ErrorCode::Certificate, ErrorClass::Ssh, "the host key is not known"))
    }

    fn known_hosts_paths(&self) -> Vec<PathBuf> {
        match (&self.environment.known_hosts, &self.environment.home) {
            (Some(file), _) => vec![file.clone()],
            (None, home) => {
                let own = home.as_ref().map(|home| home.join(".ssh/known_hosts"));
                own.into_iter().chain([PathBuf::from(SYSTEM_KNOWN_HOSTS)]).collect()
            }
        }
    }

    fn known_hosts(&self) -> Vec<KnownHosts> {
        let read = |path: PathBuf| match fs::read(&path) {
            Ok(bytes) => Some(KnownHosts {
                name: path.display().to_string(),
                text: String::from_utf8_lossy(&bytes).into_owned(),
            }),
            Err(error) => {
                tracing::debug!("{} cannot be read: {error}", path.display());
                None
            }
        };
        self.known_hosts_paths().into_iter().filter_map(read).collect()
    }

    /// What went wrong, as far as it can be told from what libgit2 says.
    fn explain(&self, operation: &'static str, error: &git2::Error) -> RemoteError {
        if let Some(problem) = self.problem.borrow_mut().take() {
            return problem;
        }
        let message = self.environment.scrubbed(error.message());
        if let Some(status) = status_of(&message) {
            return RemoteError::NoAccess { status, with: self.offers.borrow().sent() };
        }
        match error.code() {
            ErrorCode::Certificate => RemoteError::Certificate { message },
            _ if error.class() == ErrorClass::Ssl => RemoteError::Certificate { message },
            _ if message.contains("cannot redirect from") => RemoteError::Redirected { message },
            _ => RemoteError::Git { operation, message },
        }
    }
}

/// HTTP's answers that say "not for you", which libgit2 puts into its message alone.
fn status_of(message: &str) -> Option<u16> {
    let status = message.strip_prefix("unexpected http status code: ")?.trim().parse().ok()?;
    matches!(status, 401 | 403 | 404 | 410).then_some(status)
}

/// The proxy that HTTPS_PROXY and git's configuration name.
fn proxy<'a>() -> ProxyOptions<'a> {
    let mut options = ProxyOptions::new();
    options.auto();
    options
}

/// The address after `url.<base>.insteadOf`. It may hold a token there, which libgit2 then uses: a configuration file is not
/// the command line.
fn rewritten(address: &RemoteAddress, url: &str) -> Result<RemoteAddress, RemoteError> {
    if url == address.url() {
        return Ok(address.clone());
    }
    let plain = if url.starts_with("https://") { without_user(url) } else { url.to_owned() };
    match Address::parse(&plain, |_| false) {
        Ok(Address::Remote(effective)) => Ok(effective),
        Ok(Address::Local(_)) => {
            Err(RemoteError::Rewritten { source: AddressError::Malformed { why: "it is a folder; name it as that" } })
        }
        Err(source) => Err(RemoteError::Rewritten { source }),
    }
}
