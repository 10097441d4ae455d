//! Name of the current user according to the API server, for the author of orders. The server stores nothing.

use http::Method;
use serde::Deserialize;
use serde_json::json;

use super::reader::ClusterReader;
use crate::connection::error::ClusterError;
use crate::connection::operation::{Kind, Operation, Resource, Verb};
use crate::connection::transport::{Call, whole};

/// SelfSubjectReview is v1 since Kubernetes 1.28; 1.27 may serve a beta.
const VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// authentication.k8s.io SelfSubjectReview.
const REVIEWS: Kind = Kind {
    group: "authentication.k8s.io",
    version: "v1",
    kind: "SelfSubjectReview",
    plural: "selfsubjectreviews",
    singular: "selfsubjectreview",
};

#[derive(Debug, Deserialize)]
struct Review {
    #[serde(default)]
    status: ReviewStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReviewStatus {
    #[serde(default)]
    user_info: UserInfo,
}

#[derive(Debug, Default, Deserialize)]
struct UserInfo {
    #[serde(default)]
    username: String,
}

impl ClusterReader {
    /// Name of this user according to the API server. `None` when the server refuses or does not serve the review, as
    /// before 1.27.
    ///
    /// # Errors
    /// Every [`ClusterError`] of a request, except a refused review.
    pub async fn whoami(&self) -> Result<Option<String>, ClusterError> {
        let operation = Operation::on_all(Verb::Create, Resource::Other(&REVIEWS), None);
        for version in VERSIONS {
            let group = REVIEWS.group;
            let body = json!({"apiVersion": format!("{group}/{version}"), "kind": REVIEWS.kind});
            let uri = format!("/apis/{group}/{version}/{}", REVIEWS.plural);
            let call = Call::new(Method::POST, uri).content("application/json", body.to_string());
            match self.transport.call(&operation, &call, whole::<Review>).await {
                Ok(review) => return Ok(Some(review.status.user_info.username).filter(|name| !name.is_empty())),
                Err(
                    error @ (ClusterError::Forbidden { .. }
                    | ClusterError::NotFound { .. }
                    | ClusterError::Invalid { .. }
                    | ClusterError::Unexpected { .. }),
                ) => tracing::debug!("the server does not return the user name: {error}"),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}
