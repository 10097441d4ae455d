//! Shared arguments and lookups of the commands that write orders (`pause`, `resume`, `abort`) and of `rollback`.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::unknown_name::unknown_name;
use crate::arguments::cluster::BoundClusterArgs;
use crate::arguments::fleet::FleetArgs;
use crate::report::orders::Holder;
use crate::terminal::environment;
use crate::terminal::failure::CommandError;
use nodecfg_cluster::lock::LeaseView;
use nodecfg_cluster::reading::observe;
use nodecfg_cluster::{ClusterReader, LabelKeys, lock};
use nodecfg_contract::names::{FleetName, NamespaceName, PoolName};
use nodecfg_contract::printable::one_line;
use nodecfg_observed::ManagedConfigMap;
use nodecfg_observed::orders::LONGEST_REASON;

/// Arguments that select a fleet in a cluster.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct OrderArgs {
    #[command(flatten)]
    fleet: FleetArgs,
    #[command(flatten)]
    bound: BoundClusterArgs,
}

/// The namespace of a fleet, where its Lease holds the orders.
pub(crate) struct FleetLocation {
    pub(crate) reader: ClusterReader,
    pub(crate) fleet: FleetName,
    pub(crate) namespace: NamespaceName,
}

impl OrderArgs {
    /// The arguments --fleet and --namespace as given, to repeat in a suggested command.
    pub(crate) fn scope_args(&self) -> String {
        let fleet = self.fleet.named().map(|fleet| format!(" --fleet {fleet}"));
        let namespace = self.bound.cluster.named_namespace().map(|namespace| format!(" --namespace {namespace}"));
        [fleet, namespace].into_iter().flatten().collect()
    }

    /// Connects to the cluster and finds the fleet and its namespace. `first` accepts a fleet without any objects, if
    /// the namespace is named.
    pub(crate) async fn locate(&self, first: bool) -> Result<FleetLocation, CommandError> {
        let reader = self.bound.cluster.reader(LabelKeys::Only(BTreeSet::new())).await?;
        // Only the default namespace depends on the binding, and detecting the binding requires more rights than
        // writing an order.
        let named = self.bound.cluster.named_namespace().is_some();
        let reader = if named { reader } else { self.bound.binding.bind(reader).await? };
        let (fleet, namespace) = self.fleet.find(&self.bound.cluster, &reader).await?;
        let location = FleetLocation { reader, fleet, namespace };
        if (first && named) || location.exists().await? { Ok(location) } else { location.find_namespace(named).await }
    }
}

impl FleetLocation {
    /// Reports whether the namespace has a Lease or a ConfigMap of the fleet.
    async fn exists(&self) -> Result<bool, CommandError> {
        Ok(lock::read(&self.reader, self.namespace.as_str(), &self.fleet).await?.is_some()
            || self.reader.list_config_maps(self.namespace.as_str()).await?.iter().any(|map| self.owns(map)))
    }

    fn owns(&self, map: &ManagedConfigMap) -> bool {
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

    /// Name of the user who writes the order: from the API server, or else from this machine.
    pub(crate) async fn requester(&self) -> Result<String, CommandError> {
        if let Some(user) = self.reader.whoami().await? {
            return Ok(user);
        }
        let user = ["USER", "LOGNAME", "USERNAME"].into_iter().find_map(environment::text);
        let user = user.unwrap_or_else(|| "unknown".to_owned());
        let host = hostname::get().ok().and_then(|name| name.into_string().ok());
        Ok(host.map_or_else(|| user.clone(), |host| format!("{user}@{host}")))
    }

    /// The pools that have ConfigMaps of the fleet.
    pub(crate) async fn pools(&self) -> Result<BTreeSet<PoolName>, CommandError> {
        let maps = self.reader.list_config_maps(self.namespace.as_str()).await?;
        let ours = maps.into_iter().filter(|map| map.fleet.as_ref() == Some(&self.fleet));
        Ok(ours.filter_map(|map| map.pool).collect())
    }

    /// Error for an unknown pool, with the nearest name.
    pub(crate) fn unknown_pool(&self, pool: &PoolName, known: &BTreeSet<PoolName>, help: &str) -> CommandError {
        let place = format!("among the ConfigMaps of fleet {}", self.fleet);
        unknown_name("pool", pool.as_str(), &place, known.iter().map(PoolName::as_str), help)
    }
}

/// The holder of the lock, unless its lease seems expired.
pub(crate) fn holder(view: Option<&LeaseView>, now: Timestamp) -> Option<Holder> {
    let identity = lock::current_holder(view, now)?.to_owned();
    Some(Holder { identity, since: view.and_then(|view| view.acquired) })
}

/// Parses a reason: one line, not empty.
pub(crate) fn parse_reason(text: &str) -> Result<String, String> {
    let reason = one_line(text);
    match reason.chars().count() {
        0 => Err("a reason must not be empty".to_owned()),
        long if long > LONGEST_REASON => Err(format!("a reason has at most {LONGEST_REASON} characters, not {long}")),
        _ => Ok(reason),
    }
}
