//! Reads for `doctor` beyond those that planning needs: the server clock and installed objects. Must not change the
//! cluster.

use http::Method;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::apply::Target;
use super::error::ClusterError;
use super::operation::Verb;
use super::reader::{ClusterReader, found};
use super::transport::{Call, Whole};

/// Object that `nodecfg install` creates and `doctor` checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstalledObject {
    /// Definition of NodeConfigs.
    Definition,
    /// Policy that limits each agent to the status of its own node.
    Policy,
    /// DaemonSet of the agents.
    DaemonSet,
}

impl InstalledObject {
    fn object(self) -> Value {
        match self {
            Self::Definition => json!({
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": "nodeconfigs.nodecfg.dev"},
            }),
            Self::Policy => json!({
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingAdmissionPolicy",
                "metadata": {"name": nodecfg_contract::installation::OWN_STATUS_POLICY},
            }),
            Self::DaemonSet => json!({
                "apiVersion": "apps/v1",
                "kind": "DaemonSet",
                "metadata": {"name": nodecfg_contract::installation::AGENT_DAEMON_SET, "namespace": nodecfg_contract::installation::AGENT_NAMESPACE},
            }),
        }
    }
}

impl ClusterReader {
    /// The server's time according to its last response, and its offset from the clock of this machine.
    #[must_use]
    pub fn server_clock(&self) -> (Timestamp, SignedDuration) {
        let now = self.transport.server_time();
        // Whole seconds: the two clocks are not read at the same moment.
        (now, SignedDuration::from_secs(now.duration_since(nodecfg_clock::now()).as_secs_f64().round() as i64))
    }

    /// Object that `nodecfg install` creates; `None` when the object is missing or the server does not serve its
    /// kind.
    pub async fn installed_object(&self, installed: InstalledObject) -> Result<Option<Value>, ClusterError> {
        let Some(target) = Target::of(&installed.object()) else { return Ok(None) };
        let operation = target.operation(Verb::Get);
        let call = Call::new(Method::GET, operation.path());
        found(self.transport.call(&operation, &call, Whole::<Value>::new).await)
    }
}
