//! Parser for a line of OpenSSH's allowed signers file: `principals [options] keytype base64-key [comment]`
//! (`ssh-keygen(1)`, ALLOWED SIGNERS).
//!
//! Differences from OpenSSH are reported as errors: times must be in UTC, because local times depend on the machine,
//! and certificates and certificate authorities are not supported.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// The minimum size of an RSA key, in bits.
pub(super) const RSA_BITS: usize = 2048;

/// A key with its restrictions. OpenSSH checks the namespaces. nodecfg checks the times, because old OpenSSH versions
/// do not read them in UTC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AllowedKey {
    /// The holders of the key, as in the file.
    pub(super) principals: String,
    /// The type of the key.
    pub(super) kind: String,
    /// The public key in wire format.
    pub(super) blob: Vec<u8>,
    /// Patterns of the allowed namespaces. Unset: all.
    namespaces: Option<String>,
    /// In seconds since 1970, like `valid_before`.
    valid_after: Option<i64>,
    valid_before: Option<i64>,
}

impl AllowedKey {
    /// Parses a line that is neither empty nor a comment.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (principals, rest) = next_word(text)?;
        let principals = unquoted(principals).to_owned();
        if principals.is_empty() {
            return Err("the principals before the key are missing".to_owned());
        }
        let mut line = Self {
            principals,
            kind: String::new(),
            blob: Vec::new(),
            namespaces: None,
            valid_after: None,
            valid_before: None,
        };
        let (first, after) = next_word(rest)?;
        let (kind, rest) = if is_key_type(first) {
            (first, after)
        } else if first.is_empty() {
            return Err(
                "the key after the principals is missing; the format is `principals [options] keytype key`".to_owned()
            );
        } else {
            line.options(first)?;
            next_word(after)?
        };
        if !is_key_type(kind) {
            return Err(format!(
                "{kind:?} is not a key type such as ssh-ed25519; the format is `principals [options] keytype key`"
            ));
        }
        if kind.contains("-cert-") {
            return Err("certificates are not supported; list the plain public key".to_owned());
        }
        let (key, _comment) = next_word(rest)?;
        line.blob =
            STANDARD.decode(key).map_err(|_| format!("the {kind} key is not valid base64; is the line complete?"))?;
        let strings = strings(&line.blob)
            .ok_or_else(|| format!("the {kind} key is damaged or incomplete; is the line complete?"))?;
        if strings.first().copied() != Some(kind.as_bytes()) {
            return Err(format!("the key is not of the stated type {kind}; is the line complete?"));
        }
        line.kind = kind.to_owned();
        Ok(line)
    }

    fn options(&mut self, text: &str) -> Result<(), String> {
        for option in split(text, ',') {
            let (name, value) = option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value)));
            let value = match value.map(|value| value.strip_prefix('"').and_then(|value| value.strip_suffix('"'))) {
                None => None,
                Some(Some(value)) => Some(value),
                Some(None) => return Err(format!("the value of {name} must be in double quotes")),
            };
            let check_duplicate = |taken: bool| if taken { Err(format!("duplicate option {name}")) } else { Ok(()) };
            match (name.to_ascii_lowercase().as_str(), value) {
                ("namespaces", Some(value)) => {
                    check_duplicate(self.namespaces.is_some())?;
                    if value.contains(['"', '\\']) {
                        return Err(format!("the value of {name} contains a quote or a backslash"));
                    }
                    self.namespaces = Some(value.to_owned());
                }
                ("valid-after", Some(value)) => {
                    check_duplicate(self.valid_after.is_some())?;
                    self.valid_after = Some(parse_time(name, value)?);
                }
                ("valid-before", Some(value)) => {
                    check_duplicate(self.valid_before.is_some())?;
                    self.valid_before = Some(parse_time(name, value)?);
                }
                ("cert-authority", None) => {
                    return Err("cert-authority is not supported; list the signers' own public keys".to_owned());
                }
                _ => {
                    return Err(format!(
                        "{option:?} is neither a key type nor an option; options are namespaces=\"…\", \
                         valid-after=\"…\" and valid-before=\"…\", separated by commas"
                    ));
                }
            }
        }
        if let (Some(after), Some(before)) = (self.valid_after, self.valid_before)
            && after >= before
        {
            return Err("valid-after is not before valid-before; the key is never valid".to_owned());
        }
        Ok(())
    }

    /// The line for ssh-keygen, with this principal.
    pub(super) fn for_openssh(&self, principal: &str) -> String {
        let namespaces = self.namespaces.as_ref().map(|patterns| format!("namespaces=\"{patterns}\" "));
        format!("{principal} {}{} {}\n", namespaces.unwrap_or_default(), self.kind, STANDARD.encode(&self.blob))
    }

    /// The namespaces option, as in the file.
    pub(super) fn namespaces(&self) -> String {
        format!("namespaces={:?}", self.namespaces.as_deref().unwrap_or_default())
    }

    /// Why signatures of the key are never accepted. `None` for a strong key.
    pub(super) fn weakness(&self) -> Option<String> {
        match self.kind.as_str() {
            "ssh-ed25519"
            | "sk-ssh-ed25519@openssh.com"
            | "ecdsa-sha2-nistp256"
            | "ecdsa-sha2-nistp384"
            | "sk-ecdsa-sha2-nistp256@openssh.com" => None,
            "ssh-rsa" => {
                let modulus = strings(&self.blob).and_then(|strings| strings.get(2).copied()).unwrap_or_default();
                let zeros = modulus.iter().take_while(|byte| **byte == 0).count();
                let first = modulus.get(zeros).map_or(0, |first| first.leading_zeros() as usize);
                let bits = ((modulus.len() - zeros) * 8).saturating_sub(first);
                (bits < RSA_BITS).then(|| format!("its RSA key has {bits} bits; the minimum is {RSA_BITS}"))
            }
            other => Some(format!("nodecfg does not accept keys of the type {other:?}")),
        }
    }

    /// Checks that the key is valid at a time. The error is the reason.
    pub(super) fn is_valid_at(&self, time: i64) -> Result<(), String> {
        if self.valid_after.is_some_and(|after| time < after) {
            return Err("the commit's date is before the key's valid-after".to_owned());
        }
        if self.valid_before.is_some_and(|before| time >= before) {
            return Err("the commit's date is not before the key's valid-before".to_owned());
        }
        Ok(())
    }
}

/// Reports whether a word starts like an OpenSSH key type.
fn is_key_type(word: &str) -> bool {
    ["ssh-", "ecdsa-sha2-", "sk-ssh-", "sk-ecdsa-"].iter().any(|prefix| word.starts_with(prefix))
}

/// The first word and the rest. Blanks in double quotes do not separate words.
fn next_word(text: &str) -> Result<(&str, &str), String> {
    let text = text.trim_start();
    let mut quoted = false;
    for (at, letter) in text.char_indices() {
        match letter {
            '"' => quoted = !quoted,
            ' ' | '\t' if !quoted => return Ok(text.split_at(at)),
            _ => {}
        }
    }
    if quoted { Err("a closing double quote is missing".to_owned()) } else { Ok((text, "")) }
}

fn unquoted(word: &str) -> &str {
    word.strip_prefix('"').and_then(|word| word.strip_suffix('"')).unwrap_or(word)
}

/// Splits at separators outside of double quotes.
fn split(text: &str, separator: char) -> Vec<&str> {
    let mut quoted = false;
    text.split(move |letter| {
        quoted ^= letter == '"';
        letter == separator && !quoted
    })
    .collect()
}

/// Parses `YYYYMMDDZ`, `YYYYMMDDHHMMZ` or `YYYYMMDDHHMMSSZ`.
fn parse_time(option: &str, text: &str) -> Result<i64, String> {
    let wrong = || format!("{option}={text:?} is not a time; use YYYYMMDDZ, YYYYMMDDHHMMZ or YYYYMMDDHHMMSSZ");
    let Some(digits) = text.strip_suffix('Z').or_else(|| text.strip_suffix('z')) else {
        return Err(if text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty() {
            format!("{option}={text:?} depends on the time zone of the machine; append Z for UTC: {text}Z")
        } else {
            wrong()
        });
    };
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) || !matches!(digits.len(), 8 | 12 | 14) {
        return Err(wrong());
    }
    let field =
        |from: usize, to: usize| -> Option<i8> { digits.get(from..to).map_or(Some(0), |digits| digits.parse().ok()) };
    let parsed = || {
        let year = digits.get(..4)?.parse().ok()?;
        let civil = DateTime::new(year, field(4, 6)?, field(6, 8)?, field(8, 10)?, field(10, 12)?, field(12, 14)?, 0);
        Some(civil.ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second())
    };
    parsed().ok_or_else(wrong)
}

/// The strings of a key or signature: each is a length in four bytes, then the bytes.
pub(super) fn strings(mut bytes: &[u8]) -> Option<Vec<&[u8]>> {
    let mut strings = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let (string, rest) = rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
        strings.push(string);
        bytes = rest;
    }
    bytes.is_empty().then_some(strings)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE6bZ5ZrJpS4M0pX9hzQx9Jt7m8v0yTqk1nS3c2a1b0d";

    #[test]
    fn parses_lines_as_ssh_keygen() {
        let plain = AllowedKey::parse(&format!("a@b,c@d {KEY} a comment")).expect("a line");
        assert_eq!(plain.principals, "a@b,c@d");
        assert_eq!(plain.is_valid_at(0), Ok(()));
        assert_eq!(plain.for_openssh("key-0"), format!("key-0 {KEY}\n"));
        let line = format!(
            "\"a b@c\"\tnamespaces=\"file,g?t\",valid-after=\"20240102Z\",valid-before=\"202401030405Z\" {KEY}"
        );
        let line = AllowedKey::parse(&line).expect("a line with options");
        assert_eq!(line.principals, "a b@c");
        let start = 1_704_153_600;
        assert_eq!(line.for_openssh("key-1"), format!("key-1 namespaces=\"file,g?t\" {KEY}\n"));
        assert_eq!(line.is_valid_at(start), Ok(()));
        assert_eq!(line.is_valid_at(start + 86_400 + 4 * 3600 + 5 * 60 - 1), Ok(()));
        assert!(line.is_valid_at(start - 1).is_err_and(|why| why.contains("valid-after")));
        assert!(line.is_valid_at(start + 86_400 + 4 * 3600 + 5 * 60).is_err_and(|why| why.contains("valid-before")));
    }

    #[test]
    fn rejects_invalid_lines_with_a_reason() {
        for (line, says) in [
            ("a@b".to_owned(), "key after the principals is missing"),
            (KEY.to_owned(), "is neither a key type nor an option"),
            (format!("a@b cert-authority {KEY}"), "cert-authority is not supported"),
            (format!("a@b namespaces=git {KEY}"), "double quotes"),
            (format!("a@b namespaces=\"git {KEY}"), "closing double quote"),
            (format!("a@b namespaces=\"git\\\" {KEY}"), "backslash"),
            (format!("a@b restrict {KEY}"), "neither a key type nor an option"),
            (format!("a@b valid-after=\"20240101\" {KEY}"), "append Z"),
            (format!("a@b valid-after=\"20240231Z\" {KEY}"), "is not a time"),
            (format!("a@b valid-after=\"tomorrow\" {KEY}"), "is not a time"),
            (format!("a@b valid-after=\"20240102Z\",valid-before=\"20240102Z\" {KEY}"), "never valid"),
            (format!("a@b namespaces=\"a\",namespaces=\"git\" {KEY}"), "duplicate option"),
            ("a@b ssh-ed25519 AAAA!".to_owned(), "not valid base64"),
            (format!("a@b {}", &KEY[..60]), "damaged or incomplete"),
            (format!("a@b {}", KEY.replace("ssh-ed25519 ", "ssh-rsa ")), "not of the stated type ssh-rsa"),
            ("a@b ssh-ed25519-cert-v01@openssh.com AAAA".to_owned(), "certificate"),
        ] {
            let error = AllowedKey::parse(&line).expect_err(&line);
            assert!(error.contains(says), "{line}: {error}");
        }
    }

    #[test]
    fn parses_strings_by_their_lengths() {
        assert_eq!(strings(b"\0\0\0\x03git\0\0\0\0"), Some(vec![&b"git"[..], b""]));
        assert_eq!(strings(b""), Some(vec![]));
        for cut in [&b"\0\0\0\x04git"[..], b"\0\0\0", b"\xff\xff\xff\xffgit", b"\0\0\0\x03git\x01"] {
            assert_eq!(strings(cut), None, "{cut:?}");
        }
    }
}
