//! Which cluster: the arguments that all commands share that talk to one.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use super::CommandError;
use kubelet_config::duration;
use nodecfg_cluster::connect::{ConnectOptions, Connection, Environment, connect};
use nodecfg_cluster::{Binding, ClusterReader, LabelKeys, ReaderOptions};
use nodecfg_contract::names::NamespaceName;
use nodecfg_planning::desired::Desired;

/// Where the assignments are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum BindingChoice {
    /// Found out by a patch of a Node in a dry run.
    #[default]
    Auto,
    /// In the Nodes: kubelets 1.11 to 1.23 follow them.
    Node,
    /// In NodeConfigs: node agents follow them.
    #[value(name = "nodeconfig")]
    NodeConfig,
}

impl BindingChoice {
    fn wanted(self) -> Option<Binding> {
        match self {
            Self::Auto => None,
            Self::Node => Some(Binding::Node),
            Self::NodeConfig => Some(Binding::NodeConfig),
        }
    }
}

/// The cluster to talk to.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Cluster")]
pub(super) struct ClusterArgs {
    /// Kubeconfig, instead of $KUBECONFIG, ~/.kube/config or the pod's own credentials.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig, instead of its current one.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Namespace of the ConfigMaps and of the lock, instead of the one in nodecfg.yaml, or else kube-system or, with node
    /// agents, nodecfg-system.
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<NamespaceName>,
    /// How long to retry a request while the API server is overloaded or away.
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = parse_duration)]
    request_timeout: Duration,
}

/// Where the assignments of the cluster are.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
#[command(next_help_heading = "Cluster")]
pub(super) struct BindingArgs {
    /// Where the assignments are: node (Node.spec.configSource, for kubelets up to 1.23), nodeconfig (NodeConfigs, for node
    /// agents), or auto (what the API server keeps).
    #[arg(long, value_enum, default_value_t, value_name = "BINDING", hide_possible_values = true)]
    binding: BindingChoice,
}

/// The word for a binding on the command line and in saved plans.
pub(super) fn binding_word(binding: Binding) -> &'static str {
    match binding {
        Binding::Node => "node",
        Binding::NodeConfig => "nodeconfig",
    }
}

impl BindingArgs {
    /// The binding that the command line names, if it names one.
    pub(super) fn named(self) -> Option<&'static str> {
        self.binding.wanted().map(binding_word)
    }

    /// As if the command line named this one. A word that is none changes nothing.
    pub(super) fn naming(self, word: &str) -> Self {
        match word {
            "node" => Self { binding: BindingChoice::Node },
            "nodeconfig" => Self { binding: BindingChoice::NodeConfig },
            _ => self,
        }
    }

    /// Finds out where the assignments are, unless the command line says.
    pub(super) async fn bind(self, reader: ClusterReader) -> Result<ClusterReader, CommandError> {
        Ok(reader.bound(self.binding.wanted()).await?)
    }
}

impl ClusterArgs {
    /// Makes a reader that keeps the labels that `keys` names. Sends nothing.
    pub(super) async fn reader(&self, keys: LabelKeys) -> Result<ClusterReader, CommandError> {
        let connection = self.connection().await?;
        Ok(self.reader_over(connection.client, &connection.server, keys))
    }

    /// Finds the cluster. Sends nothing.
    pub(super) async fn connection(&self) -> Result<Connection, CommandError> {
        let options = ConnectOptions { kubeconfig: self.kubeconfig.clone(), context: self.context.clone() };
        Ok(connect(&options, &Environment::capture()).await?)
    }

    /// The same over a client that is there already.
    pub(super) fn reader_over(&self, client: kube::Client, server: &str, keys: LabelKeys) -> ClusterReader {
        let options = ReaderOptions {
            label_keys: keys,
            patience: self.request_timeout,
            seed: fastrand::u64(..),
            ..ReaderOptions::default()
        };
        ClusterReader::new(client, server, options)
    }

    /// Whether the command line names a cluster.
    pub(super) fn is_named(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some()
    }

    /// The namespace that the command line names, if it names one.
    pub(super) fn named_namespace(&self) -> Option<&NamespaceName> {
        self.namespace.as_ref()
    }

    /// As if the command line named this namespace, or none.
    pub(super) fn naming(self, namespace: Option<NamespaceName>) -> Self {
        Self { namespace, ..self }
    }

    /// Where ConfigMaps go: as the command line says, else as the repository says, else where they belong in such a cluster.
    pub(super) fn namespace(&self, desired: &Desired, reader: &ClusterReader) -> Result<NamespaceName, CommandError> {
        let said = self.namespace.clone().or_else(|| desired.namespace.clone());
        let default = reader.binding().default_namespace();
        said.map_or_else(|| NamespaceName::new(default).map_err(|error| CommandError::usage(error.to_string(), "")), Ok)
    }
}

/// The labels that the pools' selectors look at: no others are kept of a node.
pub(super) fn label_keys(desired: &Desired) -> LabelKeys {
    label_keys_of([desired])
}

/// The same for several revisions.
pub(super) fn label_keys_of<'a>(revisions: impl IntoIterator<Item = &'a Desired>) -> LabelKeys {
    let pools = revisions.into_iter().flat_map(|desired| desired.pools.values());
    let keys: BTreeSet<String> = pools.flat_map(|pool| pool.selector.keys()).map(str::to_owned).collect();
    LabelKeys::Only(keys)
}

/// A duration as Go and kubectl write it: `30s`, `5m`, `1h30m`.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    duration::parse(text).map_err(|problem| format!("it {problem}"))
}
