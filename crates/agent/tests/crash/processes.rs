//! The real driver in a process of its own, over real files and against an API server behind a socket, aborted at each of
//! its effects: every operation that changes the disk, every restart of the kubelet and every look at it. It is started
//! again each time and must come to where it would have been.
//!
//! The child is this test itself, run again with an order in its environment. Nothing in the agent knows of it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use nodecfg_contract::ConfigSource;
use nodecfg_contract::names::NodeName;
use nodecfg_contract::nodeconfig::{NodeConfigResource, NodeConfigStatus, definition};
use nodecfg_sandbox::api::{Api, ApiOptions, ServerProfile, User};
use nodecfg_sandbox::nodes::{NodeSpec, node_object};
use serde_json::{Value, json};

use crate::child::{self, Ending, Order};
use crate::contents;
use crate::server;
use crate::snapshot::Snapshot;

const NAMESPACE: &str = "nodecfg-system";
/// How long a child may take. None comes near it.
const PATIENCE: Duration = Duration::from_secs(180);

/// What the recordings show, and what they could not.
struct Scenario {
    name: &'static str,
    /// The ConfigMaps and what they hold at first.
    maps: &'static [(&'static str, &'static str)],
    /// What was assigned before, each until it was the last known good or had failed.
    before: &'static [(&'static str, &'static str)],
    /// What happens to ConfigMaps then.
    then: Then,
    /// What is assigned in the end: ConfigMap and key.
    wanted: Option<(&'static str, &'static str)>,
    /// `assigned/active/lastKnownGood`, and whether there is an error.
    ends: (&'static str, bool),
}

enum Then {
    Nothing,
    Edit(&'static str, &'static str),
    Delete(&'static str),
}

const SCENARIOS: [Scenario; 14] = [
    Scenario {
        name: "valid",
        maps: &[("a", "good-a")],
        before: &[],
        then: Then::Nothing,
        wanted: Some(("a", "kubelet")),
        ends: ("a/a/a", false),
    },
    Scenario {
        name: "invalid-value",
        maps: &[("bad", "bad-value")],
        before: &[],
        then: Then::Nothing,
        wanted: Some(("bad", "kubelet")),
        ends: ("bad/-/-", true),
    },
    Scenario {
        name: "unparsable",
        maps: &[("b", "good-b"), ("bad", "bad-yaml")],
        before: &[("b", "kubelet")],
        then: Then::Nothing,
        wanted: Some(("bad", "kubelet")),
        ends: ("bad/b/b", true),
    },
    Scenario {
        name: "unknown-field",
        maps: &[("u", "unknown-field"), ("bad", "bad-yaml")],
        before: &[("bad", "kubelet")],
        then: Then::Nothing,
        wanted: Some(("u", "kubelet")),
        ends: ("u/u/u", false),
    },
    Scenario {
        name: "missing-configmap",
        maps: &[("b", "good-b")],
        before: &[("b", "kubelet")],
        then: Then::Nothing,
        wanted: Some(("nowhere", "kubelet")),
        ends: ("b/b/b", true),
    },
    Scenario {
        name: "missing-key",
        maps: &[("b", "good-b")],
        before: &[],
        then: Then::Nothing,
        wanted: Some(("b", "nokey")),
        ends: ("b/-/-", true),
    },
    Scenario {
        name: "back-to-valid",
        maps: &[("b", "good-b"), ("bad", "bad-value")],
        before: &[("b", "kubelet"), ("bad", "kubelet")],
        then: Then::Nothing,
        wanted: Some(("b", "kubelet")),
        ends: ("b/b/b", false),
    },
    Scenario {
        name: "in-place-update",
        maps: &[("b", "good-b")],
        before: &[("b", "kubelet")],
        then: Then::Edit("b", "good-c"),
        wanted: Some(("b", "kubelet")),
        ends: ("b/b/b", false),
    },
    Scenario {
        name: "deleted-in-use",
        maps: &[("b", "good-b")],
        before: &[("b", "kubelet")],
        then: Then::Delete("b"),
        wanted: Some(("b", "kubelet")),
        ends: ("b/b/b", true),
    },
    Scenario {
        name: "reset",
        maps: &[("b", "good-b")],
        before: &[("b", "kubelet")],
        then: Then::Nothing,
        wanted: None,
        ends: ("-/-/-", false),
    },
    Scenario {
        name: "last-known-good",
        maps: &[("a", "good-a"), ("c", "good-c")],
        before: &[("a", "kubelet")],
        then: Then::Nothing,
        wanted: Some(("c", "kubelet")),
        ends: ("c/c/c", false),
    },
    Scenario {
        name: "fallback",
        maps: &[("c", "good-c"), ("bad", "bad-value")],
        before: &[("c", "kubelet")],
        then: Then::Nothing,
        wanted: Some(("bad", "kubelet")),
        ends: ("bad/c/c", true),
    },
    Scenario {
        name: "failed-restart",
        maps: &[("c", "good-c"), ("bad", "no-restart")],
        before: &[("c", "kubelet")],
        then: Then::Nothing,
        wanted: Some(("bad", "kubelet")),
        ends: ("bad/c/c", true),
    },
    Scenario {
        name: "failed-trial",
        maps: &[("c", "good-c"), ("bad", "silent")],
        before: &[("c", "kubelet")],
        then: Then::Nothing,
        wanted: Some(("bad", "kubelet")),
        ends: ("bad/c/c", true),
    },
];

/// The API server of a scenario.
struct Cluster {
    api: Api,
    server: String,
    nodes: u32,
}

/// A node of it, with its folder.
struct Node {
    name: String,
    folder: tempfile::TempDir,
}

impl Cluster {
    async fn of(scenario: &Scenario) -> Self {
        let api = Api::new(ApiOptions {
            character: ServerProfile::V1_36,
            tokens: BTreeMap::from([(server::TOKEN.to_owned(), User::admin("agent"))]),
            ..ApiOptions::default()
        });
        let server = server::serve(api.router()).await;
        let cluster = Self { api, server, nodes: 0 };
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

    /// A new node, as it was provisioned or, with a folder, as that is.
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
        let patch = Patch::Merge(json!({"spec": {"configSource": source}}));
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

    async fn change(&self, then: &Then) {
        let maps = kube::Api::<ConfigMap>::namespaced(self.api.client(), NAMESPACE);
        match then {
            Then::Nothing => {}
            Then::Edit(name, content) => {
                let patch = Patch::Merge(json!({"data": contents::payload(content, 1)}));
                maps.patch(name, &PatchParams::default(), &patch).await.unwrap();
            }
            Then::Delete(name) => drop(maps.delete(name, &DeleteParams::default()).await.unwrap()),
        }
    }

    /// How a node is. Times are left out of its status, and the files are named from its folder on.
    fn snapshot(&self, node: &Node) -> Snapshot {
        let mut files = BTreeMap::new();
        collect(node.folder.path(), node.folder.path(), &mut files);
        let runs = journal(node).last().cloned().unwrap_or_else(|| contents::LOCAL.to_owned());
        Snapshot::of(&files, runs.as_bytes()).with_status(&self.status_of(node))
    }
}

/// What the kubelet was started on, in order.
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
    // The agent remembers where it placed things.
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
        } else if !child::is_of_the_test(&path) {
            let name = format!("/{}", path.strip_prefix(root).unwrap().display());
            files.insert(name, fs::read(&path).unwrap().into());
        }
    }
}

/// Starts a child on a node.
fn start(cluster: &Cluster, node: &Node, order: Order) -> Child {
    let log = fs::OpenOptions::new().create(true).append(true).open(child::log(node.folder.path())).unwrap();
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::killed_at_every_effect", "--nocapture"])
        .env(child::ORDER, order.encode(&cluster.server, &node.name))
        .env_remove("RUST_LOG")
        .env(child::FOLDER, node.folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap()
}

/// Waits for a child's end; once the status is this, it is told to end. Gives whether it was killed.
async fn end(cluster: &Cluster, node: &Node, mut child: Child, status: Option<&NodeConfigStatus>) -> bool {
    let deadline = Instant::now() + PATIENCE;
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

/// Starts the agent of a node and lets it come to rest. For that no process of its own is needed, only for dying.
async fn rest(cluster: &Cluster, node: &Node) {
    let order = Order { ending: Ending::Idle, at: u64::MAX };
    let life = child::live(node.folder.path(), &cluster.server, &node.name, order);
    tokio::time::timeout(PATIENCE, life).await.expect("it never comes to rest");
}

fn says(status: &NodeConfigStatus) -> (String, bool) {
    let config = status.config.clone().unwrap_or_default();
    let name = |source: &Option<ConfigSource>| {
        let map = source.as_ref().and_then(|source| source.config_map.as_ref());
        map.map_or_else(|| "-".to_owned(), |map| map.name.clone())
    };
    let text = format!("{}/{}/{}", name(&config.assigned), name(&config.active), name(&config.last_known_good));
    (text, config.error().is_some())
}

/// A scenario, killed at each of its effects. Gives how many there are.
async fn tell(scenario: &Scenario) -> u64 {
    let name = scenario.name;
    let mut cluster = Cluster::of(scenario).await;
    let template = cluster.node(None).await;
    for (map, key) in scenario.before {
        cluster.assign(&template, Some((map, key))).await;
        rest(&cluster, &template).await;
    }
    cluster.change(&scenario.then).await;
    let mut status = cluster.status(&template);
    let begun: PathBuf = template.folder.path().to_owned();
    if status["observedGeneration"].is_number() {
        status["observedGeneration"] = json!(1);
    }
    let make = async |cluster: &mut Cluster| {
        let node = cluster.node(Some(&begun)).await;
        if !status.is_null() {
            cluster.set_status(&node, &status).await;
        }
        cluster.assign(&node, scenario.before.last().copied()).await;
        cluster.assign(&node, scenario.wanted).await;
        node
    };
    let spared = make(&mut cluster).await;
    rest(&cluster, &spared).await;
    let expected = cluster.snapshot(&spared);
    let (says, failed) = says(&expected.status);
    assert_eq!((says.as_str(), failed), scenario.ends, "{name}: {:?}", expected.status);
    let allowed: Vec<String> = [("local", 0), ("good-a", 0), ("good-b", 0), ("good-c", 0), ("good-c", 1)]
        .into_iter()
        .map(|(name, edition)| if name == "local" { contents::LOCAL.to_owned() } else { contents::text(name, edition) })
        .chain(["unknown-field", "silent", "no-restart"].map(|name| contents::text(name, 0)))
        .collect();
    for at in 0.. {
        let node = make(&mut cluster).await;
        let child = start(&cluster, &node, Order { ending: Ending::Told, at });
        let killed = end(&cluster, &node, child, Some(&expected.status)).await;
        rest(&cluster, &node).await;
        let differences = expected.differences(&cluster.snapshot(&node));
        let log = || fs::read_to_string(child::log(node.folder.path())).unwrap_or_default();
        assert!(
            differences.is_empty(),
            "{name}, killed at effect {at}: it made a difference\n{}\nkubelet: {:?}\n{}",
            differences.join("\n"),
            journal(&node),
            log()
        );
        let started = journal(&node);
        assert!(started.iter().all(|content| allowed.contains(content)), "{name}, effect {at}: {started:?}");
        // What failed is left, and not come back to.
        let failing = |content: &String| contents::behaviour(content) != contents::Behaviour::Good;
        let last = started.iter().rposition(failing).map_or(0, |last| last + 1);
        let first = started.iter().position(failing).unwrap_or(last);
        assert!(
            started[first..last].iter().all(failing),
            "{name}, effect {at}: it came back to what failed: {started:?}"
        );
        if !killed {
            assert!(at >= 10, "{name}: only {at} effects");
            println!("{name}: killed at each of {at} effects");
            return at;
        }
    }
    unreachable!("effects end")
}

#[test]
fn killed_at_every_effect() {
    if let Ok(order) = std::env::var(child::ORDER) {
        return child::obey(&order);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let kills: u64 = runtime.block_on(async {
        let told = SCENARIOS.iter().map(tell);
        futures::future::join_all(told).await.into_iter().sum()
    });
    println!("{kills} kills of processes");
}
