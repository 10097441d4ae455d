//! `git http-backend` over HTTPS: the server maps each request to CGI (RFC 3875).

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{Response, StatusCode};
use http_body_util::BodyExt as _;
use nodecfg_sandbox::server::serve::{Options, Serving, serve};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::runtime::Runtime;

use super::program::TestEnv;

/// Behavior of a server toward its clients.
#[derive(Debug, Clone, Default)]
pub enum ServerBehavior {
    /// Public read access.
    #[default]
    Public,
    /// Accepts this password with any user name.
    Token(String),
    /// Returns this status to any client with a password.
    Status(u16),
    /// Redirects every request.
    Redirect(String),
    /// Reports this commit as the target of an annotated tag. Optionally refuses to send single commits.
    WrongTag { of: &'static str, to: String, deep: bool },
    /// Accepts requests and never responds.
    Hang,
    /// Lists references and never sends objects.
    HangOnDownload,
}

struct Shared {
    folder: PathBuf,
    behavior: ServerBehavior,
    requests: Mutex<Vec<RecordedRequest>>,
}

/// A recorded request.
#[derive(Debug, Clone)]
pub struct RecordedRequest {
    pub path: String,
    pub authorization: Option<String>,
    pub body: String,
}

/// A running server.
pub struct Server {
    pub url: String,
    pub ca: PathBuf,
    shared: Arc<Shared>,
    runtime: Option<Runtime>,
    _serving: Serving,
}

impl Server {
    pub fn new(env: &TestEnv, behavior: ServerBehavior) -> Self {
        let shared = Arc::new(Shared { folder: env.origin.folder.clone(), behavior, requests: Mutex::default() });
        let runtime = Runtime::new().unwrap();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&shared));
        let serving = runtime.block_on(serve(router, Options::default())).unwrap();
        let ca = env.path(&format!("ca-{}.pem", serving.address().port()));
        std::fs::write(&ca, serving.ca_pem()).unwrap();
        let url = format!("{}/fleet.git", serving.url());
        Self { url, ca, shared, runtime: Some(runtime), _serving: serving }
    }

    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// Number of downloads. A fetch may take several requests; the last one ends with "done".
    pub fn downloads(&self) -> usize {
        self.requests().iter().filter(|request| request.body.contains("0009done")).count()
    }

    /// Reports whether a download has begun.
    pub fn has_download_begun(&self) -> bool {
        self.requests().iter().any(|request| request.path.ends_with("/git-upload-pack"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A hanging request must not block the test.
        self.runtime.take().unwrap().shutdown_background();
    }
}

fn plain(status: u16, header: Option<(&str, &str)>) -> Response<Body> {
    let response = Response::builder().status(StatusCode::from_u16(status).unwrap());
    let response = header.into_iter().fold(response, |response, (name, value)| response.header(name, value));
    response.body(Body::empty()).unwrap()
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let authorization = parts.headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
    let path = parts.uri.path().to_owned();
    shared.requests.lock().unwrap().push(RecordedRequest {
        path: path.clone(),
        authorization: authorization.clone(),
        body: String::from_utf8_lossy(&body).into_owned(),
    });
    let login = plain(401, Some(("www-authenticate", "Basic realm=\"git\"")));
    match (&shared.behavior, &authorization) {
        (ServerBehavior::Public | ServerBehavior::HangOnDownload | ServerBehavior::WrongTag { .. }, _) => {}
        (ServerBehavior::Token(_) | ServerBehavior::Status(_), None) => return login,
        (ServerBehavior::Token(token), Some(given)) => {
            if password(given) != *token {
                return login;
            }
        }
        (ServerBehavior::Status(status), Some(_)) => return plain(*status, None),
        (ServerBehavior::Redirect(to), _) => {
            let to = format!("{to}{}", parts.uri.path_and_query().unwrap());
            return plain(302, Some(("location", &to)));
        }
        (ServerBehavior::Hang, _) => std::future::pending().await,
    }
    if path == "/fleet.git/git-upload-pack" && matches!(shared.behavior, ServerBehavior::HangOnDownload) {
        std::future::pending::<()>().await;
    }
    let Some(place) = path.strip_prefix("/fleet.git") else { return plain(404, None) };
    let (mut response, mut sent) = backend(&shared.folder, place, &parts, &body).await;
    if let (ServerBehavior::WrongTag { of, to, deep }, "/info/refs") = (&shared.behavior, place) {
        overwrite(&mut sent, format!(" {of}\n").as_bytes(), |at| at - to.len(), to);
        while *deep && overwrite(&mut sent, b"shallow", |at| at, "nothing") {}
        response.headers_mut().remove("content-length");
    }
    response.map(|()| Body::from(sent))
}

/// Runs `git http-backend` for a request at this path in the repository.
async fn backend(folder: &Path, place: &str, parts: &Parts, body: &[u8]) -> (Response<()>, Vec<u8>) {
    let header = |name: &str| parts.headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
    let mut command = Command::new("git");
    command.args(["-c", "safe.directory=*", "http-backend"]).env("GIT_PROJECT_ROOT", folder).env("PATH_INFO", place);
    command.env("GIT_HTTP_EXPORT_ALL", "1").env("REMOTE_ADDR", "127.0.0.1").env("SERVER_PROTOCOL", "HTTP/1.1");
    command.env("REQUEST_METHOD", parts.method.as_str()).env("QUERY_STRING", parts.uri.query().unwrap_or_default());
    command.env("CONTENT_TYPE", header("content-type")).env("CONTENT_LENGTH", body.len().to_string());
    command.env("HTTP_CONTENT_ENCODING", header("content-encoding"));
    command.env("GIT_PROTOCOL", header("git-protocol")).env("GIT_CONFIG_GLOBAL", "/dev/null");
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = body.to_vec();
    let feed = tokio::spawn(async move {
        // The backend may respond before it has read the whole request.
        let _ = stdin.write_all(&input).await;
    });
    let output = child.wait_with_output().await.unwrap().stdout;
    feed.await.unwrap();
    let end = output.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    let mut response = Response::builder();
    for line in std::str::from_utf8(&output[..end]).unwrap().lines() {
        let (name, value) = line.split_once(": ").unwrap();
        response = match name {
            "Status" => response.status(value[..3].parse::<u16>().unwrap()),
            _ => response.header(name, value),
        };
    }
    (response.body(()).unwrap(), output[end + 4..].to_vec())
}

/// Overwrites bytes at a mark, and reports whether the mark was found.
fn overwrite(bytes: &mut [u8], mark: &[u8], place: impl FnOnce(usize) -> usize, with: &str) -> bool {
    let at = bytes.windows(mark.len()).position(|window| window == mark);
    if let Some(start) = at.map(place) {
        bytes[start..start + with.len()].copy_from_slice(with.as_bytes());
    }
    at.is_some()
}

fn password(authorization: &str) -> String {
    use base64::Engine as _;
    let encoded = authorization.strip_prefix("Basic ").unwrap();
    let pair = String::from_utf8(base64::engine::general_purpose::STANDARD.decode(encoded).unwrap()).unwrap();
    pair.split_once(':').unwrap().1.to_owned()
}
