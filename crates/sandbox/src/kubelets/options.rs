//! Options of the simulated kubelets.

use std::time::Duration;

use super::fault::Faults;

/// Options of the simulated kubelets.
#[derive(Debug, Clone)]
pub struct Options {
    /// Speed of simulated time, above 0; 1 is real time.
    pub speed: f64,
    /// Seed of all jitter. A node's jitter depends on the seed and its name only.
    pub seed: u64,
    /// Initial faults; they also apply to Nodes that appear later.
    pub faults: Faults,
    /// Emits Events, two for each restart.
    pub events: bool,
    /// Interval of readiness heartbeats in simulated time; `None` disables them. Real kubelets use 5 minutes. With
    /// many nodes, heartbeats are most of an API server's load.
    pub heartbeat: Option<Duration>,
    /// Maximum number of kubelets that write at the same time; 0 means 1. Downloads are not limited.
    pub concurrency: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { speed: 1.0, seed: 0, faults: Faults::default(), events: true, heartbeat: None, concurrency: 32 }
    }
}
