//! Scenarios of drains by a user who lacks a right. The check before the first write names it (`drain.rs`). Here the
//! server refuses that check, so the right is missed during the drain.

use nodecfg_sandbox::workloads::WorkloadSpec;

use crate::harness::{AFTER, BEFORE, ClusterSetup, Repository};

scenarios! {
    Sandbox {
        right_that_is_missed_during_a_drain_loses_no_node,
    }
}

async fn right_that_is_missed_during_a_drain_loses_no_node(start: ClusterSetup) {
    let mut workloads = WorkloadSpec::filling(2, 4);
    for daemon in &mut workloads.daemon_sets {
        daemon.exclusive_cpus = true;
    }
    for application in &mut workloads.applications {
        application.budget = None;
    }
    let cluster = start.pool("a", 2).workloads(workloads).up().await;
    let policy = |rollout: &str| format!("{{maxUnavailable: 1, {rollout}}}");
    let repository = Repository::of_pool(BEFORE, &policy("drain: {settle: 0s}"));
    cluster.sync(&repository, &[]).await.exits(0);
    repository.fleet("test", &policy("allowDisruption: drain, drain: {settle: 0s}"));
    repository.change("a", AFTER);

    let rights = [
        ("patch", "nodes", "cannot patch node"),
        ("get", "nodes", "cannot get node a-1"),
        ("list", "pods", "drain failed: cannot list pods"),
        ("watch", "pods", "drain failed: cannot watch pods"),
        ("create", "pods/eviction", "drain failed: cannot evict pod"),
        ("list", "volumeattachments", "drain failed: cannot list volumeattachments"),
        ("delete", "pods", "DaemonSet pod with exclusive CPUs not deleted: cannot delete pod"),
    ];
    for (index, (verb, resource, error)) in rights.into_iter().enumerate() {
        let (wanted, other) = if index % 2 == 0 { (AFTER, BEFORE) } else { (BEFORE, AFTER) };
        let before = cluster.states().await;
        cluster.sandbox().forbid("create", "selfsubjectaccessreviews");
        cluster.sandbox().forbid(verb, resource);
        let run = cluster.sync(&repository, &[]).await.exits(4).prints(error);
        // A dry run of the first assignment finds the missing right before the drain.
        let begins = (verb, resource) != ("patch", cluster.assignment_resource());
        assert_eq!(run.out.lines().last().unwrap().starts_with("Not done after "), begins, "{run}");
        let after = cluster.states().await;
        let is_assigned = after["a-1"].source != before["a-1"].source;
        assert_eq!(is_assigned, verb == "delete", "{verb} {resource}: only the last right is needed after the change");
        assert_eq!(after["a-2"].source, before["a-2"].source, "{verb} {resource}: the pool stopped");
        assert!(after.values().all(|state| state.ready && !state.marked), "{verb} {resource}: {after:?}");

        cluster.sandbox().api().clear_denials();
        cluster.sync(&repository, &[]).await.exits(0);
        for (name, state) in cluster.states().await {
            assert!(state.converged() && !state.marked, "{name} wants {wanted:?}: {state:?}");
        }
        repository.change("a", other);
    }
    cluster.down().await;
}
