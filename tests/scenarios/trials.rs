//! Scenarios of trials: what each command reports of them, and the wait for their ends.

use nodecfg_sandbox::kubelets::Fault;

use crate::harness::{ClusterSetup, Repository};

scenarios! {
    Sandbox {
        wait_ends_after_the_trials,
    }
    Agents {
        every_command_reports_nodes_on_trial,
        failed_trial_ends_the_wait_with_its_error,
    }
}

fn repository() -> Repository {
    Repository::of_pool("maxPods: 110", "{maxUnavailable: 100%}")
}

async fn every_command_reports_nodes_on_trial(start: ClusterSetup) {
    // The trials take half a minute of real time.
    let cluster = start.large().pool("a", 2).up().await;
    let repository = repository();
    let run = cluster.sync(&repository, &[]).await.exits(0);
    run.prints("converged, on trial, ").prints("2 nodes: 2 converged, 2 on trial (up to ").prints("pass --wait-trial");
    let run = cluster.run("verify", &repository, &[]).await.exits(0);
    run.prints("2 nodes: 2 already up to date, 2 on trial (up to ").prints("pass --wait-trial");
    let run = cluster.sync(&repository, &[]).await.exits(0);
    run.prints("2 nodes: 2 already up to date, 2 on trial (up to ");
    let run = cluster.run("status", &repository, &[]).await.exits(0);
    run.prints("100%").prints("on trial, ").prints("2 on trial.");
    let json = cluster.run("status", &repository, &["-o", "json"]).await.exits(0).json();
    assert_eq!((&json["states"]["onTrial"], &json["pools"][0]["converged"]), (&2.into(), &2.into()), "{json}");
    assert!(json["nodes"][0]["trial"]["endsAt"].is_string(), "{json}");
    cluster.down().await;
}

async fn wait_ends_after_the_trials(start: ClusterSetup) {
    let cluster = start.pool("a", 2).up().await;
    let repository = repository();
    let run = cluster.sync(&repository, &["--wait-trial"]).await.exits(0);
    run.prints("2 nodes: 2 converged.").does_not_print("on trial");
    let run = cluster.run("verify", &repository, &["--wait-trial"]).await.exits(0);
    run.prints("2 nodes: 2 already up to date.");
    cluster.run("status", &repository, &[]).await.exits(0).does_not_print("on trial");
    cluster.down().await;
}

async fn failed_trial_ends_the_wait_with_its_error(start: ClusterSetup) {
    let cluster = start.pool("a", 2).fault("a-1", Fault::Dies).up().await;
    let repository = repository();
    let run = cluster.sync(&repository, &["--wait-trial"]).await.exits(5);
    run.prints("failed: a-1: failed trial: ").prints("2 nodes: 1 converged, 1 failed.");
    let run = cluster.run("verify", &repository, &["--wait-trial"]).await.exits(5);
    run.prints("failed trial: ").prints("2 nodes: 1 already up to date, 1 failed.");
    cluster.down().await;
}
