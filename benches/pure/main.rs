//! Benchmarks of the parts without cluster access, for 15,000 nodes in 200 pools.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a benchmark may stop when its own setup is wrong"
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
    // `cargo bench` passes `--bench`; `cargo test` only checks that this compiles.
    if std::env::args().any(|argument| argument == "--bench") {
        benches();
        Criterion::default().configure_from_args().final_summary();
    }
}
