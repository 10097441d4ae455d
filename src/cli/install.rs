//! `nodecfg install`: what NodeConfigs and the node agents need on a cluster.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::cluster_args::ClusterArgs;
use super::{CommandError, CommandResult, Exit, Terminal};
use crate::report::installation::{Application, Applied, Installed};
use crate::report::{self, Format, findings};
use nodecfg_cluster::apply::{Applier, Target};
use nodecfg_cluster::{ClusterReader, LabelKeys};
use nodecfg_contract::installation::{AGENT_NAMESPACE, NAMESPACE};
use nodecfg_contract::json_document::Document;
use nodecfg_contract::names::NamespaceName;
use nodecfg_install::{Agent, DaemonSet, Host, Installation, LISTEN};

/// Install NodeConfigs on a cluster, and the node agents.
///
/// Applies, server-side and in this order: the namespace of the ConfigMaps, the CustomResourceDefinition of NodeConfig, and
/// the reconciler's ServiceAccount with its roles. With --agent also what agents may do, the ValidatingAdmissionPolicy
/// that lets each write its own node's status alone, and the DaemonSet; unit files go onto the nodes by other means. Run it
/// again to update; what it installed before and no longer does, it leaves. Needs the rights of cluster-admin.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("namespace", |namespace| namespace.help(format!(
    "Namespace of the ConfigMaps, of the locks and of the reconciler's ServiceAccount. {NAMESPACE} by default"
))))]
pub(super) struct Args {
    /// How the agents run: daemonset, as pods; systemd, as services of the nodes; none, not by way of nodecfg install.
    #[arg(long, value_enum, default_value_t = Kind::None, value_name = "HOW", hide_possible_values = true)]
    agent: Kind,
    /// Print the objects as YAML, or as a List with -o json, and talk to no cluster.
    #[arg(long)]
    dry_run: bool,
    /// Take over fields that somebody else has set otherwise.
    #[arg(long, conflicts_with = "dry_run")]
    force_conflicts: bool,
    /// Print the unit file nodecfg-agent.service for the nodes, with --agent systemd, and talk to no cluster.
    #[arg(long, conflicts_with_all = ["dry_run", "force_conflicts"])]
    unit: bool,
    #[command(flatten)]
    nodes: NodeArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// What is where on the nodes.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Agents")]
struct NodeArgs {
    /// Image of the agent's pods, with --agent daemonset: what the target `agent` of the Dockerfile builds.
    #[arg(long, value_name = "IMAGE", value_parser = parse_image, required_if_eq("agent", "daemonset"))]
    image: Option<String>,
    /// Namespace of the agent's pods, which Pod Security Admission must let be privileged.
    #[arg(long, value_name = "NAME", default_value = AGENT_NAMESPACE)]
    agent_namespace: NamespaceName,
    /// The kubelets' --config, which the agent replaces.
    #[arg(long, value_name = "PATH", value_parser = parse_path, default_value = "/var/lib/kubelet/config.yaml")]
    kubelet_config: String,
    /// The kubelets' --config-dir, into which the agent puts a file instead of replacing --kubelet-config.
    #[arg(long, value_name = "PATH", value_parser = parse_path)]
    kubelet_config_dir: Option<String>,
    /// The kubelets' --root-dir.
    #[arg(long, value_name = "PATH", value_parser = parse_path, default_value = "/var/lib/kubelet")]
    kubelet_root_dir: String,
    /// Where the agent serves /healthz and /metrics. Its address is the node's own, whether pod or service.
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = LISTEN)]
    listen: SocketAddr,
    /// The kubelets' kubeconfig, with --unit.
    #[arg(long, value_name = "PATH", value_parser = parse_path, default_value = "/etc/kubernetes/kubelet.conf")]
    kubelet_kubeconfig: String,
    /// Where nodecfg-agent is on the nodes, with --unit.
    #[arg(long, value_name = "PATH", value_parser = parse_path, default_value = "/usr/local/bin/nodecfg-agent")]
    program: String,
}

const EXAMPLES: &str = "\
Examples:
  nodecfg install                                              NodeConfigs, and what the reconciler may do
  nodecfg install --agent daemonset --image IMAGE --dry-run    all objects, for review or for git
  nodecfg install --agent daemonset --image IMAGE              agents as pods
  nodecfg install --agent systemd                              what agents on the nodes may do, and for the nodes:
  nodecfg install --agent systemd --unit > nodecfg-agent.service";

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// Not by way of `nodecfg install`.
    None,
    /// As pods.
    Daemonset,
    /// As services of the nodes.
    Systemd,
}

impl Args {
    fn host(&self) -> Host {
        Host {
            kubelet_config: self.nodes.kubelet_config.clone(),
            kubelet_config_dir: self.nodes.kubelet_config_dir.clone(),
            kubelet_root: self.nodes.kubelet_root_dir.clone(),
            listen: self.nodes.listen,
        }
    }

    fn installation(&self) -> Result<Installation, CommandError> {
        let namespace = match self.cluster.named_namespace() {
            Some(namespace) => namespace.clone(),
            None => NamespaceName::new(NAMESPACE).map_err(|error| CommandError::usage(error.to_string(), ""))?,
        };
        let agent = match (self.agent, &self.nodes.image) {
            (Kind::Daemonset, Some(image)) => Some(Agent::DaemonSet(DaemonSet {
                namespace: self.nodes.agent_namespace.clone(),
                image: image.clone(),
                host: self.host(),
            })),
            (Kind::Systemd, _) => Some(Agent::Systemd),
            (Kind::None | Kind::Daemonset, _) => None,
        };
        Ok(Installation { namespace, agent })
    }
}

pub(super) async fn run(args: &Args, format: Format, terminal: &mut Terminal) -> CommandResult {
    if args.unit {
        return print_unit(args, terminal);
    }
    if format == Format::Markdown {
        return Err(CommandError::usage("install writes no markdown", "use -o text, json or yaml"));
    }
    let objects = nodecfg_install::objects(&args.installation()?);
    if args.dry_run {
        print(&objects, format, terminal)?;
        return Ok(Exit::Done);
    }
    let reader = args.cluster.reader(LabelKeys::Only(Default::default())).await?;
    apply(args, &reader, &objects, format, terminal).await?;
    if args.agent == Kind::Systemd && format == Format::Text {
        writeln!(terminal.aside(), "unit file for the nodes: nodecfg install --agent systemd --unit")?;
    }
    Ok(Exit::Done)
}

fn print_unit(args: &Args, terminal: &mut Terminal) -> CommandResult {
    if args.agent != Kind::Systemd {
        return Err(CommandError::usage("--unit goes with --agent systemd alone", "add --agent systemd"));
    }
    let unit = nodecfg_install::unit(&args.nodes.program, &args.nodes.kubelet_kubeconfig, &args.host());
    terminal.out.write_all(unit.as_bytes())?;
    Ok(Exit::Done)
}

/// Writes the objects for `kubectl apply -f -`: YAML, one document an object, or a List.
fn print(objects: &[Value], format: Format, terminal: &mut Terminal) -> Result<(), CommandError> {
    if format == Format::Json {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        return Ok(report::json(&mut terminal.out, &list)?);
    }
    for (index, object) in objects.iter().enumerate() {
        if index > 0 {
            writeln!(terminal.out, "---")?;
        }
        report::yaml(&mut terminal.out, object)?;
    }
    Ok(())
}

async fn apply(
    args: &Args,
    reader: &ClusterReader,
    objects: &[Value],
    format: Format,
    terminal: &mut Terminal,
) -> Result<(), CommandError> {
    let applier = Applier::new(reader);
    let (mut applied, mut skipped) = (Vec::new(), Vec::new());
    for object in objects {
        let Some(target) = Target::of(object) else {
            return Err(CommandError::usage(
                "an object of nodecfg install is of no known kind",
                "this is a bug in nodecfg",
            ));
        };
        if target.is_policy() && !applier.serves(&target).await? {
            skipped.push(target);
            continue;
        }
        applier.apply(&target, object, args.force_conflicts).await?;
        if format == Format::Text {
            writeln!(terminal.out, "{}/{} serverside-applied", target.resource(), target.name())?;
            terminal.out.flush()?;
        }
        if target.is_definition() {
            applier.await_established(&target).await?;
        }
        applied.push(target);
    }
    if !skipped.is_empty() {
        findings::message(
            &mut terminal.err,
            "this cluster has no ValidatingAdmissionPolicy (admissionregistration.k8s.io/v1, Kubernetes 1.30): none was \
             applied, and each agent may write the status of every node's NodeConfig",
            "after an upgrade of the cluster, run nodecfg install again",
        )?;
    }
    let applied = applied.iter().map(|target| (target, Application::ServersideApplied));
    let objects = applied.chain(skipped.iter().map(|target| (target, Application::Skipped))).map(|(target, result)| {
        Applied { resource: target.resource(), namespace: target.namespace(), name: target.name(), result }
    });
    let document = Document::value(Installed { objects: objects.collect() })?;
    match format {
        Format::Json => report::json(&mut terminal.out, &document)?,
        Format::Yaml => report::yaml(&mut terminal.out, &document)?,
        Format::Text | Format::Markdown => {}
    }
    Ok(())
}

/// An absolute path without detours, as a mount needs it.
fn parse_path(text: &str) -> Result<String, String> {
    let detour = |part: &str| part.is_empty() || part == "." || part == "..";
    match text.strip_prefix('/') {
        None => Err("it must be an absolute path".to_owned()),
        Some(rest) if rest.split('/').any(detour) || text.contains(|c: char| c.is_control() || c == ':') => {
            Err("it must be a path without empty parts, `.`, `..`, colons and control characters".to_owned())
        }
        Some(_) => Ok(text.to_owned()),
    }
}

/// Only what cannot be one is refused: what it names, the nodes find out.
fn parse_image(text: &str) -> Result<String, String> {
    if text.is_empty() || text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err("it must be the name of an image".to_owned());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the agent would read from these arguments.
    fn read<'a>(arguments: impl IntoIterator<Item = &'a str>) -> clap::ArgMatches {
        let words: Vec<&str> = std::iter::once("nodecfg-agent").chain(arguments).collect();
        nodecfg_agent::cli::command().try_get_matches_from(&words).unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    fn path(matches: &clap::ArgMatches, argument: &str) -> String {
        matches.get_raw(argument).and_then(|mut all| all.next()).expect(argument).to_string_lossy().into_owned()
    }

    fn hosts() -> [Host; 2] {
        let odd = Host {
            kubelet_config: "/etc/kubernetes/kubelet/config.json".to_owned(),
            kubelet_config_dir: Some("/etc/kubernetes/kubelet.conf.d".to_owned()),
            kubelet_root: "/data/kubelet root".to_owned(),
            listen: SocketAddr::from(([0, 0, 0, 0], 9999)),
        };
        [Host::default(), odd]
    }

    fn agrees(agent: &clap::ArgMatches, host: &Host) {
        assert_eq!(path(agent, "kubelet_config"), host.kubelet_config);
        assert_eq!(path(agent, "store_dir"), "/var/lib/nodecfg");
        assert_eq!(agent.get_one("listen"), Some(&host.listen));
        match &host.kubelet_config_dir {
            Some(folder) => {
                assert_eq!(
                    (path(agent, "activation").as_str(), &path(agent, "kubelet_config_dir")),
                    ("drop-in", folder)
                );
            }
            None => assert_eq!(path(agent, "activation"), "file"),
        }
    }

    #[test]
    fn the_pods_containers_are_started_as_the_agent_expects() {
        for host in hosts() {
            let agent = Agent::DaemonSet(DaemonSet {
                namespace: NamespaceName::new(AGENT_NAMESPACE).expect("a name"),
                image: "agent".to_owned(),
                host: host.clone(),
            });
            let namespace = NamespaceName::new(NAMESPACE).expect("a name");
            let objects = nodecfg_install::objects(&Installation { namespace, agent: Some(agent) });
            let pod = &objects.last().expect("the DaemonSet")["spec"]["template"]["spec"];
            let started = |index: usize| {
                let arguments = pod["containers"][index]["args"].as_array().expect("arguments");
                read(arguments.iter().map(|argument| argument.as_str().expect("text")))
            };
            let (step, agent) = (started(0), started(1));
            let step = step.subcommand_matches("host-step").expect("the host step");
            agrees(&agent, &host);
            assert!(agent.subcommand().is_none());
            assert_eq!(path(&agent, "host_step"), path(step, "socket"));
            assert_eq!(path(step, "kubelet_root_dir"), format!("/proc/1/root{}", host.kubelet_root));
            for (argument, does) in [("restart_command", "restart"), ("stop_command", "stop")] {
                assert_eq!(path(step, argument), format!("nsenter -t 1 -m -- systemctl {does} kubelet"));
            }
            // The node's name comes by the environment.
            assert_eq!(pod["containers"][1]["env"][0]["name"], "NODE_NAME");
        }
    }

    #[test]
    fn the_unit_starts_the_agent_as_it_expects() {
        for host in hosts() {
            let unit = nodecfg_install::unit("/usr/local/bin/nodecfg-agent", "/etc/kubernetes/kubelet.conf", &host);
            let start = unit.split("\nExecStart=").nth(1).and_then(|rest| rest.split("\nRestart=").next());
            // systemd joins lines and splits words as a shell does, as far as these words go.
            let words = shlex::split(&start.expect("a command").replace("\\\n", " ")).expect("words");
            assert_eq!(words.first().map(String::as_str), Some("/usr/local/bin/nodecfg-agent"));
            let agent = read(words.iter().skip(1).map(String::as_str));
            agrees(&agent, &host);
            assert_eq!(path(&agent, "kubeconfig"), "/etc/kubernetes/kubelet.conf");
            assert_eq!(path(&agent, "kubelet_root_dir"), host.kubelet_root);
        }
    }
}
