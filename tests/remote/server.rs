//! `git http-backend` over HTTPS: the server turns each request into one of CGI (RFC 3875).

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{Response, StatusCode};
use http_body_util::BodyExt as _;
use nodecfg_sandbox::face::serve::{Options, Serving, serve};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::runtime::Runtime;

use super::program::Site;

/// What a server does with who comes.
#[derive(Debug, Clone, Default)]
pub enum Door {
    /// Anybody may read.
    #[default]
    Open,
    /// This password, by any name.
    Token(String),
    /// Answers this to whoever has a password.
    Status(u16),
    /// Sends everybody elsewhere.
    Redirect(String),
    /// Says of an annotated tag that it is of this commit, and, when told so, that it cannot send a commit alone.
    Lies { of: &'static str, to: String, deep: bool },
    /// Takes the request and never answers.
    Hang,
    /// Answers what there is, and never sends it.
    HangLater,
}

struct Shared {
    folder: PathBuf,
    door: Door,
    requests: Mutex<Vec<Asked>>,
}

/// A request.
#[derive(Debug, Clone)]
pub struct Asked {
    pub path: String,
    pub authorization: Option<String>,
    pub body: String,
}

/// A server at work.
pub struct Server {
    pub url: String,
    pub ca: PathBuf,
    shared: Arc<Shared>,
    runtime: Option<Runtime>,
    _serving: Serving,
}

impl Server {
    pub fn new(site: &Site, door: Door) -> Self {
        let shared = Arc::new(Shared { folder: site.origin.folder.clone(), door, requests: Mutex::default() });
        let runtime = Runtime::new().unwrap();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&shared));
        let serving = runtime.block_on(serve(router, Options::default())).unwrap();
        let ca = site.path(&format!("ca-{}.pem", serving.address().port()));
        std::fs::write(&ca, serving.ca_pem()).unwrap();
        let url = format!("{}/fleet.git", serving.url());
        Self { url, ca, shared, runtime: Some(runtime), _serving: serving }
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// How many times something was downloaded: a fetch may take several requests, and the last one ends with "done".
    pub fn downloads(&self) -> usize {
        self.asked().iter().filter(|asked| asked.body.contains("0009done")).count()
    }

    /// Whether anybody has begun to download.
    pub fn is_asked_for_objects(&self) -> bool {
        self.asked().iter().any(|asked| asked.path.ends_with("/git-upload-pack"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // What hangs must not hold up the test.
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
    shared.requests.lock().unwrap().push(Asked {
        path: path.clone(),
        authorization: authorization.clone(),
        body: String::from_utf8_lossy(&body).into_owned(),
    });
    let login = plain(401, Some(("www-authenticate", "Basic realm=\"git\"")));
    match (&shared.door, &authorization) {
        (Door::Open | Door::HangLater | Door::Lies { .. }, _) => {}
        (Door::Token(_) | Door::Status(_), None) => return login,
        (Door::Token(token), Some(given)) => {
            if password(given) != *token {
                return login;
            }
        }
        (Door::Status(status), Some(_)) => return plain(*status, None),
        (Door::Redirect(to), _) => {
            let to = format!("{to}{}", parts.uri.path_and_query().unwrap());
            return plain(302, Some(("location", &to)));
        }
        (Door::Hang, _) => std::future::pending().await,
    }
    if path == "/fleet.git/git-upload-pack" && matches!(shared.door, Door::HangLater) {
        std::future::pending::<()>().await;
    }
    let Some(place) = path.strip_prefix("/fleet.git") else { return plain(404, None) };
    let (mut response, mut sent) = backend(&shared.folder, place, &parts, &body).await;
    if let (Door::Lies { of, to, deep }, "/info/refs") = (&shared.door, place) {
        overwrite(&mut sent, format!(" {of}\n").as_bytes(), |at| at - to.len(), to);
        while *deep && overwrite(&mut sent, b"shallow", |at| at, "nothing") {}
        response.headers_mut().remove("content-length");
    }
    response.map(|()| Body::from(sent))
}

/// Has `git http-backend` answer a request for this place in the repository.
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
        // It may have an answer before it has read everything.
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

/// Writes over what stands at a mark, and says whether there was one.
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
