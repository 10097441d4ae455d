//! Scenarios of last lines: what a sync would do, and what a result leaves out.

use nodecfg_sandbox::kubelets::Fault;

use crate::harness::{ClusterSetup, Repository, Run};

scenarios! {
    Anything {
        empty_pool_is_reported_with_the_nearest_label,
        uncommitted_files_are_counted,
        review_says_what_a_sync_would_do,
    }
}

/// The last line of standard output, as one line on any width.
fn last_line(run: &Run) -> String {
    let lines: Vec<&str> = run.out.lines().collect();
    let start = lines.iter().rposition(|line| !line.starts_with(' ')).unwrap();
    lines[start..].iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

async fn empty_pool_is_reported_with_the_nearest_label(start: ClusterSetup) {
    let cluster = start.pool("cpu", 1).pool("gup", 2).up().await;
    let repository = Repository::empty();
    repository.fleet("test", "");
    repository.pool("cpu", "maxPods: 110");
    repository.pool("gpu", "maxPods: 110");
    repository.commit();
    let remark = "; pool gpu selects no node, 2 nodes are in no pool";
    let near = "2 nodes in no pool (for example gup-1) have the label nodecfg.dev/pool=gup";
    let run = cluster.run("diff", &repository, &[]).await.exits(1).prints(near);
    assert!(
        last_line(&run).starts_with(&format!("Plan: 1 ConfigMap to create, 1 node to assign{remark} (p1:")),
        "{run}"
    );
    let run = cluster.sync(&repository, &[]).await.exits(0).prints(near);
    assert!(
        last_line(&run).contains("1 node: 1 converged") && last_line(&run).ends_with(&format!("{remark}.")),
        "{run}"
    );
    let run = cluster.run("verify", &repository, &[]).await.exits(0).prints(near);
    assert!(last_line(&run).ends_with(&format!("{remark}.")), "{run}");
    let run = cluster.run("verify", &repository, &["-o", "json"]).await.exits(0);
    assert_eq!(run.json_lines().last().unwrap()["remarks"][0], "pool gpu selects no node", "{run}");
    cluster.run("status", &repository, &[]).await.exits(0).prints("gpu 0 - 0 no nodes");

    // The pool decides.
    repository.pool_spec("gpu", "{requireNodes: true}");
    repository.commit();
    let fix = "write nodecfg.dev/pool=gup in the nodeSelector of pool gpu, or label the nodes nodecfg.dev/pool=gpu";
    for command in ["diff", "sync", "verify"] {
        cluster.run(command, &repository, &[]).await.exits(3).prints("spec.requireNodes is true").prints(fix);
    }
    cluster.sync(&repository, &["--allow-empty"]).await.exits(0).does_not_print("selects no node");
    repository.pool_spec("gpu", "{requireNodes: false}");
    repository.commit();
    cluster.sync(&repository, &[]).await.exits(0).does_not_print("selects no node");
    cluster.down().await;
}

async fn uncommitted_files_are_counted(start: ClusterSetup) {
    let cluster = start.pool("a", 1).up().await;
    let repository = Repository::of_pool("maxPods: 110", "");
    cluster.sync(&repository, &[]).await.exits(0).does_not_print("not included");
    repository.pool("a", "maxPods: 120");
    repository.write("notes.txt", "no configuration");
    let remark = "; 1 uncommitted file not included";
    let run = cluster.run("diff", &repository, &[]).await.exits(0);
    assert!(last_line(&run).starts_with(&format!("No changes: 1 node up to date{remark} (p1:")), "{run}");
    for command in ["sync", "verify", "status"] {
        let run = cluster.run(command, &repository, &[]).await.exits(0);
        assert!(last_line(&run).ends_with(&format!("{remark}.")), "{run}");
    }
    repository.pool("b", "maxPods: 120");
    cluster.run("status", &repository, &[]).await.exits(0).prints("; 2 uncommitted files not included");
    // Another choice of files leaves none out.
    cluster.run("diff", &repository, &["--rev", "HEAD"]).await.exits(0).does_not_print("not included");
    cluster.run("diff", &repository, &["--worktree"]).await.exits(1).does_not_print("not included");
    cluster.down().await;
}

async fn review_says_what_a_sync_would_do(start: ClusterSetup) {
    let cluster = start.pool("a", 3).pool("b", 2).fault("a-1", Fault::ValidateError).up().await;
    let repository = Repository::empty();
    repository.fleet("test", "{canary: {nodes: 1}}");
    repository.pool("a", "maxPods: 110");
    repository.pool("b", "maxPods: 110");
    repository.commit();
    cluster.sync(&repository, &[]).await.exits(5).prints("canary a-1 failed");
    repository.change("b", "maxPods: 120");
    let promise = "Plan: 1 ConfigMap to create, 2 nodes to assign, 2 nodes not assigned (a-1 failed this already)";
    let run = cluster.run("diff", &repository, &[]).await.exits(1).prints("stops at once: a-1 failed this already");
    assert!(last_line(&run).starts_with(promise), "{run}");
    let run = cluster.sync(&repository, &["--dry-run"]).await.exits(0);
    assert!(last_line(&run).starts_with(promise), "{run}");
    let outlook = cluster.run("diff", &repository, &["-o", "json"]).await.exits(1).json()["cluster"]["outlook"].clone();
    assert_eq!(outlook, serde_json::json!({"refused": false, "assign": 2, "stopped": 2, "waiting": 0, "held": 0}));
    let history = cluster.history().await;
    cluster.sync(&repository, &[]).await.exits(5).prints(promise);
    let mut assigned = history.end().await.assigned();
    assigned.sort();
    assert_eq!(assigned, ["b-1", "b-2"], "what the plan says");

    repository.change("b", "maxPods: 120\ncgroupDriver: systemd");
    let run = cluster.run("diff", &repository, &[]).await.exits(1);
    let refused = "Refused: pool b allows no more than restart, so sync changes none of 4 nodes";
    assert!(last_line(&run).starts_with(refused), "{run}");
    let run = cluster.sync(&repository, &["--dry-run"]).await.exits(3);
    assert!(last_line(&run).starts_with(refused), "{run}");
    cluster.sync(&repository, &[]).await.exits(3);
    cluster.down().await;
}
