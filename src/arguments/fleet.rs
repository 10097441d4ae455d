//! Arguments that select a fleet in a cluster.

use std::collections::BTreeSet;

use crate::arguments::cluster::BoundClusterArgs;
use crate::terminal::failure::CommandError;
use nodecfg_cluster::reading::observe;
use nodecfg_cluster::{ClusterReader, LabelKeys, lock};
use nodecfg_contract::names::{FleetName, NamespaceName};
use nodecfg_fleet::Desired;
use nodecfg_observed::ManagedConfigMap;

/// Arguments that select a fleet in a cluster.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct FleetArgs {
    /// Select this fleet. Default: the only fleet in the namespace.
    #[arg(long, value_name = "NAME")]
    fleet: Option<FleetName>,
    #[command(flatten)]
    pub(crate) bound: BoundClusterArgs,
}

/// The namespace of a fleet, which has its ConfigMaps, and the Lease with its lock and orders.
pub(crate) struct FleetLocation {
    pub(crate) reader: ClusterReader,
    pub(crate) fleet: FleetName,
    pub(crate) namespace: NamespaceName,
}

impl BoundClusterArgs {
    /// Connects to the cluster, and finds the namespace of the fleet of a repository. The reader keeps the labels in
    /// `keys`.
    pub(crate) async fn locate(&self, desired: &Desired, keys: LabelKeys) -> Result<FleetLocation, CommandError> {
        let reader = self.reader(keys).await?;
        let namespace = self.cluster.namespace(desired, &reader)?;
        Ok(FleetLocation { reader, fleet: desired.fleet.clone(), namespace })
    }
}

impl FleetArgs {
    /// The arguments --fleet and --namespace as given, to repeat in a suggested command.
    pub(crate) fn scope_args(&self) -> String {
        let fleet = self.fleet.as_ref().map(|fleet| format!(" --fleet {fleet}"));
        let namespace = self.bound.cluster.named_namespace().map(|namespace| format!(" --namespace {namespace}"));
        [fleet, namespace].into_iter().flatten().collect()
    }

    /// Connects to the cluster, and finds the fleet: the named one, or else that of the repository, or else the only one.
    /// The reader keeps the labels in `keys`.
    ///
    /// # Errors
    /// Neither arguments nor repository name a fleet, and the namespace has none or several. Or they name two.
    pub(crate) async fn locate(
        &self,
        desired: Option<&Desired>,
        keys: LabelKeys,
    ) -> Result<FleetLocation, CommandError> {
        // As diff and sync do, so that all of them agree on what is unused.
        if let Some(desired) = desired.filter(|_| self.fleet.is_none()) {
            return self.bound.locate(desired, keys).await;
        }
        let location = self.find(self.bound.reader(keys).await?).await?;
        match desired.filter(|desired| desired.fleet != location.fleet) {
            None => Ok(location),
            Some(Desired { fleet: other, .. }) => Err(CommandError::usage(
                format!("the repository belongs to fleet {other}, the ConfigMaps to fleet {}", location.fleet),
                format!("name the repository of fleet {}", location.fleet),
            )),
        }
    }

    /// Connects to the cluster and finds the fleet whose orders change. `first` accepts a fleet without any objects, if
    /// the namespace is named.
    pub(crate) async fn locate_orders(&self, first: bool) -> Result<FleetLocation, CommandError> {
        let reader = self.bound.cluster.reader(LabelKeys::Only(BTreeSet::new())).await?;
        // Only the default namespace depends on the binding, and detecting the binding requires more rights than
        // writing an order.
        let named = self.bound.cluster.named_namespace().is_some();
        let reader = if named { reader } else { self.bound.binding.bind(reader).await? };
        let location = self.find(reader).await?;
        if (first && named) || location.exists().await? { Ok(location) } else { location.find_namespace(named).await }
    }

    /// The named fleet, or else the only fleet with ConfigMaps in the namespace; without ConfigMaps, with a Lease.
    async fn find(&self, reader: ClusterReader) -> Result<FleetLocation, CommandError> {
        let namespace = self.bound.cluster.namespace_or(None, reader.binding())?;
        if let Some(fleet) = self.fleet.clone() {
            return Ok(FleetLocation { reader, fleet, namespace });
        }
        let maps = reader.list_config_maps(namespace.as_str()).await?;
        let mut fleets: BTreeSet<FleetName> = maps.into_iter().filter_map(|map| map.fleet).collect();
        if fleets.is_empty() {
            fleets = lock::fleets(&reader, namespace.as_str()).await?;
        }
        let message = match (fleets.first(), fleets.len()) {
            (Some(fleet), 1) => return Ok(FleetLocation { fleet: fleet.clone(), reader, namespace }),
            (None, _) => format!("no fleet has ConfigMaps in the namespace {namespace}"),
            (Some(_), _) => {
                let names: Vec<&str> = fleets.iter().map(FleetName::as_str).collect();
                format!("namespace {namespace} has several fleets: {}", names.join(", "))
            }
        };
        Err(CommandError::usage(message, "name the fleet with --fleet"))
    }
}

impl FleetLocation {
    /// Reports whether the namespace has a Lease or a ConfigMap of the fleet.
    async fn exists(&self) -> Result<bool, CommandError> {
        Ok(lock::read(&self.reader, self.namespace.as_str(), &self.fleet).await?.is_some()
            || self.reader.list_config_maps(self.namespace.as_str()).await?.iter().any(|map| self.owns(map)))
    }

    /// Reports whether a ConfigMap is one of the fleet.
    pub(crate) fn owns(&self, map: &ManagedConfigMap) -> bool {
        map.fleet.as_ref() == Some(&self.fleet)
    }

    /// Finds the only namespace whose ConfigMaps of the fleet are used by nodes, unless a namespace was named. No
    /// sync would read an order in another namespace.
    async fn find_namespace(self, named: bool) -> Result<Self, CommandError> {
        let mut found = BTreeSet::new();
        if !named {
            let seen = observe::list(&self.reader, None).await?;
            found = seen.config_maps.into_values().filter(|map| self.owns(map)).map(|map| map.namespace).collect();
        }
        let only = found.pop_first().filter(|_| found.is_empty());
        if let Some(namespace) = only.and_then(|name| NamespaceName::new(name).ok()) {
            return Ok(Self { namespace, ..self });
        }
        Err(CommandError::usage(
            format!("fleet {} has no objects in namespace {}", self.fleet, self.namespace),
            "name the namespace of the fleet (spec.namespace in nodecfg.yaml) with --namespace",
        ))
    }
}
