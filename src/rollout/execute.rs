//! Driver of a rollout: sends the requests of the state machine to the cluster, and passes responses, watch events,
//! time, orders and stop signals to the machine. Must not decide.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::{Pin, pin};
use std::time::Duration;

use futures::stream::FuturesUnordered;
use futures::{Stream, StreamExt as _, stream};
use jiff::Timestamp;
use tokio::sync::watch;

use super::kubernetes_events::EventSender;
use super::pod_watches::PodWatches;
use super::prepare::check_permissions;
use super::requests::{Queue, Request, Response, send};
use super::{Rollout, prepare};
use crate::gates::GateWatch;
use nodecfg_clock::ScaledClock;
use nodecfg_cluster::{ClusterError, ClusterReader, ClusterWriter, NodeEvent};
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_contract::pool_pointer::PoolPointer;
use nodecfg_fleet::gates::{Gate, Question};
use nodecfg_observed::{Node, Orders, Pod};
use nodecfg_plan::state::State;
use nodecfg_plan::{Plan, belongs, decide_again};
use nodecfg_rollout::evictions::PodChange;
use nodecfg_rollout::instant::{Instant, Now};
use nodecfg_rollout::judge::Asked;
use nodecfg_rollout::machine::{Command, Input, Mode, StateMachine};
use nodecfg_rollout::orders::OrderWatcher;
use nodecfg_rollout::progress::{Event, Progress};
use nodecfg_rollout::{Outcome, StopReason, state_machine};

#[cfg(test)]
mod tests;
#[cfg(test)]
#[cfg(feature = "sandbox")]
mod wire_tests;

/// Requested stop of a rollout.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// No stop.
    #[default]
    No,
    /// Start no further nodes, and finish nodes in transition.
    Gently,
    /// End at once.
    Now,
}

/// Result of a rollout.
#[derive(Debug)]
pub struct Execution {
    /// Outcome of each node.
    pub outcome: Outcome,
    /// The first error: of an assignment or of the release of a mark that was refused, or the one that ended the rollout
    /// early.
    pub error: Option<ClusterError>,
    /// True if the loss of the fleet's lock ended the rollout.
    pub lock_lost: bool,
}

/// Watches the nodes of a plan converge without writing anything. `no_sync` ends when no sync of the fleet runs, and the
/// watch delivers what the last one wrote.
pub async fn verify(
    rollout: Rollout<'_>,
    reader: &ClusterReader,
    no_sync: impl Future<Output = ()>,
    stop: watch::Receiver<Stop>,
    listener: &mut dyn FnMut(Timestamp, &Event),
) -> Execution {
    let mut no_sync = pin!(no_sync);
    let signals = StopSignals { lock_lost: None, orders: None, no_sync: Some(no_sync.as_mut()), stop };
    run(rollout, reader, None, signals, listener).await
}

/// Executes a plan. The lock must be held while `writer` is used; `lock_lost` ends after its loss. `orders` are the
/// orders for the holder of the lock; orders given after the plan are obeyed.
///
/// # Errors
/// A missing permission, before the first write. A failed creation of a ConfigMap, before the first change of a node.
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
        let list_pods = prepare::may_list_pods(rollout.plan, reader).await?;
        let refused = prepare::before_assignments(rollout.plan, writer, listener).await?;
        Ok::<_, ClusterError>((list_pods, refused))
    };
    let mut requested = stop.clone();
    let (list_pods, refused) = tokio::select! {
        prepared = prepare => prepared?,
        // No node was changed; created ConfigMaps serve the next run.
        Ok(_) = requested.wait_for(|stop| *stop >= Stop::Gently) => (false, None),
    };
    let rollout = Rollout { mode: Mode { list_pods, ..rollout.mode }, ..rollout };
    let mut events = EventSender::start(writer.clone(), &rollout);
    let mut execution = {
        let mut listen = |now: Timestamp, event: &Event| {
            events.send(now, event);
            listener(now, event);
        };
        let mut lost = pin!(lock_lost);
        let signals = StopSignals { lock_lost: Some(lost.as_mut()), orders: Some(orders), no_sync: None, stop };
        run(rollout, reader, Some(writer), signals, &mut listen).await
    };
    events.finish().await;
    execution.error = execution.error.or(refused);
    Ok(execution)
}

/// Signals that end a rollout or a part of it early.
struct StopSignals<'a> {
    /// Ends when the lock is lost. `None`: no lock is held.
    lock_lost: Option<Pin<&'a mut (dyn Future<Output = String> + 'a)>>,
    /// Orders given during the rollout. `None`: the run takes no orders.
    orders: Option<watch::Receiver<Orders>>,
    /// Ends when no sync runs that could assign nodes. `None`: this run assigns them.
    no_sync: Option<Pin<&'a mut (dyn Future<Output = ()> + 'a)>>,
    /// Stop requested by the user.
    stop: watch::Receiver<Stop>,
}

async fn run(
    rollout: Rollout<'_>,
    reader: &ClusterReader,
    writer: Option<&ClusterWriter>,
    mut signals: StopSignals<'_>,
    listener: &mut dyn FnMut(Timestamp, &Event),
) -> Execution {
    let mut runner = Runner::new(rollout, listener);
    if *signals.stop.borrow() >= Stop::Gently {
        runner.step(Input::Stop(StopReason::Interrupted));
    }
    if let Some(orders) = &mut signals.orders {
        let ordered = orders.borrow_and_update().clone();
        runner.apply_orders(&ordered);
    }
    // The observed state of the plan; the watch yields later changes. Settled nodes may be on trial.
    let pools = &rollout.plan.pools;
    let settled = pools.iter().flat_map(|pool| &pool.left_alone).filter(|left| left.why.state() == State::Settled);
    runner.observe_planned(settled.map(|left| &left.node));
    runner.step(Input::Start);
    runner.observe_planned(pools.iter().flat_map(|pool| pool.steps()).map(|step| &step.node));
    // A kubelet that has just started looks like one that follows no assignments.
    let blocked = pools.iter().flat_map(|pool| &pool.left_alone).filter(|left| left.why.is_blocked());
    let is_accepting = rollout.mode.new_nodes_within.is_some();
    runner.observe_planned(blocked.filter(|_| is_accepting).map(|left| &left.node));
    runner.drive(reader, writer, signals).await;
    Execution { outcome: runner.machine.outcome(), error: runner.error, lock_lost: runner.lock_lost }
}

fn pools_by_node(plan: &Plan) -> BTreeMap<NodeName, PoolName> {
    plan.pools.iter().flat_map(|pool| pool.steps().map(|step| (step.node.clone(), pool.name.clone()))).collect()
}

/// Asks the questions of a node's own gates.
async fn ask_permit(rollout: Rollout<'_>, node: NodeName, questions: BTreeSet<Question>) -> (NodeName, Vec<Asked>) {
    let answers = match rollout.gates {
        Some(evaluator) => evaluator.ask(&questions, rollout.clock).await,
        // Without it, the machine asks nothing.
        None => Vec::new(),
    };
    (node, answers)
}

/// The next answer to a gate. Never ends without gates.
async fn next_answer(gates: &mut Option<GateWatch>) -> Option<Asked> {
    match gates {
        Some(watch) => watch.next().await,
        None => std::future::pending().await,
    }
}

/// Change of the watches of pods.
enum PodWatch {
    Open(NodeName),
    Close(NodeName),
}

struct Runner<'a> {
    rollout: Rollout<'a>,
    pool_of: BTreeMap<NodeName, PoolName>,
    machine: Box<dyn StateMachine>,
    queue: Queue,
    /// Changes of pod watches that were not carried out yet.
    pod_watches: Vec<PodWatch>,
    /// Questions of the gates of single nodes that were not asked yet.
    permits: Vec<(NodeName, BTreeSet<Question>)>,
    error: Option<ClusterError>,
    /// Whether a failed list of pods was logged.
    unlisted: bool,
    lock_lost: bool,
    orders: OrderWatcher,
    listener: &'a mut dyn FnMut(Timestamp, &Event),
}

impl<'a> Runner<'a> {
    fn new(rollout: Rollout<'a>, listener: &'a mut dyn FnMut(Timestamp, &Event)) -> Self {
        Self {
            rollout,
            pool_of: pools_by_node(rollout.plan),
            machine: state_machine(rollout.plan, rollout.mode),
            queue: Queue::default(),
            pod_watches: Vec::new(),
            permits: Vec::new(),
            error: None,
            unlisted: false,
            lock_lost: false,
            orders: OrderWatcher::new(&rollout.observed.orders, !rollout.options.despite_pause.is_empty()),
            listener,
        }
    }

    /// Passes the state of these nodes that the plan considered.
    fn observe_planned<'n>(&mut self, names: impl Iterator<Item = &'n NodeName>) {
        let observed = self.rollout.observed;
        for node in names.filter_map(|name| observed.nodes.get(name)) {
            self.step(Input::Observed(Box::new(node.clone())));
        }
    }

    /// The present, by the clock of the limits and by the real time of day.
    fn now(&self) -> Now {
        Now { instant: Instant::after_start(self.rollout.clock.elapsed()), time: nodecfg_clock::now() }
    }

    fn step(&mut self, input: Input) {
        let now = self.now();
        let mut stopped = Vec::new();
        for command in self.machine.step(input, now) {
            match self.queue.add(command) {
                Some(Command::Report(event)) => {
                    (self.listener)(now.time, &event);
                    if let Progress::Stopped { .. } = event.progress {
                        stopped.extend(event.pool);
                    }
                }
                Some(Command::WatchPods(node)) => self.pod_watches.push(PodWatch::Open(node)),
                Some(Command::UnwatchPods(node)) => {
                    self.queue.end_drain(&node);
                    self.pod_watches.push(PodWatch::Close(node));
                }
                Some(Command::MovePointer(pool, pointer)) => self.move_pointer(&pool, *pointer),
                Some(Command::AskPermit(node, questions)) => self.permits.push((node, questions)),
                _ => {}
            }
        }
        for pool in stopped {
            self.withdraw(&pool);
        }
    }

    /// Requests the move of a pointer before all other requests: each new node starts with what it names.
    fn move_pointer(&mut self, pool: &PoolName, pointer: PoolPointer) {
        let plan = self.rollout.plan;
        let planned = plan.pools.iter().find(|other| other.name == *pool).and_then(|pool| pool.pointer.as_ref());
        if let Some(planned) = planned {
            let spec = prepare::pointer_spec(plan, pool, planned, pointer);
            self.queue.add_first(Request::MovePointer(Box::new(spec)));
        }
    }

    async fn drive(&mut self, reader: &ClusterReader, writer: Option<&ClusterWriter>, signals: StopSignals<'_>) {
        let StopSignals { lock_lost, orders, no_sync, mut stop } = signals;
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
        let mut no_sync = pin!(stream::iter(no_sync).then(|no_sync| no_sync).chain(stream::pending()));
        let mut in_flight = FuturesUnordered::new();
        let mut pods = PodWatches::default();
        let mut gates = self.watch_gates();
        let mut permits = FuturesUnordered::new();
        loop {
            for change in std::mem::take(&mut self.pod_watches) {
                match change {
                    PodWatch::Open(node) => pods.open(node, reader),
                    PodWatch::Close(node) => pods.close(&node),
                }
            }
            for (node, questions) in std::mem::take(&mut self.permits) {
                permits.push(ask_permit(self.rollout, node, questions));
            }
            while in_flight.len() < self.rollout.mode.concurrency.max(1) {
                let Some(request) = self.queue.next() else { break };
                in_flight.push(send(request, reader, writer));
            }
            if self.lock_lost || (self.machine.is_finished() && in_flight.is_empty()) {
                return;
            }
            let tick = sleep(self.rollout.clock, self.machine.next_tick().map(|tick| tick.since(self.now().instant)));
            tokio::select! {
                Some(response) = in_flight.next() => self.handle_response(response),
                event = nodes.next() => match event {
                    Some(Ok(event)) => self.apply_event(event),
                    Some(Err(error)) => return self.cut_short(StopReason::ClusterFailed { error: error.to_string() }, Some(error)),
                    None => {
                        let error = "the watch of Nodes ended".to_owned();
                        return self.cut_short(StopReason::ClusterFailed { error }, None);
                    }
                },
                (node, change) = pods.next() => self.pods_changed(node, change),
                Some((node, answers)) = permits.next() => self.step(Input::PermitAnswered(node, answers)),
                Some(asked) = next_answer(&mut gates) => self.step(Input::Gate(Box::new(asked))),
                () = tick => self.step(Input::Tick),
                reason = &mut lock_lost => {
                    tracing::error!("the lock was lost: {reason}");
                    self.lock_lost = true;
                    return self.cut_short(StopReason::LockLost, None);
                }
                Some(orders) = orders.next() => self.apply_orders(&orders),
                Some(()) = no_sync.next() => self.step(Input::NoSync { joining: self.rollout.desired.pool_pointers }),
                Ok(()) = stop.changed() => {
                    let wanted = *stop.borrow_and_update();
                    if wanted >= Stop::Gently {
                        self.step(Input::Stop(StopReason::Interrupted));
                    }
                    // Without assignments nothing is left to finish.
                    if wanted == Stop::Now || !self.rollout.mode.assign {
                        return;
                    }
                }
            }
        }
    }

    /// Starts to ask the gates of the pools that change nodes. `None` without gates.
    fn watch_gates(&self) -> Option<GateWatch> {
        let (evaluator, interval) = (self.rollout.gates?, self.rollout.mode.gates?);
        let pools = self.rollout.plan.pools.iter().filter(|pool| pool.steps().next().is_some());
        let gates = pools.flat_map(|pool| &pool.policy.gates).filter(|gate| !gate.at.is_empty() && !gate.is_of_nodes());
        let questions: BTreeSet<Question> = gates.map(Gate::question).collect();
        let clock = self.rollout.clock.clone();
        (!questions.is_empty()).then(|| GateWatch::start(evaluator.clone(), questions, interval, clock))
    }

    /// Passes orders that were given during the rollout to the machine.
    fn apply_orders(&mut self, orders: &Orders) {
        for input in self.orders.new_inputs(orders) {
            self.step(input);
        }
    }

    /// Withdraws the queued assignments of a stopped pool.
    fn withdraw(&mut self, pool: &PoolName) {
        for node in self.queue.withdraw(|node| self.pool_of.get(node) == Some(pool)) {
            self.step(Input::Withdrawn(node));
        }
    }

    /// Passes the pods of a node to the machine. One warning stands for all lists that fail, which fail no node.
    fn pods_listed(&mut self, node: NodeName, result: Result<Vec<Pod>, ClusterError>) {
        let pods = result.map_err(|error| {
            if !std::mem::replace(&mut self.unlisted, true) {
                tracing::warn!("the pods of node {node} are not checked, and perhaps those of others: {error}");
            }
            error.to_string()
        });
        self.step(Input::PodsListed(node, pods));
    }

    fn pods_changed(&mut self, node: NodeName, change: Result<PodChange, ClusterError>) {
        match change {
            Ok(change) => self.step(Input::Pods(node, change)),
            Err(error) => {
                self.step(Input::PodsUnknown(node, error.to_string()));
                self.error.get_or_insert(error);
            }
        }
    }

    fn cut_short(&mut self, reason: StopReason, error: Option<ClusterError>) {
        self.step(Input::Stop(reason));
        // An earlier error is the likely cause.
        self.error = self.error.take().or(error);
    }

    fn handle_response(&mut self, response: Response) {
        match response {
            Response::Assigned(node) => self.step(Input::Assigned(node)),
            Response::Changed(node) => self.queue.add_first(Request::Reread(node)),
            Response::Refused(_, error @ ClusterError::LockLost { .. })
            | Response::RolledBack(_, Err(error @ ClusterError::LockLost { .. }))
            | Response::Pointer(_, Err(error @ ClusterError::LockLost { .. }))
            | Response::Drain(_, Some(error @ ClusterError::LockLost { .. })) => {
                tracing::error!("{error}");
                self.lock_lost = true;
                self.step(Input::Stop(StopReason::LockLost));
            }
            Response::Refused(node, error) => {
                self.step(Input::Refused(node, error.to_string()));
                // An error that is not about this node meets the next nodes as well. The failures stop the machine;
                // the user gets the first error with its fix.
                self.error.get_or_insert(error);
            }
            Response::RolledBack(node, result) => {
                self.step(Input::RolledBack(node, result.map_err(|error| error.to_string())));
            }
            Response::Pods(node, result) => self.pods_listed(node, result),
            Response::Pointer(pool, Ok(())) => self.step(Input::PointerMoved(pool, Ok(()))),
            Response::Pointer(pool, Err(error)) => {
                self.step(Input::PointerMoved(pool, Err(error.to_string())));
                self.error.get_or_insert(error);
            }
            Response::Drain(inputs, error) => {
                for input in inputs {
                    self.step(input);
                }
                self.error = self.error.take().or(error);
            }
            Response::Reread(node, current) => match *current {
                Ok(current) => {
                    let decision = current.map(|current| {
                        let Rollout { desired, observed, options, .. } = self.rollout;
                        let pool = self.pool_of.get(&node);
                        let decision = pool.and_then(|pool| decide_again(desired, observed, options, pool, &current));
                        Box::new((current, decision))
                    });
                    self.step(Input::Changed(node, decision));
                }
                Err(error) => {
                    self.step(Input::Refused(node, error.to_string()));
                    self.error.get_or_insert(error);
                }
            },
        }
    }

    fn apply_event(&mut self, event: NodeEvent) {
        match event {
            NodeEvent::Upsert(node) => self.observed(node),
            NodeEvent::Deleted(node) => self.step(Input::Gone(node)),
            NodeEvent::Relisted(nodes) => {
                let present: BTreeSet<NodeName> = nodes.iter().map(|node| node.name.clone()).collect();
                for node in self.machine.missing(&present) {
                    self.step(Input::Gone(node));
                }
                for node in nodes {
                    self.observed(Box::new(node));
                }
            }
        }
    }

    /// Passes an observed node to the machine. Checks first whether the node still belongs to its pool, because an
    /// assignment does not test labels.
    fn observed(&mut self, node: Box<Node>) {
        if self.pool_of.get(&node.name).is_none_or(|pool| belongs(self.rollout.desired, pool, &node)) {
            return self.step(Input::Observed(node));
        }
        // An assignment that was not sent meets a node that left its pool.
        for name in self.queue.withdraw(|name| *name == node.name) {
            self.step(Input::Changed(name, Some(Box::new((Node::clone(&node), None)))));
        }
        self.step(Input::Unselected(node));
    }
}

/// Every later change of the orders. Never yields without a receiver.
fn new_orders(orders: Option<watch::Receiver<Orders>>) -> impl Stream<Item = Orders> {
    stream::unfold(orders, |orders| async {
        let mut orders = orders?;
        orders.changed().await.ok()?;
        let ordered = orders.borrow_and_update().clone();
        Some((ordered, Some(orders)))
    })
    // A released lock yields no more orders.
    .chain(stream::pending())
}

/// Completes after this duration of a clock. Never completes without one.
async fn sleep(clock: &ScaledClock, duration: Option<Duration>) {
    match duration {
        None => std::future::pending().await,
        Some(duration) => clock.sleep(duration).await,
    }
}
