//! Whether this runs in GitHub Actions, and where files are there.

use std::env;
use std::io::Write;
use std::path::Path;

use super::failure::CommandError;
use crate::report::validation::{Batch, FileReport, Location, annotations};

/// Whether somebody turns workflow commands into annotations.
pub(super) fn are_here() -> bool {
    env::var_os("GITHUB_ACTIONS").is_some_and(|value| value == "true")
}

/// Where the current folder is in the checkout; without one, the current folder is all there is.
pub(super) fn location() -> Location {
    let current = env::current_dir().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
    let root = if are_here() { env::var("GITHUB_WORKSPACE").unwrap_or_default() } else { String::new() };
    Location { current, root }
}

/// Annotates the lines of a repository in this folder that made a command fail. What cannot be written is told elsewhere too.
pub(super) fn annotate(out: &mut dyn Write, failure: &CommandError, root: &str) {
    // Of what was fetched there is no line here to annotate.
    if !are_here() || !Path::new(root).is_dir() {
        return;
    }
    let Some((findings, snapshot)) = failure.findings() else { return };
    let files = [FileReport { findings: findings.into_iter().cloned().collect(), ..FileReport::default() }];
    let batch = Batch { root, files: &files, findings: &[], texts: snapshot };
    let _ = annotations::write(out, &batch, &location(), false);
}
