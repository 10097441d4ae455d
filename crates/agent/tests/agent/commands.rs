//! The agent's other ways to be run: once, offline, with its privileges elsewhere; and what it shows.

use std::fs;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::kubelet::Orders;
use crate::scenarios;
use crate::site::Site;

scenarios! {
    once_sees_an_assignment_through,
    once_says_what_failed,
    once_without_the_api_server,
    the_store_read_offline,
    privileges_behind_a_socket,
    metrics_and_health,
    logs_for_programs,
    what_it_does_not_start_on,
}

async fn once_sees_an_assignment_through(site: Site) {
    let once = || site.agent(&format!("--once --trial-period 1s {}", site.own_hands()));
    once().end().await.exits(0).says("node n1 has no NodeConfig, and keeps what it has");
    site.config_map("a", &site.host.configuration(50));
    site.assign(Some("a")).await;
    once().end().await.exits(0).says("node n1 runs what is assigned");
    assert_eq!(site.says(), "a/a/a");
    once().end().await.exits(0).says("node n1 runs what is assigned");
    assert_eq!(site.host.journal(), ["started 110", "started 50"]);
}

async fn once_says_what_failed(site: Site) {
    site.host.order(&Orders { sick: vec![50], ..Orders::default() });
    let once =
        |more: &str| site.agent(&format!("--once --trial-period 1s --health-timeout 2s {} {more}", site.own_hands()));
    site.config_map("sick", &site.host.configuration(50));
    site.assign(Some("sick")).await;
    let run = once("-o json").end().await.exits(5);
    let document = run.json();
    assert_eq!(document["kind"], "AgentPass");
    assert_eq!(document["result"], "Failed");
    assert_eq!(document["error"], "failed trial: kubelet /healthz did not answer within 2 s");
    assert_eq!(site.host.last(), "started 110");
    site.assign(Some("missing")).await;
    once("").end().await.exits(5).says("failed to sync: failed to download config");
}

async fn once_without_the_api_server(mut site: Site) {
    site.crash().await;
    let run = site.agent(&format!("--once {}", site.own_hands())).end().await;
    run.exits(4).says("cannot get nodeconfig n1: the API server");
}

async fn the_store_read_offline(site: Site) {
    let status = |format: &str| site.program(&format!("status --store-dir store -o {format}"));
    status("text").end().await.exits(2).says("cannot read the agent's folder store");
    let error: serde_json::Value = serde_json::from_str(&status("json").end().await.exits(2).out).unwrap();
    assert_eq!(
        (&error["kind"], &error["exitCode"], &error["errors"][0]["code"]),
        (&"Error".into(), &2.into(), &"agent".into())
    );
    let error = site.program("status --stor-dir store -o json").end().await.exits(2).json();
    assert_eq!((&error["errors"][0]["code"], &error["errors"][0]["help"]), (&"usage".into(), &"see --help".into()));
    let agent = site.usual_agent();
    site.config_map("a", &site.host.configuration(50));
    site.assign(Some("a")).await;
    site.until_it_says("a/a/a").await;
    // Whether or not the agent runs.
    let text = status("text").end().await.exits(0).out;
    agent.kill();
    assert_eq!(status("text").end().await.exits(0).out, text);
    let mut settings = insta::Settings::clone_current();
    settings.add_filter("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "[uid]");
    settings.add_filter(r"version \d+", "version [version]");
    settings.add_filter(r"\]/\d+", "]/[version]");
    settings.add_filter(r#""resourceVersion": "\d+""#, r#""resourceVersion": "[version]""#);
    settings.add_filter(r"\d+ bytes", "[size] bytes");
    settings.add_filter(r#""bytes": \d+"#, r#""bytes": "[size]""#);
    settings.bind(|| insta::assert_snapshot!("status", text));
    let json = status("json").end().await.exits(0).out;
    settings.bind(|| insta::assert_snapshot!("status-json", json));

    fs::write(site.host.path("store/agent.json"), "{").unwrap();
    status("text").end().await.exits(2).says("agent.json cannot be read");
}

async fn privileges_behind_a_socket(site: Site) {
    let hands = site.own_hands();
    let hands = hands.split(" --kubelet-version").next().unwrap();
    let mut step = site.program(&format!("host-step --socket step.sock --kubelet false {hands}"));
    step.until_it_says("listening").await;
    // No command of its own: what it would run is not there.
    let agent = site.agent("--host-step step.sock --trial-period 1s --health-timeout 1m");
    fs::write(site.host.path("root/cpu_manager_state"), "{}").unwrap();
    site.config_map(
        "a",
        &format!("cpuManagerPolicy: static\nkubeReserved:\n  cpu: 500m\n{}", site.host.configuration(50)),
    );
    site.assign(Some("a")).await;
    site.until_it_says("a/a/a").await;
    assert_eq!(site.host.commands(), ["restart", "stop cpu_manager_state", "restart"]);
    agent.kill();

    let agent = site.agent("--host-step step.sock --restart-command true");
    agent.end().await.exits(2).says("cannot be used with");
    step.interrupt();
    step.end().await.exits(0);
    assert!(!site.host.path("step.sock").exists());
}

async fn get(address: &str, path: &str) -> String {
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

async fn metrics_and_health(site: Site) {
    let mut agent = site.agent(&format!("--listen 0 --trial-period 1s {}", site.own_hands()));
    let said = agent.until_it_says("serving /metrics and /healthz").await;
    let address = said.split_once("address=127.0.0.1:").unwrap().1;
    let address = format!("127.0.0.1:{}", address.split(|c: char| !c.is_ascii_digit()).next().unwrap());
    assert!(get(&address, "/healthz").await.ends_with("\r\n\r\nok"));
    site.config_map("a", &site.host.configuration(50));
    site.assign(Some("a")).await;
    site.until_it_says("a/a/a").await;
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

async fn logs_for_programs(site: Site) {
    let agent = site.agent(&format!("--log-format json --trial-period 1s {}", site.own_hands()));
    site.config_map("a", &site.host.configuration(50));
    site.assign(Some("a")).await;
    site.until_it_says("a/a/a").await;
    agent.interrupt();
    let run = agent.end().await.exits(0);
    let lines: Vec<serde_json::Value> = run.err.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert!(lines.iter().all(|line| line["timestamp"].is_string() && line["level"].is_string()), "{lines:?}");
    let said = |text: &str| lines.iter().any(|line| line["message"].as_str().is_some_and(|said| said.contains(text)));
    assert!(said("the agent starts") && said("restarting the kubelet") && said("the agent ends"), "{lines:?}");
    assert!(run.out.is_empty());
}

async fn what_it_does_not_start_on(site: Site) {
    let first = site.usual_agent();
    site.assign(None).await;
    site.until_it_says("-/-/-").await;
    site.usual_agent().end().await.exits(2).says("another agent works on store");
    first.kill();
    fs::create_dir_all(site.host.path("store")).unwrap();
    fs::write(site.host.path("store/agent.json"), "{\"formatVersion\": 99}").unwrap();
    site.usual_agent().end().await.exits(2).says("the agent cannot start");
    site.program("--node-name Not_A_Node").end().await.exits(2).says("cannot be the name of a node");
    site.program("--restart-command 'x").end().await.exits(2).says("a quote that is not closed");
    site.program("--kubeconfig missing --store-dir store2").end().await.exits(2).says("cannot start");
}
