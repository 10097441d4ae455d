//! Embedded sandbox as a scenario's cluster, with its request log and faults.

use std::path::Path;
use std::time::Duration;

use nodecfg_agent::api::PointerPlace;
use nodecfg_agent::settings::Settings;
use nodecfg_contract::installation::NAMESPACE;
use nodecfg_contract::names::{FleetName, NamespaceName};
use nodecfg_sandbox::agents;
use nodecfg_sandbox::api::{Api, ServerProfile};
use nodecfg_sandbox::kubelets::Faults;
use nodecfg_sandbox::machines;
use nodecfg_sandbox::nodes::NodeSpec;
use nodecfg_sandbox::server::serve::{Identity, Options, Serving, serve};
use nodecfg_sandbox::server::wire::{Entry, Fault, InjectedFault, Wire};
use nodecfg_sandbox::workloads::WorkloadSpec;
use nodecfg_sandbox::{Embedded, EmbeddedOptions};

use super::SPEED;

/// User of the binary in the sandbox.
const USER: &str = "sandbox";

/// Place of a cluster: its kubeconfig, and the fleet that new nodes join.
pub(super) struct Place<'a> {
    pub(super) kubeconfig: &'a Path,
    pub(super) joins: Option<FleetName>,
}

/// A sandbox served over HTTPS, with its request log and faults.
pub struct SandboxServer {
    embedded: Embedded,
    port: u16,
    identity: Identity,
    serving: Option<Serving>,
}

impl SandboxServer {
    pub(super) async fn start(
        profile: ServerProfile,
        installed: bool,
        large: bool,
        nodes: Vec<NodeSpec>,
        faults: Faults,
        workloads: Option<WorkloadSpec>,
        place: Place<'_>,
    ) -> Self {
        let Place { kubeconfig, joins } = place;
        let namespace = NamespaceName::new(NAMESPACE).unwrap();
        let speed = if large { SPEED / 15.0 } else { SPEED };
        // Generous real time, so that kubelets look healthy on a busy machine.
        let mut settings = Settings { health_timeout: Duration::from_secs_f64(10.0 * SPEED), ..Settings::default() };
        if large {
            settings.probe_interval = Duration::from_secs(5);
            settings.trial_period = Duration::from_secs(30);
        }
        let join = joins.map(|fleet| PointerPlace { fleet, namespace });
        let options = EmbeddedOptions {
            profile,
            installed,
            nodes: machines::Options { speed, faults, ..machines::Options::default() },
            agents: agents::Options { settings, join, ..agents::Options::default() },
            workloads,
            images: 2,
        };
        let embedded = Embedded::start(options, nodes).await.unwrap();
        let serving = embedded.serve(None).await.unwrap();
        embedded.save_kubeconfig(&serving, kubeconfig).unwrap();
        let (port, identity) = (serving.address().port(), serving.identity().clone());
        Self { embedded, port, identity, serving: Some(serving) }
    }

    pub(super) fn embedded(&self) -> &Embedded {
        &self.embedded
    }

    /// The API server.
    pub fn api(&self) -> &Api {
        self.embedded.api()
    }

    /// Request log and faults of the binary's requests; kubelets and the test bypass them.
    pub fn wire(&self) -> &Wire {
        self.embedded.wire()
    }

    /// Injects a request fault.
    pub fn inject(&self, fault: Fault) -> InjectedFault {
        self.wire().faults.inject(fault)
    }

    /// Denies the binary a verb on a resource, like RBAC.
    pub fn forbid(&self, verb: &str, resource: &str) {
        self.api().deny_user(USER, verb, resource);
    }

    /// Write requests except those for Leases, Events and access reviews, which change nothing relevant.
    pub fn writes(&self) -> Vec<Entry> {
        let mut writes = self.wire().log.writes();
        writes.retain(|entry| {
            !matches!(entry.request.resource.as_str(), "leases" | "events" | "selfsubjectaccessreviews")
        });
        writes
    }

    /// Closes every connection and stops serving.
    pub async fn crash(&mut self) {
        self.serving.take().unwrap().abort().await;
    }

    /// Serves again on the same port with the same certificate.
    pub async fn recover(&mut self) {
        let options = Options { port: Some(self.port), identity: Some(self.identity.clone()) };
        self.serving = Some(serve(self.wire().wrap(self.api().router()), options).await.unwrap());
    }

    pub(super) async fn stop(self) {
        self.embedded.stop(None).await;
        if let Some(serving) = self.serving {
            serving.stop(Duration::ZERO).await;
        }
    }
}
