//! API errors as `meta/v1 Status` objects, with the messages of apimachinery `pkg/api/errors` and `field/errors.go`.

use serde_json::{Map, Value, json};

/// Error of a refused request, sent as a `Status` of status `Failure`.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable reason, such as `NotFound`; empty for none.
    pub reason: &'static str,
    /// Human-readable message.
    pub message: String,
    /// `details`, missing where the recorded servers omit them.
    pub details: Option<Box<Value>>,
    /// Token of an expired continuation, with which the client can continue an inconsistent list.
    pub continue_token: Option<String>,
}

/// Result of an API request.
pub(crate) type ApiResult<T> = Result<T, ApiError>;

/// Returns `resource` or `resource.group`.
fn qualified(resource: &str, group: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

fn details(name: &str, group: &str, kind: &str) -> Map<String, Value> {
    let mut details = Map::new();
    for (key, value) in [("name", name), ("group", group), ("kind", kind)] {
        if !value.is_empty() {
            details.insert(key.to_owned(), value.into());
        }
    }
    details
}

impl ApiError {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None, continue_token: None }
    }

    fn with_details(mut self, details: Map<String, Value>) -> Self {
        self.details = Some(Box::new(Value::Object(details)));
        self
    }

    /// 404 for a missing object.
    pub(crate) fn not_found(resource: &str, group: &str, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} {name:?} not found", qualified(resource, group)))
            .with_details(details(name, group, resource))
    }

    /// 404 for an unknown resource of a known group version.
    pub(crate) fn no_such_resource() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource").with_details(Map::new())
    }

    /// 405 for a verb that the resource does not support.
    pub(crate) fn method_not_allowed() -> Self {
        Self::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
            .with_details(Map::new())
    }

    /// 403 for a new object in a namespace that is being deleted (admission plugin NamespaceLifecycle).
    pub(crate) fn namespace_terminating(resource: &str, group: &str, name: &str, namespace: &str) -> Self {
        let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
        let cause = json!({
            "reason": "NamespaceTerminating",
            "message": format!("namespace {namespace} is being terminated"),
            "field": "metadata.namespace",
        });
        let mut details = details(name, group, resource);
        details.insert("causes".to_owned(), json!([cause]));
        Self::forbidden(resource, group, name, &why).with_details(details)
    }

    /// 429 for an eviction that a budget does not allow. `retry` is in seconds; 0 gives no advice.
    pub(crate) fn budget_exhausted(retry: u64, cause: &str) -> Self {
        let mut details = Map::new();
        details.insert("causes".to_owned(), json!([{"reason": "DisruptionBudget", "message": cause}]));
        if retry > 0 {
            details.insert("retryAfterSeconds".to_owned(), retry.into());
        }
        Self::new(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.")
            .with_details(details)
    }

    /// 500 for the eviction of a pod with several budgets. The servers give no reason.
    pub(crate) fn several_budgets() -> Self {
        let why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        Self::new(500, "", why)
    }

    /// Seconds after which the client may repeat the request, for the header `Retry-After`.
    pub(crate) fn retry_after(&self) -> Option<u64> {
        self.details.as_ref()?.get("retryAfterSeconds")?.as_u64()
    }

    /// 409 for an existing name.
    pub(crate) fn already_exists(resource: &str, group: &str, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{} {name:?} already exists", qualified(resource, group)))
            .with_details(details(name, group, resource))
    }

    /// 409 with a reason.
    pub(crate) fn conflict(resource: &str, group: &str, name: &str, why: &str) -> Self {
        let on = qualified(resource, group);
        Self::new(409, "Conflict", format!("Operation cannot be fulfilled on {on} {name:?}: {why}"))
            .with_details(details(name, group, resource))
    }

    /// 409 for an outdated resourceVersion.
    pub(crate) fn stale(resource: &str, group: &str, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, group, name, why)
    }

    /// 409 for a server-side apply that changes fields of other managers.
    pub(crate) fn apply_conflict(message: String) -> Self {
        Self::new(409, "Conflict", message).with_details(Map::new())
    }

    /// 422 for an invalid object, with all violations in the message.
    pub(crate) fn invalid(kind: &str, group: &str, name: &str, errors: &[FieldError]) -> Self {
        let texts: Vec<String> = errors.iter().map(|e| format!("{}: {}", e.field, e.message)).collect();
        let list = match texts.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let mut details = details(name, group, kind);
        details.insert("causes".to_owned(), errors.iter().map(FieldError::cause).collect());
        Self::new(422, "Invalid", format!("{} {name:?} is invalid: {list}", qualified(kind, group)))
            .with_details(details)
    }

    /// 422 for a JSON Patch that does not apply. The message of the servers names no object.
    pub(crate) fn unpatchable() -> Self {
        Self::new(422, "Invalid", "the server rejected our request due to an error in our request")
            .with_details(Map::new())
    }

    /// 400 with a message.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 401.
    pub(crate) fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// 403 for an action on a resource.
    pub(crate) fn forbidden(resource: &str, group: &str, name: &str, why: &str) -> Self {
        let on = qualified(resource, group);
        let message = if name.is_empty() {
            format!("{on} is forbidden: {why}")
        } else {
            format!("{on} {name:?} is forbidden: {why}")
        };
        Self::new(403, "Forbidden", message).with_details(details(name, group, resource))
    }

    /// 403 for a path that is not a resource.
    pub(crate) fn forbidden_path(why: &str) -> Self {
        Self::new(403, "Forbidden", format!("forbidden: {why}")).with_details(Map::new())
    }

    /// 406.
    pub(crate) fn not_acceptable() -> Self {
        Self::new(406, "NotAcceptable", "only the following media types are accepted: application/json")
    }

    /// 413 with the limit in bytes.
    pub(crate) fn too_large(limit: usize) -> Self {
        Self::new(413, "RequestEntityTooLarge", format!("Request entity too large: limit is {limit}"))
    }

    /// 415 with the accepted media types.
    pub(crate) fn unsupported_media_type(accepted: &str) -> Self {
        let text = "the body of the request was in an unknown format - accepted media types include: ";
        Self::new(415, "UnsupportedMediaType", format!("{text}{accepted}"))
    }

    /// 410 with a message.
    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 410 for a continuation of a compacted revision, with a token that continues inconsistently.
    pub(crate) fn expired_continue(token: String) -> Self {
        let mut error = Self::expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list \
             without the continue parameter, or use the continue token in this response to retrieve the remainder of the \
             results. Continuing with the provided token results in an inconsistent list - objects that were created, \
             modified, or deleted between the time the first chunk was returned and now may show up in the list.",
        );
        error.continue_token = Some(token);
        error
    }

    /// 504 for a future resourceVersion.
    pub(crate) fn too_new(wanted: u64, current: u64) -> Self {
        let mut details = Map::new();
        details.insert(
            "causes".to_owned(),
            json!([{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]),
        );
        details.insert("retryAfterSeconds".to_owned(), 1.into());
        Self::new(504, "Timeout", format!("Timeout: Too large resource version: {wanted}, current: {current}"))
            .with_details(details)
    }

    /// 500 with a message.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(500, "InternalError", message)
    }

    /// 503 with a message.
    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(503, "ServiceUnavailable", message)
    }

    /// Returns the `Status` object.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let mut metadata = Map::new();
        if let Some(token) = &self.continue_token {
            metadata.insert("continue".to_owned(), token.as_str().into());
        }
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": metadata,
            "status": "Failure",
            "message": self.message,
        });
        if let Some(map) = status.as_object_mut() {
            if !self.reason.is_empty() {
                map.insert("reason".to_owned(), self.reason.into());
            }
            if let Some(details) = &self.details {
                map.insert("details".to_owned(), (**details).clone());
            }
            map.insert("code".to_owned(), self.code.into());
        }
        status
    }
}

/// Returns a success `Status` for a deleted object.
pub(crate) fn deleted(resource: &str, group: &str, name: &str, uid: &str) -> Value {
    let mut details = details(name, group, resource);
    details.insert("uid".to_owned(), uid.into());
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}

/// Returns the success `Status` of an eviction.
pub(crate) fn evicted() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})
}

/// One violation in one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FieldError {
    field: String,
    reason: &'static str,
    message: String,
}

impl FieldError {
    fn new(field: impl Into<String>, reason: &'static str, message: String) -> Self {
        Self { field: field.into(), reason, message }
    }

    /// Invalid value. `shown` is the value as Go prints it (strings are quoted); an empty `shown` omits the value.
    pub(crate) fn invalid_shown(field: impl Into<String>, shown: &str, why: &str) -> Self {
        let shown = if shown.is_empty() { String::new() } else { format!("{shown}: ") };
        Self::new(field, "FieldValueInvalid", format!("Invalid value: {shown}{why}"))
    }

    /// Invalid string.
    pub(crate) fn invalid(field: impl Into<String>, value: &str, why: &str) -> Self {
        Self::invalid_shown(field, &format!("{value:?}"), why)
    }

    /// Missing value.
    pub(crate) fn required(field: impl Into<String>, why: &str) -> Self {
        let message = if why.is_empty() { "Required value".to_owned() } else { format!("Required value: {why}") };
        Self::new(field, "FieldValueRequired", message)
    }

    /// Value that is forbidden or may not change.
    pub(crate) fn forbidden(field: impl Into<String>, why: &str) -> Self {
        Self::new(field, "FieldValueForbidden", format!("Forbidden: {why}"))
    }

    /// Value outside the supported values.
    pub(crate) fn not_supported(field: impl Into<String>, shown: &str, supported: &[String]) -> Self {
        let message = format!("Unsupported value: {shown}: supported values: {}", supported.join(", "));
        Self::new(field, "FieldValueNotSupported", message)
    }

    /// Value that is too long.
    pub(crate) fn too_long(field: impl Into<String>, why: &str) -> Self {
        Self::new(field, "FieldValueTooLong", format!("Too long: {why}"))
    }

    fn cause(&self) -> Value {
        json!({"reason": self.reason, "message": self.message, "field": self.field})
    }
}
