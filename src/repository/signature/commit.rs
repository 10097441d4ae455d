//! A commit taken apart into its signature and what was signed, as git does (`parse_buffer_signed_by_header` in its
//! commit.c).
//!
//! libgit2 has a function for this. It looks for the header in the message too, stops at a NUL, and takes the first of two
//! signatures without saying that there is a second; so the bytes are taken apart here.

use super::{Signer, Signers, Unverified};

/// The header that carries the signature of a commit whose id is SHA-1.
const HEADER: &[u8] = b"gpgsig ";
/// How all headers with signatures begin: none of them is part of what was signed.
const HEADERS: &[u8] = b"gpgsig";

/// A commit as two texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedCommit {
    /// The armoured signature.
    pub signature: Vec<u8>,
    /// The commit without it.
    pub payload: Vec<u8>,
}

impl SignedCommit {
    /// Takes a commit object apart.
    ///
    /// # Errors
    /// When it has no signature, or several.
    pub fn of(commit: &[u8]) -> Result<Self, Unverified> {
        let mut payload = Vec::with_capacity(commit.len());
        let mut signatures: Vec<Vec<u8>> = Vec::new();
        let (mut in_signature, mut in_other) = (false, false);
        let mut rest = commit;
        while !rest.is_empty() {
            let end = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |at| at + 1);
            let (line, after) = rest.split_at_checked(end).unwrap_or((rest, &[]));
            if line == b"\n" {
                // The message, whatever it says.
                payload.extend(rest);
                break;
            }
            let continued = line.starts_with(b" ");
            if !continued {
                in_signature = line.starts_with(HEADER);
                in_other = !in_signature && line.starts_with(HEADERS);
                if in_signature {
                    signatures.push(Vec::new());
                }
            }
            match signatures.last_mut() {
                Some(signature) if in_signature => {
                    signature.extend(line.strip_prefix(if continued { &b" "[..] } else { HEADER }).unwrap_or(line));
                }
                _ if in_other => {}
                _ => payload.extend(line),
            }
            rest = after;
        }
        match signatures.len() {
            0 => Err(Unverified::Unsigned),
            1 => Ok(Self { signature: signatures.concat(), payload }),
            _ => Err(Unverified::SeveralSignatures),
        }
    }

    /// Whether an allowed signer signed it.
    ///
    /// # Errors
    /// Why not.
    pub fn verify(&self, signers: &Signers, committed_at: i64) -> Result<Signer, Unverified> {
        signers.verify(&self.signature, &self.payload, committed_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = "tree 0\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nMessage\n";

    fn signed(header: &str) -> Vec<u8> {
        PLAIN.replacen("\n\n", &format!("\n{header}\n\n"), 1).into_bytes()
    }

    #[test]
    fn the_signature_and_the_rest_make_the_commit() {
        let taken = SignedCommit::of(&signed("gpgsig -----BEGIN\n \n line\n -----END")).expect("signed");
        assert_eq!(taken.signature, b"-----BEGIN\n\nline\n-----END\n");
        assert_eq!(taken.payload, PLAIN.as_bytes());
    }

    #[test]
    fn the_signature_of_the_other_hash_belongs_to_neither() {
        let taken = SignedCommit::of(&signed("gpgsig-sha256 other\n more\ngpgsig this")).expect("signed");
        assert_eq!((taken.signature.as_slice(), taken.payload.as_slice()), (&b"this\n"[..], PLAIN.as_bytes()));
        assert_eq!(SignedCommit::of(&signed("gpgsig-sha256 other")), Err(Unverified::Unsigned));
    }

    #[test]
    fn a_message_signs_nothing() {
        assert_eq!(SignedCommit::of(PLAIN.as_bytes()), Err(Unverified::Unsigned));
        assert_eq!(SignedCommit::of(format!("{PLAIN}gpgsig this\n").as_bytes()), Err(Unverified::Unsigned));
        assert_eq!(SignedCommit::of(b""), Err(Unverified::Unsigned));
    }

    #[test]
    fn two_signatures_are_too_many() {
        assert_eq!(SignedCommit::of(&signed("gpgsig one\ngpgsig two")), Err(Unverified::SeveralSignatures));
    }
}
