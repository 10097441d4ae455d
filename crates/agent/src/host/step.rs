//! The privileged half of an agent that runs as a pod. `nodecfg-agent host-step` listens on a unix socket and does three
//! things, with commands that its own flags name: restart the kubelet, stop it for the removal of its state files, tell its
//! version. So the container with credentials for the API server has no privileges on the host, and the one with
//! privileges has no credentials. Nothing that comes over the socket becomes part of a command or of a path.
//!
//! One request a connection, as a line of JSON, and one line in answer.

use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};

use super::RestartError;
use super::system::Actions;
use kubelet_config::risk::StateFile;
use nodecfg_contract::observed::KubeletVersion;

/// A request or an answer is no longer than this, in bytes.
const LINE: u64 = 16 * 1024;
/// How long a client may take to say what it wants, and to take the answer.
const CLIENT_LIMIT: Duration = Duration::from_secs(5);
/// How long the agent waits for a restart. The limit that counts is the other side's; this one is for a process that hangs.
const RESTART_LIMIT: Duration = Duration::from_secs(15 * 60);
/// For how long the agent tries to connect before a restart is given up: the other container may be starting.
const CONNECT_PATIENCE: Duration = Duration::from_secs(30);
/// How long to wait between two attempts to connect.
const CONNECT_PAUSE: Duration = Duration::from_millis(500);
/// How long the agent waits for a version.
const VERSION_LIMIT: Duration = Duration::from_secs(20);
/// Who may connect: the owner and the group of the socket, which the two containers of a pod share (`fsGroup`).
const MODE: u32 = 0o660;

/// What the agent asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
enum Request {
    /// Restart the kubelet, with these state files removed while it does not run.
    Restart { remove: Vec<StateFile> },
    /// Tell the kubelet's version.
    Version {},
}

/// What it is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Answer {
    /// The kubelet was restarted.
    Restarted {},
    /// The kubelet's version, if it is known.
    Version { version: Option<String> },
    /// It was not even tried: the command could not be started.
    NotAsked { reason: String },
    /// It was not done.
    Failed { reason: String },
}

/// Has the kubelet restarted by the process behind the socket. One that cannot be reached is tried again for half a minute.
///
/// # Errors
/// Its reason in full, or why it cannot be asked.
pub async fn restart(socket: &Path, remove: &[StateFile]) -> Result<(), RestartError> {
    restart_within(socket, remove, CONNECT_PATIENCE).await
}

async fn restart_within(socket: &Path, remove: &[StateFile], patience: Duration) -> Result<(), RestartError> {
    let request = Request::Restart { remove: remove.to_vec() };
    let stream = reach(socket, patience).await?;
    match ask(stream, socket, &request, RESTART_LIMIT).await? {
        Answer::Restarted {} => Ok(()),
        Answer::NotAsked { reason } => Err(RestartError::NotAsked(reason)),
        Answer::Failed { reason } => Err(RestartError::Failed(reason)),
        Answer::Version { .. } => Err(RestartError::Failed(unexpected(socket))),
    }
}

/// Asks the process behind the socket for the kubelet's version; `None` when it is not known, or nobody answers.
pub async fn version(socket: &Path) -> Option<KubeletVersion> {
    let asking = async { ask(reach(socket, Duration::ZERO).await?, socket, &Request::Version {}, VERSION_LIMIT).await };
    match asking.await {
        Ok(Answer::Version { version }) => KubeletVersion::parse(&version?),
        Ok(_) => None,
        Err(error) => {
            tracing::warn!("the kubelet's version is not known: {error}");
            None
        }
    }
}

fn unexpected(socket: &Path) -> String {
    format!("the host step behind {} gave an answer that makes no sense; does it have this version?", socket.display())
}

/// Connects, within this time.
async fn reach(socket: &Path, patience: Duration) -> Result<UnixStream, RestartError> {
    let begun = nodecfg_clock::instant();
    loop {
        match UnixStream::connect(socket).await {
            Ok(stream) => return Ok(stream),
            Err(error) if begun.elapsed() >= patience => return Err(RestartError::NotAsked(silent(socket, &error))),
            Err(_) => tokio::time::sleep(CONNECT_PAUSE.min(patience)).await,
        }
    }
}

fn silent(socket: &Path, error: &io::Error) -> String {
    format!("the host step behind {} cannot be asked: {error}", socket.display())
}

async fn ask(
    mut stream: UnixStream,
    socket: &Path,
    request: &Request,
    limit: Duration,
) -> Result<Answer, RestartError> {
    let asking = async {
        let not_asked = |error: io::Error| RestartError::NotAsked(silent(socket, &error));
        let mut line = serde_json::to_vec(request).map_err(|error| not_asked(error.into()))?;
        line.push(b'\n');
        stream.write_all(&line).await.map_err(not_asked)?;
        let mut answer = String::new();
        match BufReader::new(stream).take(LINE).read_line(&mut answer).await {
            Ok(_) => Ok(answer),
            // Linux says so when the other side closed without having read what it was sent.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Err(not_asked(error)),
            Err(error) => Err(RestartError::Failed(silent(socket, &error))),
        }
    };
    match tokio::time::timeout(limit, asking).await {
        Ok(answer) => serde_json::from_str(&answer?).map_err(|_| RestartError::Failed(unexpected(socket))),
        Err(_) => {
            let seconds = limit.as_secs();
            let reason = format!("the host step behind {} had not answered after {seconds} s", socket.display());
            Err(RestartError::Failed(reason))
        }
    }
}

/// A socket that is being listened on. Removed when it is dropped.
#[derive(Debug)]
pub struct Listening {
    listener: UnixListener,
    path: PathBuf,
}

impl Listening {
    /// Listens on this path. A socket that an earlier process left there is replaced; anything else is not.
    ///
    /// # Errors
    /// The system's, or that the path is taken.
    pub fn on(path: &Path) -> io::Result<Self> {
        match std::fs::symlink_metadata(path) {
            Ok(found) if found.file_type().is_socket() => std::fs::remove_file(path)?,
            Ok(_) => return Err(io::Error::new(io::ErrorKind::AlreadyExists, "it exists, and is no socket")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(MODE))?;
        Ok(Self { listener, path: path.to_path_buf() })
    }

    /// Serves one request after the other, until `stop` completes. A restart that is under way is finished first.
    pub async fn serve(&self, actions: &Actions, stop: impl Future<Output = ()>) {
        let mut stop = std::pin::pin!(stop);
        loop {
            let stream = tokio::select! {
                () = &mut stop => return,
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    // Out of file descriptors, mostly; to spin would not help.
                    Err(error) => {
                        tracing::warn!("cannot take a connection: {error}");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        continue;
                    }
                },
            };
            if let Err(error) = answer(stream, actions).await {
                tracing::warn!("a request was not answered: {error}");
            }
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // What cannot be removed is replaced by the next process.
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn answer(mut stream: UnixStream, actions: &Actions) -> io::Result<()> {
    let mut line = String::new();
    let mut source = BufReader::new(&mut stream).take(LINE);
    tokio::time::timeout(CLIENT_LIMIT, source.read_line(&mut line)).await??;
    let answer = match serde_json::from_str(&line) {
        Ok(Request::Restart { remove }) => {
            let files: Vec<&str> = remove.iter().map(|file| file.as_str()).collect();
            tracing::info!(remove = files.join(","), "restarting the kubelet");
            match actions.restart(&remove).await {
                Ok(()) => Answer::Restarted {},
                Err(error) => {
                    tracing::error!("{error}");
                    match error {
                        RestartError::NotAsked(reason) => Answer::NotAsked { reason },
                        RestartError::Failed(reason) => Answer::Failed { reason },
                    }
                }
            }
        }
        Ok(Request::Version {}) => Answer::Version { version: actions.version().await.map(|found| found.to_string()) },
        Err(_) => Answer::Failed {
            reason: "the host step does not know this request; does it have the agent's version?".to_owned(),
        },
    };
    let mut line = serde_json::to_vec(&answer)?;
    line.push(b'\n');
    tokio::time::timeout(CLIENT_LIMIT, stream.write_all(&line)).await?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn actions(folder: &Path, restart: &str) -> Actions {
        Actions {
            restart: restart.parse().expect("words"),
            stop: "true".parse().expect("words"),
            limit: Duration::from_secs(60),
            root: folder.to_path_buf(),
            kubelet: "echo Kubernetes v1.36.2".parse().expect("words"),
        }
    }

    async fn raw(socket: &Path, line: &[u8]) -> String {
        let mut stream = UnixStream::connect(socket).await.expect("connects");
        stream.write_all(line).await.expect("writes");
        stream.shutdown().await.expect("says no more");
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text).await;
        text
    }

    #[tokio::test]
    async fn it_restarts_tells_the_version_and_does_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("step.sock");
        std::fs::write(folder.path().join("cpu_manager_state"), "{}").expect("written");
        let listening = Listening::on(&socket).expect("listens");
        assert_eq!(std::fs::metadata(&socket).expect("is there").permissions().mode() & 0o777, MODE);
        let actions = actions(folder.path(), "true");
        let served = listening.serve(&actions, std::future::pending());
        let asked = async {
            assert_eq!(version(&socket).await, KubeletVersion::parse("v1.36.2"));
            assert_eq!(restart(&socket, &[StateFile::CpuManagerState]).await, Ok(()));
            assert!(!folder.path().join("cpu_manager_state").exists());
            for line in [
                &b"{\"restart\":{\"remove\":[\"../../etc/passwd\"]}}\n"[..],
                b"{\"restart\":{\"remove\":[],\"command\":\"reboot\"}}\n",
                b"{\"run\":\"reboot\"}\n",
                b"\n",
                b"",
            ] {
                assert!(raw(&socket, line).await.starts_with("{\"failed\":{\"reason\":\"the host step does not know"));
            }
            // Not even a line that never ends holds it up.
            raw(&socket, &vec![b'x'; 64 * 1024]).await;
            assert!(version(&socket).await.is_some());
        };
        tokio::select! {
            () = served => panic!("ended"),
            () = asked => {}
        }
    }

    #[tokio::test]
    async fn reasons_come_through() {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("step.sock");
        let error = restart_within(&socket, &[], Duration::ZERO).await;
        let Err(RestartError::NotAsked(reason)) = error else { panic!("{error:?}") };
        assert!(reason.contains("cannot be asked: No such file"), "{reason}");
        let listening = Listening::on(&socket).expect("listens");
        for (command, tried, end) in [
            ("sh -c 'echo no unit >&2; exit 5'", true, "failed (exit status: 5): no unit"),
            ("/no/such/program", false, "cannot be started: No such file or directory (os error 2)"),
        ] {
            let actions = actions(folder.path(), command);
            tokio::select! {
                () = listening.serve(&actions, std::future::pending()) => panic!("ended"),
                answer = restart(&socket, &[]) => {
                    let error = answer.expect_err("fails");
                    assert!(error.to_string().ends_with(end), "{error}");
                    assert_eq!(matches!(error, RestartError::Failed(_)), tried, "{error:?}");
                }
            }
        }
    }

    #[tokio::test]
    async fn one_that_starts_late_is_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("step.sock");
        let actions = actions(folder.path(), "true");
        let mut asked = std::pin::pin!(restart(&socket, &[]));
        assert!(tokio::time::timeout(Duration::from_millis(50), &mut asked).await.is_err(), "it has to be waited for");
        let listening = Listening::on(&socket).expect("listens");
        tokio::select! {
            () = listening.serve(&actions, std::future::pending()) => panic!("ended"),
            answer = asked => assert_eq!(answer, Ok(())),
        }
    }

    /// One that ends before it has read the request has done nothing; one that ends afterwards may have.
    #[tokio::test]
    async fn one_that_goes_away() {
        for read in [false, true] {
            let folder = tempfile::tempdir().expect("a folder");
            let socket = folder.path().join("step.sock");
            let listener = UnixListener::bind(&socket).expect("binds");
            let server = async {
                let (mut stream, _) = listener.accept().await.expect("a client");
                stream.readable().await.expect("a request");
                if read {
                    let _ = stream.read(&mut [0; 1024]).await.expect("reads");
                }
            };
            let ((), answer) = tokio::join!(server, restart(&socket, &[]));
            let error = answer.expect_err("no answer");
            assert_eq!(matches!(error, RestartError::NotAsked(_)), !read, "{error:?}");
        }
    }

    #[tokio::test]
    async fn a_socket_left_behind_is_replaced_and_a_file_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("step.sock");
        drop(std::os::unix::net::UnixListener::bind(&socket).expect("binds"));
        assert!(socket.exists());
        drop(Listening::on(&socket).expect("replaces it"));
        assert!(!socket.exists());
        std::fs::write(&socket, "precious").expect("written");
        Listening::on(&socket).expect_err("is no socket");
        assert_eq!(std::fs::read_to_string(&socket).expect("still there"), "precious");
    }
}
