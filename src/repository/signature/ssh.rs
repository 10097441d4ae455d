//! Verification of SSH signatures. `git verify-commit` runs ssh-keygen with a file of the allowed signers.
//!
//! This module reads the signature only to identify its key and to reject what OpenSSH would accept. Validity is up
//! to ssh-keygen.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use ring::digest;

use super::super::program::{Programs, find};
use super::allowed_key::{AllowedKey, strings};
use super::isolated::Isolated;
use super::{Kind, Signer, Unverified};

/// The first and the last line of the armor.
pub(super) const BEGIN: &str = "-----BEGIN SSH SIGNATURE-----";
const END: &str = "-----END SSH SIGNATURE-----";
/// The first bytes of a signature: the name and version of the format (PROTOCOL.sshsig).
const MAGIC: &[u8] = b"SSHSIG\x00\x00\x00\x01";
/// The namespace of git signatures.
const NAMESPACE: &str = "git";

/// The principal that ssh-keygen gets for the signer.
const PRINCIPAL: &str = "signer";

/// The key and namespace of a signature.
struct SignatureHeader {
    key: Vec<u8>,
    namespace: String,
}

fn parse_header(armour: &str) -> Result<SignatureHeader, Unverified> {
    let malformed = |why: String| Unverified::Malformed { why };
    let body = armour.trim().strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(END));
    let body = body.ok_or_else(|| malformed(format!("it does not start with {BEGIN:?} and end with {END:?}")))?;
    let body: String = body.split_ascii_whitespace().collect();
    let bytes = STANDARD.decode(body).map_err(|error| malformed(error.to_string()))?;
    let strings = bytes.strip_prefix(MAGIC).and_then(strings);
    match strings.as_deref() {
        // Key, namespace, a reserved field, hash algorithm, and signature.
        Some([key, namespace, _, _, _]) => {
            Ok(SignatureHeader { key: key.to_vec(), namespace: String::from_utf8_lossy(namespace).into_owned() })
        }
        _ => Err(malformed("it is not an SSH signature of version 1, or it is damaged or incomplete".to_owned())),
    }
}

/// The fingerprint of a key or certificate, as printed by `ssh-keygen -l`.
fn fingerprint(key: &[u8]) -> String {
    format!("SHA256:{}", STANDARD_NO_PAD.encode(digest::digest(&digest::SHA256, key)))
}

/// Verifies a commit and returns the allowed signer.
pub(super) fn verify(
    lines: &[AllowedKey],
    armour: &str,
    commit: &[u8],
    committed_at: i64,
    programs: &Programs,
) -> Result<Signer, Unverified> {
    let SignatureHeader { key, namespace } = parse_header(armour)?;
    let print = fingerprint(&key);
    let of_key: Vec<&AllowedKey> = lines.iter().filter(|line| line.blob == key).collect();
    let Some(first) = of_key.first() else {
        // A key starts with its type.
        let kind = String::from_utf8_lossy(key.get(4..64.min(key.len())).unwrap_or_default()).into_owned();
        return Err(if kind.contains("-cert-v") {
            let why = "it uses a certificate; nodecfg supports plain keys only".to_owned();
            Unverified::Algorithm { key: print, why }
        } else {
            Unverified::UnknownSigner { kind: Kind::Ssh, key: print }
        });
    };
    if namespace != NAMESPACE {
        return Err(Unverified::Namespace { found: nodecfg_contract::printable::remark(&namespace) });
    }
    if let Some(why) = first.weakness() {
        return Err(Unverified::Algorithm { key: print, why });
    }
    let keygen = find("ssh-keygen", programs)?;
    let isolated = Isolated::new(programs, commit)?;
    let mut refused = None;
    // One line at a time, because ssh-keygen considers only the first line of a key.
    for line in of_key {
        let file = isolated.write("allowed_signers", line.for_openssh(PRINCIPAL).as_bytes())?;
        let answer = isolated.verify_commit(&[("gpg.ssh.program", &keygen), ("gpg.ssh.allowedSignersFile", &file)])?;
        let output = String::from_utf8_lossy(&answer.err);
        let signer = Signer { name: line.principals.clone(), kind: Kind::Ssh, fingerprint: print.clone() };
        let not_allowed = |why: String| Unverified::NotAllowed { signer: Box::new(signer.clone()), why };
        let why = if answer.status.success() && is_good(&output, &print) {
            match line.is_valid_at(committed_at) {
                Ok(()) => return Ok(signer),
                Err(why) => not_allowed(why),
            }
        } else if output.contains("not permitted for use in signature namespace") {
            not_allowed(format!("the key may sign for {} only, not for {NAMESPACE}", line.namespaces()))
        } else if output.contains("incorrect signature") {
            Unverified::Mismatch { key: print.clone() }
        } else {
            Unverified::Refused { key: print.clone(), why: nodecfg_contract::printable::remark(&output) }
        };
        refused.get_or_insert(why);
    }
    Err(refused.unwrap_or(Unverified::UnknownSigner { kind: Kind::Ssh, key: print }))
}

/// Reports whether ssh-keygen printed exactly `Good "git" signature for signer with ED25519 key SHA256:…`.
fn is_good(output: &str, print: &str) -> bool {
    let rest = output.strip_prefix(&format!("Good \"{NAMESPACE}\" signature for {PRINCIPAL} with "));
    let kind = rest.and_then(|rest| rest.strip_suffix(&format!(" key {print}\n")));
    kind.is_some_and(|kind| !kind.is_empty() && kind.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_exactly_the_good_signature_line() {
        let good = "Good \"git\" signature for signer with ED25519-SK key SHA256:abc\n";
        assert!(is_good(good, "SHA256:abc"));
        for other in [
            "",
            "Good \"git\" signature with ED25519 key SHA256:abc\nNo principal matched.\n",
            "Good \"file\" signature for signer with ED25519 key SHA256:abc\n",
            "Good \"git\" signature for other with ED25519 key SHA256:abc\n",
            &good.replace("abc", "abd"),
            &format!("{good}Could not verify signature.\n"),
            &format!("Could not verify signature.\n{good}"),
            &good.replace("ED25519-SK", "X\nGood"),
        ] {
            assert!(!is_good(other, "SHA256:abc"), "{other}");
        }
    }
}
