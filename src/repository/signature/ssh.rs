//! Signatures of `ssh-keygen -Y sign` (PROTOCOL.sshsig of OpenSSH): the armour, the format, and the algorithms.
//!
//! Knows nothing of who may sign what.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use ring::digest;
use ring::signature::{self as algorithms, RsaPublicKeyComponents, UnparsedPublicKey};

use super::Unverified;
use super::wire::{Reader, put_string};

/// How the armour begins.
pub(super) const BEGIN: &str = "-----BEGIN SSH SIGNATURE-----";
const END: &str = "-----END SSH SIGNATURE-----";
/// What git signs for.
pub(super) const NAMESPACE: &str = "git";
const MAGIC: &[u8] = b"SSHSIG";
const VERSION: u32 = 1;
/// The least bits of an RSA key.
const RSA_BITS: usize = 2048;

/// A public key that can be checked against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Key<'a> {
    Ed25519(&'a [u8]),
    /// Within a security key, which adds what it was asked for.
    SkEd25519 {
        key: &'a [u8],
        application: &'a [u8],
    },
    Ecdsa {
        curve: Curve,
        point: &'a [u8],
    },
    SkEcdsa {
        point: &'a [u8],
        application: &'a [u8],
    },
    Rsa {
        e: &'a [u8],
        n: &'a [u8],
    },
    /// Well known, and not checked here. It may be listed; what it signs does not count.
    Unsupported(&'a str),
}

/// The curves of ECDSA that are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Curve {
    P256,
    P384,
}

impl Curve {
    /// How long a coordinate is, in bytes.
    fn size(self) -> usize {
        match self {
            Self::P256 => 32,
            Self::P384 => 48,
        }
    }

    fn algorithm(self) -> &'static algorithms::EcdsaVerificationAlgorithm {
        match self {
            Self::P256 => &algorithms::ECDSA_P256_SHA256_FIXED,
            Self::P384 => &algorithms::ECDSA_P384_SHA384_FIXED,
        }
    }
}

impl<'a> Key<'a> {
    /// Reads a key from its form on the wire.
    pub(super) fn parse(blob: &'a [u8]) -> Result<Self, String> {
        let mut reader = Reader(blob);
        let kind = reader.text().unwrap_or_default();
        let key = match kind {
            "ssh-ed25519" => reader.string().filter(|key| key.len() == 32).map(Key::Ed25519),
            "sk-ssh-ed25519@openssh.com" => reader
                .string()
                .filter(|key| key.len() == 32)
                .zip(reader.string())
                .map(|(key, application)| Key::SkEd25519 { key, application }),
            "ecdsa-sha2-nistp256" => {
                point(&mut reader, "nistp256", Curve::P256).map(|point| Key::Ecdsa { curve: Curve::P256, point })
            }
            "ecdsa-sha2-nistp384" => {
                point(&mut reader, "nistp384", Curve::P384).map(|point| Key::Ecdsa { curve: Curve::P384, point })
            }
            "sk-ecdsa-sha2-nistp256@openssh.com" => point(&mut reader, "nistp256", Curve::P256)
                .zip(reader.string())
                .map(|(point, application)| Key::SkEcdsa { point, application }),
            "ssh-rsa" => reader.positive().zip(reader.positive()).map(|(e, n)| Key::Rsa { e, n }),
            "" => return Err("it does not say its type".to_owned()),
            other => return Ok(Key::Unsupported(other)),
        };
        key.filter(|_| reader.end().is_some()).ok_or_else(|| "it is damaged or cut short".to_owned())
    }
}

/// A point of a curve: 4, then both coordinates.
fn point<'a>(reader: &mut Reader<'a>, name: &str, curve: Curve) -> Option<&'a [u8]> {
    if reader.text() != Some(name) {
        return None;
    }
    reader.string().filter(|point| point.len() == 1 + 2 * curve.size() && point.first() == Some(&4))
}

/// A signature as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Signature {
    /// The public key that it names, on the wire.
    pub(super) key: Vec<u8>,
    namespace: String,
    reserved: Vec<u8>,
    hash: String,
    /// The algorithm and what it made, on the wire.
    signature: Vec<u8>,
}

impl Signature {
    /// Takes off the armour and reads the format.
    pub(super) fn parse(armour: &str) -> Result<Self, String> {
        let body = armour
            .trim()
            .strip_prefix(BEGIN)
            .and_then(|rest| rest.strip_suffix(END))
            .ok_or_else(|| format!("it does not begin with {BEGIN:?} and end with {END:?}"))?;
        let body: String = body.split(['\n', '\r', ' ', '\t']).collect();
        let bytes = STANDARD.decode(body).map_err(|error| error.to_string())?;
        Self::decode(&bytes)
    }

    fn decode(bytes: &[u8]) -> Result<Self, String> {
        let mut reader = Reader(bytes);
        if reader.take(MAGIC.len()) != Some(MAGIC) {
            return Err("it is no SSH signature".to_owned());
        }
        let version = reader.number();
        if version != Some(VERSION) {
            return Err(format!("its version is {}, and {VERSION} is known", version.unwrap_or_default()));
        }
        let mut read = || {
            let signature = Self {
                key: reader.string()?.to_vec(),
                namespace: reader.text()?.to_owned(),
                reserved: reader.string()?.to_vec(),
                hash: reader.text()?.to_owned(),
                signature: reader.string()?.to_vec(),
            };
            reader.end()?;
            Some(signature)
        };
        read().ok_or_else(|| "it is damaged or cut short".to_owned())
    }

    /// The fingerprint of its key, as `ssh-keygen -l` writes it.
    pub(super) fn fingerprint(&self) -> String {
        format!("SHA256:{}", STANDARD_NO_PAD.encode(digest::digest(&digest::SHA256, &self.key)))
    }

    /// Whether it names a certificate in place of a key.
    pub(super) fn has_certificate(&self) -> bool {
        matches!(Key::parse(&self.key), Ok(Key::Unsupported(kind)) if kind.contains("-cert-"))
    }

    /// Whether its key made it over `payload`, for git.
    pub(super) fn verify(&self, payload: &[u8]) -> Result<(), Unverified> {
        if self.namespace != NAMESPACE {
            return Err(Unverified::Namespace { found: self.namespace.clone() });
        }
        let refused = |why: String| Unverified::Algorithm { key: self.fingerprint(), why };
        let hash = match self.hash.as_str() {
            "sha256" => &digest::SHA256,
            "sha512" => &digest::SHA512,
            other => return Err(refused(format!("it hashes with {other:?}"))),
        };
        let mut message = MAGIC.to_vec();
        put_string(&mut message, self.namespace.as_bytes());
        put_string(&mut message, &self.reserved);
        put_string(&mut message, self.hash.as_bytes());
        put_string(&mut message, digest::digest(hash, payload).as_ref());
        let malformed = |why: &str| Unverified::Malformed { why: why.to_owned() };
        let key = Key::parse(&self.key).map_err(|why| Unverified::Malformed { why })?;
        let mut reader = Reader(&self.signature);
        let damaged = || malformed("it is damaged or cut short");
        let algorithm = reader.text().ok_or_else(damaged)?;
        let made = reader.string().ok_or_else(damaged)?;
        let matches = match (&key, algorithm) {
            (Key::Ed25519(key), "ssh-ed25519") => {
                reader.end().ok_or_else(damaged)?;
                checks(&algorithms::ED25519, key, &message, made)
            }
            (Key::SkEd25519 { key, application }, "sk-ssh-ed25519@openssh.com") => {
                let message = of_security_key(application, &mut reader, &message).ok_or_else(damaged)?;
                checks(&algorithms::ED25519, key, &message, made)
            }
            (Key::Ecdsa { curve, point }, "ecdsa-sha2-nistp256" | "ecdsa-sha2-nistp384")
                if algorithm.ends_with(if *curve == Curve::P256 { "256" } else { "384" }) =>
            {
                reader.end().ok_or_else(damaged)?;
                checks(curve.algorithm(), point, &message, &fixed(made, *curve).ok_or_else(damaged)?)
            }
            (Key::SkEcdsa { point, application }, "sk-ecdsa-sha2-nistp256@openssh.com") => {
                let message = of_security_key(application, &mut reader, &message).ok_or_else(damaged)?;
                let made = fixed(made, Curve::P256).ok_or_else(damaged)?;
                checks(Curve::P256.algorithm(), point, &message, &made)
            }
            (Key::Rsa { e, n }, "rsa-sha2-256" | "rsa-sha2-512") => {
                reader.end().ok_or_else(damaged)?;
                let bits = n.len() * 8 - n.first().map_or(0, |first| first.leading_zeros() as usize);
                if bits < RSA_BITS {
                    return Err(refused(format!("its RSA key has {bits} bits, and {RSA_BITS} are the least")));
                }
                let parameters = if algorithm == "rsa-sha2-256" {
                    &algorithms::RSA_PKCS1_2048_8192_SHA256
                } else {
                    &algorithms::RSA_PKCS1_2048_8192_SHA512
                };
                let made = padded(made, n.len()).ok_or_else(damaged)?;
                RsaPublicKeyComponents { n, e }.verify(parameters, &message, &made).is_ok()
            }
            (Key::Rsa { .. }, "ssh-rsa") => {
                return Err(refused("it is made with SHA-1, which can be forged".to_owned()));
            }
            (Key::Unsupported(kind), _) => {
                return Err(refused(format!("nodecfg cannot check keys of the type {kind:?}")));
            }
            _ => return Err(malformed(&format!("its algorithm {algorithm:?} is not one of its key's"))),
        };
        if matches { Ok(()) } else { Err(Unverified::Mismatch { key: self.fingerprint() }) }
    }
}

fn checks(algorithm: &'static dyn algorithms::VerificationAlgorithm, key: &[u8], message: &[u8], made: &[u8]) -> bool {
    UnparsedPublicKey::new(algorithm, key).verify(message, made).is_ok()
}

/// What a security key signs in place of the message (PROTOCOL.u2f): its flags and counter come after the signature.
fn of_security_key(application: &[u8], reader: &mut Reader<'_>, message: &[u8]) -> Option<Vec<u8>> {
    let flags_and_counter = reader.take(5)?;
    reader.end()?;
    let mut signed = digest::digest(&digest::SHA256, application).as_ref().to_vec();
    signed.extend(flags_and_counter);
    signed.extend(digest::digest(&digest::SHA256, message).as_ref());
    Some(signed)
}

/// An ECDSA signature of two numbers, as one of fixed length.
fn fixed(made: &[u8], curve: Curve) -> Option<Vec<u8>> {
    let mut reader = Reader(made);
    let (r, s) = (reader.positive()?, reader.positive()?);
    reader.end()?;
    let mut fixed = padded(r, curve.size())?;
    fixed.extend(padded(s, curve.size())?);
    Some(fixed)
}

/// With zeros in front.
fn padded(digits: &[u8], length: usize) -> Option<Vec<u8>> {
    let mut padded = vec![0; length.checked_sub(digits.len())?];
    padded.extend(digits);
    Some(padded)
}
