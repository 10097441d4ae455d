//! Error message for a stale saved plan.

use std::io;
use std::io::Write;
use std::path::Path;

use super::{count, findings};
use nodecfg_contract::printable::escaped;
use nodecfg_plan::saved::Difference;

/// The maximum differences shown per section of the plan. JSON has all.
const SHOWN: usize = 10;

/// The error in one sentence.
#[must_use]
pub fn summary(path: &Path, differences: &[Difference]) -> String {
    format!(
        "nothing was written: the saved plan {} is stale, with {} since it was made",
        path.display(),
        count(differences.len(), "change")
    )
}

/// How to fix the error.
#[must_use]
pub fn help(path: &Path, differences: &[Difference]) -> String {
    let path = path.display();
    let at = |path: &str| differences.iter().find(|difference| difference.path == path);
    if at("/cluster/uid").is_some() {
        return "select the cluster of the plan with --kubeconfig or --context".to_owned();
    }
    // The pause says who may end it. A new plan would change nothing in these pools.
    if differences.iter().all(|difference| difference.path.ends_with("/paused") && difference.now == true) {
        return "resume the paused pools once the reason no longer applies, and sync this plan again; `nodecfg status` shows who \
                paused them and why"
            .to_owned();
    }
    match at("/plan/commit").and_then(|commit| commit.then.as_str()) {
        // A different commit alone needs no new review.
        Some(commit) if differences.len() == 1 => format!("select the reviewed commit with `--rev {commit}`"),
        // The other differences may follow from the commit.
        Some(commit) => format!(
            "select the reviewed commit with `--rev {commit}`, or make a new plan with `nodecfg diff --out {path}` and \
             have it reviewed"
        ),
        None => format!("make a new plan with `nodecfg diff --out {path}`, and have it reviewed"),
    }
}

/// Section of the plan that a path is in, such as `/plan/nodes`.
fn section(path: &str) -> &str {
    path.match_indices('/').nth(2).map_or(path, |(end, _)| &path[..end])
}

/// Writes the error with the first differences of each section.
///
/// # Errors
/// When `out` cannot be written.
pub fn text(out: &mut dyn Write, path: &Path, differences: &[Difference]) -> io::Result<()> {
    let mut text = format!("{}:", summary(path, differences));
    for same in differences.chunk_by(|a, b| section(&a.path) == section(&b.path)) {
        for difference in same.iter().take(SHOWN) {
            // Texts of the file, which anybody may have written, make no line of their own.
            text.push_str(&format!("\n  - {}", escaped(&difference.message)));
        }
        if let Some([first, more @ ..]) = same.get(SHOWN..) {
            text.push_str(&format!("\n  - and {} more in {}", 1 + more.len(), section(&first.path)));
        }
    }
    findings::message(out, &text, &help(path, differences))
}
