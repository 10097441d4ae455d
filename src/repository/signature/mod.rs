//! Who may sign the commit that is rolled out, and whether one of them has.
//!
//! [`Signers`] is what a file of allowed signers says: OpenSSH's lines (`ssh-keygen(1)`, ALLOWED SIGNERS) and armoured
//! OpenPGP public keys, both in one file if need be. `git verify-commit` checks the signature, in a folder of its own that holds
//! the commit and these keys and nothing else. What is not understood never counts as signed.

use nodecfg_planning::snapshot::{SignatureKind as Kind, Signer};

mod allowed;
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
use allowed::Line;

/// The first line of an armoured OpenPGP public key.
const PUBLIC_KEY: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----";
/// Its last line.
const PUBLIC_KEY_END: &str = "-----END PGP PUBLIC KEY BLOCK-----";

/// The keys that may sign a commit.
#[derive(Debug, Clone)]
pub struct Signers {
    ssh: Vec<Line>,
    /// Blocks of keys without their armour.
    openpgp: Vec<Vec<u8>>,
    programs: Programs,
}

/// What is wrong with a line of a file of allowed signers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct Malformed {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it, and what to do.
    pub message: String,
}

impl Signers {
    /// Reads a file of allowed signers. `programs` is where those are that check signatures.
    ///
    /// # Errors
    /// Everything that is wrong with it, by line. A file without a key is wrong too: nothing could ever be signed.
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
                let read =
                    if ended { openpgp::without_armour(&block) } else { Err(format!("it has no {PUBLIC_KEY_END:?}")) };
                match read {
                    Ok(keys) => openpgp.push(keys),
                    Err(why) => {
                        wrong.push(Malformed { line: number, message: format!("not an OpenPGP public key: {why}") })
                    }
                }
            } else if trimmed.starts_with("-----BEGIN ") {
                let end = trimmed.replacen("BEGIN", "END", 1);
                let message = if trimmed.contains("PRIVATE") || trimmed.contains("SECRET") {
                    "a private key; take it out and treat it as disclosed. Allowed signers are public keys".to_owned()
                } else {
                    format!("{trimmed} is no key; armoured OpenPGP keys begin with {PUBLIC_KEY}")
                };
                wrong.push(Malformed { line: number, message });
                // Its lines are none of their own.
                while lines.next().is_some_and(|(_, line)| line.trim() != end) {}
            } else {
                match Line::parse(trimmed) {
                    Ok(line) => ssh.push(line),
                    Err(message) => wrong.push(Malformed { line: number, message }),
                }
            }
        }
        if wrong.is_empty() && ssh.is_empty() && openpgp.is_empty() {
            wrong.push(Malformed {
                line: 1,
                message: "the file holds no key, so that nothing could be signed".to_owned(),
            });
        }
        if wrong.is_empty() { Ok(Self { ssh, openpgp, programs }) } else { Err(wrong) }
    }

    /// Who of these signers signed a commit object. `committed_at` is the committer's date in seconds since 1970: the time at
    /// which git, too, asks whether a key is valid.
    ///
    /// # Errors
    /// Why none of them has, or why that cannot be checked.
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
