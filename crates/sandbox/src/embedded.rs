//! A complete embedded cluster: API server, Nodes, and a simulated kubelet or agent for each Node.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::agents;
use super::api::{Api, ApiOptions, ServerProfile, User};
use super::kubelets::{self, Fault};
use super::machines::{Machines, Options, StartError};
use super::nodes::{self, CreateError, NodeSpec};
use super::running::CONFIG_DIR;
use super::server::kubeconfig::{Kubeconfig, SaveError};
use super::server::serve::{self, ServeError, Serving};
use super::server::wire::Wire;
use super::workloads::{WorkloadSpec, Workloads};
use nodecfg_clock::ScaledClock;
use nodecfg_contract::installation::AGENT_NAMESPACE;
use nodecfg_contract::names::NamespaceName;
use nodecfg_install::{Agent, DaemonSet, Host, Installation};

/// Time for open requests to finish when the sandbox stops.
const GRACE: Duration = Duration::from_secs(1);
/// Server name in errors of an in-process client.
const IN_PROCESS: &str = "https://sandbox.invalid";
/// Namespace of nodecfg on a cluster with agents.
const NAMESPACE: &str = "nodecfg-system";

/// Options of a sandbox.
#[derive(Debug, Clone)]
pub struct EmbeddedOptions {
    /// API server version to reproduce.
    pub profile: ServerProfile,
    /// Options of the nodes. The seed is that of all random values.
    pub nodes: Options,
    /// Options of the agents.
    pub agents: agents::Options,
    /// Container images that each Node lists. They account for most of a real Node's size.
    pub images: usize,
    /// Installs the objects of `nodecfg install` and runs an agent on each node. Applies to version 1.36 only.
    pub installed: bool,
    /// Pods and the components that move them. Without them, no pod exists, and created pods do not start.
    pub workloads: Option<WorkloadSpec>,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        Self {
            profile: ServerProfile::V1_21,
            nodes: Options::default(),
            agents: agents::Options::default(),
            images: 10,
            installed: true,
            workloads: None,
        }
    }
}

/// Error that prevents the start of a sandbox.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// A fault names an unknown node.
    #[error("cannot give a fault to node {0}: the sandbox has no such node")]
    UnknownNode(String),
    /// A fault needs an agent, and the nodes have no agents.
    #[error("fault {0} needs a node with an agent: the sandbox's kubelets follow configSource themselves")]
    NeedsAgent(Fault),
    /// The API server refused an object of `nodecfg install`.
    #[error("cannot install what agents need in the sandbox: {0}")]
    Install(String),
    /// The API server refused an object of the workloads.
    #[error("cannot create the workloads of the sandbox: {0}")]
    Workloads(String),
    /// A node count or a name is invalid.
    #[error("cannot create the sandbox's nodes: {0}")]
    Nodes(String),
    /// A node could not be created.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// The kubelets did not start.
    #[error(transparent)]
    Kubelets(#[from] StartError),
    /// The API server cannot be served over HTTPS.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The kubeconfig cannot be written.
    #[error(transparent)]
    Save(#[from] SaveError),
}

impl SandboxError {
    /// Action that fixes the error.
    #[must_use]
    pub fn help(&self) -> String {
        match self {
            Self::UnknownNode(_) => {
                "nodes are named <pool>-<number>; start the sandbox without --fault to print their names"
            }
            Self::Workloads(_) => {
                "namespaces and names of workloads are DNS labels: lower-case letters, digits and '-'"
            }
            Self::NeedsAgent(_) => {
                "use a sandbox of Kubernetes 1.36, whose nodes have agents (--kubernetes-version 1.36)"
            }
            Self::Nodes(_) => "pool names are DNS labels: lower-case letters, digits and '-'",
            Self::Create(_) | Self::Kubelets(_) | Self::Install(_) => {
                "this is a bug in the sandbox, or the machine is out of memory"
            }
            Self::Serve(_) => "choose another --port, or omit it to use a free one",
            Self::Save(_) => "choose another path for --kubeconfig-out",
        }
        .to_owned()
    }
}

/// An embedded cluster, which stops when dropped.
pub struct Embedded {
    api: Api,
    wire: Wire,
    nodes: Machines,
    workloads: Option<Workloads>,
    token: String,
}

impl Embedded {
    /// Starts a cluster with these nodes.
    ///
    /// # Errors
    /// Fails if a fault names an unknown node or needs a missing agent, or if the installation, the nodes, the kubelets
    /// or the workloads fail.
    pub async fn start(options: EmbeddedOptions, specs: Vec<NodeSpec>) -> Result<Self, SandboxError> {
        let of_pods = options.workloads.iter().flat_map(|workloads| &workloads.faults).map(|fault| &fault.node);
        let named = options.nodes.faults.nodes().chain(of_pods);
        if let Some(unknown) = named.into_iter().find(|node| specs.iter().all(|spec| spec.name != **node)) {
            return Err(SandboxError::UnknownNode(unknown.to_string()));
        }
        let agents = options.profile == ServerProfile::V1_36 && options.installed;
        if let Some(fault) = options.nodes.faults.all().find(|fault| !agents && fault.needs_agent()) {
            return Err(SandboxError::NeedsAgent(fault.clone()));
        }
        let mut random = fastrand::Rng::with_seed(options.nodes.seed);
        let token: String = std::iter::repeat_with(|| random.alphanumeric()).take(32).collect();
        let api = Api::new(ApiOptions {
            profile: options.profile,
            seed: options.nodes.seed,
            tokens: BTreeMap::from([(token.clone(), User::admin("sandbox"))]),
            ..ApiOptions::default()
        });
        let client = api.client();
        let specs: Vec<NodeSpec> = specs.into_iter().map(|spec| spec.with_faults(&options.nodes.faults)).collect();
        let drop_ins = specs.iter().any(|spec| spec.host.writes_drop_in);
        nodes::create(&client, specs, nodecfg_clock::now(), options.images).await?;
        if agents {
            install_into(&api, options.agents.join.is_some(), drop_ins)?;
        }
        let speed = options.nodes.speed;
        let nodes = match agents {
            true => agents::start(&api, options.nodes, options.agents).await?,
            false => kubelets::start(client, options.nodes).await?,
        };
        api.set_node_proxy(nodes.proxy());
        let workloads = match &options.workloads {
            None => None,
            Some(spec) => {
                let started = Workloads::start(api.client(), spec, speed).await;
                Some(started.map_err(|error| SandboxError::Workloads(error.to_string()))?)
            }
        };
        Ok(Self { api, wire: Wire::new(), nodes, workloads, token })
    }

    /// Registers more nodes, for example with the startup taint or booted with a configuration. Their agents start as
    /// the Nodes appear.
    ///
    /// # Errors
    /// A Node could not be created.
    pub async fn join(&self, specs: Vec<NodeSpec>) -> Result<(), CreateError> {
        nodes::create(&self.api.client(), specs, nodecfg_clock::now(), 2).await
    }

    /// Clock for limits in real time on what the nodes do. It stands still when their time does, so that a busy machine
    /// exceeds no limit.
    #[must_use]
    pub fn limits_clock(&self) -> ScaledClock {
        self.nodes.clock().at_real_speed()
    }

    /// The API server itself.
    #[must_use]
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// Request log and injected faults of all clients except the simulated kubelets and agents.
    #[must_use]
    pub fn wire(&self) -> &Wire {
        &self.wire
    }

    /// The simulated nodes.
    #[must_use]
    pub fn nodes(&self) -> &Machines {
        &self.nodes
    }

    /// In-process client of an administrator, subject to the faults of [`wire`](Self::wire).
    #[must_use]
    pub fn client(&self) -> kube::Client {
        self.client_as(User::admin("sandbox"))
    }

    /// In-process client of `user`, subject to the faults of [`wire`](Self::wire).
    #[must_use]
    pub fn client_as(&self, user: User) -> kube::Client {
        self.wire.client(&self.api, user)
    }

    /// Server name in errors of [`client`](Self::client).
    #[must_use]
    pub fn in_process_server(&self) -> &'static str {
        IN_PROCESS
    }

    /// Serves the API server over HTTPS on loopback.
    ///
    /// # Errors
    /// Fails if the port is not available.
    pub async fn serve(&self, port: Option<u16>) -> Result<Serving, SandboxError> {
        let options = serve::Options { port, ..serve::Options::default() };
        Ok(serve::serve(self.wire.wrap(self.api.router()), options).await?)
    }

    /// Kubeconfig for `serving`.
    #[must_use]
    pub fn kubeconfig(&self, serving: &Serving) -> Kubeconfig {
        Kubeconfig { server: serving.url(), ca_pem: serving.ca_pem().to_owned(), token: self.token.clone() }
    }

    /// Writes the kubeconfig, readable by its owner only.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn save_kubeconfig(&self, serving: &Serving, path: &Path) -> Result<(), SandboxError> {
        Ok(self.kubeconfig(serving).save(path)?)
    }

    /// Stops the cluster after open requests have finished.
    pub async fn stop(self, serving: Option<Serving>) {
        if let Some(workloads) = self.workloads {
            workloads.stop().await;
        }
        self.nodes.stop().await;
        if let Some(serving) = serving {
            serving.stop(GRACE).await;
        }
    }
}

/// Creates the objects of `nodecfg install` that affect the sandbox: namespaces, the CRD of NodeConfig, and admission
/// policies. For agents that write drop-ins also their DaemonSet, which tells that.
///
/// The sandbox stores the policies without evaluating them.
fn install_into(api: &Api, joins: bool, drop_ins: bool) -> Result<(), SandboxError> {
    let failed = |problem: String| SandboxError::Install(problem);
    let namespace = |name: &str| NamespaceName::new(name).map_err(|error| failed(error.to_string()));
    let host = Host { kubelet_config_dir: drop_ins.then(|| CONFIG_DIR.to_owned()), ..Host::default() };
    let daemon_set = DaemonSet { namespace: namespace(AGENT_NAMESPACE)?, image: "nodecfg-agent".to_owned(), host };
    let installation = Installation {
        namespace: namespace(NAMESPACE)?,
        config_map_writers: Vec::new(),
        agent: Some(Agent::DaemonSet(daemon_set)),
        joins,
        boot: Vec::new(),
    };
    for object in nodecfg_install::objects(&installation) {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (group, resource) = match text("/kind").as_str() {
            "Namespace" => ("", "namespaces"),
            "CustomResourceDefinition" => ("apiextensions.k8s.io", "customresourcedefinitions"),
            "ValidatingAdmissionPolicy" => ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
            "ValidatingAdmissionPolicyBinding" => ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
            "DaemonSet" if drop_ins => ("apps", "daemonsets"),
            _ => continue,
        };
        let namespace = text("/metadata/namespace");
        let made = api.create(group, resource, &namespace, object, "nodecfg-install");
        made.map_err(|refusal| failed(refusal.message))?;
    }
    Ok(())
}
