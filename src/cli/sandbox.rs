//! `nodecfg sandbox`: an embedded cluster to try things on, and the arguments of `sync --sandbox`.

use std::num::NonZeroU64;
use std::path::PathBuf;

use super::repository_args::Loaded;
use super::{Exit, Failure, Terminal};
use crate::desired::Desired;
use crate::names::PoolName;
use crate::report::findings;
use crate::sandbox::api::Character;
use crate::sandbox::face::serve::Serving;
use crate::sandbox::kubelets::{FaultSpec, Faults};
use crate::sandbox::{Embedded, EmbeddedOptions, SandboxError, fit, nodes};

/// How much faster than real the kubelets of a sandbox are, unless told otherwise: a change takes about a second.
const SPEED: f64 = 10.0;

/// Run an embedded Kubernetes API server with simulated nodes, and print a kubeconfig for it.
///
/// It listens on loopback alone and forgets everything when it ends. For example:
/// nodecfg sandbox --nodes 6 --pools general,gpu --kubeconfig-out sandbox.kubeconfig
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// How many nodes.
    #[arg(long, value_name = "N", default_value_t = 6)]
    nodes: usize,
    /// Pools to spread them over, by the label nodecfg.dev/pool.
    #[arg(long, value_name = "POOL", value_delimiter = ',')]
    pools: Vec<PoolName>,
    /// Make nodes that fit the pools of this repository instead: --nodes of each.
    #[arg(long, value_name = "REPO", conflicts_with = "pools")]
    repo: Option<PathBuf>,
    /// Which API server to be.
    #[arg(long, value_enum, default_value_t = Version::V1_21, value_name = "VERSION")]
    kubernetes_version: Version,
    /// Port of 127.0.0.1 to listen on; a free one is picked otherwise.
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Write the kubeconfig to this file instead of standard output.
    #[arg(long, value_name = "FILE")]
    kubeconfig_out: Option<PathBuf>,
    #[command(flatten)]
    world: WorldArgs,
}

/// What a sandbox's world is like.
#[derive(Debug, Clone, clap::Args)]
struct WorldArgs {
    /// Have something go wrong on a node: <node>=<kind>, or *=<kind> for all. Kinds: crash, slow, slow:<factor>, not-ready,
    /// never-acknowledges, sync-error, load-error, validate-error, flap, deaf.
    #[arg(long, value_name = "NODE=KIND")]
    fault: Vec<FaultSpec>,
    /// Seed of everything that looks random in the sandbox.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// How many times faster than real the simulated kubelets are.
    #[arg(long, value_name = "FACTOR", default_value_t = SPEED)]
    speed: f64,
}

impl WorldArgs {
    fn options(&self, character: Character) -> EmbeddedOptions {
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
    /// Drops spec.configSource; kubelets ignore it.
    #[value(name = "1.36")]
    V1_36,
}

impl Version {
    fn character(self) -> Character {
        match self {
            Self::V1_21 => Character::V1_21,
            Self::V1_36 => Character::V1_36,
        }
    }

    fn kubelet(self) -> &'static str {
        match self {
            Self::V1_21 => "v1.21.14",
            Self::V1_36 => "v1.36.2",
        }
    }
}

pub(super) async fn run(args: &Args, terminal: &mut Terminal) -> Result<Exit, Failure> {
    let kubelet = args.kubernetes_version.kubelet();
    let specs = match &args.repo {
        Some(path) => {
            let repository = super::repository_args::RepositoryArgs { path: path.clone(), rev: None, worktree: false };
            fitted_nodes(&repository.load()?.desired, args.nodes, kubelet, terminal)?
        }
        None => {
            nodes::generic(args.nodes, &args.pools, kubelet).map_err(|error| SandboxError::Nodes(error.to_string()))?
        }
    };
    let count = specs.len();
    let embedded = Embedded::start(args.world.options(args.kubernetes_version.character()), specs).await?;
    embedded.wire().log.observe(|entry| tracing::info!("{entry}"));
    let serving = embedded.serve(args.port).await?;
    announce(args, &embedded, &serving, count, terminal)?;
    super::run::interrupted().await;
    embedded.stop(Some(serving)).await;
    Ok(Exit::Done)
}

fn announce(
    args: &Args,
    embedded: &Embedded,
    serving: &Serving,
    count: usize,
    terminal: &mut Terminal,
) -> Result<(), Failure> {
    let url = serving.url();
    writeln!(terminal.err, "sandbox: {count} nodes at {url}, until Ctrl-C")?;
    match &args.kubeconfig_out {
        Some(path) => {
            embedded.save_kubeconfig(serving, path)?;
            writeln!(terminal.err, "sandbox: try `kubectl --kubeconfig {} get nodes`", path.display())?;
        }
        None => {
            write!(terminal.out, "{}", embedded.kubeconfig(serving).to_yaml())?;
            terminal.out.flush()?;
        }
    }
    Ok(())
}

fn fitted_nodes(
    desired: &Desired,
    per_pool: usize,
    kubelet: &str,
    terminal: &mut Terminal,
) -> Result<Vec<nodes::NodeSpec>, Failure> {
    let (specs, notes) = fit::nodes_for(desired, per_pool, kubelet);
    for note in notes {
        findings::message(&mut terminal.err, &note.message, note.help.as_deref().unwrap_or_default())?;
    }
    Ok(specs)
}

/// The arguments that make `sync` run against an embedded cluster.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct SandboxArgs {
    /// Try it: run against an embedded cluster that is made to fit the repository.
    #[arg(long, conflicts_with_all = ["kubeconfig", "context"])]
    sandbox: bool,
    /// Nodes per pool of the embedded cluster.
    #[arg(long, value_name = "N", default_value = "4", requires = "sandbox")]
    sandbox_nodes: NonZeroU64,
    /// Have something go wrong on a node of the embedded cluster: <node>=<kind>; see `nodecfg sandbox --help`.
    #[arg(long, value_name = "NODE=KIND", requires = "sandbox")]
    fault: Vec<FaultSpec>,
    /// Seed of the embedded cluster.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "sandbox")]
    seed: u64,
    /// How many times faster than real the embedded kubelets are.
    #[arg(long, value_name = "FACTOR", default_value_t = SPEED, requires = "sandbox")]
    sandbox_speed: f64,
}

impl SandboxArgs {
    /// Starts the embedded cluster, if one is asked for.
    pub(super) async fn fitted(&self, loaded: &Loaded, terminal: &mut Terminal) -> Result<Option<Embedded>, Failure> {
        if !self.sandbox {
            return Ok(None);
        }
        let per_pool = usize::try_from(self.sandbox_nodes.get()).unwrap_or(usize::MAX);
        let specs = fitted_nodes(&loaded.desired, per_pool, Version::V1_21.kubelet(), terminal)?;
        let world = WorldArgs { fault: self.fault.clone(), seed: self.seed, speed: self.sandbox_speed };
        Ok(Some(Embedded::start(world.options(Character::V1_21), specs).await?))
    }
}
