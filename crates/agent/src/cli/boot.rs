//! `nodecfg-agent boot`: puts the configuration of the pool in place before the first start of the kubelet.

use std::path::PathBuf;
use std::time::Duration;

use super::args::{ActivationArgs, KUBELET, LogArgs, LogFormat, RootArgs, StoreArgs};
use super::{AgentError, Exit, parse_timeout};
use crate::boot::offer::{Offer, ReadOptions, Target};
use crate::boot::{Boot, BootError, Situation, startup_taint};
use crate::disk::real::{LockError, RealDisk};
use crate::host::actions::version_of;
use crate::host::capacity;
use crate::host::command::CommandLine;
use crate::placement::Activation;
use crate::runtime::Paths;
use nodecfg_cluster::connection::connect::{ConnectOptions, Environment, connect};
use nodecfg_contract::ContentHash;
use nodecfg_contract::Placement;
use nodecfg_contract::installation::NAMESPACE;
use nodecfg_contract::names::{FleetName, NamespaceName, PoolName};

/// Put the configuration of a pool in place before the kubelet starts for the first time.
///
/// Reads the pool pointer from the API server, or the configuration from a file. Checks it for the installed kubelet,
/// saves it in the agent's folder, and places it for the kubelet as the agent would. The agent then watches the
/// kubelet's health, and rolls back to the local configuration if the kubelet does not become healthy. Does not restart
/// the kubelet.
///
/// Changes nothing if the agent has state in its folder, if the kubelet has run pods, or if the pointer names no
/// configuration. So a reboot changes nothing.
///
/// Exits with 0 if the configuration is in place or nothing is to do. Exits with 4 if the pointer could not be read
/// within the timeout, with 5 if the pointer or the configuration is refused, and with 2 for any other problem. The
/// kubelet may start then: it has its old or the new configuration, never a part. The next boot completes the change.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Name of the fleet.
    #[arg(long, value_name = "NAME", env = "NODECFG_FLEET", hide_env_values = true)]
    fleet: FleetName,
    /// Name of the pool.
    #[arg(long, value_name = "NAME", env = "NODECFG_POOL", hide_env_values = true)]
    pool: PoolName,
    /// Namespace of the pool pointer.
    #[arg(long, value_name = "NAME", default_value = NAMESPACE)]
    namespace: NamespaceName,
    /// Kubeconfig that may read the pool pointer. The kubelet's own one does not exist yet.
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/etc/kubernetes/bootstrap-kubelet.conf",
        conflicts_with = "file"
    )]
    kubeconfig: PathBuf,
    /// Read the configuration from this file instead, without the API server: the output of `nodecfg render POOL
    /// --format file`.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Refuse the file unless its content has this hash.
    #[arg(long, value_name = "HASH", requires = "file", value_parser = parse_hash)]
    content_hash: Option<ContentHash>,
    /// How the node combines the file with its own configuration: overlay or replace. Default: replace with --activation
    /// file, overlay with drop-in.
    #[arg(long, value_name = "PLACEMENT", requires = "file", value_parser = parse_placement)]
    placement: Option<Placement>,
    /// How long to try to read the pool pointer; 0 sets no limit.
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = parse_timeout)]
    timeout: Duration,
    /// If this command fails or is killed, let the kubelet register its Node with the taint
    /// startup-taint.cluster-autoscaler.kubernetes.io/nodecfg:NoSchedule. Requires --activation drop-in.
    #[arg(long)]
    startup_taint: bool,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    log: LogArgs,
    #[command(flatten)]
    activation: ActivationArgs,
    /// Command of the kubelet's binary, to which --version is appended. If it fails, only configurations that every
    /// version refuses are refused.
    #[arg(long, value_name = "COMMAND", default_value = "kubelet", help_heading = KUBELET)]
    kubelet: CommandLine,
    #[command(flatten)]
    root: RootArgs,
}

const EXAMPLES: &str = "\
Examples:
  nodecfg-agent boot --fleet prod --pool gpu
  nodecfg-agent boot --fleet prod --pool gpu --activation drop-in --startup-taint
  nodecfg-agent boot --fleet prod --pool gpu --file /etc/nodecfg/kubelet.yaml";

/// Time to wait for the lock on the agent's folder. An agent without credentials holds it for a moment at each start.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval of attempts to get the lock.
const LOCK_INTERVAL: Duration = Duration::from_millis(100);

impl Args {
    pub(super) fn log_format(&self) -> LogFormat {
        self.log.format()
    }

    fn boot(&self) -> Boot {
        let paths = Paths { folder: self.store.folder().to_path_buf(), activation: self.activation.activation() };
        Boot { paths, root: self.root.folder().to_path_buf() }
    }

    fn target(&self) -> Target {
        Target { fleet: self.fleet.clone(), pool: self.pool.clone(), namespace: self.namespace.clone() }
    }

    /// Configuration for this node. `None`: the local configuration.
    async fn offer(&self) -> Result<Option<Offer>, AgentError> {
        if let Some(file) = &self.file {
            return Ok(Some(self.target().offered_by_file(
                &RealDisk::unlocked(),
                file,
                self.content_hash,
                self.placement,
            )?));
        }
        let options = ConnectOptions { kubeconfig: Some(self.kubeconfig.clone()), context: None };
        let connection = connect(&options, &Environment::capture()).await?;
        let options = ReadOptions { timeout: self.timeout, seed: fastrand::u64(..), ..ReadOptions::default() };
        let capacity = capacity::of_machine(self.root.folder());
        Ok(self.target().offered_by_cluster(connection.client, &connection.server, capacity, options).await?)
    }
}

/// What a boot that did not fail leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    /// The node has its configuration, or will get it in a rollout.
    Decided,
    /// The agent manages the node, and has no assignment.
    Undecided,
}

pub(super) async fn run(args: Args) -> Result<Exit, AgentError> {
    let boot = args.boot();
    let drop_ins = match &boot.paths.activation {
        Activation::DropIn { config_dir, config } => Some((config_dir.as_path(), config.as_deref())),
        Activation::File { .. } if args.startup_taint => {
            let help = "add --activation drop-in and --kubelet-config-dir, or omit --startup-taint";
            return Err(AgentError::usage("--startup-taint requires --activation drop-in", help));
        }
        Activation::File { .. } => None,
    };
    let disk = RealDisk::unlocked();
    let add_taint = || match drop_ins.filter(|_| args.startup_taint) {
        Some((config_dir, config)) => startup_taint::add(&disk, config_dir, config),
        None => Ok(()),
    };
    match (attempt(&args, &boot, add_taint).await, drop_ins) {
        (Err(error), Some(_)) if args.startup_taint => {
            match add_taint() {
                Ok(()) => tracing::warn!("the kubelet registers its Node with the startup taint"),
                Err(error) => tracing::error!("{error}"),
            }
            Err(error)
        }
        // A taint of an earlier boot stays until the node has its configuration or has run pods.
        (Ok(Left::Undecided), _) | (Ok(_), None) => Ok(Exit::Done),
        (result, Some((config_dir, _))) => {
            let removed = startup_taint::remove(&disk, config_dir).map_err(AgentError::from);
            result.and(removed).map(|()| Exit::Done)
        }
        (Err(error), None) => Err(error),
    }
}

/// `prepare` comes before the first change, so that a boot that is killed leaves its effect.
async fn attempt(args: &Args, boot: &Boot, prepare: impl Fn() -> Result<(), BootError>) -> Result<Left, AgentError> {
    if let Some(left) = nothing_to_do(&boot.survey(&RealDisk::unlocked())?) {
        return Ok(left);
    }
    let Some(disk) = lock(boot).await? else {
        tracing::info!("an agent runs on this node; nothing to do");
        return Ok(Left::Undecided);
    };
    let situation = boot.survey(&disk)?;
    if let Some(left) = nothing_to_do(&situation) {
        return Ok(left);
    }
    if let Err(error) = prepare() {
        // The configuration may come without problems.
        tracing::warn!("{error}");
    }
    if let Situation::Interrupted(ledger) = situation {
        boot.complete(&disk, &ledger)?;
        tracing::info!("completed an interrupted boot");
        return Ok(Left::Decided);
    }
    let (offer, kubelet) = tokio::join!(args.offer(), version_of(&args.kubelet));
    let Some(offer) = offer? else {
        tracing::info!(pool = %args.pool, "new nodes of the pool run their local configuration; nothing to do");
        return Ok(Left::Decided);
    };
    boot.install(&disk, &offer, &args.pool, kubelet, nodecfg_clock::now())?;
    let kubelet = kubelet.map(|version| version.to_string());
    tracing::info!(source = %offer.source, hash = %offer.hash, kubelet, "the configuration of the pool is in place");
    Ok(Left::Decided)
}

/// Result for a node that needs no change.
fn nothing_to_do(situation: &Situation) -> Option<Left> {
    match situation {
        Situation::Owned { assigned } => {
            tracing::info!("the agent owns the configuration; nothing to do");
            Some(if *assigned { Left::Decided } else { Left::Undecided })
        }
        Situation::HasPods => {
            tracing::info!("the kubelet has run pods, so its configuration changes in a rollout; nothing to do");
            Some(Left::Decided)
        }
        Situation::Interrupted(_) | Situation::New => None,
    }
}

/// Locks the agent's folder. `None` if an agent uses it.
async fn lock(boot: &Boot) -> Result<Option<RealDisk>, AgentError> {
    let began = nodecfg_clock::instant();
    loop {
        match RealDisk::open(&boot.paths.folder) {
            Ok(disk) => return Ok(Some(disk)),
            Err(LockError::Held(_)) if began.elapsed() < LOCK_TIMEOUT => tokio::time::sleep(LOCK_INTERVAL).await,
            Err(LockError::Held(_)) => return Ok(None),
            Err(error @ LockError::Unusable { .. }) => {
                return Err(AgentError::agent(error.to_string(), "run as root, or set --store-dir"));
            }
        }
    }
}

impl From<BootError> for AgentError {
    fn from(error: BootError) -> Self {
        let message = error.to_string();
        match error {
            BootError::Cluster(error) => (*error).into(),
            BootError::Pointer { .. } => {
                Self::refused(message, "compare the ConfigMap with the output of `nodecfg render POOL --format file`")
            }
            BootError::OtherContent { .. } => Self::refused(message, "render the file again, or correct the hash"),
            BootError::Refused(_) => {
                Self::refused(message, "run `nodecfg validate` for this kubelet version, or upgrade the kubelet")
            }
            BootError::File { .. } => {
                Self::agent(message, "write it with `nodecfg render POOL --format file --out FILE`")
            }
            BootError::Store(_) | BootError::Placement(_) | BootError::Disk(_) | BootError::StartupTaint(_) => {
                Self::agent(message, "the kubelet keeps its configuration; see `nodecfg-agent status`")
            }
        }
    }
}

/// Parses a placement.
fn parse_placement(text: &str) -> Result<Placement, String> {
    Placement::parse(text).ok_or_else(|| "expected overlay or replace".to_owned())
}

/// Parses a content hash.
fn parse_hash(text: &str) -> Result<ContentHash, String> {
    ContentHash::parse(text).ok_or_else(|| format!("expected a hash, such as {}0f3a…", ContentHash::PREFIX))
}
