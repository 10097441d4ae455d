//! What nodes run, as files of a repository: the answer of a kubelet's `configz` as a KubeletConfiguration (`taken.rs`), the
//! same without defaults (`lean.rs`), those of several nodes compared (`agreement.rs`, `words.rs`), and the nodes of a
//! cluster sorted into the pools of a repository that changes none of them (`pools.rs`, `starter.rs`, `settled.rs`).
//!
//! Pure: values in, values out. What must not be in here: a client, a file, the clock.

mod agreement;
mod lean;
mod pools;
mod settled;
mod starter;
mod taken;
mod words;

pub use agreement::{Common, Difference, Share, common};
pub use lean::without_defaults;
pub use pools::{Group, Picks, sort};
pub use settled::{Draft, Unsettled, runs, settled};
pub use starter::{Runs, Start, StarterPool, captured_pool, empty_start, start};
pub use taken::{LeftOut, Taken, Withheld, to_yaml};
use words::wrapped;
pub use words::{comments, names, remarks, say_the_same};

/// A `kubelet.yaml` with these configurations in common, and what is to know of it in comments. `None` for one that is beyond
/// the bounds of a document. It is read again, and says what the configuration does: nothing that is told of it may.
#[must_use]
pub fn kubelet_file(common: &Common, from: &str) -> Option<String> {
    let mut lines = wrapped(from, 78, "");
    lines.extend(remarks(common, 78));
    let bare = to_yaml(&common.configuration)?;
    let told = comments(&lines) + &bare;
    Some(if say_the_same(&told, &bare) { told } else { bare })
}
