//! Measures nodes with NodeConfigs: a rollout to all of them, and commands without changes beside a client that only
//! reads the same lists.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use http_body_util::BodyExt as _;
use nodecfg_contract::installation::NAMESPACE;
use nodecfg_contract::nodeconfig;
use nodecfg_sandbox::api::Api;
use serde_json::json;

use super::answering::answer;
use super::fleet;
use super::program::{Cost, nodecfg, run, shown};
use super::quantile;
use super::sandbox::{SandboxSize, ServedSandbox, V1_36, client};

/// Argument that selects the client that only reads lists.
pub const LISTS: &str = "only-lists";
/// Numbers of nodes and pools. 65,000 nodes are the largest published clusters.
const SIZES: [(usize, usize); 2] = [(15_000, 200), (65_000, 500)];
/// Container images per Node, as a kubelet reports by default.
const IMAGES: usize = 50;
/// Runs of each command without changes.
const ROUNDS: usize = 5;
/// Objects per page of the client that only reads lists: the default of client-go's pager.
const PAGE: usize = 500;
/// The lists of a sync with nothing to do.
const COLLECTIONS: [&str; 3] = [
    "/api/v1/nodes?",
    "/apis/nodecfg.dev/v1alpha1/nodeconfigs?",
    "/api/v1/namespaces/nodecfg-system/configmaps?labelSelector=app.kubernetes.io%2Fmanaged-by%3Dnodecfg&",
];

pub async fn measure() {
    println!("{:>6}  {:<28} {:>8} {:>8} {:>10}", "nodes", "", "wall s", "cpu s", "peak MB");
    for (nodes, pools) in SIZES {
        let began = Instant::now();
        let size = SandboxSize { nodes, pools, images: IMAGES, kubelets: None, version: V1_36 };
        let served = ServedSandbox::start(size).await;
        install(served.embedded.api());
        println!("{nodes:>6}  {:<28} {:>8.2}", "create the nodes", began.elapsed().as_secs_f64());
        let answers = tokio::spawn(answer(served.embedded.client()));
        let repository = served.repository(&repository(pools));
        commands(nodes, &served.kubeconfig(), &repository).await;
        answers.abort();
        served.stop().await;
    }
}

/// Repository whose first configuration may differ from the local one in any field, without drains.
fn repository(pools: usize) -> BTreeMap<String, String> {
    let mut files = fleet::repository(pools, 1, "100%");
    let fleet = files.get_mut("nodecfg.yaml").expect("a fleet");
    fleet.push_str("    allowDisruption: replace\n    drain: {mode: accept}\n");
    files
}

/// Creates the namespace and the definition of NodeConfigs.
fn install(api: &Api) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    api.create("", "namespaces", "", namespace, "bench").unwrap();
    api.create("apiextensions.k8s.io", "customresourcedefinitions", "", nodeconfig::definition(), "bench").unwrap();
}

async fn commands(nodes: usize, kubeconfig: &Path, repository: &Path) {
    let (repository, kubeconfig) = (repository.to_string_lossy(), kubeconfig.to_string_lossy());
    let command = |name| nodecfg([name, &*repository, "--kubeconfig", &*kubeconfig]);
    row(nodes, "sync, all nodes to assign", &[run(command("sync")).await]);
    let (mut lists, mut syncs, mut diffs) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let mut only_lists = Command::new(std::env::current_exe().expect("this program"));
        only_lists.arg(LISTS).arg(&*kubeconfig).stdout(Stdio::null());
        lists.push(run(only_lists).await);
        syncs.push(run(command("sync")).await);
        diffs.push(run(command("diff")).await);
    }
    row(nodes, "only the lists", &lists);
    row(nodes, "sync, nothing to do", &syncs);
    row(nodes, "diff, nothing to do", &diffs);
}

/// Prints medians of wall and CPU time, and the largest peak.
fn row(nodes: usize, what: &str, costs: &[Cost]) {
    let median = |values: Vec<f64>| quantile(&values, 0.5);
    let wall = median(costs.iter().map(|cost| cost.wall.as_secs_f64()).collect());
    let cpu = median(costs.iter().filter_map(|cost| cost.cpu).collect());
    let peak = costs.iter().filter_map(|cost| cost.peak).max_by(f64::total_cmp);
    let failed = costs.iter().find(|cost| !cost.status.success()).map(|cost| cost.status);
    println!(
        "{nodes:>6}  {what:<28} {wall:>8.2} {cpu:>8.2} {:>10}  {}",
        shown(peak),
        failed.map(|status| status.to_string()).unwrap_or_default()
    );
}

/// Reads the lists of a sync one after the other and drops them.
pub async fn only_lists(arguments: &[String]) {
    let kubeconfig = arguments.first().expect("a kubeconfig");
    let (client, _) = client(Path::new(kubeconfig)).await;
    for collection in COLLECTIONS {
        let mut next = String::new();
        loop {
            let uri = format!("{collection}limit={PAGE}&continue={next}");
            let request = http::Request::get(uri).body(kube::client::Body::empty()).unwrap();
            let mut body = client.send(request).await.expect("a page").into_body();
            // Real servers write the continuation before the items.
            let mut head = Vec::new();
            while let Some(frame) = body.frame().await {
                let frame = frame.expect("a frame");
                let data = frame.data_ref().map(AsRef::as_ref).unwrap_or_default();
                head.extend_from_slice(&data[..data.len().min(4096_usize.saturating_sub(head.len()))]);
            }
            let head = String::from_utf8_lossy(&head);
            let items = head.find("\"items\"").unwrap_or(head.len());
            let found = head[..items].split_once("\"continue\":\"").and_then(|(_, rest)| rest.split('"').next());
            match found.filter(|token| !token.is_empty()) {
                Some(token) => next = token.replace('+', "%2B").replace('=', "%3D").replace('/', "%2F"),
                None => break,
            }
        }
    }
}
