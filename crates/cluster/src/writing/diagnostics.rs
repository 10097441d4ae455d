//! Reads for `doctor` and `install` beyond those that planning needs: the server clock and installed objects. Must not
//! change the cluster.

use http::Method;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::apply::Target;
use crate::connection::error::ClusterError;
use crate::connection::operation::Verb;
use crate::connection::transport::{Call, whole};
use crate::reading::reader::{ClusterReader, found};
use nodecfg_contract::installation::{AGENT_DAEMON_SET, AGENT_NAMESPACE};

/// Object that `nodecfg install` creates, and that `doctor` or a further `install` reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstalledObject<'a> {
    /// Definition of NodeConfigs.
    Definition,
    /// ValidatingAdmissionPolicy with this name.
    Policy(&'a str),
    /// Binding with this name, that of its policy.
    PolicyBinding(&'a str),
    /// DaemonSet of the agents.
    DaemonSet,
}

impl InstalledObject<'_> {
    fn object(self) -> Value {
        match self {
            Self::Definition => json!({
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": "nodeconfigs.nodecfg.dev"},
            }),
            Self::Policy(name) => of_admission("ValidatingAdmissionPolicy", name),
            Self::PolicyBinding(name) => of_admission("ValidatingAdmissionPolicyBinding", name),
            Self::DaemonSet => json!({
                "apiVersion": "apps/v1",
                "kind": "DaemonSet",
                "metadata": {"name": AGENT_DAEMON_SET, "namespace": AGENT_NAMESPACE},
            }),
        }
    }
}

fn of_admission(kind: &str, name: &str) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
    })
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
    pub async fn installed_object(&self, installed: InstalledObject<'_>) -> Result<Option<Value>, ClusterError> {
        let Some(target) = Target::of(&installed.object()) else { return Ok(None) };
        let operation = target.operation(Verb::Get);
        let call = Call::new(Method::GET, operation.path());
        found(self.transport.call(&operation, &call, whole::<Value>).await)
    }
}
