//! Large clusters.

use crate::harness::{Repository, Start};

scenarios! {
    Sandbox {
        two_thousand_nodes_in_twenty_pools_converge,
    }
}

async fn two_thousand_nodes_in_twenty_pools_converge(start: Start) {
    let repository = Repository::empty();
    repository.fleet("test", "{maxUnavailable: 25%, canary: {nodes: 1}}");
    let mut start = start.speed(1_000.0);
    for number in 0..20 {
        let pool = format!("p{number:02}");
        repository.pool(&pool, &format!("maxPods: {}", 100 + number));
        start = start.pool(&pool, 100);
    }
    repository.commit();
    let cluster = start.up().await;
    let history = cluster.history().await;
    cluster.sync(&repository, &[]).await.exits(0).says("Done: 2000 nodes 2000 converged");
    assert!(cluster.states().await.values().all(|state| state.settled() && state.source.is_some()));
    let past = history.end().await;
    assert_eq!(past.assigned().len(), 2000, "each node once");
    let watches = cluster.sandbox().wire().log.count("watch", "nodes");
    let reads = cluster.sandbox().wire().log.count("get", "nodes");
    assert!(watches <= 3 && reads == 0, "judged by one watch: {watches} watches, {reads} reads of single nodes");
    cluster.down().await;
}
