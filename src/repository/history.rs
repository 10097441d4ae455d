//! Walks the commits of a folder, newest first, along first parents. Skips commits that do not change the folder,
//! except the oldest one. Reads objects only.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use git2::{Commit, Oid, Repository};
use jiff::Timestamp;

use super::git::{self, FolderLookup};
use super::merge::named_parents;
use super::{OpenOptions, RepositoryError, Snapshot};
use nodecfg_contract::names::CommitId;

/// The maximum number of visited commits.
pub const MAX_COMMITS: usize = 20_000;
/// The maximum number of commits whose content is read.
pub const MAX_READ: usize = 1_000;

/// A commit that changed the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logged {
    /// The commit ID.
    pub commit: CommitId,
    /// The commit time.
    pub time: Timestamp,
    /// The author name. Untrusted text.
    pub author: String,
    /// The first line of the message. Untrusted text.
    pub subject: String,
}

/// Reason for the end of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WalkEnd {
    /// The first commit of the repository was reached.
    Root,
    /// The visitor stopped the walk.
    Enough,
    /// Older commits are missing in a shallow clone.
    Shallow,
    /// The maximum number of visited commits, or of commits whose content is read, was reached.
    TooMany,
}

/// Calls `visit` for each commit that changed the folder and for the oldest one, with the folder's content or the
/// error of reading it. A missing folder is such an error. Verifies no signatures.
///
/// # Errors
/// When the repository or revision is missing, or git cannot read a commit.
pub fn walk(
    options: &OpenOptions,
    mut visit: impl FnMut(Logged, Result<Snapshot, RepositoryError>) -> ControlFlow<()>,
) -> Result<WalkEnd, RepositoryError> {
    let root = git::root_of(options)?;
    let repository = git::discover(&root)?.ok_or_else(|| RepositoryError::NoHistory { path: options.path.clone() })?;
    let prefix = git::folder_within(&repository, &root, options.folder.as_str());
    let failed = |source| RepositoryError::Git { operation: "walk the history", path: root.clone(), source };
    let mut commit = git::commit(&repository, &root, options.revision.as_deref())?;
    let mut read = 0;
    for _ in 0..MAX_COMMITS {
        let parent = parent(&commit);
        let folder = folder_id(&repository, &commit, &prefix).map_err(failed)?;
        let before = match &parent {
            Parent::Commit(parent) => Some(folder_id(&repository, parent, &prefix).map_err(failed)?),
            Parent::None | Parent::Missing => None,
        };
        if before != Some(folder) {
            read += 1;
            if read > MAX_READ {
                return Ok(WalkEnd::TooMany);
            }
            let snapshot = git::read_commit(&repository, &root, &prefix, commit.id(), None, None);
            if visit(logged(&commit).map_err(failed)?, snapshot).is_break() {
                return Ok(WalkEnd::Enough);
            }
        }
        commit = match parent {
            Parent::Commit(parent) => parent,
            Parent::None => return Ok(WalkEnd::Root),
            Parent::Missing => return Ok(WalkEnd::Shallow),
        };
    }
    Ok(WalkEnd::TooMany)
}

/// The subset of commits that exist in the repository, reachable or not. Empty outside of git.
///
/// # Errors
/// When the repository is unreadable.
pub fn known(
    options: &OpenOptions,
    commits: impl IntoIterator<Item = CommitId>,
) -> Result<BTreeSet<CommitId>, RepositoryError> {
    let root = git::root_of(options)?;
    let Some(repository) = git::discover(&root)? else { return Ok(BTreeSet::new()) };
    let exists = |commit: &CommitId| Oid::from_str(commit.as_str()).is_ok_and(|id| repository.find_commit(id).is_ok());
    Ok(commits.into_iter().filter(exists).collect())
}

enum Parent<'r> {
    Commit(Commit<'r>),
    None,
    /// The commit has a parent that this clone lacks.
    Missing,
}

fn parent<'r>(commit: &Commit<'r>) -> Parent<'r> {
    match commit.parent(0) {
        Ok(parent) => Parent::Commit(parent),
        Err(_) if named_parents(commit).is_empty() => Parent::None,
        Err(_) => Parent::Missing,
    }
}

/// The ID of the folder's tree. `None` if the folder is missing.
fn folder_id(repository: &Repository, commit: &Commit<'_>, prefix: &str) -> Result<Option<Oid>, git2::Error> {
    let tree = commit.tree()?;
    if prefix.is_empty() {
        return Ok(Some(tree.id()));
    }
    Ok(match git::folder_of(repository, &tree, prefix)? {
        FolderLookup::Folder(tree) => Some(tree.id()),
        FolderLookup::Submodule(_) | FolderLookup::Missing => None,
    })
}

fn logged(commit: &Commit<'_>) -> Result<Logged, git2::Error> {
    let id = CommitId::new(commit.id().to_string()).map_err(|error| git2::Error::from_str(&error.to_string()))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Logged {
        commit: id,
        time: Timestamp::from_second(commit.time().seconds()).unwrap_or_default(),
        author: text(commit.author().name_bytes()),
        subject: text(
            commit.message_bytes().split(|byte| *byte == b'\n').find(|line| !line.is_empty()).unwrap_or_default(),
        ),
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::*;
    use crate::repository::Folder;

    fn git(folder: &Path, arguments: &[&str]) {
        let mut command = Command::new("git");
        command.current_dir(folder).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        command.args(["-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "init.defaultBranch=main"]);
        let output = command.args(arguments).output().unwrap();
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn options(path: &Path, folder: &str) -> OpenOptions {
        let folder = Folder::parse(folder).unwrap();
        OpenOptions { path: path.to_owned(), folder, revision: None, worktree: false, signers: None, checkout: None }
    }

    fn walked(options: &OpenOptions, most: usize) -> (Vec<String>, WalkEnd) {
        let mut seen = Vec::new();
        let end = walk(options, |logged, snapshot| {
            let files = snapshot.map_or_else(|_| "none".to_owned(), |snapshot| snapshot.files.len().to_string());
            seen.push(format!("{}: {files}", logged.subject));
            if seen.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })
        .unwrap();
        (seen, end)
    }

    #[test]
    fn skips_commits_that_do_not_change_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        git(path, &["init", "-q"]);
        let commit = |file: &str, text: &str, subject: &str| {
            let file = path.join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
            git(path, &["add", "-A"]);
            git(path, &["commit", "-q", "-m", subject]);
        };
        commit("readme.md", "x", "first");
        commit("k8s/a.yaml", "a: 1\n", "second");
        commit("readme.md", "y", "third");
        commit("k8s/b.yaml", "b: 1\n", "fourth");
        assert_eq!(
            walked(&options(path, "k8s"), 9),
            (vec!["fourth: 2".to_owned(), "second: 1".to_owned(), "first: none".to_owned()], WalkEnd::Root)
        );
        assert_eq!(walked(&options(path, "k8s"), 1).1, WalkEnd::Enough);
        assert_eq!(walked(&options(path, ""), 9).0.len(), 4);

        // A shallow clone reports missing commits.
        let clone = tempfile::tempdir().unwrap();
        let url = format!("file://{}", path.display());
        git(clone.path(), &["clone", "-q", "--depth", "2", &url, "clone"]);
        let shallow = options(&clone.path().join("clone"), "k8s");
        assert_eq!(walked(&shallow, 9), (vec!["fourth: 2".to_owned(), "third: 1".to_owned()], WalkEnd::Shallow));

        let mut ids = Vec::new();
        walk(&options(path, ""), |logged, _| {
            ids.push(logged.commit);
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(known(&shallow, ids).unwrap().len(), 2);
    }

    #[test]
    fn folder_without_git_has_no_history() {
        let folder = tempfile::tempdir().unwrap();
        let error = walk(&options(folder.path(), ""), |_, _| ControlFlow::Continue(())).unwrap_err();
        assert!(matches!(error, RepositoryError::NoHistory { .. }), "{error}");
    }
}
