//! From the status that makes a node converge to the PATCH of the next node, with a budget of one: both timed as they
//! arrive at the server. This program plays the kubelets, over HTTPS.

use std::time::{Duration, Instant};

use http::header::CONTENT_TYPE;
use serde_json::{Value, json};

use super::program::nodecfg;
use super::served::{Served, World, client};
use super::{fleet, quantile};

const NODES: usize = 300;
/// Between an assignment and the status that answers it, in milliseconds: long enough for nodecfg to come to rest.
const REST: std::ops::Range<u64> = 20..40;

pub async fn measure() {
    println!("{:>8} {:>8} {:>10} {:>8} {:>8} {:>8}  (ms)", "nodes", "images", "median", "p90", "p99", "max");
    for (nodes, pools, images) in [(NODES, 1, 10), (NODES, 1, 50), (15_000, 50, 10)] {
        let reactions = reactions(World { nodes, pools, images, kubelets: None }).await;
        println!(
            "{nodes:>8} {images:>8} {:>10.2} {:>8.2} {:>8.2} {:>8.2}",
            quantile(&reactions, 0.5),
            quantile(&reactions, 0.9),
            quantile(&reactions, 0.99),
            quantile(&reactions, 1.0)
        );
    }
}

/// Milliseconds, one figure for each node but the first.
async fn reactions(world: World) -> Vec<f64> {
    let served = Served::start(world).await;
    // All pools but one stand still, so that what is measured is one pool's reaction.
    let mut files = fleet::repository(world.pools, 1, "1");
    for pool in 1..world.pools {
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
    let mut told: Option<Instant> = None;
    let mut reactions = Vec::new();
    let wanted = world.nodes / world.pools;
    let mut done = 0;
    loop {
        let wait = tokio::time::timeout(Duration::from_secs(60), stamps.recv()).await;
        let stamp = wait.expect("nodecfg goes on").expect("the sandbox lives");
        match (stamp.verb, stamp.resource.as_str(), stamp.answered) {
            ("patch", "nodes", None) if !stamp.dry_run => {
                if let Some(told) = told.take() {
                    reactions.push((stamp.arrived - told).as_secs_f64() * 1000.0);
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
            ("patch", "nodes/status", None) => told = Some(stamp.arrived),
            _ => {}
        }
    }
    child.kill().expect("the program can be ended");
    child.wait().expect("the program ends");
    served.stop().await;
    reactions
}

/// Reports, as the node's kubelet, that it runs what its spec names.
async fn acknowledge(client: &kube::Client, node: &str) {
    let get = http::Request::get(format!("/api/v1/nodes/{node}")).body(Vec::new()).unwrap();
    let object: Value = client.request(get).await.expect("the node is there");
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
