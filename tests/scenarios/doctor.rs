//! Scenarios of `doctor`: checks on healthy and unhealthy clusters, exit codes like those of a sync, and absence of
//! writes.

use nodecfg_install::rights;
use nodecfg_sandbox::server::wire::{Fault, FaultKind, Matcher};
use serde_json::{Value, json};

use crate::harness::{Cluster, ClusterSetup, Repository, Run, Running};

scenarios! {
    Anything {
        healthy_cluster_passes,
        cluster_passes_after_rollout,
        reports_empty_pool_and_nodes_in_two_pools,
        reports_modified_and_missing_config_maps,
        reports_held_lock,
        reports_wrong_credentials,
    }
    Sandbox {
        names_every_missing_permission,
        reports_unreachable_api_server,
        failed_check_does_not_affect_others,
        sync_and_doctor_name_the_fix_of_the_policy_for_config_maps,
        doctor_writes_nothing,
    }
    Agents {
        reports_outdated_definition,
        reports_silent_agent,
    }
    Dropping {
        reports_missing_installation,
    }
}

fn repository() -> Repository {
    Repository::of_pool("maxPods: 110", "{maxUnavailable: 100%}")
}

/// Runs `nodecfg doctor` without a repository.
async fn alone(cluster: &Cluster, more: &[&str]) -> Run {
    let kubeconfig = cluster.kubeconfig();
    let arguments = [&["doctor", "--kubeconfig", kubeconfig.to_str().unwrap()], more].concat();
    Running::start(cluster.home(), &arguments).end().await
}

/// Checks with one code, as JSON.
fn checks(run: &Run, code: &str) -> Vec<Value> {
    let document = run.json();
    assert_eq!(document["exitCode"].as_i64(), run.code.map(i64::from), "{document:#}");
    document["checks"].as_array().unwrap().iter().filter(|check| check["code"] == code).cloned().collect()
}

/// Asserts that a check with this code has this verdict and text.
#[track_caller]
fn finds(run: &Run, code: &str, verdict: &str, text: &str) {
    let found = checks(run, code);
    let is = |check: &Value| check["verdict"] == verdict && check["seen"].as_str().unwrap().contains(text);
    assert!(found.iter().any(is), "no {verdict} of {code} contains {text:?}: {found:#?}\n{run}");
}

fn lease(cluster: &Cluster) -> String {
    format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", cluster.namespace())
}

async fn healthy_cluster_passes(start: ClusterSetup) {
    let cluster = start.pool("a", 2).up().await;
    let run = alone(&cluster, &[]).await.exits(0).prints("Ready: a sync can run").prints("checks; -v lists them");
    assert!(!run.out.contains("problem:"), "{run}");
    let run = cluster.run("doctor", &repository(), &["-o", "json"]).await.exits(0);
    finds(&run, "plan", "ok", "2 nodes to assign, 1 ConfigMap to create");
    finds(&run, "lock", "ok", "free");
    finds(&run, "binding", "ok", "shown by a dry-run patch");
    let ill = run.json()["checks"].as_array().unwrap().iter().any(|check| check["verdict"] == "problem");
    assert!(!ill, "{run}");
    cluster.down().await;
}

async fn cluster_passes_after_rollout(start: ClusterSetup) {
    let cluster = start.pool("a", 2).up().await;
    let repository = repository();
    cluster.sync(&repository, &[]).await.exits(0);
    let run = cluster.run("doctor", &repository, &["-o", "json"]).await.exits(0);
    finds(&run, "plan", "ok", "nothing to do");
    finds(&run, "config-map-content", "ok", "1 ConfigMap checked");
    finds(&run, "orders", "ok", "");
    if cluster.assignment_resource() == "nodeconfigs" {
        finds(&run, "agent-silent", "ok", "2 agents");
        finds(&run, "agent-version", "ok", env!("CARGO_PKG_VERSION"));
    }
    cluster.run("doctor", &repository, &["-v"]).await.exits(0).prints("ok: nothing to do (plan)");
    cluster.down().await;
}

async fn reports_empty_pool_and_nodes_in_two_pools(start: ClusterSetup) {
    let cluster = start.pool("a", 2).up().await;
    let repository = repository();
    repository.pool("spare", "maxPods: 20");
    let run = cluster.run("doctor", &repository, &["--worktree", "-o", "json"]).await.exits(0);
    finds(&run, "pool-empty", "warning", "1 pool (spare)");
    for node in ["a-1", "a-2"] {
        let labels = json!({"metadata": {"labels": {"nodecfg.dev/pool": "elsewhere"}}});
        cluster.patch(&format!("/api/v1/nodes/{node}"), labels).await;
    }
    // A sync refuses to plan if no pool selects a node.
    let run = cluster.run("doctor", &repository, &["-o", "json"]).await.exits(3);
    finds(&run, "plan", "problem", "select none of the nodes");
    cluster.sync(&repository, &[]).await.exits(3);
    cluster.down().await;
}

async fn reports_modified_and_missing_config_maps(start: ClusterSetup) {
    let cluster = start.pool("a", 2).up().await;
    let repository = repository();
    cluster.sync(&repository, &[]).await.exits(0);
    let name = cluster.only_config_map().await;
    let path = format!("/api/v1/namespaces/{}/configmaps/{name}", cluster.namespace());
    cluster.delete(&path).await;
    let run = alone(&cluster, &["-o", "json"]).await.exits(4);
    finds(&run, "config-map-gone", "problem", "is missing; referenced by 2 nodes (a-1, a-2)");
    cluster.run("doctor", &repository, &[]).await.exits(4).prints("is missing").prints("(plan)");
    cluster.create_config_map(&name, "maxPods: 7\n", false, Some(("test", "a"))).await;
    let run = alone(&cluster, &["-o", "json"]).await.exits(4);
    finds(&run, "config-map-content", "problem", "has other content than its name records");
    finds(&run, "config-map-mutable", "problem", "is not immutable");
    cluster.run("doctor", &repository, &[]).await.exits(4);
    cluster.sync(&repository, &[]).await.exits(4);
    cluster.down().await;
}

async fn reports_held_lock(start: ClusterSetup) {
    let cluster = start.pool("a", 2).up().await;
    let repository = repository();
    cluster.sync(&repository, &[]).await.exits(0);
    let path = format!("{}/nodecfg-test", lease(&cluster));
    let held = |renewed: &str| json!({"spec": {"holderIdentity": "ci_7", "leaseDurationSeconds": 30, "renewTime": renewed, "acquireTime": renewed}});
    cluster.patch(&path, held("2999-01-01T00:00:00.000000Z")).await;
    let run = cluster.run("doctor", &repository, &["-o", "json"]).await.exits(6);
    finds(&run, "lock", "problem", "ci_7 holds");
    alone(&cluster, &[]).await.exits(6).prints("nodecfg abort");
    cluster.sync(&repository, &[]).await.exits(6);
    cluster.patch(&path, held("2001-01-01T00:00:00.000000Z")).await;
    let run = cluster.run("doctor", &repository, &["-o", "json"]).await.exits(0);
    finds(&run, "lock", "note", "let it expire");
    let pause = json!({"a": {"by": "ada", "at": "2026-01-01T00:00:00Z", "reason": "disks"}}).to_string();
    cluster.patch(&path, json!({"metadata": {"annotations": {"nodecfg.dev/pauses": pause}}})).await;
    let run = alone(&cluster, &["-o", "json"]).await.exits(0);
    finds(&run, "orders", "note", "pool a is paused by ada since 2026-01-01T00:00:00Z: disks");
    cluster.down().await;
}

async fn reports_wrong_credentials(start: ClusterSetup) {
    let cluster = start.pool("a", 1).up().await;
    let text = std::fs::read_to_string(cluster.kubeconfig()).unwrap();
    let wrong: String = text
        .lines()
        .map(|line| match line.split_once("token:") {
            Some((head, _)) => format!("{head}token: wrong\n"),
            None => format!("{line}\n"),
        })
        .collect();
    // A real API server is sent a certificate.
    if text.contains("token:") {
        let path = cluster.home().join("wrong");
        std::fs::write(&path, wrong).unwrap();
        let arguments = ["doctor", "-o", "json", "--kubeconfig", path.to_str().unwrap()];
        let run = Running::start(cluster.home(), &arguments).end().await.exits(4);
        finds(&run, "credentials", "problem", "does not accept the credentials");
        finds(&run, "api-server", "ok", "answers");
    }
    let arguments = ["doctor", "--kubeconfig", "nowhere"];
    Running::start(cluster.home(), &arguments).end().await.exits(4).prints("cannot be read");
    cluster.down().await;
}

async fn names_every_missing_permission(start: ClusterSetup) {
    let cluster = start.pool("a", 1).up().await;
    let agents = cluster.assignment_resource() == "nodeconfigs";
    let mut lines = Vec::new();
    for right in rights::for_sync(agents, cluster.namespace()) {
        cluster.sandbox().forbid(&right.verb, &right.resource);
        lines.push(right.to_string());
        let run = alone(&cluster, &["-o", "json"]).await.exits(4);
        let reported: Vec<String> = checks(&run, "permission")
            .iter()
            .filter(|check| check["verdict"] == "problem")
            .map(|check| check["subject"].as_str().unwrap().to_owned())
            .collect();
        assert!(lines.iter().all(|line| reported.contains(line)), "{lines:?}\n{reported:?}\n{run}");
    }
    cluster.down().await;
}

/// An administrator who has run `nodecfg install` is no writer of ConfigMaps.
async fn sync_and_doctor_name_the_fix_of_the_policy_for_config_maps(start: ClusterSetup) {
    let cluster = start.pool("a", 1).up().await;
    let repository = repository();
    let policy = format!("nodecfg-configmaps-{}", cluster.namespace());
    let message = format!(
        "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy '{policy}' with binding '{policy}' denied request: only \
         the reconciler of nodecfg and the users that nodecfg install names (--config-map-writer) may write ConfigMaps of \
         nodecfg, not kubernetes-admin"
    );
    let on = Matcher { dry_run: None, ..Matcher::on("create", "configmaps") };
    let denial = cluster.sandbox().inject(Fault::always(on, FaultKind::Denied(message)));
    let fix = format!(
        "`nodecfg install` of the namespace {} with all its options and `--config-map-writer kubernetes-admin`",
        cluster.namespace()
    );
    let run = cluster.run("doctor", &repository, &["-o", "json"]).await.exits(4);
    finds(&run, "admission", "problem", "does not list kubernetes-admin among the users who may write ConfigMaps");
    alone(&cluster, &[]).await.exits(4).prints(&fix);
    let run = cluster.sync(&repository, &[]).await.exits(4).prints(&fix).prints("nodecfg-configmaps");
    assert_eq!(cluster.sandbox().writes().iter().map(ToString::to_string).collect::<Vec<_>>(), [""; 0], "{run}");
    denial.remove();
    alone(&cluster, &["-v"]).await.exits(0).prints("the cluster admits new ConfigMaps of this user (admission)");
    cluster.sync(&repository, &[]).await.exits(0);
    cluster.down().await;
}

async fn reports_unreachable_api_server(start: ClusterSetup) {
    let mut cluster = start.pool("a", 1).up().await;
    cluster.sandbox_mut().crash().await;
    let run = cluster.run("doctor", &repository(), &["--request-timeout", "1s"]).await.exits(4);
    run.prints("cannot be reached").prints("Unknown plan").prints("A sync would exit with 4");
    cluster.sandbox_mut().recover().await;
    cluster.run("doctor", &repository(), &[]).await.exits(0);
    cluster.down().await;
}

async fn failed_check_does_not_affect_others(start: ClusterSetup) {
    let cluster = start.pool("a", 1).up().await;
    cluster.sandbox().forbid("list", "configmaps");
    let run = cluster.run("doctor", &repository(), &["-o", "json"]).await.exits(4);
    finds(&run, "permission", "problem", "list configmaps");
    finds(&run, "node-ready", "ok", "1 node");
    finds(&run, "plan", "unknown", "not checked");
    cluster.down().await;
}

async fn doctor_writes_nothing(start: ClusterSetup) {
    let cluster = start.pool("a", 2).up().await;
    let before = cluster.written().await;
    cluster.run("doctor", &repository(), &["-v"]).await.exits(0);
    assert_eq!(cluster.written().await, before);
    // A dry-run patch stores nothing.
    let writes = cluster.sandbox().writes();
    assert!(writes.iter().all(|entry| entry.to_string().contains("dryRun=All")), "{writes:?}");
    cluster.down().await;
}

async fn reports_outdated_definition(start: ClusterSetup) {
    let cluster = start.pool("a", 1).up().await;
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodeconfigs.nodecfg.dev";
    let mut definition = cluster.get(path).await;
    let version = &mut definition["spec"]["versions"][0];
    version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"].as_object_mut().unwrap().remove("agent");
    cluster.patch(path, json!({"spec": {"versions": definition["spec"]["versions"]}})).await;
    let run = alone(&cluster, &["-o", "json"]).await.exits(0);
    finds(&run, "definition", "warning", "values that agents write to status.agent are lost");
    cluster.down().await;
}

async fn reports_silent_agent(start: ClusterSetup) {
    let cluster = start.pool("a", 2).up().await;
    cluster.sync(&repository(), &[]).await.exits(0);
    let agent = json!({"version": "0.0.9", "heardAt": "2001-01-01T00:00:00Z"});
    // Simulated time is fast here, and agents report twice a minute.
    for attempt in 1.. {
        let path = format!("/apis/nodecfg.dev/v1alpha1/{}/a-1/status", cluster.assignment_resource());
        cluster.patch(&path, json!({"status": {"agent": agent}})).await;
        let run = alone(&cluster, &["-o", "json"]).await;
        if attempt < 5 && checks(&run, "agent-silent").iter().any(|check| check["verdict"] == "ok") {
            continue;
        }
        finds(&run, "agent-silent", "warning", "1 node (a-1)");
        finds(&run, "agent-version", "note", "0.0.9 on 1 node (a-1)");
        break;
    }
    cluster.down().await;
}

async fn reports_missing_installation(start: ClusterSetup) {
    let cluster = start.pool("a", 1).up().await;
    let run = alone(&cluster, &["-o", "json"]).await.exits(4);
    finds(&run, "binding", "problem", "");
    finds(&run, "definition", "problem", "the definition of NodeConfigs is missing");
    cluster.down().await;
}
