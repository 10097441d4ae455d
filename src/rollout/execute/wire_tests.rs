//! Tests of executions against an embedded cluster, by the requests that reach its API server.

use nodecfg_cluster::lock::LockOptions;
use nodecfg_cluster::reading::observe;
use nodecfg_cluster::{ReaderOptions, lock};
use nodecfg_contract::labels::POOL_LABEL;
use nodecfg_fleet::{Desired, RolloutPolicy};
use nodecfg_observed::{Abort, Drain};
use nodecfg_plan::fixtures::{desired, fleet, node_name, options, pause, policy, pool, pool_name};
use nodecfg_plan::make;
use nodecfg_rollout::End;
use nodecfg_sandbox::nodes::NodeSpec;
use nodecfg_sandbox::server::wire::{Fault, FaultKind, InjectedFault, Matcher};
use nodecfg_sandbox::{Embedded, EmbeddedOptions, machines};
use serde_json::{Value, json};

use super::tests::{MODE, rollout};
use super::*;

const NAMESPACE: &str = "kube-system";
/// User of the reader.
const USER: &str = "sandbox";

/// Nodes of an API server that keeps their assignments. Each name begins with that of its pool.
struct Cluster {
    embedded: Embedded,
    reader: ClusterReader,
}

impl Cluster {
    async fn of(nodes: &[&str]) -> Self {
        let spec = |name: &&str| {
            let labels = BTreeMap::from([(POOL_LABEL.to_owned(), name[..1].to_owned())]);
            NodeSpec::new(node_name(name), labels, "v1.21.14")
        };
        let options = EmbeddedOptions {
            nodes: machines::Options { speed: 100.0, ..machines::Options::default() },
            images: 0,
            ..EmbeddedOptions::default()
        };
        let embedded = Embedded::start(options, nodes.iter().map(spec).collect()).await.unwrap();
        let reader = ClusterReader::new(embedded.client(), "https://sandbox", ReaderOptions::default());
        Self { embedded, reader }
    }

    async fn writer(&self) -> (ClusterWriter, lock::HeldLock) {
        let lock = LockOptions::new(NAMESPACE, fleet(), "me".to_owned());
        let held = lock::acquire(&self.reader, lock).await.unwrap();
        (ClusterWriter::new(self.reader.clone(), &held), held)
    }

    fn inject(&self, verb: &str, resource: &str, kind: FaultKind) -> InjectedFault {
        self.embedded.wire().faults.inject(Fault::once(Matcher::on(verb, resource), kind))
    }

    /// Marks a node for a drain as an earlier run of the fleet did.
    async fn mark(&self, node: &str) {
        let (pool, to, from) = (pool_name(&node[..1]), None, None);
        let drain = Drain { fleet: fleet(), pool, to, from, since: Timestamp::UNIX_EPOCH, added: BTreeSet::new() };
        let (writer, held) = self.writer().await;
        let uid = self.reader.node(&node_name(node)).await.unwrap().unwrap().uid;
        writer.mark_for_drain(&node_name(node), &uid, &drain).await.unwrap();
        held.release().await;
    }

    /// Changes a Node as another client does.
    async fn patch(&self, node: &str, merge: Value) {
        let request = http::Request::patch(format!("/api/v1/nodes/{node}"))
            .header("Content-Type", "application/merge-patch+json")
            .body(merge.to_string().into_bytes())
            .unwrap();
        self.embedded.api().client().request::<Value>(request).await.unwrap();
    }

    /// Executes the plan for this desired state.
    async fn execute(&self, desired: &Desired, signals: Signals) -> Result<Execution, ClusterError> {
        let (options, observed) = (options(), observe::list(&self.reader, Some(NAMESPACE)).await.unwrap());
        let plan = make(desired, &observed, &options).unwrap();
        let (writer, held) = self.writer().await;
        self.embedded.wire().log.clear();
        let Signals { orders, stop, lost, concurrency } = signals;
        let mode = Mode { concurrency, ..MODE };
        let rollout = Rollout { mode, ..rollout(&plan, desired, &observed, &options) };
        let lost = async move { if lost { "it was taken".to_owned() } else { std::future::pending().await } };
        let mut ignore = |_: Timestamp, _: &Event| {};
        let execution =
            execute(rollout, &self.reader, &writer, lost, orders.subscribe(), stop.subscribe(), &mut ignore).await;
        held.release().await;
        execution
    }

    /// Calls a function after the first write of this node.
    fn after_write(&self, node: &str, call: impl Fn() + Send + Sync + 'static) {
        let path = format!("/api/v1/nodes/{node}");
        self.embedded.wire().log.observe(move |entry| {
            if entry.request.verb == "patch" && !entry.request.dry_run && entry.request.path == path {
                call();
            }
        });
    }

    /// Writes since the start of the last execution, without those of the lock, Events and reviews.
    fn writes(&self) -> Vec<String> {
        let aside = ["leases", "events", "selfsubjectaccessreviews"];
        let mut writes = self.embedded.wire().log.writes();
        writes.retain(|entry| !aside.contains(&entry.request.resource.as_str()));
        writes.iter().map(|entry| format!("{} {}", entry.request.verb, entry.request.path)).collect()
    }
}

/// Signals of an execution.
#[derive(Clone)]
struct Signals {
    orders: watch::Sender<Orders>,
    stop: watch::Sender<Stop>,
    /// Whether the lock is lost at once.
    lost: bool,
    concurrency: usize,
}

impl Signals {
    fn none() -> Self {
        let (orders, stop) = (watch::Sender::default(), watch::Sender::default());
        Self { orders, stop, lost: false, concurrency: MODE.concurrency }
    }
}

fn paused(pool: &str) -> Orders {
    let pause = pause("disks");
    Orders { pauses: BTreeMap::from([(pool_name(pool), pause)]), ..Orders::default() }
}

fn ends(execution: &Execution) -> Vec<&End> {
    execution.outcome.pools.values().flat_map(|pool| &pool.nodes).map(|node| &node.end).collect()
}

const CREATE: &str = "create /api/v1/namespaces/kube-system/configmaps";

/// A right that is missed half-way would split a pool.
#[tokio::test]
async fn missing_right_is_found_before_the_first_write() {
    let cluster = Cluster::of(&["a1", "b1"]).await;
    // Its release is the first write.
    cluster.mark("b1").await;
    let desired = desired([pool("a", 64, policy(1))]);
    for (verb, resource) in [("create", "configmaps"), ("patch", "nodes"), ("get", "nodes"), ("watch", "nodes")] {
        cluster.embedded.api().deny_user(USER, verb, resource);
        let error = cluster.execute(&desired, Signals::none()).await.expect_err("refused");
        assert!(matches!(error, ClusterError::Forbidden { .. }), "{verb} {resource}: {error}");
        assert_eq!(cluster.writes(), [""; 0], "{verb} {resource}");
        cluster.embedded.api().clear_denials();
    }
}

/// Admission answers only to the write itself. A refusal half-way would split a pool, too.
#[tokio::test]
async fn refusal_by_admission_is_found_before_the_first_write() {
    let cluster = Cluster::of(&["a1", "b1"]).await;
    cluster.mark("b1").await;
    for (verb, resource) in [("create", "configmaps"), ("patch", "nodes")] {
        let tried = Matcher { dry_run: Some(true), ..Matcher::on(verb, resource) };
        let denied = cluster.embedded.wire().faults.inject(Fault::once(tried, FaultKind::Denied("no".to_owned())));
        let desired = desired([pool("a", 64, policy(1))]);
        let error = cluster.execute(&desired, Signals::none()).await.expect_err("refused");
        assert!(matches!(error, ClusterError::Invalid { .. }), "{error}");
        assert_eq!((denied.affected(), cluster.writes()), (1, Vec::new()), "{verb} {resource}");
    }
}

/// The pods of nodes are a check beside, for which many accounts have no right.
#[tokio::test]
async fn rollout_needs_no_right_to_list_pods() {
    let cluster = Cluster::of(&["a1"]).await;
    cluster.embedded.api().deny_user(USER, "list", "pods");
    let checked = RolloutPolicy { check_pods: true, ..policy(1) };
    let execution = cluster.execute(&desired([pool("a", 64, checked)]), Signals::none()).await.unwrap();
    assert!(execution.outcome.is_complete() && execution.error.is_none(), "{execution:?}");
}

/// Each step is safe to repeat, and no node follows a step that failed.
#[tokio::test]
async fn marks_end_and_config_maps_exist_before_the_first_assignment() {
    let cluster = Cluster::of(&["a1", "b1"]).await;
    cluster.mark("b1").await;
    let desired = desired([pool("a", 64, policy(1))]);
    // The Node shows what its mark showed.
    let all = ["patch /api/v1/nodes/b1", "patch /api/v1/nodes/b1/status", CREATE, "patch /api/v1/nodes/a1"];
    let denied = || FaultKind::Denied("no".to_owned());
    let fault = cluster.inject("create", "configmaps", denied());
    let error = cluster.execute(&desired, Signals::none()).await.expect_err("denied");
    assert!(matches!(error, ClusterError::Invalid { .. }), "{error}");
    assert_eq!((fault.affected(), cluster.writes()), (1, all[..3].iter().map(ToString::to_string).collect()));
    cluster.mark("b1").await;
    let execution = cluster.execute(&desired, Signals::none()).await.unwrap();
    assert!(execution.outcome.is_complete(), "{execution:?}");
    assert_eq!(cluster.writes(), all);
}

/// Annotations alone keep no pods away.
#[tokio::test]
async fn annotations_that_cannot_be_removed_end_no_rollout() {
    let cluster = Cluster::of(&["a1", "b1"]).await;
    cluster.mark("b1").await;
    cluster.patch("b1", json!({"spec": {"taints": null}})).await;
    let refused = cluster.inject("patch", "nodes", FaultKind::Denied("no".to_owned()));
    let execution = cluster.execute(&desired([pool("a", 64, policy(1))]), Signals::none()).await.unwrap();
    assert_eq!((refused.affected(), execution.outcome.is_complete()), (1, true), "{execution:?}");
}

/// Ctrl-C must not wait until the first nodes are assigned.
#[tokio::test]
async fn stop_during_the_preparation_writes_no_node() {
    for wanted in [Stop::Gently, Stop::Now] {
        let cluster = Cluster::of(&["a1", "a2"]).await;
        cluster.inject("create", "configmaps", FaultKind::Hang);
        let signals = Signals::none();
        let interrupt = async {
            while cluster.writes().is_empty() {
                tokio::task::yield_now().await;
            }
            signals.stop.send_replace(wanted);
        };
        let desired = desired([pool("a", 64, policy(1))]);
        let (execution, ()) = tokio::join!(cluster.execute(&desired, signals.clone()), interrupt);
        let execution = execution.unwrap();
        let [pool] = &execution.outcome.pools.into_values().collect::<Vec<_>>()[..] else { panic!("one pool") };
        assert_eq!(pool.stopped, Some(StopReason::Interrupted));
        assert!(pool.nodes.iter().all(|node| node.end == End::NotStarted), "{:?}", pool.nodes);
        assert_eq!(cluster.writes(), [CREATE], "{wanted:?}");
    }
}

/// The plan of a run may be older than a pause.
#[tokio::test]
async fn pause_given_between_plan_and_start_is_obeyed() {
    let cluster = Cluster::of(&["a1", "b1"]).await;
    let signals = Signals::none();
    signals.orders.send_replace(paused("a"));
    let desired = desired([pool("a", 64, policy(1)), pool("b", 64, policy(1))]);
    let execution = cluster.execute(&desired, signals).await.unwrap();
    assert_eq!(ends(&execution), [&End::NotStarted, &End::Converged]);
    assert!(!cluster.writes().contains(&"patch /api/v1/nodes/a1".to_owned()), "{:?}", cluster.writes());
}

/// All pools together send no more requests at a time than the user allows.
#[tokio::test]
async fn requests_at_a_time_are_limited() {
    let cluster = Cluster::of(&["a1", "a2", "b1", "b2"]).await;
    let hang = Fault::always(Matcher::on("patch", "nodes"), FaultKind::Hang);
    let hanging = cluster.embedded.wire().faults.inject(hang);
    let desired = desired([pool("a", 64, policy(2)), pool("b", 64, policy(2))]);
    let signals = Signals { concurrency: 2, ..Signals::none() };
    let interrupt = async {
        while hanging.affected() < 2 {
            tokio::task::yield_now().await;
        }
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        signals.stop.send_replace(Stop::Now);
    };
    let (execution, ()) = tokio::join!(cluster.execute(&desired, signals.clone()), interrupt);
    assert!(!execution.unwrap().outcome.is_complete());
    assert_eq!(hanging.affected(), 2);
}

/// The node in transition finishes, and the next one does not start.
#[tokio::test]
async fn stop_and_pause_reach_a_running_rollout() {
    for pauses in [false, true] {
        let cluster = Cluster::of(&["a1", "a2"]).await;
        let signals = Signals::none();
        let given = signals.clone();
        cluster.after_write("a1", move || {
            if pauses {
                given.orders.send_replace(paused("a"));
            } else {
                given.stop.send_replace(Stop::Gently);
            }
        });
        let execution = cluster.execute(&desired([pool("a", 64, policy(1))]), signals).await.unwrap();
        assert_eq!(ends(&execution), [&End::Converged, &End::NotStarted], "{pauses}");
    }
}

/// The exit code tells a pipeline that another run continues.
#[tokio::test]
async fn lost_lock_and_lost_watch_end_the_run_with_their_reason() {
    let cluster = Cluster::of(&["a1"]).await;
    let desired = desired([pool("a", 64, policy(1))]);
    cluster.inject("patch", "nodes", FaultKind::Hang);
    let lost = cluster.execute(&desired, Signals { lost: true, ..Signals::none() }).await.unwrap();
    assert!(lost.lock_lost && lost.error.is_none(), "{lost:?}");
    assert_eq!(lost.outcome.pools[&pool_name("a")].stopped, Some(StopReason::LockLost));

    let cluster = Cluster::of(&["a1"]).await;
    cluster.inject("patch", "nodes", FaultKind::Hang);
    cluster.inject("watch", "nodes", FaultKind::status(http::StatusCode::FORBIDDEN));
    let ended = cluster.execute(&desired, Signals::none()).await.unwrap();
    assert!(!ended.lock_lost && ended.error.is_some(), "{ended:?}");
    let stopped = &ended.outcome.pools[&pool_name("a")].stopped;
    assert!(matches!(stopped, Some(StopReason::ClusterFailed { .. })), "{stopped:?}");
}

/// Another run may change the node in transition.
#[tokio::test]
async fn write_without_the_lock_ends_the_run_although_a_node_is_in_transition() {
    let cluster = Cluster::of(&["a1"]).await;
    // The watch never shows that the node converged.
    cluster.inject("watch", "nodes", FaultKind::Hang);
    let (options, desired) = (options(), desired([pool("a", 64, policy(1))]));
    let observed = observe::list(&cluster.reader, Some(NAMESPACE)).await.unwrap();
    let plan = make(&desired, &observed, &options).unwrap();
    let (writer, held) = cluster.writer().await;
    cluster.embedded.wire().log.clear();
    let signals = Signals::none();
    let lose = async {
        while cluster.writes().len() < 2 {
            tokio::task::yield_now().await;
        }
        held.release().await;
        let (holder, by) = ("me".to_owned(), "ada".to_owned());
        let abort = Abort { holder, by, at: Timestamp::UNIX_EPOCH, reason: None, back: true, fleet_paused: false };
        signals.orders.send_replace(Orders { abort: Some(abort), ..Orders::default() });
    };
    let mut ignore = |_: Timestamp, _: &Event| {};
    let (rollout, lost) = (rollout(&plan, &desired, &observed, &options), std::future::pending());
    let (orders, stop) = (signals.orders.subscribe(), signals.stop.subscribe());
    let run = execute(rollout, &cluster.reader, &writer, lost, orders, stop, &mut ignore);
    let ended = tokio::time::timeout(Duration::from_secs(20), async { tokio::join!(run, lose).0 }).await;
    let execution = ended.expect("it ends").unwrap();
    assert!(execution.lock_lost && ends(&execution) == [&End::InFlight], "{execution:?}");
}

/// A new node needs the ConfigMap that its pointer names, and half of the pointers must not be refused.
#[tokio::test]
async fn pointers_follow_config_maps_that_admission_allows() {
    let cluster = Cluster::of(&["a1", "b1"]).await;
    let a = || pool("a", 64, policy(1));
    let proven = cluster.execute(&desired([a()]), Signals::none()).await.unwrap();
    assert!(proven.outcome.is_complete(), "{proven:?}");
    let published = |pools: Vec<_>| Desired { pool_pointers: true, ..desired(pools) };

    let tried = Matcher { dry_run: Some(true), ..Matcher::on("create", "configmaps") };
    cluster.embedded.wire().faults.inject(Fault::once(tried, FaultKind::Denied("no".to_owned())));
    cluster.execute(&published(vec![a()]), Signals::none()).await.expect_err("refused");
    assert_eq!(cluster.writes(), [""; 0]);

    cluster.inject("create", "configmaps", FaultKind::Denied("no".to_owned()));
    let both = published(vec![a(), pool("b", 64, policy(1))]);
    let error = cluster.execute(&both, Signals::none()).await.expect_err("refused").to_string();
    assert!(error.starts_with("cannot create configmap kube-system/fleet-b-"), "{error}");
    assert_eq!(cluster.writes(), [CREATE], "no pointer");
}

/// Without assignments nothing is left to finish.
#[tokio::test]
async fn stop_ends_a_run_that_only_watches() {
    let cluster = Cluster::of(&["a1"]).await;
    let (options, desired) = (options(), desired([pool("a", 64, policy(1))]));
    let observed = observe::list(&cluster.reader, Some(NAMESPACE)).await.unwrap();
    let plan = make(&desired, &observed, &options).unwrap();
    let rollout = Rollout { mode: Mode { assign: false, ..MODE }, ..rollout(&plan, &desired, &observed, &options) };
    let (stop, stopped) = watch::channel(Stop::No);
    let interrupt = async {
        while cluster.embedded.wire().log.count("watch", "nodes") == 0 {
            tokio::task::yield_now().await;
        }
        stop.send_replace(Stop::Gently);
    };
    let mut ignore = |_: Timestamp, _: &Event| {};
    let watched = verify(rollout, &cluster.reader, std::future::pending(), stopped, &mut ignore);
    let (execution, ()) = tokio::join!(watched, interrupt);
    assert!(!execution.outcome.is_complete(), "{execution:?}");
    assert_eq!(cluster.writes(), [""; 0]);
}
