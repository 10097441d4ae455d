//! New revisions of the compared repository, for `status --watch`.

use std::time::Duration;

use futures::{Stream, stream};

use crate::arguments::repository::{Loaded, RepositoryArgs};
use crate::doctor::Unavailable;
use crate::terminal::failure::CommandError;
use nodecfg_contract::names::CommitId;
use nodecfg_fleet::snapshot::Snapshot;

/// Interval between looks at a local repository.
const LOCAL: Duration = Duration::from_secs(5);
/// Interval between reads from a git server.
const REMOTE: Duration = Duration::from_secs(60);

/// The later states of a repository, starting after `first`: each with other files, and each problem once. Never ends.
pub(super) fn revisions(
    repository: &RepositoryArgs,
    first: Snapshot,
) -> impl Stream<Item = Result<Loaded, CommandError>> + '_ {
    let interval = if repository.is_remote() { REMOTE } else { LOCAL };
    stream::unfold(Followed::new(first), move |mut followed| async move {
        loop {
            tokio::time::sleep(interval).await;
            if let Some(found) = followed.look(repository).await {
                return Some((found, followed));
            }
        }
    })
}

/// What is known of a repository.
struct Followed {
    /// The last valid files.
    last: Snapshot,
    /// The commit that was read last, valid or not. Reading a large repository takes long, so it is not read again.
    read: Option<CommitId>,
    /// The last problem, unless valid files were read since.
    problem: Option<String>,
}

impl Followed {
    fn new(first: Snapshot) -> Self {
        Self { read: first.commit.clone(), last: first, problem: None }
    }

    /// Looks at the repository again. `None` without a new state or problem.
    async fn look(&mut self, repository: &RepositoryArgs) -> Option<Result<Loaded, CommandError>> {
        let commit = match repository.commit().await {
            Ok(commit) => commit,
            Err(failure) => return self.failed(None, failure),
        };
        if commit.is_some() && commit == self.read {
            return None;
        }
        // After a problem, files as before are news, too.
        match repository.reload(Some(&self.last).filter(|_| self.problem.is_none())).await {
            Ok(None) => None,
            Ok(Some(loaded)) => {
                *self = Self::new(loaded.snapshot.clone());
                Some(Ok(loaded))
            }
            Err(failure) => {
                let is_invalid = matches!(failure, CommandError::Invalid { .. });
                self.failed(commit.filter(|_| is_invalid), failure)
            }
        }
    }

    /// Records a problem. Returns it if it is new.
    fn failed(&mut self, read: Option<CommitId>, failure: CommandError) -> Option<Result<Loaded, CommandError>> {
        self.read = read;
        let problem = Some(Unavailable::of(&failure).message);
        if self.problem == problem {
            return None;
        }
        self.problem = problem;
        Some(Err(failure))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;

    /// A repository whose only pool sets `maxPods` to each of these values, in one commit each.
    fn repository(folder: &Path, values: &[&str]) -> Vec<git2::Oid> {
        let repository = git2::Repository::init(folder).unwrap();
        let person = git2::Signature::now("A", "a@example.com").unwrap();
        let mut commits: Vec<git2::Oid> = Vec::new();
        for value in values {
            fs::create_dir_all(folder.join("pools/a")).unwrap();
            let text =
                format!("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: {value}\n");
            fs::write(folder.join("pools/a/kubelet.yaml"), text).unwrap();
            let mut index = repository.index().unwrap();
            index.add_path(Path::new("pools/a/kubelet.yaml")).unwrap();
            let tree = repository.find_tree(index.write_tree().unwrap()).unwrap();
            let parent = commits.last().map(|id| repository.find_commit(*id).unwrap());
            let parents: Vec<&git2::Commit<'_>> = parent.iter().collect();
            commits.push(repository.commit(None, &person, &person, value, &tree, &parents).unwrap());
        }
        commits
    }

    fn point(folder: &Path, commit: git2::Oid) {
        git2::Repository::open(folder).unwrap().set_head_detached(commit).unwrap();
    }

    /// The object that lists the files of a commit. Without it, they cannot be read.
    fn tree_file(folder: &Path, commit: git2::Oid) -> PathBuf {
        let repository = git2::Repository::open(folder).unwrap();
        let tree = repository.find_commit(commit).unwrap().tree_id().to_string();
        folder.join(".git/objects").join(&tree[..2]).join(&tree[2..])
    }

    async fn followed(arguments: &RepositoryArgs) -> Followed {
        let first = arguments.reload(None).await.unwrap_or_else(|_| panic!("a valid commit")).unwrap();
        Followed::new(first.snapshot)
    }

    /// The commit, or the code of the problem.
    fn kind_of(found: Option<Result<Loaded, CommandError>>) -> String {
        match found {
            None => "nothing new".to_owned(),
            Some(Ok(loaded)) => loaded.desired.commit.unwrap().to_string(),
            Some(Err(failure)) => Unavailable::of(&failure).code,
        }
    }

    #[tokio::test]
    async fn reads_each_commit_once() {
        let folder = tempfile::tempdir().unwrap();
        let commits = repository(folder.path(), &["110", "many", "120"]);
        point(folder.path(), commits[0]);
        let arguments = RepositoryArgs::of(folder.path());
        let mut followed = followed(&arguments).await;
        point(folder.path(), commits[1]);
        assert_eq!(kind_of(followed.look(&arguments).await), "wrong-type");
        fs::remove_file(tree_file(folder.path(), commits[1])).unwrap();
        assert_eq!(kind_of(followed.look(&arguments).await), "nothing new");
        // The last valid commit again ends the problem.
        point(folder.path(), commits[0]);
        assert_eq!(kind_of(followed.look(&arguments).await), commits[0].to_string());
        fs::remove_file(tree_file(folder.path(), commits[0])).unwrap();
        assert_eq!(kind_of(followed.look(&arguments).await), "nothing new");
        point(folder.path(), commits[2]);
        assert_eq!(kind_of(followed.look(&arguments).await), commits[2].to_string());
    }

    #[tokio::test]
    async fn reads_a_commit_again_after_a_failed_read() {
        let folder = tempfile::tempdir().unwrap();
        let commits = repository(folder.path(), &["110", "120"]);
        point(folder.path(), commits[0]);
        let arguments = RepositoryArgs::of(folder.path());
        let mut followed = followed(&arguments).await;
        let tree = tree_file(folder.path(), commits[1]);
        let away = folder.path().join("away");
        fs::rename(&tree, &away).unwrap();
        point(folder.path(), commits[1]);
        assert!(matches!(followed.look(&arguments).await, Some(Err(_))));
        assert!(followed.look(&arguments).await.is_none(), "a problem is reported once");
        fs::rename(&away, &tree).unwrap();
        assert_eq!(kind_of(followed.look(&arguments).await), commits[1].to_string());
    }
}
