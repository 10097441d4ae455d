//! Addresses of repositories: a folder on this machine, or a repository on a git server.
//!
//! Accepts the addresses of `git clone`: `https://`, `ssh://` and `file://` URLs and `user@host:path`. Rejects
//! unencrypted protocols. Rejects secrets, because every process of the machine can read the command line. Must not
//! access the file system.

use std::fmt;
use std::path::{Path, PathBuf};

use kubelet_config::values::unsigned;

/// Prefixes of user names that are tokens of GitHub or GitLab.
const TOKEN_PREFIXES: [&str; 9] = ["ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "gldt-", "glcbt-"];
/// The maximum length of a user name. Longer ones count as tokens.
const LONGEST_USER: usize = 39;

/// Address of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A folder.
    Local(PathBuf),
    /// A git server.
    Remote(RemoteAddress),
}

/// Protocol of a git server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Git's smart protocol over HTTP and TLS.
    Https,
    /// `git upload-pack` over SSH.
    Ssh,
    /// Another repository on this machine, read through the cache like a remote one.
    File,
}

/// Address of a repository on a git server, without secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteAddress {
    scheme: Scheme,
    user: Option<String>,
    host: String,
    port: Option<u16>,
    /// Starts with `/`, unless relative to the user's home (`user@host:path`).
    path: String,
}

/// Error for an invalid address. Messages contain no part of the address but its scheme.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// An unencrypted and unauthenticated protocol.
    #[error("{scheme}:// is not supported: it is not encrypted and does not authenticate the server")]
    Insecure {
        /// The scheme as given.
        scheme: String,
    },
    /// An unknown protocol.
    #[error("unknown repository address scheme {scheme:?}")]
    UnknownScheme {
        /// The scheme as given.
        scheme: String,
    },
    /// A password or a token.
    #[error(
        "the address of the repository contains a password or a token, which every process of this machine can read"
    )]
    Secret,
    /// An invalid part.
    #[error("invalid address of the repository: {why}")]
    Malformed {
        /// What is wrong.
        why: &'static str,
    },
}

impl AddressError {
    /// How to fix the error.
    #[must_use]
    pub fn help(&self) -> &'static str {
        match self {
            Self::Insecure { .. } => "use https:// or ssh://",
            Self::UnknownScheme { .. } => "use a folder, https://, ssh://, user@host:path or file://",
            Self::Secret => {
                "remove it from the address and set the environment variable NODECFG_GIT_TOKEN; replace the secret if \
                 it was used in public"
            }
            Self::Malformed { .. } => "use https://host/path, ssh://user@host:port/path or user@host:path",
        }
    }
}

impl Address {
    /// Parses an address. `exists` reports whether a file or folder of a name exists: as in git, it takes precedence
    /// over `host:path`.
    ///
    /// # Errors
    /// When the address is unencrypted, contains a secret, or is invalid.
    pub fn parse(text: &str, exists: impl Fn(&Path) -> bool) -> Result<Self, AddressError> {
        let local = || Ok(Self::Local(PathBuf::from(text)));
        if let Some((scheme, rest)) = text.split_once("://")
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
        {
            return url(&scheme.to_ascii_lowercase(), rest).map(Self::Remote);
        }
        let Some((host, path)) = host_and_path(text) else { return local() };
        if exists(Path::new(text)) || (cfg!(windows) && host.len() == 1) {
            return local();
        }
        if path.starts_with(':') {
            return Err(AddressError::UnknownScheme { scheme: format!("{host}::") });
        }
        if path.split('/').next().is_some_and(|first| first.contains('@')) {
            return Err(AddressError::Secret);
        }
        let (user, host) = match host.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, host),
        };
        // Git accepts a port in brackets here: [host:port]:path.
        let inner = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let (host, port) = match inner {
            Some(inner) if inner.matches(':').count() > 1 => (inner, None),
            Some(inner) => port_of(inner)?,
            None => (host, None),
        };
        remote(Scheme::Ssh, user, host, port, path).map(Self::Remote)
    }
}

/// Splits `host:path`. `None` if a slash precedes the colon.
fn host_and_path(text: &str) -> Option<(&str, &str)> {
    let from = match text.find('[') {
        Some(open) if !text.get(..open)?.contains(['/', ':']) => text.find(']')?,
        _ => 0,
    };
    let colon = from + text.get(from..)?.find(':')?;
    let (host, path) = (text.get(..colon)?, text.get(colon + 1..)?);
    (!host.is_empty() && !host.contains('/')).then_some((host, path))
}

fn url(scheme: &str, rest: &str) -> Result<RemoteAddress, AddressError> {
    let scheme = match scheme {
        "https" => Scheme::Https,
        "ssh" | "git+ssh" | "ssh+git" => Scheme::Ssh,
        "file" => Scheme::File,
        "http" | "git" | "ftp" | "rsync" => return Err(AddressError::Insecure { scheme: scheme.to_owned() }),
        other => return Err(AddressError::UnknownScheme { scheme: other.to_owned() }),
    };
    let (authority, path) = match rest.find('/') {
        Some(slash) => rest.split_at(slash),
        None => (rest, ""),
    };
    if scheme == Scheme::File {
        if !matches!(authority, "" | "localhost") {
            let why = "a file:// address holds a path only, as in file:///srv/fleet.git";
            return Err(AddressError::Malformed { why });
        }
        return remote(scheme, None, "", None, path);
    }
    let (user, place) = match authority.rsplit_once('@') {
        Some((user, place)) => (Some(user), place),
        None => (None, authority),
    };
    if user.is_some_and(|user| user.contains(':')) {
        return Err(AddressError::Secret);
    }
    if scheme == Scheme::Https && path.contains(['?', '#']) {
        return Err(AddressError::Malformed { why: "it has a query or a fragment; set the revision with --rev" });
    }
    let (host, port) = match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, port)) => (host, port_of(port)?.1),
        None => port_of(place)?,
    };
    remote(scheme, user, host, port, path)
}

fn port_of(place: &str) -> Result<(&str, Option<u16>), AddressError> {
    match place.split_once(':') {
        None => Ok((place, None)),
        Some((host, port)) => match unsigned(port).map(u16::try_from) {
            Some(Ok(port)) if port > 0 => Ok((host, Some(port))),
            _ => Err(AddressError::Malformed { why: "its port is not a number from 1 to 65535" }),
        },
    }
}

fn remote(
    scheme: Scheme,
    user: Option<&str>,
    host: &str,
    port: Option<u16>,
    path: &str,
) -> Result<RemoteAddress, AddressError> {
    let malformed = |why| Err(AddressError::Malformed { why });
    let has_control_or_space = |text: &str| text.chars().any(|c| c.is_control() || c.is_whitespace());
    if has_control_or_space(host) || user.is_some_and(has_control_or_space) || path.chars().any(char::is_control) {
        return malformed("it contains control characters or spaces");
    }
    if scheme != Scheme::File && host.is_empty() {
        return malformed("the host is missing");
    }
    // git or ssh could take a part with a leading dash for an option.
    if host.starts_with('-') || user.is_some_and(|user| user.starts_with('-')) || path.starts_with('-') {
        return malformed("a part of it starts with a dash");
    }
    let path = path.trim_end_matches('/');
    if path.is_empty() {
        return malformed("the path of the repository is missing");
    }
    let user = user.filter(|user| !user.is_empty());
    let token = |user: &str| {
        user.chars().count() > LONGEST_USER || TOKEN_PREFIXES.iter().any(|prefix| user.starts_with(prefix))
    };
    if user.is_some_and(token) {
        return Err(AddressError::Secret);
    }
    let standard = match scheme {
        Scheme::Https => Some(443),
        Scheme::Ssh => Some(22),
        Scheme::File => None,
    };
    Ok(RemoteAddress {
        scheme,
        user: user.map(str::to_owned),
        host: host.to_ascii_lowercase(),
        port: port.filter(|port| Some(*port) != standard),
        path: path.to_owned(),
    })
}

impl RemoteAddress {
    /// The protocol.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The user, if the address names one.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The host in lower case, without the brackets of an IPv6 address. Empty for files.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, by default that of the scheme. 0 for files.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port.unwrap_or(match self.scheme {
            Scheme::Https => 443,
            Scheme::Ssh => 22,
            Scheme::File => 0,
        })
    }

    /// The host as in a URL, with a port that is not the default one.
    #[must_use]
    pub fn host_and_port(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        self.port.map_or_else(|| host.clone(), |port| format!("{host}:{port}"))
    }

    /// The address for git. The default SSH user is `git`.
    #[must_use]
    pub fn for_git(&self) -> String {
        match (self.scheme, self.user()) {
            (Scheme::Https, Some(user)) => {
                let user = user.replace('@', "%40");
                format!("https://{user}@{}{}", self.host_and_port(), self.path)
            }
            (Scheme::Ssh, None) => self.with_user(Some("git")),
            (_, user) => self.with_user(user),
        }
    }

    /// The address without the user of an HTTPS address.
    #[must_use]
    pub fn url(&self) -> String {
        match self.scheme {
            Scheme::Https => self.to_string(),
            _ => self.with_user(self.user()),
        }
    }

    /// An identifier of the repository that is the same for all spellings of its address.
    #[must_use]
    pub fn key(&self) -> String {
        self.url()
    }

    fn with_user(&self, user: Option<&str>) -> String {
        let user = user.map(|user| format!("{user}@")).unwrap_or_default();
        let (place, path) = (self.host_and_port(), &self.path);
        match self.scheme {
            Scheme::Https => format!("https://{place}{path}"),
            Scheme::File => format!("file://{path}"),
            Scheme::Ssh if path.starts_with('/') => format!("ssh://{user}{place}{path}"),
            Scheme::Ssh if self.port.is_none() => format!("{user}{place}:{path}"),
            Scheme::Ssh => format!("{user}[{place}]:{path}"),
        }
    }
}

/// The address in messages: without the user of an HTTPS address.
impl fmt::Display for RemoteAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.with_user(self.user()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> String {
        match Address::parse(text, |path| path == Path::new("there:here")) {
            Ok(Address::Local(path)) => format!("local {}", path.display()),
            Ok(Address::Remote(remote)) => format!("{:?} {} port {}", remote.scheme, remote.key(), remote.port()),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn parses_addresses_as_git() {
        for (text, expected) in [
            (".", "local ."),
            ("/srv/fleet", "local /srv/fleet"),
            ("./a:b", "local ./a:b"),
            ("there:here", "local there:here"),
            ("https://GitHub.com/o/r.git", "Https https://github.com/o/r.git port 443"),
            ("https://github.com:443/o/r/", "Https https://github.com/o/r port 443"),
            ("HTTPS://org@dev.azure.com/o/_git/r", "Https https://dev.azure.com/o/_git/r port 443"),
            ("https://[::1]:8443/r", "Https https://[::1]:8443/r port 8443"),
            ("ssh://git@host:2222/o/r", "Ssh ssh://git@host:2222/o/r port 2222"),
            ("ssh://host/~/r", "Ssh ssh://host/~/r port 22"),
            ("git+ssh://git@host/r", "Ssh ssh://git@host/r port 22"),
            ("git@github.com:o/r.git", "Ssh git@github.com:o/r.git port 22"),
            ("host:r", "Ssh host:r port 22"),
            ("git@host:/srv/r", "Ssh ssh://git@host/srv/r port 22"),
            ("git@[host:2222]:r", "Ssh git@[host:2222]:r port 2222"),
            ("git@[::1]:r", "Ssh git@[::1]:r port 22"),
            ("file:///srv/fleet.git", "File file:///srv/fleet.git port 0"),
            ("file://localhost/srv/fleet.git", "File file:///srv/fleet.git port 0"),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn rejects_unsafe_addresses_without_repeating_them() {
        for (text, expected) in [
            ("http://host/r", "http:// is not supported"),
            ("git://host/r", "git:// is not supported"),
            ("s3://bucket/r", "scheme \"s3\""),
            ("ext::sh -c hunter2", "scheme \"ext::\""),
            ("https://user:hunter2@host/r", "a password or a token"),
            ("https://:hunter2@host/r", "a password or a token"),
            ("user:hunter2@host:r", "a password or a token"),
            ("https://ghp_hunter2@github.com/r", "a password or a token"),
            ("https://github.com/r?access_token=hunter2", "a query or a fragment"),
            ("https:///r", "host is missing"),
            ("https://host/", "path of the repository is missing"),
            ("https://host", "path of the repository is missing"),
            ("https://host:x/r", "port"),
            ("https://host:0/r", "port"),
            ("https://host:+8443/r", "port"),
            ("ssh://-oProxyCommand=hunter2/r", "dash"),
            ("git@host:-r", "dash"),
            ("file://host/r", "holds a path only"),
            ("https://ho st/r", "spaces"),
        ] {
            let said = read(text);
            assert!(said.contains(expected), "{text}: {said}");
            assert!(!said.contains("hunter2"), "{text}: {said}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_rejected(text in "\\PC{0,40}") {
            let _ = Address::parse(&text, |_| false);
        }

        #[test]
        fn messages_contain_no_password(scheme in "https|ssh", user in "[a-z]{0,5}", secret in "[A-Z]{8}", path in "[a-z]{1,9}") {
            let error = Address::parse(&format!("{scheme}://{user}:{secret}@host/{path}"), |_| false).unwrap_err();
            prop_assert_eq!(&error, &AddressError::Secret);
            let said = format!("{error} {error:?}");
            prop_assert!(!said.contains(&secret));
        }

        #[test]
        fn written_address_parses_to_the_same_address(
            text in "(https://host(:[1-9][0-9]{1,3})?/[a-z./]{1,9}r|(ssh://)?git@[a-z]{1,9}(:[1-9][0-9]{1,3}/|/|:/?)[a-z]{1,5}|git@\\[h:[1-9]{3}\\]:r)"
        ) {
            if let Ok(Address::Remote(address)) = Address::parse(&text, |_| false) {
                prop_assert_eq!(Address::parse(&address.url(), |_| false), Ok(Address::Remote(address)));
            }
        }
    }
}
