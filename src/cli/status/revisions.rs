//! New revisions of the compared repository, for `status --watch`.

use std::time::Duration;

use futures::{Stream, stream};

use crate::cli::CommandError;
use crate::cli::repository_args::{Loaded, RepositoryArgs};
use crate::doctor::Unavailable;
use nodecfg_planning::snapshot::Snapshot;

/// Interval between reads of a local repository.
const LOCAL: Duration = Duration::from_secs(5);
/// Interval between reads from a git server.
const REMOTE: Duration = Duration::from_secs(60);

/// The later states of a repository, starting after `first`: each with other files, and each problem once. Never ends.
pub(super) fn revisions(
    repository: &RepositoryArgs,
    first: Snapshot,
) -> impl Stream<Item = Result<Loaded, CommandError>> + '_ {
    let interval = if repository.is_remote() { REMOTE } else { LOCAL };
    stream::unfold((first, None::<String>), move |(mut last, mut problem)| async move {
        loop {
            tokio::time::sleep(interval).await;
            match repository.reload(&last).await {
                Ok(None) => problem = None,
                Ok(Some(loaded)) => {
                    last = loaded.snapshot.clone();
                    return Some((Ok(loaded), (last, None)));
                }
                Err(failure) => {
                    let text = Unavailable::of(&failure).message;
                    if problem.as_ref() != Some(&text) {
                        return Some((Err(failure), (last, Some(text))));
                    }
                }
            }
        }
    })
}
