//! Sandbox served over HTTPS that reports the arrival and response times of every request.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use futures::StreamExt as _;
use kubelet_config::capacity::Capacity;
use nodecfg_sandbox::api::ServerProfile;
use nodecfg_sandbox::server::serve::{Options, Serving, serve};
use nodecfg_sandbox::server::wire::ApiRequest;
use nodecfg_sandbox::workloads::WorkloadSpec;
use nodecfg_sandbox::{Embedded, EmbeddedOptions, machines, nodes};
use tempfile::TempDir;
use tokio::sync::mpsc;

use super::fleet;

/// Times of one request at the server.
#[derive(Debug, Clone)]
pub struct Stamp {
    pub verb: &'static str,
    pub resource: String,
    pub name: String,
    pub dry_run: bool,
    pub arrived: Instant,
    /// Missing in the report on arrival.
    pub answered: Option<Instant>,
    /// True in the report on the end of the response's body, which only watches send.
    pub closed: bool,
}

/// Channel that receives each request on arrival and after its response.
#[derive(Clone)]
struct Stamps(mpsc::UnboundedSender<Stamp>);

/// A served sandbox with its clients' files.
pub struct ServedSandbox {
    pub embedded: Embedded,
    serving: Serving,
    folder: TempDir,
    stamps: Mutex<Option<mpsc::UnboundedReceiver<Stamp>>>,
}

/// Version whose kubelets follow their Nodes.
pub const V1_21: &str = "v1.21.14";
/// Version whose nodes need NodeConfigs.
pub const V1_36: &str = "v1.36.2";

/// Speed of idle kubelets, which have a configuration and act after hours.
const IDLE: f64 = 0.000_1;

/// Size and speed of a sandbox.
#[derive(Debug, Clone, Copy)]
pub struct SandboxSize {
    pub nodes: usize,
    pub pools: usize,
    pub images: usize,
    /// Speed of the kubelets, where 1 is real time; `None` makes them idle.
    pub kubelets: Option<f64>,
    /// Version of API server and kubelets: [`V1_21`], or [`V1_36`] without agents.
    pub version: &'static str,
}

impl ServedSandbox {
    pub async fn start(size: SandboxSize) -> Self {
        Self::with_workloads(size, None).await
    }

    pub async fn with_workloads(size: SandboxSize, workloads: Option<WorkloadSpec>) -> Self {
        Self::with(size, workloads, |_| None).await
    }

    /// Starts a sandbox whose nodes, counted from 0, have these capacities.
    pub async fn of_capacities(size: SandboxSize, capacity: impl Fn(usize) -> Capacity) -> Self {
        Self::with(size, None, |node| Some(capacity(node))).await
    }

    async fn with(
        size: SandboxSize,
        workloads: Option<WorkloadSpec>,
        capacity: impl Fn(usize) -> Option<Capacity>,
    ) -> Self {
        let pools = fleet::pool_names(size.pools);
        let profile = if size.version == V1_21 { ServerProfile::V1_21 } else { ServerProfile::V1_36 };
        let options = EmbeddedOptions {
            profile,
            installed: false,
            images: size.images,
            nodes: machines::Options { speed: size.kubelets.unwrap_or(IDLE), ..machines::Options::default() },
            workloads,
            ..EmbeddedOptions::default()
        };
        let mut specs = nodes::generic(size.nodes, &pools, size.version).unwrap();
        for (number, spec) in specs.iter_mut().enumerate() {
            spec.capacity = capacity(number).unwrap_or(spec.capacity);
        }
        let embedded = Embedded::start(options, specs).await.expect("a sandbox");
        let (sender, receiver) = mpsc::unbounded_channel();
        let router = Router::new()
            .fallback_service(embedded.wire().wrap(embedded.api().router()))
            .layer(from_fn_with_state(Stamps(sender), stamp));
        let serving = serve(router, Options::default()).await.expect("a free port");
        let folder = TempDir::new().expect("a temporary folder");
        embedded.save_kubeconfig(&serving, &folder.path().join("kubeconfig")).expect("a kubeconfig");
        Self { embedded, serving, folder, stamps: Mutex::new(Some(receiver)) }
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// Writes a repository and returns its path.
    pub fn repository(&self, files: &BTreeMap<String, String>) -> PathBuf {
        write_repository(self.folder.path(), files)
    }

    /// Returns the channel of request times; callable once.
    pub fn stamps(&self) -> mpsc::UnboundedReceiver<Stamp> {
        self.stamps.lock().unwrap().take().expect("taken once")
    }

    pub async fn stop(self) {
        self.embedded.stop(Some(self.serving)).await;
    }
}

/// Writes a repository below a folder and returns its path.
pub fn write_repository(folder: &Path, files: &BTreeMap<String, String>) -> PathBuf {
    let root = folder.join("repository");
    for (path, text) in files {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }
    root
}

async fn stamp(State(stamps): State<Stamps>, request: Request, next: Next) -> axum::response::Response {
    let arrived = Instant::now();
    let api = ApiRequest::of(request.method(), request.uri(), request.headers());
    let mut stamp = Stamp {
        verb: api.verb,
        resource: api.resource,
        name: api.name,
        dry_run: api.dry_run,
        arrived,
        answered: None,
        closed: false,
    };
    // Most measurements have no receiver.
    let _ = stamps.0.send(stamp.clone());
    let response = next.run(request).await;
    stamp.answered = Some(Instant::now());
    let _ = stamps.0.send(stamp.clone());
    if stamp.verb != "watch" {
        return response;
    }
    let end = WatchEnd { stamp, stamps };
    response.map(|body| {
        Body::from_stream(body.into_data_stream().inspect(move |_| {
            // The closure owns the end, which is reported when the body is dropped.
            let _ = &end;
        }))
    })
}

/// Reports the end of a watch when dropped.
struct WatchEnd {
    stamp: Stamp,
    stamps: Stamps,
}

impl Drop for WatchEnd {
    fn drop(&mut self) {
        let _ = self.stamps.0.send(Stamp { closed: true, ..self.stamp.clone() });
    }
}

/// Creates an HTTPS client of the sandbox from its kubeconfig.
pub async fn client(kubeconfig: &Path) -> (kube::Client, Arc<str>) {
    use nodecfg_cluster::connection::connect::{ConnectOptions, Environment, connect};
    let options = ConnectOptions { kubeconfig: Some(kubeconfig.to_owned()), context: None };
    let connection = connect(&options, &Environment::default()).await.expect("a client");
    (connection.client, connection.server.into())
}
