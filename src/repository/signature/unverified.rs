//! Reasons why a commit is not accepted as signed by an allowed signer.

use super::super::ProgramError;
use super::{Kind, Signer};

/// Reason why a commit or its signature is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unverified {
    /// No signature.
    #[error("it is not signed")]
    Unsigned,
    /// Several signatures, which would be ambiguous.
    #[error("it has more than one signature")]
    SeveralSignatures,
    /// An X.509 signature by gpgsm.
    #[error("it has an X.509 signature, which nodecfg does not support")]
    X509,
    /// Unknown signature format.
    #[error("its signature is neither an SSH nor an OpenPGP signature")]
    UnknownFormat,
    /// Malformed signature.
    #[error("cannot read its signature: {why}")]
    Malformed {
        /// The error.
        why: String,
    },
    /// A signature for another purpose.
    #[error("its SSH signature is for {found:?}, not for git")]
    Namespace {
        /// The namespace of the signature.
        found: String,
    },
    /// The key is not among the allowed signers.
    #[error("it is signed with the {} key {key}, which is not among the allowed signers", kind_name(*.kind))]
    UnknownSigner {
        /// The kind of the key.
        kind: Kind,
        /// The fingerprint, or the part of it that the signature contains.
        key: String,
    },
    /// The signature belongs to another commit or was made with another key.
    #[error("its signature with the key {key} does not match its content")]
    Mismatch {
        /// The fingerprint.
        key: String,
    },
    /// A forgeable or unknown algorithm.
    #[error("its signature with the key {key} is not accepted: {why}")]
    Algorithm {
        /// The fingerprint.
        key: String,
        /// The reason.
        why: String,
    },
    /// The signer is allowed, but not for this commit.
    #[error("it is signed by {signer}, which is not accepted: {why}")]
    NotAllowed {
        /// The signer.
        signer: Box<Signer>,
        /// The reason.
        why: String,
    },
    /// git, gpg or ssh-keygen refuses the signature for another reason.
    #[error("its signature with the key {key} is not accepted: {why}")]
    Refused {
        /// The fingerprint.
        key: String,
        /// The message of the program.
        why: String,
    },
    /// The check failed.
    #[error("cannot check its signature: {message}")]
    Unchecked {
        /// The reason.
        message: String,
        /// The fix.
        help: String,
    },
}

impl From<ProgramError> for Unverified {
    fn from(error: ProgramError) -> Self {
        Self::Unchecked { message: error.to_string(), help: error.help() }
    }
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Ssh => "SSH",
        Kind::OpenPgp => "OpenPGP",
    }
}

impl Unverified {
    /// How to fix the error.
    #[must_use]
    pub fn help(&self) -> &str {
        match self {
            Self::Unsigned => "have an allowed signer sign the commit: git commit --amend --no-edit -S",
            Self::SeveralSignatures => "sign it once: git commit --amend --no-edit -S",
            Self::X509 | Self::UnknownFormat => {
                "sign it with an SSH or OpenPGP key (git config gpg.format ssh): git commit --amend --no-edit -S"
            }
            Self::Malformed { .. } | Self::Namespace { .. } | Self::Refused { .. } => {
                "sign it again with git: git commit --amend --no-edit -S"
            }
            Self::UnknownSigner { .. } => {
                "add the key to the file of --verify-commits if its holder may roll out changes"
            }
            Self::Mismatch { .. } => "find out who changed the commit before you sign it again",
            Self::Algorithm { .. } => {
                "sign it again with an Ed25519, ECDSA (P-256, P-384) or RSA key of at least 2048 bits and with SHA-2: \
                 git commit --amend --no-edit -S"
            }
            Self::NotAllowed { .. } => {
                "have another signer sign it, or change the entry of this signer in the file of --verify-commits"
            }
            Self::Unchecked { help, .. } => help,
        }
    }
}
