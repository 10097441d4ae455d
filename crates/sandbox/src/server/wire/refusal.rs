//! Responses of faults: Kubernetes `Status` objects with the reasons and messages of API servers.

use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{StatusCode, Uri};
use serde_json::{Value, json};

use super::request::query_value;

/// Message for an expired continuation (apiserver `storage/etcd3/errors.go`).
const CONTINUE_EXPIRED: &str = "The provided continue parameter is too old to display a consistent list result. You can start \
    a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the \
    results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or \
    deleted between the time the first chunk was returned and now may show up in the list.";

fn status(code: StatusCode, reason: &str, message: &str) -> Value {
    json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code.as_u16(),
    })
}

fn json_response(code: StatusCode, body: &Value) -> Response {
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Response that refuses a request.
pub(super) fn status_response(code: StatusCode, retry_after: Option<Duration>) -> Response {
    let (reason, message) = match code.as_u16() {
        429 => ("TooManyRequests", "Too many requests, please try again later."),
        500 => ("InternalError", "Internal error occurred: a fault was injected"),
        503 => ("ServiceUnavailable", "the server is currently unable to handle the request"),
        504 => ("Timeout", "Timeout: request did not complete within the requested timeout"),
        401 => ("Unauthorized", "Unauthorized"),
        403 => ("Forbidden", "forbidden: a fault was injected"),
        _ => ("", "a fault was injected"),
    };
    let mut body = status(code, reason, message);
    let seconds = retry_after.map(|wait| wait.as_secs() + u64::from(wait.subsec_nanos() > 0));
    if let (Some(seconds), Some(object)) = (seconds, body.as_object_mut()) {
        object.insert("details".to_owned(), json!({ "retryAfterSeconds": seconds }));
    }
    let mut response = json_response(code, &body);
    if let Some(seconds) = seconds {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// Response of an admission policy that denies a request.
pub(super) fn denied(message: &str) -> Response {
    json_response(StatusCode::FORBIDDEN, &status(StatusCode::FORBIDDEN, "Forbidden", message))
}

/// Response that refuses a list's continuation.
pub(super) fn continue_expired(uri: &Uri) -> Response {
    let mut body = status(StatusCode::GONE, "Expired", CONTINUE_EXPIRED);
    let token = query_value(uri.query().unwrap_or_default(), "continue").and_then(inconsistent_token);
    if let (Some(token), Some(object)) = (token, body.as_object_mut()) {
        object.insert("metadata".to_owned(), json!({ "continue": token }));
    }
    json_response(StatusCode::GONE, &body)
}

/// Token for the same continuation at the current revision: revision -1, as the apiserver writes it.
fn inconsistent_token(token: &str) -> Option<String> {
    let bytes = URL_SAFE_NO_PAD.decode(token.trim_end_matches("%3D").trim_end_matches('=')).ok()?;
    let mut position: Value = serde_json::from_slice(&bytes).ok()?;
    *position.get_mut("rv")? = json!(-1);
    Some(URL_SAFE_NO_PAD.encode(position.to_string()))
}

/// Watch event for an expired revision.
pub(super) fn watch_expired() -> Value {
    json!({ "type": "ERROR", "object": status(StatusCode::GONE, "Expired", "too old resource version: 1 (2)") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inconsistent_token_differs_only_in_revision() {
        // Tokens of a real server: the sent one, and the one in its refusal.
        assert_eq!(
            inconsistent_token("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NjQzLCJzdGFydCI6InJuMVx1MDAwMCJ9").as_deref(),
            Some("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0Ijoicm4xXHUwMDAwIn0")
        );
        assert_eq!(inconsistent_token("not a token"), None);
    }

    #[test]
    fn retry_after_is_in_whole_seconds_in_header_and_body() {
        let response = status_response(StatusCode::TOO_MANY_REQUESTS, Some(Duration::from_millis(1_200)));
        assert_eq!(response.headers()[RETRY_AFTER], "2");
        assert!(status_response(StatusCode::SERVICE_UNAVAILABLE, None).headers().get(RETRY_AFTER).is_none());
    }
}
