//! `nodecfg sandbox`: an embedded cluster to try things on, and the arguments of `sync --sandbox`.

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use super::repository_args::Loaded;
use super::{CommandError, CommandResult, Exit, Terminal};
use crate::report::{self, findings};
use crate::sandbox_nodes;
use nodecfg_contract::names::PoolName;
use nodecfg_planning::desired::Desired;
use nodecfg_sandbox::api::ServerProfile;
use nodecfg_sandbox::face::serve::Serving;
use nodecfg_sandbox::kubelets::fault::KINDS;
use nodecfg_sandbox::kubelets::{FaultSpec, Faults};
use nodecfg_sandbox::{Embedded, EmbeddedOptions, SandboxError, nodes};

/// How much faster than real the kubelets of a sandbox are, unless told otherwise: a change takes about a second.
const SPEED: f64 = 10.0;

/// Run a cluster to try things on: an API server with simulated nodes.
///
/// Serves on loopback alone until Ctrl-C, prints a kubeconfig for it, and keeps nothing. kubectl works with it; -v logs every
/// request.
#[derive(Debug, clap::Args)]
#[command(after_help = after_help())]
pub(super) struct Args {
    /// How many nodes; with --repo, how many for each of its pools.
    #[arg(long, value_name = "N", default_value_t = 6)]
    nodes: usize,
    /// Pools to spread the nodes over, by the label nodecfg.dev/pool.
    #[arg(long, value_name = "POOL", value_delimiter = ',')]
    pools: Vec<PoolName>,
    /// Make nodes that fit the pools of this repository instead.
    #[arg(long, value_name = "REPO", conflicts_with = "pools")]
    repo: Option<PathBuf>,
    /// Kubernetes version to be like: 1.21 (kubelets follow spec.configSource of their Nodes) or 1.36 (that is dropped; agents
    /// follow NodeConfigs). Default: what the repository's pools declare (spec.kubernetesVersion), or 1.36.
    #[arg(long, value_enum, value_name = "VERSION", hide_possible_values = true)]
    kubernetes_version: Option<Version>,
    /// Leave out what `nodecfg install` puts on a cluster, and the agents with it.
    #[arg(long)]
    not_installed: bool,
    /// Port of 127.0.0.1 to listen on, instead of any that is free.
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Write the kubeconfig to this file, instead of standard output.
    #[arg(long, value_name = "FILE")]
    kubeconfig_out: Option<PathBuf>,
    #[command(flatten)]
    world: WorldArgs,
}

/// What a sandbox's world is like.
#[derive(Debug, Clone, clap::Args)]
struct WorldArgs {
    /// Let something go wrong on a node, or on all of them (*=KIND); the kinds are below. May be repeated.
    #[arg(long, value_name = "NODE=KIND")]
    fault: Vec<FaultSpec>,
    /// Seed of everything that looks random.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// How many times faster than real the simulated kubelets are.
    #[arg(long, value_name = "FACTOR", default_value_t = SPEED, value_parser = parse_speed)]
    speed: f64,
}

impl WorldArgs {
    fn options(&self, character: ServerProfile) -> EmbeddedOptions {
        EmbeddedOptions {
            character,
            seed: self.seed,
            speed: self.speed,
            faults: self.fault.iter().cloned().collect::<Faults>(),
            ..EmbeddedOptions::default()
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Version {
    /// Keeps spec.configSource; kubelets follow it.
    #[value(name = "1.21")]
    V1_21,
    /// Drops spec.configSource; agents follow NodeConfigs.
    #[value(name = "1.36")]
    V1_36,
}

/// What a sandbox is like when nothing is said about it.
const DEFAULT: ServerProfile = ServerProfile::V1_36;

/// The kinds of faults, one a line, and examples.
fn after_help() -> String {
    let width = KINDS.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    let lines: String = KINDS.iter().map(|(name, what)| format!("  {name:width$}  {what}\n")).collect();
    format!("Faults (from no-start on, of nodes with agents):\n{lines}\n{EXAMPLES}")
}

impl Version {
    fn character(self) -> ServerProfile {
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
  nodecfg sandbox --kubernetes-version 1.36 --fault node-1=dies --kubeconfig-out sandbox.yaml";

pub(super) async fn run(args: &Args, terminal: &mut Terminal) -> CommandResult {
    let asked = args.kubernetes_version.map(Version::character);
    let (character, specs) = match &args.repo {
        Some(path) => {
            let repository = super::repository_args::RepositoryArgs::of(path);
            fitted_nodes(&repository.load(terminal).await?.desired, args.nodes, asked, terminal)?
        }
        None => {
            let character = asked.unwrap_or(DEFAULT);
            let specs = nodes::generic(args.nodes, &args.pools, character.git_version());
            (character, specs.map_err(|error| SandboxError::Nodes(error.to_string()))?)
        }
    };
    let count = specs.len();
    let options = EmbeddedOptions { installed: !args.not_installed, ..args.world.options(character) };
    let embedded = Embedded::start(options, specs).await?;
    embedded.wire().log.observe(|entry| tracing::info!("{entry}"));
    let serving = embedded.serve(args.port).await?;
    announce(args, &embedded, &serving, count, terminal)?;
    nodecfg_agent::cli::stop_signals::signalled().await;
    embedded.stop(Some(serving)).await;
    Ok(Exit::Done)
}

fn announce(
    args: &Args,
    embedded: &Embedded,
    serving: &Serving,
    count: usize,
    terminal: &mut Terminal,
) -> Result<(), CommandError> {
    let url = serving.url();
    let nodes = report::count(count, "node");
    writeln!(terminal.aside(), "sandbox: {nodes} at {url}; Ctrl-C ends it, and nothing of it is kept")?;
    match &args.kubeconfig_out {
        Some(path) => {
            embedded.save_kubeconfig(serving, path)?;
            writeln!(terminal.aside(), "sandbox: in another terminal:")?;
            writeln!(terminal.aside(), "  export KUBECONFIG={}", absolute(path).display())?;
            let repository = args.repo.as_ref().map_or_else(String::new, |repo| format!(" {}", repo.display()));
            for command in ["kubectl get nodes", "nodecfg status", &format!("nodecfg sync{repository}")] {
                writeln!(terminal.aside(), "  {command}")?;
            }
        }
        None => {
            writeln!(terminal.aside(), "sandbox: its kubeconfig follows; --kubeconfig-out FILE writes it to a file")?;
            write!(terminal.out, "{}", embedded.kubeconfig(serving).to_yaml())?;
            terminal.out.flush()?;
        }
    }
    Ok(())
}

/// The path as another terminal understands it.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Nodes that fit a repository, and the API server that fits it unless another is asked for.
fn fitted_nodes(
    desired: &Desired,
    per_pool: usize,
    asked: Option<ServerProfile>,
    terminal: &mut Terminal,
) -> Result<(ServerProfile, Vec<nodes::NodeSpec>), CommandError> {
    let character = asked.or_else(|| sandbox_nodes::character_for(desired)).unwrap_or(DEFAULT);
    let (specs, notes) = sandbox_nodes::nodes_for(desired, per_pool, character);
    for note in notes {
        findings::message(&mut terminal.err, &note.message, note.help.as_deref().unwrap_or_default())?;
    }
    Ok((character, specs))
}

/// A number above 0.
fn parse_speed(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|speed: &f64| speed.is_finite() && *speed > 0.0)
        .ok_or_else(|| "it must be a number above 0; 1 is real time".to_owned())
}

/// The arguments that make `sync` run against an embedded cluster.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Sandbox")]
pub(super) struct SandboxArgs {
    /// Run against an embedded cluster with nodes that fit the repository, and forget it afterwards.
    #[arg(long, conflicts_with_all = ["kubeconfig", "context"])]
    sandbox: bool,
    /// How many nodes for each pool.
    #[arg(long, value_name = "N", default_value = "4", requires = "sandbox")]
    sandbox_nodes: NonZeroU64,
    /// Kubernetes version to be like: 1.21 (kubelets follow spec.configSource of their Nodes) or 1.36 (agents follow
    /// NodeConfigs). Default: what the pools declare (spec.kubernetesVersion), or 1.36.
    #[arg(long, value_enum, value_name = "VERSION", requires = "sandbox", hide_possible_values = true)]
    sandbox_version: Option<Version>,
    /// Let something go wrong on a node, such as gpu-1=validate-error; `nodecfg sandbox --help` lists the kinds.
    #[arg(long, value_name = "NODE=KIND", requires = "sandbox")]
    fault: Vec<FaultSpec>,
    /// Seed of everything that looks random.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "sandbox")]
    seed: u64,
    /// How many times faster than real the simulated kubelets are.
    #[arg(long, value_name = "FACTOR", default_value_t = SPEED, requires = "sandbox", value_parser = parse_speed)]
    sandbox_speed: f64,
}

impl SandboxArgs {
    /// Starts the embedded cluster, if one is asked for.
    pub(super) async fn fitted(
        &self,
        loaded: &Loaded,
        terminal: &mut Terminal,
    ) -> Result<Option<Embedded>, CommandError> {
        if !self.sandbox {
            return Ok(None);
        }
        let per_pool = usize::try_from(self.sandbox_nodes.get()).unwrap_or(usize::MAX);
        let asked = self.sandbox_version.map(Version::character);
        let (character, specs) = fitted_nodes(&loaded.desired, per_pool, asked, terminal)?;
        let world = WorldArgs { fault: self.fault.clone(), seed: self.seed, speed: self.sandbox_speed };
        // What agents log is not what this command says.
        let options = EmbeddedOptions { log_agents: false, ..world.options(character) };
        Ok(Some(Embedded::start(options, specs).await?))
    }
}
