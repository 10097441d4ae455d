//! Measurements of nodecfg's requests, time and memory: the program runs against a sandbox that another process
//! serves over HTTPS.
//!
//! Prints tables, and the figures beside their goals. `cargo bench --bench wire` runs all measurements, `cargo bench
//! --bench wire -- <measurement>…` selects some; see `benches/README.md`.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a measurement stops when its own setup is wrong, and prints its table"
)]

mod agents;
mod answering;
mod assignments;
mod drains;
#[path = "../figures/mod.rs"]
mod figures;
#[path = "../fleet/mod.rs"]
mod fleet;
mod lists;
mod node_configs;
mod program;
mod reaction;
#[path = "../../tests/scenarios/harness/real_servers.rs"]
mod real_servers;
mod sandbox;
mod sizes;
mod whole;

use figures::Figures;

/// Nodes and pools of the usual fleet.
const USUAL: (usize, usize) = (fleet::NODES, fleet::POOLS);
/// Name of the measurement of the largest fleet.
const LARGEST: &str = "largest";
/// Names of the measurements in execution order.
const MEASUREMENTS: [&str; 9] =
    ["whole", "sizes", "node-configs", LARGEST, "assignments", "reaction", "lists", "drains", "agents"];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // This program is also each of the plain HTTP clients, which run in their own process.
    match arguments.as_slice() {
        [mode, rest @ ..] if mode == assignments::BARE => return runtime().block_on(assignments::bare(rest)),
        [mode, rest @ ..] if mode == node_configs::SERVE => {
            let largest = rest.iter().any(|argument| argument == LARGEST);
            return runtime().block_on(node_configs::serve(if largest { fleet::LARGEST } else { USUAL }));
        }
        [mode, rest @ ..] if mode == node_configs::DOWNLOADS => {
            return runtime().block_on(node_configs::only_downloads(rest));
        }
        [mode, rest @ ..] if mode == node_configs::LISTS => return runtime().block_on(node_configs::only_lists(rest)),
        _ => {}
    }
    // `cargo bench` passes `--bench`; `cargo test` only checks that this compiles.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    let named: Vec<&str> =
        arguments.iter().map(String::as_str).filter(|argument| !argument.starts_with("--")).collect();
    for unknown in named.iter().filter(|name| !MEASUREMENTS.contains(name)) {
        println!("unknown measurement {unknown:?}; use one of {}", MEASUREMENTS.join(", "));
    }
    let runtime = runtime();
    let mut figures = Figures::default();
    for name in MEASUREMENTS.iter().filter(|name| named.is_empty() || named.contains(name)) {
        println!("\n== {name}");
        match *name {
            "whole" => runtime.block_on(whole::measure(&mut figures)),
            "sizes" => runtime.block_on(sizes::measure(&mut figures)),
            "node-configs" => runtime.block_on(node_configs::measure(&mut figures, USUAL)),
            LARGEST => runtime.block_on(node_configs::measure(&mut figures, fleet::LARGEST)),
            "assignments" => runtime.block_on(assignments::measure(&mut figures)),
            "reaction" => runtime.block_on(reaction::measure(&mut figures)),
            "lists" => runtime.block_on(lists::measure(&mut figures)),
            "drains" => runtime.block_on(drains::measure(&mut figures)),
            _ => runtime.block_on(agents::measure(&mut figures)),
        }
    }
    figures.finish();
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime")
}

/// Smallest value that is at least as large as `share` of all values.
fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index among some thousand values"
    )]
    let index = ((sorted.len().max(1) - 1) as f64 * share).round() as usize;
    sorted.get(index).copied().unwrap_or(f64::NAN)
}
