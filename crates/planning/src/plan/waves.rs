//! In which order the nodes of a pool start.

use super::decide::{Decision, is_broken};
use super::{Action, LeftAlone, Step, Wave, WaveKind, Why};
use crate::desired::Canary;
use nodecfg_contract::Assignment;
use nodecfg_contract::observed::Node;

/// Sorts a pool's nodes into those that are broken, those in flight, those that are exposed, and those left alone.
#[derive(Default)]
pub(super) struct Sorter {
    broken: Vec<Step>,
    in_flight: Vec<Step>,
    exposed: Vec<Step>,
    left_alone: Vec<LeftAlone>,
    /// Nodes that are left alone for being converged, as the canaries that they would be.
    converged: Vec<Step>,
    /// How many of them matter: one more than there are canaries says that the canaries are past.
    keep: usize,
}

impl Sorter {
    pub(super) fn new(canary: Option<Canary>) -> Self {
        let keep = canary.map_or(0, |canary| usize::try_from(canary.nodes).unwrap_or(usize::MAX).saturating_add(1));
        Self { keep, ..Self::default() }
    }

    pub(super) fn add(&mut self, node: &Node, decision: Decision) {
        match decision {
            Decision::LeaveAlone(left) => {
                if self.converged.len() < self.keep && left.why == Why::Converged && !left.unavailable {
                    self.converged.push(Step {
                        node: node.name.clone(),
                        assignment: Assignment {
                            uid: node.uid.clone(),
                            from: node.source.clone(),
                            to: node.source.clone(),
                        },
                        action: Action::Await { waiting: None, error: None },
                        was_ready: true,
                        available: true,
                        can_return: false,
                        back_needs: None,
                    });
                }
                self.left_alone.push(left);
            }
            Decision::Step(step) => match &step.action {
                Action::Await { error: None, .. } => self.in_flight.push(step),
                Action::Await { .. } => self.broken.push(step),
                Action::Assign if is_broken(node) => self.broken.push(step),
                Action::Assign => self.exposed.push(step),
            },
        }
    }

    pub(super) fn all_steps(&self) -> impl Iterator<Item = &Step> {
        self.broken.iter().chain(&self.in_flight).chain(&self.exposed)
    }

    /// Orders the steps; answers with the waves, and the nodes that stay out of them.
    ///
    /// How far an earlier run got is read from the cluster alone. Only nodes that have converged prove anything: while no
    /// more have than there are canaries, those, and nodes in flight, are the canaries, and soak anew.
    pub(super) fn waves(mut self, canary: Option<Canary>) -> (Vec<Wave>, Vec<LeftAlone>) {
        let mut waves = Vec::new();
        let mut canaries = Vec::new();
        let mut soak_seconds = 0;
        if let Some(canary) = canary.filter(|canary| self.needs(*canary)) {
            let wanted = usize::try_from(canary.nodes).unwrap_or(usize::MAX);
            canaries = std::mem::take(&mut self.converged);
            for more in [&mut self.in_flight, &mut self.exposed] {
                let missing = wanted.saturating_sub(canaries.len()).min(more.len());
                canaries.extend(more.drain(..missing));
            }
            // With nobody left to protect there is nothing to soak for.
            soak_seconds = if self.exposed.is_empty() { 0 } else { canary.soak.as_secs() };
        }
        self.left_alone.retain(|left| canaries.iter().all(|step| step.node != left.node));
        self.broken.append(&mut self.in_flight);
        let kinds = [WaveKind::Unavailable, WaveKind::Canary { soak_seconds }, WaveKind::Rest];
        for (kind, mut steps) in kinds.into_iter().zip([self.broken, canaries, self.exposed]) {
            steps.sort_by(|a, b| a.node.cmp(&b.node));
            if !steps.is_empty() {
                waves.push(Wave { kind, steps });
            }
        }
        (waves, self.left_alone)
    }

    fn needs(&self, canary: Canary) -> bool {
        let wanted = usize::try_from(canary.nodes).unwrap_or(usize::MAX);
        let moving = !self.in_flight.is_empty() || !self.exposed.is_empty();
        wanted > 0 && moving && self.converged.len() <= wanted
    }
}
