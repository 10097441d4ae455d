//! Permission checks before the first write, so that a rollout does not fail half-way. Every user may check their own
//! permissions (RBAC's `system:basic-user`). Admission policies and webhooks answer only to the write itself, so its dry
//! run follows. The server stores nothing.

use futures::future::join_all;
use http::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::writer::{FIELD_MANAGER, config_map, probe};
use crate::connection::error::ClusterError;
use crate::connection::operation::{Operation, Resource, Verb};
use crate::connection::transport::{Call, whole};
use crate::reading::binding::Binding;
use crate::reading::reader::ClusterReader;
use crate::reading::wire::IgnoredContent;
use nodecfg_contract::config_map::PoolConfigMap;
use nodecfg_contract::installation::Right;

/// authorization.k8s.io/v1 SelfSubjectAccessReview.
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

#[derive(Debug, Deserialize)]
struct Review {
    #[serde(default)]
    status: ReviewStatus,
}

#[derive(Debug, Default, Deserialize)]
struct ReviewStatus {
    #[serde(default)]
    allowed: bool,
}

/// Operations of a planned rollout.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Needs<'a> {
    /// Create ConfigMaps in this namespace.
    pub config_maps_in: Option<&'a str>,
    /// Create, read and replace pool pointers in this namespace.
    pub pointers_in: Option<&'a str>,
    /// Assign, and read again what another client changed.
    pub assign: bool,
    /// Watch nodes converge.
    pub watch: bool,
    /// Mark nodes for a drain, follow and evict their pods, and release them.
    pub drain: bool,
}

impl ClusterReader {
    /// Checks all operations of a rollout.
    ///
    /// # Errors
    /// As [`check_allowed`](Self::check_allowed): returns the first refusal and logs the others with their fix.
    pub async fn check_all_allowed(&self, needs: Needs<'_>) -> Result<(), ClusterError> {
        let results = join_all(self.operations(needs).into_iter().map(|operation| self.check_allowed(operation))).await;
        let mut refusals = results.into_iter().filter_map(Result::err);
        let Some(first) = refusals.next() else { return Ok(()) };
        // The command returns the first refusal; the log lists the others, so that all can be granted at once.
        for other in refusals {
            tracing::error!("{other}. {}", other.help());
        }
        Err(first)
    }

    fn operations(&self, needs: Needs<'_>) -> Vec<Operation> {
        use Resource::{Evictions, NodeConfigs, Nodes, PodDisruptionBudgets, Pods, VolumeAttachments};
        let mut operations = Vec::new();
        if let Some(namespace) = needs.config_maps_in {
            operations.push(Operation::on_all(Verb::Create, Resource::ConfigMaps, Some(namespace)));
        }
        if let Some(namespace) = needs.pointers_in {
            let write = [Verb::Update, Verb::Create, Verb::Get];
            operations.extend(write.map(|verb| Operation::on_all(verb, Resource::ConfigMaps, Some(namespace))));
        }
        let (assign, watch): (&[_], &[_]) = match self.binding {
            Binding::Node => (&[(Verb::Patch, Nodes), (Verb::Get, Nodes)], &[Nodes]),
            Binding::NodeConfig => (
                &[
                    (Verb::Patch, NodeConfigs),
                    (Verb::Create, NodeConfigs),
                    (Verb::Get, NodeConfigs),
                    (Verb::Get, Nodes),
                ],
                &[NodeConfigs, Nodes],
            ),
        };
        let everywhere = |verb, resource| Operation::on_all(verb, resource, None);
        if needs.assign {
            operations.extend(assign.iter().map(|(verb, resource)| everywhere(*verb, *resource)));
        }
        if needs.watch {
            operations.extend(watch.iter().map(|resource| everywhere(Verb::Watch, *resource)));
        }
        if needs.drain {
            // The first refusal is the error. Its fix names the role with all rights of a drain.
            let drain = [
                (Verb::Create, Evictions),
                (Verb::Watch, Pods),
                (Verb::Delete, Pods),
                (Verb::List, VolumeAttachments),
                (Verb::List, Pods),
                (Verb::List, PodDisruptionBudgets),
                (Verb::Patch, Nodes),
                (Verb::Get, Nodes),
            ];
            operations.extend(drain.map(|(verb, resource)| everywhere(verb, resource)));
        }
        operations
    }

    /// Checks whether this user may list the pods of nodes.
    ///
    /// # Errors
    /// As [`check_allowed`](Self::check_allowed).
    pub async fn may_list_pods(&self) -> Result<(), ClusterError> {
        self.check_allowed(Operation::on_all(Verb::List, Resource::Pods, None)).await
    }

    /// Checks whether this user may ask kubelets what they run. The refusal of a kubelet shows only what that kubelet says.
    ///
    /// # Errors
    /// As [`check_allowed`](Self::check_allowed).
    pub async fn may_ask_kubelets(&self) -> Result<(), ClusterError> {
        self.check_allowed(Operation::on_all(Verb::Get, Resource::Configz, None)).await
    }

    /// Checks whether this user may do an operation. If the server refuses the review, the operation counts as
    /// allowed and may fail later.
    ///
    /// # Errors
    /// [`ClusterError::Forbidden`] when the user may not; every [`ClusterError`] of a request, except a refused
    /// review.
    pub async fn check_allowed(&self, operation: Operation) -> Result<(), ClusterError> {
        match self.review(&operation, &operation.right()).await? {
            Some(false) => Err(ClusterError::Forbidden { operation: Box::new(operation), user: None }),
            Some(true) | None => Ok(()),
        }
    }

    /// Reports whether this user has a right. `None`: the server refused the review.
    ///
    /// # Errors
    /// Every [`ClusterError`] of a request, except a refused review.
    pub async fn has(&self, right: &Right) -> Result<Option<bool>, ClusterError> {
        self.review(&Operation::on_all(Verb::Create, Resource::AccessReviews, None), right).await
    }

    /// Tries out the creation of a ConfigMap by a dry run, which passes all admission and stores nothing. Without one,
    /// the ConfigMap has only what every ConfigMap of nodecfg has. Requires the right to create ConfigMaps.
    ///
    /// # Errors
    /// [`ClusterError::NotAWriter`]; every [`ClusterError`] of a creation, except that the ConfigMap exists.
    pub async fn try_config_map(&self, namespace: &str, map: Option<&PoolConfigMap>) -> Result<(), ClusterError> {
        let body = map.map_or_else(|| probe(namespace), config_map);
        let name = body.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let operation = Operation::on(Verb::Create, Resource::ConfigMaps, Some(namespace), name);
        let result = self.dry_run::<IgnoredContent>(&operation, Method::POST, "application/json", &body).await;
        admitted(result).map(drop)
    }

    /// Sends a write as a dry run, and returns the object as it would be stored.
    pub(crate) async fn dry_run<T: DeserializeOwned>(
        &self,
        operation: &Operation,
        method: Method,
        media: &'static str,
        body: &Value,
    ) -> Result<T, ClusterError> {
        let uri = format!("{}?dryRun=All&fieldManager={FIELD_MANAGER}", operation.path());
        let call = Call::new(method, uri).content(media, body.to_string());
        self.transport.call(operation, &call, whole::<T>).await
    }

    /// Sends an access review of this right; log messages and errors name `operation`.
    async fn review(&self, operation: &Operation, right: &Right) -> Result<Option<bool>, ClusterError> {
        let (resource, subresource) = right.resource.split_once('/').unwrap_or((&right.resource, ""));
        let attributes = json!({
            "verb": right.verb,
            "group": right.group,
            "resource": resource,
            "subresource": subresource,
            "namespace": right.namespace,
            "name": right.name,
        });
        let body = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        });
        let call = Call::new(Method::POST, REVIEWS.to_owned()).content("application/json", body.to_string());
        match self.transport.call(operation, &call, whole::<Review>).await {
            Ok(review) => Ok(Some(review.status.allowed)),
            Err(
                error @ (ClusterError::Forbidden { .. }
                | ClusterError::NotFound { .. }
                | ClusterError::Invalid { .. }
                | ClusterError::Unexpected { .. }),
            ) => {
                tracing::info!("the permission to {operation} is unknown: {error}");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// Answer to a dry run, as far as admission is concerned; `None` if there was none for the present object. The state of the
/// object may differ when it is written.
pub(crate) fn admitted<T>(result: Result<T, ClusterError>) -> Result<Option<T>, ClusterError> {
    match result {
        Err(
            ClusterError::AlreadyExists { .. }
            | ClusterError::NotFound { .. }
            | ClusterError::Conflict { .. }
            | ClusterError::PreconditionFailed { .. },
        ) => Ok(None),
        // A webhook with side effects refuses every dry run: `NewDryRunUnsupportedErr` in
        // k8s.io/apiserver/pkg/admission/plugin/webhook/errors/statuserror.go.
        Err(ClusterError::Invalid { operation, message }) if message.contains("does not support dry run") => {
            tracing::info!("whether admission allows to {operation} is unknown: {message}");
            Ok(None)
        }
        other => other.map(Some),
    }
}

#[cfg(test)]
#[path = "permission_tests.rs"]
mod tests;
