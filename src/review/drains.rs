//! The drain of a pool's nodes in a review: how many nodes, the fields that need it, the limits, and the pods.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use super::{PoolReview, Review};
use kubelet_config::risk::Class;
use nodecfg_contract::names::NodeName;
use nodecfg_plan::drain::forecast::{NodeForecast, PodForecast};
use nodecfg_plan::{ChangedField, PoolPlan};
use nodecfg_rollout::PoolStart;

/// The nodes of a pool that a sync drains before it assigns them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedDrain {
    /// The number of nodes to drain.
    pub nodes: usize,
    /// The changed fields that need a drained node, by path.
    pub fields: BTreeSet<String>,
    /// Whether some of the nodes are drained because their current or future configuration is unknown.
    pub unknown: bool,
    /// The time limit of each drain in seconds, from the mark of a node to its assignment.
    pub timeout_seconds: u64,
    /// The seconds that a converged node stays Ready before its release.
    pub settle_seconds: u64,
    /// The least number of seconds that the drains take: the settle times within the budget, and the soak of canaries.
    /// Evictions and restarts take longer.
    pub least_seconds: u64,
    /// The pods on the nodes. Unset if the command does not read them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<DrainedPods>,
}

/// The pods on the nodes of a drain, as they are now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum DrainedPods {
    /// The pods were read.
    Read(PodForecast),
    /// The pods are unknown.
    Unread(UnreadPods),
}

/// Why the pods of a drain are unknown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnreadPods {
    /// The failed request and its error.
    pub error: String,
    /// How to fix it.
    pub help: String,
}

impl PlannedDrain {
    /// The drain of a pool. `None` if a sync drains no node.
    pub(super) fn of(planned: &PoolPlan) -> Option<Self> {
        let nodes = Some(planned.drains()).filter(|nodes| *nodes > 0)?;
        let fields = planned.changes.iter().flat_map(|set| &set.fields);
        let needing = fields.filter(|field| needs_drain(field));
        Some(Self {
            nodes,
            fields: needing.map(|field| field.change.path.clone()).collect(),
            unknown: planned.steps().any(|step| step.drain_unknown),
            timeout_seconds: planned.policy.drain.timeout.as_secs(),
            settle_seconds: planned.policy.drain.settle.as_secs(),
            least_seconds: planned.least_drain_time().as_secs(),
            pods: None,
        })
    }

    /// The forecast for the pods, if they were read.
    #[must_use]
    pub fn forecast(&self) -> Option<&PodForecast> {
        match &self.pods {
            Some(DrainedPods::Read(forecast)) => Some(forecast),
            Some(DrainedPods::Unread(_)) | None => None,
        }
    }

    /// The drains of several pools as one. Pools are drained at the same time.
    pub(super) fn merged<'a>(drains: impl Iterator<Item = &'a Self>) -> Option<Self> {
        drains.cloned().reduce(|mut all, next| {
            all.nodes += next.nodes;
            all.least_seconds = all.least_seconds.max(next.least_seconds);
            all.pods = match (all.pods, next.pods) {
                (Some(DrainedPods::Read(a)), Some(DrainedPods::Read(b))) => {
                    Some(DrainedPods::Read(PodForecast::of(a.nodes.into_iter().chain(b.nodes))))
                }
                (pods, _) => pods,
            };
            all
        })
    }
}

fn needs_drain(field: &ChangedField) -> bool {
    field.risk.as_ref().is_some_and(|risk| risk.class >= Class::Drain)
}

impl PoolReview {
    /// The drain of the pool's nodes, if a sync drains any.
    #[must_use]
    pub fn drain(&self) -> Option<&PlannedDrain> {
        self.rollout.as_ref()?.drain.as_ref()
    }
}

impl Review {
    /// Adds the pods on the nodes that a sync drains.
    #[must_use]
    pub fn with_drained_pods(mut self, pods: &Result<BTreeMap<NodeName, NodeForecast>, UnreadPods>) -> Self {
        for rollout in self.pools.iter_mut().filter_map(|pool| pool.rollout.as_mut()) {
            let steps = rollout.waves.iter().flat_map(|wave| &wave.steps);
            let drained = steps.filter(|step| step.drain).map(|step| &step.node);
            let Some(drain) = &mut rollout.drain else { continue };
            drain.pods = Some(match pods {
                Ok(nodes) => {
                    let found = drained.filter_map(|node| nodes.get(node).cloned());
                    DrainedPods::Read(PodForecast::of(found))
                }
                Err(unread) => DrainedPods::Unread(unread.clone()),
            });
        }
        self
    }

    /// The number of nodes that a sync drains. 0 if it refuses the plan.
    #[must_use]
    pub fn drains(&self) -> usize {
        self.started_drains().map(|drain| drain.nodes).sum()
    }

    /// The number of nodes whose drain is refused, because of their pods.
    #[must_use]
    pub fn refused_drains(&self) -> usize {
        let nodes = self.started_drains().filter_map(PlannedDrain::forecast).flat_map(|forecast| &forecast.nodes);
        nodes.filter(|node| !node.refused.is_empty()).count()
    }

    fn started_drains(&self) -> impl Iterator<Item = &PlannedDrain> {
        let is_refused = self.cluster.as_ref().is_some_and(|cluster| cluster.outlook.refused);
        let rollouts = self.pools.iter().filter_map(|pool| pool.rollout.as_ref()).filter(move |_| !is_refused);
        rollouts.filter(|rollout| rollout.start == PoolStart::Starts).filter_map(|rollout| rollout.drain.as_ref())
    }
}
