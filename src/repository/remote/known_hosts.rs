//! Whether a server's SSH key is the one that the user knows: OpenSSH's known_hosts files. Pure.
//!
//! Names and patterns, hashed names, `[host]:port` and `@revoked` are understood (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT).
//! Certificates of hosts (`@cert-authority`) are not: libssh2 has no host certificates.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use ring::{digest, hmac};

/// What known_hosts files say of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The key is listed for the host.
    Known,
    /// The key is listed as revoked.
    Revoked {
        /// File and line.
        place: String,
    },
    /// Another key of the same type is listed for the host.
    Changed {
        /// File and line.
        place: String,
    },
    /// No key of this type is listed for the host.
    Unknown {
        /// The types of the keys that are listed, in the order of the files, each once.
        listed: Vec<String>,
        /// Whether the host's only entries are of certificate authorities.
        authority: bool,
    },
}

/// A known_hosts file.
#[derive(Debug, Clone)]
pub struct KnownHosts {
    /// What findings call it.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// Judges the key `blob` (as on the wire, RFC 4253 section 6.6) of `host` at `port`.
#[must_use]
pub fn judge(files: &[KnownHosts], host: &str, port: u16, blob: &[u8]) -> Verdict {
    let names = names(host, port);
    let offered = kind(blob).unwrap_or_default();
    let (mut known, mut changed, mut authority) = (false, None, false);
    let mut listed: Vec<String> = Vec::new();
    for file in files {
        for (number, line) in file.text.lines().enumerate() {
            let Some(entry) = Entry::parse(line) else { continue };
            if !names.iter().any(|name| entry.is_for(name)) {
                continue;
            }
            let place = || format!("{}:{}", file.name, number + 1);
            let same = STANDARD.decode(entry.key).is_ok_and(|key| key == blob);
            match entry.marker {
                Some("@revoked") if same => return Verdict::Revoked { place: place() },
                Some("@cert-authority") => authority = true,
                Some(_) => {}
                None if same => known = true,
                None => {
                    if entry.kind == offered {
                        changed.get_or_insert_with(place);
                    }
                    if !listed.iter().any(|kind| kind == entry.kind) {
                        listed.push(entry.kind.to_owned());
                    }
                }
            }
        }
    }
    match changed {
        _ if known => Verdict::Known,
        Some(place) => Verdict::Changed { place },
        None => Verdict::Unknown { authority: authority && listed.is_empty(), listed },
    }
}

/// A key's fingerprint, as `ssh-keygen -l` writes it.
#[must_use]
pub fn fingerprint(blob: &[u8]) -> String {
    format!("SHA256:{}", STANDARD_NO_PAD.encode(digest::digest(&digest::SHA256, blob)))
}

/// The type of a key on the wire, which it begins with: `ssh-ed25519`.
#[must_use]
pub fn kind(blob: &[u8]) -> Option<&str> {
    let (length, rest) = blob.split_first_chunk::<4>()?;
    let name = rest.get(..usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
    std::str::from_utf8(name).ok().filter(|name| name.chars().all(|c| c.is_ascii_graphic()))
}

/// What a host is called in these files. Another port than 22 is part of the name.
fn names(host: &str, port: u16) -> Vec<String> {
    let host = host.to_ascii_lowercase();
    if port == 22 { vec![host.clone(), format!("[{host}]:22")] } else { vec![format!("[{host}]:{port}")] }
}

struct Entry<'t> {
    marker: Option<&'t str>,
    hosts: &'t str,
    kind: &'t str,
    key: &'t str,
}

impl<'t> Entry<'t> {
    fn parse(line: &'t str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace().peekable();
        let marker = words.next_if(|word| word.starts_with('@'));
        let hosts = words.next().filter(|hosts| !hosts.starts_with('#'))?;
        Some(Self { marker, hosts, kind: words.next()?, key: words.next()? })
    }

    fn is_for(&self, name: &str) -> bool {
        if let Some(hashed) = self.hosts.strip_prefix("|1|") {
            let Some((salt, hash)) = hashed.split_once('|') else { return false };
            let (Ok(salt), Ok(hash)) = (STANDARD.decode(salt), STANDARD.decode(hash)) else { return false };
            let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &salt);
            return hmac::verify(&key, name.as_bytes(), &hash).is_ok();
        }
        let mut found = false;
        for pattern in self.hosts.split(',') {
            match pattern.strip_prefix('!') {
                Some(not) if matches(not, name) => return false,
                Some(_) => {}
                None => found |= matches(pattern, name),
            }
        }
        found
    }
}

/// OpenSSH's patterns: `*` stands for anything, `?` for one character. In time linear to each of both per star.
fn matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().map(|c| c.to_ascii_lowercase()).collect();
    let name: Vec<char> = name.chars().collect();
    let (mut p, mut n) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                back = Some((p, n));
                p += 1;
            }
            Some(c) if *c == '?' || name.get(n) == Some(c) => {
                p += 1;
                n += 1;
            }
            _ => {
                let Some((star, at)) = back else { return false };
                back = Some((star, at + 1));
                p = star + 1;
                n = at + 1;
            }
        }
    }
    pattern.get(p..).unwrap_or_default().iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn blob(kind: &str, key: &str) -> Vec<u8> {
        let mut blob = u32::try_from(kind.len()).unwrap().to_be_bytes().to_vec();
        blob.extend(kind.bytes());
        blob.extend(key.bytes());
        blob
    }

    fn line(hosts: &str, kind: &str, key: &str) -> String {
        format!("{hosts} {kind} {} a comment\n", STANDARD.encode(blob(kind, key)))
    }

    fn ask(text: String, host: &str, port: u16) -> Verdict {
        let files = [KnownHosts { name: "hosts".to_owned(), text: format!("# comment\n\nnonsense\n{text}") }];
        judge(&files, host, port, &blob("ssh-ed25519", "mine"))
    }

    #[test]
    fn a_host_is_found_by_name_pattern_port_and_hash() {
        let hash = {
            let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, b"salt");
            format!("|1|{}|{}", STANDARD.encode(b"salt"), STANDARD.encode(hmac::sign(&key, b"[h.example]:2222")))
        };
        for (hosts, host, port, known) in [
            ("h.example", "h.example", 22, true),
            ("H.Example", "h.EXAMPLE", 22, true),
            ("h.example", "h.example", 2222, false),
            ("[h.example]:2222", "h.example", 2222, true),
            ("[h.example]:22", "h.example", 22, true),
            ("*.example,!h.example", "h.example", 22, false),
            ("*.example,!i.example", "h.example", 22, true),
            ("?.ex*le", "h.example", 22, true),
            (&hash, "h.example", 2222, true),
            (&hash, "h.example", 22, false),
            ("|1|bad", "h.example", 22, false),
        ] {
            let verdict = ask(line(hosts, "ssh-ed25519", "mine"), host, port);
            let unknown = Verdict::Unknown { listed: Vec::new(), authority: false };
            assert_eq!(verdict, if known { Verdict::Known } else { unknown }, "{hosts} {host}:{port}");
        }
    }

    #[test]
    fn a_changed_a_revoked_and_an_unknown_key_are_told_apart() {
        let changed = ask(line("h", "ssh-ed25519", "other"), "h", 22);
        assert_eq!(changed, Verdict::Changed { place: "hosts:4".to_owned() });
        let rotated = line("h", "ssh-ed25519", "other") + &line("h", "ssh-ed25519", "mine");
        assert_eq!(ask(rotated.clone(), "h", 22), Verdict::Known);
        let revoked = rotated + &line("@revoked *", "ssh-ed25519", "mine");
        assert_eq!(ask(revoked, "h", 22), Verdict::Revoked { place: "hosts:6".to_owned() });
        let others = line("h", "ssh-rsa", "other") + &line("h", "ssh-rsa", "older");
        assert_eq!(ask(others, "h", 22), Verdict::Unknown { listed: vec!["ssh-rsa".to_owned()], authority: false });
        let authority = line("@cert-authority *", "ssh-ed25519", "mine");
        assert_eq!(ask(authority, "h", 22), Verdict::Unknown { listed: Vec::new(), authority: true });
    }

    #[test]
    fn fingerprints_are_those_of_ssh_keygen() {
        // `ssh-keygen -lf` of this public key.
        let key = STANDARD.decode("AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl").unwrap();
        assert_eq!(fingerprint(&key), "SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU");
        assert_eq!(kind(&key), Some("ssh-ed25519"));
        assert_eq!(kind(b"\xff\xff\xff\xffx"), None);
        assert_eq!(kind(b""), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_an_unlisted_key_known(text in "\\PC{0,200}") {
            let verdict = ask(text, "h", 22);
            prop_assert!(!matches!(verdict, Verdict::Known));
        }

        #[test]
        fn patterns_without_wildcards_match_themselves_alone(a in "[a-z.]{0,6}", b in "[a-z.]{0,6}") {
            prop_assert_eq!(matches(&a, &b), a == b);
            let (star, longer) = (format!("{a}*"), format!("{a}{b}"));
            prop_assert!(matches(&star, &longer));
        }
    }
}
