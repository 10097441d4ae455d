//! The privileged half of an agent that runs as a pod. `nodecfg agent host-step` listens on a unix socket and does three
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

use super::system::Actions;
use crate::kubelet::risk::StateFile;
use crate::observed::KubeletVersion;

/// A request or an answer is no longer than this, in bytes.
const LINE: u64 = 16 * 1024;
/// How long a client may take to say what it wants, and to take the answer.
const CLIENT_LIMIT: Duration = Duration::from_secs(5);
/// How long the agent waits for a restart. The limit that counts is the other side's; this one is for a process that hangs.
const RESTART_LIMIT: Duration = Duration::from_secs(15 * 60);
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
    /// It was not done.
    Failed { reason: String },
}

/// Has the kubelet restarted by the process behind the socket.
///
/// # Errors
/// Its reason in full, or why it cannot be asked.
pub async fn restart(socket: &Path, remove: &[StateFile]) -> Result<(), String> {
    let request = Request::Restart { remove: remove.to_vec() };
    match ask(socket, &request, RESTART_LIMIT).await? {
        Answer::Restarted {} => Ok(()),
        Answer::Failed { reason } => Err(reason),
        Answer::Version { .. } => Err(unexpected(socket)),
    }
}

/// Asks the process behind the socket for the kubelet's version; `None` when it is not known, or nobody answers.
pub async fn version(socket: &Path) -> Option<KubeletVersion> {
    match ask(socket, &Request::Version {}, VERSION_LIMIT).await {
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

async fn ask(socket: &Path, request: &Request, limit: Duration) -> Result<Answer, String> {
    let asking = async {
        let mut stream = UnixStream::connect(socket).await?;
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        stream.write_all(&line).await?;
        let mut answer = String::new();
        BufReader::new(stream).take(LINE).read_line(&mut answer).await?;
        io::Result::Ok(answer)
    };
    match tokio::time::timeout(limit, asking).await {
        Ok(Ok(line)) => serde_json::from_str(&line).map_err(|_| unexpected(socket)),
        Ok(Err(error)) => Err(format!("the host step behind {} cannot be asked: {error}", socket.display())),
        Err(_) => {
            let seconds = limit.as_secs();
            Err(format!("the host step behind {} had not answered after {seconds} s", socket.display()))
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
                Err(reason) => {
                    tracing::error!("{reason}");
                    Answer::Failed { reason }
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
        let error = restart(&socket, &[]).await.expect_err("nobody listens");
        assert!(error.contains("cannot be asked: No such file"), "{error}");
        let listening = Listening::on(&socket).expect("listens");
        let actions = actions(folder.path(), "sh -c 'echo no unit >&2; exit 5'");
        tokio::select! {
            () = listening.serve(&actions, std::future::pending()) => panic!("ended"),
            answer = restart(&socket, &[]) => {
                let error = answer.expect_err("fails");
                assert!(error.ends_with("failed (exit status: 5): no unit"), "{error}");
            }
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
