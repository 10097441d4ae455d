//! A whole embedded cluster: API server, Nodes, and on each the node half of the contract: a kubelet 1.21 that has it built
//! in, or a kubelet of today and an agent.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::Request;
use serde_json::json;
use tower::ServiceExt as _;

use super::agents::{Agents, Options as AgentOptions};
use super::api::{Api, ApiOptions, ServerProfile, User};
use super::face::ServerFace;
use super::face::kubeconfig::{Kubeconfig, SaveError};
use super::face::serve::{self, ServeError, Serving};
use super::face::wire::Wire;
use super::kubelets::{Fault, Faults, Kubelets, Options as KubeletOptions, StartError};
use super::nodes::{self, CreateError, NodeSpec};
use super::simulated::SimulatedNodes;
use nodecfg_agent::state::Settings;
use nodecfg_contract::nodeconfig;

/// How many Nodes are created at a time.
const CREATED_AT_A_TIME: usize = 32;
/// How long requests under way may take when the sandbox ends.
const GRACE: Duration = Duration::from_secs(1);
/// What errors call the server of a client within the process.
const IN_PROCESS: &str = "https://sandbox.invalid";
/// Where what nodecfg needs on a cluster with agents is.
const NAMESPACE: &str = "nodecfg-system";

/// How a sandbox is to be.
#[derive(Debug, Clone)]
pub struct EmbeddedOptions {
    /// Which API server it behaves like.
    pub character: ServerProfile,
    /// Seeds everything that looks random.
    pub seed: u64,
    /// How many times faster than real its kubelets are.
    pub speed: f64,
    /// What goes wrong on which node.
    pub faults: Faults,
    /// Whether kubelets emit Events.
    pub events: bool,
    /// Container images that each Node lists: they are what makes real Nodes large.
    pub images: usize,
    /// Of character 1.36: whether there is what `nodecfg install` puts on a cluster, and an agent on each node.
    pub installed: bool,
    /// How the agents behave, in their own time.
    pub agents: Settings,
    /// Whether what the agents log is logged here.
    pub log_agents: bool,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        Self {
            character: ServerProfile::V1_21,
            seed: 0,
            speed: 1.0,
            faults: Faults::default(),
            events: true,
            images: 10,
            installed: true,
            agents: Settings::default(),
            log_agents: true,
        }
    }
}

/// Why a sandbox did not start.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// A fault names a node that there is not.
    #[error("cannot give a fault to node {0}: the sandbox has no such node")]
    UnknownNode(String),
    /// A fault is for nodes with agents, and these have none.
    #[error("fault {0} needs a node with an agent: the sandbox's kubelets follow configSource themselves")]
    NeedsAgent(Fault),
    /// What is installed was refused.
    #[error("cannot install what agents need in the sandbox: {0}")]
    Install(String),
    /// A number of nodes or a name makes no sense.
    #[error("cannot make the sandbox's nodes: {0}")]
    Nodes(String),
    /// A node could not be created.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// The kubelets did not start.
    #[error(transparent)]
    Kubelets(#[from] StartError),
    /// It cannot be served.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The kubeconfig cannot be written.
    #[error(transparent)]
    Save(#[from] SaveError),
}

impl SandboxError {
    /// The way out.
    #[must_use]
    pub fn help(&self) -> String {
        match self {
            Self::UnknownNode(_) => "nodes are named <pool>-<number>; start it without --fault to see their names",
            Self::NeedsAgent(_) => "sandboxes of Kubernetes 1.36 have agents (--kubernetes-version 1.36)",
            Self::Nodes(_) => "pool names are DNS labels: lower-case letters, digits and '-'",
            Self::Create(_) | Self::Kubelets(_) | Self::Install(_) => {
                "this is a bug in the sandbox, or the machine is out of memory"
            }
            Self::Serve(_) => "choose another --port, or leave it out to have a free one picked",
            Self::Save(_) => "choose another path for --kubeconfig-out",
        }
        .to_owned()
    }
}

/// An embedded cluster. Dropping it ends it.
pub struct Embedded {
    api: Api,
    wire: Wire,
    nodes: SimulatedNodes,
    token: String,
}

impl Embedded {
    /// Starts a cluster with these nodes.
    ///
    /// # Errors
    /// When a fault names no node, or nodes or kubelets do not come up.
    pub async fn start(options: EmbeddedOptions, specs: Vec<NodeSpec>) -> Result<Self, SandboxError> {
        if let Some(unknown) = options.faults.nodes().find(|node| specs.iter().all(|spec| spec.name != **node)) {
            return Err(SandboxError::UnknownNode(unknown.to_string()));
        }
        let agents = options.character == ServerProfile::V1_36 && options.installed;
        if let Some(fault) = options.faults.all().find(|fault| !agents && fault.needs_agent()) {
            return Err(SandboxError::NeedsAgent(fault));
        }
        let mut random = fastrand::Rng::with_seed(options.seed);
        let token: String = std::iter::repeat_with(|| random.alphanumeric()).take(32).collect();
        let api = Api::new(ApiOptions {
            character: options.character,
            seed: options.seed,
            tokens: BTreeMap::from([(token.clone(), User::admin("sandbox"))]),
            face: Some(Arc::new(ServerFace::new(options.character))),
            ..ApiOptions::default()
        });
        let client = api.client();
        let specs: Vec<NodeSpec> = specs.into_iter().map(|spec| spec.with_faults(&options.faults)).collect();
        nodes::create(&client, specs, nodecfg_clock::now(), options.images, CREATED_AT_A_TIME).await?;
        let nodes = if agents {
            install_into(&api)?;
            let options = AgentOptions {
                speed: options.speed,
                seed: options.seed,
                faults: options.faults,
                events: options.events,
                settings: options.agents,
                log: options.log_agents,
                ..AgentOptions::default()
            };
            SimulatedNodes::Agents(Agents::start(&api, options).await?)
        } else {
            let options = KubeletOptions {
                speed: options.speed,
                seed: options.seed,
                faults: options.faults,
                events: options.events,
                ..KubeletOptions::default()
            };
            SimulatedNodes::Kubelets(Kubelets::start(client, options).await?)
        };
        api.answer_for_kubelets(nodes.proxy());
        Ok(Self { api, wire: Wire::new(), nodes, token })
    }

    /// The API server itself.
    #[must_use]
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// The request log and the faults on the wire of everybody but the kubelets.
    #[must_use]
    pub fn wire(&self) -> &Wire {
        &self.wire
    }

    /// The simulated nodes.
    #[must_use]
    pub fn nodes(&self) -> &SimulatedNodes {
        &self.nodes
    }

    /// A client within the process, behind the wire, as an administrator.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        self.client_as(User::admin("sandbox"))
    }

    /// The same as somebody else.
    #[must_use]
    pub fn client_as(&self, user: User) -> kube::Client {
        let service = self.wire.service(self.api.router()).map_request(move |request: Request<kube::client::Body>| {
            let (mut parts, body) = request.into_parts();
            parts.extensions.insert(user.clone());
            Request::from_parts(parts, Body::new(body))
        });
        kube::Client::new(service, "default")
    }

    /// What errors call the server of [`client`](Self::client).
    #[must_use]
    pub fn in_process_server(&self) -> &'static str {
        IN_PROCESS
    }

    /// Serves it over HTTPS on loopback.
    ///
    /// # Errors
    /// When the port cannot be had.
    pub async fn serve(&self, port: Option<u16>) -> Result<Serving, SandboxError> {
        let options = serve::Options { port, ..serve::Options::default() };
        Ok(serve::serve(self.wire.wrap(self.api.router()), options).await?)
    }

    /// What kubectl needs to reach it.
    #[must_use]
    pub fn kubeconfig(&self, serving: &Serving) -> Kubeconfig {
        Kubeconfig { server: serving.url(), ca_pem: serving.ca_pem().to_owned(), token: self.token.clone() }
    }

    /// Writes the kubeconfig, readable by its owner alone.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn save_kubeconfig(&self, serving: &Serving, path: &Path) -> Result<(), SandboxError> {
        Ok(self.kubeconfig(serving).save(path)?)
    }

    /// Ends it; requests under way are finished first.
    pub async fn stop(self, serving: Option<Serving>) {
        self.nodes.stop().await;
        if let Some(serving) = serving {
            serving.stop(GRACE).await;
        }
    }
}

/// What `nodecfg install` puts on a cluster, as far as it shows here: the namespace of nodecfg, the definition of NodeConfig, and
/// the policy for agents, which is stored and not judged by.
fn install_into(api: &Api) -> Result<(), SandboxError> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    let [policy, bound] = nodecfg_install::own_status_only();
    let admission = "admissionregistration.k8s.io";
    let objects = [
        ("", "namespaces", namespace),
        ("apiextensions.k8s.io", "customresourcedefinitions", nodeconfig::definition()),
        (admission, "validatingadmissionpolicies", policy),
        (admission, "validatingadmissionpolicybindings", bound),
    ];
    for (group, resource, object) in objects {
        let made = api.create(group, resource, "", object, "nodecfg-install");
        made.map_err(|refusal| SandboxError::Install(refusal.message))?;
    }
    Ok(())
}
