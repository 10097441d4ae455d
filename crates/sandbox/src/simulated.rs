//! Simulated nodes of a sandbox: kubelets without agents, which follow `configSource` if their version supports it,
//! or nodes with agents.

use super::agents::Agents;
use super::api::NodeProxy;
use super::kubelets::{Fault, InjectError, Kubelets};
use nodecfg_clock::ScaledClock;
use nodecfg_contract::names::NodeName;

/// Running simulated nodes, which stop immediately when dropped.
#[derive(Debug)]
pub enum SimulatedNodes {
    /// Kubelets without agents. Versions 1.11 to 1.23 follow `configSource`.
    Kubelets(Kubelets),
    /// Recent kubelets, each with an agent.
    Agents(Agents),
}

impl SimulatedNodes {
    /// Sets the fault of a node; `None` removes the fault.
    ///
    /// # Errors
    /// Fails for an unknown node or a fault that the node does not support.
    pub fn inject(&self, node: &NodeName, fault: Option<Fault>) -> Result<(), InjectError> {
        match self {
            Self::Kubelets(_) if fault.as_ref().is_some_and(Fault::needs_agent) => {
                Err(InjectError::WithoutAgent(node.clone()))
            }
            Self::Kubelets(kubelets) => kubelets.inject(node, fault),
            Self::Agents(agents) => agents.inject(node, fault),
        }
    }

    /// Clock for limits in real time on what the nodes do.
    pub(super) fn limits_clock(&self) -> ScaledClock {
        match self {
            Self::Kubelets(kubelets) => kubelets.clock().at_real_speed(),
            Self::Agents(agents) => agents.clock().at_real_speed(),
        }
    }

    /// Proxy through which the API server reaches the kubelets.
    pub(super) fn proxy(&self) -> NodeProxy {
        match self {
            Self::Kubelets(kubelets) => kubelets.proxy(),
            Self::Agents(agents) => agents.proxy(),
        }
    }

    /// Stops all nodes.
    pub async fn stop(self) {
        match self {
            Self::Kubelets(kubelets) => kubelets.stop().await,
            Self::Agents(agents) => agents.stop().await,
        }
    }
}
