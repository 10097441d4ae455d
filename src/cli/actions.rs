//! Whether this runs in GitHub Actions, and where files are there.

use std::env;

use crate::report::validation::Location;

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
