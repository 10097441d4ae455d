//! Benchmark of planning and checking for 15,000 nodes in 200 pools, for 65,000 nodes in 500 pools, and for pools with
//! a configuration for each size.

use std::hint::black_box;

use criterion::{BatchSize, Criterion};
use kubelet_config::risk::Class;
use nodecfg_fleet::Desired;
use nodecfg_fleet::drain::DrainMode;
use nodecfg_observed::Observed;
use nodecfg_plan::{Plan, Scope, check, make, membership, required_config_maps};

use super::fleet::{self, LARGEST, NODES, POOLS, add_config_maps, desired, namespace, observed, options};

/// Adds the unpruned ConfigMaps of earlier revisions to a cluster.
fn with_old_revisions(mut observed: Observed, revisions: usize) -> Observed {
    for revision in 10..10 + revisions {
        add_config_maps(&mut observed, &desired(POOLS, revision));
    }
    observed
}

pub fn planning(criterion: &mut Criterion) {
    for (nodes, pools, name) in
        [(NODES, POOLS, "15,000 nodes in 200 pools"), (LARGEST.0, LARGEST.1, "65,000 nodes in 500 pools")]
    {
        cluster(criterion, nodes, pools, name);
    }
    sizes(criterion);
}

/// The same nodes in pools without and with reservations that follow from the size of a node. The configurations of sizes are
/// rendered by the plan, as in a sync.
fn sizes(criterion: &mut Criterion) {
    const FEW: usize = 20;
    let mut group = criterion.benchmark_group("15,000 nodes in 20 pools");
    group.sample_size(20);
    for with_sizes in [false, true] {
        let files = |revision| match with_sizes {
            false => fleet::repository(FEW, revision, "10%"),
            true => fleet::repository_with_sizes(FEW, revision),
        };
        let wanted = || fleet::desired_of(&files(2));
        let name = if with_sizes { "with 12 sizes" } else { "without sizes" };
        for (what, revision) in [("nothing to do", 2), ("all nodes from another revision", 1)] {
            let observed = observed(NODES, FEW, Some(&fleet::desired_of(&files(revision))));
            group.bench_function(format!("plan and check {name}, {what}"), |bencher| {
                bencher.iter_batched(wanted, |wanted| plan_and_check(&wanted, &observed), BatchSize::PerIteration);
            });
        }
    }
    group.finish();
}

/// What a sync does with the lists of a cluster before it writes.
fn plan_and_check(wanted: &Desired, observed: &Observed) -> Plan {
    black_box(required_config_maps(wanted, observed, &namespace()));
    let plan = plan(wanted, observed);
    black_box(check(&plan, wanted, observed, &Scope::Everything));
    plan
}

fn cluster(criterion: &mut Criterion, nodes: usize, pools: usize, name: &str) {
    let wanted = desired(pools, 2);
    let before = desired(pools, 1);
    let mut draining = wanted.clone();
    for pool in draining.pools.values_mut() {
        pool.policy.allow_disruption = Class::Drain;
        pool.policy.drain.mode = DrainMode::Evict;
    }
    let mut cases: Vec<(&str, &Desired, Observed)> = vec![
        ("nothing to do", &wanted, observed(nodes, pools, Some(&wanted))),
        ("all nodes from the local configuration", &wanted, observed(nodes, pools, None)),
        ("all nodes from another revision", &wanted, observed(nodes, pools, Some(&before))),
        ("all nodes of pools that drain", &draining, observed(nodes, pools, Some(&before))),
    ];
    if pools == POOLS {
        let old = with_old_revisions(observed(nodes, pools, Some(&wanted)), 10);
        cases.push(("nothing to do, 2000 old ConfigMaps", &wanted, old));
    }
    let mut group = criterion.benchmark_group(name);
    group.sample_size(10);
    for (name, wanted, observed) in &cases {
        assert!(check(&plan(wanted, observed), wanted, observed, &Scope::Everything).is_empty());
        group.bench_function(format!("plan and check, {name}"), |bencher| {
            bencher.iter(|| plan_and_check(wanted, observed));
        });
    }
    let (_, _, busiest) = &cases[2];
    group.bench_function("membership", |bencher| bencher.iter(|| black_box(membership(&wanted, &busiest.nodes))));
    group.bench_function("plan", |bencher| bencher.iter(|| plan(&wanted, busiest)));
    let planned = plan(&wanted, busiest);
    group.bench_function("check", |bencher| {
        bencher.iter(|| black_box(check(&planned, &wanted, busiest, &Scope::Everything)))
    });
    group.finish();
}

fn plan(wanted: &Desired, observed: &Observed) -> Plan {
    make(wanted, observed, &options()).unwrap_or_else(|problems| panic!("no plan: {problems:?}"))
}
