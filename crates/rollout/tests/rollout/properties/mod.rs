//! Property tests of rollouts: one simulated cluster, on which every check runs in every test. A test chooses the pools,
//! the nodes and the events.

mod checks;
mod cluster;
mod drains;
mod events;
mod gates;
mod nodes;
mod permits;
mod pools;
mod simulation;
