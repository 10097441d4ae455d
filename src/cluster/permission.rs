//! Asks whether an operation is allowed before anything depends on it, so that a rollout does not find out half way. Every
//! user may ask about themselves (RBAC's `system:basic-user`); the review is answered and stored nowhere.

use http::Method;
use serde::Deserialize;
use serde_json::json;

use super::error::ClusterError;
use super::operation::Operation;
use super::reader::ClusterReader;
use super::transport::{Call, Whole};

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

impl ClusterReader {
    /// Asks whether this user may do something. Where the server does not answer such questions, the operation itself
    /// will tell.
    ///
    /// # Errors
    /// [`ClusterError::Forbidden`] when they may not; else every [`ClusterError`] of a request but a refusal to answer.
    pub async fn check_allowed(&self, operation: Operation) -> Result<(), ClusterError> {
        let attributes = json!({
            "verb": operation.verb.as_str(),
            "group": operation.resource.group(),
            "resource": operation.resource.plural(),
            "namespace": operation.namespace,
            "name": operation.name,
        });
        let body = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        });
        let call = Call::new(Method::POST, REVIEWS.to_owned()).content("application/json", body.to_string());
        match self.transport.call(&operation, &call, Whole::<Review>::new).await {
            Ok(review) if review.status.allowed => Ok(()),
            Ok(_) => Err(ClusterError::Forbidden { operation: Box::new(operation), user: None }),
            Err(
                error @ (ClusterError::Forbidden { .. }
                | ClusterError::NotFound { .. }
                | ClusterError::Invalid { .. }
                | ClusterError::Unexpected { .. }),
            ) => {
                tracing::info!("whether nodecfg may {operation} is not known beforehand: {error}");
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}
