//! Asks whether an operation is allowed before anything depends on it, so that a rollout does not find out half way. Every
//! user may ask about themselves (RBAC's `system:basic-user`); the review is answered and stored nowhere.

use futures::future::join_all;
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::binding::Binding;
use super::error::ClusterError;
use super::operation::{Operation, Resource, Verb};
use super::reader::ClusterReader;
use super::transport::{Call, Whole};
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

/// What a rollout is going to do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Needs<'a> {
    /// Create ConfigMaps in this namespace.
    pub config_maps_in: Option<&'a str>,
    /// Assign, and read again what somebody else changed meanwhile.
    pub assign: bool,
    /// Watch nodes converge.
    pub watch: bool,
}

impl ClusterReader {
    /// Asks whether this user may do all that a rollout will have to.
    ///
    /// # Errors
    /// As [`check_allowed`](Self::check_allowed), the first of them; the others are logged with their way out.
    pub async fn check_all_allowed(&self, needs: Needs<'_>) -> Result<(), ClusterError> {
        let answers = join_all(self.operations(needs).into_iter().map(|operation| self.check_allowed(operation))).await;
        let mut refusals = answers.into_iter().filter_map(Result::err);
        let Some(first) = refusals.next() else { return Ok(()) };
        // The first is told as what ended the command; whoever has to grant it wants to know of all.
        for other in refusals {
            tracing::error!("{other}. {}", other.help());
        }
        Err(first)
    }

    fn operations(&self, needs: Needs<'_>) -> Vec<Operation> {
        use Resource::{NodeConfigs, Nodes};
        let mut operations = Vec::new();
        if let Some(namespace) = needs.config_maps_in {
            operations.push(Operation::on_all(Verb::Create, Resource::ConfigMaps, Some(namespace)));
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
        operations
    }

    /// Asks whether this user may do something. Where the server does not answer such questions, the operation itself
    /// will tell.
    ///
    /// # Errors
    /// [`ClusterError::Forbidden`] when they may not; else every [`ClusterError`] of a request but a refusal to answer.
    pub async fn check_allowed(&self, operation: Operation) -> Result<(), ClusterError> {
        let plural = operation.resource.plural();
        let (resource, subresource) = plural.split_once('/').unwrap_or((plural, ""));
        let attributes = json!({
            "verb": operation.verb.as_str(),
            "group": operation.resource.group(),
            "resource": resource,
            "subresource": subresource,
            "namespace": operation.namespace,
            "name": operation.name,
        });
        match self.review(&operation, &attributes).await? {
            Some(false) => Err(ClusterError::Forbidden { operation: Box::new(operation), user: None }),
            Some(true) | None => Ok(()),
        }
    }

    /// Whether this user has a right. `None`: the server does not answer such questions.
    ///
    /// # Errors
    /// Every [`ClusterError`] of a request but a refusal to answer.
    pub async fn has(&self, right: &Right) -> Result<Option<bool>, ClusterError> {
        let (resource, subresource) = right.resource.split_once('/').unwrap_or((&right.resource, ""));
        let attributes = json!({
            "verb": right.verb,
            "group": right.group,
            "resource": resource,
            "subresource": subresource,
            "namespace": right.namespace,
            "name": right.name,
        });
        self.review(&Operation::on_all(Verb::Create, Resource::AccessReviews, None), &attributes).await
    }

    /// Asks about attributes; `operation` is what the question is about.
    async fn review(&self, operation: &Operation, attributes: &Value) -> Result<Option<bool>, ClusterError> {
        let body = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        });
        let call = Call::new(Method::POST, REVIEWS.to_owned()).content("application/json", body.to_string());
        match self.transport.call(operation, &call, Whole::<Review>::new).await {
            Ok(review) => Ok(Some(review.status.allowed)),
            Err(
                error @ (ClusterError::Forbidden { .. }
                | ClusterError::NotFound { .. }
                | ClusterError::Invalid { .. }
                | ClusterError::Unexpected { .. }),
            ) => {
                tracing::info!("whether nodecfg may {operation} is not known beforehand: {error}");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}
