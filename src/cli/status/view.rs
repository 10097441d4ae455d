//! What is known of a cluster, and kept up to date while it is watched: its nodes, the ConfigMaps that they point at, and the
//! Leases of its fleets.

use std::collections::BTreeSet;

use futures::Stream;
use jiff::Timestamp;

use crate::review::{Review, Side, of_plan};
use crate::status::{FleetOrders, FleetStatus, Running, Wanted, make};
use nodecfg_cluster::lease::{self, Acquire};
use nodecfg_cluster::observe::{look, observe};
use nodecfg_cluster::watch::NodeEvent;
use nodecfg_cluster::{ClusterError, ClusterReader};
use nodecfg_contract::names::{FleetName, NamespaceName};
use nodecfg_contract::observed::{ConfigMapKey, Observed, Orders};
use nodecfg_planning::desired::Desired;
use nodecfg_planning::plan::{self, Options, Problem};

/// What is known of a cluster.
pub(super) struct View<'a> {
    reader: ClusterReader,
    desired: Option<&'a Desired>,
    /// Where ConfigMaps are looked for; unset: wherever nodes point at some.
    namespace: Option<&'a NamespaceName>,
    observed: Observed,
    fleets: Vec<FleetOrders>,
    /// ConfigMaps that nodes point at and no list has: not asked for again.
    strangers: BTreeSet<ConfigMapKey>,
}

impl<'a> View<'a> {
    /// Looks at the cluster: lists, and a Lease for each fleet.
    ///
    /// # Errors
    /// Every error of a request.
    pub(super) async fn open(
        reader: ClusterReader,
        desired: Option<&'a Desired>,
        namespace: Option<&'a NamespaceName>,
    ) -> Result<Self, ClusterError> {
        let observed = match (desired, namespace) {
            (Some(desired), Some(namespace)) => {
                observe(&reader, namespace.as_str(), |observed| plan::questions(desired, observed, namespace)).await?
            }
            _ => look(&reader, namespace.map(NamespaceName::as_str)).await?,
        };
        let mut view = Self { reader, desired, namespace, observed, fleets: Vec::new(), strangers: BTreeSet::new() };
        view.strangers = view.unlisted();
        view.read_orders().await?;
        Ok(view)
    }

    /// How everything is.
    pub(super) fn status(&self, at: Timestamp) -> FleetStatus {
        let wanted = self.desired.zip(self.namespace).map(|(desired, namespace)| Wanted { desired, namespace });
        make(&self.observed, wanted.as_ref(), self.fleets.clone(), at)
    }

    /// What a sync would do, as far as one could be planned; the problems, where not.
    pub(super) fn review(&self, to: Side, options: &Options) -> Option<Result<Review, Vec<Problem>>> {
        let desired = self.desired?;
        let mut observed = self.observed.clone();
        if let Some(orders) = self.fleets.iter().find(|orders| orders.fleet == desired.fleet) {
            observed.orders = Orders { pauses: orders.pauses.clone(), abort: orders.abort.clone() };
        }
        Some(plan::make(desired, &observed, options).map(|plan| of_plan(to, desired, &plan)))
    }

    /// The address of the server.
    pub(super) fn server(&self) -> &str {
        self.reader.server()
    }

    /// Follows the nodes from where they were listed.
    pub(super) fn events(&self) -> impl Stream<Item = Result<NodeEvent, ClusterError>> + Send + use<> {
        self.reader.watch_nodes(&self.observed.nodes, &self.observed.versions)
    }

    /// Takes in what happened to nodes.
    pub(super) fn apply(&mut self, event: NodeEvent) {
        let nodes = &mut self.observed.nodes;
        match event {
            NodeEvent::Upsert(node) => drop(nodes.insert(node.name.clone(), *node)),
            NodeEvent::Deleted(name) => drop(nodes.remove(&name)),
            NodeEvent::Relisted(all) => *nodes = all.into_iter().map(|node| (node.name.clone(), node)).collect(),
        }
    }

    /// The ConfigMaps that nodes point at and that were in no list.
    fn unlisted(&self) -> BTreeSet<ConfigMapKey> {
        let sources = self.observed.nodes.values().filter_map(|node| ConfigMapKey::of(node.source.as_ref()?));
        sources.filter(|key| !self.observed.config_maps.contains_key(key)).collect()
    }

    /// Looks for the ConfigMaps that nodes have been pointed at since. Whether there was anything to look for.
    ///
    /// # Errors
    /// Every error of a request.
    pub(super) async fn read_config_maps(&mut self) -> Result<bool, ClusterError> {
        let mut new = self.unlisted();
        new.retain(|key| !self.strangers.contains(key));
        if new.is_empty() {
            return Ok(false);
        }
        let namespaces: BTreeSet<&str> = match self.namespace {
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
        if let Some((desired, namespace)) = self.desired.zip(self.namespace) {
            let mut asked = plan::questions(desired, &self.observed, namespace);
            asked.retain(|key| !self.observed.contents.contains_key(key));
            for key in asked {
                let content = self.reader.config_map(&key.namespace, &key.name).await?;
                self.observed.contents.insert(key, content);
            }
        }
        self.strangers = self.unlisted();
        Ok(true)
    }

    /// Reads the Lease of each fleet. Whether anything has changed.
    ///
    /// # Errors
    /// Every error of a request, but that it is forbidden: then it is not known who rolls out and what is paused.
    pub(super) async fn read_orders(&mut self) -> Result<bool, ClusterError> {
        let mut fleets: BTreeSet<(FleetName, String)> = self
            .observed
            .config_maps
            .values()
            .filter_map(|map| Some((map.fleet.clone()?, map.namespace.clone())))
            .collect();
        if fleets.is_empty() && self.desired.is_none() {
            let namespace =
                self.namespace.map_or_else(|| self.reader.binding().default_namespace(), NamespaceName::as_str);
            let found = lease::fleets(&self.reader, namespace).await?;
            fleets.extend(found.into_iter().map(|fleet| (fleet, namespace.to_owned())));
        }
        if let Some((desired, namespace)) = self.desired.zip(self.namespace) {
            fleets.retain(|(fleet, _)| *fleet == desired.fleet);
            fleets.insert((desired.fleet.clone(), namespace.to_string()));
        }
        let mut orders = Vec::new();
        for (fleet, namespace) in fleets {
            orders.push(orders_of(&self.reader, fleet, namespace).await?);
        }
        let changed = orders != self.fleets;
        self.fleets = orders;
        Ok(changed)
    }
}

async fn orders_of(reader: &ClusterReader, fleet: FleetName, namespace: String) -> Result<FleetOrders, ClusterError> {
    let mut orders = FleetOrders {
        fleet,
        namespace,
        rollout: None,
        abort: None,
        pauses: std::collections::BTreeMap::new(),
        unknown: None,
    };
    let lease = match lease::look(reader, &orders.namespace, &orders.fleet).await {
        Ok(None) => return Ok(orders),
        Ok(Some(lease)) => lease,
        Err(error @ ClusterError::Forbidden { .. }) => {
            orders.unknown = Some(error.to_string());
            return Ok(orders);
        }
        Err(error) => return Err(error),
    };
    // Who merely looks holds no lock: nobody's name is empty.
    if let Acquire::HeldBy { holder, since, .. } = lease::decide(Some(&lease), "", reader.server_time()) {
        orders.rollout = Some(Running { holder, since });
    }
    match Orders::read(&lease.annotations) {
        Ok(Orders { pauses, abort }) => (orders.pauses, orders.abort) = (pauses, abort),
        Err(problem) => orders.unknown = Some(problem),
    }
    Ok(orders)
}
