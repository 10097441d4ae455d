//! `nodecfg render`: prints the configuration of a pool for images and user data of new nodes.

use std::path::{Path, PathBuf};

use super::install::parse_path;
use super::{CommandError, CommandResult, Exit, Terminal};
use crate::arguments::repository::RepositoryArgs;
use crate::arguments::unknown_name::unknown_name;
use crate::atomic_file::{Readers, replace};
use crate::render::{Consumer, NodeFile, Settings, Subject, findings, overlay_as_file, render};
use crate::report::findings as shown;
use crate::runs::comparison::declared;
use crate::runs::planning::warn_of;
use kubelet_config::capacity::{Capacity, Resource};
use kubelet_config::finding::Finding;
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_fleet::{Pool, SizedPool};

/// Print the configuration of a pool for images and user data of new nodes.
///
/// Prints the content that sync assigns, for a program that creates nodes. Needs no cluster. The output changes only with
/// the content: it names no commit. Prints all values, also those that reports redact, such as staticPodURLHeader.
/// Warns about programs that predict the pods of a node by other values than its kubelet.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Print the configuration of this pool.
    #[arg(value_name = "POOL")]
    pool: PoolName,
    #[command(flatten)]
    pub(super) repository: RepositoryArgs,
    /// Print this format.
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Consumer,
    /// Write to FILE instead of standard output.
    #[arg(long, value_name = "FILE", value_parser = parse_file)]
    out: Option<PathBuf>,
    /// Let cloud-init write this file, the --config of the kubelets [default: /var/lib/kubelet/config.yaml]
    #[arg(long, value_name = "PATH", value_parser = parse_path)]
    kubelet_config: Option<String>,
    /// Let cloud-init write a drop-in to this folder, the --config-dir of the kubelets, instead of --kubelet-config.
    #[arg(long, value_name = "PATH", value_parser = parse_path, conflicts_with = "kubelet_config")]
    kubelet_config_dir: Option<String>,
    /// Name the object of karpenter or cluster-api [default: FLEET-POOL]
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    name: Option<NodeName>,
    #[command(flatten)]
    size: SizeArgs,
}

/// Size of the machine, for a pool whose reservations follow from it (`spec.kubelet.reserve`).
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Size of the machine")]
struct SizeArgs {
    /// Cores of the machine, such as 16.
    #[arg(long, value_name = "CORES", value_parser = parse_amount(Resource::Cpu))]
    cpu: Option<u64>,
    /// Memory of the machine, such as 64Gi.
    #[arg(long, value_name = "QUANTITY", value_parser = parse_amount(Resource::Memory))]
    memory: Option<u64>,
    /// Storage of the kubelet's file system, such as 100Gi.
    #[arg(long, value_name = "QUANTITY", value_parser = parse_amount(Resource::EphemeralStorage))]
    ephemeral_storage: Option<u64>,
}

/// Parser of an amount of a resource.
fn parse_amount(resource: Resource) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    move |text| {
        let amount = resource.amount(text).filter(|amount| *amount > 0);
        amount.ok_or_else(|| "expected a quantity above 0, such as 16 or 64Gi".to_owned())
    }
}

impl SizeArgs {
    /// Capacity of the machine. Amounts without an option are unknown.
    fn capacity(&self) -> Capacity {
        let amounts = [
            (Resource::Cpu, self.cpu),
            (Resource::Memory, self.memory),
            (Resource::EphemeralStorage, self.ephemeral_storage),
        ];
        amounts.into_iter().fold(Capacity::default(), |capacity, (resource, amount)| {
            amount.map_or(capacity, |amount| capacity.with(resource, amount))
        })
    }

    /// The pool as a machine of this size has it.
    fn of<'p>(&self, pool: &'p Pool) -> Result<SizedPool<'p>, CommandError> {
        let capacity = self.capacity();
        let sizes = pool.targets.sizes();
        if sizes.is_none() && capacity != Capacity::default() {
            let message = format!("all nodes of pool {} have the same configuration", pool.name);
            return Err(CommandError::usage(message, "omit the options of the size of the machine"));
        }
        let missing: Vec<&str> = sizes.into_iter().flat_map(|sizes| sizes.missing(capacity)).map(option).collect();
        if !missing.is_empty() {
            let message = format!(
                "the configuration of pool {} follows from the size of the machine (spec.kubelet.reserve)",
                pool.name
            );
            return Err(CommandError::usage(
                message,
                format!("add {}; `nodecfg validate -v` lists sizes", missing.join(" ")),
            ));
        }
        pool.for_node(capacity).ok_or_else(|| {
            let message = format!("the patches of pool {} do not fit a machine of this size", pool.name);
            CommandError::usage(message, "remove tests of kubeReserved from its JSON patches")
        })
    }
}

/// The option of a resource, with an example.
fn option(resource: Resource) -> &'static str {
    match resource {
        Resource::Cpu => "--cpu 16",
        Resource::Memory => "--memory 64Gi",
        Resource::EphemeralStorage => "--ephemeral-storage 100Gi",
    }
}

const EXAMPLES: &str = "\
Examples:
  nodecfg render gpu --format file                    print the content of the ConfigMap
  nodecfg render gpu --format file --cpu 16 --memory 64Gi --ephemeral-storage 100Gi
                                                      print it for a machine of this size
  nodecfg render gpu --format cloud-init              print user data that writes the kubelet's --config
  nodecfg render gpu --format karpenter --name gpu    print fields of the EC2NodeClass gpu
  nodecfg render gpu --format kubeadm-patch --out patches/kubeletconfiguration+merge.yaml
                                                      write the file for kubeadm's --patches";

pub(super) async fn run(args: &Args, verbose: u8, terminal: &mut Terminal) -> CommandResult {
    let (consumer, settings) = (args.format, args.settings()?);
    let loaded = args.repository.load(terminal).await?;
    let found = declared(&loaded, args.repository.gate())?;
    let desired = &loaded.desired;
    let Some(pool) = desired.pools.get(&args.pool) else {
        return Err(unknown_name("pool", &args.pool, "in the repository", desired.pools.keys(), ""));
    };
    let of_size = args.size.of(pool)?;
    let Some(rendered) = of_size.target.rendered() else {
        return Err(CommandError::usage(
            format!("pool {} has no configuration: its nodes keep their local one (spec.kubelet.local)", pool.name),
            "name a pool with a configuration, or remove `local: true` from its pool.yaml",
        ));
    };
    let placement = pool.placement_of_kubelets();
    let subject = Subject { fleet: &desired.fleet, pool: &pool.name, rendered, placement, kubelets: &pool.kubelets };
    let text =
        render(&subject, consumer, &settings).map_err(|error| CommandError::usage(error.to_string(), error.help()))?;
    warn_of(found.iter(), &loaded, verbose, terminal)?;
    let overlay = overlay_as_file(&subject, consumer, &settings.file);
    let warnings: Vec<Finding> = overlay.into_iter().chain(findings(&subject, consumer)).collect();
    shown::write_each(&mut terminal.err, &|file| loaded.snapshot.text(file), warnings.iter(), terminal.err_width)?;
    match &args.out {
        Some(path) => write(path, &text, terminal)?,
        None => terminal.print_data(&text)?,
    }
    Ok(Exit::Done)
}

impl Args {
    /// The settings, unless one has no effect on the format.
    fn settings(&self) -> Result<Settings, CommandError> {
        let is_file = self.kubelet_config.is_some() || self.kubelet_config_dir.is_some();
        let format = self.format.as_str();
        if is_file && self.format != Consumer::CloudInit {
            return Err(CommandError::usage(
                format!("only cloud-init writes --kubelet-config or --kubelet-config-dir, and not {format}"),
                "omit this option",
            ));
        }
        if self.name.is_some() && !matches!(self.format, Consumer::Karpenter | Consumer::ClusterApi) {
            let message = format!("--name requires --format karpenter or cluster-api, because {format} has no object");
            return Err(CommandError::usage(message, "omit --name"));
        }
        let file = match (&self.kubelet_config, &self.kubelet_config_dir) {
            (_, Some(folder)) => NodeFile::DropIn(folder.clone()),
            (Some(path), None) => NodeFile::Config(path.clone()),
            (None, None) => NodeFile::default(),
        };
        Ok(Settings { file, name: self.name.as_ref().map(ToString::to_string) })
    }
}

fn write(path: &Path, text: &str, terminal: &mut Terminal) -> Result<(), CommandError> {
    replace(path, text.as_bytes(), Readers::AsUsual).map_err(|error| {
        let message = format!("cannot write {}: {error}", path.display());
        CommandError::usage(message, "name a file in an existing, writable folder")
    })?;
    Ok(writeln!(terminal.info(), "wrote {}", path.display())?)
}

fn parse_file(text: &str) -> Result<PathBuf, String> {
    match text {
        "" => Err("the path must not be empty".to_owned()),
        "-" => Err("without --out, the output is standard output".to_owned()),
        path => Ok(PathBuf::from(path)),
    }
}

/// Parses the name of an object. Nodes have names of the same form: a DNS subdomain.
fn parse_name(text: &str) -> Result<NodeName, String> {
    NodeName::new(text).map_err(|error| error.to_string().replacen("node name", "name", 1))
}
