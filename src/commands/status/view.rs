//! Observed state of a cluster for `status`, updated while watching: nodes, their ConfigMaps and the Leases of the
//! fleets.

use std::collections::BTreeSet;

use futures::Stream;
use jiff::Timestamp;

use crate::review::{Review, Side, of_plan};
use crate::runs::drain_forecast::with_drained_pods;
use crate::status::{DesiredFleet, FleetOrders, FleetStatus, Running, Selection, build};
use nodecfg_cluster::NodeEvent;
use nodecfg_cluster::reading::observe::{list, observe, read_contents};
use nodecfg_cluster::{ClusterError, ClusterReader, lock};
use nodecfg_contract::names::{FleetName, NamespaceName};
use nodecfg_fleet::Desired;
use nodecfg_observed::{ConfigMapKey, Observed, Orders};
use nodecfg_plan::{Options, Problem};

/// Observed state of a cluster.
pub(super) struct View {
    reader: ClusterReader,
    desired: Option<Desired>,
    /// Namespace of the ConfigMaps. Without it, the namespaces that nodes point at are read.
    namespace: Option<NamespaceName>,
    observed: Observed,
    fleets: Vec<FleetOrders>,
    /// ConfigMaps that nodes point at but that were not listed. They are not requested again.
    known_unlisted: BTreeSet<ConfigMapKey>,
}

impl View {
    /// Lists the objects of the cluster, and reads a Lease for each fleet.
    ///
    /// # Errors
    /// Any error of a request.
    pub(super) async fn open(
        reader: ClusterReader,
        desired: Option<Desired>,
        namespace: Option<NamespaceName>,
    ) -> Result<Self, ClusterError> {
        let observed = match (&desired, &namespace) {
            (Some(desired), Some(namespace)) => {
                observe(&reader, namespace.as_str(), |observed| {
                    nodecfg_plan::required_config_maps(desired, observed, namespace)
                })
                .await?
            }
            _ => list(&reader, namespace.as_ref().map(NamespaceName::as_str)).await?,
        };
        let mut view =
            Self { reader, desired, namespace, observed, fleets: Vec::new(), known_unlisted: BTreeSet::new() };
        view.known_unlisted = view.unlisted();
        view.read_orders().await?;
        Ok(view)
    }

    /// The status of all pools and nodes.
    pub(super) fn status(&self, at: Timestamp) -> FleetStatus {
        let wanted = self.compared().map(|(desired, namespace)| DesiredFleet { desired, namespace });
        build(&self.observed, wanted.as_ref(), self.fleets.clone(), at)
    }

    /// The requested part of a status of this view.
    pub(super) fn selected(&self, selection: &Selection, status: FleetStatus) -> FleetStatus {
        selection.of(status, &self.observed)
    }

    /// The plan of a sync with the pods on nodes that it drains, or the problems that prevent it.
    pub(super) async fn review(&self, to: Side, options: &Options) -> Option<Result<Review, Vec<Problem>>> {
        let desired = self.desired.as_ref()?;
        let mut observed = self.observed.clone();
        if let Some(orders) = self.fleets.iter().find(|orders| orders.fleet == desired.fleet) {
            observed.orders = orders.orders.clone();
        }
        let plan = match nodecfg_plan::make(desired, &observed, options) {
            Ok(plan) => plan,
            Err(problems) => return Some(Err(problems)),
        };
        Some(Ok(with_drained_pods(of_plan(to, desired, &plan, nodecfg_clock::now()), &plan, &self.reader).await))
    }

    /// The desired state and the namespace of its ConfigMaps.
    fn compared(&self) -> Option<(&Desired, &NamespaceName)> {
        self.desired.as_ref().zip(self.namespace.as_ref())
    }

    /// Address of the server.
    pub(super) fn server(&self) -> &str {
        self.reader.server()
    }

    /// Watches the nodes, starting at the version of the list.
    pub(super) fn events(&self) -> impl Stream<Item = Result<NodeEvent, ClusterError>> + Send + use<> {
        self.reader.watch_nodes(&self.observed.nodes, &self.observed.versions)
    }

    /// Applies an event of the watch.
    pub(super) fn apply(&mut self, event: NodeEvent) {
        let nodes = &mut self.observed.nodes;
        match event {
            NodeEvent::Upsert(node) => drop(nodes.insert(node.name.clone(), *node)),
            NodeEvent::Deleted(name) => drop(nodes.remove(&name)),
            NodeEvent::Relisted(all) => *nodes = all.into_iter().map(|node| (node.name.clone(), node)).collect(),
        }
    }

    /// ConfigMaps that nodes point at but that were not listed.
    fn unlisted(&self) -> BTreeSet<ConfigMapKey> {
        let sources = self.observed.nodes.values().filter_map(|node| ConfigMapKey::of(node.source.as_ref()?));
        sources.filter(|key| !self.observed.config_maps.contains_key(key)).collect()
    }

    /// Reads ConfigMaps that nodes point at since the last call. Returns whether any had to be read.
    ///
    /// # Errors
    /// Any error of a request.
    pub(super) async fn read_config_maps(&mut self) -> Result<bool, ClusterError> {
        let mut new = self.unlisted();
        new.retain(|key| !self.known_unlisted.contains(key));
        if new.is_empty() {
            return Ok(false);
        }
        let namespaces: BTreeSet<&str> = match &self.namespace {
            Some(namespace) => [namespace.as_str()].into(),
            None => new.iter().map(|key| key.namespace.as_str()).collect(),
        };
        for namespace in namespaces {
            match self.reader.list_config_maps(namespace).await {
                Err(ClusterError::Forbidden { .. }) if self.namespace.is_none() => {}
                maps => self.observed.config_maps.extend(
                    maps?
                        .into_iter()
                        .map(|map| (ConfigMapKey { namespace: map.namespace.clone(), name: map.name.clone() }, map)),
                ),
            }
        }
        if let Some((desired, namespace)) = self.compared() {
            let mut requested = nodecfg_plan::required_config_maps(desired, &self.observed, namespace);
            requested.retain(|key| !self.observed.contents.contains_key(key));
            let namespace = namespace.to_string();
            read_contents(&self.reader, &namespace, requested, &mut self.observed).await?;
        }
        self.known_unlisted = self.unlisted();
        Ok(true)
    }

    /// Reads the Lease of each fleet. Returns whether anything changed.
    ///
    /// # Errors
    /// Any error of a request except a forbidden one, which leaves rollouts and pauses unknown.
    pub(super) async fn read_orders(&mut self) -> Result<bool, ClusterError> {
        let mut fleets: BTreeSet<(FleetName, String)> = self
            .observed
            .config_maps
            .values()
            .filter_map(|map| Some((map.fleet.clone()?, map.namespace.clone())))
            .collect();
        if fleets.is_empty() && self.desired.is_none() {
            let namespace = self
                .namespace
                .as_ref()
                .map_or_else(|| self.reader.binding().default_namespace(), NamespaceName::as_str);
            let found = lock::fleets(&self.reader, namespace).await?;
            fleets.extend(found.into_iter().map(|fleet| (fleet, namespace.to_owned())));
        }
        if let Some((desired, namespace)) = self.compared() {
            fleets.retain(|(fleet, _)| *fleet == desired.fleet);
            fleets.insert((desired.fleet.clone(), namespace.to_string()));
        }
        let mut orders = Vec::new();
        for (fleet, namespace) in fleets {
            orders.push(read_fleet_orders(&self.reader, fleet, namespace).await?);
        }
        let changed = orders != self.fleets;
        self.fleets = orders;
        Ok(changed)
    }
}

async fn read_fleet_orders(
    reader: &ClusterReader,
    fleet: FleetName,
    namespace: String,
) -> Result<FleetOrders, ClusterError> {
    let mut orders = FleetOrders { fleet, namespace, rollout: None, orders: Orders::default(), unknown: None };
    let lease = match lock::read(reader, &orders.namespace, &orders.fleet).await {
        Ok(None) => return Ok(orders),
        Ok(Some(lease)) => lease,
        Err(error @ ClusterError::Forbidden { .. }) => {
            orders.unknown = Some(error.to_string());
            return Ok(orders);
        }
        Err(error) => return Err(error),
    };
    let holder = lock::current_holder(Some(&lease), reader.server_time());
    orders.rollout = holder.map(|holder| Running { holder: holder.to_owned(), since: lease.acquired });
    match Orders::read(&lease.annotations) {
        Ok(read) => orders.orders = read,
        Err(problem) => orders.unknown = Some(problem),
    }
    Ok(orders)
}
