//! Compares the assignment of 1,000 nodes with a budget of 100% to the same PATCH requests of a plain HTTP client.
//!
//! Both run in their own process and send 16 concurrent requests. The server times both, from the first PATCH of a
//! Node to the last response. The kubelets are idle.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::stream;
use http::header::CONTENT_TYPE;
use nodecfg_contract::names::PoolName;
use nodecfg_sandbox::nodes;
use serde_json::json;

use super::figures::Figures;
use super::program::nodecfg;
use super::sandbox::{SandboxSize, ServedSandbox, V1_21, client};
use super::{fleet, quantile};

/// Argument that selects the plain client.
pub const BARE: &str = "bare-client";
const NODES: usize = 1_000;
/// Default concurrency of `nodecfg sync`.
const CONCURRENCY: usize = 16;
const ROUNDS: usize = 9;

pub async fn measure(figures: &mut Figures) {
    println!("{:>6}  {:>14} {:>12} {:>6} {:>10}", "images", "bare PATCHes s", "nodecfg s", "ratio", "events");
    for images in [10, 50] {
        let (mut bare, mut synced, mut ratios, mut events) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let (plain, _) = round(images, true).await;
            let (sync, sent_events) = round(images, false).await;
            ratios.push(sync / plain);
            bare.push(plain);
            synced.push(sync);
            events.push(sent_events);
        }
        let median = |values: &[f64]| quantile(values, 0.5);
        figures.note(&format!("1,000 assignments by the same bare PATCHes, {images} images: wall"), median(&ratios));
        println!(
            "{images:>6}  {:>14.3} {:>12.3} {:>6.2} {:>10.0}   (ratios {:.2} to {:.2})",
            median(&bare),
            median(&synced),
            median(&ratios),
            median(&events),
            quantile(&ratios, 0.0),
            quantile(&ratios, 1.0),
        );
    }
}

/// Returns the seconds that all assignments took, and the number of Events created in that time.
async fn round(images: usize, plain: bool) -> (f64, f64) {
    let served =
        ServedSandbox::start(SandboxSize { nodes: NODES, pools: 1, images, kubelets: None, version: V1_21 }).await;
    let repository = served.repository(&fleet::repository(1, 1, "100%"));
    let kubeconfig = served.kubeconfig();
    let mut command = if plain {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.arg(BARE).arg(&kubeconfig).stdout(Stdio::null());
        command
    } else {
        let (repository, kubeconfig) = (repository.to_string_lossy(), kubeconfig.to_string_lossy());
        nodecfg(["sync", &*repository, "--kubeconfig", &*kubeconfig])
    };
    let mut stamps = served.stamps();
    let mut child = command.spawn().expect("the program starts");
    let (mut first, mut answered, mut events) = (None::<Instant>, 0, 0_u32);
    let spent = loop {
        let wait = tokio::time::timeout(Duration::from_secs(60), stamps.recv()).await;
        let stamp = wait.expect("the client continues").expect("the sandbox runs");
        match (stamp.verb, stamp.resource.as_str(), stamp.answered) {
            // Before planning, nodecfg sends one dry-run patch to detect which fields the server keeps. It is not an
            // assignment.
            ("patch", "nodes", None) if stamp.dry_run => {}
            ("patch", "nodes", None) => _ = first.get_or_insert(stamp.arrived),
            ("patch", "nodes", Some(at)) if !stamp.dry_run => {
                answered += 1;
                if answered == NODES {
                    break at - first.expect("arrived before");
                }
            }
            ("create", "events", Some(_)) => events += 1,
            _ => {}
        }
    };
    // The idle kubelets never respond, so the client is stopped here.
    child.kill().expect("the program can be ended");
    child.wait().expect("the program ends");
    served.stop().await;
    (spent.as_secs_f64(), f64::from(events))
}

/// Runs the plain client, which sends only nodecfg's patches.
pub async fn bare(arguments: &[String]) {
    let kubeconfig = arguments.first().expect("a kubeconfig");
    let (client, _) = client(Path::new(kubeconfig)).await;
    let source = json!({"configMap": {"kubeletConfigKey": "kubelet", "name": "bench-pool-000-bbbbbbbbbb", "namespace": "kube-system"}});
    let patch = json!([
        {"op": "test", "path": "/spec/configSource", "value": null},
        {"op": "add", "path": "/spec/configSource", "value": source},
    ]);
    let body = patch.to_string().into_bytes();
    let specs = nodes::generic(NODES, &[PoolName::new(fleet::pool_name(0)).unwrap()], "v1.21.14").unwrap();
    stream::iter(specs)
        .map(|spec| {
            let (client, body) = (client.clone(), body.clone());
            async move {
                let request = http::Request::patch(format!("/api/v1/nodes/{}?fieldManager=bare", spec.name))
                    .header(CONTENT_TYPE, "application/json-patch+json")
                    .body(body)
                    .unwrap();
                client.request_text(request).await.expect("the patch is taken");
            }
        })
        .buffer_unordered(CONCURRENCY)
        .collect::<Vec<()>>()
        .await;
}
