//! The parts of nodecfg that know no cluster, at the size of 15,000 nodes in 200 pools.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a benchmark may stop when its own world is wrong"
)]

use criterion::{Criterion, criterion_group};

mod checking;
#[path = "../fleet/mod.rs"]
mod fleet;
mod planning;
mod rendering;
mod rollout;

criterion_group!(benches, checking::checking, planning::planning, rendering::rendering, rollout::rollout);

fn main() {
    // `cargo bench` says so; `cargo test` only wants to know that this builds.
    if std::env::args().any(|argument| argument == "--bench") {
        benches();
        Criterion::default().configure_from_args().final_summary();
    }
}
