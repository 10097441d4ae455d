//! A saved plan that is stale: what has changed since, to people.

use std::io::{self, Write};
use std::path::Path;

use super::{count, findings};
use nodecfg_planning::plan::saved::{Code, Difference};

/// How many differences of one kind are shown. JSON has them all.
const SHOWN: usize = 10;

/// One sentence of what is wrong.
#[must_use]
pub fn summary(path: &Path, differences: &[Difference]) -> String {
    format!("the saved plan {} is stale: {} since it was made", path.display(), count(differences.len(), "change"))
}

/// The way out.
#[must_use]
pub fn help(path: &Path, differences: &[Difference]) -> String {
    let path = path.display();
    let of = |code: Code| differences.iter().find(|difference| difference.code == code);
    if of(Code::Cluster).is_some() {
        return format!(
            "nothing was written. Choose the cluster that it is for (--kubeconfig, --context), or make a plan for this one \
             (nodecfg diff --out {path}) and have it reviewed"
        );
    }
    let anew = format!("make a plan of what would be done now (nodecfg diff --out {path}) and have it reviewed");
    match of(Code::Commit).and_then(|commit| commit.then.as_ref()) {
        // Alone it is no reason to review again.
        Some(commit) if differences.len() == 1 => {
            format!("nothing was written. `--rev {commit}` reads the commit that was reviewed. Or {anew}")
        }
        _ => format!("nothing was written. To go on, {anew}"),
    }
}

/// All of it, with the first differences of each kind.
///
/// # Errors
/// When it cannot be written.
pub fn text(out: &mut dyn Write, path: &Path, differences: &[Difference]) -> io::Result<()> {
    let mut text = format!("{}:", summary(path, differences));
    for same in differences.chunk_by(|a, b| a.code == b.code) {
        for difference in same.iter().take(SHOWN) {
            text.push_str(&format!("\n  - {}", difference.message));
        }
        if let Some(more) = same.len().checked_sub(SHOWN).filter(|more| *more > 0) {
            text.push_str(&format!("\n  - and {more} more like this"));
        }
    }
    findings::message(out, &text, &help(path, differences))
}
