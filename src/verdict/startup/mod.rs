//! The fourth stage: what the kubelet refuses when its components start, as far as the file alone tells.

use super::{Config, Refusal, Unknown};

/// What keeps the kubelet from starting on a configuration that it validated.
pub(super) fn check(_config: &Config<'_>) -> Vec<Refusal> {
    Vec::new()
}

/// What only the host can tell.
pub(super) fn unknown(_config: &Config<'_>) -> Vec<Unknown> {
    Vec::new()
}
