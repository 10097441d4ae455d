//! The commit that a merge commit merges into. Reads objects only.

use git2::{Commit, Oid};

use super::git;
use super::{OpenOptions, RepositoryError};
use nodecfg_contract::names::CommitId;

/// The first parent of the revision, which must be a merge commit with two parents and merge the commit `merged`.
///
/// Two parents alone do not identify such a commit. A branch that merged its target ends in a commit with two parents,
/// too; there, a comparison with the first parent would hide all earlier commits of the branch.
///
/// # Errors
/// When the repository or revision is missing, the commit is another one, or the clone lacks the first parent.
pub fn merged_into(options: &OpenOptions, merged: &CommitId) -> Result<CommitId, RepositoryError> {
    let root = git::root_of(options)?;
    let found = git::discover(&root)?;
    let repository = found.ok_or_else(|| RepositoryError::NoHistory { path: options.path.clone() })?;
    let commit = git::commit(&repository, &root, options.revision.as_deref())?;
    match named_parents(&commit).as_slice() {
        [first, second] if second == merged => {
            let exists = Oid::from_str(first.as_str()).is_ok_and(|first| repository.find_commit(first).is_ok());
            let missing = RepositoryError::NoFirstParent { path: root, parent: first.clone() };
            if exists { Ok(first.clone()) } else { Err(missing) }
        }
        _ => Err(RepositoryError::NotTheMerge { path: root, commit: git::short(commit.id()), merged: merged.clone() }),
    }
}

/// The parents that the commit names. A shallow clone may lack them, and hides those.
pub(super) fn named_parents(commit: &Commit<'_>) -> Vec<CommitId> {
    let lines = commit.raw_header_bytes().split(|byte| *byte == b'\n');
    let ids = lines.filter_map(|line| std::str::from_utf8(line.strip_prefix(b"parent ")?).ok());
    ids.filter_map(|id| CommitId::new(id).ok()).collect()
}
