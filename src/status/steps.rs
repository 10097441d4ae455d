//! Step of a pool that a rollout is at.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use super::{NodeStatus, State};
use nodecfg_fleet::Steps;

/// The first step that the nodes of a pool have not passed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepStatus {
    /// Position of the step, from 1.
    pub position: usize,
    /// Number of steps.
    pub steps: usize,
    /// The largest number of nodes that may have or get the configuration before the step has soaked.
    pub limit: usize,
    /// Number of nodes that have it or get it, or failed with it.
    pub begun: usize,
}

impl StepStatus {
    /// The step that is on, by the nodes of a pool with these steps. `None` if no node waits for its configuration, and
    /// after the last step.
    pub(super) fn of(steps: &Steps, nodes: &[&NodeStatus]) -> Option<Self> {
        let limits = steps.limits(nodes.len());
        let has_begun = |state: State| state.is_converged() || matches!(state, State::InTransition | State::Failed);
        let begun = nodes.iter().filter(|node| has_begun(node.state)).count();
        let at = limits.iter().position(|limit| *limit >= begun)?;
        let waits = nodes.iter().any(|node| node.state == State::Behind);
        waits.then(|| Self {
            position: at + 1,
            steps: limits.len(),
            limit: limits.get(at).copied().unwrap_or_default(),
            begun,
        })
    }
}

impl fmt::Display for StepStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { position, steps, limit, begun } = self;
        write!(f, "{position} of {steps}: {begun} of at most {limit} nodes have or get the configuration")
    }
}
