//! The node half of a sandbox's contract, whichever it is: kubelets that follow `configSource` themselves, or agents.

use super::agents::Agents;
use super::api::NodeProxy;
use super::kubelets::{Fault, InjectError, Kubelets};
use nodecfg_contract::names::NodeName;

/// Running simulated nodes. Dropping them stops them at once.
#[derive(Debug)]
pub enum SimulatedNodes {
    /// Kubelets 1.21 with Dynamic Kubelet Configuration.
    Kubelets(Kubelets),
    /// Kubelets of today, each with an agent.
    Agents(Agents),
}

impl SimulatedNodes {
    /// Makes a node misbehave from now on, or with `None` mends it.
    ///
    /// # Errors
    /// When there is no such node, or it cannot misbehave like that.
    pub async fn inject(&self, node: &NodeName, fault: Option<Fault>) -> Result<(), InjectError> {
        match self {
            Self::Kubelets(_) if fault.is_some_and(Fault::needs_agent) => Err(InjectError::WithoutAgent(node.clone())),
            Self::Kubelets(kubelets) => kubelets.inject(node, fault).await,
            Self::Agents(agents) => agents.inject(node, fault),
        }
    }

    /// What answers for their kubelets when the API server passes a request on to one.
    pub(super) fn proxy(&self) -> std::sync::Arc<dyn NodeProxy> {
        match self {
            Self::Kubelets(kubelets) => kubelets.proxy(),
            Self::Agents(agents) => agents.proxy(),
        }
    }

    /// Stops all nodes; what is under way is finished first.
    pub async fn stop(self) {
        match self {
            Self::Kubelets(kubelets) => kubelets.stop().await,
            Self::Agents(agents) => agents.stop().await,
        }
    }
}
