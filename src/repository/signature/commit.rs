//! Extracts the signature of a commit object, as git does (`parse_buffer_signed_by_header` in its commit.c). Must not
//! do I/O.
//!
//! Replaces libgit2's function, which also searches the message, stops at a NUL, and silently ignores a second
//! signature.

use super::Unverified;

/// The signature header of commits with SHA-1 IDs.
const HEADER: &[u8] = b"gpgsig ";

/// The armored signature of a commit object.
///
/// # Errors
/// When the commit has no signature or several.
pub(super) fn signature(commit: &[u8]) -> Result<Vec<u8>, Unverified> {
    let mut signatures: Vec<Vec<u8>> = Vec::new();
    let mut within = false;
    // An empty line ends the headers.
    for line in commit.split_inclusive(|byte| *byte == b'\n').take_while(|line| *line != b"\n") {
        let text = match line.strip_prefix(b" ") {
            Some(continued) => continued,
            None => {
                within = line.starts_with(HEADER);
                if within {
                    signatures.push(Vec::new());
                }
                line.strip_prefix(HEADER).unwrap_or(line)
            }
        };
        if let Some(signature) = signatures.last_mut().filter(|_| within) {
            signature.extend(text);
        }
    }
    match signatures.len() {
        0 => Err(Unverified::Unsigned),
        1 => Ok(signatures.concat()),
        _ => Err(Unverified::SeveralSignatures),
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
    fn extracts_a_header_with_continuation_lines() {
        let found = signature(&signed("gpgsig -----BEGIN\n \n line\n -----END\nencoding x")).expect("signed");
        assert_eq!(found, b"-----BEGIN\n\nline\n-----END\n");
    }

    #[test]
    fn ignores_the_signature_for_sha256() {
        assert_eq!(signature(&signed("gpgsig-sha256 other\n more\ngpgsig this")), Ok(b"this\n".to_vec()));
        assert_eq!(signature(&signed("gpgsig-sha256 other")), Err(Unverified::Unsigned));
    }

    #[test]
    fn ignores_the_message() {
        assert_eq!(signature(PLAIN.as_bytes()), Err(Unverified::Unsigned));
        assert_eq!(signature(format!("{PLAIN}gpgsig this\n").as_bytes()), Err(Unverified::Unsigned));
        assert_eq!(signature(b""), Err(Unverified::Unsigned));
    }

    #[test]
    fn rejects_two_signatures() {
        assert_eq!(signature(&signed("gpgsig one\ngpgsig two")), Err(Unverified::SeveralSignatures));
    }
}
