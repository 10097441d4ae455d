//! Tests of assignments from activation through trial to promotion, update and reset.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::scenarios;
use crate::test_env::TestEnv;
use crate::until;

scenarios! {
    promotes_and_resets_assignment,
    applies_drop_in_over_provisioned_file,
    follows_changed_config_map,
    new_assignment_replaces_trial,
    removes_state_files_for_policy_change,
    waits_for_definition,
    #[cfg(target_os = "linux")]
    idle_agent_sleeps_and_uses_little_memory,
}

async fn promotes_and_resets_assignment(env: TestEnv) {
    let agent = env.start_agent();
    env.assign(None).await;
    env.wait_for_status("-/-/-").await;
    assert_eq!(env.host.journal(), ["started 110"], "a local configuration needs no restart");

    env.create_immutable_config_map("a", &env.host.configuration(50));
    let summaries = env.watch_status().await;
    env.assign(Some("a")).await;
    env.wait_for_status("a/a/a").await;
    assert_eq!(env.host.last(), "started 50");
    until("the status has shown the trial", async || summaries.lock().unwrap().contains(&"a/a/-".to_owned())).await;
    assert_eq!(fs::read_to_string(env.host.config()).unwrap(), env.host.configuration(50));
    assert_eq!(env.condition("Active"), "True Active");
    assert_eq!(env.condition("KnownGood"), "True KnownGood");
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(env.host.config()), 0o644, "the file keeps its mode");
    assert_eq!(mode(env.host.path("store")), 0o700);
    let assigned = fs::read_to_string(env.host.path("store/store/meta/assigned")).unwrap();
    assert!(assigned.contains("kind: SerializedNodeConfigSource") && assigned.contains("name: a"), "{assigned}");

    env.assign(None).await;
    env.wait_for_kubelet("started 110").await;
    env.wait_for_status("-/-/-").await;
    assert_eq!(fs::read_to_string(env.host.config()).unwrap(), env.host.configuration(110));
    assert_eq!(env.host.journal(), ["started 110", "started 50", "started 110"], "no needless restart");
    assert_eq!(
        env.events().await,
        [
            "KubeletConfigChanged: Kubelet restarting to use /api/v1/namespaces/nodecfg-system/configmaps/a",
            "KubeletConfigChanged: Kubelet restarting to use local config",
        ]
    );
    agent.interrupt();
    agent.end().await.exits(0);
}

async fn applies_drop_in_over_provisioned_file(env: TestEnv) {
    let agent = env.start_agent_with(&format!("--activation drop-in --trial-period 1s {}", env.restart_args()));
    let part =
        |pods: i64| format!("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: {pods}\n");
    env.create_immutable_config_map("a", &part(50));
    env.assign(Some("a")).await;
    env.wait_for_status("a/a/a").await;
    // healthzPort comes from the provisioned file; without it the kubelet would never be healthy.
    assert_eq!(env.host.last(), "started 50");
    let drop_in = env.host.path("kubelet.conf.d/90-nodecfg.conf");
    assert_eq!(fs::read_to_string(&drop_in).unwrap(), part(50));
    assert_eq!(fs::read_to_string(env.host.config()).unwrap(), env.host.configuration(110), "untouched");

    env.create_immutable_config_map("b", &part(60));
    env.assign(Some("b")).await;
    env.wait_for_status("b/b/b").await;
    env.create_immutable_config_map("bad", &part(-1));
    env.assign(Some("bad")).await;
    env.wait_for_status("bad/b/b failed to validate config, see Kubelet log for details").await;
    assert_eq!(env.host.last(), "started 60");

    env.assign(None).await;
    env.wait_for_status("-/-/-").await;
    env.wait_for_kubelet("started 110").await;
    assert!(!drop_in.exists());
    drop(agent);
}

async fn follows_changed_config_map(env: TestEnv) {
    let _agent = env.start_agent_with(&format!("--follow-interval 1s --trial-period 1s {}", env.restart_args()));
    env.create_config_map("a", &env.host.configuration(50), false);
    env.assign(Some("a")).await;
    env.wait_for_status("a/a/a").await;
    let version = || env.status()["config"]["assigned"]["configMap"]["resourceVersion"].clone();
    let before = version();
    env.change_config_map("a", &env.host.configuration(60)).await;
    env.assign(Some("a")).await;
    env.wait_for_kubelet("started 60").await;
    env.wait_for_status("a/a/a").await;
    until("the new version is the last known good", async || {
        let config = &env.status()["config"];
        config["lastKnownGood"] == config["assigned"] && config["assigned"]["configMap"]["resourceVersion"] != before
    })
    .await;
    assert_eq!(env.status()["config"]["active"], env.status()["config"]["assigned"]);
    // The same content again causes no restart.
    env.pause().await;
    assert_eq!(env.host.journal(), ["started 110", "started 50", "started 60"]);
}

async fn new_assignment_replaces_trial(env: TestEnv) {
    let _agent = env.start_agent_with(&format!("--trial-period 1h {}", env.restart_args()));
    for (name, pods) in [("a", 50), ("b", 60)] {
        env.create_immutable_config_map(name, &env.host.configuration(pods));
        env.assign(Some(name)).await;
        env.wait_for_status(&format!("{name}/{name}/-")).await;
    }
    assert_eq!(env.condition("KnownGood"), "False OnTrial");
    env.assign(None).await;
    env.wait_for_status("-/-/-").await;
    assert_eq!(env.host.journal(), ["started 110", "started 50", "started 60", "started 110"]);
}

async fn removes_state_files_for_policy_change(env: TestEnv) {
    let _agent = env.start_agent();
    fs::write(env.host.path("root/cpu_manager_state"), "{}").unwrap();
    env.create_immutable_config_map(
        "a",
        &format!("cpuManagerPolicy: static\nkubeReserved:\n  cpu: 500m\n{}", env.host.configuration(50)),
    );
    env.assign(Some("a")).await;
    env.wait_for_status("a/a/a").await;
    // The file exists when the kubelet stops and is removed before it starts.
    assert_eq!(env.host.commands(), ["restart", "stop cpu_manager_state", "restart"]);
}

async fn waits_for_definition(env: TestEnv) {
    env.remove_resource().await;
    let mut agent = env.start_agent();
    agent
        .until_stderr_contains("this cluster has no nodeconfigs.nodecfg.dev; retrying. `nodecfg install` adds it")
        .await;
    env.add_resource();
    env.create_immutable_config_map("a", &env.host.configuration(50));
    env.assign(Some("a")).await;
    env.wait_for_status("a/a/a").await;
}

/// Number of voluntary context switches of each thread of a process.
#[cfg(target_os = "linux")]
fn context_switches(process: u32) -> Vec<u64> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let mut sleeps = Vec::new();
    for thread in threads {
        let status = fs::read_to_string(thread.unwrap().path().join("status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        sleeps.extend(line.and_then(|count| count.trim().parse::<u64>().ok()));
    }
    sleeps
}

#[cfg(target_os = "linux")]
async fn idle_agent_sleeps_and_uses_little_memory(env: TestEnv) {
    let agent = env.start_agent();
    env.create_immutable_config_map("a", &env.host.configuration(50));
    let assigned = std::time::Instant::now();
    env.assign(Some("a")).await;
    env.wait_for_status("a/a/a").await;
    let good = assigned.elapsed();
    // The thread that created the client ends after ten idle seconds.
    until("there is one thread", async || context_switches(agent.id()).len() == 1).await;
    env.pause().await;
    loop {
        let (watches, before) = (env.requests("watch", "nodeconfigs"), context_switches(agent.id()));
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
        let woken = context_switches(agent.id())[0] - before[0];
        // A watch that ends is reopened, which wakes the agent.
        if env.requests("watch", "nodeconfigs") == watches {
            assert!(woken <= 2, "woken {woken} times with nothing to do");
            break;
        }
    }
    assert!(env.requests("watch", "nodeconfigs") <= 1 + assigned.elapsed().as_secs() / 60, "more than one watch");
    let status = fs::read_to_string(format!("/proc/{}/status", agent.id())).unwrap();
    let kilobytes = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        value.trim_end_matches("kB").trim().parse::<u64>().unwrap()
    };
    let (all, own) = (kilobytes("VmRSS:"), kilobytes("RssAnon:"));
    println!("assigned to known good: {good:?}; resident: {all} kB, {own} kB of it its own");
    // The rest is the program, which is large in this build and shared by all its processes.
    assert!(own < 12_000, "{own} kB");
}
