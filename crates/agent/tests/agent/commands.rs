//! Tests of --once, status, host-step, --listen and --log-format, and of errors at start.

use std::fs;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::kubelet::KubeletFaults;
use crate::scenarios;
use crate::test_env::TestEnv;

scenarios! {
    once_completes_assignment,
    once_reports_failure,
    once_fails_without_api_server,
    status_reads_agent_folder_offline,
    restarts_kubelet_through_host_step,
    serves_metrics_and_health,
    writes_json_logs,
    refuses_to_start_on_bad_input,
}

async fn once_completes_assignment(env: TestEnv) {
    let once = || env.start_agent_with(&format!("--once --trial-period 1s {}", env.restart_args()));
    once().end().await.exits(0).prints("node n1 has no NodeConfig and keeps its configuration");
    let (config, restart_args) = (env.host.config().display().to_string(), env.restart_args());
    let other =
        format!("--node-name n2 --kubeconfig kubeconfig --store-dir other --kubelet-config {config} {restart_args}");
    env.start_program(&format!("--once {other}")).end().await.exits(5).prints("node n2 does not exist: wait until");
    env.start_program(&other).until_stderr_contains("there is no Node n2 yet").await;
    env.create_immutable_config_map("a", &env.host.configuration(50));
    env.assign(Some("a")).await;
    once().end().await.exits(0).prints("node n1 runs the assigned configuration");
    assert_eq!(env.summary(), "a/a/a");
    once().end().await.exits(0).prints("node n1 runs the assigned configuration");
    assert_eq!(env.host.journal(), ["started 110", "started 50"]);
}

async fn once_reports_failure(env: TestEnv) {
    env.host.set_faults(&KubeletFaults { unhealthy: vec![50], ..KubeletFaults::default() });
    let once = |more: &str| {
        env.start_agent_with(&format!("--once --trial-period 1s --health-timeout 2s {} {more}", env.restart_args()))
    };
    env.create_immutable_config_map("unhealthy", &env.host.configuration(50));
    env.assign(Some("unhealthy")).await;
    let run = once("-o json").end().await.exits(5);
    let document = run.json();
    assert_eq!(document["kind"], "AgentPass");
    assert_eq!(document["result"], "Failed");
    assert_eq!(document["error"], "failed trial: kubelet /healthz did not answer within 2 s");
    assert_eq!(env.host.last(), "started 110");
    env.assign(Some("missing")).await;
    once("").end().await.exits(5).prints("failed to sync: failed to download config");
}

async fn once_fails_without_api_server(mut env: TestEnv) {
    env.stop_api().await;
    let run = env.start_agent_with(&format!("--once {}", env.restart_args())).end().await;
    run.exits(4).prints("cannot get nodeconfig n1: the API server");
}

async fn status_reads_agent_folder_offline(env: TestEnv) {
    let status = |format: &str| env.start_program(&format!("status --store-dir store -o {format}"));
    status("text").end().await.exits(2).prints("cannot read the agent's folder store");
    let error: serde_json::Value = serde_json::from_str(&status("json").end().await.exits(2).out).unwrap();
    assert_eq!(
        (&error["kind"], &error["exitCode"], &error["errors"][0]["code"]),
        (&"Error".into(), &2.into(), &"agent".into())
    );
    let error = env.start_program("status --stor-dir store -o json").end().await.exits(2).json();
    assert_eq!((&error["errors"][0]["code"], &error["errors"][0]["help"]), (&"usage".into(), &"see --help".into()));
    let agent = env.start_agent();
    env.create_immutable_config_map("a", &env.host.configuration(50));
    env.assign(Some("a")).await;
    env.wait_for_status("a/a/a").await;
    // With and without a running agent.
    let text = status("text").end().await.exits(0).out;
    agent.kill();
    assert_eq!(status("text").end().await.exits(0).out, text);
    let mut settings = insta::Settings::clone_current();
    settings.add_filter("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "[uid]");
    settings.add_filter(r"version \d+", "version [version]");
    settings.add_filter(r"\]/\d+", "]/[version]");
    settings.add_filter(r#""resourceVersion": "\d+""#, r#""resourceVersion": "[version]""#);
    settings.add_filter(r"\d+ bytes", "[size] bytes");
    // The configuration has a free port and a temporary folder.
    settings.add_filter("v1:blake3:[0-9a-f]{64}", "[hash]");
    settings.add_filter(r#"Text": "[0-9a-f]{64}""#, r#"Text": "[hash]""#);
    settings.add_filter(r#""bytes": \d+"#, r#""bytes": "[size]""#);
    settings.bind(|| insta::assert_snapshot!("status", text));
    let json = status("json").end().await.exits(0).out;
    settings.bind(|| insta::assert_snapshot!("status-json", json));

    fs::write(env.host.path("store/agent.json"), "{").unwrap();
    status("text").end().await.exits(2).prints("agent.json cannot be read");
}

async fn restarts_kubelet_through_host_step(env: TestEnv) {
    let restart_args = env.restart_args();
    let restart_args = restart_args.split(" --kubelet-version").next().unwrap();
    let mut step = env.start_program(&format!("host-step --socket step.sock --kubelet false {restart_args}"));
    step.until_stderr_contains("listening").await;
    // The agent has no restart command of its own; the default one would fail here.
    let agent = env.start_agent_with("--host-step step.sock --trial-period 1s --health-timeout 1m");
    fs::write(env.host.path("root/cpu_manager_state"), "{}").unwrap();
    env.create_immutable_config_map(
        "a",
        &format!("cpuManagerPolicy: static\nkubeReserved:\n  cpu: 500m\n{}", env.host.configuration(50)),
    );
    env.assign(Some("a")).await;
    env.wait_for_status("a/a/a").await;
    assert_eq!(env.host.commands(), ["restart", "stop cpu_manager_state", "restart"]);
    agent.kill();

    let agent = env.start_agent_with("--host-step step.sock --restart-command true");
    agent.end().await.exits(2).prints("cannot be used with");
    step.interrupt();
    step.end().await.exits(0);
    assert!(!env.host.path("step.sock").exists());
}

async fn get(address: &str, path: &str) -> String {
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

async fn serves_metrics_and_health(env: TestEnv) {
    let mut agent = env.start_agent_with(&format!("--listen 0 --trial-period 1s {}", env.restart_args()));
    let output = agent.until_stderr_contains("serving /metrics and /healthz").await;
    let address = output.split_once("address=127.0.0.1:").unwrap().1;
    let address = format!("127.0.0.1:{}", address.split(|c: char| !c.is_ascii_digit()).next().unwrap());
    assert!(get(&address, "/healthz").await.ends_with("\r\n\r\nok"));
    env.create_immutable_config_map("a", &env.host.configuration(50));
    env.assign(Some("a")).await;
    env.wait_for_status("a/a/a").await;
    let metrics = get(&address, "/metrics").await;
    for name in ["assigned", "active", "last_known_good"] {
        let line = format!(
            "kubelet_node_config_{name}{{node_config_source=\"/api/v1/namespaces/nodecfg-system/configmaps/a\""
        );
        assert!(metrics.contains(&line), "{metrics}");
    }
    assert!(metrics.contains("\nkubelet_node_config_error 0\n"), "{metrics}");
    assert!(metrics.contains("\nnodecfg_agent_restarts_total 1\n"), "{metrics}");
    agent.kill();
}

async fn writes_json_logs(env: TestEnv) {
    let agent = env.start_agent_with(&format!("--log-format json --trial-period 1s {}", env.restart_args()));
    env.create_immutable_config_map("a", &env.host.configuration(50));
    env.assign(Some("a")).await;
    env.wait_for_status("a/a/a").await;
    agent.interrupt();
    let run = agent.end().await.exits(0);
    let lines: Vec<serde_json::Value> = run.err.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert!(lines.iter().all(|line| line["timestamp"].is_string() && line["level"].is_string()), "{lines:?}");
    let logged =
        |text: &str| lines.iter().any(|line| line["message"].as_str().is_some_and(|message| message.contains(text)));
    assert!(logged("the agent starts") && logged("restarting the kubelet") && logged("the agent ends"), "{lines:?}");
    assert!(logged("is the last known good now"), "{lines:?}");
    assert!(run.out.is_empty());
}

async fn refuses_to_start_on_bad_input(env: TestEnv) {
    let first = env.start_agent();
    env.assign(None).await;
    env.wait_for_status("-/-/-").await;
    env.start_agent().end().await.exits(2).prints("another agent uses store");
    first.kill();
    fs::create_dir_all(env.host.path("store")).unwrap();
    fs::write(env.host.path("store/agent.json"), "{\"formatVersion\": 99}").unwrap();
    env.start_agent().end().await.exits(2).prints("the agent cannot start");
    env.start_program("--node-name Not_A_Node").end().await.exits(2).prints("is not a valid node name");
    env.start_program("--restart-command 'x").end().await.exits(2).prints("an unclosed quote");
    env.start_program("--kubeconfig missing --store-dir store2").end().await.exits(2).prints("cannot start");
}
