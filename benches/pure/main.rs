//! Benchmarks of the parts without cluster access, for 15,000 nodes in 200 pools.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a benchmark may stop when its own setup is wrong, and prints its table"
)]

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use criterion::Criterion;
use serde_json::Value;

mod checking;
#[path = "../figures/mod.rs"]
mod figures;
#[path = "../fleet/mod.rs"]
mod fleet;
mod planning;
mod rendering;
mod rollout;

fn main() {
    // `cargo bench` passes `--bench`; `cargo test` only checks that this compiles.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let (folder, began) = (Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("criterion"), SystemTime::now());
    let mut criterion = Criterion::default().output_directory(&folder).configure_from_args();
    for benchmark in [checking::checking, planning::planning, rendering::rendering, rollout::rollout] {
        benchmark(&mut criterion);
    }
    criterion.final_summary();
    let mut figures = figures::Figures::default();
    for figure in figures::figures() {
        if let Some(seconds) = median(&folder, &figure, began) {
            figures.note(&figure, seconds);
        }
    }
    for what in ["nothing to do", "all nodes from another revision"] {
        let seconds = |sizes| {
            let figure = format!("15,000 nodes in 20 pools: plan and check {sizes} sizes, {what}");
            median(&folder, &figure, began)
        };
        if let (Some(with), Some(without)) = (seconds("with 12"), seconds("without")) {
            figures.note(&format!("15,000 nodes in 20 pools: with 12 sizes by without, {what}"), with / without);
        }
    }
    figures.finish();
}

/// Median in seconds of the benchmark `<group>: <function>`, if this run measured it.
fn median(folder: &Path, figure: &str, began: SystemTime) -> Option<f64> {
    let (group, function) = figure.split_once(": ")?;
    let path: PathBuf = [folder.to_str()?, group, function, "new", "estimates.json"].iter().collect();
    let measured = std::fs::metadata(&path).and_then(|file| file.modified()).ok()?;
    let estimates: Value = serde_json::from_slice(&std::fs::read(&path).ok()?).ok()?;
    let nanoseconds = estimates["median"]["point_estimate"].as_f64()?;
    (measured >= began).then_some(nanoseconds / 1e9)
}
