//! Carries the machine's wishes to the cluster, and tells the machine what happens: patches, one watch, the clock, and
//! whoever asks to stop. Decides nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::pin::{Pin, pin};

use futures::stream::{self, FuturesUnordered};
use futures::{Stream, StreamExt as _};
use jiff::Timestamp;
use tokio::sync::watch;

use super::commentary::Commentary;
use nodecfg_cluster::permission::Needs;
use nodecfg_cluster::writer::{ConfigMapSpec, Created};
use nodecfg_cluster::{ClusterError, ClusterReader, ClusterWriter, NodeEvent};
use nodecfg_contract::Assignment;
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_contract::observed::{Node, Observed, Orders};
use nodecfg_planning::desired::Desired;
use nodecfg_planning::plan::{Options, Plan, belongs, redecide};
use nodecfg_planning::rollout::machine::{Command, Input, Machine, Mode};
use nodecfg_planning::rollout::orders::OrderWatcher;
use nodecfg_planning::rollout::progress::{Event, Progress};
use nodecfg_planning::rollout::{Outcome, StopReason};

/// How many ConfigMaps are created at a time.
const CONFIG_MAPS_AT_A_TIME: usize = 8;

/// What a rollout is made of.
#[derive(Clone, Copy)]
pub struct Rollout<'a> {
    /// The plan, checked.
    pub plan: &'a Plan,
    /// What it was made from, to plan a node anew that somebody else changed.
    pub desired: &'a Desired,
    /// What it was made from.
    pub observed: &'a Observed,
    /// What it was made with.
    pub options: &'a Options,
    /// How it is carried out.
    pub mode: Mode,
}

/// How far somebody wants a rollout to be stopped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// Not at all.
    #[default]
    No,
    /// Start nothing more, finish what is in flight.
    Gently,
    /// End at once.
    Now,
}

/// What became of a rollout.
#[derive(Debug)]
pub struct Execution {
    /// How each node ended.
    pub outcome: Outcome,
    /// What cut it short, if the cluster did.
    pub error: Option<ClusterError>,
    /// Whether it ended because the lock of the fleet was lost.
    pub lock_lost: bool,
}

/// The answer to a request.
enum Answer {
    Assigned(NodeName),
    Changed(NodeName),
    Refused(NodeName, ClusterError),
    RolledBack(NodeName, Result<(), ClusterError>),
    Reread(NodeName, Box<Result<Option<Node>, ClusterError>>),
}

/// A request that waits for its turn.
enum Request {
    Assign(NodeName, Assignment),
    RollBack(NodeName, Assignment),
    Reread(NodeName),
}

/// Watches the nodes of a plan converge without writing anything.
pub async fn verify(
    rollout: Rollout<'_>,
    reader: &ClusterReader,
    stop: watch::Receiver<Stop>,
    listener: &mut dyn FnMut(Timestamp, &Event),
) -> Execution {
    run(rollout, reader, None, StopSignals { lock_lost: None, orders: None, stop }, listener).await
}

/// Carries the plan out. The lock must be held as long as `writer` is used; `lock_lost` ends when it is not. `orders` are
/// those for the holder of the lock: what was not known when the plan was made is followed.
///
/// # Errors
/// When something that it takes is not allowed: nothing has been written then. When a ConfigMap cannot be created: no node
/// has been touched then.
pub async fn execute(
    rollout: Rollout<'_>,
    reader: &ClusterReader,
    writer: &ClusterWriter,
    lock_lost: impl Future<Output = String>,
    orders: watch::Receiver<Orders>,
    stop: watch::Receiver<Stop>,
    listener: &mut dyn FnMut(Timestamp, &Event),
) -> Result<Execution, ClusterError> {
    let prepare = async {
        check_permissions(rollout.plan, reader).await?;
        create_config_maps(rollout.plan, writer, listener).await
    };
    let mut asked = stop.clone();
    tokio::select! {
        prepared = prepare => prepared?,
        // No node has been touched; whatever ConfigMaps are there serve the next run.
        Ok(_) = asked.wait_for(|stop| *stop >= Stop::Gently) => {}
    }
    let commentary = Commentary::start(writer.clone(), rollout.plan);
    let execution = {
        let mut tell = |now: Timestamp, event: &Event| {
            commentary.hear(now, event);
            listener(now, event);
        };
        let mut lost = pin!(lock_lost);
        let helm = StopSignals { lock_lost: Some(lost.as_mut()), orders: Some(orders), stop };
        run(rollout, reader, Some(writer), helm, &mut tell).await
    };
    commentary.finish().await;
    Ok(execution)
}

/// Makes sure that the rollout may do what it will have to, so that it does not end half way.
///
/// # Errors
/// When something that it takes is not allowed, or the server does not say.
pub async fn check_permissions(plan: &Plan, reader: &ClusterReader) -> Result<(), ClusterError> {
    let creates = plan.config_maps.iter().any(|map| map.create);
    let needs = Needs {
        config_maps_in: creates.then_some(plan.namespace.as_str()),
        assign: plan.has_changes(),
        watch: plan.pools.iter().any(|pool| pool.steps().next().is_some()),
    };
    reader.check_all_allowed(needs).await
}

async fn create_config_maps(
    plan: &Plan,
    writer: &ClusterWriter,
    listener: &mut dyn FnMut(Timestamp, &Event),
) -> Result<(), ClusterError> {
    let specs: Vec<ConfigMapSpec> = plan
        .config_maps
        .iter()
        .filter(|map| map.create)
        .map(|map| ConfigMapSpec {
            namespace: plan.namespace.to_string(),
            name: map.name.clone(),
            text: map.kubelet.clone(),
            fleet: plan.fleet.clone(),
            pool: map.pool.clone(),
            content_hash: map.hash,
            commit: plan.commit.clone(),
            path: map.path.clone(),
        })
        .collect();
    let mut created = stream::iter(&specs)
        .map(|spec| async move { (spec, writer.create_config_map(spec).await) })
        .buffer_unordered(CONFIG_MAPS_AT_A_TIME);
    while let Some((spec, result)) = created.next().await {
        if result? == Created::Created {
            let progress = Progress::ConfigMapCreated { name: spec.name.clone() };
            listener(nodecfg_clock::now(), &Event { progress, pool: None });
        }
    }
    Ok(())
}

/// Who may end a rollout before its end, or part of it.
struct StopSignals<'a> {
    /// Ends when the lock is lost. `None`: none is held.
    lock_lost: Option<Pin<&'a mut (dyn Future<Output = String> + 'a)>>,
    /// What people order meanwhile. `None`: nobody can.
    orders: Option<watch::Receiver<Orders>>,
    /// Signals.
    stop: watch::Receiver<Stop>,
}

async fn run(
    rollout: Rollout<'_>,
    reader: &ClusterReader,
    writer: Option<&ClusterWriter>,
    mut helm: StopSignals<'_>,
    listener: &mut dyn FnMut(Timestamp, &Event),
) -> Execution {
    let mut runner = Runner {
        rollout,
        pool_of: pools_by_node(rollout.plan),
        machine: Machine::new(rollout.plan, rollout.mode),
        queue: VecDeque::new(),
        error: None,
        lock_lost: false,
        ear: OrderWatcher::new(&rollout.observed.orders),
        listener,
    };
    if *helm.stop.borrow() >= Stop::Gently {
        runner.step(Input::Stop(StopReason::Interrupted));
    }
    if let Some(orders) = &mut helm.orders {
        let ordered = orders.borrow_and_update().clone();
        runner.ordered(&ordered);
    }
    runner.step(Input::Start);
    // The plan's own view of its nodes: what changed since comes by the watch.
    for node in rollout
        .plan
        .pools
        .iter()
        .flat_map(|pool| pool.steps())
        .filter_map(|step| rollout.observed.nodes.get(&step.node))
    {
        runner.step(Input::Observed(Box::new(node.clone())));
    }
    runner.drive(reader, writer, helm).await;
    Execution { outcome: runner.machine.outcome(), error: runner.error, lock_lost: runner.lock_lost }
}

fn pools_by_node(plan: &Plan) -> BTreeMap<NodeName, PoolName> {
    plan.pools.iter().flat_map(|pool| pool.steps().map(|step| (step.node.clone(), pool.name.clone()))).collect()
}

struct Runner<'a> {
    rollout: Rollout<'a>,
    pool_of: BTreeMap<NodeName, PoolName>,
    machine: Machine,
    queue: VecDeque<Request>,
    error: Option<ClusterError>,
    lock_lost: bool,
    ear: OrderWatcher,
    listener: &'a mut dyn FnMut(Timestamp, &Event),
}

impl Runner<'_> {
    fn step(&mut self, input: Input) {
        let now = nodecfg_clock::now();
        let mut stopped = Vec::new();
        for command in self.machine.step(input, now) {
            match command {
                Command::Assign(node, change) => self.queue.push_back(Request::Assign(node, change)),
                Command::RollBack(node, change) => self.queue.push_back(Request::RollBack(node, change)),
                Command::Tell(event) => {
                    (self.listener)(now, &event);
                    if let Progress::Stopped { pool, .. } = event.progress {
                        stopped.push(pool);
                    }
                }
            }
        }
        for pool in stopped {
            self.withdraw(&pool);
        }
    }

    async fn drive(&mut self, reader: &ClusterReader, writer: Option<&ClusterWriter>, helm: StopSignals<'_>) {
        let StopSignals { lock_lost, orders, mut stop } = helm;
        if self.machine.is_finished() && self.queue.is_empty() {
            return;
        }
        let mut nodes = pin!(reader.watch_nodes(&self.rollout.observed.nodes, &self.rollout.observed.versions));
        let mut lock_lost = pin!(async move {
            match lock_lost {
                Some(lost) => lost.await,
                None => std::future::pending().await,
            }
        });
        let mut orders = pin!(new_orders(orders));
        let mut in_air = FuturesUnordered::new();
        loop {
            while in_air.len() < self.rollout.mode.concurrency.max(1) {
                let Some(request) = self.queue.pop_front() else { break };
                in_air.push(send(request, reader, writer));
            }
            if self.lock_lost || (self.machine.is_finished() && in_air.is_empty()) {
                return;
            }
            let tick = sleep_until(self.machine.next_tick());
            tokio::select! {
                Some(answer) = in_air.next() => self.answered(answer),
                event = nodes.next() => match event {
                    Some(Ok(event)) => self.seen(event),
                    Some(Err(error)) => return self.cut_short(StopReason::ClusterFailed { error: error.to_string() }, Some(error)),
                    None => {
                        let error = "the watch of Nodes ended".to_owned();
                        return self.cut_short(StopReason::ClusterFailed { error }, None);
                    }
                },
                () = tick => self.step(Input::Tick),
                reason = &mut lock_lost => {
                    tracing::error!("the lock was lost: {reason}");
                    self.lock_lost = true;
                    return self.cut_short(StopReason::LockLost, None);
                }
                Some(ordered) = orders.next() => self.ordered(&ordered),
                Ok(()) = stop.changed() => {
                    let wanted = *stop.borrow_and_update();
                    if wanted >= Stop::Gently {
                        self.step(Input::Stop(StopReason::Interrupted));
                    }
                    // Who only watches has nothing to finish.
                    if wanted == Stop::Now || !self.rollout.mode.assign {
                        return;
                    }
                }
            }
        }
    }

    /// People have ordered something meanwhile.
    fn ordered(&mut self, orders: &Orders) {
        for input in self.ear.hear(orders) {
            self.step(input);
        }
    }

    /// Takes back the assignments of a pool that wait for their turn: a pool that stops, stops here too.
    fn withdraw(&mut self, pool: &PoolName) {
        for request in std::mem::take(&mut self.queue) {
            match request {
                Request::Assign(node, _) if self.pool_of.get(&node) == Some(pool) => self.step(Input::Withdrawn(node)),
                other => self.queue.push_back(other),
            }
        }
    }

    fn cut_short(&mut self, reason: StopReason, error: Option<ClusterError>) {
        self.step(Input::Stop(reason));
        self.error = error;
    }

    fn answered(&mut self, answer: Answer) {
        match answer {
            Answer::Assigned(node) => self.step(Input::Assigned(node)),
            Answer::Changed(node) => self.queue.push_front(Request::Reread(node)),
            Answer::Refused(_, error @ ClusterError::LockLost { .. }) => {
                tracing::error!("{error}");
                self.lock_lost = true;
                self.step(Input::Stop(StopReason::LockLost));
            }
            Answer::Refused(node, error) => {
                self.step(Input::Refused(node, error.to_string()));
                // Every error that is not about this one node will meet the next node as well; the machine stops by its
                // failures, the user is told the way out once.
                self.error.get_or_insert(error);
            }
            Answer::RolledBack(node, result) => {
                self.step(Input::RolledBack(node, result.map_err(|error| error.to_string())));
            }
            Answer::Reread(node, current) => match *current {
                Ok(current) => {
                    let decision = current.map(|current| {
                        let Rollout { desired, observed, options, .. } = self.rollout;
                        let pool = self.pool_of.get(&node);
                        let decision = pool.and_then(|pool| redecide(desired, observed, options, pool, &current));
                        Box::new((current, decision))
                    });
                    self.step(Input::Changed(node, decision));
                }
                Err(error) => self.step(Input::Refused(node, error.to_string())),
            },
        }
    }

    fn seen(&mut self, event: NodeEvent) {
        match event {
            NodeEvent::Upsert(node) => self.observed(node),
            NodeEvent::Deleted(node) => self.step(Input::Gone(node)),
            NodeEvent::Relisted(nodes) => {
                let present: BTreeSet<NodeName> = nodes.iter().map(|node| node.name.clone()).collect();
                let gone: Vec<NodeName> =
                    self.machine.nodes().filter(|node| !present.contains(*node)).cloned().collect();
                for node in gone {
                    self.step(Input::Gone(node));
                }
                for node in nodes {
                    self.observed(Box::new(node));
                }
            }
        }
    }

    /// Labels are no part of what an assignment tests: whether a node still is its pool's is seen here.
    fn observed(&mut self, node: Box<Node>) {
        if self.pool_of.get(&node.name).is_none_or(|pool| belongs(self.rollout.desired, pool, &node)) {
            return self.step(Input::Observed(node));
        }
        let waits = |request: &Request| matches!(request, Request::Assign(name, _) if *name == node.name);
        if let Some(at) = self.queue.iter().position(waits) {
            self.queue.remove(at);
            self.step(Input::Withdrawn(node.name.clone()));
        }
        self.step(Input::Moved(node));
    }
}

async fn send(request: Request, reader: &ClusterReader, writer: Option<&ClusterWriter>) -> Answer {
    match (request, writer) {
        (Request::Assign(node, change), Some(writer)) => match writer.assign(&node, &change).await {
            Ok(_) => Answer::Assigned(node),
            Err(
                ClusterError::PreconditionFailed { .. }
                | ClusterError::Conflict { .. }
                | ClusterError::NotFound { .. }
                // These leave open whether the patch arrived.
                | ClusterError::TimedOut { .. }
                | ClusterError::Unreachable { .. }
                | ClusterError::Unexpected { .. },
            ) => Answer::Changed(node),
            Err(error) => Answer::Refused(node, error),
        },
        (Request::RollBack(node, change), Some(writer)) => {
            let result = writer.assign(&node, &change).await.map(drop);
            Answer::RolledBack(node, result)
        }
        (Request::Reread(node), _) => {
            let result = reader.node(&node).await;
            Answer::Reread(node, Box::new(result))
        }
        // Without a writer the machine only watches: it has been told so and assigns nothing.
        (Request::Assign(node, _) | Request::RollBack(node, _), None) => Answer::Changed(node),
    }
}

/// Every change of the orders from now on. Of none, when nobody can order anything.
fn new_orders(orders: Option<watch::Receiver<Orders>>) -> impl Stream<Item = Orders> {
    stream::unfold(orders, |orders| async {
        let mut orders = orders?;
        orders.changed().await.ok()?;
        let ordered = orders.borrow_and_update().clone();
        Some((ordered, Some(orders)))
    })
    // A lock that is given up orders nothing more.
    .chain(stream::pending())
}

async fn sleep_until(at: Option<Timestamp>) {
    match at {
        None => std::future::pending().await,
        Some(at) => {
            let left = at.duration_since(nodecfg_clock::now());
            tokio::time::sleep(left.try_into().unwrap_or_default()).await;
        }
    }
}
