//! Files of one revision as names and texts. [`desired`](crate) interprets them.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use kubelet_config::finding::Finding;
use nodecfg_contract::names::CommitId;

pub mod text;

/// Maximum file size in bytes.
pub const MAX_FILE: u64 = 1 << 20;
/// Files of one commit or folder.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// YAML and JSON files by path from the root, with `/` on every platform. A folder that cannot be read, such as a
    /// submodule, is an unusable file.
    pub files: BTreeMap<String, SnapshotFile>,
    /// Commit of the files; `None` for a folder or a working tree.
    pub commit: Option<CommitId>,
    /// Number of files of the working tree with changes that the checked-out commit lacks. 0 if another revision or the
    /// working tree was requested.
    pub uncommitted: usize,
    /// Verified signer of the commit, if requested.
    pub signer: Option<Signer>,
    /// Origin of the files.
    pub source: Source,
    /// Findings about the reading, for example ignored uncommitted changes.
    pub findings: Vec<Finding>,
}

/// One file of a snapshot.
#[derive(Debug, Clone, PartialEq)]
pub enum SnapshotFile {
    /// Text without a byte order mark and with `\n` as line end.
    Text(Arc<str>),
    /// Reason why the file is unusable. The finding matters only if the file is used.
    Unusable(Box<Finding>),
}

/// Origin of the files of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A commit of a git repository.
    Commit,
    /// The working tree of a git repository, on request.
    WorkingTree,
    /// A folder outside of any git repository.
    Folder,
}

impl Snapshot {
    /// Creates a snapshot of the given texts, as if from a folder.
    #[must_use]
    pub fn of_texts<'t>(files: impl IntoIterator<Item = (&'t str, &'t str)>) -> Self {
        let files =
            files.into_iter().map(|(path, text)| (path.to_owned(), text::normalized(path, text.as_bytes()))).collect();
        Self { files, commit: None, uncommitted: 0, signer: None, source: Source::Folder, findings: Vec::new() }
    }

    /// Paths that begin with a prefix. Searches no others: a repository may have as many folders as files.
    pub fn below<'s>(&'s self, prefix: &'s str) -> impl Iterator<Item = &'s String> {
        let from = self.files.range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
        from.map(|(path, _)| path).take_while(move |path| path.starts_with(prefix))
    }

    /// Text of a file, if it exists and is usable.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<&Arc<str>> {
        match self.files.get(path)? {
            SnapshotFile::Text(text) => Some(text),
            SnapshotFile::Unusable(_) => None,
        }
    }
}

/// Kind of the key of a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SignatureKind {
    /// An OpenSSH key.
    Ssh,
    /// An OpenPGP key, as GnuPG uses.
    OpenPgp,
}

/// Signer of a commit.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Signer {
    /// Principals of the allowed-signers line, or user id of the key.
    pub name: String,
    /// Kind of the key.
    pub kind: SignatureKind,
    /// Fingerprint of the key: `SHA256:…` as ssh-keygen prints it, or hexadecimal as gpg does.
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
