//! Conditions by which a Node tells other programs that nodecfg drains and changes it (KEP-5683, alpha in Kubernetes 1.37).
//! Any authorized program may write them; who sets one clears it. nodecfg itself decides nothing by them: the mark of a
//! drain is its only state. A user without the right to write the status of Nodes sets none, and a failure is only logged.

use http::Method;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::connection::error::ClusterError;
use crate::connection::operation::{Operation, Resource, Verb};
use crate::connection::transport::{Call, whole};
use crate::reading::wire::IgnoredContent;
use crate::writing::writer::{ClusterWriter, FIELD_MANAGER};
use nodecfg_contract::names::NodeName;
use nodecfg_observed::drain::CONDITION_REASON;

const MESSAGE: &str = "nodecfg changes the kubelet configuration";

/// A condition type and whether it is True.
type Shown = (&'static str, bool);

/// The pods of the node are evicted.
pub(super) const DRAINING: [Shown; 1] = [("DrainInProgress", true)];
/// The node is drained, and its kubelet gets the configuration.
const DRAINED: [Shown; 3] = [("DrainInProgress", false), ("Drained", true), ("MaintenanceInProgress", true)];

/// The parts of a Node condition that are read.
#[derive(Debug, Deserialize)]
pub(super) struct NodeCondition {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    reason: String,
}

impl NodeCondition {
    fn is_own(&self) -> bool {
        self.reason == CONDITION_REASON
    }

    fn is(&self, (kind, value): Shown) -> bool {
        self.kind == kind && self.is_own() && (self.status == "True") == value
    }
}

/// The conditions to write, so that exactly `wanted` are True among those of nodecfg. Conditions of others stay.
pub(super) fn changes(present: &[NodeCondition], wanted: &[Shown]) -> Vec<Shown> {
    let all = DRAINED.map(|(kind, _)| (kind, wanted.contains(&(kind, true))));
    let is_due = |shown: &Shown| match shown.1 {
        true => !present.iter().any(|condition| condition.is(*shown)),
        false => present.iter().any(|condition| condition.is((shown.0, true))),
    };
    all.into_iter().filter(is_due).collect()
}

impl ClusterWriter {
    /// Shows on the Node with this uid that it is drained.
    ///
    /// # Errors
    /// `LockLost`.
    pub async fn show_drained(&self, node: &NodeName, uid: &str) -> Result<(), ClusterError> {
        self.show_conditions(node, uid, &DRAINED).await
    }

    pub(super) async fn show_conditions(
        &self,
        node: &NodeName,
        uid: &str,
        conditions: &[Shown],
    ) -> Result<(), ClusterError> {
        if conditions.is_empty() {
            return Ok(());
        }
        let operation = Operation::on(Verb::Patch, Resource::Nodes, None, node.as_str());
        let uri = format!("{}/status?fieldManager={FIELD_MANAGER}", operation.path());
        let body = patch(uid, conditions, nodecfg_clock::now()).to_string();
        let call = Call::new(Method::PATCH, uri).content("application/strategic-merge-patch+json", body);
        match self.call(&operation, &call, whole::<IgnoredContent>).await {
            Err(error @ ClusterError::LockLost { .. }) => Err(error),
            Err(error) => {
                tracing::debug!("the Node does not show its drain: {error}");
                Ok(())
            }
            Ok(_) => Ok(()),
        }
    }
}

/// Strategic merge patch that fails for a later Node of the same name.
fn patch(uid: &str, conditions: &[Shown], now: Timestamp) -> Value {
    let time = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let written = |(kind, value): &Shown| {
        json!({
            "type": kind,
            "status": if *value { "True" } else { "False" },
            "reason": CONDITION_REASON,
            "message": MESSAGE,
            "lastHeartbeatTime": time,
            "lastTransitionTime": time,
        })
    };
    json!({"metadata": {"uid": uid}, "status": {"conditions": conditions.iter().map(written).collect::<Vec<_>>()}})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(kind: &str, status: &str, reason: &str) -> NodeCondition {
        NodeCondition { kind: kind.to_owned(), status: status.to_owned(), reason: reason.to_owned() }
    }

    #[test]
    fn changes_only_what_differs_and_is_not_of_others() {
        let own = |kind: &str, status: &str| condition(kind, status, CONDITION_REASON);
        assert_eq!(changes(&[], &DRAINING), DRAINING);
        assert_eq!(changes(&[own("DrainInProgress", "True")], &DRAINING), []);
        let before = [own("DrainInProgress", "False"), own("Drained", "True"), own("MaintenanceInProgress", "True")];
        let again = [("DrainInProgress", true), ("Drained", false), ("MaintenanceInProgress", false)];
        assert_eq!(changes(&before, &DRAINING), again, "the node is drained again");
        assert_eq!(changes(&before, &[]), again[1..]);
        let of_others = ["AdminRequested", ""].map(|reason| condition("Drained", "True", reason));
        assert_eq!(changes(&of_others, &[]), []);
        assert_eq!(changes(&[condition("DrainInProgress", "False", "AdminRequested")], &DRAINING), DRAINING);
    }
}
