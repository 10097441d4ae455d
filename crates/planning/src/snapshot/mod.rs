//! The files of one revision as plain values: names and texts. What they mean is [`desired`](crate::desired)'s business.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use kubelet_config::finding::Finding;
use nodecfg_contract::names::CommitId;

pub mod text;

/// The most bytes of one file.
pub const MAX_FILE: u64 = 1 << 20;
/// The files of one revision, or of a folder as it is.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The YAML and JSON files, by path from the root with `/` on every platform.
    pub files: BTreeMap<String, SnapshotFile>,
    /// The commit that was read; unset when the files came from a folder.
    pub commit: Option<CommitId>,
    /// Who signed it, where that was asked for.
    pub signer: Option<Signer>,
    /// Where the files came from.
    pub source: Source,
    /// What there is to say about the reading: uncommitted changes that are not used, say.
    pub findings: Vec<Finding>,
}

/// One file of a snapshot.
#[derive(Debug, Clone)]
pub enum SnapshotFile {
    /// Its text, without a byte order mark and with `\n` for line ends.
    Text(Arc<str>),
    /// It cannot be used, and this is why. The finding matters only when something asks for the file.
    Unusable(Box<Finding>),
}

/// Where the files of a snapshot came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A commit of a git repository.
    Commit,
    /// The working tree of a git repository, because it was asked for.
    WorkingTree,
    /// A folder outside of any git repository.
    Folder,
}

impl Snapshot {
    /// A snapshot of texts that are at hand, as if they lay in a folder.
    #[must_use]
    pub fn of_texts<'t>(files: impl IntoIterator<Item = (&'t str, &'t str)>) -> Self {
        let files =
            files.into_iter().map(|(path, text)| (path.to_owned(), text::normalised(path, text.as_bytes()))).collect();
        Self { files, commit: None, signer: None, source: Source::Folder, findings: Vec::new() }
    }

    /// The text of a file, when there is one that can be used.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<&Arc<str>> {
        match self.files.get(path)? {
            SnapshotFile::Text(text) => Some(text),
            SnapshotFile::Unusable(_) => None,
        }
    }
}

/// What kind of key a signature was made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SignatureKind {
    /// A key of OpenSSH.
    Ssh,
    /// A key of OpenPGP, as GnuPG has them.
    OpenPgp,
}

/// Who signed a commit.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Signer {
    /// The principals of the line, or the user id of the key.
    pub name: String,
    /// The kind of the key.
    pub kind: SignatureKind,
    /// The fingerprint of the key that signed: `SHA256:…` as ssh-keygen writes it, or hexadecimal as gpg does.
    pub fingerprint: String,
}

impl fmt::Display for Signer {
    /// `alice@example.com (SSH key SHA256:…)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            SignatureKind::Ssh => "SSH",
            SignatureKind::OpenPgp => "OpenPGP",
        };
        write!(f, "{} ({kind} key {})", self.name, self.fingerprint)
    }
}
