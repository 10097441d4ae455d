//! Arguments that select the cluster, the namespace and the binding.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use crate::terminal::failure::CommandError;
use kubelet_config::values::duration;
use nodecfg_cluster::connection::connect::{ConnectOptions, Connection, Environment, connect, contexts};
use nodecfg_cluster::{Binding, ClusterReader, LabelKeys, ReaderOptions};
use nodecfg_contract::names::NamespaceName;
use nodecfg_fleet::Desired;

/// Where assignments are stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum BindingChoice {
    /// Detected by a dry-run patch of a Node.
    #[default]
    Auto,
    /// In Nodes, which kubelets 1.11 to 1.23 follow.
    Node,
    /// In NodeConfigs, which node agents follow.
    #[value(name = "nodeconfig")]
    NodeConfig,
}

impl BindingChoice {
    fn binding(self) -> Option<Binding> {
        match self {
            Self::Auto => None,
            Self::Node => Some(Binding::Node),
            Self::NodeConfig => Some(Binding::NodeConfig),
        }
    }
}

/// Arguments that select the cluster.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct ClusterArgs {
    /// Use this kubeconfig instead of $KUBECONFIG, ~/.kube/config or the credentials of the pod.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Use this kubeconfig context instead of the current one.
    #[arg(long, value_name = "CONTEXT")]
    context: Option<String>,
    /// Use this namespace for ConfigMaps and the lock. Default: spec.namespace of nodecfg.yaml, or kube-system (with
    /// node agents: nodecfg-system).
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<NamespaceName>,
    /// Retry a request this long while the API server is overloaded or unreachable; 0 sets no limit.
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = parse_timeout)]
    request_timeout: Duration,
}

/// Argument that selects the binding.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct BindingArgs {
    /// Store assignments in Nodes (node), in NodeConfigs (nodeconfig), or where the API server supports it (auto). Kubelets
    /// up to 1.23 follow spec.configSource of Nodes; node agents follow NodeConfigs.
    #[arg(long, value_enum, default_value_t, value_name = "BINDING", hide_possible_values = true)]
    binding: BindingChoice,
}

/// Name of a binding on the command line and in saved plans.
pub(crate) fn binding_name(binding: Binding) -> &'static str {
    match binding {
        Binding::Node => "node",
        Binding::NodeConfig => "nodeconfig",
    }
}

impl BindingArgs {
    /// The binding that the command line names, if any.
    pub(crate) fn named(self) -> Option<&'static str> {
        self.binding.binding().map(binding_name)
    }

    /// Detects the binding, unless the command line names it.
    pub(crate) async fn bind(self, reader: ClusterReader) -> Result<ClusterReader, CommandError> {
        Ok(reader.with_binding(self.binding.binding()).await?)
    }
}

impl ClusterArgs {
    /// Creates a reader that keeps the labels in `keys`. Sends no request.
    pub(crate) async fn reader(&self, keys: LabelKeys) -> Result<ClusterReader, CommandError> {
        let connection = self.connection().await?;
        Ok(self.reader_over(connection.client, &connection.server, keys))
    }

    /// Resolves the kubeconfig. Sends no request.
    pub(crate) async fn connection(&self) -> Result<Connection, CommandError> {
        let options = ConnectOptions { kubeconfig: self.kubeconfig.clone(), context: self.context.clone() };
        Ok(connect(&options, &Environment::capture()).await?)
    }

    /// The contexts of the kubeconfig, or none if it cannot be read.
    pub(crate) fn contexts(&self) -> Vec<String> {
        contexts(self.kubeconfig.clone(), &Environment::capture()).unwrap_or_default()
    }

    /// Creates a reader over an existing client.
    pub(crate) fn reader_over(&self, client: kube::Client, server: &str, keys: LabelKeys) -> ClusterReader {
        let options = ReaderOptions {
            label_keys: keys,
            patience: self.request_timeout,
            seed: fastrand::u64(..),
            ..ReaderOptions::default()
        };
        ClusterReader::new(client, server, options)
    }

    /// The arguments that select the same cluster again, without the namespace.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let kubeconfig = self.kubeconfig.iter().map(|path| ("--kubeconfig", path.to_string_lossy().into_owned()));
        let context = self.context.iter().map(|name| ("--context", name.clone()));
        kubeconfig.chain(context).flat_map(|(option, value)| [option.to_owned(), value]).collect()
    }

    /// Reports whether the command line names a cluster.
    pub(crate) fn is_named(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some()
    }

    /// The namespace that the command line names, if any.
    pub(crate) fn named_namespace(&self) -> Option<&NamespaceName> {
        self.namespace.as_ref()
    }

    /// Namespace of the ConfigMaps: from the command line, the repository, or the default of the binding.
    pub(crate) fn namespace(&self, desired: &Desired, reader: &ClusterReader) -> Result<NamespaceName, CommandError> {
        self.namespace_or(desired.namespace.as_ref(), reader.binding())
    }

    /// The namespace that the command line names, or else the `other` one, or else the default of the binding.
    pub(crate) fn namespace_or(
        &self,
        other: Option<&NamespaceName>,
        binding: Binding,
    ) -> Result<NamespaceName, CommandError> {
        match self.namespace.as_ref().or(other) {
            Some(namespace) => Ok(namespace.clone()),
            None => NamespaceName::new(binding.default_namespace()).map_err(|error| invalid_default_name(&error)),
        }
    }
}

/// Arguments that select the cluster and its binding.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct BoundClusterArgs {
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    #[command(flatten)]
    pub(crate) binding: BindingArgs,
}

impl BoundClusterArgs {
    /// Creates a reader that keeps the labels in `keys` and knows the binding.
    pub(crate) async fn reader(&self, keys: LabelKeys) -> Result<ClusterReader, CommandError> {
        self.binding.bind(self.cluster.reader(keys).await?).await
    }
}

/// Error for an invalid built-in name, which is a bug.
pub(crate) fn invalid_default_name(error: &dyn std::fmt::Display) -> CommandError {
    CommandError::usage(error.to_string(), "report this bug with the text of this message")
}

/// The labels that the pools' selectors and orders use. Other labels of nodes are dropped.
pub(crate) fn label_keys(desired: &Desired) -> LabelKeys {
    label_keys_of([desired])
}

/// The same for several revisions.
pub(crate) fn label_keys_of<'a>(revisions: impl IntoIterator<Item = &'a Desired>) -> LabelKeys {
    let pools = revisions.into_iter().flat_map(|desired| desired.pools.values());
    let keys: BTreeSet<String> = pools
        .flat_map(|pool| pool.selector.keys().chain(pool.policy.order.as_ref().map(|order| order.by.as_str())))
        .map(str::to_owned)
        .collect();
    LabelKeys::Only(keys)
}

/// Parses a duration as kubectl does: in Go syntax (`30s`, `5m`, `1h30m`), or a number of seconds.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    duration::parse_argument(text).map_err(|problem| format!("it {problem}"))
}

/// Parses a timeout, of which 0 means no limit, as for kubectl.
pub(crate) fn parse_timeout(text: &str) -> Result<Duration, String> {
    parse_duration(text).map(|limit| if limit.is_zero() { Duration::MAX } else { limit })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::command_line::declared;

    /// The value of an option with a duration, if it is accepted.
    fn parsed(option: &clap::Arg, value: &str) -> Option<Duration> {
        let word = format!("--{}={value}", option.get_long().unwrap());
        let matches =
            clap::Command::new("nodecfg").arg(option.clone()).try_get_matches_from(["nodecfg", &word]).ok()?;
        matches.get_one::<Duration>(option.get_id().as_str()).copied()
    }

    #[test]
    fn timeout_of_zero_is_no_limit_in_all_commands() {
        let commands = declared();
        let options = commands.get_subcommands().flat_map(clap::Command::get_arguments);
        let durations: Vec<&clap::Arg> = options
            .filter(|option| option.get_value_names().is_some_and(|names| names.iter().any(|name| name == "DURATION")))
            .collect();
        let mut timeouts = BTreeSet::new();
        for option in durations {
            let name = option.get_long().unwrap();
            assert_eq!(parsed(option, "30"), Some(Duration::from_secs(30)), "{name}");
            assert_eq!(parsed(option, "2562047h"), Some(Duration::from_secs(2_562_047 * 3600)), "{name}");
            assert_eq!(parsed(option, "2562048h"), None, "{name}");
            if name.ends_with("timeout") {
                assert_eq!(
                    (parsed(option, "0"), parsed(option, "0s")),
                    (Some(Duration::MAX), Some(Duration::MAX)),
                    "{name}"
                );
                timeouts.insert(name);
            }
        }
        assert_eq!(
            timeouts.into_iter().collect::<Vec<_>>(),
            ["git-timeout", "lock-timeout", "request-timeout", "timeout"]
        );
        assert_eq!(parse_duration("0"), Ok(Duration::ZERO));
    }
}
