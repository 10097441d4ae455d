//! Campaign of kills: `sync` dies at a request or a wait of a drain, and another command follows. At the end no node
//! has a mark, and each one runs what was last wanted. No command drains a node that already has what it wants.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt as _;
use http::Request;
use kube::Client;
use kube::api::WatchEvent;
use nodecfg_contract::names::NodeName;
use nodecfg_sandbox::server::wire::{Entry, Fault, FaultKind, Matcher};
use nodecfg_sandbox::workloads::{Application, Budget, DaemonSet, PodFault, WorkloadSpec};
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::harness::{
    AFTER, BEFORE, Cluster, ClusterSetup, DRAIN_REASON, Needs, NodeRecord, Repository, Run, Running, on_agents,
    on_sandbox, print_line, seeds, until,
};

/// Number of cases without environment variables.
const CASES: u64 = 32;
/// Clusters at the same time.
const CLUSTERS: usize = 4;
/// Annotations of a drain.
const ANNOTATIONS: [&str; 3] =
    [DRAIN_REASON, "cluster-autoscaler.kubernetes.io/scale-down-disabled", "karpenter.sh/do-not-disrupt"];

/// Number of kills by their request, and by the number of nodes with a mark.
type Kills = Mutex<BTreeMap<(String, usize), usize>>;

#[test]
fn next_command_heals_every_kill() {
    let seeds = seeds(CASES);
    let next = AtomicU64::new(seeds.start);
    let (kills, failed) = (Kills::default(), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..CLUSTERS {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    if catch_unwind(AssertUnwindSafe(|| run_case(seed, &kills))).is_err() {
                        print_line(&format!("PROPTEST_RNG_SEED={seed} PROPTEST_CASES=1 fails: {:?}", Case::of(seed)));
                        failed.lock().unwrap().push(seed);
                    }
                }
            });
        }
    });
    let cases = usize::try_from(seeds.end - seeds.start).unwrap();
    let kills = kills.into_inner().unwrap();
    let number: usize = kills.values().sum();
    if seeds.end > CASES {
        print_line(&format!("{cases} cases, {number} kills: {kills:#?}"));
    }
    assert_eq!(failed.into_inner().unwrap(), [0; 0], "seeds of failed cases");
    // One case alone may end before its kill, or before its first mark.
    if cases >= 12 {
        let with_mark: usize = kills.iter().filter(|((_, marks), _)| *marks > 0).map(|(_, number)| number).sum();
        assert!(number * 3 > cases * 2, "{number} kills in {cases} cases");
        assert!(with_mark * 4 > number, "nodes have marks after {with_mark} of {number} kills");
    }
}

fn run_case(seed: u64, kills: &Kills) {
    let case = Case::of(seed);
    if case.agents {
        on_agents(|setup| run_on(case, setup, kills));
    } else {
        on_sandbox(Needs::Sandbox, |setup| run_on(case, setup, kills));
    }
}

/// Configuration that a command wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Before,
    After,
}

/// Command after a killed sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    SyncSame,
    SyncReverted,
    RollBack,
    /// Then the commit is reverted or not.
    Release(Wanted),
}

/// Point at which a command dies.
#[derive(Debug, Clone)]
struct Kill {
    on: Matcher,
    /// Number of matching requests before.
    skip: u64,
    /// Time from the answer to the kill; `None` if the request is not executed.
    after: Option<Duration>,
}

/// One case of the campaign.
#[derive(Debug)]
struct Case {
    agents: bool,
    nodes_at_a_time: usize,
    settle: &'static str,
    replicas: usize,
    budget: bool,
    exclusive_daemon: bool,
    fault: Option<PodFault>,
    /// Kills of the sync, and of the command after it.
    kills: (Kill, Option<Kill>),
    next: Next,
}

impl Case {
    fn of(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let agents = random.bool();
        let faults = [
            PodFault::Returns,
            PodFault::BlockedBudget,
            PodFault::Unmanaged,
            PodFault::EmptyDir,
            PodFault::ToleratesAll,
            PodFault::ExclusiveCpus,
        ];
        let nexts = [
            Next::SyncSame,
            Next::SyncReverted,
            Next::RollBack,
            Next::Release(Wanted::Before),
            Next::Release(Wanted::After),
        ];
        let budget = random.u8(..8) == 0;
        Self {
            agents,
            nodes_at_a_time: if budget || random.u8(..3) > 0 { 1 } else { 2 },
            settle: if random.u8(..3) > 0 { "0s" } else { "1s" },
            replicas: random.usize(2..7),
            budget,
            exclusive_daemon: random.u8(..3) == 0,
            fault: random.bool().then(|| faults[random.usize(..faults.len())]),
            kills: (Kill::random(&mut random, agents), random.bool().then(|| Kill::random(&mut random, agents))),
            next: nexts[random.usize(..nexts.len())],
        }
    }

    fn workloads(&self) -> WorkloadSpec {
        let application = Application::new("team", "web", self.replicas);
        let application =
            if self.budget { application.with_budget(Budget::MaxUnavailable("50%".to_owned())) } else { application };
        let daemon = DaemonSet { name: "agent".to_owned(), tolerates_all: true, exclusive_cpus: self.exclusive_daemon };
        let spec = WorkloadSpec { applications: vec![application], daemon_sets: vec![daemon], faults: Vec::new() };
        match self.fault {
            Some(fault) => spec.with_fault(&NodeName::new("a-1").unwrap(), fault),
            None => spec,
        }
    }

    fn is_blocked(&self) -> bool {
        self.fault == Some(PodFault::BlockedBudget)
    }

    /// Rollout policy of a pool that drains its nodes.
    fn policy(&self, timeout: &str) -> String {
        let drain = format!("{{settle: {}, timeout: {timeout}, unmanaged: delete, emptyDir: delete}}", self.settle);
        format!("{{maxUnavailable: {}, allowDisruption: drain, drain: {drain}}}", self.nodes_at_a_time)
    }

    /// Number of times that each node may be drained in the whole case.
    fn drains(&self) -> usize {
        match self.next {
            Next::SyncSame => 1,
            Next::SyncReverted | Next::RollBack | Next::Release(_) => 2,
        }
    }
}

impl Kill {
    fn random(random: &mut fastrand::Rng, agents: bool) -> Self {
        let assignments = if agents { "nodeconfigs" } else { "nodes" };
        let (on, skips) = match random.u8(..16) {
            0..5 => (Matcher::on("patch", "nodes"), 5),
            5..7 => (Matcher::on("patch", assignments), 2),
            7..10 => (Matcher::on("create", "pods/eviction"), 5),
            10 => (Matcher::on("list", "volumeattachments"), 2),
            11 => (Matcher::on("watch", "pods"), 2),
            12 => (Matcher::on("list", "pods"), 3),
            // The list of the nodes is a stream, too.
            13 => (Matcher::on("watch", "nodes"), if agents { 2 } else { 1 }),
            14 => (Matcher::on("create", "configmaps"), 1),
            _ => (Matcher::any(), 60),
        };
        let after = match random.u8(..4) {
            0 => None,
            1..3 => Some(Duration::ZERO),
            _ => Some(Duration::from_millis(random.u64(..300))),
        };
        Self { on, skip: random.u64(..skips), after }
    }

    /// Request of the kill, for the summary of a campaign.
    fn request(&self) -> String {
        let Matcher { verb, resource, .. } = &self.on;
        let request = verb.as_deref().zip(resource.as_deref());
        let request = request.map_or_else(|| "any request".to_owned(), |(verb, resource)| format!("{verb} {resource}"));
        let when = match self.after {
            None => "before",
            Some(Duration::ZERO) => "after",
            Some(_) => "later than",
        };
        format!("{when} {request}")
    }

    /// Kills the program at its request. Returns the run if it ends before.
    async fn apply(&self, cluster: &Cluster, mut run: Running) -> Option<Run> {
        let reached = Arc::new(AtomicBool::new(false));
        let wire = cluster.sandbox().wire();
        let fault = self
            .after
            .is_none()
            .then(|| wire.faults.inject(Fault::once(self.on.clone(), FaultKind::Hang).skip(self.skip)));
        if let Some(after) = self.after {
            let (kill, reached, count, pid) = (self.clone(), Arc::clone(&reached), AtomicU64::new(0), run.id());
            wire.log.observe(move |entry| {
                if kill.on.matches(&entry.request) && count.fetch_add(1, Ordering::SeqCst) == kill.skip {
                    reached.store(true, Ordering::SeqCst);
                    // The server sends the answer after this call.
                    if after.is_zero() {
                        kill_now(pid);
                    }
                }
            });
        }
        let is_reached = || reached.load(Ordering::SeqCst) || fault.as_ref().is_some_and(|fault| fault.affected() > 0);
        until("the program reaches the request or ends", async || is_reached() || run.has_ended()).await;
        let is_killed = is_reached();
        if let Some(after) = self.after.filter(|_| is_killed) {
            tokio::time::sleep(after).await;
        }
        wire.log.observe(|_: &Entry| {});
        wire.faults.clear();
        if !is_killed || (run.has_ended() && self.after != Some(Duration::ZERO)) {
            return Some(run.end().await);
        }
        run.kill();
        // Requests that the server began before the kill end.
        tokio::time::sleep(Duration::from_millis(30)).await;
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases/nodecfg-test", cluster.namespace());
        if !cluster.get(&path).await.is_null() {
            cluster.delete(&path).await;
        }
        None
    }
}

/// Kills a process that has perhaps ended.
fn kill_now(pid: u32) {
    let _ = std::process::Command::new("sh").args(["-c", &format!("kill -KILL {pid}")]).status();
}

/// A running case.
struct Campaign<'a> {
    case: &'a Case,
    cluster: &'a Cluster,
    repository: &'a Repository,
    /// ConfigMap of the first configuration.
    before: String,
    /// Node of each pod by path.
    node_of_pod: Arc<Mutex<BTreeMap<String, String>>>,
    /// Number of begun drains by node.
    drains: BTreeMap<String, usize>,
    kills: &'a Kills,
}

impl Campaign<'_> {
    fn has(&self, state: &NodeRecord, wanted: Wanted) -> bool {
        state.source.is_some() && (state.source.as_ref() == Some(&self.before)) == (wanted == Wanted::Before)
    }

    /// Runs a command and checks what it does to the nodes. `wanted` is the configuration that it rolls out. Returns
    /// `None` if it was killed.
    async fn run(&mut self, arguments: &[&str], wanted: Option<Wanted>, kill: Option<&Kill>) -> Option<Run> {
        let cluster = self.cluster;
        let begin = cluster.states().await;
        let history = cluster.history().await;
        let first = cluster.sandbox().wire().log.entries().last().map_or(0, |entry| entry.sequence + 1);
        let kubeconfig = cluster.kubeconfig();
        let arguments = [arguments, &["--kubeconfig", kubeconfig.to_str().unwrap()]].concat();
        let running = Running::start(cluster.home(), &arguments);
        let run = match kill {
            Some(kill) => kill.apply(cluster, running).await,
            None => Some(running.end().await),
        };
        if run.is_none()
            && let Some(kill) = kill
        {
            let marks = cluster.states().await.values().filter(|state| state.marked).count();
            *self.kills.lock().unwrap().entry((kill.request(), marks)).or_default() += 1;
        }
        let shown = run.as_ref().map_or_else(|| "killed".to_owned(), ToString::to_string);
        let past = history.end().await;
        let evicted = self.evicted_since(first);
        for (name, state) in &begin {
            let states = past.of(name);
            let marks = states.windows(2).filter(|pair| !pair[0].marked && pair[1].marked).count();
            let evictions = evicted.get(name).copied().unwrap_or_default();
            assert!(marks <= 1, "{arguments:?} marks {name} {marks} times\n{shown}");
            *self.drains.entry(name.clone()).or_default() += marks;
            if wanted.is_none_or(|wanted| self.has(state, wanted)) {
                assert_eq!((marks, evictions), (0, 0), "{arguments:?} drains {name}: {state:?}\n{shown}");
            }
            let was_marked = states.iter().any(|state| state.marked);
            assert!(evictions == 0 || was_marked, "{arguments:?} evicts pods of {name} without a mark\n{shown}");
        }
        if run.is_some() {
            self.assert_no_marks(&shown).await;
        }
        run
    }

    /// Number of evicted pods by node, from a request on.
    fn evicted_since(&self, first: u64) -> BTreeMap<String, usize> {
        let node_of_pod = self.node_of_pod.lock().unwrap();
        let mut evicted = BTreeMap::new();
        for entry in self.cluster.sandbox().wire().log.entries() {
            let request = &entry.request;
            if entry.sequence >= first
                && request.resource == "pods/eviction"
                && entry.status.is_none_or(|s| s.is_success())
            {
                let pod = format!("{}/{}", request.namespace, request.name);
                let node = node_of_pod.get(&pod).unwrap_or_else(|| panic!("{pod} is unknown"));
                *evicted.entry(node.clone()).or_default() += 1;
            }
        }
        evicted
    }

    async fn assert_no_marks(&self, shown: &str) {
        for (name, state) in self.cluster.states().await {
            assert!(!state.marked, "{name} is still marked\n{shown}");
            let node = self.cluster.get(&format!("/api/v1/nodes/{name}")).await;
            for key in ANNOTATIONS {
                assert!(node["metadata"]["annotations"][key].is_null(), "{name} has {key}: {node}\n{shown}");
            }
        }
    }

    /// Asserts that a finished command ended as the pods allow.
    fn assert_exit(&self, run: Run) {
        if !self.case.is_blocked() || run.code != Some(5) {
            run.exits(0);
        }
    }

    async fn next(&mut self, reverted_to: &str) -> Wanted {
        let path = self.repository.path().to_str().unwrap();
        let roll_back = ["rollback", "a", path, "--to", reverted_to, "--no-pause"];
        let (arguments, wanted): (&[&str], _) = match self.case.next {
            Next::SyncSame => (&["sync", path], Some(Wanted::After)),
            Next::SyncReverted => {
                self.repository.change("a", BEFORE);
                (&["sync", path], Some(Wanted::Before))
            }
            Next::RollBack => (&roll_back, Some(Wanted::Before)),
            Next::Release(_) => (&["release", "--all", "--yes", "--fleet", "test"], None),
        };
        if let Some(kill) = &self.case.kills.1
            && let Some(run) = self.run(arguments, wanted, Some(kill)).await
        {
            self.assert_exit(run);
        }
        let run = self.run(arguments, wanted, None).await.unwrap();
        self.assert_exit(run);
        match self.case.next {
            Next::Release(last) => last,
            _ => wanted.unwrap(),
        }
    }
}

async fn run_on(case: Case, setup: ClusterSetup, kills: &Kills) {
    let cluster = setup.pool("a", 2).workloads(case.workloads()).up().await;
    // Without `allowDisruption`, the change from the local configuration drains no node.
    let repository = Repository::of_pool(BEFORE, "{maxUnavailable: 2}");
    cluster.sync(&repository, &[]).await.exits(0);
    let before = cluster.source("a-1").await.unwrap();
    repository.fleet("test", &case.policy(if case.is_blocked() { "3s" } else { "60s" }));
    let reverted_to = repository.commit();
    repository.change("a", AFTER);
    let (node_of_pod, pods) = follow_pods(&cluster).await;
    let mut campaign = Campaign {
        case: &case,
        cluster: &cluster,
        repository: &repository,
        before,
        node_of_pod,
        drains: BTreeMap::new(),
        kills,
    };

    let sync = ["sync", repository.path().to_str().unwrap()];
    if let Some(run) = campaign.run(&sync, Some(Wanted::After), Some(&case.kills.0)).await {
        campaign.assert_exit(run);
    }
    let last = campaign.next(&reverted_to).await;
    if case.is_blocked() {
        cluster.delete("/apis/policy/v1/namespaces/default/poddisruptionbudgets/blocked-budget-a-1").await;
    }
    repository.fleet("test", &case.policy("60s"));
    repository.change("a", if last == Wanted::Before { BEFORE } else { AFTER });
    campaign.run(&sync, Some(last), None).await.unwrap().exits(0);
    for (name, state) in cluster.states().await {
        assert!(state.converged() && campaign.has(&state, last), "{name}: {state:?}, {last:?} is wanted");
    }
    if !case.is_blocked() {
        for (name, drains) in &campaign.drains {
            assert!(*drains <= case.drains(), "{name} was drained {drains} times");
        }
    }
    until("all pods of ReplicaSets run", async || replicas_run(&cluster).await).await;
    pods.abort();
    cluster.down().await;
}

/// Records the node of each pod until the returned task is aborted.
async fn follow_pods(cluster: &Cluster) -> (Arc<Mutex<BTreeMap<String, String>>>, JoinHandle<()>) {
    let pods = cluster.get("/api/v1/pods").await;
    let nodes = Arc::new(Mutex::new(BTreeMap::new()));
    pods["items"].as_array().unwrap().iter().for_each(|pod| record_pod(&nodes, pod));
    let version = pods["metadata"]["resourceVersion"].as_str().unwrap();
    let path = format!("/api/v1/pods?watch=true&resourceVersion={version}&timeoutSeconds=600");
    let request = Request::get(path).body(Vec::new()).unwrap();
    let client: Client = cluster.sandbox().api().client();
    let recorded = Arc::clone(&nodes);
    let task = tokio::spawn(async move {
        let mut events = std::pin::pin!(client.request_events::<Value>(request).await.expect("a watch"));
        while let Some(event) = events.next().await {
            if let WatchEvent::Added(pod) | WatchEvent::Modified(pod) = event.expect("an event") {
                record_pod(&recorded, &pod);
            }
        }
    });
    (nodes, task)
}

fn record_pod(nodes: &Mutex<BTreeMap<String, String>>, pod: &Value) {
    if let Some(node) = pod["spec"]["nodeName"].as_str() {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let pod = format!("{}/{}", text(&pod["metadata"]["namespace"]), text(&pod["metadata"]["name"]));
        nodes.lock().unwrap().insert(pod, node.to_owned());
    }
}

/// Reports whether each ReplicaSet has its pods.
async fn replicas_run(cluster: &Cluster) -> bool {
    let pods = cluster.pods().await;
    let sets = cluster.get("/apis/apps/v1/replicasets").await;
    sets["items"].as_array().unwrap().iter().all(|set| {
        let runs = |pod: &&Value| {
            pod["metadata"]["ownerReferences"][0]["uid"] == set["metadata"]["uid"]
                && pod["metadata"]["deletionTimestamp"].is_null()
                && pod["status"]["phase"] == "Running"
        };
        let running = pods.iter().filter(runs).count();
        Some(running) == set["spec"]["replicas"].as_u64().and_then(|count| usize::try_from(count).ok())
    })
}
