//! Tests of `nodecfg-agent boot`: it places the configuration of the pool before the kubelet starts. A boot that fails
//! leaves the local configuration in place, and adds only the startup taint if requested.

use std::fs;

use nodecfg_contract::ContentHash;
use serde_json::{Value, json};

use crate::kubelet::{self, KubeletFaults};
use crate::program::{Run, Running};
use crate::scenarios;
use crate::test_env::{POINTER, TestEnv};

scenarios! {
    kubelet_starts_with_configuration_of_pool,
    drop_in_is_merged_over_the_image,
    offline_boot_needs_no_cluster,
    agent_rolls_back_failed_boot,
    refused_pointers_change_nothing,
    unreachable_cluster_leaves_local_configuration,
    startup_taint_marks_failed_boot,
    startup_taint_marks_killed_boot,
    agent_or_pods_keep_configuration,
    rejects_invalid_arguments,
}

/// Starts boot with these arguments and those that every test needs. The installed kubelet is 1.36.2.
fn start_boot(env: &TestEnv, arguments: &str) -> Running {
    let paths = format!(
        "--fleet prod --pool gpu --store-dir store --kubelet-config {} --kubelet-config-dir {} --kubelet-root-dir {}",
        env.host.config().display(),
        env.host.path("kubelet.conf.d").display(),
        env.host.path("root").display(),
    );
    let mut words = vec!["boot", "--kubelet", "sh -c 'echo Kubernetes v1.36.2'"];
    words.extend(paths.split_whitespace().chain(arguments.split_whitespace()));
    Running::start(env.host.folder(), &words)
}

async fn boot(env: &TestEnv, arguments: &str) -> Run {
    start_boot(env, arguments).end().await
}

/// Configuration that the kubelet loads now, with its drop-ins.
fn loaded(env: &TestEnv) -> Value {
    Value::Object(kubelet::read(&env.host.config(), Some(env.host.path("kubelet.conf.d"))))
}

const ONLINE: &str = "--kubeconfig kubeconfig --timeout 1m";
const DROP_IN: &str = "--kubeconfig kubeconfig --activation drop-in --startup-taint";
const TAINT_FILE: &str = "kubelet.conf.d/99-nodecfg-startup-taint.conf";

async fn kubelet_starts_with_configuration_of_pool(env: TestEnv) {
    env.wait_for_kubelet("started 110").await;
    env.host.run("stop");
    let content = env.host.configuration(50);
    let name = env.create_pointer(&content);
    boot(&env, ONLINE).await.exits(0).prints("the configuration of the pool is in place");
    env.host.run("restart");
    env.wait_for_kubelet("started 50").await;
    let status = env.start_program("status --store-dir store").end().await.exits(0);
    status.prints(&name);

    // The next sync assigns the ConfigMap that the pointer names: no restart.
    let agent = env.start_agent();
    env.create_immutable_config_map(&name, &content);
    env.assign(Some(&name)).await;
    env.wait_for_status(&format!("{name}/{name}/{name}")).await;
    agent.kill();
    assert_eq!(env.host.journal(), ["started 110", "started 50"]);

    // A reboot keeps the configuration, although the pointer has moved.
    env.replace_pointer(&env.host.configuration(60)).await;
    let requests = env.requests("get", "configmaps");
    boot(&env, ONLINE).await.exits(0).prints("the agent owns the configuration");
    assert_eq!((loaded(&env)["maxPods"].clone(), env.requests("get", "configmaps")), (json!(50), requests));
}

async fn drop_in_is_merged_over_the_image(env: TestEnv) {
    env.host.run("stop");
    fs::write(env.host.path("kubelet.conf.d/95-image.conf"), "podPidsLimit: 7\nmaxPods: 60\n").unwrap();
    fs::write(env.host.path("kubelet.conf.d/README"), "maxPods: 99\n").unwrap();
    env.create_pointer(&format!("{}podPidsLimit: 5\nserializeImagePulls: false\n", env.host.configuration(50)));
    boot(&env, DROP_IN).await.exits(0);
    let loaded = loaded(&env);
    assert_eq!(
        (&loaded["maxPods"], &loaded["podPidsLimit"], &loaded["serializeImagePulls"]),
        (&json!(60), &json!(7), &json!(false))
    );
    assert!(loaded["registerWithTaints"].is_null());
    env.host.run("restart");
    env.wait_for_kubelet("started 60").await;
}

async fn offline_boot_needs_no_cluster(mut env: TestEnv) {
    env.stop_api().await;
    env.wait_for_kubelet("started 110").await;
    env.host.run("stop");
    let content = env.host.configuration(50);
    fs::write(env.host.path("pool.yaml"), &content).unwrap();
    let file = "--file pool.yaml --content-hash";
    let other = ContentHash::of(b"other");
    boot(&env, &format!("{file} {other}")).await.exits(5).prints("its content hash is");
    assert_eq!(loaded(&env)["maxPods"], 110);
    let hash = ContentHash::of(content.as_bytes());
    boot(&env, &format!("{file} {hash}")).await.exits(0);
    env.host.run("restart");
    env.wait_for_kubelet("started 50").await;

    // The agent adopts the ConfigMap of the pool, too.
    env.restart_api().await;
    let agent = env.start_agent();
    let name = format!("prod-gpu-{}", hash.short());
    env.create_immutable_config_map(&name, &content);
    env.assign(Some(&name)).await;
    env.wait_for_status(&format!("{name}/{name}/{name}")).await;
    agent.kill();
    assert_eq!(env.host.journal(), ["started 110", "started 50"]);
}

async fn agent_rolls_back_failed_boot(env: TestEnv) {
    env.host.run("stop");
    env.host.set_faults(&KubeletFaults { refuse: vec![50], ..KubeletFaults::default() });
    env.create_pointer(&env.host.configuration(50));
    boot(&env, ONLINE).await.exits(0);
    env.host.run("restart");
    env.wait_for_kubelet("refused 50").await;
    // The kubelet writes its kubeconfig only once it has started.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = format!("--listen {}", taken.local_addr().unwrap());
    let agent = env.start_agent_from("missing", &format!("--health-timeout 1s {listen} {}", env.restart_args()));
    env.wait_for_kubelet("started 110").await;
    agent.kill();
    // The next start of the kubelet keeps that.
    boot(&env, ONLINE).await.exits(0).prints("the agent owns the configuration");
    assert_eq!(loaded(&env)["maxPods"], 110);
}

async fn refused_pointers_change_nothing(env: TestEnv) {
    boot(&env, ONLINE).await.exits(4).prints("cannot get configmap nodecfg-system/nodecfg-pool-prod-gpu");
    env.create_pointer(&env.host.configuration(50));
    // The content has changed, the hash has not.
    env.change_config_map(POINTER, &env.host.configuration(51)).await;
    boot(&env, ONLINE).await.exits(5).prints("its content has the hash");
    let refused = env.host.configuration(-5);
    env.replace_pointer(&refused).await;
    let run = boot(&env, &format!("{ONLINE} -o json")).await.exits(5);
    assert_eq!(run.json()["errors"][0]["code"], "refused");
    run.prints("the kubelet would refuse the configuration of the pool");
    assert_eq!(loaded(&env)["maxPods"], 110);
    assert!(!env.host.path("store/agent.json").exists());
}

async fn unreachable_cluster_leaves_local_configuration(mut env: TestEnv) {
    env.create_pointer(&env.host.configuration(50));
    env.stop_api().await;
    boot(&env, "--kubeconfig kubeconfig --timeout 1s").await.exits(4).prints("trying again");
    boot(&env, "--kubeconfig missing").await.exits(4).prints("cannot be read");
    assert_eq!(loaded(&env)["maxPods"], 110);
    // A later start of the kubelet tries again.
    env.restart_api().await;
    boot(&env, ONLINE).await.exits(0);
    assert_eq!(loaded(&env)["maxPods"], 50);
}

async fn startup_taint_marks_failed_boot(env: TestEnv) {
    let image = format!("{}registerWithTaints:\n- {{key: gpu, effect: NoSchedule}}\n", env.host.configuration(110));
    fs::write(env.host.config(), image).unwrap();
    boot(&env, DROP_IN).await.exits(4).prints("registers its Node with the startup taint");
    let taints = loaded(&env)["registerWithTaints"].clone();
    let startup = json!({"key": "startup-taint.cluster-autoscaler.kubernetes.io/nodecfg", "effect": "NoSchedule"});
    assert_eq!(taints, json!([{"key": "gpu", "effect": "NoSchedule"}, startup]));
    assert_eq!(loaded(&env)["maxPods"], 110);
    env.create_pointer(&env.host.configuration(50));
    boot(&env, DROP_IN).await.exits(0);
    assert!(!env.host.path(TAINT_FILE).exists());
    assert_eq!(loaded(&env)["registerWithTaints"], json!([{"key": "gpu", "effect": "NoSchedule"}]));
}

/// systemd kills a boot that takes too long, and then starts the kubelet.
async fn startup_taint_marks_killed_boot(mut env: TestEnv) {
    env.create_pointer(&env.host.configuration(50));
    env.stop_api().await;
    let mut run = start_boot(&env, DROP_IN);
    run.until_stderr_contains("trying again").await;
    run.kill();
    let startup = json!({"key": "startup-taint.cluster-autoscaler.kubernetes.io/nodecfg", "effect": "NoSchedule"});
    assert_eq!(loaded(&env)["registerWithTaints"], json!([startup]));
    env.restart_api().await;
    boot(&env, DROP_IN).await.exits(0);
    assert_eq!((loaded(&env)["registerWithTaints"].clone(), loaded(&env)["maxPods"].clone()), (Value::Null, json!(50)));
}

async fn agent_or_pods_keep_configuration(env: TestEnv) {
    env.create_pointer(&env.host.configuration(50));
    fs::create_dir_all(env.host.path("root/pods/0cc3d1d6")).unwrap();
    boot(&env, ONLINE).await.exits(0).prints("the kubelet has run pods");
    fs::remove_dir_all(env.host.path("root/pods")).unwrap();
    let mut agent = env.start_agent();
    agent.until_stderr_contains("the agent starts").await;
    crate::until("the agent has saved its state", async || env.host.path("store/agent.json").exists()).await;
    boot(&env, ONLINE).await.exits(0).prints("nothing to do");
    agent.kill();
    boot(&env, ONLINE).await.exits(0).prints("the agent owns the configuration");
    assert_eq!(loaded(&env)["maxPods"], 110);
}

async fn rejects_invalid_arguments(env: TestEnv) {
    boot(&env, "--startup-taint").await.exits(2).prints("--startup-taint requires --activation drop-in");
    boot(&env, "--file a --kubeconfig b").await.exits(2).prints("cannot be used with");
    boot(&env, "--content-hash v1:blake3:x").await.exits(2).prints("expected a hash");
    env.start_program("boot --fleet prod").end().await.exits(2).prints("--pool <NAME>");
}
