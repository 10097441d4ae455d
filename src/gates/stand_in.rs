//! Stand-in for Prometheus in tests: `POST /api/v1/query` as its documentation describes it
//! (https://prometheus.io/docs/prometheus/latest/querying/api/), with answers by a function.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Response, Uri};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Status, headers and body of an answer.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
}

impl Reply {
    pub fn body(status: u16, body: impl Into<String>) -> Self {
        Self { status, headers: Vec::new(), body: body.into() }
    }

    /// An instant vector of series with these labels, as JSON objects.
    pub fn vector(labels: &[&str]) -> Self {
        let series: Vec<String> =
            labels.iter().map(|labels| format!("{{\"metric\":{labels},\"value\":[1795454048.783,\"1\"]}}")).collect();
        let result = series.join(",");
        Self::body(
            200,
            format!("{{\"status\":\"success\",\"data\":{{\"resultType\":\"vector\",\"result\":[{result}]}}}}"),
        )
    }
}

/// A request that was received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub path: String,
    pub query: String,
    pub authorization: Option<String>,
}

type Answer = dyn Fn(&str) -> Option<Reply> + Send + Sync;

#[derive(Clone)]
struct Shared {
    answer: Arc<Answer>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

/// A server on this machine, which stops when dropped.
pub struct StandIn {
    pub url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    task: JoinHandle<()>,
}

impl StandIn {
    /// Starts a server that answers each expression by `answer`; `None` is no answer at all.
    pub async fn start(answer: impl Fn(&str) -> Option<Reply> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let (router, seen) = router(answer);
        let task = tokio::spawn(async move { axum::serve(listener, router).await.expect("a server") });
        Self { url, seen, task }
    }

    /// Requests so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("not poisoned").clone()
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The same without a listener, and the requests that it records.
pub fn router(answer: impl Fn(&str) -> Option<Reply> + Send + Sync + 'static) -> (Router, Arc<Mutex<Vec<Seen>>>) {
    let shared = Shared { answer: Arc::new(answer), seen: Arc::default() };
    let seen = Arc::clone(&shared.seen);
    (Router::new().fallback(respond).with_state(shared), seen)
}

async fn respond(State(shared): State<Shared>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response<String> {
    let form = String::from_utf8(body.to_vec()).expect("text");
    let query = form.split('&').find_map(|pair| pair.strip_prefix("query=")).map(decoded).unwrap_or_default();
    let authorization = headers.get("authorization").map(|value| value.to_str().expect("text").to_owned());
    let seen = Seen { path: uri.path().to_owned(), query: query.clone(), authorization };
    shared.seen.lock().expect("not poisoned").push(seen);
    let Some(reply) = (shared.answer)(&query) else { return std::future::pending().await };
    let mut response = Response::builder().status(reply.status).header("content-type", "application/json");
    for (name, value) in reply.headers {
        response = response.header(name, value);
    }
    response.body(reply.body).expect("a response")
}

/// A value of a form, decoded.
fn decoded(value: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [rest.next().expect("a digit"), rest.next().expect("a digit")];
                u8::from_str_radix(std::str::from_utf8(&digits).expect("text"), 16).expect("hexadecimal")
            }
            other => other,
        });
    }
    String::from_utf8(bytes).expect("UTF-8")
}
