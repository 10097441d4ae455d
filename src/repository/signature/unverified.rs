//! Why a commit does not count as signed by an allowed signer.

use super::super::ProgramError;
use super::{Kind, Signer};

/// Why a signature is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unverified {
    /// There is none.
    #[error("it is not signed")]
    Unsigned,
    /// There is more than one. Which of them would count?
    #[error("it carries more than one signature")]
    SeveralSignatures,
    /// An X.509 signature, as gpgsm makes them.
    #[error("it carries an X.509 signature, which nodecfg does not check")]
    X509,
    /// Nothing that is known.
    #[error("its signature is neither an SSH signature nor an OpenPGP one")]
    UnknownFormat,
    /// It cannot be read.
    #[error("its signature cannot be read: {why}")]
    Malformed {
        /// What is wrong.
        why: String,
    },
    /// It says that it is for something else.
    #[error("its SSH signature is for {found:?}, not for git")]
    Namespace {
        /// The namespace of the signature.
        found: String,
    },
    /// A key that is not among the allowed signers.
    #[error("it is signed with the {} key {key}, which is not among the allowed signers", words(*.kind))]
    UnknownSigner {
        /// The kind of the key.
        kind: Kind,
        /// Its fingerprint, or as much of it as the signature says.
        key: String,
    },
    /// The commit is not what was signed, or the signature was made by another key than it says.
    #[error("its signature with the key {key} does not match its content")]
    Mismatch {
        /// The fingerprint.
        key: String,
    },
    /// An algorithm that can be forged, or one that nodecfg does not know.
    #[error("its signature with the key {key} does not count: {why}")]
    Algorithm {
        /// The fingerprint.
        key: String,
        /// The reason.
        why: String,
    },
    /// The signer is known, and may not sign this.
    #[error("it is signed by {signer}, which does not count: {why}")]
    NotAllowed {
        /// Who.
        signer: Box<Signer>,
        /// Why not.
        why: String,
    },
    /// The program that checks it refuses it for another reason.
    #[error("its signature with the key {key} does not count: {why}")]
    Refused {
        /// The fingerprint.
        key: String,
        /// What the program reports.
        why: String,
    },
    /// It cannot be checked here.
    #[error("its signature cannot be checked: {message}")]
    Unchecked {
        /// Why not.
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

fn words(kind: Kind) -> &'static str {
    match kind {
        Kind::Ssh => "SSH",
        Kind::OpenPgp => "OpenPGP",
    }
}

impl Unverified {
    /// The fix.
    #[must_use]
    pub fn help(&self) -> &str {
        match self {
            Self::Unsigned => {
                "have an allowed signer commit it with git commit -S, or sign the tip: git commit --amend --no-edit -S. A signed tag does not count"
            }
            Self::SeveralSignatures => "sign it once: git commit --amend --no-edit -S",
            Self::X509 | Self::UnknownFormat => {
                "sign it with an SSH or OpenPGP key (git config gpg.format ssh): git commit --amend --no-edit -S"
            }
            Self::Malformed { .. } | Self::Namespace { .. } | Self::Refused { .. } => {
                "sign it anew with git: git commit --amend --no-edit -S"
            }
            Self::UnknownSigner { .. } => {
                "if the key belongs to somebody who may roll out, add it to the file of --verify-commits; otherwise find out who pushed the commit"
            }
            Self::Mismatch { .. } => {
                "the commit was changed after it was signed; do not roll it out before you know who changed it, then fetch it again or sign it anew"
            }
            Self::Algorithm { .. } => {
                "sign it anew with an Ed25519, ECDSA (P-256, P-384) or RSA key of at least 2048 bits and with SHA-2: git commit --amend --no-edit -S"
            }
            Self::NotAllowed { .. } => {
                "have another signer sign it, or change what the file of --verify-commits says of this one"
            }
            Self::Unchecked { help, .. } => help,
        }
    }
}
