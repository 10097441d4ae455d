//! Start of the simulated kubelets without agents.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt as _;
use jiff::Timestamp;
use kube::Client;
use tokio::sync::watch;

use super::fault::Fault;
use super::host_spec::HostSpec;
use super::machine::{Loaded, SimKubelet, supports_dynamic_config};
use super::report::KubeletWrite;
use crate::api::ProxyResult;
use crate::machines::{
    self, ConfigMap, ConfigMapChange, Machine, Machines, NoPart, Node, Options, StartError, run_kubelet, seed_of,
    unreachable,
};
use crate::running::{Inputs, Running, RunningCache, minor_of};
use crate::watch::{self as watched, Change, Object};
use kubelet_config::Minor;
use nodecfg_clock::ScaledClock;
use nodecfg_contract::names::NodeName;
use nodecfg_contract::{ConfigMapSource, error_text};

/// Path of the ConfigMaps of all namespaces.
const CONFIG_MAPS: &str = "/api/v1/configmaps";

/// Starts a kubelet for every current and later Node.
///
/// # Errors
/// Fails for an invalid speed, or if Nodes or ConfigMaps cannot be listed.
pub async fn start(client: Client, options: Options) -> Result<Machines, StartError> {
    let clock = machines::clock(options.speed)?;
    let listed = watched::list::<Object<NoPart, NoPart>>(&client, CONFIG_MAPS).await;
    let failed = |source| StartError::List { what: "ConfigMaps", source: Box::new(source) };
    let (_, version) = listed.map_err(failed)?;
    let (cache, of_machines, follower) = (RunningCache::default(), clock.clone(), client.clone());
    let create = move |name: &NodeName, node: &Node| {
        let machine = Arc::new(KubeletMachine::new(name, node, &options, &of_machines, &cache));
        let (running, client) = (Arc::clone(&machine), client.clone());
        let (name, uid) = (name.clone(), node.metadata.uid.clone());
        let work = async move { run_kubelet(&*running, &client, &name, &uid).await };
        (machine as Arc<dyn Machine>, work.boxed())
    };
    let mut machines = Machines::start(follower.clone(), clock, Box::new(create)).await?;
    machines.follow(follower, CONFIG_MAPS, version, |running, change| {
        running.all().iter().for_each(|machine| machine.config_map_changed(&change));
    });
    Ok(machines)
}

/// Machine whose kubelet follows `configSource`, if its version supports that.
struct KubeletMachine {
    host: HostSpec,
    minor: Minor,
    cache: RunningCache,
    clock: ScaledClock,
    kubelet: Mutex<SimKubelet>,
    changed: watch::Sender<()>,
}

impl KubeletMachine {
    fn new(name: &NodeName, node: &Node, options: &Options, clock: &ScaledClock, cache: &RunningCache) -> Self {
        let host = HostSpec::of(&node.metadata.annotations);
        let version = &node.status.node_info.kubelet_version;
        let minor = minor_of(version);
        let fault = options.faults.of(name);
        let own = running(cache, &host, minor, None, fault.as_ref());
        let fault = match own.configuration() {
            Ok(_) => fault,
            Err(error) => {
                tracing::warn!(node = %name, "the simulated kubelet does not start: {error}");
                Some(Fault::Deaf)
            }
        };
        let (reports, seed) = (node.status.config.is_some(), seed_of(options.seed, name));
        let kubelet = SimKubelet::new(supports_dynamic_config(version), reports, fault, seed, clock.now());
        Self {
            host,
            minor,
            cache: cache.clone(),
            clock: clock.clone(),
            kubelet: Mutex::new(kubelet),
            changed: watch::Sender::new(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, SimKubelet> {
        self.kubelet.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the kubelet handle a change from outside.
    fn change(&self, change: impl FnOnce(&mut SimKubelet, Timestamp)) {
        change(&mut self.lock(), self.clock.now());
        self.changed.send_replace(());
    }
}

/// What a kubelet runs with a text in place of its own file.
fn running(
    cache: &RunningCache,
    host: &HostSpec,
    minor: Minor,
    text: Option<Arc<[u8]>>,
    fault: Option<&Fault>,
) -> Arc<Running> {
    let file = text.unwrap_or_else(|| host.own_file().as_bytes().into());
    cache.of(Inputs { minor, file, drop_ins: None, flags: host.arguments(fault) })
}

impl Machine for KubeletMachine {
    fn inject(&self, fault: Option<Fault>) {
        self.change(|kubelet, now| kubelet.set_fault(fault, now));
    }

    fn answer(&self, path: &str) -> ProxyResult {
        let kubelet = self.lock();
        if !kubelet.answers() {
            return unreachable();
        }
        let fault = kubelet.fault();
        running(&self.cache, &self.host, self.minor, kubelet.active_text(), fault).answer(path, fault)
    }

    fn clock(&self) -> &ScaledClock {
        &self.clock
    }

    fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    fn advance(&self) -> (Vec<KubeletWrite>, Option<Timestamp>) {
        self.lock().advance(self.clock.now())
    }

    fn node_changed(&self, node: &Node) {
        let source = node.spec.config_source.as_ref().and_then(|source| source.config_map.clone());
        self.change(|kubelet, now| kubelet.assign(source, now));
    }

    fn config_map_changed(&self, change: &ConfigMapChange) {
        let concerns = match change {
            Change::Relist(..) => true,
            Change::Applied(map) | Change::Deleted(map) => {
                self.lock().follows(&map.metadata.namespace, &map.metadata.name)
            }
        };
        if concerns {
            self.change(SimKubelet::config_map_changed);
        }
    }

    fn download(&self) -> Option<Arc<ConfigMapSource>> {
        self.lock().download()
    }

    fn downloaded(&self, config_map: Option<ConfigMap>) {
        let Some(wanted) = self.download() else { return };
        let loaded = config_map.map(|ConfigMap { metadata, data }| {
            let text = data.get(&wanted.kubelet_config_key).map(|text| Arc::from(text.as_bytes()));
            let refused = |text: &Arc<[u8]>| self.cache.of(Inputs::of_file(self.minor, text)).dynamic_error();
            let source = ConfigMapSource {
                uid: Some(metadata.uid),
                resource_version: Some(metadata.resource_version),
                ..ConfigMapSource::clone(&wanted)
            };
            let problem = text.as_ref().map_or(Some(error_text::LOAD), refused);
            Loaded { source: Arc::new(source), text: text.unwrap_or_default(), problem }
        });
        self.change(|kubelet, now| kubelet.downloaded(loaded, now));
    }

    fn lost(&self, write: &KubeletWrite) {
        if matches!(write, KubeletWrite::Config(_)) {
            self.change(SimKubelet::status_lost);
        }
    }
}
