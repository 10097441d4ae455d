//! Environment and settings of `git` and ssh, derived from nodecfg's own variables. Must not access files or
//! processes.
//!
//! Secrets are never arguments. Git gets a token from a credential helper that prints a variable, for the host of the
//! address only. ssh gets a passphrase from a program that prints another variable.

use std::ffi::{OsStr, OsString};
use std::fmt;

use super::super::address::{RemoteAddress, Scheme};

/// The default user name for a token: GitHub's. GitLab and others accept any.
const TOKEN_USER: &str = "x-access-token";
/// Prefixes of the git variables that are passed on. Others could redirect git to another repository or log secrets.
const PASSED_ON: [&str; 6] = ["GIT_ASKPASS", "GIT_CONFIG_", "GIT_EXEC_PATH", "GIT_HTTP_", "GIT_PROXY_", "GIT_SSH"];
/// The variables for certificates that are passed on.
const CERTIFICATES: [&str; 4] = ["GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "GIT_SSL_CERT", "GIT_SSL_KEY"];
/// Variables with secrets.
const TOKEN: &str = "NODECFG_GIT_TOKEN";
const PASSPHRASE: &str = "NODECFG_SSH_KEY_PASSPHRASE";

/// The credential helper for a token. `$1` is git's operation; the helper ignores `store` and `erase`.
const HELPER: &str = "!f() { test \"$1\" = get && printf 'username=%s\\npassword=%s\\n' \"$NODECFG_GIT_USERNAME\" \
                      \"$NODECFG_GIT_TOKEN\"; }; f";
/// Answers only ssh's prompt for a passphrase, not for example the prompt to trust a host.
pub const ASKPASS: &str = "#!/bin/sh\ncase $1 in \"Enter passphrase for\"*) printf '%s\\n' \
                           \"$NODECFG_SSH_KEY_PASSPHRASE\";; *) exit 1;; esac\n";

/// Environment variables of the process.
#[derive(Clone, Default)]
pub struct Environment {
    variables: Vec<(OsString, OsString)>,
}

/// Shows names only, because values may be secrets.
impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.variables.iter().map(|(name, _)| name)).finish()
    }
}

impl Environment {
    /// The variables of the process without empty ones.
    pub fn new(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        Self { variables: variables.into_iter().filter(|(_, value)| !value.is_empty()).collect() }
    }

    fn get(&self, name: &str) -> Option<&OsStr> {
        self.variables.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_os_str())
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.to_str().map(str::trim).filter(|value| !value.is_empty())
    }

    /// Reports whether ssh needs `ASKPASS`.
    #[must_use]
    pub fn has_passphrase(&self) -> bool {
        self.get(PASSPHRASE).is_some()
    }

    /// The git settings for an address, as values of `-c`.
    #[must_use]
    pub fn settings(&self, address: &RemoteAddress) -> Vec<String> {
        if address.scheme() != Scheme::Https {
            return Vec::new();
        }
        let host = format!("https://{}", address.host_and_port());
        // A setting for a URL takes precedence over configuration files.
        let mut settings = vec![
            format!("http.{}.sslVerify=true", address.url()),
            format!("http.{}.followRedirects=false", address.url()),
        ];
        if self.text(TOKEN).is_some() {
            // An empty value resets the helpers of configuration files, so that the token is used.
            settings.extend([format!("credential.{host}.helper="), format!("credential.{host}.helper={HELPER}")]);
        }
        settings
    }

    /// The environment variables of git. `askpass` is the path of a file with `ASKPASS`.
    #[must_use]
    pub fn variables(&self, address: &RemoteAddress, askpass: &OsStr) -> Vec<(OsString, OsString)> {
        let passed_on = |name: &str| {
            if name.starts_with("GIT_") {
                return CERTIFICATES.contains(&name) || PASSED_ON.iter().any(|begin| name.starts_with(begin));
            }
            !name.starts_with("NODECFG_") && !matches!(name, "LANGUAGE" | "LC_ALL")
        };
        let own = self.variables.iter().filter(|(name, _)| name.to_str().is_none_or(passed_on)).cloned();
        let mut variables: Vec<(OsString, OsString)> = own.collect();
        let mut set = |name: &str, value: &OsStr| variables.push((name.into(), value.into()));
        set("LC_ALL", OsStr::new("C"));
        set("GIT_TERMINAL_PROMPT", OsStr::new("0"));
        set("GIT_NO_LAZY_FETCH", OsStr::new("1"));
        set("GIT_NO_REPLACE_OBJECTS", OsStr::new("1"));
        set("GIT_ALLOW_PROTOCOL", OsStr::new("file:https:ssh"));
        if let (None, Some(file)) = (self.get("GIT_SSL_CAINFO"), self.get("SSL_CERT_FILE")) {
            set("GIT_SSL_CAINFO", file);
        }
        if let Some(token) = self.text(TOKEN) {
            let user = self.text("NODECFG_GIT_USERNAME").or(address.user()).unwrap_or(TOKEN_USER);
            set(TOKEN, OsStr::new(token));
            set("NODECFG_GIT_USERNAME", OsStr::new(user));
        }
        // ssh must use a program: a background process that reads from the terminal would be suspended.
        set("SSH_ASKPASS_REQUIRE", OsStr::new("force"));
        match self.get(PASSPHRASE) {
            Some(passphrase) => {
                set(PASSPHRASE, passphrase);
                set("SSH_ASKPASS", askpass);
            }
            None if self.get("SSH_ASKPASS").is_none() => set("SSH_ASKPASS", OsStr::new("false")),
            None => {}
        }
        if let Some(ssh) = self.ssh() {
            set("GIT_SSH_COMMAND", &ssh);
        }
        variables
    }

    /// The ssh command with nodecfg's options. `None` without such options.
    fn ssh(&self) -> Option<OsString> {
        let key = self.get("NODECFG_SSH_KEY_FILE");
        let hosts = self.get("NODECFG_SSH_KNOWN_HOSTS");
        if key.is_none() && hosts.is_none() {
            return None;
        }
        let mut command = match (self.get("GIT_SSH_COMMAND"), self.get("GIT_SSH")) {
            (Some(command), _) => command.to_owned(),
            (None, Some(program)) => quoted(program),
            (None, None) => OsString::from("ssh"),
        };
        let mut option = |value: OsString| {
            command.push(" -o ");
            command.push(value);
        };
        let file = |option: &str, path: &OsStr| {
            let mut text = OsString::from(format!("{option}=\""));
            text.push(literal(path));
            text.push("\"");
            quoted(&text)
        };
        if let Some(key) = key {
            option("IdentitiesOnly=yes".into());
            option(file("IdentityFile", key));
        }
        if let Some(hosts) = hosts {
            option(file("UserKnownHostsFile", hosts));
            option("GlobalKnownHostsFile=/dev/null".into());
            option("StrictHostKeyChecking=yes".into());
        }
        Some(command)
    }

    /// A message of git on one line, without secrets and without users in URLs.
    #[must_use]
    pub fn redacted(&self, message: &str) -> String {
        let mut text = nodecfg_contract::printable::one_line(message);
        for secret in [TOKEN, PASSPHRASE].into_iter().filter_map(|name| self.text(name)) {
            text = text.replace(secret, "(not shown)");
        }
        // The user's git configuration may add a password to an address.
        let words = text.split(' ').map(|word| if word.contains("://") { without_user(word) } else { word.to_owned() });
        words.collect::<Vec<_>>().join(" ")
    }
}

/// Quotes for a shell with single quotes.
fn quoted(text: &OsStr) -> OsString {
    let inner = replaced(text, b'\'', "'\\''");
    [OsStr::new("'"), &inner, OsStr::new("'")].into_iter().collect()
}

/// Escapes `%`, which ssh expands otherwise.
fn literal(path: &OsStr) -> OsString {
    replaced(path, b'%', "%%")
}

fn replaced(text: &OsStr, byte: u8, with: &str) -> OsString {
    use std::os::unix::ffi::OsStrExt as _;
    let parts: Vec<&OsStr> = text.as_bytes().split(|each| *each == byte).map(OsStr::from_bytes).collect();
    parts.join(OsStr::new(with))
}

/// Removes the user and password from a URL.
fn without_user(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (authority, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::super::super::address::Address;
    use super::*;

    fn address(text: &str) -> RemoteAddress {
        match Address::parse(text, |_| false) {
            Ok(Address::Remote(remote)) => remote,
            other => panic!("{other:?}"),
        }
    }

    fn environment(variables: &[(&str, &str)]) -> Environment {
        Environment::new(variables.iter().map(|(name, value)| (name.into(), value.into())))
    }

    fn given(environment: &Environment, url: &str, name: &str) -> Option<String> {
        let variables = environment.variables(&address(url), OsStr::new("/askpass"));
        // The last value takes effect.
        let found = variables.into_iter().rfind(|(found, _)| found == name);
        found.map(|(_, value)| value.into_string().unwrap())
    }

    #[test]
    fn token_is_limited_to_its_host_and_never_an_argument() {
        let environment = environment(&[(TOKEN, " hunter2\n")]);
        let settings = environment.settings(&address("https://h.example:8443/r")).join("\n");
        assert!(settings.contains("credential.https://h.example:8443.helper=\n"), "{settings}");
        assert!(!settings.contains("hunter2"));
        assert_eq!(given(&environment, "https://h.example/r", TOKEN).as_deref(), Some("hunter2"));
        let user = |url| given(&environment, url, "NODECFG_GIT_USERNAME").unwrap();
        assert_eq!(
            (user("https://h.example/r"), user("https://me@h.example/r")),
            (TOKEN_USER.to_owned(), "me".to_owned())
        );
        assert!(!format!("{environment:?}").contains("hunter2"));
        assert!(environment.settings(&address("git@h.example:r")).is_empty());
    }

    #[test]
    fn drops_variables_that_redirect_git_or_log_secrets() {
        let environment = environment(&[
            ("GIT_DIR", "/elsewhere"),
            ("GIT_TRACE_CURL", "1"),
            ("GIT_SSL_NO_VERIFY", "1"),
            ("GIT_ALLOW_PROTOCOL", "ext"),
            ("GIT_CONFIG_GLOBAL", "/config"),
            ("GIT_SSH_COMMAND", "ssh -v"),
            ("NODECFG_LOG", "debug"),
            ("LC_ALL", "de_DE.UTF-8"),
            ("HTTPS_PROXY", "http://proxy:3128"),
            ("SSL_CERT_FILE", "/ca.pem"),
            ("SSH_AUTH_SOCK", ""),
        ]);
        for (name, value) in [
            ("GIT_DIR", None),
            ("GIT_TRACE_CURL", None),
            ("GIT_SSL_NO_VERIFY", None),
            ("GIT_ALLOW_PROTOCOL", Some("file:https:ssh")),
            ("GIT_CONFIG_GLOBAL", Some("/config")),
            ("GIT_SSH_COMMAND", Some("ssh -v")),
            ("NODECFG_LOG", None),
            ("LC_ALL", Some("C")),
            ("HTTPS_PROXY", Some("http://proxy:3128")),
            ("GIT_SSL_CAINFO", Some("/ca.pem")),
            ("GIT_TERMINAL_PROMPT", Some("0")),
            ("SSH_AUTH_SOCK", None),
            ("SSH_ASKPASS", Some("false")),
        ] {
            assert_eq!(given(&environment, "https://h/r", name).as_deref(), value, "{name}");
        }
    }

    #[test]
    fn ssh_variables_become_options() {
        let ssh = |variables: &[(&str, &str)]| given(&environment(variables), "git@h:r", "GIT_SSH_COMMAND");
        assert_eq!(ssh(&[]), None);
        assert_eq!(
            ssh(&[("NODECFG_SSH_KEY_FILE", "/a b/it's 5%")]).as_deref(),
            Some(r#"ssh -o IdentitiesOnly=yes -o 'IdentityFile="/a b/it'\''s 5%%"'"#)
        );
        let known = ssh(&[("NODECFG_SSH_KNOWN_HOSTS", "/k"), ("GIT_SSH", "/opt/my ssh")]).unwrap();
        assert!(known.starts_with("'/opt/my ssh' -o 'UserKnownHostsFile=\"/k\"' -o Global"), "{known}");
        assert!(known.ends_with("StrictHostKeyChecking=yes"), "{known}");
        let locked = environment(&[(PASSPHRASE, "hunter2")]);
        assert_eq!(given(&locked, "git@h:r", "SSH_ASKPASS").as_deref(), Some("/askpass"));
    }

    #[test]
    fn messages_contain_no_secrets() {
        let environment = environment(&[(TOKEN, "hunter2")]);
        let message = "fatal: hunter2 at 'https://me:other@h.example/r': \u{1b}[31mno\r\nmore";
        let redacted = environment.redacted(message);
        assert!(redacted.starts_with("fatal: (not shown) at 'https://h.example/r': "), "{redacted}");
        assert!(!redacted.contains(['\u{1b}', '\r', '\n']));
    }
}
