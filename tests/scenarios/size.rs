//! Scenarios with large clusters.

use crate::harness::{ClusterSetup, Repository};

scenarios! {
    Sandbox {
        hundreds_of_nodes_in_ten_pools_converge,
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
