//! Abort tests: the real driver in its own process, over real files and an API server on a socket. The process is
//! aborted at each effect: every operation that changes or syncs the disk, every restart of the kubelet and every
//! successful probe. The next agent must reach the same state as without an abort.
//!
//! The child process is this test program, run again with an order in its environment. The agent contains no code for
//! these tests.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use nodecfg_contract::names::NodeName;
use nodecfg_contract::nodeconfig::{NodeConfigResource, NodeConfigStatus, definition};
use nodecfg_contract::{ConfigSource, ContentHash};
use nodecfg_sandbox::api::{Api, ApiOptions, ServerProfile, User};
use nodecfg_sandbox::nodes::{NodeSpec, node_object};
use serde_json::{Value, json};

use crate::crash::child::{self, ChildOrder, StopCondition};
use crate::crash::contents;
use crate::crash::server;
use crate::crash::snapshot::Snapshot;

const NAMESPACE: &str = "nodecfg-system";
/// Time limit of a child process.
const TIMEOUT: Duration = Duration::from_secs(180);

/// Scenario of the recordings, or one beyond them.
struct Scenario {
    name: &'static str,
    /// ConfigMaps with their initial content.
    maps: &'static [(&'static str, &'static str)],
    /// Earlier assignments, each kept until it was the last known good or had failed.
    before: &'static [(&'static str, &'static str)],
    /// Change of ConfigMaps before the final assignment.
    change: Change,
    /// Final assignment: ConfigMap and key.
    wanted: Option<(&'static str, &'static str)>,
    /// Whether the assignments are overlays.
    overlay: bool,
    /// Expected `assigned/active/lastKnownGood`, and whether an error is reported.
    result: (&'static str, bool),
}

enum Change {
    Nothing,
    Edit(&'static str, &'static str),
    Delete(&'static str),
}

const SCENARIOS: [Scenario; 16] = [
    Scenario {
        name: "valid",
        maps: &[("a", "good-a")],
        before: &[],
        change: Change::Nothing,
        wanted: Some(("a", "kubelet")),
        overlay: false,
        result: ("a/a/a", false),
    },
    Scenario {
        name: "invalid-value",
        maps: &[("bad", "bad-value")],
        before: &[],
        change: Change::Nothing,
        wanted: Some(("bad", "kubelet")),
        overlay: false,
        result: ("bad/-/-", true),
    },
    Scenario {
        name: "unparsable",
        maps: &[("b", "good-b"), ("bad", "bad-yaml")],
        before: &[("b", "kubelet")],
        change: Change::Nothing,
        wanted: Some(("bad", "kubelet")),
        overlay: false,
        result: ("bad/b/b", true),
    },
    Scenario {
        name: "unknown-field",
        maps: &[("u", "unknown-field"), ("bad", "bad-yaml")],
        before: &[("bad", "kubelet")],
        change: Change::Nothing,
        wanted: Some(("u", "kubelet")),
        overlay: false,
        result: ("u/u/u", false),
    },
    Scenario {
        name: "missing-configmap",
        maps: &[("b", "good-b")],
        before: &[("b", "kubelet")],
        change: Change::Nothing,
        wanted: Some(("nowhere", "kubelet")),
        overlay: false,
        result: ("b/b/b", true),
    },
    Scenario {
        name: "missing-key",
        maps: &[("b", "good-b")],
        before: &[],
        change: Change::Nothing,
        wanted: Some(("b", "nokey")),
        overlay: false,
        result: ("-/-/-", true),
    },
    Scenario {
        name: "back-to-valid",
        maps: &[("b", "good-b"), ("bad", "bad-value")],
        before: &[("b", "kubelet"), ("bad", "kubelet")],
        change: Change::Nothing,
        wanted: Some(("b", "kubelet")),
        overlay: false,
        result: ("b/b/b", false),
    },
    Scenario {
        name: "in-place-update",
        maps: &[("b", "good-b")],
        before: &[("b", "kubelet")],
        change: Change::Edit("b", "good-c"),
        wanted: Some(("b", "kubelet")),
        overlay: false,
        result: ("b/b/b", false),
    },
    Scenario {
        name: "deleted-in-use",
        maps: &[("b", "good-b")],
        before: &[("b", "kubelet")],
        change: Change::Delete("b"),
        wanted: Some(("b", "kubelet")),
        overlay: false,
        result: ("b/b/b", true),
    },
    Scenario {
        name: "reset",
        maps: &[("b", "good-b")],
        before: &[("b", "kubelet")],
        change: Change::Nothing,
        wanted: None,
        overlay: false,
        result: ("-/-/-", false),
    },
    Scenario {
        name: "last-known-good",
        maps: &[("a", "good-a"), ("c", "good-c")],
        before: &[("a", "kubelet")],
        change: Change::Nothing,
        wanted: Some(("c", "kubelet")),
        overlay: false,
        result: ("c/c/c", false),
    },
    Scenario {
        name: "fallback",
        maps: &[("c", "good-c"), ("bad", "bad-value")],
        before: &[("c", "kubelet")],
        change: Change::Nothing,
        wanted: Some(("bad", "kubelet")),
        overlay: false,
        result: ("bad/c/c", true),
    },
    Scenario {
        name: "failed-restart",
        maps: &[("c", "good-c"), ("bad", "no-restart")],
        before: &[("c", "kubelet")],
        change: Change::Nothing,
        wanted: Some(("bad", "kubelet")),
        overlay: false,
        result: ("bad/c/c", true),
    },
    Scenario {
        name: "failed-trial",
        maps: &[("c", "good-c"), ("bad", "silent")],
        before: &[("c", "kubelet")],
        change: Change::Nothing,
        wanted: Some(("bad", "kubelet")),
        overlay: false,
        result: ("bad/c/c", true),
    },
    Scenario {
        name: "overlay",
        maps: &[("a", "good-a"), ("c", "good-c")],
        before: &[("a", "kubelet")],
        change: Change::Nothing,
        wanted: Some(("c", "kubelet")),
        overlay: true,
        result: ("c/c/c", false),
    },
    Scenario {
        name: "failed-overlay",
        maps: &[("c", "good-c"), ("bad", "silent")],
        before: &[("c", "kubelet")],
        change: Change::Nothing,
        wanted: Some(("bad", "kubelet")),
        overlay: true,
        result: ("bad/c/c", true),
    },
];

/// API server of a scenario.
struct Cluster {
    api: Api,
    server: String,
    nodes: u32,
    overlay: bool,
}

/// Node with its folder.
struct Node {
    name: String,
    folder: tempfile::TempDir,
}

impl Cluster {
    async fn of(scenario: &Scenario) -> Self {
        let api = Api::new(ApiOptions {
            profile: ServerProfile::V1_36,
            tokens: BTreeMap::from([(server::TOKEN.to_owned(), User::admin("agent"))]),
            ..ApiOptions::default()
        });
        let server = server::serve(api.router()).await;
        let cluster = Self { api, server, nodes: 0, overlay: scenario.overlay };
        cluster.create(
            "",
            "namespaces",
            "",
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        );
        cluster.create("apiextensions.k8s.io", "customresourcedefinitions", "", definition());
        for (name, content) in scenario.maps {
            let object = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": NAMESPACE},
                "data": contents::payload(content, 0),
            });
            cluster.create("", "configmaps", NAMESPACE, object);
        }
        cluster
    }

    fn create(&self, group: &str, resource: &str, namespace: &str, object: Value) {
        self.api.create(group, resource, namespace, object, "test").unwrap_or_else(|_| panic!("create {resource}"));
    }

    /// Creates a node, provisioned or as a copy of a folder.
    async fn node(&mut self, from: Option<&Path>) -> Node {
        self.nodes += 1;
        let name = format!("n{}", self.nodes);
        let spec = NodeSpec::new(NodeName::new(&name).unwrap(), BTreeMap::new(), "v1.36.2");
        self.create("", "nodes", "", node_object(&spec, jiff::Timestamp::now(), 1));
        let configs = kube::Api::<NodeConfigResource>::all(self.api.client());
        configs.create(&PostParams::default(), &NodeConfigResource::new(&name, Default::default())).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        match from {
            Some(from) => copy(from, folder.path()),
            None => {
                fs::create_dir(folder.path().join("kubelet")).unwrap();
                fs::write(child::config(folder.path()), contents::LOCAL).unwrap();
            }
        }
        Node { name, folder }
    }

    async fn assign(&self, node: &Node, wanted: Option<(&str, &str)>) {
        let source = wanted.map(|(name, key)| ConfigSource::config_map(NAMESPACE, name, key));
        let configs = kube::Api::<NodeConfigResource>::all(self.api.client());
        let reviewed = wanted.map(|(name, key)| {
            let found = self.api.get("", "configmaps", NAMESPACE, name);
            let text = found.and_then(|map| map["data"][key].as_str().map(str::to_owned));
            ContentHash::of(text.unwrap_or_default().as_bytes())
        });
        let placement = if self.overlay { "overlay" } else { "replace" };
        let spec = json!({
            "configSource": source, "contentHash": reviewed, "maxDisruption": "replace", "placement": placement,
        });
        let patch = Patch::Merge(json!({"spec": spec}));
        configs.patch(&node.name, &PatchParams::default(), &patch).await.unwrap();
    }

    async fn set_status(&self, node: &Node, status: &Value) {
        let configs = kube::Api::<NodeConfigResource>::all(self.api.client());
        let patch = Patch::Merge(json!({"status": status}));
        configs.patch_status(&node.name, &PatchParams::default(), &patch).await.unwrap();
    }

    fn status(&self, node: &Node) -> Value {
        let found = self.api.get("nodecfg.dev", "nodeconfigs", "", &node.name);
        found.map(|object| object["status"].clone()).unwrap_or_default()
    }

    fn status_of(&self, node: &Node) -> NodeConfigStatus {
        serde_json::from_value(self.status(node)).unwrap_or_default()
    }

    async fn change(&self, change: &Change) {
        let maps = kube::Api::<ConfigMap>::namespaced(self.api.client(), NAMESPACE);
        match change {
            Change::Nothing => {}
            Change::Edit(name, content) => {
                let patch = Patch::Merge(json!({"data": contents::payload(content, 1)}));
                maps.patch(name, &PatchParams::default(), &patch).await.unwrap();
            }
            Change::Delete(name) => drop(maps.delete(name, &DeleteParams::default()).await.unwrap()),
        }
    }

    /// Snapshot of a node, without the times of its status and with files relative to its folder.
    fn snapshot(&self, node: &Node) -> Snapshot {
        let mut files = BTreeMap::new();
        collect(node.folder.path(), node.folder.path(), &mut files);
        let runs = journal(node).last().cloned().unwrap_or_else(|| contents::LOCAL.to_owned());
        Snapshot::of(&files, runs.as_bytes()).with_status(&self.status_of(node))
    }
}

/// Configurations that the kubelet was started on, in order.
fn journal(node: &Node) -> Vec<String> {
    let text = fs::read_to_string(child::journal(node.folder.path())).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir(&target).unwrap();
            fs::set_permissions(&target, entry.metadata().unwrap().permissions()).unwrap();
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).unwrap();
        }
    }
    // The agent records where it placed files.
    let record = to.join("placement.json");
    if let Ok(text) = fs::read_to_string(&record) {
        let name = |path: &Path| path.parent().unwrap().display().to_string();
        fs::write(&record, text.replace(&name(from), &name(to))).unwrap();
    }
}

fn collect(root: &Path, folder: &Path, files: &mut BTreeMap<String, Arc<[u8]>>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            collect(root, &path, files);
        } else if !child::is_test_file(&path) {
            let name = format!("/{}", path.strip_prefix(root).unwrap().display());
            files.insert(name, fs::read(&path).unwrap().into());
        }
    }
}

/// Starts a child process for a node.
fn start(cluster: &Cluster, node: &Node, order: ChildOrder) -> Child {
    let log = fs::OpenOptions::new().create(true).append(true).open(child::log(node.folder.path())).unwrap();
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::processes::survives_abort_at_every_effect", "--nocapture"])
        .env(child::ORDER, order.encode(&cluster.server, &node.name))
        .env_remove("RUST_LOG")
        .env(child::FOLDER, node.folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap()
}

/// Waits for a child process to end, and stops it once the status matches. Returns whether it was aborted.
async fn wait_for_exit(cluster: &Cluster, node: &Node, mut child: Child, status: Option<&NodeConfigStatus>) -> bool {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            let log = || fs::read_to_string(child::log(node.folder.path())).unwrap_or_default();
            assert!(status.success() || status.signal() == Some(6), "a child failed: {status}\n{}", log());
            return !status.success();
        }
        if let Some(status) = status
            && Snapshot::default().with_status(&cluster.status_of(node)).status == *status
        {
            drop(child.stdin.take());
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("a child does not end; status {}", cluster.status(node));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Runs the agent of a node until it is idle. Runs in this process, since nothing is aborted.
async fn run_until_idle(cluster: &Cluster, node: &Node) {
    let order = ChildOrder { stop: StopCondition::Idle, at: u64::MAX };
    let agent = child::run_agent(node.folder.path(), &cluster.server, &node.name, order);
    tokio::time::timeout(TIMEOUT, agent).await.expect("it never becomes idle");
}

fn summary(status: &NodeConfigStatus) -> (String, bool) {
    let config = status.config.clone().unwrap_or_default();
    let name = |source: &Option<ConfigSource>| {
        let map = source.as_ref().and_then(|source| source.config_map.as_ref());
        map.map_or_else(|| "-".to_owned(), |map| map.name.clone())
    };
    let text = format!("{}/{}/{}", name(&config.assigned), name(&config.active), name(&config.last_known_good));
    (text, config.error().is_some())
}

/// Runs a scenario with an abort at each effect. Returns the number of aborts.
async fn run_scenario(scenario: &Scenario) -> u64 {
    let name = scenario.name;
    let mut cluster = Cluster::of(scenario).await;
    let template = cluster.node(None).await;
    for (map, key) in scenario.before {
        cluster.assign(&template, Some((map, key))).await;
        run_until_idle(&cluster, &template).await;
    }
    cluster.change(&scenario.change).await;
    let mut status = cluster.status(&template);
    let start_folder: PathBuf = template.folder.path().to_owned();
    if status["observedGeneration"].is_number() {
        status["observedGeneration"] = json!(1);
    }
    let make = async |cluster: &mut Cluster| {
        let node = cluster.node(Some(&start_folder)).await;
        if !status.is_null() {
            cluster.set_status(&node, &status).await;
        }
        cluster.assign(&node, scenario.before.last().copied()).await;
        cluster.assign(&node, scenario.wanted).await;
        node
    };
    let baseline = make(&mut cluster).await;
    run_until_idle(&cluster, &baseline).await;
    let expected = cluster.snapshot(&baseline);
    let (summary, failed) = summary(&expected.status);
    assert_eq!((summary.as_str(), failed), scenario.result, "{name}: {:?}", expected.status);
    let allowed: Vec<String> = [("local", 0), ("good-a", 0), ("good-b", 0), ("good-c", 0), ("good-c", 1)]
        .into_iter()
        .map(|(name, edition)| if name == "local" { contents::LOCAL.to_owned() } else { contents::text(name, edition) })
        .chain(["unknown-field", "silent", "no-restart"].map(|name| contents::text(name, 0)))
        .flat_map(|text| {
            let merged = contents::over_local(&text).filter(|_| scenario.overlay);
            [text]
                .into_iter()
                .filter(|text| !scenario.overlay || text == contents::LOCAL)
                .chain(merged)
                .collect::<Vec<_>>()
        })
        .collect();
    for at in 0.. {
        let node = make(&mut cluster).await;
        let child = start(&cluster, &node, ChildOrder { stop: StopCondition::InputClosed, at });
        let killed = wait_for_exit(&cluster, &node, child, Some(&expected.status)).await;
        run_until_idle(&cluster, &node).await;
        let differences = expected.differences(&cluster.snapshot(&node));
        let log = || fs::read_to_string(child::log(node.folder.path())).unwrap_or_default();
        assert!(
            differences.is_empty(),
            "{name}, aborted at effect {at}: the state differs\n{}\nkubelet: {:?}\n{}",
            differences.join("\n"),
            journal(&node),
            log()
        );
        let started = journal(&node);
        assert!(started.iter().all(|content| allowed.contains(content)), "{name}, effect {at}: {started:?}");
        // Starts on a failed configuration may repeat, but none may follow a later good configuration.
        let failing = |content: &String| contents::behaviour(content) != contents::Behaviour::Good;
        let last = started.iter().rposition(failing).map_or(0, |last| last + 1);
        let first = started.iter().position(failing).unwrap_or(last);
        assert!(
            started[first..last].iter().all(failing),
            "{name}, effect {at}: the failed configuration was used again: {started:?}"
        );
        if !killed {
            assert!(at >= 10, "{name}: only {at} effects");
            println!("{name}: aborted at each of {at} effects");
            return at;
        }
    }
    unreachable!("effects end")
}

#[test]
fn survives_abort_at_every_effect() {
    if let Ok(order) = std::env::var(child::ORDER) {
        return child::run_child(&order);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let kills: u64 = runtime.block_on(async {
        let runs = SCENARIOS.iter().map(run_scenario);
        futures::future::join_all(runs).await.into_iter().sum()
    });
    println!("{kills} aborted processes");
}
