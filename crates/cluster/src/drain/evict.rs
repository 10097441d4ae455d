//! Evictions of pods, and the deletion of pods of a DaemonSet, which no eviction ends for long. Both require the uid of
//! the pod, so that a later pod of the same name stays.

use http::Method;
use serde_json::json;

use crate::connection::error::ClusterError;
use crate::connection::failure::{AttemptError, Status};
use crate::connection::operation::{Operation, Resource, Verb};
use crate::connection::transport::{Call, One, whole};
use crate::reading::wire::IgnoredContent;
use crate::writing::writer::ClusterWriter;
use nodecfg_contract::printable::remark;
use nodecfg_observed::{EvictionAnswer, Pod};

/// Cause by which a PodDisruptionBudget refuses an eviction (policy/v1 `DisruptionBudgetCause`).
const BUDGET_CAUSE: &str = "DisruptionBudget";
/// Cause of a refusal in a namespace that is being deleted (core/v1 `NamespaceTerminatingCause`).
const NAMESPACE_CAUSE: &str = "NamespaceTerminating";
/// Part of the only text by which the server reports several budgets.
const SEVERAL_BUDGETS: &str = "more than one PodDisruptionBudget";
/// Part of the texts by which the server and its storage report another uid.
const OTHER_UID: &str = "UID in";

impl ClusterWriter {
    /// Evicts a pod. Never deletes a pod past a PodDisruptionBudget. The server asks the budgets before it compares the
    /// uid, so a `Blocked` may concern a later pod of the same name. A refusal by a budget is an answer; the caller
    /// decides when to send the eviction again. Retries a refusal of an overloaded server.
    ///
    /// # Errors
    /// `Forbidden`; `Invalid` when an admission webhook refuses the eviction; `LockLost`; every [`ClusterError`] of a
    /// request.
    pub async fn evict(&self, pod: &Pod) -> Result<EvictionAnswer, ClusterError> {
        let version = self
            .eviction
            .get_or_try_init(|| async { self.reader.server_version().await.map(|version| version.eviction()) });
        let operation = Operation::on(Verb::Create, Resource::Evictions, Some(&pod.namespace), &pod.name);
        let body = json!({
            "apiVersion": version.await?,
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        });
        let call = Call::new(Method::POST, operation.path()).content("application/json", body.to_string());
        let evicted = || One::new(|_: &[u8]| Ok(EvictionAnswer::Evicted));
        self.reader.transport.call_unless(&operation, &call, evicted, || self.check_lock(&operation), answer).await
    }

    /// Deletes a pod of a DaemonSet. The DaemonSet creates it again on the same node, where it gets new CPUs. Success
    /// includes that the pod is gone.
    ///
    /// # Errors
    /// `Forbidden`; `LockLost`; every [`ClusterError`] of a request.
    pub async fn delete_daemon_pod(&self, pod: &Pod) -> Result<(), ClusterError> {
        let operation = Operation::on(Verb::Delete, Resource::Pods, Some(&pod.namespace), &pod.name);
        let body = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": pod.uid}});
        let call = Call::new(Method::DELETE, operation.path()).content("application/json", body.to_string());
        match self.call(&operation, &call, whole::<IgnoredContent>).await {
            Ok(_)
            | Err(
                ClusterError::NotFound { .. } | ClusterError::NamespaceMissing { .. } | ClusterError::Conflict { .. },
            ) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Answer in a refused eviction (kubernetes, `pkg/registry/core/pod/storage/eviction.go`, 1.36). `None`: the failure is
/// no answer about the pod.
fn answer(failure: &AttemptError) -> Option<EvictionAnswer> {
    let AttemptError::Status { code, status, .. } = failure else { return None };
    let text = status.message.as_deref().unwrap_or_default();
    let kind = status.details.as_ref().and_then(|details| details.kind.as_deref());
    let blocked = |reason: &str| Some(EvictionAnswer::Blocked { reason: remark(reason) });
    match code {
        404 if status.reason.is_some() => Some(EvictionAnswer::Gone),
        409 if text.contains(OTHER_UID) => Some(EvictionAnswer::Gone),
        409 => blocked(text),
        429 => cause(status, BUDGET_CAUSE).and_then(|message| blocked(message.unwrap_or(text))),
        500 if text.contains(SEVERAL_BUDGETS) => Some(EvictionAnswer::SeveralBudgets),
        403 if cause(status, NAMESPACE_CAUSE).is_some() => Some(EvictionAnswer::NamespaceTerminating),
        // A budget with a negative allowance, or with too many unconfirmed evictions.
        403 if kind == Some("poddisruptionbudget") => blocked(text),
        _ => None,
    }
}

/// Message of the cause with this reason; `None` without such a cause.
fn cause<'s>(status: &'s Status, reason: &str) -> Option<Option<&'s str>> {
    let mut causes = status.details.as_ref()?.causes.iter().flatten();
    causes.find(|cause| cause.reason.as_deref() == Some(reason)).map(|cause| cause.message.as_deref())
}

#[cfg(test)]
#[path = "evict_tests.rs"]
mod tests;
