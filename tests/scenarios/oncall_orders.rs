//! Scenarios of on-call orders during a rollout by another process: paused pools and aborted rollouts.

use serde_json::{Value, json};

use crate::harness::{Cluster, ClusterSetup, Repository, Run, Running};
use nodecfg_sandbox::kubelets::Fault;

scenarios! {
    Anything {
        planning_commands_skip_paused_pool,
        pause_before_first_rollout_is_respected,
        pause_stops_running_rollout,
        pause_of_fleet_stops_everything,
        paused_fleet_in_git_stops_running_sync_and_no_rollback,
        abort_finishes_nodes_in_transition,
        abort_can_roll_back_nodes_in_transition,
        abort_without_rollout_reports_it,
        concurrent_pauses_both_take_effect,
    }
}

impl Cluster {
    /// Starts a command that gives an order for fleet `test`.
    fn order_running(&self, arguments: &[&str]) -> Running {
        let kubeconfig = self.kubeconfig().display().to_string();
        let fixed = ["--fleet", "test", "--namespace", self.namespace(), "--kubeconfig", &kubeconfig];
        Running::start(self.home(), &[arguments, &fixed[..]].concat())
    }

    pub(super) async fn order(&self, arguments: &[&str]) -> Run {
        self.order_running(arguments).end().await
    }

    fn lease_path(&self) -> String {
        format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases/nodecfg-test", self.namespace())
    }

    async fn lease(&self) -> Value {
        self.get(&self.lease_path()).await
    }
}

/// Repository with two pools and a small budget.
fn repository() -> Repository {
    let repository = Repository::empty();
    repository.fleet("test", "{maxUnavailable: 1}");
    repository.pool("a", "maxPods: 110");
    repository.pool("b", "maxPods: 110");
    repository.commit();
    repository
}

async fn assigned(cluster: &Cluster, pool: &str) -> usize {
    let states = cluster.states().await;
    states.iter().filter(|(name, state)| name.starts_with(&format!("{pool}-")) && state.source.is_some()).count()
}

async fn planning_commands_skip_paused_pool(start: ClusterSetup) {
    let cluster = start.pool("a", 2).pool("b", 1).up().await;
    let repository = repository();
    let unknown = cluster.order(&["pause", "a", "--reason", "disks"]).await.exits(2);
    unknown
        .prints("there is no pool a among the ConfigMaps of fleet test")
        .prints("pass --allow-unknown to pause a pool that was never");
    let paused = cluster.order(&["pause", "a", "--reason", "disks are\nfull", "--allow-unknown"]).await.exits(0);
    paused.prints("a: paused by ").prints(", disks are full").prints("nodecfg resume a").prints("unknown pool");

    let diff = cluster.run("diff", &repository, &[]).await.exits(1);
    diff.prints("paused: by ").prints("disks are full").prints("unchanged: a-1, a-2: the pool is paused");
    let run = cluster.sync(&repository, &[]).await.exits(0);
    run.prints("paused: pool a, 2 nodes unchanged: by ").prints("`nodecfg resume a`, and sync again");
    assert_eq!((assigned(&cluster, "a").await, assigned(&cluster, "b").await), (0, 1));
    cluster.run("verify", &repository, &[]).await.exits(0).prints("2 paused");
    let json = cluster.run("diff", &repository, &["-o", "json"]).await.exits(0).json();
    let pool = json["pools"].as_array().unwrap().iter().find(|pool| pool["name"] == "a").unwrap().clone();
    assert_eq!(
        (&pool["rollout"]["paused"], &pool["rollout"]["pause"]["reason"]),
        (&json!(true), &json!("disks are full"))
    );

    // Pool b now exists, and its name is similar.
    cluster.order(&["resume", "bb"]).await.exits(2).prints("did you mean b?");
    let resumed = cluster.order(&["resume", "a", "b", "-o", "json"]).await.exits(0).json();
    let results: Vec<&Value> = resumed["pools"].as_array().unwrap().iter().map(|pool| &pool["result"]).collect();
    assert_eq!(results, ["resumed", "notPaused"]);
    cluster.sync(&repository, &[]).await.exits(0).prints("2 converged").does_not_print("paused");
    cluster.down().await;
}

async fn pause_before_first_rollout_is_respected(start: ClusterSetup) {
    let cluster = start.pool("a", 1).up().await;
    cluster
        .order(&["pause", "a", "--reason", "disks", "--allow-unknown"])
        .await
        .exits(0)
        .prints("resume a --fleet test");
    let kubeconfig = cluster.kubeconfig().display().to_string();
    let at = ["--namespace", cluster.namespace(), "--kubeconfig", &kubeconfig];
    let unnamed = |command: &[&str]| Running::start(cluster.home(), &[command, &at[..]].concat());
    unnamed(&["status"]).end().await.exits(0).prints("paused: a by ").prints(": disks");
    unnamed(&["abort"]).end().await.exits(0).prints("the lock of fleet test is free");
    unnamed(&["resume", "a"]).end().await.exits(0).prints("a: resumed");
    unnamed(&["status"]).end().await.exits(0).does_not_print("Paused:");
}

async fn pause_stops_running_rollout(start: ClusterSetup) {
    let cluster = start.pool("a", 3).pool("b", 1).up().await;
    cluster.fault("a-1", Some(Fault::NeverAcknowledges)).await;
    let repository = repository();
    let mut run = cluster.start_run("sync", &repository, &[]);
    run.until_stderr_contains("a/a-1 assigned").await;
    let paused = cluster.order(&["pause", "a", "--reason", "disks"]).await.exits(0);
    paused.prints("running now:").prints("it starts no further nodes of these pools");
    run.until_stderr_contains("a stopped: paused by ").await;
    // Nodes in transition are waited for, then the sync ends.
    cluster.fault("a-1", None).await;
    let run = run.end().await.exits(5);
    run.prints("stopped: pool a: paused by ").prints("2 not started").prints("`nodecfg resume POOL` when");
    assert_eq!((assigned(&cluster, "a").await, assigned(&cluster, "b").await), (1, 1));
    cluster.sync(&repository, &[]).await.exits(0).prints("paused: pool a, 2 nodes unchanged");
    cluster.down().await;
}

async fn pause_of_fleet_stops_everything(start: ClusterSetup) {
    let cluster = start.pool("a", 3).pool("b", 2).up().await;
    cluster.fault("a-1", Some(Fault::NeverAcknowledges)).await;
    cluster.fault("b-1", Some(Fault::NeverAcknowledges)).await;
    let repository = repository();
    let mut run = cluster.start_run("sync", &repository, &[]);
    run.until_stderr_contains("b/b-1 assigned").await;
    let paused = cluster.order(&["pause", "--all", "--reason", "incident 4711"]).await.exits(0);
    paused.prints("the whole fleet: paused").prints("To continue: nodecfg resume --all");
    run.until_stderr_contains("a stopped: paused with the whole fleet by ").await;
    let second = cluster.sync(&repository, &[]).await.exits(6).prints("holds the lock");
    second.prints("paused: the whole fleet, by ");
    cluster.fault("a-1", None).await;
    cluster.fault("b-1", None).await;
    run.end()
        .await
        .exits(5)
        .prints("3 not started")
        .prints("`nodecfg resume --all` when")
        .prints("run the same command again");
    assert_eq!((assigned(&cluster, "a").await, assigned(&cluster, "b").await), (1, 1));

    // Each command says it first.
    let words = "paused: the whole fleet, by ";
    for (command, exit) in [("diff", 0), ("sync", 0), ("status", 0), ("verify", 0)] {
        let run = cluster.run(command, &repository, &[]).await.exits(exit);
        let first = run.out.lines().find(|line| !line.is_empty()).unwrap_or_default();
        assert!(first.starts_with(words), "{command}: {}", run.out);
    }
    cluster.order(&["resume", "a"]).await.exits(0).prints(words).prints("a: was not paused");
    cluster.order(&["release", "--all", "--dry-run"]).await.exits(0).prints(words);
    cluster.run("doctor", &repository, &[]).await.prints("the whole fleet is paused by ");
    let folder = repository.path().to_str().unwrap();
    cluster.command(&["history", "a", folder, "--namespace", cluster.namespace()]).await.exits(0).prints(words);
    let status = cluster.run("status", &repository, &["-o", "json"]).await.exits(0).json();
    assert_eq!(status["fleets"][0]["paused"]["reason"], "incident 4711", "{status}");
    let by_name = cluster.order(&["pause", "a", "--reason", "disks"]).await.exits(0);
    by_name.prints("To continue: nodecfg resume a ").prints(" and nodecfg resume --all");
    let resumed = cluster.order(&["resume", "--all"]).await.exits(0).prints("the whole fleet: resumed");
    resumed.prints("includes the whole fleet but a, which is paused by name");
    cluster
        .order(&["pause", "--all", "--reason", "more"])
        .await
        .exits(0)
        .prints("changes no nodes of the whole fleet.");
    cluster.order(&["resume", "a"]).await.exits(0).prints("changes no nodes of a: the whole fleet is paused.");
    cluster.order(&["resume", "--all"]).await.exits(0).prints("includes the whole fleet, unless");
    cluster.sync(&repository, &[]).await.exits(0).prints("3 converged").does_not_print("paused");
    cluster.down().await;
}

async fn paused_fleet_in_git_stops_running_sync_and_no_rollback(start: ClusterSetup) {
    let cluster = start.pool("a", 3).up().await;
    let repository = Repository::of_pool("eventRecordQPS: 7", "{maxUnavailable: 1}");
    cluster.sync(&repository, &[]).await.exits(0);
    repository.change("a", "eventRecordQPS: 8");
    cluster.fault("a-1", Some(Fault::NeverAcknowledges)).await;
    let mut run = cluster.start_run("sync", &repository, &[]);
    run.until_stderr_contains("a/a-1 assigned").await;
    let fleet = "apiVersion: nodecfg.dev/v1alpha1\nkind: Fleet\nmetadata: {name: test}\nspec: {paused: true}\n";
    repository.write("nodecfg.yaml", fleet);
    repository.commit();
    let paused = cluster.sync(&repository, &[]).await.exits(6);
    paused.prints("to stop, if it is a sync: commit ").prints("pauses the fleet (spec.paused)");
    run.until_stderr_contains("a stopped: aborted by ").await;
    cluster.fault("a-1", None).await;
    run.end().await.exits(5).prints("pauses the fleet (spec.paused)").prints("2 not started");
    let words = "paused: the whole fleet, in the repository (spec.paused of the Fleet)";
    cluster.sync(&repository, &[]).await.exits(0).prints(words).prints("2 paused");
    cluster.run("status", &repository, &[]).await.exits(0).prints(words);
    let doctor = cluster.run("doctor", &repository, &[]).await.prints("spec.paused of the Fleet pauses every pool");
    doctor.prints("warning");

    // An operator decides otherwise, and the next sync does not interfere.
    cluster.fault("a-1", Some(Fault::NeverAcknowledges)).await;
    let (folder, kubeconfig) = (repository.path().to_str().unwrap(), cluster.kubeconfig().display().to_string());
    let arguments = ["rollback", "a", folder, "--namespace", cluster.namespace(), "--kubeconfig", &kubeconfig];
    let mut rollback = Running::start(cluster.home(), &arguments);
    rollback.until_stderr_contains("a/a-1 assigned").await;
    cluster.sync(&repository, &[]).await.exits(6);
    cluster.fault("a-1", None).await;
    rollback.end().await.exits(0).does_not_print("aborted");
    cluster.down().await;
}

async fn abort_finishes_nodes_in_transition(start: ClusterSetup) {
    let cluster = start.pool("a", 3).up().await;
    cluster.fault("a-1", Some(Fault::NeverAcknowledges)).await;
    let repository = Repository::of_pool("maxPods: 110", "{maxUnavailable: 1}");
    let mut run = cluster.start_run("sync", &repository, &[]);
    run.until_stderr_contains("a/a-1 assigned").await;
    let short = cluster.order(&["abort", "--timeout", "1ms", "--reason", "wrong branch"]).await.exits(6);
    short.prints("still holds the lock");
    let abort = cluster.order_running(&["abort", "-o", "json"]);
    run.until_stderr_contains("a stopped: aborted by ").await;
    cluster.fault("a-1", None).await;
    run.end().await.exits(5).prints(": wrong branch").prints("1 converged").prints("2 not started");
    let ended = abort.end().await.exits(0).json();
    assert_eq!((&ended["result"], &ended["order"]["reason"]), (&json!("ended"), &json!("wrong branch")), "{ended}");
    assert_eq!(assigned(&cluster, "a").await, 1);
    cluster.sync(&repository, &[]).await.exits(0).prints("2 converged").does_not_print("aborted");
    cluster.down().await;
}

async fn abort_can_roll_back_nodes_in_transition(start: ClusterSetup) {
    let cluster = start.pool("a", 3).up().await;
    let repository = Repository::of_pool("maxPods: 110", "{maxUnavailable: 1}");
    cluster.sync(&repository, &[]).await.exits(0);
    let before = cluster.source("a-2").await;
    repository.change("a", "maxPods: 120");
    cluster.fault("a-2", Some(Fault::NeverAcknowledges)).await;
    let mut run = cluster.start_run("sync", &repository, &[]);
    run.until_stderr_contains("a/a-2 assigned").await;
    cluster.order(&["abort", "--timeout", "1ms"]).await.exits(6);
    run.until_stderr_contains("a stopped: aborted by ").await;
    // Waiting takes too long, so the nodes are rolled back.
    let abort = cluster.order(&["abort", "--back"]).await.exits(0);
    abort.prints("ended after").prints("returned to their previous configuration");
    let run = run.end().await.exits(5);
    run.prints("a/a-2 rolled back to ").prints("1 converged").prints("1 rolled back, 1 not started");
    assert_eq!(cluster.source("a-2").await, before);
    assert_ne!(cluster.source("a-1").await, before, "the node had converged");
    cluster.fault("a-2", None).await;
    cluster.sync(&repository, &[]).await.exits(0).prints("2 converged");
    cluster.down().await;
}

async fn abort_without_rollout_reports_it(start: ClusterSetup) {
    let cluster = start.pool("a", 1).up().await;
    let repository = Repository::of_pool("maxPods: 110", "{}");
    cluster.sync(&repository, &[]).await.exits(0);
    cluster.order(&["abort"]).await.exits(0).prints("Nothing to abort: the lock of fleet");
    // An empty fleet or namespace is a typing error, not an idle fleet.
    let kubeconfig = cluster.kubeconfig().display().to_string();
    for (fleet, namespace) in [("test", "default"), ("tset", cluster.namespace())] {
        let mistyped = ["abort", "--fleet", fleet, "--namespace", namespace, "--kubeconfig", &kubeconfig];
        let fault = Running::start(cluster.home(), &mistyped).end().await.exits(2);
        fault.prints(&format!("fleet {fleet} has no objects in namespace {namespace}"));
    }
    // A lock holder that died.
    let long_ago = "2020-01-01T00:00:00.000000Z";
    let spec = json!({"holderIdentity": "ci_7_00", "leaseDurationSeconds": 30, "renewTime": long_ago, "acquireTime": long_ago});
    cluster.patch(&cluster.lease_path(), json!({"spec": spec})).await;
    let dead = cluster.order(&["abort"]).await.exits(0);
    dead.prints("The rollout is dead: ci_7_00 since 2020-01-01T00:00:00Z stopped renewing the lock");
    cluster.down().await;
}

async fn concurrent_pauses_both_take_effect(start: ClusterSetup) {
    let cluster = start.pool("a", 1).pool("b", 1).up().await;
    let repository = repository();
    cluster.sync(&repository, &[]).await.exits(0);
    let a = cluster.order_running(&["pause", "a", "--reason", "disks"]);
    let b = cluster.order_running(&["pause", "b", "--reason", "fans"]);
    let (a, b) = (a.end().await, b.end().await);
    a.exits(0);
    b.exits(0);
    let pauses: Value =
        serde_json::from_str(cluster.lease().await["metadata"]["annotations"]["nodecfg.dev/pauses"].as_str().unwrap())
            .unwrap();
    assert_eq!((&pauses["a"]["reason"], &pauses["b"]["reason"]), (&json!("disks"), &json!("fans")));
    cluster
        .order(&["pause", "a", "--reason", "other disks"])
        .await
        .exits(0)
        .prints("a: pause updated: by")
        .prints("previously: by");
    cluster.down().await;
}
