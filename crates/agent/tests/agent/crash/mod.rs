//! Crash tests of the agent: kills, power failures and disk faults. The final state must not change, and the kubelet
//! must never stay on a refused or failed configuration.

mod child;
mod contents;
mod faults;
mod joining;
mod processes;
mod random;
mod random_scenario;
mod server;
mod simulated_node;
mod snapshot;
