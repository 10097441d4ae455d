//! Measures the time from the status that makes a node converge to the PATCH of the next node, with a budget of one.
//!
//! The server times both requests on arrival. This program acts as the kubelets, over HTTPS.

use std::time::{Duration, Instant};

use http::header::CONTENT_TYPE;
use serde_json::{Value, json};

use super::figures::Figures;
use super::program::nodecfg;
use super::sandbox::{SandboxSize, ServedSandbox, V1_21, client};
use super::{fleet, quantile};

const NODES: usize = 300;
/// Delay between an assignment and its status, milliseconds; long enough for nodecfg to become idle.
const REST: std::ops::Range<u64> = 20..40;

pub async fn measure(figures: &mut Figures) {
    println!("{:>8} {:>8} {:>10} {:>8} {:>8} {:>8}  (ms)", "nodes", "images", "median", "p90", "p99", "max");
    for (nodes, pools, images) in [(NODES, 1, 10), (NODES, 1, 50), (15_000, 50, 10)] {
        let reactions = reactions(SandboxSize { nodes, pools, images, kubelets: None, version: V1_21 }).await;
        let what = format!("from a status to the next PATCH, {nodes} nodes with {images} images");
        figures.note(&format!("{what}: longest"), quantile(&reactions, 1.0));
        if nodes != NODES {
            figures.note(&format!("{what}: 99%"), quantile(&reactions, 0.99));
        }
        println!(
            "{nodes:>8} {images:>8} {:>10.2} {:>8.2} {:>8.2} {:>8.2}",
            quantile(&reactions, 0.5),
            quantile(&reactions, 0.9),
            quantile(&reactions, 0.99),
            quantile(&reactions, 1.0)
        );
    }
}

/// Returns one reaction time in milliseconds for each node except the first.
async fn reactions(size: SandboxSize) -> Vec<f64> {
    let served = ServedSandbox::start(size).await;
    // Only one pool rolls out, so that its reaction alone is measured.
    let mut files = fleet::repository(size.pools, 1, "1");
    for pool in 1..size.pools {
        let path = format!("pools/{}/pool.yaml", fleet::pool_name(pool));
        if let Some(text) = files.get_mut(&path) {
            text.push_str("  rollout:\n    paused: true\n");
        }
    }
    let repository = served.repository(&files);
    let kubeconfig = served.kubeconfig();
    let (client, _) = client(&kubeconfig).await;
    let mut stamps = served.stamps();
    let mut child = nodecfg(["sync", &*repository.to_string_lossy(), "--kubeconfig", &*kubeconfig.to_string_lossy()])
        .spawn()
        .expect("the program starts");
    let mut random = fastrand::Rng::with_seed(1);
    let mut converged_at: Option<Instant> = None;
    let mut reactions = Vec::new();
    let wanted = size.nodes / size.pools;
    let mut done = 0;
    loop {
        let wait = tokio::time::timeout(Duration::from_secs(60), stamps.recv()).await;
        let stamp = wait.expect("nodecfg continues").expect("the sandbox runs");
        match (stamp.verb, stamp.resource.as_str(), stamp.answered) {
            ("patch", "nodes", None) if !stamp.dry_run => {
                if let Some(converged_at) = converged_at.take() {
                    reactions.push((stamp.arrived - converged_at).as_secs_f64() * 1000.0);
                }
            }
            ("patch", "nodes", Some(_)) if !stamp.dry_run => {
                done += 1;
                if done == wanted {
                    break;
                }
                let (client, rest) = (client.clone(), Duration::from_millis(random.u64(REST)));
                tokio::spawn(async move {
                    tokio::time::sleep(rest).await;
                    acknowledge(&client, &stamp.name).await;
                });
            }
            ("patch", "nodes/status", None) => converged_at = Some(stamp.arrived),
            _ => {}
        }
    }
    child.kill().expect("the program can be ended");
    child.wait().expect("the program ends");
    served.stop().await;
    reactions
}

/// Reports for the node's kubelet that the source in spec is active.
async fn acknowledge(client: &kube::Client, node: &str) {
    let get = http::Request::get(format!("/api/v1/nodes/{node}")).body(Vec::new()).unwrap();
    let object: Value = client.request(get).await.expect("the node exists");
    let mut source = object["spec"]["configSource"].clone();
    source["configMap"]["uid"] = json!("00000000-0000-4000-8000-000000000000");
    source["configMap"]["resourceVersion"] = json!("1");
    let status = json!({"status": {"config": {"assigned": source, "active": source, "lastKnownGood": source}}});
    let patch = http::Request::patch(format!("/api/v1/nodes/{node}/status"))
        .header(CONTENT_TYPE, "application/merge-patch+json")
        .body(status.to_string().into_bytes())
        .unwrap();
    client.request_text(patch).await.expect("the status is taken");
}
