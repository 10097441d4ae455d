//! Default command of the agent: runs as a service, or once with `--once`.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use super::args::{ActionArgs, ActivationArgs, KUBELET, LogArgs, LogFormat, StoreArgs};
use super::pass::{AgentPass, PassResult};
use super::{AgentError, Exit, Format, parse_duration, parse_second_or_more};
use crate::api::{AgentClient, AgentClientOptions, PointerPlace};
use crate::disk::real::RealDisk;
use crate::driver;
use crate::driver::{Options, Pass};
use crate::host::system::{ActionRunner, SystemHost};
use crate::ledger::Phase;
use crate::metrics::Metrics;
use crate::runtime::{AgentRuntime, Paths};
use crate::serve::Endpoint;
use crate::settings::Settings;
use nodecfg_cluster::connection::connect::{ConnectOptions, Environment, connect, connect_later};
use nodecfg_contract::KubeletVersion;
use nodecfg_contract::installation::NAMESPACE;
use nodecfg_contract::names::{FleetName, NamespaceName, NodeName};

pub(super) const EXAMPLES: &str = "\
Examples:
  nodecfg-agent --kubeconfig /etc/nodecfg/kubeconfig --listen 9348
  nodecfg-agent --activation drop-in --kubelet-config-dir /etc/kubernetes/kubelet.conf.d
  nodecfg-agent --once --trial-period 2m
  nodecfg-agent status";

/// Time that `--once` waits for the node's NodeConfig from the API server.
const ONCE_API_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug, clap::Args)]
pub(super) struct RunArgs {
    /// Name of this node's Node and NodeConfig. Default: $NODE_NAME, or the host's name.
    #[arg(long, value_name = "NAME")]
    node_name: Option<String>,
    /// Kubeconfig. Default: $KUBECONFIG, ~/.kube/config, or the pod's own credentials.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
    /// Apply the assignment, wait for the end of its trial, and exit: for cron and provisioning tools. Exits with 0
    /// if the kubelet runs the assignment, 5 if it does not, 4 without the API server.
    #[arg(long)]
    once: bool,
    /// Serve /metrics and /healthz on ADDRESS:PORT, or with PORT alone on 127.0.0.1. Default: no listener.
    // Off by default: a port on the node's network can be attacked or conflict with another service.
    #[arg(long, value_name = "ADDRESS", value_parser = parse_listen, conflicts_with = "once")]
    listen: Option<SocketAddr>,
    #[command(flatten)]
    log: LogArgs,
    #[command(flatten)]
    activation: ActivationArgs,
    #[command(flatten)]
    trial: TrialArgs,
    #[command(flatten)]
    join: JoinArgs,
    #[command(flatten)]
    actions: ActionArgs,
    /// Delegate restarting the kubelet and reading its version to `nodecfg-agent host-step`, which listens on SOCKET.
    /// The flags of host-step set the commands.
    #[arg(long, value_name = "SOCKET", help_heading = KUBELET)]
    #[arg(conflicts_with_all = ["restart_command", "stop_command", "restart_timeout", "kubelet", "restarts_command", "log_command", "kubelet_root_dir"])]
    host_step: Option<PathBuf>,
    /// Version of the kubelet, such as v1.36.2, for checking configurations. Default: as reported by its binary or
    /// its Node.
    #[arg(long, value_name = "VERSION", value_parser = parse_version, help_heading = KUBELET)]
    kubelet_version: Option<KubeletVersion>,
}

/// Trial arguments.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Trial")]
struct TrialArgs {
    /// How long the kubelet may take to become healthy after a restart, and may be unhealthy during a trial. Healthy:
    /// /healthz answers and, if so before the restart, the Node is Ready and its Lease is renewed.
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = parse_second_or_more)]
    health_timeout: Duration,
    /// How long a configuration must run without problems before it becomes the last known good.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = parse_duration)]
    trial_period: Duration,
    /// How often to read the assigned ConfigMap again if it is mutable.
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = parse_second_or_more)]
    follow_interval: Duration,
}

/// Arguments of nodes that join.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "New nodes")]
struct JoinArgs {
    /// Let the node join this fleet. If its Node has the taint startup-taint.cluster-autoscaler.kubernetes.io/nodecfg
    /// and no NodeConfig, the agent creates one with the proven configuration of its pool, by the label
    /// nodecfg.dev/pool. It removes the taint once the configuration is in place.
    #[arg(long, value_name = "FLEET")]
    fleet: Option<FleetName>,
    /// Namespace of the fleet's ConfigMaps.
    #[arg(long, value_name = "NAME", default_value = NAMESPACE, requires = "fleet")]
    namespace: NamespaceName,
}

impl JoinArgs {
    fn pointers(&self) -> Option<PointerPlace> {
        let fleet = self.fleet.clone()?;
        Some(PointerPlace { fleet, namespace: self.namespace.clone() })
    }
}

impl RunArgs {
    pub(super) fn log_format(&self) -> LogFormat {
        self.log.format()
    }

    fn node(&self) -> Result<NodeName, AgentError> {
        // An empty variable is unset.
        let named = || std::env::var("NODE_NAME").ok().filter(|name| !name.is_empty());
        let name = match self.node_name.clone().or_else(named) {
            Some(name) => name,
            None => rustix::system::uname().nodename().to_string_lossy().into_owned(),
        };
        // Kubelets also name their Node after the host in lower case. systemd passes the host's name with capitals.
        let name = name.trim().to_lowercase();
        NodeName::new(name.as_str()).map_err(|error| {
            AgentError::usage(format!("{name:?} is not a valid node name: {error}"), "set --node-name or $NODE_NAME")
        })
    }

    fn settings(&self) -> Settings {
        Settings {
            health_timeout: self.trial.health_timeout,
            trial_period: self.trial.trial_period,
            follow_interval: self.trial.follow_interval,
            joins: self.join.fleet.is_some(),
            kubelet_log: self.actions.kubelet_log(),
            ..Settings::default()
        }
    }

    fn host(&self) -> SystemHost {
        let runner = match &self.host_step {
            Some(socket) => ActionRunner::HostStep(socket.clone()),
            None => ActionRunner::InProcess(Box::new(self.actions.actions())),
        };
        SystemHost { runner, version: self.kubelet_version }
    }

    /// Time limit of `--once`: two restarts and two health timeouts, for the assignment and for a rollback, one
    /// trial, and the wait for the API server.
    fn once_limit(&self) -> Duration {
        let attempt = self.actions.longest_restart().saturating_add(self.trial.health_timeout);
        attempt.saturating_mul(2).saturating_add(self.trial.trial_period).saturating_add(ONCE_API_TIMEOUT)
    }
}

pub(super) async fn run(args: RunArgs, format: Format, out: &mut Vec<u8>) -> Result<Exit, AgentError> {
    let node = args.node()?;
    let runtime = open_runtime(&args)?;
    let options = ConnectOptions { kubeconfig: args.kubeconfig.clone(), context: None };
    let environment = Environment::capture();
    // The kubelet may need the rollback of a trial to get the credentials that are missing.
    let is_settled = runtime.ledger().agent_state.phase == Phase::Settled;
    let (client, server) = match connect(&options, &environment).await {
        Ok(connection) => (connection.client, connection.server),
        Err(error) if is_settled => return Err(error.into()),
        Err(error) => {
            tracing::error!("{error}. The trial continues without the API server");
            (connect_later(options, environment), "the API server".to_owned())
        }
    };
    let client_options = AgentClientOptions { seed: fastrand::u64(..), ..AgentClientOptions::default() };
    let client = AgentClient::new(client, &server, node.clone(), client_options).with_pointers(args.join.pointers());
    let (host, metrics) = (args.host(), Metrics::default());
    let options = Options { metrics: metrics.clone(), ..Options::default() };
    if args.once {
        let pass = driver::once(runtime, client, &host, options, ONCE_API_TIMEOUT, args.once_limit()).await?;
        return write_pass(&node, &pass, format, out);
    }
    let endpoint = match args.listen {
        Some(address) => match listen(address).await {
            Ok(endpoint) => Some(endpoint),
            Err(error) if is_settled => return Err(error),
            Err(error) => {
                tracing::error!("{}. The trial continues without metrics", error.message());
                None
            }
        },
        None => None,
    };
    let serving = async {
        match endpoint {
            Some(endpoint) => endpoint.serve(metrics).await,
            None => std::future::pending().await,
        }
    };
    let stop = super::stopped();
    tokio::select! {
        ended = driver::run(runtime, client, &host, options, stop) => ended?,
        // Never completes.
        () = serving => {}
    }
    Ok(Exit::Done)
}

async fn listen(address: SocketAddr) -> Result<Endpoint, AgentError> {
    let endpoint = Endpoint::bind(address).await.map_err(|error| {
        let help = "set --listen to a free port on an address of this host";
        AgentError::agent(format!("cannot listen on {address}: {error}"), help)
    })?;
    tracing::info!(address = %endpoint.address(), "serving /metrics and /healthz");
    Ok(endpoint)
}

fn open_runtime(args: &RunArgs) -> Result<AgentRuntime<RealDisk>, AgentError> {
    let paths = Paths { folder: args.store.folder().to_path_buf(), activation: args.activation.activation() };
    let failure = |reason: String| {
        let help = "the kubelet keeps its configuration; see `nodecfg-agent status`";
        AgentError::agent(format!("the agent cannot start: {reason}"), help)
    };
    let disk = RealDisk::open(&paths.folder).map_err(|error| failure(error.to_string()))?;
    AgentRuntime::open(&paths, args.settings(), disk, fastrand::u64(..)).map_err(|error| failure(error.to_string()))
}

/// Writes the result of `--once` and returns the exit code.
fn write_pass(node: &NodeName, pass: &Pass, format: Format, out: &mut Vec<u8>) -> Result<Exit, AgentError> {
    let (exit, state, text) = match pass {
        Pass::Settled => (Exit::Done, PassResult::Settled, "runs the assigned configuration".to_owned()),
        Pass::NoNodeConfig => {
            (Exit::Done, PassResult::NoNodeConfig, "has no NodeConfig and keeps its configuration".to_owned())
        }
        Pass::NoNode => (
            Exit::NotConverged,
            PassResult::NoNode,
            "does not exist: wait until the node has joined, or set --node-name to the name of its Node".to_owned(),
        ),
        Pass::Failed { error, message } => {
            let message = message.as_ref().map_or_else(String::new, |message| format!("\n  {message}"));
            (
                Exit::NotConverged,
                PassResult::Failed,
                format!("does not run the assigned configuration: {error}{message}"),
            )
        }
        Pass::Unfinished => (
            Exit::NotConverged,
            PassResult::Unfinished,
            "did not finish in time; run the command again to continue".to_owned(),
        ),
    };
    let (error, message) = match pass {
        Pass::Failed { error, message } => (Some(error.as_str()), message.as_deref()),
        _ => (None, None),
    };
    let document = AgentPass { node: node.as_str(), result: state, error, message };
    super::write(out, format, document, |out| writeln!(out, "node {node} {text}"))?;
    Ok(exit)
}

/// Parses an IP address with port, or a port on loopback.
fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse::<u16>() {
        return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    }
    text.parse().map_err(|_| {
        "expected a port or an IP address with a port, such as 9348, 127.0.0.1:9348 or [::1]:9348".to_owned()
    })
}

/// Parses the version of a kubelet.
fn parse_version(text: &str) -> Result<KubeletVersion, String> {
    KubeletVersion::parse(text).ok_or_else(|| "expected a kubelet version, such as v1.36.2".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use nodecfg_contract::installation::COMMAND_LIMIT;

    #[derive(Debug, clap::Parser)]
    struct Parsed {
        #[command(flatten)]
        run: RunArgs,
    }

    fn parsed(arguments: &[&str]) -> RunArgs {
        Parsed::parse_from(["agent"].iter().chain(arguments)).run
    }

    /// systemd's %H keeps the capitals of the host's name; the name of a Node has none.
    #[test]
    fn lowercases_node_name() {
        let node = parsed(&["--node-name", "Worker-1.Example.ORG"]).node().unwrap_or_else(|_| panic!("a name"));
        assert_eq!(node.as_str(), "worker-1.example.org");
        assert!(parsed(&["--node-name", "no name"]).node().is_err());
    }

    /// Without a limit, the agent could neither roll back nor rest between reads.
    #[test]
    fn zero_is_no_limit_or_refused() {
        assert_eq!(parsed(&["--restart-timeout", "0"]).once_limit(), Duration::MAX);
        for option in ["--health-timeout", "--follow-interval"] {
            let refused = Parsed::try_parse_from(["agent", option, "0"]).unwrap_err().to_string();
            assert!(refused.contains(option) && refused.contains("at least 1s"), "{refused}");
        }
        let longest = ["--restart-timeout", "--health-timeout", "--trial-period", "--follow-interval"];
        let longest: Vec<&str> = longest.into_iter().flat_map(|option| [option, "2562047h"]).collect();
        assert!(parsed(&longest).once_limit() > Duration::from_secs(2_562_047 * 3600));
    }

    /// Units and pods get this time to finish a restart before they are killed.
    #[test]
    fn restart_limit_matches_installation() {
        assert_eq!(parsed(&[]).actions.longest_restart(), COMMAND_LIMIT * 2);
    }
}
