//! Benchmark of node evaluation and of the rollout state machine for 15,000 nodes, without a cluster.

use std::collections::{BTreeMap, VecDeque};
use std::hint::black_box;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput};
use jiff::Timestamp;
use nodecfg_contract::names::NodeName;
use nodecfg_fleet::NodeShare;
use nodecfg_observed::{Node, Observed};
use nodecfg_plan::convergence::{WaitContext, evaluate};
use nodecfg_plan::{Plan, make};
use nodecfg_rollout::instant::{Instant, Now};
use nodecfg_rollout::machine::{Command, Input, Machine, Mode, StateMachine as _};

use super::fleet;
use super::fleet::{NODES, POOLS};

/// Observed states of a node: assigned, then converged.
type NodeStates = [Node; 2];

fn states(plan: &Plan, observed: &Observed) -> BTreeMap<NodeName, NodeStates> {
    let mut states = BTreeMap::new();
    for pool in &plan.pools {
        let Some(source) = pool.targets.only().and_then(|target| target.source()) else { continue };
        for step in pool.steps() {
            let node = observed.nodes.get(&step.node).unwrap();
            let assigned = Node { source: Some(source.clone()), ..node.clone() };
            states.insert(step.node.clone(), [assigned, fleet::running(node.clone(), source)]);
        }
    }
    states
}

/// Runs a rollout in which every node converges immediately.
fn roll_out(plan: &Plan, states: &BTreeMap<NodeName, NodeStates>) -> Machine {
    let mut machine = Machine::new(plan, Mode::ASSIGN);
    let mut now = Now { instant: Instant::START, time: Timestamp::UNIX_EPOCH };
    let mut commands: VecDeque<Command> = machine.step(Input::Start, now).into();
    while let Some(command) = commands.pop_front() {
        let Command::Assign(node, patch) = command else { continue };
        black_box(patch);
        now.instant = now.instant.after(Duration::from_millis(1));
        let [assigned, converged] = states.get(&node).unwrap().clone();
        for input in [Input::Assigned(node), Input::Observed(Box::new(assigned)), Input::Observed(Box::new(converged))]
        {
            commands.extend(machine.step(input, now));
        }
    }
    assert!(machine.is_finished());
    machine
}

pub fn rollout(criterion: &mut Criterion) {
    let wanted = fleet::desired(POOLS, 2);
    let observed = fleet::observed(NODES, POOLS, Some(&fleet::desired(POOLS, 1)));
    let plan = make(&wanted, &observed, &fleet::options()).unwrap_or_else(|problems| panic!("no plan: {problems:?}"));
    let states = states(&plan, &observed);
    let targets: BTreeMap<_, _> = plan
        .pools
        .iter()
        .flat_map(|pool| pool.steps().filter_map(|step| Some((&step.node, pool.targets.of(&step.node)?))))
        .collect();

    let mut group = criterion.benchmark_group("15,000 nodes in 200 pools");
    group.sample_size(10);
    group.throughput(Throughput::Elements(u64::try_from(NODES).unwrap()));
    group.bench_function("judge", |bencher| {
        bencher.iter(|| {
            for (node, target) in &targets {
                for seen in states.get(*node).unwrap() {
                    black_box(evaluate(target, seen, WaitContext::STATE_ONLY));
                }
            }
        });
    });
    group.bench_function("a whole rollout in the state machine", |bencher| {
        bencher.iter_batched(|| (), |()| roll_out(&plan, &states), BatchSize::PerIteration);
    });
    let mut limited = plan.clone();
    limited.max_unavailable = Some(NodeShare::Count(5000));
    group.bench_function("a whole rollout within a limit of all pools", |bencher| {
        bencher.iter_batched(|| (), |()| roll_out(&limited, &states), BatchSize::PerIteration);
    });
    group.bench_function("the outcome of a rollout", |bencher| {
        let machine = roll_out(&plan, &states);
        bencher.iter(|| machine.outcome());
    });
    group.finish();
}
