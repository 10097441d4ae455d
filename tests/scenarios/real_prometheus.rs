//! Gates against a real Prometheus server, if the program `prometheus` is installed.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::routing::get;
use tempfile::TempDir;
use tokio::net::TcpListener;

use crate::harness::{ClusterSetup, Repository, print_line, until};

scenarios! {
    Sandbox {
        answers_of_a_real_server_pass_block_and_are_unknown,
    }
}

/// A Prometheus server that scrapes one target of the test. Stopped when dropped.
struct Server {
    url: String,
    process: Child,
    _folder: TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    /// Starts the server, or returns `None` if the program is missing.
    async fn start(target: &str) -> Option<Self> {
        let folder = TempDir::new().unwrap();
        let configuration = folder.path().join("prometheus.yml");
        let text = format!(
            "global: {{scrape_interval: 200ms, scrape_timeout: 200ms}}\nscrape_configs:\n- job_name: app\n  \
             static_configs: [{{targets: [\"{target}\"]}}]\n"
        );
        std::fs::write(&configuration, text).unwrap();
        // Another process may take the port before the server does; then the test fails, and says so.
        let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
        let process = Command::new("prometheus")
            .arg(format!("--config.file={}", configuration.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let process = process.ok()?;
        Some(Self { url: format!("http://127.0.0.1:{port}"), process, _folder: folder })
    }
}

/// A target with one counter, which has a second series once `broken` is set.
async fn target(broken: Arc<AtomicBool>) -> String {
    let metrics = move || {
        let broken = broken.load(Ordering::SeqCst);
        async move {
            let more = if broken { "errors{service=\"b\"} 9\n" } else { "" };
            format!("# TYPE errors gauge\nerrors{{service=\"a\"}} 5\n{more}requests 1\n")
        }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/metrics", get(metrics))).await });
    address
}

async fn answers_of_a_real_server_pass_block_and_are_unknown(start: ClusterSetup) {
    let broken = Arc::new(AtomicBool::new(false));
    let Some(server) = Server::start(&target(Arc::clone(&broken)).await).await else {
        return print_line("skipped: the program prometheus is missing");
    };
    let cluster = start.pool("a", 1).up().await;
    let gate = |name: &str, query: &str, present: &str, baseline: &str| {
        format!("{{name: {name}, prometheus: {{query: '{query}', present: '{present}', baseline: {baseline}}}}}")
    };
    let gates = [
        gate("counted", "errors > 3", "errors", "ignore"),
        gate("known", "errors > 3", "errors", "use"),
        gate("quiet", "requests > 3", "requests", "ignore"),
        gate("absent", "requests > 3", "missing_metric", "use"),
        gate("scalar", "scalar(requests)", "requests", "use"),
        gate("wrong", "sum(", "requests", "use"),
        gate("escaped", "label_replace(requests, \"x\", \"é&=+%\\n\", \"\", \"\") == 1", "requests", "ignore"),
    ];
    let repository = Repository::of_pool("syncFrequency: 2m", &format!("{{gates: [{}]}}", gates.join(", ")));
    let run = async || cluster.run("gates", &repository, &["--prometheus-url", &server.url, "-o", "json"]).await;
    until("the server has data of its target", async || run().await.has("\"passes\"")).await;
    let answers = run().await.exits(1).json();
    let state = |name: &str| {
        let gate = answers["gates"].as_array().unwrap().iter().find(|gate| gate["name"] == name).unwrap();
        let reasons: Vec<&str> =
            gate["reasons"].as_array().unwrap().iter().map(|reason| reason.as_str().unwrap()).collect();
        (gate["state"].as_str().unwrap().to_owned(), reasons.join("; "), gate["known"].as_u64().unwrap())
    };
    let instance = &state("counted").1.split("instance=").nth(1).unwrap()[..20].to_owned();
    assert!(instance.starts_with("\"127.0.0.1:"), "{instance}");
    assert_eq!(state("counted").0, "blocks");
    assert!(state("counted").1.ends_with("job=\"app\", service=\"a\"} is 5"), "{:?}", state("counted"));
    assert_eq!(state("known"), ("passes".to_owned(), String::new(), 1));
    assert_eq!(state("quiet"), ("passes".to_owned(), String::new(), 0));
    assert_eq!(state("absent").1, "`present` has no data: missing_metric");
    assert_eq!(state("scalar").1, "the result is a scalar; use an expression whose result is an instant vector");
    assert!(
        state("wrong").1.starts_with("Prometheus refuses the query: invalid parameter \"query\": 1:5: parse error")
    );
    assert!(state("escaped").1.contains("x=\"é&=+%\\n\""), "{:?}", state("escaped"));
    broken.store(true, Ordering::SeqCst);
    until("the second series fires", async || run().await.has("service=\\\"b\\\"} is 9")).await;
    drop(server);
    cluster.down().await;
}
