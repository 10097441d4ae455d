//! Pointer of a pool: it moves once, before a stop of the pool, to a target that a node proves and no canary has refused.

use std::collections::BTreeSet;

use super::Step;
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_plan::{Plan, WaveKind};
use nodecfg_rollout::End;
use nodecfg_rollout::machine::Command;
use nodecfg_rollout::progress::Progress;

pub(super) struct PointerCheck {
    /// Canaries of the plan, except those that were held: another node may have replaced them.
    canaries: BTreeSet<NodeName>,
    /// Nodes of the plan that start before the canaries, because they need no budget.
    unavailable: BTreeSet<NodeName>,
    /// Pools with canaries.
    with_canaries: BTreeSet<PoolName>,
    /// Pools whose pointer was moved.
    moved: BTreeSet<PoolName>,
}

impl PointerCheck {
    pub(super) fn new(plan: &Plan) -> Self {
        let nodes = |is_wanted: fn(WaveKind) -> bool| {
            let waves = plan.pools.iter().flat_map(|pool| &pool.waves).filter(move |wave| is_wanted(wave.kind));
            waves.flat_map(|wave| wave.steps.iter().map(|step| step.node.clone())).collect()
        };
        let with_canaries = plan.pools.iter().filter(|pool| pool.policy.canary.is_some());
        Self {
            canaries: nodes(|kind| matches!(kind, WaveKind::Canary { .. })),
            unavailable: nodes(|kind| kind == WaveKind::Unavailable),
            with_canaries: with_canaries.map(|pool| pool.name.clone()).collect(),
            moved: BTreeSet::new(),
        }
    }

    pub(super) fn check(&mut self, command: &Command, step: &Step) {
        match command {
            Command::Report(event) if matches!(event.progress, Progress::Held { .. }) => {
                self.canaries.retain(|canary| Some(canary) != event.node.as_ref());
            }
            Command::MovePointer(pool, pointer) => {
                let planned = step.pool(pool).pointer.as_ref().map(|planned| &planned.to);
                assert_eq!(Some(&**pointer), planned, "{step}");
                assert!(self.moved.insert(pool.clone()), "no gate returns the pool\n{step}");
                self.assert_proven(pool, step);
            }
            _ => {}
        }
    }

    fn assert_proven(&self, name: &PoolName, step: &Step) {
        let pool = &step.machine.outcome().pools[name];
        assert_eq!(pool.stopped, None, "{step}");
        assert!(pool.nodes.iter().any(|node| node.end == End::Converged), "{pool:?}\n{step}");
        let is_pending = |end: &End| matches!(end, End::NotStarted | End::InFlight | End::Held);
        let waiting = pool.nodes.iter().find(|node| self.canaries.contains(&node.node) && is_pending(&node.end));
        assert!(waiting.is_none(), "the pointer moves before {waiting:?}\n{step}");
        let mut others = pool.nodes.iter().filter(|node| !self.unavailable.contains(&node.node));
        let is_proven = others.clone().any(|node| node.end == End::Converged);
        let waits = others.any(|node| is_pending(&node.end));
        let has_canaries = self.with_canaries.contains(name);
        assert!(is_proven || !waits || !has_canaries, "the pointer moves without a canary: {pool:?}\n{step}");
    }
}
