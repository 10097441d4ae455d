//! Order in which the nodes of a pool start.

use super::decide::{Decision, is_broken};
use super::{Action, LeftAlone, Step, Wave, WaveKind, Why};
use crate::desired::Canary;
use kubelet_config::risk::Class;
use nodecfg_contract::Assignment;
use nodecfg_contract::observed::Node;

/// Groups the nodes of a pool: broken, in transition, to be assigned, and unchanged.
#[derive(Default)]
pub(super) struct Sorter {
    broken: Vec<Step>,
    in_flight: Vec<Step>,
    assigned: Vec<Step>,
    left_alone: Vec<LeftAlone>,
    /// Converged nodes as potential canaries.
    converged: Vec<Step>,
    /// Maximum length of `converged`. One more than the number of canaries proves that the canaries are done.
    max_converged: usize,
}

impl Sorter {
    pub(super) fn new(canary: Option<Canary>) -> Self {
        let max_converged =
            canary.map_or(0, |canary| usize::try_from(canary.nodes).unwrap_or(usize::MAX).saturating_add(1));
        Self { max_converged, ..Self::default() }
    }

    pub(super) fn add(&mut self, node: &Node, decision: Decision) {
        match decision {
            Decision::LeaveAlone(left) => {
                if self.converged.len() < self.max_converged && left.why == Why::Converged && !left.unavailable {
                    self.converged.push(Step {
                        node: node.name.clone(),
                        assignment: Assignment {
                            uid: node.uid.clone(),
                            from: node.source.clone(),
                            to: node.source.clone(),
                            from_hash: None,
                            to_hash: None,
                            max_disruption: Class::Restart,
                        },
                        action: Action::Await { waiting: None, error: None },
                        was_ready: true,
                        available: true,
                        can_return: false,
                        rollback_needs: None,
                        rollback_drain: false,
                        drain: false,
                        drain_unknown: false,
                        marked: false,
                    });
                }
                self.left_alone.push(left);
            }
            Decision::Step(step) => match &step.action {
                Action::Await { error: None, .. } => self.in_flight.push(step),
                Action::Await { .. } => self.broken.push(step),
                Action::Assign if is_broken(node) => self.broken.push(step),
                Action::Assign => self.assigned.push(step),
            },
        }
    }

    pub(super) fn all_steps(&self) -> impl Iterator<Item = &Step> {
        self.broken.iter().chain(&self.in_flight).chain(&self.assigned)
    }

    /// Returns the waves in order, and the nodes outside of them.
    ///
    /// The progress of an earlier run is read from the cluster alone. Until more nodes have converged than the pool
    /// has canaries, the converged nodes and then other nodes are the canaries, and soak again.
    pub(super) fn waves(mut self, canary: Option<Canary>) -> (Vec<Wave>, Vec<LeftAlone>) {
        let mut waves = Vec::new();
        let mut canaries = Vec::new();
        let mut soak_seconds = 0;
        if let Some(canary) = canary.filter(|canary| self.needs_canaries(*canary)) {
            let wanted = usize::try_from(canary.nodes).unwrap_or(usize::MAX);
            canaries = std::mem::take(&mut self.converged);
            for more in [&mut self.in_flight, &mut self.assigned] {
                let missing = wanted.saturating_sub(canaries.len()).min(more.len());
                canaries.extend(more.drain(..missing));
            }
            // Without nodes in the next wave, no soak time is needed.
            soak_seconds = if self.assigned.is_empty() { 0 } else { canary.soak.as_secs() };
        }
        self.left_alone.retain(|left| canaries.iter().all(|step| step.node != left.node));
        self.broken.append(&mut self.in_flight);
        let kinds = [WaveKind::Unavailable, WaveKind::Canary { soak_seconds }, WaveKind::Rest];
        for (kind, mut steps) in kinds.into_iter().zip([self.broken, canaries, self.assigned]) {
            steps.sort_by(|a, b| a.node.cmp(&b.node));
            if !steps.is_empty() {
                waves.push(Wave { kind, steps });
            }
        }
        (waves, self.left_alone)
    }

    fn needs_canaries(&self, canary: Canary) -> bool {
        let wanted = usize::try_from(canary.nodes).unwrap_or(usize::MAX);
        let moving = !self.in_flight.is_empty() || !self.assigned.is_empty();
        wanted > 0 && moving && self.converged.len() <= wanted
    }
}
