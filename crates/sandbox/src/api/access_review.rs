//! SelfSubjectAccessReviews and SelfSubjectReviews: what may I do, and who am I?

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

/// Answers a review.
///
/// # Errors
/// 400 when the body is none.
pub(crate) fn review(api: &Api, user: &User, resource: &Resource, manager: &str, body: &Value) -> ApiResult<Value> {
    if text(body, "/kind") != resource.kind {
        return Err(ApiError::bad_request(format!("the body is no {}", resource.kind)));
    }
    let mut review = body.clone();
    decode(&resource.shape, &mut review, &resource.kind);
    let asked = |key: &str| text(&review, &format!("/spec/resourceAttributes/{key}")).to_owned();
    let path = ResourcePath {
        group: asked("group"),
        version: asked("version"),
        namespace: asked("namespace"),
        resource: asked("resource"),
        name: asked("name"),
        subresource: asked("subresource"),
    };
    let allowed = match review.pointer("/spec/nonResourceAttributes") {
        Some(_) => user.name != User::anonymous().name,
        None => api.authorize(user, &asked("verb"), &path).is_ok(),
    };
    let version = resource.api_version();
    let writer =
        Writer { manager, version: &version, subresource: "", now: api.now(), character: api.character(), reset: &[] };
    managed::update(&resource.shape, resource.blank(), &mut review, &writer);
    set_field(&mut review, "status", json!({"allowed": allowed}));
    if api.character().writes_null_times() {
        set_metadata(&mut review, "creationTimestamp", Value::Null);
    }
    Ok(review)
}

/// Says who asks.
///
/// # Errors
/// 400 when the body is no such question.
pub(crate) fn who(user: &User, resource: &Resource, body: &Value) -> ApiResult<Value> {
    if text(body, "/kind") != resource.kind {
        return Err(ApiError::bad_request(format!("the body is no {}", resource.kind)));
    }
    let status = json!({"userInfo": {"username": user.name, "groups": ["system:authenticated"]}});
    Ok(json!({"kind": resource.kind, "apiVersion": resource.api_version(), "metadata": {}, "status": status}))
}
