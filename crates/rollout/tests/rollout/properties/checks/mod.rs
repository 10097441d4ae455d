//! What must hold in every rollout, whatever happens: a file for each subject. The checks count in the simulated cluster.
//! Of the machine they read its commands, its outcome and its numbers of unavailable nodes.

use std::fmt;

use self::budget::BudgetCheck;
use self::counts::CountCheck;
use self::domains::DomainOracle;
use self::gates::GateOracle;
use self::permits::PermitOracle;
use self::pointers::PointerCheck;
use self::steps::StepOracle;
use super::cluster::SimCluster;
use crate::Machine;
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_observed::Observed;
use nodecfg_plan::{Plan, PoolPlan};
use nodecfg_rollout::instant::Now;
use nodecfg_rollout::machine::{Command, Input, Mode};

mod budget;
mod counts;
mod domains;
mod drains;
mod gates;
mod order;
mod permits;
mod pointers;
mod sources;
mod steps;
mod windows;

/// One step of the machine: its state after the step, and the cluster right before the checked command.
pub(super) struct Step<'a> {
    pub(super) plan: &'a Plan,
    pub(super) mode: &'a Mode,
    pub(super) cluster: &'a SimCluster,
    pub(super) machine: &'a Machine,
    pub(super) log: &'a [(Now, Input, Vec<Command>)],
}

impl Step<'_> {
    fn pool(&self, name: &PoolName) -> &PoolPlan {
        self.plan.pools.iter().find(|pool| pool.name == *name).unwrap()
    }

    fn pool_of(&self, node: &NodeName) -> &PoolPlan {
        self.pool(self.cluster.pool(node))
    }

    /// The node that a command starts on the way to its target.
    fn started<'c>(&self, command: &'c Command) -> Option<&'c NodeName> {
        match command {
            Command::Mark(node, ..) if !self.cluster.is_on_target(node) => Some(node),
            Command::Assign(node, _) if !self.cluster.drains(node) => Some(node),
            _ => None,
        }
    }
}

impl fmt::Display for Step<'_> {
    /// The inputs so far and the commands that followed, for the message of a failed check.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (now, input, commands) in self.log {
            writeln!(f, "{now:?} {input:?}")?;
            for command in commands.iter().filter(|command| !matches!(command, Command::Report(_))) {
                writeln!(f, "    {command:?}")?;
            }
        }
        Ok(())
    }
}

/// The checks with a memory.
pub(super) struct Checks {
    budget: BudgetCheck,
    counts: CountCheck,
    domains: Vec<DomainOracle>,
    steps: Vec<StepOracle>,
    pub(super) gates: GateOracle,
    pub(super) permits: PermitOracle,
    pointers: PointerCheck,
}

impl Checks {
    pub(super) fn new(plan: &Plan, start: &Observed, machine: &Machine, cluster: &SimCluster) -> Self {
        Self {
            budget: BudgetCheck::new(plan, machine, cluster),
            counts: CountCheck::default(),
            domains: plan.pools.iter().filter_map(|pool| DomainOracle::new(pool, &start.nodes)).collect(),
            steps: plan.pools.iter().map(StepOracle::new).collect(),
            gates: GateOracle::default(),
            permits: PermitOracle::default(),
            pointers: PointerCheck::new(plan),
        }
    }

    /// Looks at the cluster right before a step.
    pub(super) fn before(&mut self, cluster: &SimCluster) {
        self.budget.before(cluster);
    }

    /// Checks all commands of a step.
    pub(super) fn all_commands(&mut self, commands: &[Command], step: &Step) {
        self.domains.iter_mut().for_each(|oracle| oracle.check(commands, step));
        self.steps.iter_mut().for_each(|oracle| oracle.check(commands, step));
    }

    /// Checks one command.
    pub(super) fn command(&mut self, command: &Command, step: &Step) {
        budget::check(command, step);
        drains::check(command, step);
        order::check(command, step);
        sources::check(command, step);
        windows::check(command, step);
        self.counts.check(command, step);
        self.gates.check(command, step);
        self.permits.check(command, step);
        self.pointers.check(command, step);
    }

    /// Checks the machine after a step.
    pub(super) fn after(&mut self, step: &Step) {
        self.budget.after(step);
    }

    /// Checks the end of the rollout.
    pub(super) fn end(&self, step: &Step) {
        drains::check_end(step);
        self.counts.check_end(step);
    }
}
