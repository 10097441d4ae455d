//! A stand-in for GitHub: releases to download, and comments of pull requests.

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
/// Whom comments with the job's token are from.
pub const BOT: &str = "github-actions[bot]";

/// An answer that is given instead of the right one.
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
pub struct World {
    pub comments: Vec<Value>,
    /// Requests to the API, `PATCH /repos/…`.
    pub requests: Vec<String>,
    /// Answers to the next requests to the API that write; an empty one lets it through.
    pub instead: VecDeque<Answer>,
    /// An answer to all of them.
    pub always: Option<Answer>,
    /// Contents of SHA256SUMS, when not the right ones.
    pub sums: Option<String>,
    /// Comments that are left out of their pages, as those of spammers are: a page is shorter, and another one follows.
    pub hidden: Vec<u64>,
    /// The newest commit of the pull request's branch, where the API says.
    pub head: Option<String>,
    archive: Bytes,
}

impl World {
    /// Adds a comment that is there already.
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

/// GitHub, served on loopback as long as this lives.
pub struct Github {
    world: Arc<Mutex<World>>,
    url: String,
    // Serves until it is dropped.
    _runtime: Runtime,
}

/// The release's archive for this machine.
pub fn archive_name() -> String {
    let system = if cfg!(target_os = "macos") { "apple-darwin" } else { "unknown-linux-musl" };
    format!("nodecfg-{}-{system}.tar.gz", std::env::consts::ARCH)
}

/// As a release has it, but for the program, which is the one that was built here. It notes who may read its kubeconfig.
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
        let world = Arc::new(Mutex::new(World { archive: archive(), ..World::default() }));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(answer).with_state(Arc::clone(&world));
        runtime.spawn(async move { axum::serve(listener, router).await });
        Self { world, url, _runtime: runtime }
    }

    pub fn url(&self) -> String {
        self.url.clone()
    }

    pub fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    /// The checksum that the archive has.
    pub fn sha256(&self) -> String {
        sha256(&self.world().archive)
    }
}

async fn answer(State(world): State<Arc<Mutex<World>>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let mut world = world.lock().unwrap();
    let path = parts.uri.path();
    if let Some(file) = path.strip_prefix("/example/nodecfg/releases/download/v0.1.0/") {
        let name = archive_name();
        return match file {
            "SHA256SUMS" => {
                let right = format!("{}  {name}\n{}  other.tar.gz\n", sha256(&world.archive), "0".repeat(64));
                world.sums.clone().unwrap_or(right).into_response()
            }
            file if file == name => world.archive.clone().into_response(),
            _ => StatusCode::NOT_FOUND.into_response(),
        };
    }
    let Some(path) = path.strip_prefix("/api") else { return StatusCode::NOT_FOUND.into_response() };
    world.requests.push(format!("{} {path}", parts.method));
    if parts.headers.get("authorization").is_none_or(|value| value != format!("Bearer {TOKEN}").as_str()) {
        return refuse(&Answer::of(401, "Bad credentials"));
    }
    let writes = parts.method != "GET";
    if writes && let Some(answer) = world.instead.pop_front() {
        return refuse(&answer);
    }
    if writes && let Some(answer) = &world.always {
        return refuse(answer);
    }
    match (parts.method.as_str(), path) {
        ("GET", "/repos/acme/fleet/issues/7/comments") => {
            let query = parts.uri.query().unwrap_or_default();
            let page: usize = query.rsplit_once("page=").and_then(|(_, page)| page.parse().ok()).unwrap_or(1);
            let all = &world.comments;
            let shown = all.iter().skip((page - 1) * 100).take(100);
            let shown = shown.filter(|comment| !world.hidden.iter().any(|id| comment["id"].as_u64() == Some(*id)));
            let mut answer = axum::Json(shown.cloned().collect::<Vec<_>>()).into_response();
            if all.len() > page * 100 {
                let link = format!("<http://127.0.0.1/api{path}?per_page=100&page={}>; rel=\"next\"", page + 1);
                answer.headers_mut().insert("link", link.parse().unwrap());
            }
            answer
        }
        ("GET", "/repos/acme/fleet/pulls/7") if world.head.is_some() => {
            axum::Json(json!({"number": 7, "head": {"sha": world.head}})).into_response()
        }
        ("POST", "/repos/acme/fleet/issues/7/comments") => stored(&body, |text| {
            world.comment(BOT, text);
            let comment = world.comments.last().cloned();
            (StatusCode::CREATED, axum::Json(comment)).into_response()
        }),
        ("PATCH", path) => stored(&body, |text| {
            let id = path.strip_prefix("/repos/acme/fleet/issues/comments/").and_then(|id| id.parse::<u64>().ok());
            match world.comments.iter_mut().find(|comment| comment["id"].as_u64() == id) {
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

/// What GitHub does with a comment's text: it has a limit, and other line ends afterwards.
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
