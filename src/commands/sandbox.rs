//! `nodecfg sandbox` and `sync --sandbox`: an embedded cluster with simulated nodes.

use std::num::NonZeroU64;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use super::{CommandError, CommandResult, Exit, Terminal};
use crate::arguments::repository::{Loaded, RepositoryArgs, optional, quoted};
use crate::report;
use crate::report::findings;
use crate::sandbox_nodes;
use nodecfg_contract::names::PoolName;
use nodecfg_fleet::Desired;
pub(super) use nodecfg_sandbox::Embedded;
use nodecfg_sandbox::api::ServerProfile;
use nodecfg_sandbox::kubelets::FaultSpec;
use nodecfg_sandbox::kubelets::fault::KINDS;
use nodecfg_sandbox::machines::Options;
use nodecfg_sandbox::server::serve::Serving;
use nodecfg_sandbox::workloads::fault::POD_FAULTS;
use nodecfg_sandbox::workloads::spec::MAX_PODS;
use nodecfg_sandbox::workloads::{PodFaultSpec, WorkloadSpec};
use nodecfg_sandbox::{EmbeddedOptions, SandboxError, nodes};

/// Default speed of simulated kubelets. A change takes about one second.
const DEFAULT_SPEED: f64 = 10.0;

/// Run a test cluster: an API server with simulated nodes.
///
/// Listens on loopback only, until Ctrl-C, and prints a kubeconfig that also works with kubectl. Stores nothing. -v
/// logs every request.
#[derive(Debug, clap::Args)]
#[command(after_help = after_help())]
#[command(mut_arg("repository", |repository| optional(
    repository, "Create nodes that match the pools of this repository"
).long("repo").display_order(2).conflicts_with("pools")))]
pub(super) struct Args {
    /// Create N nodes; with --repo, N nodes for each pool.
    #[arg(long, value_name = "N", default_value_t = 6)]
    nodes: usize,
    /// Distribute the nodes over these pools, by the label nodecfg.dev/pool.
    #[arg(long, value_name = "POOL", value_delimiter = ',')]
    pools: Vec<PoolName>,
    #[command(flatten)]
    repository: RepositoryArgs,
    /// Simulate this Kubernetes version: 1.21 (kubelets follow spec.configSource) or 1.36 (agents follow
    /// NodeConfigs). Default: spec.kubernetesVersion of the pools, or 1.36.
    #[arg(long, value_enum, value_name = "VERSION", hide_possible_values = true)]
    kubernetes_version: Option<Version>,
    /// Omit the objects and agents that `nodecfg install` adds to a cluster.
    #[arg(long)]
    not_installed: bool,
    /// Let the agents write drop-ins, which kubelets merge over the nodes' own configuration.
    #[arg(long, conflicts_with = "not_installed")]
    drop_ins: bool,
    /// Listen on this port of 127.0.0.1. Default: any free port.
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Write the kubeconfig to this file instead of standard output.
    #[arg(long, value_name = "FILE")]
    kubeconfig_out: Option<PathBuf>,
    #[command(flatten)]
    simulation: SimulationArgs,
}

/// Arguments of the simulation.
#[derive(Debug, Clone, clap::Args)]
struct SimulationArgs {
    /// Simulate a fault on a node, or on all nodes (*=KIND). The kinds are listed below. May be repeated.
    #[arg(long, value_name = "NODE=KIND")]
    fault: Vec<FaultSpec>,
    /// Run N pods on each node: of DaemonSets, and of ReplicaSets with PodDisruptionBudgets.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=i64::from(MAX_PODS)))]
    pods: u8,
    /// Add a pod to a node that a drain cannot move as usual. The kinds are listed below. May be repeated.
    #[arg(long, value_name = "NODE=KIND")]
    pod_fault: Vec<PodFaultSpec>,
    /// Seed the random number generator.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Run the simulated kubelets this many times faster than real ones. On a busy machine they are slower.
    #[arg(long, value_name = "FACTOR", default_value_t = DEFAULT_SPEED, value_parser = parse_speed)]
    speed: f64,
}

impl SimulationArgs {
    /// Options for a number of nodes.
    fn options(&self, profile: ServerProfile, nodes: usize) -> EmbeddedOptions {
        let workloads =
            WorkloadSpec { faults: self.pod_fault.clone(), ..WorkloadSpec::filling(nodes, usize::from(self.pods)) };
        EmbeddedOptions {
            workloads: (workloads != WorkloadSpec::default()).then_some(workloads),
            profile,
            nodes: Options { seed: self.seed, speed: self.speed, faults: self.fault.iter().cloned().collect() },
            ..EmbeddedOptions::default()
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Version {
    /// Stores spec.configSource; kubelets follow it.
    #[value(name = "1.21")]
    V1_21,
    /// Drops spec.configSource; agents follow NodeConfigs.
    #[value(name = "1.36")]
    V1_36,
}

/// Default server profile.
const DEFAULT_PROFILE: ServerProfile = ServerProfile::V1_36;

/// Tables of fault kinds, and examples.
fn after_help() -> String {
    let width = KINDS.iter().map(|(_, name, _)| name.len()).max().unwrap_or_default();
    let line = |name: &str, what: &str| format!("  {name:width$}  {what}\n");
    let nodes: String = KINDS.iter().map(|(_, name, what)| line(name, what)).collect();
    let pods: String = POD_FAULTS.iter().map(|(_, name, what)| line(name, what)).collect();
    format!(
        "Faults (from no-start on, only for nodes with agents):\n{nodes}\nPod faults (the added pod ...):\n{pods}\n{EXAMPLES}"
    )
}

impl Version {
    fn profile(self) -> ServerProfile {
        match self {
            Self::V1_21 => ServerProfile::V1_21,
            Self::V1_36 => ServerProfile::V1_36,
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  nodecfg sandbox --pools general,gpu --kubeconfig-out sandbox.yaml
  nodecfg sandbox --repo examples/repo-layout --kubeconfig-out sandbox.yaml -v
  nodecfg sandbox --nodes 3 --fault node-1=crash > sandbox.yaml
  nodecfg sandbox --pods 10 --pod-fault node-1=blocked-budget --kubeconfig-out sandbox.yaml
  nodecfg sandbox --kubernetes-version 1.36 --fault node-1=dies --kubeconfig-out sandbox.yaml";

impl From<SandboxError> for CommandError {
    fn from(error: SandboxError) -> Self {
        Self::Sandbox { message: error.to_string(), help: error.help() }
    }
}

pub(super) async fn run(args: &Args, terminal: &mut Terminal) -> CommandResult {
    let requested = args.kubernetes_version.map(Version::profile);
    let loaded = args.repository.load_named(terminal).await?;
    let (profile, mut specs) = match &loaded {
        Some(loaded) => matching_nodes(&loaded.desired, args.nodes, requested, terminal)?,
        None => {
            let profile = requested.unwrap_or(DEFAULT_PROFILE);
            let specs = nodes::generic(args.nodes, &args.pools, profile.git_version());
            (profile, specs.map_err(|error| SandboxError::Nodes(error.to_string()))?)
        }
    };
    let count = specs.len();
    specs.iter_mut().for_each(|spec| spec.host.writes_drop_in = args.drop_ins);
    let options = EmbeddedOptions { installed: !args.not_installed, ..args.simulation.options(profile, count) };
    let embedded = Embedded::start(options, specs).await?;
    embedded.wire().log.observe(|entry| tracing::info!("{entry}"));
    let serving = embedded.serve(args.port).await?;
    announce(args, loaded.as_ref(), &embedded, &serving, count, terminal)?;
    nodecfg_agent::cli::stop_signals::signalled().await;
    embedded.stop(Some(serving)).await;
    Ok(Exit::Done)
}

fn announce(
    args: &Args,
    loaded: Option<&Loaded>,
    embedded: &Embedded,
    serving: &Serving,
    count: usize,
    terminal: &mut Terminal,
) -> Result<(), CommandError> {
    let url = serving.url();
    let nodes = report::count(count, "node");
    writeln!(terminal.info(), "sandbox: {nodes} at {url}; press Ctrl-C to stop and delete it")?;
    if loaded.is_some() {
        writeln!(terminal.info(), "sandbox: {START_CONFIGURATION}")?;
    }
    match &args.kubeconfig_out {
        Some(path) => {
            embedded.save_kubeconfig(serving, path)?;
            writeln!(terminal.info(), "sandbox: run in another terminal:")?;
            writeln!(terminal.info(), "  export KUBECONFIG={}", absolute(path).display())?;
            let repository = loaded.map(|loaded| loaded.arguments.arguments()).unwrap_or_default();
            let pods = (args.simulation.pods > 0).then_some("kubectl get pods --all-namespaces");
            let sync = quoted(["nodecfg", "sync"].map(str::to_owned).into_iter().chain(repository));
            for command in ["kubectl get nodes"].into_iter().chain(pods).chain(["nodecfg status", &sync]) {
                writeln!(terminal.info(), "  {command}")?;
            }
        }
        None => {
            writeln!(terminal.info(), "sandbox: kubeconfig follows; --kubeconfig-out FILE writes it to a file")?;
            write!(terminal.out, "{}", embedded.kubeconfig(serving).to_yaml())?;
            terminal.out.flush()?;
        }
    }
    Ok(())
}

/// The absolute path, which is valid in another terminal.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Example of `sync`, with its line break.
pub(super) const SANDBOX_EXAMPLE: &str = "  nodecfg sync examples/repo-layout --sandbox  run without a cluster\n";

/// What nodes that match a repository start with.
pub(super) const START_CONFIGURATION: &str = "nodes start with kubeadm's defaults, except fields that need a drain";

/// Nodes that match a repository, and the requested API server or the one that matches.
fn matching_nodes(
    desired: &Desired,
    per_pool: usize,
    requested: Option<ServerProfile>,
    terminal: &mut Terminal,
) -> Result<(ServerProfile, Vec<nodes::NodeSpec>), CommandError> {
    let profile = requested.or_else(|| sandbox_nodes::profile_for(desired)).unwrap_or(DEFAULT_PROFILE);
    let (specs, notes) = sandbox_nodes::nodes_for(desired, per_pool, profile);
    for note in notes {
        findings::warning_message(&mut terminal.err, &note.message, note.help.as_deref().unwrap_or_default())?;
    }
    Ok((profile, specs))
}

/// Speeds of a sandbox. Far beyond them, times of day overflow.
const SPEEDS: RangeInclusive<f64> = 0.001..=1_000_000.0;

/// Parses the speed of a sandbox.
fn parse_speed(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|speed| SPEEDS.contains(speed)).ok_or_else(|| {
        format!("the factor must be a number from {} to {}; 1 is real time", SPEEDS.start(), SPEEDS.end())
    })
}

/// Arguments that run `sync` against an embedded cluster.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Sandbox")]
#[command(mut_arg("fault", |fault| fault.requires("sandbox").help(
    "Simulate a fault on a node, such as gpu-1=validate-error. `nodecfg help sandbox` lists the kinds"
)))]
#[command(mut_arg("pods", |pods| pods.long("sandbox-pods").requires("sandbox")))]
#[command(mut_arg("pod_fault", |fault| fault.requires("sandbox").help(
    "Add a pod to a node that a drain cannot move as usual, such as gpu-1=hangs. `nodecfg help sandbox` lists the kinds"
)))]
#[command(mut_arg("seed", |seed| seed.requires("sandbox")))]
#[command(mut_arg("speed", |speed| speed.long("sandbox-speed").requires("sandbox").help(
    "Run the nodes, soaks, convergence timeouts and trials this many times faster than in real time. On a busy machine \
     they are slower"
)))]
pub(super) struct SandboxArgs {
    /// Run against an embedded cluster with nodes that match the repository. It is deleted afterwards.
    #[arg(long, conflicts_with_all = ["kubeconfig", "context"])]
    sandbox: bool,
    /// Create N nodes for each pool.
    #[arg(long, value_name = "N", default_value = "4", requires = "sandbox")]
    sandbox_nodes: NonZeroU64,
    /// Simulate this Kubernetes version: 1.21 (kubelets follow spec.configSource) or 1.36 (agents follow
    /// NodeConfigs). Default: spec.kubernetesVersion of the pools, or 1.36.
    #[arg(long, value_enum, value_name = "VERSION", requires = "sandbox", hide_possible_values = true)]
    sandbox_version: Option<Version>,
    #[command(flatten)]
    simulation: SimulationArgs,
}

impl SandboxArgs {
    /// Speed of the nodes' time; 1 without a sandbox.
    pub(super) fn speed(&self) -> f64 {
        if self.sandbox { self.simulation.speed } else { 1.0 }
    }

    /// The embedded cluster in messages.
    pub(super) fn server(&self) -> String {
        match self.simulation.speed {
            1.0 => "a sandbox cluster in real time".to_owned(),
            speed => format!("a sandbox cluster at {speed} times real speed"),
        }
    }

    /// Starts the embedded cluster, if requested.
    pub(super) async fn start(
        &self,
        loaded: &Loaded,
        terminal: &mut Terminal,
    ) -> Result<Option<Embedded>, CommandError> {
        if !self.sandbox {
            return Ok(None);
        }
        let per_pool = usize::try_from(self.sandbox_nodes.get()).unwrap_or(usize::MAX);
        let requested = self.sandbox_version.map(Version::profile);
        let (profile, specs) = matching_nodes(&loaded.desired, per_pool, requested, terminal)?;
        let mut options = self.simulation.options(profile, specs.len());
        // Logs of agents are not part of the output of this command.
        options.agents.log = false;
        Ok(Some(Embedded::start(options, specs).await?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_is_within_bounds() {
        for (text, speed) in [("0.001", 0.001), ("20", 20.0), ("1e6", 1e6)] {
            assert_eq!(parse_speed(text), Ok(speed));
        }
        for text in ["0", "-1", "1e-9", "1e30", "NaN", "inf", "fast"] {
            assert_eq!(
                parse_speed(text),
                Err("the factor must be a number from 0.001 to 1000000; 1 is real time".to_owned())
            );
        }
    }
}
