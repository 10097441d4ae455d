//! Detection of GitHub Actions, and annotations of files in its checkout.

use std::env;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::failure::CommandError;
use crate::report::validation::{Batch, FileReport, Location, annotations};

/// Reports whether the process runs in GitHub Actions, which turns workflow commands into annotations.
pub(super) fn is_active() -> bool {
    env::var_os("GITHUB_ACTIONS").is_some_and(|value| value == "true")
}

/// The folder of the checkout, which may have no `.git`: without git on the machine, actions/checkout downloads files.
pub(super) fn checkout() -> Option<PathBuf> {
    let workspace = env::var_os("GITHUB_WORKSPACE").filter(|_| is_active()).map(PathBuf::from);
    workspace.filter(|folder| folder.is_absolute())
}

/// The current folder relative to the checkout. Outside GitHub Actions, the root is the current folder.
pub(super) fn location() -> Location {
    let current = env::current_dir().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
    let root = if is_active() { env::var("GITHUB_WORKSPACE").unwrap_or_default() } else { String::new() };
    Location { current, root }
}

/// Annotates the repository lines that made a command fail. Write errors are ignored: the failure itself is printed
/// too.
pub(super) fn annotate(out: &mut dyn Write, failure: &CommandError, root: &str) {
    // A fetched repository has no files in this checkout.
    if !is_active() || !Path::new(root).is_dir() {
        return;
    }
    let Some((findings, snapshot)) = failure.findings() else { return };
    let files = [FileReport { findings: findings.into_iter().cloned().collect(), ..FileReport::default() }];
    let batch = Batch { root, files: &files, findings: &[], texts: snapshot };
    let _ = annotations::write(out, &batch, &location(), false);
}
