//! Responses of injected faults.

use std::time::Duration;

use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{StatusCode, Uri};
use serde_json::{Value, json};

use crate::api::request::Query;
use crate::api::{ApiError, error_response};

/// A refusal with this status. `retry_after` is rounded up to seconds.
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
    let seconds = retry_after.map(|wait| wait.as_secs() + u64::from(wait.subsec_nanos() > 0));
    let details = seconds.map(|seconds| Box::new(json!({ "retryAfterSeconds": seconds })));
    error_response(&ApiError {
        code: code.as_u16(),
        reason,
        message: message.to_owned(),
        details,
        continue_token: None,
    })
}

/// A refusal by an admission policy, with its message.
pub(super) fn denied(message: &str) -> Response {
    let message = message.to_owned();
    error_response(&ApiError { code: 403, reason: "Forbidden", message, details: None, continue_token: None })
}

/// The refusal of a continuation whose revision is compacted.
pub(super) fn continue_expired(uri: &Uri) -> Response {
    let query = Query::of(uri).unwrap_or_default();
    error_response(&ApiError::expired_continue(inconsistent_token(query.text("continue")).unwrap_or_default()))
}

/// The token with which a client continues an expired list inconsistently.
fn inconsistent_token(token: &str) -> Option<String> {
    let bytes = URL_SAFE_NO_PAD.decode(token.trim_end_matches('=')).ok()?;
    let mut position: Value = serde_json::from_slice(&bytes).ok()?;
    *position.get_mut("rv")? = json!(-1);
    Some(URL_SAFE_NO_PAD.encode(position.to_string()))
}

/// Last event of an expired watch.
pub(super) fn watch_expired() -> Value {
    json!({ "type": "ERROR", "object": ApiError::expired("too old resource version: 1 (2)").to_value() })
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
        assert_eq!(response.headers()["retry-after"], "2");
        assert!(status_response(StatusCode::SERVICE_UNAVAILABLE, None).headers().get("retry-after").is_none());
    }
}
