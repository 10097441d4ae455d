//! What to show a server that asks who we are: each credential once, in a fixed order, and never to another host.
//!
//! Over HTTPS: NODECFG_GIT_TOKEN, the netrc file, git's credential helpers, GIT_ASKPASS. Over SSH: NODECFG_SSH_KEY_FILE, the
//! agent, the keys in `~/.ssh`. No value of a credential is ever in a message, a log or the arguments of a process.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use git2::{Config, Cred, CredentialHelper, CredentialType};

use super::super::address::{Address, RemoteAddress, Scheme};
use super::netrc;

/// The user name that goes with a token when none is given: GitHub's; GitLab and others take any.
pub const TOKEN_USER: &str = "x-access-token";
/// The user of an SSH address that names none.
pub const SSH_USER: &str = "git";
/// The keys of `~/.ssh` that are tried, as ssh does.
const KEYS: [&str; 3] = ["id_ed25519", "id_ecdsa", "id_rsa"];

/// Something that must not be shown.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Keeps a value.
    #[must_use]
    pub fn new(value: String) -> Self {
        Self(value)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// What the environment offers.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// A token for HTTPS.
    pub token: Option<Secret>,
    /// The user name that goes with it.
    pub username: Option<String>,
    /// A private key file.
    pub ssh_key: Option<PathBuf>,
    /// What decrypts it.
    pub ssh_passphrase: Option<Secret>,
    /// A known_hosts file, instead of the usual ones.
    pub known_hosts: Option<PathBuf>,
    /// The home folder.
    pub home: Option<PathBuf>,
    /// A netrc file, instead of the one at home.
    pub netrc: Option<PathBuf>,
    /// A program that asks for passwords.
    pub askpass: Option<OsString>,
    /// Whether an SSH agent is there.
    pub agent: bool,
}

impl Environment {
    /// A message of libgit2 without control characters, and without what must not be shown.
    #[must_use]
    pub fn scrubbed(&self, message: &str) -> String {
        let mut text: String = message.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        for secret in [&self.token, &self.ssh_passphrase].into_iter().flatten().filter(|secret| !secret.0.is_empty()) {
            text = text.replace(&secret.0, "(not shown)");
        }
        // The user configuration may rewrite addresses to some with a password.
        let words = text.split(' ').map(|word| if word.contains("://") { without_user(word) } else { word.to_owned() });
        words.collect::<Vec<_>>().join(" ").trim().to_owned()
    }

    fn netrc(&self) -> Option<PathBuf> {
        self.netrc.clone().or_else(|| Some(self.home.as_ref()?.join(".netrc")))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    Token,
    Netrc,
    Helpers,
    Askpass,
    KeyFile(PathBuf),
    Agent,
    HomeKey(PathBuf),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token => f.write_str("NODECFG_GIT_TOKEN"),
            Self::Netrc => f.write_str("the netrc file"),
            Self::Helpers => f.write_str("git's credential helpers"),
            Self::Askpass => f.write_str("GIT_ASKPASS"),
            Self::KeyFile(path) => write!(f, "NODECFG_SSH_KEY_FILE ({})", path.display()),
            Self::Agent => f.write_str("the SSH agent"),
            Self::HomeKey(path) => write!(f, "{}", path.display()),
        }
    }
}

/// The credentials for one address, each offered once.
#[derive(Debug)]
pub struct Offers {
    address: RemoteAddress,
    environment: Environment,
    left: VecDeque<Source>,
    /// What has been sent and not been refused yet.
    sent: Option<Source>,
    /// What was refused or could not be used.
    tried: Vec<String>,
}

impl Offers {
    /// What there is to offer.
    #[must_use]
    pub fn new(address: &RemoteAddress, environment: &Environment) -> Self {
        let mut left = VecDeque::new();
        match address.scheme() {
            Scheme::Https => {
                left.extend(environment.token.is_some().then_some(Source::Token));
                left.extend([Source::Netrc, Source::Helpers]);
                left.extend(environment.askpass.is_some().then_some(Source::Askpass));
            }
            Scheme::Ssh => {
                left.extend(environment.ssh_key.clone().map(Source::KeyFile));
                left.extend(environment.agent.then_some(Source::Agent));
                let home = environment.home.iter().flat_map(|home| KEYS.map(|key| home.join(".ssh").join(key)));
                left.extend(home.filter(|key| key.exists()).map(Source::HomeKey));
            }
            Scheme::File => {}
        }
        Self { address: address.clone(), environment: environment.clone(), left, sent: None, tried: Vec::new() }
    }

    /// Where the credential comes from that was sent last and not refused.
    #[must_use]
    pub fn sent(&self) -> Option<String> {
        self.sent.as_ref().map(Source::to_string)
    }

    /// What was tried, and what became of it.
    #[must_use]
    pub fn tried(&self) -> Vec<String> {
        let last = self.sent.iter().map(|source| format!("{source} (refused)"));
        self.tried.iter().cloned().chain(last).collect()
    }

    /// The next credential. Being asked again says that the one before was refused. `url` is who asks.
    ///
    /// # Errors
    /// When there is nothing left to offer.
    pub fn next(&mut self, url: &str, allowed: CredentialType, config: Option<&Config>) -> Result<Cred, git2::Error> {
        let user = self.address.user().unwrap_or(SSH_USER).to_owned();
        if allowed.contains(CredentialType::USERNAME) && !allowed.contains(CredentialType::SSH_KEY) {
            return Cred::username(&user);
        }
        if let Some(refused) = self.sent.take() {
            self.tried.push(format!("{refused} (refused)"));
        }
        if self.address.scheme() == Scheme::Https && !self.is_asked_by_the_host(url) {
            self.tried.push("nothing, as another host asks".to_owned());
            return Err(exhausted());
        }
        while let Some(source) = self.left.pop_front() {
            match self.credential(&source, &user, allowed, config) {
                Ok(Some(credential)) => {
                    tracing::debug!("the server asks for credentials: offering {source}");
                    self.sent = Some(source);
                    return Ok(credential);
                }
                Ok(None) => {}
                Err(why) => self.tried.push(format!("{source} ({why})")),
            }
        }
        Err(exhausted())
    }

    /// Whether it is the server that the user named, and nobody it redirects to.
    fn is_asked_by_the_host(&self, url: &str) -> bool {
        matches!(Address::parse(&without_user(url), |_| false), Ok(Address::Remote(asking))
            if asking.host() == self.address.host() && asking.port() == self.address.port() && asking.scheme() == Scheme::Https)
    }

    fn credential(
        &self,
        source: &Source,
        user: &str,
        allowed: CredentialType,
        config: Option<&Config>,
    ) -> Result<Option<Cred>, String> {
        let environment = &self.environment;
        let needed = match self.address.scheme() {
            Scheme::Ssh => CredentialType::SSH_KEY,
            _ => CredentialType::USER_PASS_PLAINTEXT,
        };
        if !allowed.contains(needed) {
            return Err("the server does not take it".to_owned());
        }
        let pair = match source {
            Source::Token => environment.token.as_ref().map(|token| {
                let user = environment.username.as_deref().or(self.address.user()).unwrap_or(TOKEN_USER);
                (user.to_owned(), token.0.clone())
            }),
            Source::Netrc => {
                let text = environment.netrc().and_then(|path| std::fs::read_to_string(path).ok());
                text.and_then(|text| netrc::login(&text, self.address.host()))
            }
            Source::Helpers => config.and_then(|config| {
                let mut helper = CredentialHelper::new(&self.address.url());
                helper.username(self.address.user()).config(config).execute()
            }),
            Source::Askpass => self.askpass()?,
            Source::Agent => {
                return Cred::ssh_key_from_agent(user).map(Some).map_err(|error| error.message().to_owned());
            }
            Source::KeyFile(path) => {
                let passphrase = environment.ssh_passphrase.as_ref().map(|passphrase| passphrase.0.as_str());
                return key(path, user, passphrase).map(Some);
            }
            Source::HomeKey(path) => return key(path, user, None).map(Some),
        };
        let Some((user, password)) = pair else { return Ok(None) };
        Cred::userpass_plaintext(&user, &password).map(Some).map_err(|error| error.message().to_owned())
    }

    /// Asks the program that GIT_ASKPASS names, as git does.
    fn askpass(&self) -> Result<Option<(String, String)>, String> {
        let Some(program) = &self.environment.askpass else { return Ok(None) };
        let ask = |prompt: String| {
            let output = Command::new(program).arg(prompt).stdin(Stdio::null()).stderr(Stdio::null()).output();
            let output = output.map_err(|error| error.to_string())?;
            let text = String::from_utf8(output.stdout).map_err(|_| "its answer is no text".to_owned())?;
            if output.status.success() {
                Ok(text.trim_end_matches(['\r', '\n']).to_owned())
            } else {
                Err("it failed".to_owned())
            }
        };
        let place = self.address.host_and_port();
        let user = match self.address.user() {
            Some(user) => user.to_owned(),
            None => ask(format!("Username for 'https://{place}': "))?,
        };
        let password = ask(format!("Password for 'https://{user}@{place}': "))?;
        Ok(Some((user, password)))
    }
}

fn exhausted() -> git2::Error {
    git2::Error::from_str("no credentials are left to offer")
}

/// The URL without who is to log in, which libgit2 repeats from it.
pub fn without_user(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
            let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            if rest.contains('/') { format!("{scheme}://{host}/{path}") } else { format!("{scheme}://{host}") }
        }
        None => url.to_owned(),
    }
}

/// A private key of a file. What libssh2 would fail over altogether, instead of asking for the next, is found here.
fn key(path: &Path, user: &str, passphrase: Option<&str>) -> Result<Cred, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot be read: {error}"))?;
    if !text.contains("PRIVATE KEY-----") {
        return Err("is no private key".to_owned());
    }
    match ssh_key::PrivateKey::from_openssh(&text) {
        Ok(key) if key.is_encrypted() && passphrase.is_none() => return Err("needs a passphrase".to_owned()),
        // PEM, as ssh-keygen -m PEM and openssl write it.
        Err(_) if text.contains("ENCRYPTED") && passphrase.is_none() => return Err("needs a passphrase".to_owned()),
        _ => {}
    }
    Cred::ssh_key(user, None, path, passphrase).map_err(|error| error.message().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> RemoteAddress {
        match Address::parse(text, |_| false) {
            Ok(Address::Remote(remote)) => remote,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_token_is_offered_once_and_to_its_host_alone() {
        let environment = Environment { token: Some(Secret::new("hunter2".to_owned())), ..Environment::default() };
        let allowed = CredentialType::USER_PASS_PLAINTEXT;
        let mut offers = Offers::new(&address("https://h.example/r"), &environment);
        assert!(offers.next("https://h.example/r", allowed, None).is_ok());
        assert_eq!(offers.sent().as_deref(), Some("NODECFG_GIT_TOKEN"));
        assert!(offers.next("https://h.example/r", allowed, None).is_err());
        assert_eq!(offers.tried(), ["NODECFG_GIT_TOKEN (refused)"]);
        for other in [
            "https://other.example/r",
            "https://h.example:8443/r",
            "https://x@other.example/h.example",
            "http://h.example/r",
        ] {
            let mut offers = Offers::new(&address("https://h.example/r"), &environment);
            assert!(offers.next(other, allowed, None).is_err(), "{other}");
            assert_eq!(offers.sent(), None);
        }
        assert!(!format!("{offers:?}").contains("hunter2"));
    }

    #[test]
    fn keys_that_cannot_be_used_are_passed_over_with_a_reason() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(".ssh")).unwrap();
        let pem = folder.path().join(".ssh/id_rsa");
        std::fs::write(&pem, "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n").unwrap();
        let environment = Environment {
            ssh_key: Some(folder.path().join("missing")),
            home: Some(folder.path().to_owned()),
            ..Environment::default()
        };
        let mut offers = Offers::new(&address("git@h.example:r"), &environment);
        assert!(offers.next("git@h.example:r", CredentialType::USERNAME, None).is_ok());
        assert!(offers.next("git@h.example:r", CredentialType::SSH_KEY, None).is_err());
        let tried = offers.tried().join("; ");
        assert!(
            tried.contains("missing) (cannot be read") && tried.ends_with("id_rsa (needs a passphrase)"),
            "{tried}"
        );
    }

    #[test]
    #[cfg(unix)]
    fn askpass_is_asked_as_git_asks_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("ask");
        std::fs::write(&program, "#!/bin/sh\necho \"<$1>\"\n").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let environment = Environment { askpass: Some(program.into_os_string()), ..Environment::default() };
        let offers = Offers::new(&address("https://me@h.example/r"), &environment);
        let expected = ("me".to_owned(), "<Password for 'https://me@h.example': >".to_owned());
        assert_eq!(offers.askpass(), Ok(Some(expected)));
    }
}
