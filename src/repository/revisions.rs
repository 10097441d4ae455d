//! Names of the branches and tags of a repository, for completion.

use std::collections::BTreeSet;
use std::path::Path;

use super::git;

/// The names of branches, remote branches and tags of the repository that contains the folder. Empty without a
/// repository. Omits names that are not UTF-8.
#[must_use]
pub fn revisions(folder: &Path) -> BTreeSet<String> {
    let Ok(Some(repository)) = git::discover(folder) else { return BTreeSet::new() };
    let Ok(references) = repository.references() else { return BTreeSet::new() };
    let short = |name: &str| {
        let name =
            ["refs/heads/", "refs/remotes/", "refs/tags/"].iter().find_map(|folder| name.strip_prefix(folder))?;
        Some(name.to_owned())
    };
    references.filter_map(Result::ok).filter_map(|reference| short(reference.name().ok()?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_branches_and_tags() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(revisions(folder.path()), BTreeSet::new(), "no repository");
        let repository = git2::Repository::init(folder.path()).unwrap();
        assert_eq!(revisions(folder.path()), BTreeSet::new(), "no commit");
        let person = git2::Signature::now("A", "a@example.com").unwrap();
        let tree = repository.find_tree(repository.treebuilder(None).unwrap().write().unwrap()).unwrap();
        let commit = repository.commit(None, &person, &person, "first", &tree, &[]).unwrap();
        for name in ["refs/heads/main", "refs/remotes/origin/main", "refs/tags/v1.0.0", "refs/notes/commits"] {
            repository.reference(name, commit, true, "test").unwrap();
        }
        let expected = ["main", "origin/main", "v1.0.0"].map(str::to_owned);
        let inner = folder.path().join("pools");
        std::fs::create_dir(&inner).unwrap();
        assert_eq!(revisions(&inner), BTreeSet::from(expected));
    }
}
