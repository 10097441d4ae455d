//! What the commands that give orders have in common: which fleet they are for, who gives them, and about which pools.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::CommandError;
use super::cluster_args::{BindingArgs, ClusterArgs};
use super::fleet_args::FleetArgs;
use super::unknown::unknown;
use crate::report::orders::Holder;
use nodecfg_cluster::lease::{self, Acquire, LeaseView, decide};
use nodecfg_cluster::{ClusterReader, LabelKeys, observe};
use nodecfg_contract::names::{FleetName, NamespaceName, PoolName};
use nodecfg_contract::observed::ManagedConfigMap;
use nodecfg_contract::observed::orders::LONGEST_REASON;
use nodecfg_contract::printable::one_line;

/// Which fleet of which cluster.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct OrderArgs {
    #[command(flatten)]
    fleet: FleetArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    binding: BindingArgs,
}

/// Where orders are given.
pub(super) struct Place {
    pub(super) reader: ClusterReader,
    pub(super) fleet: FleetName,
    pub(super) namespace: NamespaceName,
}

impl OrderArgs {
    /// What was said of where the fleet is, as arguments: whoever takes an order back says it again.
    pub(super) fn said(&self) -> String {
        let fleet = self.fleet.named().map(|fleet| format!(" --fleet {fleet}"));
        let namespace = self.cluster.named_namespace().map(|namespace| format!(" --namespace {namespace}"));
        [fleet, namespace].into_iter().flatten().collect()
    }

    /// Connects, and finds out which fleet is meant, and where it is. Only with `first` may it be one that nothing is known of
    /// yet, where fleet and namespace are named.
    pub(super) async fn place(&self, first: bool) -> Result<Place, CommandError> {
        let reader = self.cluster.reader(LabelKeys::Only(BTreeSet::new())).await?;
        // The binding only says where the Lease is, and finding it out takes more rights than giving an order.
        let named = self.cluster.named_namespace().is_some();
        let reader = if named { reader } else { self.binding.bind(reader).await? };
        let (fleet, namespace) = self.fleet.find(&self.cluster, &reader).await?;
        let place = Place { reader, fleet, namespace };
        if (first && named) || place.is_there().await? { Ok(place) } else { place.elsewhere(named).await }
    }
}

impl Place {
    /// Whether the namespace has a Lease or a ConfigMap of the fleet.
    async fn is_there(&self) -> Result<bool, CommandError> {
        Ok(lease::look(&self.reader, self.namespace.as_str(), &self.fleet).await?.is_some()
            || self.reader.list_config_maps(self.namespace.as_str()).await?.iter().any(|map| self.owns(map)))
    }

    fn owns(&self, map: &ManagedConfigMap) -> bool {
        map.fleet.as_ref() == Some(&self.fleet)
    }

    /// The one namespace where nodes point at ConfigMaps of the fleet, unless another was named: an order that nobody reads is
    /// worse than none.
    async fn elsewhere(self, named: bool) -> Result<Self, CommandError> {
        let mut found = BTreeSet::new();
        if !named {
            let seen = observe::look(&self.reader, None).await?;
            found = seen.config_maps.into_values().filter(|map| self.owns(map)).map(|map| map.namespace).collect();
        }
        let only = found.pop_first().filter(|_| found.is_empty());
        if let Some(namespace) = only.and_then(|name| NamespaceName::new(name).ok()) {
            return Ok(Self { namespace, ..self });
        }
        Err(CommandError::usage(
            format!("nothing of a fleet {} is in the namespace {}", self.fleet, self.namespace),
            "check --fleet, and name the fleet's namespace (spec.namespace of nodecfg.yaml) with --namespace",
        ))
    }

    /// Who gives the order: the user as the API server knows them, or else as this machine does.
    pub(super) async fn who(&self) -> Result<String, CommandError> {
        if let Some(user) = self.reader.whoami().await? {
            return Ok(user);
        }
        let user = ["USER", "LOGNAME", "USERNAME"]
            .into_iter()
            .filter_map(|name| std::env::var(name).ok())
            .find(|user| !user.is_empty())
            .unwrap_or_else(|| "somebody".to_owned());
        let host = hostname::get().ok().and_then(|name| name.into_string().ok());
        Ok(host.map_or_else(|| user.clone(), |host| format!("{user}@{host}")))
    }

    /// The pools that the fleet has ConfigMaps of.
    pub(super) async fn pools(&self) -> Result<BTreeSet<PoolName>, CommandError> {
        let maps = self.reader.list_config_maps(self.namespace.as_str()).await?;
        let ours = maps.into_iter().filter(|map| map.fleet.as_ref() == Some(&self.fleet));
        Ok(ours.filter_map(|map| map.pool).collect())
    }

    /// That a pool is not known, with the one that may be meant.
    pub(super) fn unknown(&self, pool: &PoolName, known: &BTreeSet<PoolName>, way_out: &str) -> CommandError {
        let place = format!("among the ConfigMaps of fleet {}", self.fleet);
        unknown("pool", pool.as_str(), &place, known.iter().map(PoolName::as_str), way_out)
    }
}

/// Who holds the lock, unless they have died.
pub(super) fn holder(view: Option<&LeaseView>, now: Timestamp) -> Option<Holder> {
    match decide(view, "", now) {
        Acquire::HeldBy { holder, since, .. } => Some(Holder { identity: holder, since }),
        Acquire::Create | Acquire::TakeOver(_) => None,
    }
}

/// A reason, as somebody typed it: on one line, and not empty.
pub(super) fn parse_reason(text: &str) -> Result<String, String> {
    let reason = one_line(text);
    match reason.chars().count() {
        0 => Err("say why: others will see it, and wonder".to_owned()),
        long if long > LONGEST_REASON => Err(format!("at most {LONGEST_REASON} characters, not {long}")),
        _ => Ok(reason),
    }
}
