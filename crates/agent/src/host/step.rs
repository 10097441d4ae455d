//! Privileged part of an agent that runs as a pod. `nodecfg-agent host-step` listens on a Unix socket and accepts six
//! requests: restart the kubelet, delete the state files that were set aside, report the kubelet's version, its exits and
//! last error, its command line, and what the host lacks. The commands come from its own flags.
//!
//! Thus the container with credentials for the API server needs no privileges on the host, and the privileged
//! container needs no credentials. Of the input from the socket, only a time becomes part of a command, as a number. The
//! paths in it are only looked at: the answers say what kind of thing is there, and never what it contains.
//!
//! Protocol: one request per connection, as a line of JSON, and one line in reply.

use std::fs::{File, Permissions};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixSocket, UnixStream};

use super::actions::Actions;
use super::preflight::Unmet;
use super::problem::{OsError, RestartProblem, RestartProblems};
use super::process::{KubeletProcess, ProcessProblem};
use super::{RestartError, ServiceReport, StateFiles, process};
use jiff::Timestamp;
use kubelet_config::startup_error::LastError;
use kubelet_config::verdict::HostNeed;
use nodecfg_contract::KubeletVersion;

/// Maximum size of a request or reply, in bytes.
const MAX_LINE: u64 = 16 * 1024;
/// Time limit for receiving a request, and the same for sending the reply.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit of the agent for a restart. The host step has its own limit, by default shorter; this one covers a host
/// step that hangs.
const RESTART_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// Time limit for connecting before a restart. Short, because the configuration is in place meanwhile, and the agent tries
/// again.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause between two attempts to connect.
const CONNECT_PAUSE: Duration = Duration::from_millis(500);
/// Time limit for a request that only reads.
const VERSION_TIMEOUT: Duration = Duration::from_secs(20);
/// Socket permissions. Both programs run as the same user.
const SOCKET_MODE: u32 = 0o600;
/// Maximum number of clients that wait for the one before them.
const BACKLOG: u32 = 16;

/// Request of the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
enum Request {
    /// Restart the kubelet, and handle these state files while it is stopped.
    Restart { state: StateFiles },
    /// Delete the state files that were set aside.
    Discard {},
    /// Report the kubelet's version.
    Version {},
    /// Report how often the kubelet was started again, and its last error since this time, in Unix seconds.
    Service { since: i64 },
    /// Report the command line of the running kubelet.
    Process {},
    /// Report what the host lacks.
    Preflight { needs: Vec<HostNeed> },
}

/// Reply of the host step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Reply {
    /// The kubelet was restarted.
    Restarted {},
    /// No state file is set aside.
    Discarded {},
    /// Exits and last error of the kubelet.
    Service(ServiceReport<LastError>),
    /// The running kubelet.
    Process(KubeletProcess),
    /// The running kubelet is unknown.
    NoProcess(ProcessProblem),
    /// What the host lacks, for each need.
    Preflight { unmet: Vec<Option<Unmet>> },
    /// Version of the kubelet, if known.
    Version { version: Option<String> },
    /// The command could not be started.
    #[serde(rename = "notAsked")]
    NotRequested { problems: RestartProblems },
    /// The request failed, or this host step does not support it.
    Failed { problems: RestartProblems },
}

/// Restarts the kubelet through the host step behind the socket. Retries an unreachable socket for a moment.
///
/// # Errors
/// `NotRequested` or `Failed`.
pub async fn restart(socket: &Path, state: &StateFiles) -> Result<(), RestartError> {
    let request = Request::Restart { state: state.clone() };
    act(socket, &request, Reply::Restarted {}, CONNECT_TIMEOUT).await
}

/// Deletes the state files that were set aside, through the host step behind the socket.
///
/// # Errors
/// As for [`restart`].
pub async fn discard(socket: &Path) -> Result<(), RestartError> {
    // Without retries: a late discard could delete the files of a later change.
    act(socket, &Request::Discard {}, Reply::Discarded {}, Duration::ZERO).await
}

async fn act(socket: &Path, request: &Request, done: Reply, timeout: Duration) -> Result<(), RestartError> {
    let stream = connect(socket, timeout).await?;
    match send_request(stream, request, RESTART_TIMEOUT).await? {
        reply if reply == done => Ok(()),
        Reply::NotRequested { problems } => Err(RestartError::NotRequested(problems)),
        Reply::Failed { problems } => Err(RestartError::Failed(problems)),
        _ => Err(RestartError::Failed(RestartProblem::InvalidReply.into())),
    }
}

/// Reads the kubelet's version through the host step. `None` if unknown or if the host step does not answer.
pub async fn version(socket: &Path) -> Option<KubeletVersion> {
    let exchange = async {
        let stream = connect(socket, Duration::ZERO).await?;
        send_request(stream, &Request::Version {}, VERSION_TIMEOUT).await
    };
    match exchange.await {
        Ok(Reply::Version { version }) => KubeletVersion::parse(&version?),
        Ok(_) => None,
        Err(error) => {
            tracing::warn!("the kubelet's version is unknown: {error}");
            None
        }
    }
}

/// Reads the exits and the last error of the kubelet through the host step. Unknown if the host step does not answer, or
/// is older than the agent.
pub async fn service_report(socket: &Path, since: Timestamp) -> ServiceReport<LastError> {
    let exchange = async {
        let stream = connect(socket, Duration::ZERO).await?;
        send_request(stream, &Request::Service { since: since.as_second() }, VERSION_TIMEOUT).await
    };
    match exchange.await {
        Ok(Reply::Service(report)) => report,
        Ok(_) => ServiceReport::default(),
        Err(error) => {
            tracing::debug!("the kubelet's last error is unknown: {error}");
            ServiceReport::default()
        }
    }
}

/// Reads the command line of the running kubelet through the host step.
///
/// # Errors
/// It is unknown, the host step does not answer, or it is older than the agent.
pub async fn process(socket: &Path) -> Result<KubeletProcess, ProcessProblem> {
    let exchange = async {
        let stream = connect(socket, Duration::ZERO).await?;
        send_request(stream, &Request::Process {}, VERSION_TIMEOUT).await
    };
    match exchange.await {
        Ok(Reply::Process(process)) => Ok(process),
        Ok(Reply::NoProcess(problem)) => Err(problem),
        Ok(_) | Err(_) => Err(ProcessProblem::NoAnswer),
    }
}

/// Checks what the host lacks through the host step. Empty if the host step does not answer, or is older than the agent.
pub(crate) async fn unmet(socket: &Path, needs: &[HostNeed]) -> Vec<Option<Unmet>> {
    let exchange = async {
        let stream = connect(socket, Duration::ZERO).await?;
        send_request(stream, &Request::Preflight { needs: needs.to_vec() }, VERSION_TIMEOUT).await
    };
    match exchange.await {
        Ok(Reply::Preflight { unmet }) => unmet,
        Ok(_) => Vec::new(),
        Err(error) => {
            tracing::warn!("it is unknown what this host lacks: {error}");
            Vec::new()
        }
    }
}

/// Connects to the socket, and retries until a time limit.
async fn connect(socket: &Path, timeout: Duration) -> Result<UnixStream, RestartError> {
    let begun = nodecfg_clock::instant();
    loop {
        match UnixStream::connect(socket).await {
            Ok(stream) => return Ok(stream),
            Err(error) if begun.elapsed() >= timeout => {
                return Err(not_requested(&error));
            }
            Err(_) => tokio::time::sleep(CONNECT_PAUSE.min(timeout)).await,
        }
    }
}

fn not_requested(error: &io::Error) -> RestartError {
    RestartError::NotRequested(unreachable(error))
}

fn unreachable(error: &io::Error) -> RestartProblems {
    RestartProblem::Unreachable(OsError::from(error)).into()
}

async fn send_request(mut stream: UnixStream, request: &Request, limit: Duration) -> Result<Reply, RestartError> {
    let exchange = async {
        let mut line = serde_json::to_vec(request).map_err(|error| not_requested(&error.into()))?;
        line.push(b'\n');
        stream.write_all(&line).await.map_err(|error| not_requested(&error))?;
        let mut answer = String::new();
        match BufReader::new(stream).take(MAX_LINE).read_line(&mut answer).await {
            Ok(_) => Ok(answer),
            // Linux reports this if the peer closed the socket before reading the request.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Err(not_requested(&error)),
            Err(error) => Err(RestartError::Failed(unreachable(&error))),
        }
    };
    match tokio::time::timeout(limit, exchange).await {
        Ok(answer) => {
            serde_json::from_str(&answer?).map_err(|_| RestartError::Failed(RestartProblem::InvalidReply.into()))
        }
        Err(_) => Err(RestartError::Failed(RestartProblem::NoAnswer { limit }.into())),
    }
}

/// Listening socket of the host step. Removed on drop.
#[derive(Debug)]
pub struct StepListener {
    listener: UnixListener,
    path: PathBuf,
}

impl StepListener {
    /// Listens on this path and replaces a stale socket.
    ///
    /// # Errors
    /// An I/O error, or the path exists and is not a socket.
    pub fn bind(path: &Path) -> io::Result<Self> {
        match std::fs::symlink_metadata(path) {
            Ok(found) if found.file_type().is_socket() => std::fs::remove_file(path)?,
            Ok(_) => return Err(io::Error::new(io::ErrorKind::AlreadyExists, "it exists and is not a socket")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        // The other container may replace the path by a link at any moment, so no permission is set by path. Linux
        // creates the file with the permissions of the socket itself, and does not follow a link there.
        let socket = UnixSocket::new_stream()?;
        File::from(socket.as_fd().try_clone_to_owned()?).set_permissions(Permissions::from_mode(SOCKET_MODE))?;
        socket.bind(path)?;
        Ok(Self { listener: socket.listen(BACKLOG)?, path: path.to_path_buf() })
    }

    /// Serves one request at a time until `stop` completes. Finishes a restart in progress first.
    pub async fn serve(&self, actions: &Actions, stop: impl Future<Output = ()>) {
        let mut stop = std::pin::pin!(stop);
        loop {
            let stream = tokio::select! {
                () = &mut stop => return,
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    // Usually out of file descriptors; retrying at once would not help.
                    Err(error) => {
                        tracing::warn!("cannot accept a connection: {error}");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        continue;
                    }
                },
            };
            if let Err(error) = handle_request(stream, actions).await {
                tracing::warn!("cannot answer a request: {error}");
            }
        }
    }
}

impl Drop for StepListener {
    fn drop(&mut self) {
        // If removal fails, the next process replaces the socket.
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn handle_request(mut stream: UnixStream, actions: &Actions) -> io::Result<()> {
    let mut line = String::new();
    let mut source = BufReader::new(&mut stream).take(MAX_LINE);
    tokio::time::timeout(CLIENT_TIMEOUT, source.read_line(&mut line)).await??;
    let reply = |result: Result<(), RestartError>, done: Reply| match result {
        Ok(()) => done,
        Err(error) => {
            tracing::error!("{error}");
            match error {
                RestartError::NotRequested(problems) => Reply::NotRequested { problems },
                RestartError::Failed(problems) => Reply::Failed { problems },
            }
        }
    };
    let unsupported = || Reply::Failed { problems: RestartProblem::Unsupported.into() };
    let answer = match serde_json::from_str(&line) {
        Ok(Request::Restart { state }) => {
            tracing::info!(state = %state, "restarting the kubelet");
            reply(actions.restart(&state).await, Reply::Restarted {})
        }
        Ok(Request::Discard {}) => reply(actions.discard(), Reply::Discarded {}),
        Ok(Request::Version {}) => Reply::Version { version: actions.version().await.map(|found| found.to_string()) },
        Ok(Request::Service { since }) => match Timestamp::from_second(since) {
            Ok(since) => Reply::Service(actions.service_report(since).await),
            Err(_) => unsupported(),
        },
        Ok(Request::Process {}) => {
            process::find(Path::new(process::PROC)).map_or_else(Reply::NoProcess, Reply::Process)
        }
        Ok(Request::Preflight { needs }) => Reply::Preflight { unmet: actions.unmet(&needs).await },
        Err(_) => unsupported(),
    };
    let mut line = serde_json::to_vec(&answer)?;
    line.push(b'\n');
    if u64::try_from(line.len()).is_ok_and(|length| length > MAX_LINE) {
        line = serde_json::to_vec(&Reply::NoProcess(ProcessProblem::TooLong))?;
        line.push(b'\n');
    }
    tokio::time::timeout(CLIENT_TIMEOUT, stream.write_all(&line)).await?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::StateHandling;
    use kubelet_config::risk::StateFile;

    static UNCHANGED: StateFiles = StateFiles { files: Vec::new(), handling: StateHandling::SetAside };

    fn actions(folder: &Path, restart: &str) -> Actions {
        Actions {
            restart: restart.parse().expect("words"),
            stop: "true".parse().expect("words"),
            limit: Duration::from_secs(60),
            root: folder.to_path_buf(),
            host_root: None,
            kubelet: "echo Kubernetes v1.36.2".parse().expect("words"),
            restarts: "echo 3".parse().ok(),
            log: "echo Error: no luck".parse().ok(),
        }
    }

    async fn raw(socket: &Path, line: &[u8]) -> String {
        let mut stream = UnixStream::connect(socket).await.expect("connects");
        stream.write_all(line).await.expect("writes");
        stream.shutdown().await.expect("closes its side");
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text).await;
        text
    }

    #[tokio::test]
    async fn serves_known_requests_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("step.sock");
        std::fs::write(folder.path().join("cpu_manager_state"), "{}").expect("written");
        let listening = StepListener::bind(&socket).expect("listens");
        assert_eq!(std::fs::metadata(&socket).expect("exists").permissions().mode() & 0o777, SOCKET_MODE);
        let actions = actions(folder.path(), "true");
        let served = listening.serve(&actions, std::future::pending());
        let asked = async {
            assert_eq!(version(&socket).await, KubeletVersion::parse("v1.36.2"));
            let report = service_report(&socket, Timestamp::constant(7, 0)).await;
            let last_error = LastError::in_log("Error: no luck --since=@7");
            assert_eq!(report, ServiceReport { restarts: Some(3), last_error });
            assert_eq!(process(&socket).await, process::find(Path::new(process::PROC)));
            let state = StateFiles { files: vec![StateFile::CpuManagerState], ..StateFiles::default() };
            assert_eq!(restart(&socket, &state).await, Ok(()));
            let names = || std::fs::read_dir(folder.path()).expect("a folder").flatten().map(|entry| entry.file_name());
            assert_eq!(names().filter(|name| name == "cpu_manager_state").count(), 0);
            assert_eq!(names().count(), 2, "the socket and the file that was set aside");
            assert_eq!(discard(&socket).await, Ok(()));
            assert_eq!(names().count(), 1);
            for line in [
                &b"{\"restart\":{\"state\":{\"files\":[\"../../etc/passwd\"],\"handling\":\"remove\"}}}\n"[..],
                b"{\"restart\":{\"state\":{\"files\":[],\"handling\":\"remove\",\"to\":\"/etc\"}}}\n",
                b"{\"restart\":{\"state\":{\"files\":[],\"handling\":\"remove\"},\"command\":\"reboot\"}}\n",
                b"{\"discard\":{\"files\":[\"passwd\"]}}\n",
                b"{\"service\":{\"since\":\"yesterday\"}}\n",
                b"{\"service\":{\"since\":9000000000000000}}\n",
                b"{\"service\":{\"since\":0,\"unit\":\"sshd\"}}\n",
                b"{\"process\":{\"pid\":1}}\n",
                b"{\"run\":\"reboot\"}\n",
                b"\n",
                b"",
            ] {
                assert_eq!(raw(&socket, line).await, "{\"failed\":{\"problems\":[\"unsupported\"]}}\n");
            }
            // An endless line does not block the server.
            raw(&socket, &vec![b'x'; 64 * 1024]).await;
            assert!(version(&socket).await.is_some());
        };
        tokio::select! {
            () = served => panic!("ended"),
            () = asked => {}
        }
    }

    #[tokio::test]
    async fn forwards_failure_reasons() {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("step.sock");
        let error = discard(&socket).await;
        let Err(RestartError::NotRequested(reason)) = error else { panic!("{error:?}") };
        assert_eq!(reason.to_string(), "cannot reach the host step: No such file or directory (os error 2)");
        let listening = StepListener::bind(&socket).expect("listens");
        for (command, tried, end) in [
            ("sh -c 'echo Unit hunter2 not found. >&2; exit 5'", true, "failed (exit status: 5): not found"),
            ("/no/such/program", false, "cannot be started: No such file or directory (os error 2)"),
        ] {
            let actions = actions(folder.path(), command);
            tokio::select! {
                () = listening.serve(&actions, std::future::pending()) => panic!("ended"),
                answer = restart(&socket, &UNCHANGED) => {
                    let error = answer.expect_err("fails");
                    assert!(error.to_string().ends_with(end), "{error}");
                    assert_eq!(matches!(error, RestartError::Failed(_)), tried, "{error:?}");
                }
            }
        }
    }

    #[tokio::test]
    async fn waits_for_late_socket() {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("step.sock");
        let actions = actions(folder.path(), "true");
        let mut asked = std::pin::pin!(restart(&socket, &UNCHANGED));
        assert!(
            tokio::time::timeout(Duration::from_millis(50), &mut asked).await.is_err(),
            "the restart waits for the socket"
        );
        let listening = StepListener::bind(&socket).expect("listens");
        tokio::select! {
            () = listening.serve(&actions, std::future::pending()) => panic!("ended"),
            answer = asked => assert_eq!(answer, Ok(())),
        }
    }

    /// A server that ends before reading the request had no effect; one that ends later may have.
    #[tokio::test]
    async fn distinguishes_unread_from_read_request() {
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
            let ((), answer) = tokio::join!(server, restart(&socket, &UNCHANGED));
            let error = answer.expect_err("no answer");
            assert_eq!(matches!(error, RestartError::NotRequested(_)), !read, "{error:?}");
        }
    }

    /// The agent's container can write to the folder of the socket. A link there must not lead the privileged container
    /// to another file.
    #[tokio::test]
    async fn changes_no_file_behind_a_swapped_path() {
        let folder = tempfile::tempdir().expect("a folder");
        let (socket, link) = (folder.path().join("step.sock"), folder.path().join("link"));
        let victim = folder.path().join("shadow");
        std::fs::write(&victim, "precious").expect("written");
        std::fs::set_permissions(&victim, Permissions::from_mode(0o640)).expect("set");
        let end = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !end.load(std::sync::atomic::Ordering::Relaxed) {
                    let _ = std::os::unix::fs::symlink(&victim, &link);
                    if socket.exists() {
                        let _ = std::fs::rename(&link, &socket);
                    }
                }
            });
            for _ in 0..2000 {
                drop(StepListener::bind(&socket));
                let _ = std::fs::remove_file(&socket);
            }
            end.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        assert_eq!(std::fs::metadata(&victim).expect("exists").permissions().mode() & 0o777, 0o640);
        assert_eq!(std::fs::read_to_string(&victim).expect("exists"), "precious");
    }

    #[tokio::test]
    async fn replaces_stale_socket_but_no_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("step.sock");
        drop(std::os::unix::net::UnixListener::bind(&socket).expect("binds"));
        assert!(socket.exists());
        drop(StepListener::bind(&socket).expect("replaces it"));
        assert!(!socket.exists());
        std::fs::write(&socket, "precious").expect("written");
        StepListener::bind(&socket).expect_err("is not a socket");
        assert_eq!(std::fs::read_to_string(&socket).expect("still exists"), "precious");
    }
}
