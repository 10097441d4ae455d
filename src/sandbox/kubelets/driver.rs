//! Runs simulated kubelets against an API server: one watch of Nodes and one of ConfigMaps for all of them, one queue of
//! timers, and a bounded number of requests at a time.
//!
//! There is one kubelet for every Node that the watch shows, whoever created it. The driver creates nothing but Events and
//! changes nothing but `status.config` and the Ready condition; what to write is up to [`SimKubelet`].

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use super::config_maps::{Asked, ConfigMaps, Key};
use super::fault::{Fault, Faults};
use super::machine::{Input, Moment, Output, SimKubelet, Wanted, supports_dynamic_config};
use super::watch::{Change, Collection};
use super::wire::{self, ConfigMap, ConfigMapMeta, Node};
use crate::clock;
use crate::contract::{ConfigMapSource, ConfigSource};
use crate::names::NodeName;

/// How often a request whose outcome must arrive is tried.
const ATTEMPTS: u32 = 8;
/// Changes that may wait to be taken.
const BACKLOG: usize = 256;

/// How to run the kubelets.
#[derive(Debug, Clone)]
pub struct Options {
    /// How many times faster than real their time runs; above 0.
    pub speed: f64,
    /// Seed of all jitter. A node's jitter depends on the seed and its name alone.
    pub seed: u64,
    /// Which kubelets misbehave from the start, those of Nodes that appear later included.
    pub faults: Faults,
    /// Whether kubelets emit Events: two for each restart.
    pub events: bool,
    /// How often, in simulated time, a kubelet reports readiness that has not changed; `None` is never. Real ones do it
    /// every 5 minutes. With many nodes this is what an API server is busiest with.
    pub heartbeat: Option<Duration>,
    /// Requests at a time, at least 1.
    pub concurrency: usize,
    /// Label selector of the Nodes that have a simulated kubelet; `None` means all.
    pub selector: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            speed: 1.0,
            seed: 0,
            faults: Faults::default(),
            events: true,
            heartbeat: None,
            concurrency: 32,
            selector: None,
        }
    }
}

/// Why the kubelets did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The speed is no usable number.
    #[error("simulated kubelets cannot run at speed {0}; use a number above 0, 1 being real time")]
    Speed(f64),
    /// The API server did not answer the first list.
    #[error(
        "simulated kubelets could not list {what}; check that the API server is up and grants list and watch: {source}"
    )]
    List {
        /// The resource.
        what: &'static str,
        /// What went wrong.
        source: Box<kube::Error>,
    },
}

/// Why a fault was not injected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InjectError {
    /// No simulated kubelet runs for this Node.
    #[error("node {0} has no simulated kubelet; create the Node first, or check its name")]
    UnknownNode(NodeName),
    /// The kubelets were stopped.
    #[error("the simulated kubelets have stopped")]
    Stopped,
}

enum Command {
    Inject(NodeName, Option<Fault>, oneshot::Sender<bool>),
    Stop,
}

/// Running simulated kubelets. Dropping it stops them at once.
#[derive(Debug)]
pub struct Kubelets {
    commands: mpsc::UnboundedSender<Command>,
    driver: Option<JoinHandle<()>>,
    watches: [JoinHandle<()>; 2],
}

impl Kubelets {
    /// Starts a kubelet for every Node there is and every Node that appears later. Returns when the first have started.
    ///
    /// # Errors
    /// When the speed is unusable, or Nodes and ConfigMaps cannot be listed. Later trouble with the server is survived.
    pub async fn start(client: Client, options: Options) -> Result<Self, StartError> {
        if !(options.speed.is_finite() && options.speed > 0.0) {
            return Err(StartError::Speed(options.speed));
        }
        let nodes = Collection { path: wire::NODES, labels: options.selector.clone(), only_changes: false };
        let config_maps = Collection { path: wire::CONFIG_MAPS, labels: None, only_changes: true };
        let failed = |what| move |source| StartError::List { what, source: Box::new(source) };
        let (_, config_map_version) = config_maps.list::<ConfigMapMeta>(&client).await.map_err(failed("ConfigMaps"))?;
        let (all, node_version) = nodes.list::<Node>(&client).await.map_err(failed("Nodes"))?;

        let (node_sender, node_changes) = mpsc::channel(BACKLOG);
        let (config_map_sender, config_map_changes) = mpsc::channel(BACKLOG);
        let watches = [
            tokio::spawn(nodes.follow(client.clone(), node_version, node_sender)),
            tokio::spawn(config_maps.follow(client.clone(), config_map_version, config_map_sender)),
        ];
        let (commands, received) = mpsc::unbounded_channel();
        let mut driver = Driver::new(client, options);
        driver.nodes_listed(all);
        let driver = Some(tokio::spawn(driver.run(node_changes, config_map_changes, received)));
        Ok(Self { commands, driver, watches })
    }

    /// Makes the kubelet of a node misbehave from now on, or with `None` mends it.
    ///
    /// # Errors
    /// When no simulated kubelet runs for this node.
    pub async fn inject(&self, node: &NodeName, fault: Option<Fault>) -> Result<(), InjectError> {
        let (reply, replied) = oneshot::channel();
        let sent = self.commands.send(Command::Inject(node.clone(), fault, reply));
        match (sent, replied.await) {
            (Ok(()), Ok(true)) => Ok(()),
            (Ok(()), Ok(false)) => Err(InjectError::UnknownNode(node.clone())),
            _ => Err(InjectError::Stopped),
        }
    }

    /// Stops all kubelets; requests that are under way are finished first.
    pub async fn stop(mut self) {
        // A driver that has ended already needs no telling.
        let _ = self.commands.send(Command::Stop);
        if let Some(driver) = self.driver.take()
            && let Err(error) = driver.await
        {
            tracing::warn!(%error, "the simulated kubelets ended badly");
        }
    }
}

impl Drop for Kubelets {
    fn drop(&mut self) {
        for task in self.watches.iter().chain(&self.driver) {
            task.abort();
        }
    }
}

/// What a kubelet sends.
enum Effect {
    Config(serde_json::Map<String, serde_json::Value>),
    Ready { ready: super::machine::Ready, changed: bool },
    Event { reason: &'static str, message: String },
}

/// One kubelet and what is waiting to be sent for it.
struct Slot {
    name: NodeName,
    kubelet: SimKubelet,
    wake: Option<Moment>,
    waiting: Vec<Effect>,
    /// Whether requests of its are queued or under way. They are sent one after another, so that a later status never
    /// arrives before an earlier one.
    busy: bool,
}

/// A finished task.
enum Done {
    Sent { slot: usize, config_lost: bool },
    Loaded { key: Key, outcome: Option<Option<ConfigMap>> },
}

struct Driver {
    client: Client,
    options: Options,
    began: Instant,
    /// Numbers are never used again, so that a late answer cannot reach another kubelet.
    slots: Vec<Option<Box<Slot>>>,
    by_name: HashMap<NodeName, usize>,
    timers: BinaryHeap<Reverse<(Moment, usize)>>,
    config_maps: ConfigMaps,
    /// Sources of specs, shared by the kubelets that have them.
    sources: HashSet<Arc<ConfigMapSource>>,
    queue: VecDeque<usize>,
    sending: usize,
    tasks: JoinSet<Done>,
}

impl Driver {
    fn new(client: Client, options: Options) -> Self {
        Self {
            client,
            options,
            began: Instant::now(),
            slots: Vec::new(),
            by_name: HashMap::new(),
            timers: BinaryHeap::new(),
            config_maps: ConfigMaps::default(),
            sources: HashSet::new(),
            queue: VecDeque::new(),
            sending: 0,
            tasks: JoinSet::new(),
        }
    }

    fn now(&self) -> Moment {
        Moment(self.began.elapsed().mul_f64(self.options.speed))
    }

    async fn run(
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
                        // Whoever asked may have stopped waiting.
                        let _ = reply.send(slot.is_some());
                    }
                    Some(Command::Stop) | None => break,
                },
            }
        }
        while self.tasks.join_next().await.is_some() {}
    }

    fn nodes_listed(&mut self, all: Vec<Node>) {
        let names: HashSet<&str> = all.iter().map(|node| node.metadata.name.as_str()).collect();
        let gone: Vec<NodeName> = self.by_name.keys().filter(|name| !names.contains(name.as_str())).cloned().collect();
        for name in gone {
            self.remove(&name);
        }
        for node in all {
            self.node_seen(node);
        }
    }

    fn node_changed(&mut self, change: Change<Node>) {
        match change {
            Change::All(all) => self.nodes_listed(all),
            Change::Set(node) => self.node_seen(node),
            Change::Gone(node) => {
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
            None => Wanted::Local,
            Some(ConfigSource { config_map: None }) => Wanted::Nothing,
            Some(ConfigSource { config_map: Some(source) }) => Wanted::ConfigMap(self.shared(source)),
        };
        let dynamic = supports_dynamic_config(&node.status.node_info.kubelet_version);
        let number = match self.by_name.get(&name) {
            Some(number) if self.slot(*number).is_some_and(|slot| slot.kubelet.is_dynamic() == dynamic) => *number,
            // New, or its kubelet was replaced by one of another version.
            _ => {
                let rng = fastrand::Rng::with_seed(seed_of(self.options.seed, &name));
                let fault = self.options.faults.of(&name);
                let (seen, heartbeat, now) = (node.status.config.as_ref(), self.options.heartbeat, self.now());
                let kubelet = SimKubelet::new(seen, dynamic, fault, heartbeat, rng, now);
                let slot = Slot { name: name.clone(), kubelet, wake: None, waiting: Vec::new(), busy: false };
                self.remove(&name);
                self.slots.push(Some(Box::new(slot)));
                self.by_name.insert(name, self.slots.len() - 1);
                self.slots.len() - 1
            }
        };
        self.step(number, Input::Node(wanted));
    }

    /// The same source as one value, however many Nodes name it.
    fn shared(&mut self, source: ConfigMapSource) -> Arc<ConfigMapSource> {
        if let Some(known) = self.sources.get(&source) {
            return Arc::clone(known);
        }
        // Sources come and go with every revision; those that nobody names any more are dropped now and then.
        if self.sources.len() >= 1024 && self.sources.len() >= self.by_name.len() * 2 {
            self.sources.retain(|source| Arc::strong_count(source) > 1);
        }
        let source = Arc::new(source);
        self.sources.insert(Arc::clone(&source));
        source
    }

    fn config_map_changed(&mut self, change: Change<ConfigMapMeta>) {
        let (meta, version) = match change {
            Change::All(_) => {
                self.config_maps.forget();
                return self.poke(|_| true);
            }
            Change::Set(ConfigMapMeta { metadata }) => {
                let version = metadata.resource_version.clone();
                (metadata, version)
            }
            Change::Gone(ConfigMapMeta { metadata }) => (metadata, String::new()),
        };
        let key = (meta.namespace, meta.name);
        let concerns = |source: &ConfigMapSource| source.namespace == key.0 && source.name == key.1;
        if self.config_maps.changed(&key, &version) && self.sources.iter().any(|source| concerns(source)) {
            self.poke(concerns);
        }
    }

    /// Tells the kubelets whose source is concerned that it changed.
    fn poke(&mut self, concerns: impl Fn(&ConfigMapSource) -> bool) {
        let concerned = |slot: &Slot| slot.kubelet.wants().is_some_and(&concerns);
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
            // A timer that was replaced stays in the queue and means nothing.
            if self.slot(number).is_some_and(|slot| slot.wake == Some(at)) {
                self.step(number, Input::Timer);
            }
        }
    }

    fn slot(&self, number: usize) -> Option<&Slot> {
        self.slots.get(number).and_then(Option::as_deref)
    }

    /// Steps one kubelet and sees to what it asks for.
    fn step(&mut self, number: usize, input: Input) {
        let now = self.now();
        let mut next = Some(input);
        while let Some(input) = next.take() {
            let Some(slot) = self.slots.get_mut(number).and_then(Option::as_deref_mut) else { return };
            slot.wake = None;
            for output in slot.kubelet.step(input, now) {
                match output {
                    Output::WakeAt(at) => {
                        slot.wake = Some(at);
                        self.timers.push(Reverse((at, number)));
                    }
                    Output::PatchConfig(config) => slot.waiting.push(Effect::Config(config)),
                    Output::Ready { ready, changed } => slot.waiting.push(Effect::Ready { ready, changed }),
                    Output::Event { reason, message } => {
                        if self.options.events {
                            slot.waiting.push(Effect::Event { reason, message });
                        }
                    }
                    Output::Fetch(source) => match self.config_maps.ask(number, &source) {
                        Asked::Answer(download) => next = Some(Input::Fetched(download)),
                        Asked::Wait => {}
                        Asked::Load(key) => {
                            self.tasks.spawn(load(self.client.clone(), key));
                        }
                    },
                }
            }
            if !slot.waiting.is_empty() && !slot.busy {
                slot.busy = true;
                self.queue.push_back(number);
            }
        }
    }

    /// Starts as many of the queued requests as may run.
    fn dispatch(&mut self) {
        while self.sending < self.options.concurrency.max(1) {
            let Some(number) = self.queue.pop_front() else { return };
            let Some(slot) = self.slots.get_mut(number).and_then(Option::as_deref_mut) else { continue };
            let effects = std::mem::take(&mut slot.waiting);
            self.sending += 1;
            self.tasks.spawn(send(self.client.clone(), slot.name.clone(), number, effects));
        }
    }

    fn task_done(&mut self, done: Result<Done, tokio::task::JoinError>) {
        match done {
            Ok(Done::Sent { slot: number, config_lost }) => {
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
            Ok(Done::Loaded { key, outcome }) => {
                for (number, download) in self.config_maps.loaded(key, outcome) {
                    self.step(number, Input::Fetched(download));
                }
            }
            Err(error) => tracing::error!(%error, "a request of a simulated kubelet ended badly"),
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    if let Some(at) = at {
        tokio::time::sleep_until(at).await;
    }
}

/// The seed of one node's jitter, whatever the order in which nodes appear.
fn seed_of(seed: u64, name: &NodeName) -> u64 {
    let hash = blake3::hash(name.as_str().as_bytes());
    hash.as_bytes().iter().take(8).fold(seed, |seed, byte| seed.rotate_left(8) ^ u64::from(*byte))
}

async fn load(client: Client, key: Key) -> Done {
    let outcome = match wire::get_config_map(&key.0, &key.1) {
        // A name that cannot be put into a path names no ConfigMap.
        Err(_) => Some(None),
        Ok(request) => match client.request::<ConfigMap>(request).await {
            Ok(config_map) => Some(Some(config_map)),
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => Some(None),
            Err(error) => {
                tracing::debug!(namespace = key.0, name = key.1, %error, "a simulated kubelet's download failed");
                None
            }
        },
    };
    Done::Loaded { key, outcome }
}

/// Sends what one kubelet has to send, in order.
async fn send(client: Client, name: NodeName, slot: usize, effects: Vec<Effect>) -> Done {
    let mut config_lost = false;
    for effect in effects {
        let node = name.as_str();
        let now = clock::now();
        let (what, request, attempts) = match &effect {
            // The status loop brings it again.
            Effect::Config(config) => ("status.config", wire::patch_config(node, config), 1),
            Effect::Ready { ready, changed } => ("Ready", wire::patch_ready(node, *ready, *changed, now), ATTEMPTS),
            Effect::Event { reason, message } => ("an Event", wire::post_event(node, reason, message, now), 2),
        };
        let sent = match request {
            Ok(request) => attempt(&client, request, attempts).await,
            Err(error) => Err(kube::Error::BuildRequest(error)),
        };
        let lost = match sent {
            Ok(()) => false,
            // The Node is gone, and its kubelet is about to be.
            Err(kube::Error::Api(status)) if status.code == 404 => false,
            Err(error) => {
                tracing::debug!(node, what, %error, "a simulated kubelet could not write");
                true
            }
        };
        if matches!(effect, Effect::Config(_)) {
            config_lost = lost;
        }
    }
    Done::Sent { slot, config_lost }
}

/// Sends a request until it is answered or refused for good, so many times at most.
async fn attempt(client: &Client, request: http::Request<Vec<u8>>, attempts: u32) -> Result<(), kube::Error> {
    let mut pause = Duration::from_millis(50);
    for _ in 1..attempts {
        match client.request_text(request.clone()).await {
            Ok(_) => return Ok(()),
            Err(kube::Error::Api(status)) if (400..500).contains(&status.code) && status.code != 429 => {
                return Err(kube::Error::Api(status));
            }
            Err(_) => tokio::time::sleep(pause).await,
        }
        pause *= 2;
    }
    client.request_text(request).await.map(|_| ())
}
