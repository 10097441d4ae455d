//! Scenarios with large clusters.

use nodecfg_sandbox::kubelets::Fault;

use crate::harness::{ClusterSetup, Repository};

scenarios! {
    Sandbox {
        hundreds_of_nodes_in_ten_pools_converge,
        report_of_hundreds_of_nodes_fits_sixty_lines,
        #[ignore = "takes minutes, and a machine to itself"]
        fifteen_thousand_nodes_in_two_hundred_pools_converge,
    }
}

async fn hundreds_of_nodes_in_ten_pools_converge(start: ClusterSetup) {
    converges(start, 10, 50).await;
}

async fn fifteen_thousand_nodes_in_two_hundred_pools_converge(start: ClusterSetup) {
    converges(start, 200, 75).await;
}

/// Syncs `pools` pools with `nodes` nodes each.
async fn converges(mut start: ClusterSetup, pools: usize, nodes: usize) {
    let repository = Repository::empty();
    repository
        .fleet("test", "{maxUnavailable: 25%, canary: {nodes: 1}, allowDisruption: drain, drain: {mode: accept}}");
    for number in 0..pools {
        let pool = format!("p{number:03}");
        repository.pool(&pool, &format!("maxPods: {}", 100 + number));
        start = start.pool(&pool, nodes);
    }
    repository.commit();
    let cluster = start.large().up().await;
    let history = cluster.history().await;
    let all = pools * nodes;
    cluster.sync(&repository, &[]).await.exits(0).prints(&format!("{all} nodes: {all} converged, "));
    assert!(cluster.states().await.values().all(|state| state.converged() && state.source.is_some()));
    assert_eq!(history.end().await.assigned().len(), all, "each node once");
    let log = &cluster.sandbox().wire().log;
    for resource in ["nodes", cluster.assignment_resource()] {
        let (watches, reads) = (log.count("watch", resource), log.count("get", resource));
        assert!(
            watches <= 3 && reads == 0,
            "judged by one watch: {watches} watches, {reads} reads of single {resource}"
        );
    }
    cluster.down().await;
}

/// 240 nodes in 12 pools, of which two fail at their canary.
async fn report_of_hundreds_of_nodes_fits_sixty_lines(mut start: ClusterSetup) {
    let repository = Repository::empty();
    repository
        .fleet("test", "{maxUnavailable: 25%, canary: {nodes: 1}, allowDisruption: drain, drain: {mode: accept}}");
    for number in 1..=12 {
        let pool = format!("p{number:02}");
        repository.pool(&pool, "maxPods: 100");
        start = start.pool(&pool, 20);
    }
    repository.commit();
    let failing = ["p03-1", "p07-1"];
    for node in failing {
        start = start.fault(node, Fault::ValidateError);
    }
    let cluster = start.large().up().await;
    let run = cluster.sync(&repository, &[]).await.exits(5);
    let lines = run.out.lines().count() + run.err.lines().count();
    assert!(lines <= 60, "{lines} lines\n{run}");
    for text in ["stopped: pool p03: canary p03-1 failed", "19 nodes p03 ", "200 more nodes: 200 on trial"] {
        assert!(run.has(text), "{text:?} is missing\n{run}");
    }
    let last = run.out.lines().last().unwrap();
    assert!(last.starts_with("Not done after "), "{run}");
    assert!(last.contains(". 240 nodes: 200 converged, "), "{run}");
    assert!(last.ends_with(", 2 failed, 38 not started."), "{run}");

    for node in failing {
        cluster.fault(node, None).await;
    }
    repository.change("p03", "maxPods: 101");
    repository.change("p07", "maxPods: 101");
    let run = cluster.sync(&repository, &["-v"]).await.exits(0);
    assert_eq!(run.lines_with(" converged in "), 40, "{run}");
    assert!(run.out.contains("\np03-20 ") && run.err.contains(" p03/p03-20 assigned "), "{run}");
    assert!(run.out.lines().last().unwrap().contains(". 240 nodes: 40 converged, 200 already up to date"), "{run}");
    cluster.down().await;
}
