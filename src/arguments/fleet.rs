//! Argument that selects the fleet, for commands without a repository.

use std::collections::BTreeSet;

use crate::arguments::cluster::{ClusterArgs, invalid_default_name};
use crate::terminal::failure::CommandError;
use nodecfg_cluster::{ClusterReader, lock};
use nodecfg_contract::names::{FleetName, NamespaceName};

/// Argument that selects the fleet.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct FleetArgs {
    /// Select this fleet. Default: the only fleet in the namespace.
    #[arg(long, value_name = "NAME")]
    fleet: Option<FleetName>,
}

impl FleetArgs {
    /// The fleet that the command line names, if any.
    pub(crate) fn named(&self) -> Option<&FleetName> {
        self.fleet.as_ref()
    }

    /// The named fleet, or else the only fleet with ConfigMaps in the namespace; without ConfigMaps, with a Lease.
    /// Also returns the namespace.
    ///
    /// # Errors
    /// No fleet is named and the namespace has none or several.
    pub(crate) async fn find(
        &self,
        cluster: &ClusterArgs,
        reader: &ClusterReader,
    ) -> Result<(FleetName, NamespaceName), CommandError> {
        let namespace = match cluster.named_namespace() {
            Some(namespace) => namespace.clone(),
            None => NamespaceName::new(reader.binding().default_namespace())
                .map_err(|error| invalid_default_name(&error))?,
        };
        if let Some(fleet) = &self.fleet {
            return Ok((fleet.clone(), namespace));
        }
        let maps = reader.list_config_maps(namespace.as_str()).await?;
        let mut fleets: BTreeSet<FleetName> = maps.into_iter().filter_map(|map| map.fleet).collect();
        if fleets.is_empty() {
            fleets = lock::fleets(reader, namespace.as_str()).await?;
        }
        match (fleets.pop_first(), fleets.is_empty()) {
            (Some(fleet), true) => Ok((fleet, namespace)),
            (None, _) => Err(CommandError::usage(
                format!("no fleet has ConfigMaps in the namespace {namespace}"),
                "name the fleet with --fleet",
            )),
            (Some(first), false) => {
                let names: Vec<String> = std::iter::once(first).chain(fleets).map(|fleet| fleet.to_string()).collect();
                Err(CommandError::usage(
                    format!("namespace {namespace} has several fleets: {}", names.join(", ")),
                    "name the fleet with --fleet",
                ))
            }
        }
    }
}
