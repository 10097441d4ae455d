//! Tests of failures: refused or broken configurations, failed restarts, an unreachable API server, and reboots.

use std::collections::BTreeMap;

use crate::kubelet::KubeletFaults;
use crate::program::Running;
use crate::scenarios;
use crate::test_env::TestEnv;
use crate::until;

scenarios! {
    never_places_refused_configuration,
    never_places_what_the_host_lacks,
    never_places_what_the_host_lacks_as_drop_in,
    rolls_back_crashed_kubelet_without_api_server,
    rolls_back_unhealthy_kubelet,
    names_field_of_a_kubelet_that_exits,
    publishes_no_text_of_the_host,
    reports_failed_restart,
    explains_failed_restart_by_the_log,
    keeps_configuration_during_api_outage,
    restores_configuration_after_reboot_without_api_server,
    continues_trial_after_kill,
    retries_missing_config_map,
}

async fn never_places_refused_configuration(env: TestEnv) {
    let _agent = env.start_agent();
    for (name, text, error) in [
        ("invalid", env.host.configuration(-1), "failed to validate config"),
        ("garbled", "maxPods: [".to_owned(), "failed to load config"),
    ] {
        env.create_immutable_config_map(name, &text);
        env.assign(Some(name)).await;
        env.wait_for_status(&format!("{name}/-/- {error}, see Kubelet log for details")).await;
    }
    assert_eq!(env.condition("Active"), "False LoadFailed");
    assert_eq!(env.host.journal(), ["started 110"]);
    // The fix is another assignment.
    env.create_immutable_config_map("a", &env.host.configuration(50));
    env.assign(Some("a")).await;
    env.wait_for_status("a/a/a").await;
    // The running configuration is now the last known good, so a refused assignment needs no restart.
    env.assign(Some("invalid")).await;
    env.wait_for_status("invalid/a/a failed to validate config, see Kubelet log for details").await;
    assert_eq!(env.host.journal(), ["started 110", "started 50"]);
}

async fn never_places_what_the_host_lacks(env: TestEnv) {
    never_places_on_a_host_without_the_file(&env, &format!("--trial-period 1s {}", env.restart_args())).await;
}

/// The other activation, and the privileged part in its own process.
async fn never_places_what_the_host_lacks_as_drop_in(env: TestEnv) {
    let restart_args = env.restart_args();
    let restart_args = restart_args.split(" --kubelet-version").next().unwrap();
    let mut step = env.start_program(&format!("host-step --socket step.sock --kubelet false {restart_args}"));
    step.until_stderr_contains("listening").await;
    let arguments = "--activation drop-in --host-step step.sock --trial-period 1s";
    never_places_on_a_host_without_the_file(&env, arguments).await;
}

async fn never_places_on_a_host_without_the_file(env: &TestEnv, arguments: &str) {
    let _agent = env.start_agent_with(arguments);
    let file = env.host.path("ca.crt");
    let text =
        format!("{}authentication: {{x509: {{clientCAFile: {}}}}}\n", env.host.configuration(50), file.display());
    env.create_immutable_config_map("lacking", &text);
    env.assign(Some("lacking")).await;
    env.wait_for_status("lacking/-/- failed to validate config, see Kubelet log for details").await;
    let reason = format!("authentication.x509.clientCAFile: {} does not exist on this host", file.display());
    assert!(env.status().to_string().contains(&reason), "{}", env.status());
    assert_eq!(env.host.journal(), ["started 110"]);
    // The same assignment is accepted as soon as the host has the file.
    std::fs::write(&file, rcgen::generate_simple_self_signed(vec!["node".to_owned()]).unwrap().cert.pem()).unwrap();
    env.patch_spec(serde_json::json!({"configSource": null, "contentHash": null})).await;
    env.wait_for_status("-/-/-").await;
    env.assign(Some("lacking")).await;
    env.wait_for_status("lacking/lacking/lacking").await;
    assert_eq!(env.host.journal(), ["started 110", "started 50"]);
}

async fn rolls_back_crashed_kubelet_without_api_server(mut env: TestEnv) {
    env.host.set_faults(&KubeletFaults { die: BTreeMap::from([(13, 1500)]), ..KubeletFaults::default() });
    let agent = env.start_agent();
    env.create_immutable_config_map("good", &env.host.configuration(50));
    env.assign(Some("good")).await;
    env.wait_for_status("good/good/good").await;
    agent.kill();

    let _agent = env.start_agent_with(&format!("--trial-period 1h --health-timeout 3s {}", env.restart_args()));
    env.create_immutable_config_map("fatal", &env.host.configuration(13));
    env.assign(Some("fatal")).await;
    until("the kubelet was started", async || env.host.journal().contains(&"started 13".to_owned())).await;
    env.stop_api().await;
    env.wait_for_kubelet("started 50").await;
    assert_eq!(env.host.journal(), ["started 110", "started 50", "started 13", "died 13", "started 50"]);
    env.restart_api().await;
    until("the status reports the failed trial", async || env.summary().starts_with("fatal/good/good failed trial: "))
        .await;
    assert_eq!(env.condition("Active"), "False TrialFailed");
}

async fn rolls_back_unhealthy_kubelet(env: TestEnv) {
    env.host.set_faults(&KubeletFaults { unhealthy: vec![50], refuse: vec![60], ..KubeletFaults::default() });
    let _agent = env.start_agent_with(&format!("--trial-period 1s --health-timeout 2s {}", env.restart_args()));
    for (name, pods) in [("unhealthy", 50), ("refused", 60)] {
        env.create_immutable_config_map(name, &env.host.configuration(pods));
        env.assign(Some(name)).await;
        env.wait_for_status(&format!("{name}/-/- failed trial: kubelet /healthz did not answer within 2 s")).await;
        env.wait_for_kubelet("started 110").await;
    }
    assert_eq!(
        env.host.journal(),
        ["started 110", "started 50", "started 110", "refused 60", "started 110"],
        "each tried once and rolled back"
    );
    let events = env.events().await;
    assert!(events[1].starts_with("KubeletConfigRolledBack: Kubelet restarting to roll back from "), "{events:?}");
}

/// Errors in the words of the kubelet's source, each with the field to change.
async fn names_field_of_a_kubelet_that_exits(env: TestEnv) {
    let run = |error: &str| format!("E1124 08:00:00.123456    4711 run.go:72] \"command failed\" err={error:?}");
    let manager = |error: &str| {
        format!("E1124 08:00:00.123456    4711 kubelet.go:1466] \"Failed to start ContainerManager\" err={error:?}")
    };
    let lines = [
        ("authentication.x509.clientCAFile", run("unable to load client CA file /etc/ca: open /etc/ca: no such file")),
        (
            "cgroupDriver",
            run("kubelet cgroup driver: \"cgroupfs\" is different from docker cgroup driver: \"systemd\""),
        ),
        (
            "containerRuntimeEndpoint",
            run("validate service connection: validate CRI v1 runtime API for endpoint \"unix:///no\": rpc error"),
        ),
        (
            "systemReserved, kubeReserved or evictionHard",
            manager("invalid Node Allocatable configuration. Resource \"memory\" has a reservation of 9Gi"),
        ),
        (
            "port or readOnlyPort",
            "E1124 08:00:00.1 1 server.go:1] \"Failed to listen and serve\" err=\"listen tcp :1: bind: in use\""
                .to_owned(),
        ),
        ("failSwapOn", run("failed to run Kubelet: running with swap on is not supported, please disable swap")),
        ("cpuManagerPolicy", manager("please drain this node and delete the CPU manager checkpoint file \"/x\"")),
        (
            "cpuManagerPolicy, reservedSystemCPUs, systemReserved or kubeReserved",
            run(
                "[cpumanager] the static policy requires systemreserved.cpu + kubereserved.cpu to be greater than zero",
            ),
        ),
        ("systemReservedCgroup", manager("Failed to enforce System Reserved Cgroup Limits on \"/x\": no cgroup")),
        (
            "cgroupRoot or cgroupDriver",
            run("failed to run Kubelet: invalid configuration: cgroup-root [\"x\"] doesn't exist"),
        ),
    ];
    let pods = 50..;
    let exit = pods.clone().zip(&lines).map(|(pods, (_, line))| (pods, line.clone())).collect();
    env.host.set_faults(&KubeletFaults { exit, ..KubeletFaults::default() });
    let _agent = env.start_agent_with(&format!("--trial-period 1s --health-timeout 10m {}", env.restart_args()));
    for (pods, (field, _)) in pods.zip(&lines) {
        let name = format!("exits-{pods}");
        env.create_immutable_config_map(&name, &env.host.configuration(pods));
        env.assign(Some(&name)).await;
        let start = format!("{name}/-/- failed trial: kubelet exited 3 times: {field}: ");
        until(&format!("the status begins with {start}"), async || env.summary().starts_with(&start)).await;
        env.wait_for_kubelet("started 110").await;
    }
    let events = env.events().await;
    let event = "the kubelet exited 3 times during its trial; its last error: cgroupRoot or cgroupDriver: ";
    assert!(events.iter().any(|text| text.contains(event)), "{events:?}");
}

/// Secrets in the kubelet's log, in the answer of its /healthz, and in the output of the restart command.
async fn publishes_no_text_of_the_host(env: TestEnv) {
    let published = async |agent: &mut Running| {
        let log = agent.until_stderr_contains("").await;
        let state = std::fs::read_to_string(env.host.path("store/agent.json")).unwrap_or_default();
        let all = format!("{}\n{:?}\n{state}\n{log}", env.status(), env.events().await);
        assert!(!all.contains("hunter2"), "{all}");
    };
    let lines = [
        (
            r#"E1124 08:00:00.1 1 run.go:72] "command failed" err="cannot mount /a: passphrase=hunter2 sig=hunter2""#,
            "unknown error, see it on the node: the command of the agent's --log-command",
        ),
        (
            r#"{"ts":1.5,"msg":"command failed","err":"maxPods {\"password\": {\"value\": \"hunter2\"}} -u root:hunter2"}"#,
            "maxPods: unknown error, see it on the node: the command of the agent's --log-command",
        ),
        (
            "Error: failed to run Kubelet: open /hunter2: permission denied, X-Auth-Key: hunter2",
            "open …: permission denied",
        ),
    ];
    let exit = (50..).zip(lines).map(|(pods, (line, _))| (pods, line.to_owned())).collect();
    env.host.set_faults(&KubeletFaults { exit, unhealthy: vec![60], ..KubeletFaults::default() });
    let mut agent = env.start_agent_with(&format!("--trial-period 1s --health-timeout 10m {}", env.restart_args()));
    for (pods, (_, error)) in (50..).zip(lines) {
        let name = format!("exits-{pods}");
        env.create_immutable_config_map(&name, &env.host.configuration(pods));
        env.assign(Some(&name)).await;
        env.wait_for_status(&format!("{name}/-/- failed trial: kubelet exited 3 times: {error}")).await;
        env.wait_for_kubelet("started 110").await;
        published(&mut agent).await;
    }
    agent.kill();
    // The simulated log ignores --since.
    std::fs::remove_file(env.host.path("kubelet.log")).unwrap();
    let mut agent = env.start_agent_with(&format!("--trial-period 1s --health-timeout 2s {}", env.restart_args()));
    env.create_immutable_config_map("unhealthy", &env.host.configuration(60));
    env.assign(Some("unhealthy")).await;
    env.wait_for_status("unhealthy/-/- failed trial: kubelet /healthz did not answer within 2 s").await;
    env.wait_for_kubelet("started 110").await;
    published(&mut agent).await;
    env.host.remove_service(true);
    env.create_immutable_config_map("a", &env.host.configuration(70));
    env.assign(Some("a")).await;
    until("the restart failed", async || env.condition("Active") == "False RestartFailed").await;
    published(&mut agent).await;
    let conditions = env.status()["conditions"].to_string();
    assert!(conditions.contains("the command of --restart-command failed (exit status: 5): not found"), "{conditions}");
}

async fn reports_failed_restart(env: TestEnv) {
    let mut agent = env.start_agent();
    env.host.remove_service(true);
    env.create_immutable_config_map("a", &env.host.configuration(50));
    env.assign(Some("a")).await;
    agent.until_stderr_contains("the command of --restart-command failed (exit status: 5): not found").await;
    until("the status reports the failed restart", async || {
        env.summary() == "a/a/- failed to restart the kubelet, see condition Active for details"
            || env.summary() == "a/-/- failed to restart the kubelet, see condition Active for details"
    })
    .await;
    assert_eq!(env.condition("Active"), "False RestartFailed");
    // The last known good is in place even if the restart fails.
    assert_eq!(std::fs::read_to_string(env.host.config()).unwrap(), env.host.configuration(110));
    env.host.remove_service(false);
    env.wait_for_status("a/-/- failed to restart the kubelet, see condition Active for details").await;
    until("the kubelet is restarted on its local configuration", async || {
        env.host.journal() == ["started 110", "started 110"]
    })
    .await;
}

async fn explains_failed_restart_by_the_log(env: TestEnv) {
    let line =
        r#"{"ts":1.5,"msg":"command failed","err":"failed to run Kubelet: running with swap on is not supported"}"#;
    env.host.set_faults(&KubeletFaults { exit: BTreeMap::from([(50, line.to_owned())]), ..KubeletFaults::default() });
    env.host.wait_for_start();
    let _agent = env.start_agent();
    env.create_immutable_config_map("a", &env.host.configuration(50));
    env.assign(Some("a")).await;
    env.wait_for_status(
        "a/-/- failed to restart the kubelet, see condition Active for details: failSwapOn: running with swap on is not \
         supported",
    )
    .await;
    assert_eq!(env.condition("Active"), "False RestartFailed");
    env.wait_for_kubelet("started 110").await;
}

async fn keeps_configuration_during_api_outage(mut env: TestEnv) {
    let _agent = env.start_agent();
    env.create_immutable_config_map("a", &env.host.configuration(50));
    env.assign(Some("a")).await;
    env.wait_for_status("a/a/a").await;
    for (name, pods) in [("b", 60), ("c", 70)] {
        env.stop_api().await;
        env.pause().await;
        env.create_immutable_config_map(name, &env.host.configuration(pods));
        env.assign(Some(name)).await;
        env.pause().await;
        assert_eq!(env.summary(), if name == "b" { "a/a/a" } else { "b/b/b" });
        env.restart_api().await;
        env.wait_for_status(&format!("{name}/{name}/{name}")).await;
    }
    assert_eq!(env.host.journal(), ["started 110", "started 50", "started 60", "started 70"]);
}

async fn restores_configuration_after_reboot_without_api_server(mut env: TestEnv) {
    let agent = env.start_agent();
    env.create_immutable_config_map("a", &env.host.configuration(50));
    env.assign(Some("a")).await;
    env.wait_for_status("a/a/a").await;
    env.stop_api().await;
    agent.kill();
    env.host.run("stop");
    // After the reboot the kubelet reads the placed file, and the agent has nothing to do.
    env.host.run("restart");
    env.wait_for_kubelet("started 50").await;
    let mut agent = env.start_agent();
    agent.until_stderr_contains("cannot list nodeconfigs").await;
    // Another program restored the provisioned file. The agent replaces it without the API server.
    agent.kill();
    std::fs::write(env.host.config(), env.host.configuration(110)).unwrap();
    env.host.run("restart");
    env.wait_for_kubelet("started 110").await;
    let _agent = env.start_agent();
    env.wait_for_kubelet("started 50").await;
    env.restart_api().await;
    env.wait_for_status("a/a/a").await;
}

async fn continues_trial_after_kill(env: TestEnv) {
    let agent = env.start_agent_with(&format!("--trial-period 1h {}", env.restart_args()));
    env.create_immutable_config_map("a", &env.host.configuration(50));
    env.assign(Some("a")).await;
    env.wait_for_status("a/a/-").await;
    agent.kill();
    let _agent = env.start_agent();
    env.wait_for_status("a/a/a").await;
    assert_eq!(env.host.journal(), ["started 110", "started 50"], "not restarted again");
}

async fn retries_missing_config_map(env: TestEnv) {
    let _agent = env.start_agent();
    env.assign(Some("late")).await;
    env.wait_for_status("-/-/- failed to sync: failed to download config, see Kubelet log for details").await;
    env.create_immutable_config_map("late", &env.host.configuration(50));
    env.wait_for_status("late/late/late").await;
}
