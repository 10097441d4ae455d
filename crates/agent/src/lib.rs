//! The node agent: applies the configuration assigned to a node, tests it on the kubelet, rolls back to the last
//! known good, and reports.
//!
//! Layers, from the inside out:
//! - `machine`: the pure state machine `step(state, event)` over [`ledger`] and [`events`];
//! - `content`: checks of a downloaded configuration;
//! - `proof`: comparison of the reviewed values with what the kubelet runs;
//! - `runtime`: steps the machine and saves its ledger before the effects. It uses [`disk`], `store` and `placement`;
//! - `driver`: carries out effects through the API server (`api`) and the kubelet of this [`host`];
//! - `boot`: puts the configuration of the pool in place before the first start of the kubelet;
//! - `cli`: the command line, with `serve` and `metrics` for the HTTP endpoint.
//!
//! A kill at any instant, followed by a restart, leads to the same state as no kill. The kubelet never stays on a
//! configuration that failed its trial, with or without the API server.

pub mod api;
pub mod boot;
pub mod cli;
pub mod content;
pub mod disk;
pub mod driver;
pub mod events;
pub mod host;
pub mod joining;
pub mod ledger;
pub mod machine;
pub mod metrics;
pub mod placement;
pub mod proof;
pub mod runtime;
pub mod serve;
pub mod settings;
pub mod store;
