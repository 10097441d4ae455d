//! What the plan wants of a node: its step, or the reason to leave it unchanged.

use std::sync::Arc;

use crate::outcome::End;
use nodecfg_contract::names::NodeName;
use nodecfg_contract::{Assignment, ConfigSource};
use nodecfg_plan::convergence::{ConvergenceFailure, Target, Waiting};
use nodecfg_plan::{Action, LeftAlone, Step, Targets, Why};

/// What the plan wants of a node.
#[derive(Debug)]
pub(crate) struct Intent {
    pub(crate) planned: Planned,
    /// Target of the node in the plan.
    pub(crate) wanted: Arc<Target>,
    /// What the node is watched for: the target in the plan, or an adopted source with the same content.
    pub(crate) target: Arc<Target>,
}

/// Decision of the plan about a node.
#[derive(Debug)]
pub(crate) enum Planned {
    Step(Box<Step>),
    LeftAlone(LeftAlone),
}

/// Target of a node. One without a target is left unchanged, and none of its states is that of a configuration.
fn target_of(node: &NodeName, targets: &Targets) -> Arc<Target> {
    targets.of(node).cloned().unwrap_or_else(|| Arc::new(Target::Local))
}

impl Intent {
    fn new(planned: Planned, target: Arc<Target>) -> Self {
        Self { planned, wanted: Arc::clone(&target), target }
    }

    /// A node that the plan leaves unchanged.
    pub(crate) fn leave_alone(left: &LeftAlone, targets: &Targets) -> Self {
        let mut intent = Self::new(Planned::LeftAlone(left.clone()), target_of(&left.node, targets));
        intent.adopt(&left.why);
        intent
    }

    /// A node that the plan has a step for.
    pub(crate) fn follow(step: &Step, targets: &Targets) -> Self {
        Self::new(Planned::Step(Box::new(step.clone())), target_of(&step.node, targets))
    }

    /// The step of the node. `None`: the plan leaves it unchanged.
    pub(crate) fn step(&self) -> Option<&Step> {
        match &self.planned {
            Planned::Step(step) => Some(step),
            Planned::LeftAlone(_) => None,
        }
    }

    pub(crate) fn name(&self) -> &NodeName {
        match &self.planned {
            Planned::Step(step) => &step.node,
            Planned::LeftAlone(left) => &left.node,
        }
    }

    /// Uid of the Node in the plan. Empty for a node that is left unchanged.
    pub(crate) fn uid(&self) -> &str {
        self.step().map_or("", |step| &step.assignment.uid)
    }

    /// Source of the node when the plan was made.
    pub(crate) fn from(&self) -> Option<&ConfigSource> {
        match &self.planned {
            Planned::Step(step) => step.assignment.from.as_ref(),
            Planned::LeftAlone(left) => match &left.why {
                Why::Converged => self.target.source(),
                Why::Adopted { source } | Why::Conflict { source, .. } => Some(source),
                _ => None,
            },
        }
    }

    /// End of a node that the plan leaves unchanged.
    pub(crate) fn end(&self) -> Option<End> {
        match &self.planned {
            Planned::Step(_) => None,
            Planned::LeftAlone(left) => Some(End::LeftAlone { why: left.why.clone() }),
        }
    }

    /// Whether the node was Ready when the plan was made, as far as the plan knows.
    pub(crate) fn was_ready(&self) -> bool {
        match &self.planned {
            Planned::Step(step) => step.was_ready,
            Planned::LeftAlone(left) => !left.unavailable,
        }
    }

    /// Whether the node was available when the plan was made.
    pub(crate) fn was_available(&self) -> bool {
        self.step().map_or_else(|| self.was_ready(), |step| step.available)
    }

    /// Whether the node pointed at its target when the plan was made.
    pub(crate) fn was_on_target(&self) -> bool {
        match &self.planned {
            Planned::Step(step) => step.action != Action::Assign,
            Planned::LeftAlone(left) => left.why == Why::Converged,
        }
    }

    /// What the node waited for when the plan was made.
    pub(crate) fn waiting(&self) -> Waiting {
        match self.step().map(|step| &step.action) {
            Some(Action::Await { waiting, .. }) => waiting.clone().unwrap_or(Waiting::NotAcknowledged),
            Some(Action::Assign) | None => Waiting::NotAssigned,
        }
    }

    /// The assignment. `None`: this rollout does not assign the node.
    pub(crate) fn assignment(&self) -> Option<&Assignment> {
        self.step().filter(|step| step.action == Action::Assign).map(|step| &step.assignment)
    }

    /// Position of the node's domain in the order of the pool.
    pub(crate) fn domain(&self) -> usize {
        self.step().map_or(0, |step| step.domain)
    }

    /// Reports whether the node must be drained before its assignment.
    pub(crate) fn needs_drain(&self) -> bool {
        self.assignment().is_some() && self.step().is_some_and(|step| step.drain)
    }

    /// The step of a node that this rollout assigned and can return.
    pub(crate) fn way_back(&self) -> Option<&Step> {
        self.step().filter(|step| step.can_return && step.action == Action::Assign)
    }

    /// What the node had before its assignment.
    pub(crate) fn previous(&self) -> Target {
        self.assignment().map_or_else(|| Target::named(self.from()), Target::before)
    }

    /// Error that the node reported against its target when the plan was made.
    pub(crate) fn known_failure(&self) -> Option<&ConvergenceFailure> {
        match &self.step()?.action {
            Action::Await { failure, .. } => failure.as_deref(),
            Action::Assign => None,
        }
    }

    /// Follows a decision to leave the node unchanged on a source with the same content.
    pub(crate) fn adopt(&mut self, why: &Why) {
        if let Why::Adopted { source } = why {
            self.target = Arc::new(Target::named(Some(source)));
        }
    }
}
