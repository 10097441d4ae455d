//! Handlers of SelfSubjectAccessReviews and SelfSubjectReviews.

use serde_json::{Value, json};

use super::Api;
use super::auth::User;
use super::decode::decode;
use super::fields::managed::{self, Writer};
use super::object::{set_field, set_metadata};
use super::request::ResourcePath;
use super::resource::Resource;
use super::status::{ApiError, ApiResult};
use super::validate::text;

/// Handles a SelfSubjectAccessReview.
///
/// # Errors
/// 400 for a body of another kind.
pub(crate) fn access_review(
    api: &Api,
    user: &User,
    resource: &Resource,
    manager: &str,
    body: &Value,
) -> ApiResult<Value> {
    if text(body, "/kind") != resource.kind {
        return Err(ApiError::bad_request(format!("the body is not a {}", resource.kind)));
    }
    let mut review = body.clone();
    decode(&resource.shape, &mut review, &resource.kind);
    let attribute = |key: &str| text(&review, &format!("/spec/resourceAttributes/{key}")).to_owned();
    let path = ResourcePath {
        group: attribute("group"),
        version: attribute("version"),
        namespace: attribute("namespace"),
        resource: attribute("resource"),
        name: attribute("name"),
        subresource: attribute("subresource"),
    };
    let allowed = match review.pointer("/spec/nonResourceAttributes") {
        Some(_) => user.name != User::anonymous().name,
        None => api.authorize(user, &attribute("verb"), &path).is_ok(),
    };
    let version = resource.api_version();
    let writer = Writer {
        manager,
        version: &version,
        subresource: "",
        now: api.now(),
        profile: api.profile(),
        reset_fields: &[],
    };
    managed::update(&resource.shape, resource.blank(), &mut review, &writer);
    set_field(&mut review, "status", json!({"allowed": allowed}));
    if api.profile().writes_null_times() {
        set_metadata(&mut review, "creationTimestamp", Value::Null);
    }
    Ok(review)
}

/// Handles a SelfSubjectReview: returns the requesting user.
///
/// # Errors
/// 400 for a body of another kind.
pub(crate) fn self_review(user: &User, resource: &Resource, body: &Value) -> ApiResult<Value> {
    if text(body, "/kind") != resource.kind {
        return Err(ApiError::bad_request(format!("the body is not a {}", resource.kind)));
    }
    let status = json!({"userInfo": {"username": user.name, "groups": ["system:authenticated"]}});
    Ok(json!({"kind": resource.kind, "apiVersion": resource.api_version(), "metadata": {}, "status": status}))
}
