//! Simulated GitHub: release downloads, and comments of pull requests.

use std::collections::VecDeque;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

pub const TOKEN: &str = "ghs_a-token-of-the-job";
/// Author of comments with the job's token.
pub const BOT: &str = "github-actions[bot]";

/// Response that replaces the normal one.
#[derive(Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub message: &'static str,
}

impl Answer {
    pub fn of(status: u16, message: &'static str) -> Self {
        Self { status, headers: Vec::new(), message }
    }

    pub fn header(mut self, name: &'static str, value: impl ToString) -> Self {
        self.headers.push((name, value.to_string()));
        self
    }
}

#[derive(Default)]
pub struct GithubState {
    pub comments: Vec<Value>,
    /// API requests, such as `PATCH /repos/…`.
    pub requests: Vec<String>,
    /// Responses for the next API writes; an empty one lets the request through.
    pub instead: VecDeque<Answer>,
    /// Response for all API writes.
    pub always: Option<Answer>,
    /// Content of SHA256SUMS; `None` means the correct one.
    pub sums: Option<String>,
    /// Comments that are hidden from their page, like spam. The page is shorter, and another page follows.
    pub hidden: Vec<u64>,
    /// Newest commit of the pull request's branch according to the API.
    pub head: Option<String>,
    archive: Bytes,
}

impl GithubState {
    /// Adds an existing comment.
    pub fn comment(&mut self, author: &str, body: &str) -> u64 {
        let id = 100 + u64::try_from(self.comments.len()).unwrap();
        let url = format!("https://github.example/acme/fleet/pull/7#issuecomment-{id}");
        self.comments.push(json!({"id": id, "html_url": url, "user": {"login": author}, "body": body}));
        id
    }

    pub fn body(&self, index: usize) -> &str {
        self.comments[index]["body"].as_str().unwrap()
    }
}

/// A GitHub server on loopback, which stops when dropped.
pub struct Github {
    state: Arc<Mutex<GithubState>>,
    url: String,
    // The server stops when this is dropped.
    _runtime: Runtime,
}

/// Name of the release archive for this machine.
pub fn archive_name() -> String {
    let system = if cfg!(target_os = "macos") { "apple-darwin" } else { "unknown-linux-musl" };
    format!("nodecfg-{}-{system}.tar.gz", std::env::consts::ARCH)
}

/// Release archive with the program of this build, wrapped to record the mode of its kubeconfig.
fn archive() -> Bytes {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("nodecfg");
    let script = format!(
        "#!/bin/sh\nfor argument; do case $argument in\n--kubeconfig=*) ls -l \"${{argument#*=}}\" >>\"$RUNNER_TEMP/kubeconfigs\" ;;\n\
         esac; done\nexec '{}' \"$@\"\n",
        env!("CARGO_BIN_EXE_nodecfg")
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let output = Command::new("tar").args(["-cz", "nodecfg"]).current_dir(folder.path()).output().unwrap();
    assert!(output.status.success());
    output.stdout.into()
}

pub fn sha256(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Github {
    pub fn start() -> Self {
        let state = Arc::new(Mutex::new(GithubState { archive: archive(), ..GithubState::default() }));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(answer).with_state(Arc::clone(&state));
        runtime.spawn(async move { axum::serve(listener, router).await });
        Self { state, url, _runtime: runtime }
    }

    pub fn url(&self) -> String {
        self.url.clone()
    }

    pub fn state(&self) -> MutexGuard<'_, GithubState> {
        self.state.lock().unwrap()
    }

    /// Checksum of the archive.
    pub fn sha256(&self) -> String {
        sha256(&self.state().archive)
    }
}

async fn answer(State(state): State<Arc<Mutex<GithubState>>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let mut state = state.lock().unwrap();
    let path = parts.uri.path();
    if let Some(file) = path.strip_prefix("/example/nodecfg/releases/download/v0.1.0/") {
        let name = archive_name();
        return match file {
            "SHA256SUMS" => {
                let right = format!("{}  {name}\n{}  other.tar.gz\n", sha256(&state.archive), "0".repeat(64));
                state.sums.clone().unwrap_or(right).into_response()
            }
            file if file == name => state.archive.clone().into_response(),
            _ => StatusCode::NOT_FOUND.into_response(),
        };
    }
    let Some(path) = path.strip_prefix("/api") else { return StatusCode::NOT_FOUND.into_response() };
    state.requests.push(format!("{} {path}", parts.method));
    if parts.headers.get("authorization").is_none_or(|value| value != format!("Bearer {TOKEN}").as_str()) {
        return refuse(&Answer::of(401, "Bad credentials"));
    }
    let writes = parts.method != "GET";
    if writes && let Some(answer) = state.instead.pop_front() {
        return refuse(&answer);
    }
    if writes && let Some(answer) = &state.always {
        return refuse(answer);
    }
    match (parts.method.as_str(), path) {
        ("GET", "/repos/acme/fleet/issues/7/comments") => {
            let query = parts.uri.query().unwrap_or_default();
            let page: usize = query.rsplit_once("page=").and_then(|(_, page)| page.parse().ok()).unwrap_or(1);
            let all = &state.comments;
            let shown = all.iter().skip((page - 1) * 100).take(100);
            let shown = shown.filter(|comment| !state.hidden.iter().any(|id| comment["id"].as_u64() == Some(*id)));
            let mut answer = axum::Json(shown.cloned().collect::<Vec<_>>()).into_response();
            if all.len() > page * 100 {
                let link = format!("<http://127.0.0.1/api{path}?per_page=100&page={}>; rel=\"next\"", page + 1);
                answer.headers_mut().insert("link", link.parse().unwrap());
            }
            answer
        }
        ("GET", "/repos/acme/fleet/pulls/7") if state.head.is_some() => {
            axum::Json(json!({"number": 7, "head": {"sha": state.head}})).into_response()
        }
        ("POST", "/repos/acme/fleet/issues/7/comments") => stored(&body, |text| {
            state.comment(BOT, text);
            let comment = state.comments.last().cloned();
            (StatusCode::CREATED, axum::Json(comment)).into_response()
        }),
        ("PATCH", path) => stored(&body, |text| {
            let id = path.strip_prefix("/repos/acme/fleet/issues/comments/").and_then(|id| id.parse::<u64>().ok());
            match state.comments.iter_mut().find(|comment| comment["id"].as_u64() == id) {
                Some(comment) => {
                    comment["body"] = json!(text);
                    axum::Json(comment.clone()).into_response()
                }
                None => refuse(&Answer::of(404, "Not Found")),
            }
        }),
        _ => refuse(&Answer::of(404, "Not Found")),
    }
}

/// Stores a comment like GitHub, with a length limit and normalized line ends.
fn stored(body: &[u8], store: impl FnOnce(&str) -> Response) -> Response {
    let body: Value = serde_json::from_slice(body).unwrap();
    let text = body["body"].as_str().unwrap();
    if text.chars().count() > 65_536 {
        return refuse(&Answer::of(422, "Body is too long (maximum is 65536 characters)"));
    }
    store(&text.replace('\n', "\r\n"))
}

fn refuse(answer: &Answer) -> Response {
    let mut headers = HeaderMap::new();
    for (name, value) in &answer.headers {
        headers.insert(*name, value.parse().unwrap());
    }
    let status = StatusCode::from_u16(answer.status).unwrap();
    (status, headers, axum::Json(json!({"message": answer.message}))).into_response()
}
