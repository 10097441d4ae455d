//! The embedded sandbox as a scenario's cluster, and what only it can do.

use std::path::Path;
use std::time::Duration;

use nodecfg_agent::state::Settings;
use nodecfg_sandbox::api::{Api, ServerProfile};
use nodecfg_sandbox::face::serve::{Identity, Options, Serving, serve};
use nodecfg_sandbox::face::wire::{Entry, Fault, Injected, Wire};
use nodecfg_sandbox::kubelets::Faults;
use nodecfg_sandbox::nodes::NodeSpec;
use nodecfg_sandbox::{Embedded, EmbeddedOptions};

use super::SPEED;

/// Who the binary is to the sandbox.
const USER: &str = "sandbox";

/// A sandbox, served over HTTPS, with its request log and the faults on its wire.
pub struct Powers {
    embedded: Embedded,
    port: u16,
    identity: Identity,
    serving: Option<Serving>,
}

impl Powers {
    pub(super) async fn start(
        character: ServerProfile,
        installed: bool,
        large: bool,
        nodes: Vec<NodeSpec>,
        faults: Faults,
        kubeconfig: &Path,
    ) -> Self {
        let speed = if large { SPEED / 15.0 } else { SPEED };
        // Much real time, so that a busy machine makes no kubelet look ill.
        let mut agents = Settings { health_timeout: Duration::from_secs_f64(10.0 * SPEED), ..Settings::default() };
        if large {
            agents.probe_interval = Duration::from_secs(5);
            agents.trial_period = Duration::from_secs(30);
        }
        let options =
            EmbeddedOptions { character, installed, speed, faults, agents, images: 2, ..EmbeddedOptions::default() };
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

    /// What lies between the binary and the API server. Kubelets and the test itself do not pass it.
    pub fn wire(&self) -> &Wire {
        self.embedded.wire()
    }

    /// Has something go wrong.
    pub fn inject(&self, fault: Fault) -> Injected {
        self.wire().faults.inject(fault)
    }

    /// Refuses a verb on a resource to the binary, as RBAC would.
    pub fn forbid(&self, verb: &str, resource: &str) {
        self.api().deny_user(USER, verb, resource);
    }

    /// Every request that meant to change something, but those about the lock and about events. A review of one's own
    /// permissions is posted and changes nothing.
    pub fn writes(&self) -> Vec<Entry> {
        let mut writes = self.wire().log.writes();
        writes.retain(|entry| {
            !matches!(entry.request.resource.as_str(), "leases" | "events" | "selfsubjectaccessreviews")
        });
        writes
    }

    /// Cuts every connection and serves no more.
    pub async fn crash(&mut self) {
        self.serving.take().unwrap().abort().await;
    }

    /// Serves again, on the same port with the same certificate.
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
