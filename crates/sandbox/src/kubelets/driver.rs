//! Event loop that runs all simulated kubelets against an API server: one watch each of Nodes and ConfigMaps, one
//! timer queue, and limited concurrent writes.
//!
//! The driver runs one kubelet for every watched Node. It creates only Events and changes only `status.config` and
//! the Ready condition; [`SimKubelet`] decides the content.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};

use kube::Client;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::config_maps::{ConfigMaps, Lookup};
use super::fault::Fault;
use super::host_spec::HostSpec;
use super::machine::{ObservedNode, SimKubelet, supports_dynamic_config};
use super::options::Options;
use super::requests::{ConfigMapMeta, Node};
use super::send::{Effect, TaskResult, load, send};
use super::signals::{Input, Moment, Output, SpecSource};
use crate::running::{Inputs, RunningCache, minor_of};
use crate::watch::Change;
use kubelet_config::Minor;
use nodecfg_contract::distinct::Distinct;
use nodecfg_contract::names::NodeName;
use nodecfg_contract::{ConfigMapSource, ConfigSource};

/// Command to the driver from its handle.
pub(super) enum Command {
    /// Change the fault of a node; the reply is `true` if the node has a simulated kubelet.
    Inject(NodeName, Option<Fault>, oneshot::Sender<bool>),
    /// Finish open requests, then stop.
    Stop,
}

/// One kubelet with its queued requests.
struct Slot {
    name: NodeName,
    /// Version whose rules apply to loaded configurations.
    minor: Minor,
    kubelet: SimKubelet,
    wake: Option<Moment>,
    waiting: Vec<Effect>,
    /// Set while requests of this kubelet are queued or running. They run one by one, so that an older status cannot
    /// arrive after a newer one.
    busy: bool,
}

/// All kubelets and their shared state.
pub(super) struct Driver {
    client: Client,
    options: Options,
    began: Instant,
    /// Indexes are never reused, so that a late response cannot reach another kubelet.
    slots: Vec<Option<Box<Slot>>>,
    by_name: HashMap<NodeName, usize>,
    timers: BinaryHeap<Reverse<(Moment, usize)>>,
    config_maps: ConfigMaps,
    cache: RunningCache,
    /// Sources of Node specs, shared by the kubelets that use them.
    sources: Distinct<ConfigMapSource>,
    queue: VecDeque<usize>,
    sending: usize,
    tasks: JoinSet<TaskResult>,
}

impl Driver {
    pub(super) fn new(client: Client, options: Options) -> Self {
        Self {
            client,
            options,
            began: nodecfg_clock::instant(),
            slots: Vec::new(),
            by_name: HashMap::new(),
            timers: BinaryHeap::new(),
            config_maps: ConfigMaps::default(),
            cache: RunningCache::default(),
            sources: Distinct::default(),
            queue: VecDeque::new(),
            sending: 0,
            tasks: JoinSet::new(),
        }
    }

    fn now(&self) -> Moment {
        Moment(self.began.elapsed().mul_f64(self.options.speed))
    }

    /// Runs until a stop command or until the handle is dropped, then waits for open requests.
    pub(super) async fn run(
        mut self,
        mut nodes: mpsc::Receiver<Change<Node>>,
        mut config_maps: mpsc::Receiver<Change<ConfigMapMeta>>,
        mut commands: mpsc::UnboundedReceiver<Command>,
    ) {
        loop {
            self.dispatch();
            let timer = self.timers.peek().map(|Reverse((at, _))| self.began + at.0.div_f64(self.options.speed));
            tokio::select! {
                Some(change) = nodes.recv() => self.node_changed(change),
                Some(change) = config_maps.recv() => self.config_map_changed(change),
                Some(done) = self.tasks.join_next(), if !self.tasks.is_empty() => self.task_done(done),
                () = sleep_until(timer), if timer.is_some() => self.wake_kubelets(),
                command = commands.recv() => match command {
                    Some(Command::Inject(node, fault, reply)) => {
                        let slot = self.by_name.get(&node).copied();
                        if let Some(slot) = slot {
                            self.step(slot, Input::Fault(fault));
                        }
                        // The sender may have stopped waiting.
                        let _ = reply.send(slot.is_some());
                    }
                    Some(Command::Stop) | None => break,
                },
            }
        }
        while self.tasks.join_next().await.is_some() {}
    }

    /// Applies a complete list of Nodes.
    pub(super) fn nodes_listed(&mut self, all: Vec<Node>) {
        let names: HashSet<&str> = all.iter().map(|node| node.metadata.name.as_str()).collect();
        let removed: Vec<NodeName> =
            self.by_name.keys().filter(|name| !names.contains(name.as_str())).cloned().collect();
        for name in removed {
            self.remove(&name);
        }
        for node in all {
            self.node_seen(node);
        }
    }

    fn node_changed(&mut self, change: Change<Node>) {
        match change {
            Change::Relist(all) => self.nodes_listed(all),
            Change::Applied(node) => self.node_seen(node),
            Change::Deleted(node) => {
                if let Ok(name) = NodeName::new(node.metadata.name) {
                    self.remove(&name);
                }
            }
        }
    }

    fn remove(&mut self, name: &NodeName) {
        if let Some(slot) = self.by_name.remove(name).and_then(|number| self.slots.get_mut(number)) {
            *slot = None;
        }
    }

    fn node_seen(&mut self, node: Node) {
        let Ok(name) = NodeName::new(node.metadata.name) else { return };
        let wanted = match node.spec.config_source {
            None => SpecSource::Local,
            Some(ConfigSource { config_map: None }) => SpecSource::Empty,
            Some(ConfigSource { config_map: Some(source) }) => SpecSource::ConfigMap(self.sources.share(source)),
        };
        let version = &node.status.node_info.kubelet_version;
        let dynamic = supports_dynamic_config(version);
        let minor = minor_of(version);
        let number = match self.by_name.get(&name) {
            Some(number) if self.slot(*number).is_some_and(|slot| slot.kubelet.is_dynamic() == dynamic) => *number,
            // A new Node, or its kubelet was replaced by another version.
            _ => {
                let rng = fastrand::Rng::with_seed(seed_of(self.options.seed, &name));
                let fault = self.options.faults.of(&name);
                let host = HostSpec::of(&node.metadata.annotations);
                let file = Inputs::of_file(minor, host.own_file().as_bytes());
                let own = self.cache.of(Inputs { flags: host.arguments(fault.as_ref()), ..file });
                let fault = match own.configuration() {
                    Ok(_) => fault,
                    Err(error) => {
                        tracing::warn!(node = %name, "the simulated kubelet does not start: {error}");
                        Some(Fault::Deaf)
                    }
                };
                let seen = ObservedNode { dynamic, wanted: wanted.clone(), status: node.status.config.as_ref() };
                let kubelet = SimKubelet::new(seen, fault, self.options.heartbeat, rng, self.now());
                let slot = Slot { name: name.clone(), minor, kubelet, wake: None, waiting: Vec::new(), busy: false };
                self.remove(&name);
                self.slots.push(Some(Box::new(slot)));
                self.by_name.insert(name, self.slots.len() - 1);
                self.slots.len() - 1
            }
        };
        if let Some(slot) = self.slots.get_mut(number).and_then(Option::as_deref_mut) {
            slot.minor = minor;
        }
        self.step(number, Input::Node(wanted));
    }

    fn config_map_changed(&mut self, change: Change<ConfigMapMeta>) {
        let (meta, version) = match change {
            Change::Relist(_) => {
                self.config_maps.clear();
                return self.notify_kubelets(|_| true);
            }
            Change::Applied(ConfigMapMeta { metadata, .. }) => {
                let version = metadata.resource_version.clone();
                (metadata, version)
            }
            Change::Deleted(ConfigMapMeta { metadata, .. }) => (metadata, String::new()),
        };
        let key = (meta.namespace, meta.name);
        let concerns = |source: &ConfigMapSource| source.namespace == key.0 && source.name == key.1;
        if self.config_maps.changed(&key, &version) && self.sources.iter().any(concerns) {
            self.notify_kubelets(concerns);
        }
    }

    /// Notifies the kubelets that use a matching source of its change.
    fn notify_kubelets(&mut self, concerns: impl Fn(&ConfigMapSource) -> bool) {
        let concerned = |slot: &Slot| slot.kubelet.spec_source().is_some_and(&concerns);
        let numbers: Vec<usize> = (self.slots.iter().enumerate())
            .filter_map(|(number, slot)| slot.as_deref().filter(|slot| concerned(slot)).map(|_| number))
            .collect();
        for number in numbers {
            self.step(number, Input::ConfigMapChanged);
        }
    }

    fn wake_kubelets(&mut self) {
        let now = self.now();
        while let Some(Reverse((at, number))) = self.timers.peek().copied().filter(|Reverse((at, _))| *at <= now) {
            self.timers.pop();
            // A replaced timer stays in the queue and is ignored.
            if let Some(slot) = self.slots.get_mut(number).and_then(Option::as_deref_mut)
                && slot.wake == Some(at)
            {
                slot.wake = None;
                self.step(number, Input::Timer);
            }
        }
    }

    fn slot(&self, number: usize) -> Option<&Slot> {
        self.slots.get(number).and_then(Option::as_deref)
    }

    /// Steps one kubelet and carries out its outputs.
    fn step(&mut self, number: usize, input: Input) {
        let now = self.now();
        let mut next = Some(input);
        while let Some(input) = next.take() {
            let Some(slot) = self.slots.get_mut(number).and_then(Option::as_deref_mut) else { return };
            let mut wake = None;
            for output in slot.kubelet.step(input, now) {
                match output {
                    Output::WakeAt(at) => wake = Some(at),
                    Output::PatchConfig(config) => slot.waiting.push(Effect::Config(config)),
                    Output::Ready { ready, changed } => slot.waiting.push(Effect::Ready { ready, changed }),
                    Output::Aftermath(aftermath) => slot.waiting.push(Effect::Aftermath(aftermath)),
                    Output::Event { reason, message } => {
                        if self.options.events {
                            slot.waiting.push(Effect::Event { reason, message });
                        }
                    }
                    Output::Fetch(source) => match self.config_maps.look_up(number, slot.minor, &source) {
                        Lookup::Cached(download) => next = Some(Input::Fetched(download)),
                        Lookup::Pending => {}
                        Lookup::Download(key) => {
                            self.tasks.spawn(load(self.client.clone(), key));
                        }
                    },
                }
            }
            if let Some(at) = wake.filter(|_| slot.wake != wake) {
                self.timers.push(Reverse((at, number)));
            }
            slot.wake = wake;
            if !slot.waiting.is_empty() && !slot.busy {
                slot.busy = true;
                self.queue.push_back(number);
            }
        }
    }

    /// Starts queued requests up to the concurrency limit.
    fn dispatch(&mut self) {
        while self.sending < self.options.concurrency.max(1) {
            let Some(number) = self.queue.pop_front() else { return };
            let Some(slot) = self.slots.get_mut(number).and_then(Option::as_deref_mut) else { continue };
            let effects = std::mem::take(&mut slot.waiting);
            self.sending += 1;
            self.tasks.spawn(send(self.client.clone(), slot.name.clone(), number, effects));
        }
    }

    fn task_done(&mut self, done: Result<TaskResult, tokio::task::JoinError>) {
        match done {
            Ok(TaskResult::Sent { slot: number, config_lost }) => {
                self.sending -= 1;
                if let Some(slot) = self.slots.get_mut(number).and_then(Option::as_deref_mut) {
                    slot.busy = !slot.waiting.is_empty();
                    if slot.busy {
                        self.queue.push_back(number);
                    }
                    if config_lost {
                        self.step(number, Input::StatusLost);
                    }
                }
            }
            Ok(TaskResult::Loaded { key, outcome }) => {
                for (number, download) in self.config_maps.loaded(key, outcome) {
                    self.step(number, Input::Fetched(download));
                }
            }
            Err(error) => tracing::error!(%error, "a request task of a simulated kubelet failed"),
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    if let Some(at) = at {
        tokio::time::sleep_until(at).await;
    }
}

/// Seed of one node's jitter, independent of the order of nodes.
pub(crate) fn seed_of(seed: u64, name: &NodeName) -> u64 {
    let hash = blake3::hash(name.as_str().as_bytes());
    hash.as_bytes().iter().take(8).fold(seed, |seed, byte| seed.rotate_left(8) ^ u64::from(*byte))
}
