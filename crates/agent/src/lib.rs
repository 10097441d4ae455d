//! The node half of the contract: takes the configuration that is assigned to a node, makes the kubelet run it, tries it,
//! falls back to the last known good, and reports.
//!
//! From the inside out: `machine` is the pure `step(state, event)`, over [`state`] and [`events`]; `content` judges a
//! configuration; `runtime` steps the machine and keeps on [`disk`] what must survive (`store`) and what the kubelet reads
//! (`placement`), always saving before anything is done; `driver` talks to the API server (`api`) and to
//! the kubelet of this [`host`].
//!
//! A kill at any instant, followed by a restart, ends in the same state as no kill; and the kubelet is never left on a
//! configuration that failed its trial, with or without the API server.

pub mod api;
pub mod cli;
pub mod content;
pub mod disk;
pub mod driver;
pub mod events;
pub mod host;
pub mod machine;
pub mod metrics;
pub mod placement;
pub mod runtime;
pub mod serve;
pub mod state;
pub mod store;
