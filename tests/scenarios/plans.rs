//! Scenarios of saved plans: a sync executes exactly the reviewed plan, or stops with a reason.

use std::fs;
use std::path::PathBuf;

use nodecfg_plan::saved::SavedPlan;
use nodecfg_sandbox::kubelets::Fault;
use serde_json::{Value, json};

use crate::harness::{Cluster, ClusterSetup, KUBELET, Repository, Run, Running};

scenarios! {
    Anything {
        saved_plan_is_executed_once,
        printed_command_carries_the_plan_out,
        unrelated_changes_do_not_make_a_plan_stale,
        created_deleted_and_replaced_nodes_make_a_plan_stale,
        changes_by_other_clients_make_a_plan_stale,
        moved_branch_makes_a_plan_stale,
        plan_is_carried_out_once_its_pause_ends,
        plan_of_another_cluster_takes_no_lock,
        damaged_plan_file_is_refused_without_requests,
        options_of_the_plan_must_be_given_again,
        disallowed_disruption_is_saved_and_refused,
    }
    Sandbox {
        edited_plan_widens_nothing,
        node_changed_before_its_patch_is_skipped,
        forbidden_namespace_read_names_rbac_rule,
    }
}

fn file(cluster: &Cluster) -> PathBuf {
    cluster.home().join("plan.json")
}

/// Saves a plan with changes.
async fn save(cluster: &Cluster, repository: &Repository) -> PathBuf {
    let path = file(cluster);
    cluster.run("diff", repository, &["--out", path.to_str().unwrap()]).await.exits(1).prints("Saved as");
    path
}

/// Runs `sync --plan`.
async fn carry_out(cluster: &Cluster, repository: &Repository, more: &[&str]) -> Run {
    let path = file(cluster);
    cluster.sync(repository, &[&["--plan", path.to_str().unwrap()], more].concat()).await
}

/// Runs `sync --plan` with a plan that is stale for these reasons (path and message). Asserts that nothing is
/// written.
async fn stale(cluster: &Cluster, repository: &Repository, reasons: &[(&str, &str)]) {
    let before = cluster.written().await;
    let mut run = carry_out(cluster, repository, &[]).await.exits(7).prints("is stale").prints("nothing was written");
    for (_, message) in reasons {
        run = run.prints(message);
    }
    carry_out(cluster, repository, &["--dry-run"]).await.exits(7);
    let run = carry_out(cluster, repository, &["-o", "json"]).await.exits(7);
    let lines = run.json_lines();
    let error = lines.last().unwrap();
    assert_eq!((&error["kind"], &error["exitCode"]), (&json!("Error"), &json!(7)), "{run}");
    assert_eq!(error["errors"][0]["code"], "stale-plan", "{run}");
    let differences = error["differences"].as_array().unwrap().iter();
    let paths: Vec<&str> = differences.map(|difference| difference["path"].as_str().unwrap()).collect();
    assert_eq!(paths, reasons.iter().map(|(path, _)| *path).collect::<Vec<_>>(), "{run}");
    assert_eq!(cluster.written().await, before);
}

/// A new plan would be empty.
async fn plan_is_carried_out_once_its_pause_ends(start: ClusterSetup) {
    let cluster = start.pool("a", 2).up().await;
    let repository = Repository::of_pool("maxPods: 110", "{maxUnavailable: 100%}");
    save(&cluster, &repository).await;
    cluster.order(&["pause", "--all", "--allow-unknown", "--reason", "incident 4711"]).await.exits(0);
    stale(&cluster, &repository, &[("/plan/pools/a/paused", "pool a: paused is true, and was false")]).await;
    carry_out(&cluster, &repository, &[])
        .await
        .exits(7)
        .prints("resume the paused pools")
        .does_not_print("make a new plan");
    cluster.order(&["resume", "--all"]).await.exits(0);
    carry_out(&cluster, &repository, &[]).await.exits(0).prints("2 converged");
    cluster.down().await;
}

async fn saved_plan_is_executed_once(start: ClusterSetup) {
    let cluster = start.pool("a", 2).pool("b", 1).up().await;
    let repository = Repository::empty();
    repository.fleet("test", "{maxUnavailable: 100%}");
    repository.pool("a", "maxPods: 110");
    repository.pool("b", "maxPods: 120");
    let commit = repository.commit();
    let before = cluster.written().await;
    let path = save(&cluster, &repository).await;
    assert_eq!(cluster.written().await, before);

    let text = fs::read_to_string(&path).unwrap();
    let plan: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&plan["kind"], &plan["formatVersion"]), (&json!("SavedPlan"), &json!(2)));
    assert_eq!(plan["plan"]["commit"], commit.as_str());
    let uid = &cluster.get("/api/v1/namespaces/kube-system").await["metadata"]["uid"];
    assert_eq!(plan["cluster"]["uid"], *uid);
    assert!(!text.contains("maxPods"), "no contents: {text}");

    carry_out(&cluster, &repository, &["--dry-run"]).await.exits(0).prints("3 nodes to assign");
    assert_eq!(cluster.written().await, before);
    carry_out(&cluster, &repository, &[]).await.exits(0).prints("3 nodes: 3 converged");

    let run = carry_out(&cluster, &repository, &[]).await.exits(7);
    run.prints("node a-1 is not assigned any more: converged already");
    // A plan without changes is also saved, and its execution has no effect.
    let after_sync = cluster.written().await;
    cluster.run("diff", &repository, &["--out", path.to_str().unwrap()]).await.exits(0);
    carry_out(&cluster, &repository, &[]).await.exits(0).prints("No changes:");
    assert_eq!(cluster.written().await, after_sync);
    cluster.down().await;
}

async fn printed_command_carries_the_plan_out(start: ClusterSetup) {
    let cluster = start.pool("a", 2).up().await;
    let repository = Repository::of_pool("maxPods: 110", "{maxUnavailable: 100%}");
    let reviewed = repository.commit();
    repository.change("a", "maxPods: 120");
    let path = cluster.home().join("my plan.json");
    let out = path.to_str().unwrap();
    let options = ["--rev", "HEAD~1", "--take-over", "--namespace", cluster.namespace(), "--out", out];
    let run = cluster.run("diff", &repository, &options).await.exits(1);
    let (_, command) = run.err.split_once("Apply exactly this plan with: ").unwrap();
    let words = shlex::split(command.lines().next().unwrap()).unwrap();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (program, arguments) = words.split_first().unwrap();
    assert_eq!(*program, "nodecfg");
    for part in [repository.path().to_str().unwrap(), "HEAD~1", out, "--take-over"] {
        assert!(arguments.contains(&part), "{command}");
    }
    // Without --rev, HEAD is read. The plan only asserts a commit.
    let without = ["--plan", out, "--take-over", "--namespace", cluster.namespace()];
    cluster.sync(&repository, &without).await.exits(7).prints(&format!("`--rev {reviewed}`"));
    Running::start(cluster.home(), arguments).end().await.exits(0).prints("2 nodes: 2 converged");
    cluster.down().await;
}

async fn unrelated_changes_do_not_make_a_plan_stale(start: ClusterSetup) {
    let cluster = start.pool("a", 2).up().await;
    let repository = Repository::of_pool("maxPods: 110", "{maxUnavailable: 100%}");
    save(&cluster, &repository).await;
    cluster.fault("a-1", Some(Fault::Deaf)).await;
    cluster.until_node("a-1", "is not Ready", |state| !state.ready).await;
    cluster
        .create("/api/v1/nodes", json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "unmanaged"}}))
        .await;
    carry_out(&cluster, &repository, &["--dry-run"]).await.exits(0);
    cluster.down().await;
}

async fn created_deleted_and_replaced_nodes_make_a_plan_stale(start: ClusterSetup) {
    let cluster = start.pool("a", 3).up().await;
    let repository = Repository::of_pool("maxPods: 110", "");
    save(&cluster, &repository).await;
    let like = cluster.get("/api/v1/nodes/a-1").await;
    let anew = |name: &str| {
        let mut node = json!({"apiVersion": "v1", "kind": "Node"});
        node["metadata"] = json!({"name": name, "labels": like["metadata"]["labels"]});
        node["status"] = json!({"nodeInfo": like["status"]["nodeInfo"]});
        node
    };
    cluster.delete("/api/v1/nodes/a-2").await;
    stale(&cluster, &repository, &[("/plan/nodes/a-2", "node a-2 is not assigned any more: it left the cluster")])
        .await;
    cluster.create("/api/v1/nodes", anew("a-2")).await;
    stale(&cluster, &repository, &[("/plan/nodes/a-2/uid", "node a-2 was deleted and recreated")]).await;
    cluster.down().await;
}

async fn changes_by_other_clients_make_a_plan_stale(start: ClusterSetup) {
    let cluster = start.pool("a", 2).up().await;
    let repository = Repository::of_pool("maxPods: 110", "");
    save(&cluster, &repository).await;
    cluster.create_config_map("by-hand", &format!("{KUBELET}maxPods: 50\n"), false, None).await;
    cluster.assign_by_hand("a-1", "by-hand").await;
    let namespace = cluster.namespace();
    let words = format!("node a-1 is not assigned any more: points at {namespace}/by-hand");
    stale(&cluster, &repository, &[("/plan/nodes/a-1", &words)]).await;
    cluster.down().await;
}

async fn moved_branch_makes_a_plan_stale(start: ClusterSetup) {
    let cluster = start.pool("a", 1).up().await;
    let repository = Repository::of_pool("maxPods: 110", "");
    save(&cluster, &repository).await;
    let plan: Value = serde_json::from_str(&fs::read_to_string(file(&cluster)).unwrap()).unwrap();
    let reviewed = plan["plan"]["commit"].as_str().unwrap().to_owned();
    repository.change("a", "maxPods: 120");
    let words = format!("the commit changed: reviewed {reviewed}, now ");
    stale(
        &cluster,
        &repository,
        &[("/plan/commit", &words), ("/plan/pools/a/configuration", "pool a: the configuration is")],
    )
    .await;
    let lease = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases/nodecfg-test", cluster.namespace());
    assert_eq!(cluster.get(&lease).await, Value::Null, "a stale plan takes no lock");
    // A commit that no longer exists, and the reviewed one.
    carry_out(&cluster, &repository, &["--rev", &"f".repeat(40)]).await.exits(3);
    carry_out(&cluster, &repository, &["--rev", &reviewed]).await.exits(0).prints("1 converged");
    cluster.down().await;
}

async fn plan_of_another_cluster_takes_no_lock(start: ClusterSetup) {
    let cluster = start.pool("a", 1).up().await;
    let repository = Repository::of_pool("maxPods: 110", "");
    let path = save(&cluster, &repository).await;
    // A plan for another cluster.
    let mut plan = nodecfg_plan::saved::read(&fs::read(&path).unwrap()).unwrap();
    plan.cluster.uid = "another".to_owned();
    fs::write(&path, plan.with_digest().text()).unwrap();
    stale(&cluster, &repository, &[("/cluster/uid", "the plan is for the cluster at https://")]).await;
    let lease = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases/nodecfg-test", cluster.namespace());
    assert_eq!(cluster.get(&lease).await, Value::Null);

    save(&cluster, &repository).await;
    let other = Repository::empty();
    other.fleet("other", "");
    other.pool("a", "maxPods: 110");
    other.commit();
    carry_out(&cluster, &other, &[])
        .await
        .exits(7)
        .prints("the plan is for fleet test, and the repository is for fleet other");
    cluster.down().await;
}

async fn damaged_plan_file_is_refused_without_requests(start: ClusterSetup) {
    let cluster = start.pool("a", 1).up().await;
    let repository = Repository::of_pool("maxPods: 110", "");
    let path = save(&cluster, &repository).await;
    let text = fs::read_to_string(&path).unwrap();
    let before = cluster.written().await;
    for (damaged, words) in [
        (text[..text.len() / 2].to_owned(), "is truncated: it ends in line"),
        (text.replace("\"takeOver\": false", "\"takeOver\": true"), "was edited: its digest does not match"),
        (text.replace("\"formatVersion\": 2", "\"formatVersion\": 1"), "has format version 1"),
        (String::new(), "is empty"),
        ("{\"kind\": \"Plan\"}".to_owned(), "is not a saved plan: its kind is \"Plan\""),
    ] {
        fs::write(&path, damaged).unwrap();
        carry_out(&cluster, &repository, &["--kubeconfig", "/nowhere"]).await.exits(7).prints(words);
    }
    fs::remove_file(&path).unwrap();
    carry_out(&cluster, &repository, &[]).await.exits(2).prints("cannot read the saved plan");
    assert_eq!(cluster.written().await, before);
    cluster.down().await;
}

async fn options_of_the_plan_must_be_given_again(start: ClusterSetup) {
    let cluster = start.pool("a", 1).up().await;
    cluster.create_config_map("by-hand", &format!("{KUBELET}maxPods: 50\n"), false, None).await;
    cluster.assign_by_hand("a-1", "by-hand").await;
    let repository = Repository::of_pool("maxPods: 110", "");
    let path = file(&cluster);
    let out = path.to_str().unwrap();
    let before = cluster.written().await;
    let (namespace, binding) =
        (format!("--namespace={}", cluster.namespace()), format!("--binding={}", cluster.binding()));
    let options = ["--allow-empty", "--lenient", &namespace, &binding, "--take-over"];
    for option in options {
        for (planned, given, state) in [(Some(option), None, "missing"), (None, Some(option), "not in the plan")] {
            let arguments: Vec<&str> = ["--out", out].into_iter().chain(planned).collect();
            assert!(cluster.run("diff", &repository, &arguments).await.code < Some(2), "{option}");
            let more: Vec<&str> = given.into_iter().collect();
            let run = carry_out(&cluster, &repository, &more).await.exits(2).prints(&format!("{option} is {state}"));
            let command = run.err.split('`').nth(1).unwrap_or_else(|| panic!("no command: {run}")).to_owned();
            let words = shlex::split(&command).unwrap();
            assert_eq!(words.iter().any(|word| word == option), planned.is_some(), "{command}");
            assert!(words.starts_with(&["nodecfg".to_owned(), "sync".to_owned()]), "{command}");
            assert!(words.iter().any(|word| word == out), "{command}");
            let dry: Vec<&str> = given.into_iter().chain(["--dry-run"]).collect();
            carry_out(&cluster, &repository, &dry).await.exits(2);
            assert_eq!(cluster.written().await, before, "{option}");
        }
    }
    // Several differences are one error.
    cluster.run("diff", &repository, &["--take-over", "--lenient", "--out", out]).await.exits(1);
    carry_out(&cluster, &repository, &["--allow-empty"])
        .await
        .exits(2)
        .prints("--take-over --lenient are missing, --allow-empty is not in the plan");
    assert_eq!(cluster.written().await, before);
    carry_out(&cluster, &repository, &["--lenient", "--take-over"]).await.exits(0).prints("1 converged");
    for none in ["-", "", "/nowhere/at/all/plan.json"] {
        cluster.run("diff", &repository, &["--out", none]).await.exits(2);
    }
    cluster.down().await;
}

/// All values of a document that contain no others, by JSON pointer.
fn leaves(value: &Value, at: &str, found: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, below)| leaves(below, &format!("{at}/{name}"), found)),
        Value::Array(items) if !items.is_empty() => {
            items.iter().enumerate().for_each(|(index, below)| leaves(below, &format!("{at}/{index}"), found));
        }
        leaf => found.push((at.to_owned(), leaf.clone())),
    }
}

/// The document with another value at this place. `None` if a list has no such item.
fn edited(document: &Value, at: &str, value: Value) -> Option<String> {
    let mut document = document.clone();
    let (above, name) = at.rsplit_once('/')?;
    match document.pointer_mut(above)? {
        Value::Object(fields) => drop(fields.insert(name.to_owned(), value)),
        Value::Array(items) => *items.get_mut(name.parse::<usize>().ok()?)? = value,
        _ => return None,
    }
    // An editor can compute the digest, too.
    let plan = serde_json::from_value::<SavedPlan>(document.clone());
    Some(plan.map_or_else(|_| document.to_string(), |plan| plan.with_digest().text()))
}

/// Edits every value of a saved plan, one at a time: to a similar value, and to the one of a plan with all options.
async fn edited_plan_widens_nothing(start: ClusterSetup) {
    let cluster = start.pool("a", 1).pool("b", 1).up().await;
    cluster.create_config_map("by-hand", &format!("{KUBELET}maxPods: 50\n"), false, None).await;
    cluster.assign_by_hand("a-1", "by-hand").await;
    let repository = Repository::empty();
    repository.fleet("test", "{maxUnavailable: 1}");
    repository.pool("a", "maxPods: 110");
    // As it is assigned by hand.
    repository.pool_spec("a", "{kubelet: {placement: replace}}");
    repository.pool("b", "maxPods: 120");
    repository.commit();
    let path = file(&cluster);
    let parsed = || serde_json::from_slice::<Value>(&fs::read(&path).unwrap()).unwrap();
    let (namespace, binding) = (cluster.namespace(), cluster.binding());
    let all = ["--take-over", "--allow-empty", "--lenient", "--namespace", namespace, "--binding", binding];
    cluster.run("diff", &repository, &[&["--out", path.to_str().unwrap()], &all[..]].concat()).await.exits(1);
    let wide = parsed();
    save(&cluster, &repository).await;
    let plain = parsed();
    let mut edits = Vec::new();
    leaves(&wide, "", &mut edits);
    edits.retain(|(at, value)| plain.pointer(at) != Some(value));
    assert!(edits.len() > 5, "{edits:#?}");
    let mut found = Vec::new();
    leaves(&plain, "", &mut found);
    edits.extend(found.into_iter().map(|(at, value)| match value {
        Value::Bool(value) => (at, json!(!value)),
        Value::Number(number) => (at, json!(number.as_u64().unwrap() + 1)),
        Value::String(text) => (at, json!(format!("{text}x"))),
        Value::Null | Value::Array(_) | Value::Object(_) => (at, json!("x")),
    }));
    let preview = carry_out(&cluster, &repository, &["--dry-run", "-o", "json"]).await.exits(0).json();
    let before = cluster.written().await;
    let (mut refused, mut accepted) = (0, Vec::new());
    for (at, value) in edits.into_iter().filter(|(at, _)| at != "/digest") {
        let Some(text) = edited(&plain, &at, value.clone()) else { continue };
        fs::write(&path, text).unwrap();
        let run = carry_out(&cluster, &repository, &["--dry-run", "-o", "json"]).await;
        match run.code.unwrap() {
            0 => {
                assert_eq!(run.json(), preview, "{at}: {value}");
                accepted.push(at);
            }
            code @ (2 | 7) => {
                carry_out(&cluster, &repository, &[]).await.exits(code);
                assert_eq!(cluster.written().await, before, "{at}: {value}");
                assert!(code == 7 || at.starts_with("/options/"), "{at}: {value}\n{run}");
                refused += 1;
            }
            _ => panic!("{at}: {value}\n{run}"),
        }
    }
    assert!(refused > 20, "{refused}");
    // Remarks, and risks, of which only a higher one than that of the file is a difference.
    accepted.sort();
    accepted.dedup();
    let pools = ["a/risk/class", "a/risk/unknown", "b/risk/unknown"].map(|risk| format!("/plan/pools/{risk}"));
    let remarks = ["/cluster/server", "/nodecfgVersion", "/planId"].map(str::to_owned);
    let mut expected = [&remarks[..], &pools].concat();
    expected.sort();
    assert_eq!(accepted, expected);
    cluster.down().await;
}

async fn disallowed_disruption_is_saved_and_refused(start: ClusterSetup) {
    let cluster = start.pool("a", 1).up().await;
    let repository = Repository::of_pool("maxPods: 110", "");
    cluster.sync(&repository, &[]).await.exits(0);
    repository.change("a", "maxPods: 50");
    let path = file(&cluster);
    let run = cluster.run("diff", &repository, &["--out", path.to_str().unwrap()]).await.exits(1);
    run.prints("sync refuses this plan").does_not_print("Apply exactly this plan");
    let before = cluster.written().await;
    carry_out(&cluster, &repository, &[]).await.exits(3);
    carry_out(&cluster, &repository, &["--dry-run"]).await.exits(3);
    assert_eq!(cluster.written().await, before);
    cluster.down().await;
}

async fn node_changed_before_its_patch_is_skipped(start: ClusterSetup) {
    let cluster = start.pool("a", 2).up().await;
    let repository = Repository::of_pool("maxPods: 110", "{maxUnavailable: 1}");
    // Another ConfigMap of the fleet, from which a sync without a plan would continue to the target.
    let old = Repository::of_pool("maxPods: 100", "{allowDisruption: drain, drain: {settle: 0s}}");
    cluster.sync(&old, &[]).await.exits(0);
    let old = cluster.only_config_map().await;
    save(&cluster, &repository).await;
    let path = file(&cluster);
    // The second node waits while the first cannot download its ConfigMap.
    cluster.fault("a-1", Some(Fault::SyncError)).await;
    let run = cluster.start_run("sync", &repository, &["--plan", path.to_str().unwrap()]);
    cluster.until_node("a-1", "is assigned", |state| state.source.as_deref().is_some_and(|name| name != old)).await;
    let other = format!("{KUBELET}maxPods: 101\n");
    cluster.create_config_map("test-a-other", &other, true, Some(("test", "a"))).await;
    cluster.assign_by_hand("a-2", "test-a-other").await;
    cluster.fault("a-1", None).await;
    run.end().await.exits(5);
    assert_eq!(cluster.source("a-2").await.as_deref(), Some("test-a-other"));
    cluster.down().await;
}

async fn forbidden_namespace_read_names_rbac_rule(start: ClusterSetup) {
    let cluster = start.pool("a", 1).up().await;
    let repository = Repository::of_pool("maxPods: 110", "");
    save(&cluster, &repository).await;
    cluster.sandbox().forbid("get", "namespaces");
    let run = carry_out(&cluster, &repository, &[]).await.exits(4);
    run.prints("cannot get namespace kube-system").prints("resourceNames: [kube-system]");
    let path = file(&cluster);
    cluster.run("diff", &repository, &["--out", path.to_str().unwrap()]).await.exits(4);
    cluster.run("diff", &repository, &[]).await.exits(1);
    cluster.down().await;
}
