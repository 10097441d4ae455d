//! Scenarios of several pools: their order, and the limit of all pools.

use nodecfg_sandbox::kubelets::Fault;

use crate::harness::{ClusterSetup, Repository};

scenarios! {
    Anything {
        pool_waits_for_the_pools_before_it,
    }
    Sandbox {
        pool_after_a_failed_one_is_held,
        nodes_in_all_pools_stay_within_the_limit_of_the_fleet,
    }
}

fn repository(fleet: &str, after: &str) -> Repository {
    let repository = Repository::empty();
    repository.write(
        "nodecfg.yaml",
        &format!("apiVersion: nodecfg.dev/v1alpha1\nkind: Fleet\nmetadata: {{name: test}}\nspec: {{{fleet}}}\n"),
    );
    for pool in ["a", "b"] {
        repository.pool(pool, "registryPullQPS: 6");
    }
    repository.pool_spec("a", &format!("{{rollout: {{{after}}}}}"));
    repository.commit();
    repository
}

/// The pool `a` is the first by name, and the last by its policy.
async fn pool_waits_for_the_pools_before_it(start: ClusterSetup) {
    let cluster = start.pool("a", 2).pool("b", 2).up().await;
    let repository = repository("", "after: [b]");
    cluster.run("diff", &repository, &[]).await.exits(1).prints("starts after pool b has converged");
    let run = cluster.sync(&repository, &["-v"]).await.exits(0).prints("4 nodes: 4 converged");
    let lines: Vec<&str> = run.err.lines().collect();
    let first = lines.iter().position(|line| line.contains("a/a-") && line.contains("assigned")).unwrap();
    let last = lines.iter().rposition(|line| line.contains("b/b-") && line.contains("converged")).unwrap();
    assert!(last < first, "{run}");

    // A limited run does not know whether the other pool has converged.
    repository.change("a", "registryPullQPS: 7");
    let run = cluster.sync(&repository, &["--pool", "a"]).await.exits(0);
    run.prints("held: pool a, 2 nodes: waits for pool b, which has not converged in this run");
    let path = repository.path().to_str().unwrap();
    cluster.sync(&repository, &[]).await.exits(0).prints("4 nodes: 2 converged");
    cluster.call(&["rollback", "a", path, "--no-pause"]).await.exits(0).prints("2 converged");
    cluster.down().await;
}

async fn pool_after_a_failed_one_is_held(start: ClusterSetup) {
    let cluster = start.pool("a", 1).pool("b", 1).fault("b-1", Fault::ValidateError).up().await;
    let repository = repository("", "after: [b]");
    let run = cluster.sync(&repository, &[]).await.exits(5);
    run.prints("held: pool a, 1 node: waits for pool b").prints("1 failed, 1 held");
    cluster.down().await;
}

async fn nodes_in_all_pools_stay_within_the_limit_of_the_fleet(start: ClusterSetup) {
    let cluster = start.pool("a", 3).pool("b", 3).up().await;
    let repository = repository("maxUnavailable: 1, rollout: {maxUnavailable: 3}", "");
    cluster.run("diff", &repository, &[]).await.exits(1).prints("at most 1 unavailable in all pools");
    let run = cluster.sync(&repository, &["-v"]).await.exits(0).prints("6 nodes: 6 converged");
    let mut in_flight = 0_i32;
    for line in run.err.lines().filter(|line| line.contains("/a-") || line.contains("/b-")) {
        in_flight += i32::from(line.contains(" assigned ")) - i32::from(line.contains(" converged in "));
        assert!(in_flight <= 1, "{run}");
    }
    cluster.down().await;
}
