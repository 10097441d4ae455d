//! Measures nodes with NodeConfigs: a rollout to all of them, and commands without changes beside a client that only
//! reads the same lists. In the sandbox and, if `KUBEBUILDER_ASSETS` names a folder, with a real API server.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use http_body_util::BodyExt as _;
use nodecfg_cluster::reading::observe::list;
use nodecfg_cluster::{Binding, ClusterReader, LabelKeys, ReaderOptions};
use nodecfg_contract::installation::NAMESPACE;
use nodecfg_contract::labels::POOL_LABEL;
use nodecfg_contract::nodeconfig;
use nodecfg_sandbox::nodes;
use serde_json::json;
use tempfile::TempDir;
use tokio::task::JoinSet;

use super::answering::{NODE_CONFIGS, answer};
use super::figures::Figures;
use super::program::{Cost, nodecfg, run};
use super::real_servers::{ASSETS, Servers};
use super::sandbox::{SandboxSize, ServedSandbox, V1_36, client, write_repository};
use super::{fleet, quantile};

/// Argument that selects the client that only downloads lists.
pub const DOWNLOADS: &str = "only-downloads";
/// Argument that selects the client that only reads lists, as nodecfg does.
pub const LISTS: &str = "only-lists";
/// Argument that selects the sandbox for profiles.
pub const SERVE: &str = "serve";
/// Container images per Node, as a kubelet reports by default.
const IMAGES: usize = 50;
/// Runs of each command without changes.
const ROUNDS: usize = 5;
/// Objects per page of the client that only downloads lists: the default of client-go's pager.
const PAGE: usize = 500;
/// Bytes at both ends of a page that are searched for its metadata.
const ENVELOPE: usize = 4096;
/// The lists of a sync with nothing to do.
const COLLECTIONS: [&str; 3] = [
    "/api/v1/nodes?",
    "/apis/nodecfg.dev/v1alpha1/nodeconfigs?",
    "/api/v1/namespaces/nodecfg-system/configmaps?labelSelector=app.kubernetes.io%2Fmanaged-by%3Dnodecfg&",
];

/// Measures this many nodes and pools.
pub async fn measure(figures: &mut Figures, (nodes, pools): (usize, usize)) {
    println!("{:>6}  {:<28} {:>8} {:>8} {:>10}", "nodes", "sandbox", "wall s", "cpu s", "peak MB");
    commands(figures, nodes, "in the sandbox", &Cluster::sandbox(nodes, pools).await).await;
    if let Some(assets) = assets() {
        println!("{:>6}  {:<28} {:>8} {:>8} {:>10}", "nodes", "real API server", "wall s", "cpu s", "peak MB");
        commands(figures, nodes, "on a real API server", &Cluster::real(&assets, nodes, pools).await).await;
    }
}

/// Serves a cluster of this many nodes and pools, whose nodes run their configuration, for profiles of the program, until
/// standard input ends.
pub async fn serve((nodes, pools): (usize, usize)) {
    let cluster = match assets() {
        Some(assets) => Cluster::real(&assets, nodes, pools).await,
        None => Cluster::sandbox(nodes, pools).await,
    };
    run(cluster.command("sync")).await;
    println!("Profile commands such as: nodecfg sync {} --kubeconfig {}", cluster.repository, cluster.kubeconfig);
    println!("Press Enter to stop.");
    let _ = tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await;
}

/// Folder with a real control plane, if one is set.
fn assets() -> Option<PathBuf> {
    std::env::var_os(ASSETS).filter(|folder| !folder.is_empty()).map(PathBuf::from)
}

/// Cluster whose nodes answer each assignment at once.
struct Cluster {
    kubeconfig: String,
    repository: String,
    /// Stops when dropped.
    _answers: JoinSet<()>,
    _folder: TempDir,
    _servers: Option<Servers>,
    _sandbox: Option<ServedSandbox>,
}

impl Cluster {
    async fn sandbox(nodes: usize, pools: usize) -> Self {
        let began = Instant::now();
        let size = SandboxSize { nodes, pools, images: IMAGES, kubelets: None, version: V1_36 };
        let served = ServedSandbox::start(size).await;
        let client = served.embedded.client();
        install(&client).await;
        created(nodes, began);
        let kubeconfig = served.kubeconfig();
        Self { _sandbox: Some(served), ..Self::new(client, &kubeconfig, pools) }
    }

    async fn real(assets: &Path, nodes: usize, pools: usize) -> Self {
        let servers = Servers::start(assets).await;
        let client = servers.client().await;
        let began = Instant::now();
        install(&client).await;
        let specs = nodes::generic(nodes, &fleet::pool_names(pools), V1_36).unwrap();
        nodes::create(&client, specs, nodecfg_clock::now(), IMAGES).await.expect("nodes");
        created(nodes, began);
        let mut cluster = Self::new(client, Path::new(""), pools);
        let kubeconfig = cluster._folder.path().join("kubeconfig");
        servers.kubeconfig.save(&kubeconfig).expect("a kubeconfig");
        cluster.kubeconfig = kubeconfig.display().to_string();
        Self { _servers: Some(servers), ..cluster }
    }

    fn new(client: kube::Client, kubeconfig: &Path, pools: usize) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let repository = write_repository(folder.path(), &fleet::repository(pools, 1, "100%")).display().to_string();
        let mut answers = JoinSet::new();
        answers.spawn(answer(client));
        let kubeconfig = kubeconfig.display().to_string();
        Self { kubeconfig, repository, _answers: answers, _folder: folder, _servers: None, _sandbox: None }
    }

    fn command(&self, name: &str) -> Command {
        nodecfg([name, &*self.repository, "--kubeconfig", &*self.kubeconfig])
    }
}

fn created(nodes: usize, began: Instant) {
    println!("{nodes:>6}  {:<28} {:>8.2}", "create the nodes", began.elapsed().as_secs_f64());
}

/// Creates the namespace and the definition of NodeConfigs, and waits until they are served.
async fn install(client: &kube::Client) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    for (path, object) in [
        ("/api/v1/namespaces", namespace),
        ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", nodeconfig::definition()),
    ] {
        let request = http::Request::post(path).header("content-type", "application/json");
        client.request_text(request.body(object.to_string().into_bytes()).unwrap()).await.expect("it is new");
    }
    let list = || http::Request::get(NODE_CONFIGS).body(Vec::new()).unwrap();
    while client.request_text(list()).await.is_err() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn commands(figures: &mut Figures, nodes: usize, place: &str, cluster: &Cluster) {
    let whole = [run(cluster.command("sync")).await];
    row(nodes, "sync, all nodes to assign", &whole);
    let (mut downloads, mut lists, mut syncs, mut diffs) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let only = |mode| {
            let mut only = Command::new(std::env::current_exe().expect("this program"));
            only.arg(mode).arg(&cluster.kubeconfig).stdout(Stdio::null());
            only
        };
        downloads.push(run(only(DOWNLOADS)).await);
        lists.push(run(only(LISTS)).await);
        syncs.push(run(cluster.command("sync")).await);
        diffs.push(run(cluster.command("diff")).await);
    }
    row(nodes, "only download the lists", &downloads);
    row(nodes, "only read the lists", &lists);
    row(nodes, "sync, nothing to do", &syncs);
    row(nodes, "diff, nothing to do", &diffs);
    if [&whole[..], &lists, &syncs, &diffs].into_iter().flatten().any(|cost| !cost.status.success()) {
        return println!("        a command failed: no figures");
    }
    let what = format!("{},000 NodeConfigs {place}", nodes / 1000);
    for (name, costs) in [("all nodes to assign", &whole[..]), ("nothing to do", &syncs)] {
        figures.note(&format!("{what}: sync, {name}, CPU"), median_cpu(costs));
        figures.note(&format!("{what}: sync, {name}, peak"), peak(costs));
    }
    figures.note(&format!("{what}: diff, nothing to do, peak"), peak(&diffs));
    let ratio = median_wall(&syncs) / median_wall(&lists);
    figures.note(&format!("{what}: sync, nothing to do, wall by that of its lists"), ratio);
}

fn median_wall(costs: &[Cost]) -> f64 {
    quantile(&costs.iter().map(|cost| cost.wall.as_secs_f64()).collect::<Vec<_>>(), 0.5)
}

pub fn median_cpu(costs: &[Cost]) -> f64 {
    quantile(&costs.iter().filter_map(|cost| cost.cpu).collect::<Vec<_>>(), 0.5)
}

/// The largest peak.
fn peak(costs: &[Cost]) -> f64 {
    costs.iter().filter_map(|cost| cost.peak).max_by(f64::total_cmp).unwrap_or(f64::NAN)
}

/// Prints medians of wall and CPU time, and the largest peak.
fn row(nodes: usize, what: &str, costs: &[Cost]) {
    let (wall, cpu, peak) = (median_wall(costs), median_cpu(costs), peak(costs));
    let failed = costs.iter().find(|cost| !cost.status.success()).map(|cost| cost.status);
    let failed = failed.map(|status| status.to_string()).unwrap_or_default();
    println!("{nodes:>6}  {what:<28} {wall:>8.2} {cpu:>8.2} {peak:>10.2}  {failed}");
}

/// Reads the lists of a sync as nodecfg does, and drops them.
pub async fn only_lists(arguments: &[String]) {
    let (client, server) = client(Path::new(arguments.first().expect("a kubeconfig"))).await;
    let label_keys = LabelKeys::Only([POOL_LABEL.to_owned()].into());
    let reader = ClusterReader::new(client, &server, ReaderOptions { label_keys, ..ReaderOptions::default() });
    let reader = reader.with_binding(Some(Binding::NodeConfig)).await.expect("NodeConfigs are served");
    list(&reader, Some(NAMESPACE)).await.expect("the lists");
}

/// Downloads the lists of a sync one after the other, as client-go pages them, and drops them.
pub async fn only_downloads(arguments: &[String]) {
    let kubeconfig = arguments.first().expect("a kubeconfig");
    let (client, _) = client(Path::new(kubeconfig)).await;
    for collection in COLLECTIONS {
        let mut next = String::new();
        loop {
            let uri = format!("{collection}limit={PAGE}&continue={next}");
            let request = http::Request::get(uri).body(kube::client::Body::empty()).unwrap();
            let response = client.send(request).await.expect("a page");
            assert!(response.status().is_success(), "{}", response.status());
            let mut body = response.into_body();
            // The metadata of a list is before its items, or after them.
            let (mut head, mut tail) = (Vec::new(), Vec::new());
            while let Some(frame) = body.frame().await {
                let frame = frame.expect("a frame");
                let data = frame.data_ref().map(AsRef::as_ref).unwrap_or_default();
                head.extend_from_slice(&data[..data.len().min(ENVELOPE.saturating_sub(head.len()))]);
                tail.extend_from_slice(data);
                tail.drain(..tail.len().saturating_sub(ENVELOPE));
            }
            let (head, tail) = (String::from_utf8_lossy(&head), String::from_utf8_lossy(&tail));
            let items = head.find("\"items\"").unwrap_or(head.len());
            let last = tail.rfind("\"metadata\"").unwrap_or_default();
            let token = |text: &str| Some(text.split_once("\"continue\":\"")?.1.split('"').next()?.to_owned());
            let found = token(&head[..items]).or_else(|| token(&tail[last..]));
            match found.filter(|token| !token.is_empty()) {
                Some(token) => next = token.replace('+', "%2B").replace('=', "%3D").replace('/', "%2F"),
                None => break,
            }
        }
    }
}
