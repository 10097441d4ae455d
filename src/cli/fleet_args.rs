//! Which fleet: the arguments of commands that work on a cluster alone, without a repository at hand.

use std::collections::BTreeSet;

use super::CommandError;
use super::cluster_args::ClusterArgs;
use nodecfg_cluster::{ClusterReader, lease};
use nodecfg_contract::names::{FleetName, NamespaceName};

/// The fleet to work on.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Cluster")]
pub(super) struct FleetArgs {
    /// Fleet to work on. Need not be said where there is only one.
    #[arg(long, value_name = "NAME")]
    fleet: Option<FleetName>,
}

impl FleetArgs {
    /// The fleet as it was named, if it was.
    pub(super) fn named(&self) -> Option<&FleetName> {
        self.fleet.as_ref()
    }

    /// The fleet that is named, or else the only one that has ConfigMaps in the namespace or, where none has, a Lease; and that
    /// namespace.
    ///
    /// # Errors
    /// When none is named and there are none, or several.
    pub(super) async fn find(
        &self,
        cluster: &ClusterArgs,
        reader: &ClusterReader,
    ) -> Result<(FleetName, NamespaceName), CommandError> {
        let namespace = match cluster.named_namespace() {
            Some(namespace) => namespace.clone(),
            None => NamespaceName::new(reader.binding().default_namespace())
                .map_err(|error| CommandError::usage(error.to_string(), ""))?,
        };
        if let Some(fleet) = &self.fleet {
            return Ok((fleet.clone(), namespace));
        }
        let maps = reader.list_config_maps(namespace.as_str()).await?;
        let mut fleets: BTreeSet<FleetName> = maps.into_iter().filter_map(|map| map.fleet).collect();
        if fleets.is_empty() {
            fleets = lease::fleets(reader, namespace.as_str()).await?;
        }
        match (fleets.pop_first(), fleets.is_empty()) {
            (Some(fleet), true) => Ok((fleet, namespace)),
            (None, _) => Err(CommandError::usage(
                format!("no fleet has ConfigMaps in the namespace {namespace}"),
                "name the fleet with --fleet, or another namespace with --namespace",
            )),
            (Some(first), false) => {
                let names: Vec<String> = std::iter::once(first).chain(fleets).map(|fleet| fleet.to_string()).collect();
                Err(CommandError::usage(
                    format!("several fleets are in the namespace {namespace}: {}", names.join(", ")),
                    "name the one that is meant with --fleet",
                ))
            }
        }
    }
}
