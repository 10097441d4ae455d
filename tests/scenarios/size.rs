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
    repository.fleet("test", "{maxUnavailable: 25%, canary: {nodes: 1}, allowDisruption: drain}");
    for number in 0..pools {
        let pool = format!("p{number:03}");
        repository.pool(&pool, &format!("maxPods: {}", 100 + number));
        start = start.pool(&pool, nodes);
    }
    repository.commit();
    let cluster = start.large().up().await;
    let history = cluster.history().await;
    let all = pools * nodes;
    cluster.sync(&repository, &[]).await.exits(0).prints(&format!("{all} nodes: {all} converged."));
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

/// 240 nodes in 4 pools, of which two fail at their canary.
async fn report_of_hundreds_of_nodes_fits_sixty_lines(mut start: ClusterSetup) {
    let repository = Repository::empty();
    repository.fleet("test", "{maxUnavailable: 25%, canary: {nodes: 1}, allowDisruption: drain}");
    for pool in ["a", "b", "c", "d"] {
        repository.pool(pool, "maxPods: 100");
        start = start.pool(pool, 60);
    }
    repository.commit();
    let failing = ["b-1", "c-1"];
    for node in failing {
        start = start.fault(node, Fault::ValidateError);
    }
    let cluster = start.large().up().await;
    let run = cluster.sync(&repository, &[]).await.exits(5);
    let lines = run.out.lines().count() + run.err.lines().count();
    assert!(lines <= 60, "{lines} lines\n{run}");
    for text in ["stopped: pool b: canary b-1 failed", "59 nodes b ", "120 more nodes: 120 converged"] {
        assert!(run.has(text), "{text:?} is missing\n{run}");
    }
    let last = run.out.lines().last().unwrap();
    assert!(last.starts_with("Not done after "), "{run}");
    assert!(last.ends_with(". 240 nodes: 120 converged, 2 failed, 118 not started."), "{run}");

    for node in failing {
        cluster.fault(node, None).await;
    }
    repository.change("b", "maxPods: 101");
    repository.change("c", "maxPods: 101");
    let run = cluster.sync(&repository, &["-v"]).await.exits(0);
    assert_eq!(run.lines_with(" converged in "), 120, "{run}");
    assert!(run.out.contains("\nb-60 ") && run.err.contains(" b/b-60 assigned "), "{run}");
    assert!(run.out.ends_with(". 240 nodes: 120 converged, 120 already up to date.\n"), "{run}");
    cluster.down().await;
}
