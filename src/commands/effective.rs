//! `nodecfg effective`: the configuration that a kubelet runs with its file, drop-ins and flags.

use std::path::PathBuf;

use super::{CommandResult, Exit, Terminal};
use crate::arguments::cluster::BoundClusterArgs;
use crate::arguments::repository::parse_kubernetes_version;
use crate::effective::{node, of_files};
use crate::report::Format;
use crate::report::effective::EffectiveConfiguration;
use crate::runs::emit::Shown;
use kubelet_config::{Minor, NEWEST, NEWEST_RELEASED, OLDEST};
use nodecfg_contract::names::NodeName;

/// Print the configuration that a kubelet runs, and where each value comes from.
///
/// Reads the kubelet's file, its drop-ins and its flags as a kubelet of the version does, and fills in its defaults.
/// Each value has an origin: the file, a drop-in, a flag, or a default. Kubelets 1.28 and 1.29 need
/// KUBELET_CONFIG_DROPIN_DIR_ALPHA in the environment for --config-dir, and so does this command.
///
/// With --node, asks the kubelet of a node of the cluster instead (configz through the node proxy of the API server, which
/// needs the right to get nodes/proxy). A value then comes from the ConfigMap that the node runs, from a default, or from the
/// node: its own configuration or a flag. Only --node contacts a cluster.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The file of the kubelet's --config. Default: that of the kubelet flags, or none.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The folder of the kubelet's --config-dir. Default: that of the kubelet flags, or none.
    #[arg(long, value_name = "FOLDER")]
    config_dir: Option<PathBuf>,
    #[arg(long, value_name = "VERSION", value_parser = parse_kubernetes_version)]
    #[arg(help = format!("The version of the kubelet: {OLDEST} to {NEWEST} [default: the newest release]"))]
    kubernetes_version: Option<Minor>,
    /// Ask the kubelet of this node of the cluster.
    #[arg(long, value_name = "NODE", conflicts_with_all = ["config", "config_dir", "kubernetes_version", "flags"])]
    node: Option<NodeName>,
    /// Omit defaults.
    #[arg(long)]
    changed: bool,
    /// The flags of the kubelet, after `--`.
    #[arg(last = true, value_name = "KUBELET FLAG")]
    flags: Vec<String>,
    #[command(flatten)]
    cluster: BoundClusterArgs,
}

const EXAMPLES: &str = "\
Examples:
  nodecfg effective --config /var/lib/kubelet/config.yaml --config-dir /etc/kubernetes/kubelet.conf.d
  nodecfg effective --config kubelet.yaml --changed --kubernetes-version 1.31
  nodecfg effective --config kubelet.yaml -- --max-pods=50 --eviction-hard='memory.available<500Mi'
  nodecfg effective --node node-1 --changed
  nodecfg effective -o json -- $(tr '\\0' ' ' < /proc/$(pidof kubelet)/cmdline | cut -d' ' -f2-)";

pub(super) async fn run(args: &Args, format: Format, terminal: &mut Terminal) -> CommandResult {
    let (document, kubelet) = match &args.node {
        Some(node) => node::answer(node, &args.cluster, args.changed).await?,
        None => {
            let minor = args.kubernetes_version.unwrap_or(NEWEST_RELEASED);
            let answer = of_files(args.config.as_deref(), args.config_dir.as_deref(), &args.flags, minor)?;
            (EffectiveConfiguration::of(answer, args.changed), minor.to_string())
        }
    };
    let exit = if document.accepted { Exit::Done } else { Exit::InvalidRepository };
    let report = document.report(&kubelet);
    Ok(Shown::of(document, report, terminal).print(format, exit, terminal))
}
