//! Fake API server for tests of wire behavior: lost connections, malformed and endless responses. Returns given
//! replies in order and records requests. Other behavior is tested against the sandbox.

#![expect(missing_docs, reason = "the names describe the items")]
#![expect(clippy::expect_used, reason = "a failing test must name the line")]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::StreamExt;
use http::{Request, Response};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::retry::RetryPolicy;
use crate::reading::reader::{ClusterReader, ReaderOptions};

/// Reply to a request.
pub enum Reply {
    /// A status and a body.
    Json(u16, Value),
    /// A body of this text.
    Text(String),
    /// A status, a header and a body.
    Header(u16, (&'static str, &'static str), Value),
    /// Pieces of a body, after which the connection stays open (`true`) or breaks (`false`).
    Pieces(Vec<String>, bool),
    /// Lines and an orderly end.
    Lines(Vec<Value>),
    /// A connection that breaks before any response.
    Reset,
    /// No response.
    Silence,
}

/// Recorded request.
#[derive(Debug, Clone)]
pub struct RecordedRequest {
    pub method: String,
    pub uri: String,
    pub headers: http::HeaderMap,
    pub body: Value,
}

/// Requests recorded so far.
#[derive(Debug, Clone, Default)]
pub struct Log(Arc<Mutex<Vec<RecordedRequest>>>);

impl Log {
    pub fn all(&self) -> Vec<RecordedRequest> {
        self.0.lock().expect("not poisoned").clone()
    }

    /// Requests as `METHOD /path?query`.
    pub fn lines(&self) -> Vec<String> {
        self.all().iter().map(|request| format!("{} {}", request.method, request.uri)).collect()
    }
}

/// Fake server that answers each request by a function.
pub fn serving(answer: impl FnMut(&RecordedRequest) -> Reply + Send + 'static) -> (kube::Client, Log) {
    let log = Log::default();
    let answer = Arc::new(Mutex::new(answer));
    let kept = log.clone();
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let (answer, log) = (Arc::clone(&answer), kept.clone());
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.expect("a body").to_bytes();
            let recorded = RecordedRequest {
                method: head.method.to_string(),
                uri: head.uri.to_string(),
                headers: head.headers,
                body: serde_json::from_slice(&body).unwrap_or_default(),
            };
            let reply = (answer.lock().expect("not poisoned"))(&recorded);
            log.0.lock().expect("not poisoned").push(recorded);
            respond(reply).await
        }
    });
    (kube::Client::new(service, "default"), log)
}

async fn respond(reply: Reply) -> Result<Response<Body>, std::io::Error> {
    let broken = || std::io::Error::from(std::io::ErrorKind::ConnectionReset);
    let response = |status: u16, body| Response::builder().status(status).body(body).expect("a response");
    Ok(match reply {
        Reply::Json(status, value) => response(status, Body::from(value.to_string())),
        Reply::Text(text) => response(200, Body::from(text)),
        Reply::Header(status, (name, text), value) => {
            let mut response = response(status, Body::from(value.to_string()));
            response.headers_mut().insert(name, http::HeaderValue::from_static(text));
            response
        }
        Reply::Pieces(pieces, open) => {
            let pieces = futures::stream::iter(pieces).map(|piece| Ok(Bytes::from(piece)));
            let end = async move {
                if open {
                    std::future::pending::<()>().await;
                }
                Err(broken())
            };
            response(200, Body::from_stream(pieces.chain(futures::stream::once(end))))
        }
        Reply::Lines(lines) => {
            response(200, Body::from(lines.iter().map(|line| format!("{line}\n")).collect::<String>()))
        }
        Reply::Reset => return Err(broken()),
        Reply::Silence => std::future::pending().await,
    })
}

/// Fake server that returns these replies in order, then resets.
pub fn replying(replies: Vec<Reply>) -> (kube::Client, Log) {
    let mut replies = VecDeque::from(replies);
    serving(move |_| replies.pop_front().unwrap_or(Reply::Reset))
}

/// Time limits and waits short enough for tests.
pub fn options() -> ReaderOptions {
    ReaderOptions {
        request_timeout: Duration::from_millis(200),
        patience: Duration::from_secs(2),
        retry: RetryPolicy { first_delay: Duration::from_millis(2), longest_delay: Duration::from_millis(20) },
        seed: 1,
        ..ReaderOptions::default()
    }
}

/// Reader of a fake server that returns these replies in order.
pub fn reader(replies: Vec<Reply>) -> (ClusterReader, Log) {
    let (client, log) = replying(replies);
    (ClusterReader::new(client, "https://fake", options()), log)
}

/// meta/v1 Status of a failure.
pub fn status(code: u16, reason: &str, message: &str, details: Value) -> Reply {
    let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code,
        "reason": reason, "message": message, "details": details});
    Reply::Json(code, body)
}

/// A Node of this name and version.
pub fn node(name: &str, version: u32) -> Value {
    json!({"metadata": {"name": name, "uid": format!("uid-{name}"), "resourceVersion": version.to_string()}})
}

/// A list of Nodes.
pub fn nodes(names: &[&str], version: u32, next: &str) -> Value {
    let items: Vec<Value> = names.iter().map(|name| node(name, 1)).collect();
    json!({"kind": "NodeList", "apiVersion": "v1", "items": items,
        "metadata": {"resourceVersion": version.to_string(), "continue": next}})
}
