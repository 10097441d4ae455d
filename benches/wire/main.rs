//! What nodecfg costs on the wire and in memory: the program itself, against a sandbox that another process serves over
//! HTTPS.
//!
//! Prints a table and asserts nothing that is timed. `cargo bench --bench wire` runs everything, `cargo bench --bench wire
//! -- <measurement>…` only some of it; see the README beside.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a measurement stops when its own world is wrong, and prints its table"
)]

mod agents;
mod assignments;
#[path = "../fleet/mod.rs"]
mod fleet;
mod lists;
mod program;
mod reaction;
mod served;
mod whole;

/// The measurements by name, in the order in which they run.
const MEASUREMENTS: [&str; 5] = ["whole", "assignments", "reaction", "lists", "agents"];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // This program is also its own plain HTTP client, in a process of its own.
    if let [mode, rest @ ..] = arguments.as_slice()
        && mode == assignments::BARE
    {
        return runtime().block_on(assignments::bare(rest));
    }
    // `cargo bench` says so; `cargo test` only wants to know that this builds.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    let named: Vec<&str> =
        arguments.iter().map(String::as_str).filter(|argument| !argument.starts_with("--")).collect();
    for unknown in named.iter().filter(|name| !MEASUREMENTS.contains(name)) {
        println!("no measurement is called {unknown:?}; there are {}", MEASUREMENTS.join(", "));
    }
    let runtime = runtime();
    for name in MEASUREMENTS.iter().filter(|name| named.is_empty() || named.contains(name)) {
        println!("\n== {name}");
        match *name {
            "whole" => runtime.block_on(whole::measure()),
            "assignments" => runtime.block_on(assignments::measure()),
            "reaction" => runtime.block_on(reaction::measure()),
            "lists" => runtime.block_on(lists::measure()),
            _ => runtime.block_on(agents::measure()),
        }
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime")
}

/// The value in the middle, and the one that `share` of all values do not exceed.
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
