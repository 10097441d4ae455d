//! Orders of those on call, given by one process while another rolls out: pools that are paused, rollouts that are aborted.

use serde_json::{Value, json};

use crate::harness::{Cluster, Repository, Run, Running, Start};
use nodecfg_sandbox::kubelets::Fault;

scenarios! {
    Anything {
        a_paused_pool_is_left_alone_by_everything_that_plans,
        a_pause_before_the_first_rollout_is_seen_and_lifted,
        a_pause_stops_a_rollout_that_runs,
        an_abort_finishes_what_is_on_its_way,
        an_abort_can_take_back_what_has_not_converged,
        an_abort_without_a_rollout_says_so,
        two_pauses_race_and_both_hold,
    }
}

impl Cluster {
    /// A command that gives an order about the fleet `test`.
    fn order_running(&self, arguments: &[&str]) -> Running {
        let kubeconfig = self.kubeconfig().display().to_string();
        let fixed = ["--fleet", "test", "--namespace", self.namespace(), "--kubeconfig", &kubeconfig];
        Running::start(self.home(), &[arguments, &fixed[..]].concat())
    }

    async fn order(&self, arguments: &[&str]) -> Run {
        self.order_running(arguments).end().await
    }

    fn lease_path(&self) -> String {
        format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases/nodecfg-test", self.namespace())
    }

    async fn lease(&self) -> Value {
        self.get(&self.lease_path()).await
    }
}

/// Two pools, a few nodes at a time.
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

async fn a_paused_pool_is_left_alone_by_everything_that_plans(start: Start) {
    let cluster = start.pool("a", 2).pool("b", 1).up().await;
    let repository = repository();
    let unknown = cluster.order(&["pause", "a", "--reason", "disks"]).await.exits(2);
    unknown
        .says("there is no pool a among the ConfigMaps of fleet test")
        .says("--allow-unknown pauses a pool that has never been");
    let paused = cluster.order(&["pause", "a", "--reason", "disks are\nfull", "--allow-unknown"]).await.exits(0);
    paused.says("a: paused by ").says(", disks are full").says("nodecfg resume a").says("not known");

    let diff = cluster.run("diff", &repository, &[]).await.exits(1);
    diff.says("paused: by ").says("disks are full").says("left alone: a-1, a-2: the pool is paused");
    let run = cluster.sync(&repository, &[]).await.exits(0);
    run.says("paused: pool a, 2 nodes left as they are: by ").says("nodecfg resume a, and sync again");
    assert_eq!((assigned(&cluster, "a").await, assigned(&cluster, "b").await), (0, 1));
    cluster.run("verify", &repository, &[]).await.exits(0).says("2 skipped");
    let json = cluster.run("diff", &repository, &["-o", "json"]).await.exits(0).json();
    let pool = json["pools"].as_array().unwrap().iter().find(|pool| pool["name"] == "a").unwrap().clone();
    assert_eq!(
        (&pool["rollout"]["paused"], &pool["rollout"]["pause"]["reason"]),
        (&json!(true), &json!("disks are full"))
    );

    // Now b is known, and near.
    cluster.order(&["resume", "bb"]).await.exits(2).says("did you mean b?");
    let resumed = cluster.order(&["resume", "a", "b", "-o", "json"]).await.exits(0).json();
    let results: Vec<&Value> = resumed["pools"].as_array().unwrap().iter().map(|pool| &pool["result"]).collect();
    assert_eq!(results, ["resumed", "notPaused"]);
    cluster.sync(&repository, &[]).await.exits(0).says("2 converged").never_says("paused");
    cluster.down().await;
}

async fn a_pause_before_the_first_rollout_is_seen_and_lifted(start: Start) {
    let cluster = start.pool("a", 1).up().await;
    cluster.order(&["pause", "a", "--reason", "disks", "--allow-unknown"]).await.exits(0).says("resume a --fleet test");
    let kubeconfig = cluster.kubeconfig().display().to_string();
    let at = ["--namespace", cluster.namespace(), "--kubeconfig", &kubeconfig];
    let unnamed = |command: &[&str]| Running::start(cluster.home(), &[command, &at[..]].concat());
    unnamed(&["status"]).end().await.exits(0).says("Paused: a by ").says(": disks");
    unnamed(&["abort"]).end().await.exits(0).says("nobody holds the lock of fleet test");
    unnamed(&["resume", "a"]).end().await.exits(0).says("a: resumed");
    unnamed(&["status"]).end().await.exits(0).never_says("Paused:");
}

async fn a_pause_stops_a_rollout_that_runs(start: Start) {
    let cluster = start.pool("a", 3).pool("b", 1).up().await;
    cluster.fault("a-1", Some(Fault::NeverAcknowledges)).await;
    let repository = repository();
    let mut run = cluster.start_run("sync", &repository, &[]);
    run.until_it_says("a/a-1 assigned").await;
    let paused = cluster.order(&["pause", "a", "--reason", "disks"]).await.exits(0);
    paused.says("running now:").says("It starts no further nodes of them");
    run.until_it_says("a stopped: paused by ").await;
    // What is on its way is waited for, and ends.
    cluster.fault("a-1", None).await;
    let run = run.end().await.exits(5);
    run.says("stopped: pool a: paused by ").says("2 not started").says("`nodecfg resume` the pool");
    assert_eq!((assigned(&cluster, "a").await, assigned(&cluster, "b").await), (1, 1));
    cluster.sync(&repository, &[]).await.exits(0).says("paused: pool a, 2 nodes left as they are");
    cluster.down().await;
}

async fn an_abort_finishes_what_is_on_its_way(start: Start) {
    let cluster = start.pool("a", 3).up().await;
    cluster.fault("a-1", Some(Fault::NeverAcknowledges)).await;
    let repository = Repository::of_pool("maxPods: 110", "{maxUnavailable: 1}");
    let mut run = cluster.start_run("sync", &repository, &[]);
    run.until_it_says("a/a-1 assigned").await;
    let short = cluster.order(&["abort", "--timeout", "1ms", "--reason", "wrong branch"]).await.exits(6);
    short.says("still holds the lock");
    let abort = cluster.order_running(&["abort", "-o", "json"]);
    run.until_it_says("a stopped: aborted by ").await;
    cluster.fault("a-1", None).await;
    run.end().await.exits(5).says(": wrong branch").says("1 converged").says("2 not started");
    let ended = abort.end().await.exits(0).json();
    assert_eq!((&ended["result"], &ended["order"]["reason"]), (&json!("ended"), &json!("wrong branch")), "{ended}");
    assert_eq!(assigned(&cluster, "a").await, 1);
    cluster.sync(&repository, &[]).await.exits(0).says("2 converged").never_says("aborted");
    cluster.down().await;
}

async fn an_abort_can_take_back_what_has_not_converged(start: Start) {
    let cluster = start.pool("a", 3).up().await;
    let repository = Repository::of_pool("maxPods: 110", "{maxUnavailable: 1}");
    cluster.sync(&repository, &[]).await.exits(0);
    let before = cluster.source("a-2").await;
    repository.change("a", "maxPods: 120");
    cluster.fault("a-2", Some(Fault::NeverAcknowledges)).await;
    let mut run = cluster.start_run("sync", &repository, &[]);
    run.until_it_says("a/a-2 assigned").await;
    cluster.order(&["abort", "--timeout", "1ms"]).await.exits(6);
    run.until_it_says("a stopped: aborted by ").await;
    // That takes too long: back, after all.
    let abort = cluster.order(&["abort", "--back"]).await.exits(0);
    abort.says("has ended, after").says("pointed back at what they had");
    let run = run.end().await.exits(5);
    run.says("a/a-2 rolled back to ").says("1 converged, 1 rolled back, 1 not started");
    assert_eq!(cluster.source("a-2").await, before);
    assert_ne!(cluster.source("a-1").await, before, "it had converged");
    cluster.fault("a-2", None).await;
    cluster.sync(&repository, &[]).await.exits(0).says("2 converged");
    cluster.down().await;
}

async fn an_abort_without_a_rollout_says_so(start: Start) {
    let cluster = start.pool("a", 1).up().await;
    let repository = Repository::of_pool("maxPods: 110", "{}");
    cluster.sync(&repository, &[]).await.exits(0);
    cluster.order(&["abort"]).await.exits(0).says("Nothing to abort: nobody holds the lock of fleet");
    // A fleet or a namespace that nothing is in is a typing error, not a fleet at rest.
    let kubeconfig = cluster.kubeconfig().display().to_string();
    for (fleet, namespace) in [("test", "default"), ("tset", cluster.namespace())] {
        let mistyped = ["abort", "--fleet", fleet, "--namespace", namespace, "--kubeconfig", &kubeconfig];
        let fault = Running::start(cluster.home(), &mistyped).end().await.exits(2);
        fault.says(&format!("nothing of a fleet {fleet} is in the namespace {namespace}"));
    }
    // A holder that died.
    let long_ago = "2020-01-01T00:00:00.000000Z";
    let spec = json!({"holderIdentity": "ci_7_00", "leaseDurationSeconds": 30, "renewTime": long_ago, "acquireTime": long_ago});
    cluster.patch(&cluster.lease_path(), json!({"spec": spec})).await;
    let dead = cluster.order(&["abort"]).await.exits(0);
    dead.says("The rollout is dead: ci_7_00 since 2020-01-01T00:00:00Z stopped renewing the lock");
    cluster.down().await;
}

async fn two_pauses_race_and_both_hold(start: Start) {
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
        .says("a: paused anew by")
        .says("before: by");
    cluster.down().await;
}
