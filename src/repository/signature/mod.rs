//! Verifies that an allowed signer signed a commit.
//!
//! [`Signers`] holds a file of allowed signers: OpenSSH lines (`ssh-keygen(1)`, ALLOWED SIGNERS) and armored OpenPGP
//! public keys, mixed as needed. `git verify-commit` checks the signature in a temporary folder with only the commit
//! and these keys. Unknown formats and results are refused.

use nodecfg_fleet::snapshot::{SignatureKind as Kind, Signer};

mod allowed_key;
mod commit;
mod isolated;
mod openpgp;
#[cfg(test)]
mod packets;
mod ssh;
#[cfg(test)]
mod tests;
mod unverified;

pub use unverified::Unverified;

use super::Programs;
use allowed_key::AllowedKey;

/// The first line of an armored OpenPGP public key.
const PUBLIC_KEY: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----";
/// The last line of an armored OpenPGP public key.
const PUBLIC_KEY_END: &str = "-----END PGP PUBLIC KEY BLOCK-----";

/// The keys that may sign a commit.
#[derive(Debug, Clone)]
pub struct Signers {
    ssh: Vec<AllowedKey>,
    /// Key blocks without armor.
    openpgp: Vec<Vec<u8>>,
    programs: Programs,
}

/// Error in a line of an allowed signers file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct Malformed {
    /// The line number, from 1.
    pub line: usize,
    /// The error and its fix.
    pub message: String,
}

impl Signers {
    /// Parses an allowed signers file. `programs` locates the programs that check signatures.
    ///
    /// # Errors
    /// All errors, by line. A file without a key is an error, because no signature could ever be valid.
    pub fn parse(text: &str, programs: Programs) -> Result<Self, Vec<Malformed>> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let (mut ssh, mut openpgp, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
        let mut lines = text.lines().enumerate();
        while let Some((index, line)) = lines.next() {
            let (number, trimmed) = (index + 1, line.trim());
            if trimmed.is_empty() || trimmed.starts_with('#') {
            } else if trimmed == PUBLIC_KEY {
                let mut block = format!("{PUBLIC_KEY}\n");
                let mut ended = false;
                for (_, line) in lines.by_ref() {
                    block.push_str(line.trim_end());
                    block.push('\n');
                    ended = line.trim() == PUBLIC_KEY_END;
                    if ended {
                        break;
                    }
                }
                let read = if ended {
                    openpgp::without_armor(&block)
                } else {
                    Err(format!("the line {PUBLIC_KEY_END:?} is missing"))
                };
                match read {
                    Ok(keys) => openpgp.push(keys),
                    Err(why) => {
                        wrong.push(Malformed { line: number, message: format!("not an OpenPGP public key: {why}") })
                    }
                }
            } else if trimmed.starts_with("-----BEGIN ") {
                let end = trimmed.replacen("BEGIN", "END", 1);
                let message = if trimmed.contains("PRIVATE") || trimmed.contains("SECRET") {
                    "a private key; remove it and treat it as disclosed. Allowed signers are public keys".to_owned()
                } else {
                    format!("{trimmed} is not a public key; armored OpenPGP keys start with {PUBLIC_KEY}")
                };
                wrong.push(Malformed { line: number, message });
                // Skips the rest of the block.
                while lines.next().is_some_and(|(_, line)| line.trim() != end) {}
            } else {
                match AllowedKey::parse(trimmed) {
                    Ok(line) => ssh.push(line),
                    Err(message) => wrong.push(Malformed { line: number, message }),
                }
            }
        }
        if wrong.is_empty() && ssh.is_empty() && openpgp.is_empty() {
            wrong.push(Malformed { line: 1, message: "the file contains no key".to_owned() });
        }
        if wrong.is_empty() { Ok(Self { ssh, openpgp, programs }) } else { Err(wrong) }
    }

    /// Verifies a commit object and returns its signer. `committed_at` is the committer date in seconds since 1970.
    /// As in git, keys must be valid at that time.
    ///
    /// # Errors
    /// When no allowed signer signed the commit, or the signature cannot be checked.
    pub fn verify(&self, commit: &[u8], committed_at: i64) -> Result<Signer, Unverified> {
        let signature = commit::signature(commit)?;
        let text = std::str::from_utf8(&signature).map_err(|_| Unverified::UnknownFormat)?;
        let begins = |label: &str| text.matches(label).count();
        let (ssh, openpgp) = (begins(ssh::BEGIN), begins(openpgp::BEGIN));
        let x509 = begins("-----BEGIN SIGNED MESSAGE-----");
        match (ssh, openpgp, x509) {
            (1, 0, 0) => ssh::verify(&self.ssh, text, commit, committed_at, &self.programs),
            (0, 1, 0) => openpgp::verify(&self.openpgp, commit, committed_at, &self.programs),
            (0, 0, 0) => Err(Unverified::UnknownFormat),
            (0, 0, 1) => Err(Unverified::X509),
            _ => Err(Unverified::SeveralSignatures),
        }
    }
}
