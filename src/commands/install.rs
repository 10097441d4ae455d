//! `nodecfg install`: applies the objects that NodeConfigs and node agents need on a cluster.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::{CommandError, CommandResult, Exit, Terminal};
use crate::arguments::cluster::ClusterArgs;
use crate::arguments::dry_run::DryRunArgs;
use crate::report;
use crate::report::Format;
use crate::runs::installation::{apply, print_writers};
use nodecfg_cluster::{Binding, LabelKeys};
use nodecfg_contract::installation::{AGENT_NAMESPACE, NAMESPACE};
use nodecfg_contract::names::{FleetName, NamespaceName, PoolName};
use nodecfg_contract::nodeconfig;
use nodecfg_install::{Agent, DaemonSet, Host, Installation, Join, LISTEN};

/// Install NodeConfigs and, with --agent, the node agents on a cluster.
///
/// Applies server-side, in this order: the namespace of the ConfigMaps, the CustomResourceDefinition of NodeConfig, the
/// ValidatingAdmissionPolicy that protects its ConfigMaps from other writers, and the ServiceAccount and roles of the
/// reconciler. --agent adds the ValidatingAdmissionPolicy that limits each agent to the status of its own node, the
/// roles of agents, and with daemonset the DaemonSet. --join-fleet and --boot add rights for new nodes.
/// Requires the rights of cluster-admin. Run it again to update; objects that are no longer part of the installation
/// are kept, except the policy `nodecfg-configmaps` of earlier versions for the same namespace.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("namespace", |namespace| namespace.help(format!(
    "Use this namespace for the ConfigMaps, the locks and the ServiceAccount of the reconciler [default: {NAMESPACE}]"
))))]
#[command(mut_arg("dry_run", |dry_run| dry_run.help(
    "Print the objects as YAML, or as a List with -o json, without contacting a cluster (client, the default of \
     --dry-run); none turns it off"
)))]
pub(super) struct Args {
    /// Run the agents as pods (daemonset), as services on the nodes (systemd), or do not install them (none).
    #[arg(long, value_enum, default_value_t = Kind::None, value_name = "HOW", hide_possible_values = true)]
    agent: Kind,
    #[command(flatten)]
    dry_run: DryRunArgs,
    /// Take over fields that another client manages.
    #[arg(long, conflicts_with = "dry_run")]
    force_conflicts: bool,
    /// Print one part alone (crd, agent-unit or boot-unit), without contacting a cluster: the CustomResourceDefinition of
    /// NodeConfig, or the unit file of the nodes for the agent, or for the first start of a kubelet with the configuration
    /// of its pool.
    #[arg(long, value_enum, value_name = "PART", hide_possible_values = true)]
    #[arg(conflicts_with_all = ["dry_run", "force_conflicts"])]
    print: Option<Part>,
    /// Allow this user to write the ConfigMaps, as the reconciler's ServiceAccount may. Repeat for several users. The
    /// name is that of `kubectl auth whoami`.
    #[arg(long, value_name = "USER", value_parser = parse_user, conflicts_with = "print")]
    config_map_writer: Vec<String>,
    #[command(flatten)]
    nodes: NodeArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Paths and addresses on the nodes.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Agents")]
struct NodeArgs {
    /// Run this image in the pods of --agent daemonset. The target `agent` of the Dockerfile builds it.
    #[arg(long, value_name = "IMAGE", value_parser = parse_image, required_if_eq("agent", "daemonset"))]
    image: Option<String>,
    /// Run the pods in this namespace, where Pod Security Admission must allow privileged pods.
    #[arg(long, value_name = "NAME", default_value = AGENT_NAMESPACE)]
    agent_namespace: NamespaceName,
    /// Replace this file, the --config of the kubelets.
    #[arg(long, value_name = "PATH", value_parser = parse_path, default_value = "/var/lib/kubelet/config.yaml")]
    kubelet_config: String,
    /// Write a drop-in file to this folder, the --config-dir of the kubelets, instead of replacing --kubelet-config.
    #[arg(long, value_name = "PATH", value_parser = parse_path)]
    kubelet_config_dir: Option<String>,
    /// Use this folder as the --root-dir of the kubelets.
    #[arg(long, value_name = "PATH", value_parser = parse_path, default_value = "/var/lib/kubelet")]
    kubelet_root_dir: String,
    /// Serve /healthz and /metrics of the agent on this address, in the network of the node.
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = LISTEN)]
    listen: SocketAddr,
    /// Let new nodes join this fleet: agents may create the NodeConfig of their own node. As pods, they may also remove
    /// the startup taint of nodecfg from it. Requires ValidatingAdmissionPolicies, which limit both to the own node.
    #[arg(long, value_name = "FLEET")]
    join_fleet: Option<FleetName>,
    /// Let nodes read the configuration of this pool before they register, with a bootstrap token, for `nodecfg-agent
    /// boot`. Repeat for several pools. Requires ValidatingAdmissionPolicies, which protect the configuration.
    #[arg(long, value_name = "FLEET/POOL", value_parser = parse_pool)]
    boot: Vec<(FleetName, PoolName)>,
    /// Use this kubeconfig of the kubelets, with --print agent-unit.
    #[arg(long, value_name = "PATH", value_parser = parse_path, default_value = "/etc/kubernetes/kubelet.conf")]
    kubelet_kubeconfig: String,
    /// Start nodecfg-agent from this path on the nodes, with --print.
    #[arg(long, value_name = "PATH", value_parser = parse_path, default_value = "/usr/local/bin/nodecfg-agent")]
    program: String,
}

const EXAMPLES: &str = "\
Examples:
  nodecfg install                                              install NodeConfigs and the roles of the reconciler
  nodecfg install --agent daemonset --image IMAGE --dry-run    print all objects, for review or git
  nodecfg install --agent daemonset --image IMAGE              run the agents as pods
  nodecfg install --agent daemonset --image IMAGE --join-fleet prod    let new nodes join the fleet prod
  nodecfg install --agent systemd                              install the roles of agents that run as services
  nodecfg install --print agent-unit > nodecfg-agent.service
  nodecfg install --print boot-unit > nodecfg-boot.service
  nodecfg install --print crd | kubectl apply --server-side -f -";

/// A part of an installation that is printed alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// The definition of NodeConfig.
    Crd,
    /// `nodecfg-agent.service`.
    AgentUnit,
    /// `nodecfg-boot.service`.
    BootUnit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// Not installed.
    None,
    /// As pods.
    Daemonset,
    /// As services of the nodes.
    Systemd,
}

impl Args {
    fn host(&self) -> Result<Host, CommandError> {
        let namespace = self.namespace()?;
        Ok(Host {
            kubelet_config: self.nodes.kubelet_config.clone(),
            kubelet_config_dir: self.nodes.kubelet_config_dir.clone(),
            kubelet_root: self.nodes.kubelet_root_dir.clone(),
            listen: self.nodes.listen,
            join: self.nodes.join_fleet.clone().map(|fleet| Join { fleet, namespace }),
        })
    }

    fn namespace(&self) -> Result<NamespaceName, CommandError> {
        self.cluster.namespace_or(None, Binding::NodeConfig)
    }

    fn installation(&self) -> Result<Installation, CommandError> {
        let joins = self.nodes.join_fleet.is_some();
        if joins && self.agent == Kind::None {
            return Err(CommandError::usage("--join-fleet requires --agent", "add --agent daemonset or systemd"));
        }
        if self.nodes.image.is_some() && self.agent != Kind::Daemonset {
            return Err(CommandError::usage(
                "--image is of agents that run as pods",
                "add --agent daemonset, or omit --image",
            ));
        }
        let agent = match (self.agent, &self.nodes.image) {
            (Kind::Daemonset, Some(image)) => Some(Agent::DaemonSet(DaemonSet {
                namespace: self.nodes.agent_namespace.clone(),
                image: image.clone(),
                host: self.host()?,
            })),
            (Kind::Systemd, _) => Some(Agent::Systemd),
            (Kind::None | Kind::Daemonset, _) => None,
        };
        Ok(Installation {
            namespace: self.namespace()?,
            config_map_writers: self.config_map_writer.clone(),
            agent,
            joins,
            boot: self.nodes.boot.clone(),
        })
    }
}

pub(super) async fn run(args: &Args, format: Format, terminal: &mut Terminal) -> CommandResult {
    if let Some(part) = args.print {
        let NodeArgs { program, kubelet_kubeconfig, .. } = &args.nodes;
        let unit = match part {
            Part::Crd => {
                print(&[nodeconfig::definition()], format, terminal)?;
                return Ok(Exit::Done);
            }
            Part::AgentUnit => nodecfg_install::unit(program, kubelet_kubeconfig, &args.host()?),
            Part::BootUnit => nodecfg_install::boot_unit(program, &args.host()?),
        };
        terminal.out.write_all(unit.as_bytes())?;
        return Ok(Exit::Done);
    }
    let installation = args.installation()?;
    if args.dry_run.is_requested() {
        print(&nodecfg_install::objects(&installation), format, terminal)?;
        return Ok(Exit::Done);
    }
    let reader = args.cluster.reader(LabelKeys::Only(Default::default())).await?;
    let had_writers = apply(&installation, &reader, args.force_conflicts, format, terminal).await?;
    if args.agent == Kind::Systemd && format == Format::Text {
        writeln!(terminal.info(), "Unit file for the nodes: nodecfg install --print agent-unit")?;
    }
    if let Some(before) = had_writers {
        print_writers(&installation, &reader, &before, format, terminal).await?;
    }
    Ok(Exit::Done)
}

/// Prints the objects for `kubectl apply -f -`: as YAML documents, or as JSON, several as a List.
fn print(objects: &[Value], format: Format, terminal: &mut Terminal) -> Result<(), CommandError> {
    if format == Format::Json {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        return Ok(report::json(&mut terminal.out, if let [object] = objects { object } else { &list })?);
    }
    for (index, object) in objects.iter().enumerate() {
        if index > 0 {
            writeln!(terminal.out, "---")?;
        }
        report::yaml(&mut terminal.out, object)?;
    }
    Ok(())
}

/// Parses FLEET/POOL.
fn parse_pool(text: &str) -> Result<(FleetName, PoolName), String> {
    let (fleet, pool) = text.split_once('/').ok_or("expected FLEET/POOL, such as prod/gpu")?;
    let fleet = FleetName::new(fleet).map_err(|error| error.to_string())?;
    let pool = PoolName::new(pool).map_err(|error| error.to_string())?;
    Ok((fleet, pool))
}

/// Parses an absolute path that is valid as a mount path.
pub(super) fn parse_path(text: &str) -> Result<String, String> {
    let detour = |part: &str| part.is_empty() || part == "." || part == "..";
    match text.strip_prefix('/') {
        None => Err("the path must be absolute".to_owned()),
        Some(rest) if rest.split('/').any(detour) || text.contains(|c: char| c.is_control() || c == ':') => {
            Err("the path must not contain empty parts, `.`, `..`, colons or control characters".to_owned())
        }
        Some(_) => Ok(text.to_owned()),
    }
}

/// Rejects only impossible user names.
fn parse_user(text: &str) -> Result<String, String> {
    if text.is_empty() || text.contains(char::is_control) {
        return Err("a user name must not be empty or contain control characters".to_owned());
    }
    Ok(text.to_owned())
}

/// Rejects only impossible image names. The nodes report a name that does not exist.
fn parse_image(text: &str) -> Result<String, String> {
    if text.is_empty() || text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err("an image name must not be empty or contain spaces or control characters".to_owned());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
#[path = "install_tests.rs"]
mod tests;
