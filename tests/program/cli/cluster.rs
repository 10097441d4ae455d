//! Served sandbox clusters to run the program against.

use std::path::{Path, PathBuf};
use std::process::Command;

use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_sandbox::api::User;
use nodecfg_sandbox::kubelets::Fault;
use nodecfg_sandbox::machines::Options;
use nodecfg_sandbox::nodes::{self, NodeSpec};
use nodecfg_sandbox::server::serve::Serving;
use nodecfg_sandbox::{Embedded, EmbeddedOptions};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::cli::program::{Run, nodecfg};

/// A served sandbox cluster with kubelets 1.21.
pub struct Cluster {
    runtime: Runtime,
    embedded: Embedded,
    // Keeps the runtime that serves the cluster alive.
    _serving: Serving,
    home: tempfile::TempDir,
}

impl Cluster {
    /// Starts a cluster with `nodes` nodes in each pool and with these faults.
    pub fn start(pools: &[&str], nodes: usize, faults: &[&str]) -> Self {
        Self::of(specs(pools, nodes), faults)
    }

    pub fn of(specs: Vec<NodeSpec>, faults: &[&str]) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let options = EmbeddedOptions {
            nodes: Options {
                seed: 1,
                // A trial takes 15 s, so that it does not end during a test.
                speed: 40.0,
                faults: faults.iter().map(|fault| fault.parse().unwrap()).collect(),
            },
            images: 0,
            ..EmbeddedOptions::default()
        };
        let home = tempfile::tempdir().unwrap();
        let (embedded, serving) = runtime.block_on(async {
            let embedded = Embedded::start(options, specs).await.unwrap();
            let serving = embedded.serve(None).await.unwrap();
            (embedded, serving)
        });
        embedded.save_kubeconfig(&serving, &home.path().join("kubeconfig")).unwrap();
        let cluster = Self { runtime, embedded, _serving: serving, home };
        cluster.restrict();
        cluster
    }

    /// Leaves the user all rights except the one that no role of `diff` and `sync` has.
    pub fn restrict(&self) {
        self.embedded.api().clear_denials();
        self.embedded.api().deny("get", "nodes/proxy");
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.home.path().join("kubeconfig")
    }

    pub fn embedded(&self) -> &Embedded {
        &self.embedded
    }

    /// Sets the fault of a node, or clears it with `None`.
    pub fn fault(&self, node: &str, fault: Option<Fault>) {
        let node = NodeName::new(node).unwrap();
        self.embedded.nodes().inject(&node, fault).unwrap();
    }

    /// Runs the program in a folder against this cluster.
    pub fn run(&self, folder: &Path, arguments: &str) -> Run {
        Run::of(self.command(folder, arguments))
    }

    pub fn command(&self, folder: &Path, arguments: &str) -> Command {
        let mut command = nodecfg(folder);
        command.env("KUBECONFIG", self.kubeconfig()).args(arguments.split_whitespace());
        command
    }

    /// Sends a request as an administrator.
    pub fn send(&self, method: &str, path: &str, content_type: &str, body: &Value) -> Value {
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content_type)
            .body(serde_json::to_vec(body).unwrap())
            .unwrap();
        self.runtime
            .block_on(async { self.embedded.client_as(User::admin("somebody")).request(request).await })
            .unwrap()
    }

    /// Assigns a ConfigMap in kube-system to a node.
    pub fn point(&self, node: &str, config_map: &str) {
        let source =
            json!({"configMap": {"namespace": "kube-system", "name": config_map, "kubeletConfigKey": "kubelet"}});
        let path = format!("/api/v1/nodes/{node}");
        self.send("PATCH", &path, "application/merge-patch+json", &json!({"spec": {"configSource": source}}));
    }

    /// Creates an object in kube-system.
    pub fn create(&self, prefix: &str, resource: &str, object: &Value) {
        let path = format!("{prefix}/namespaces/kube-system/{resource}");
        self.send("POST", &path, "application/json", object);
    }
}

/// Nodes as created by `nodecfg sandbox --pools`.
pub fn specs(pools: &[&str], nodes: usize) -> Vec<NodeSpec> {
    let pools: Vec<PoolName> = pools.iter().map(|pool| PoolName::new(*pool).unwrap()).collect();
    nodes::generic(nodes * pools.len().max(1), &pools, "v1.21.14").unwrap()
}
