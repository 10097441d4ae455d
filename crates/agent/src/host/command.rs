//! Execution of host commands: without a shell, with a time limit, and with a limit on the captured output. An error has
//! none of the output, which may hold secrets.

use std::fmt;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;
use std::str::FromStr;
use std::time::Duration;

use super::problem::{CommandError, KnownMessage, OsError};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};

/// Captured bytes of the end of a stream.
const MAX_END: usize = 4096;
/// Time to keep reading after the command has ended. A background process may hold the output open forever.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(200);

/// Program with arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    program: String,
    arguments: Vec<String>,
}

impl FromStr for CommandLine {
    type Err = String;

    /// Splits words as a POSIX shell does, including quotes and backslashes, without expansion.
    fn from_str(text: &str) -> Result<Self, String> {
        let words = shlex::split(text).ok_or("it has an unclosed quote or ends with a backslash")?;
        let mut words = words.into_iter();
        let program = words.next().filter(|program| !program.is_empty()).ok_or("it names no program")?;
        Ok(Self { program, arguments: words.collect() })
    }
}

impl fmt::Display for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = std::iter::once(&self.program).chain(&self.arguments).map(String::as_str);
        match shlex::try_join(words) {
            Ok(text) => f.write_str(&text),
            // A null character; such a command cannot be started either.
            Err(_) => f.write_str(&self.program),
        }
    }
}

impl CommandLine {
    /// Copy of the command with one more argument.
    #[must_use]
    pub(crate) fn with_argument(&self, argument: &str) -> Self {
        let mut longer = self.clone();
        longer.arguments.push(argument.to_owned());
        longer
    }

    /// Runs the command with empty standard input and returns the last 4 kB of its standard output. After `limit`,
    /// kills the command's process group. Dropping the future kills the command alone.
    ///
    /// # Errors
    /// The command could not be started, failed, or timed out.
    pub async fn run(&self, limit: Duration) -> Result<String, CommandError> {
        self.capture(limit, Captured::end()).await
    }

    /// Runs the command as [`Self::run`] does, and returns the first `max` bytes of its standard output.
    ///
    /// # Errors
    /// The command could not be started, failed, or timed out.
    pub(crate) async fn start_of_output(&self, limit: Duration, max: usize) -> Result<String, CommandError> {
        self.capture(limit, Captured::start(max)).await
    }

    async fn capture(&self, limit: Duration, mut out: Captured) -> Result<String, CommandError> {
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| CommandError::NotStarted(OsError::from(&error)))?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let mut err = Captured::end();
        let ended = {
            let mut reading = std::pin::pin!(async { tokio::join!(out.follow(stdout), err.follow(stderr)) });
            let mut open = true;
            let ended = tokio::time::timeout(limit, async {
                loop {
                    tokio::select! {
                        status = child.wait() => break status,
                        _ = &mut reading, if open => open = false,
                    }
                }
            })
            .await;
            if ended.is_err() {
                kill(&mut child).await;
            }
            if open {
                let _ = tokio::time::timeout(DRAIN_TIMEOUT, reading).await;
            }
            ended
        };
        match ended {
            Ok(Ok(status)) if status.success() => Ok(out.text()),
            Ok(Ok(status)) => Err(CommandError::Failed {
                status: status.into_raw(),
                message: [&err, &out].into_iter().find_map(|captured| KnownMessage::in_output(&captured.text())),
            }),
            Ok(Err(error)) => Err(CommandError::Unwatched(OsError::from(&error))),
            Err(_) => Err(CommandError::TimedOut { limit }),
        }
    }
}

/// Kills the command's process group and waits for the command to end.
async fn kill(child: &mut Child) {
    let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
    if let Some(group) = group {
        // An error means that no process is left.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.kill().await;
}

/// The start or the end of a stream.
#[derive(Debug)]
struct Captured {
    is_end: bool,
    max: usize,
    bytes: Vec<u8>,
}

impl Captured {
    fn start(max: usize) -> Self {
        Self { is_end: false, max, bytes: Vec::new() }
    }

    fn end() -> Self {
        Self { is_end: true, max: MAX_END, bytes: Vec::new() }
    }

    async fn follow(&mut self, source: Option<impl AsyncRead + Unpin>) {
        let Some(mut source) = source else { return };
        let mut buffer = [0; 1024];
        while let Ok(count @ 1..) = source.read(&mut buffer).await {
            self.bytes.extend_from_slice(buffer.get(..count).unwrap_or_default());
            let excess = self.bytes.len().saturating_sub(self.max);
            if self.is_end {
                self.bytes.drain(..excess);
            } else {
                // The rest is read and dropped, so that the command can end.
                self.bytes.truncate(self.max);
            }
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn command(text: &str) -> CommandLine {
        text.parse().expect("words")
    }

    #[test]
    fn splits_words_without_expansion() {
        let line = command(r#"nsenter -t 1 -m -- "a b" 'c;d' $HOME `x` *"#);
        assert_eq!(line.program, "nsenter");
        assert_eq!(line.arguments, ["-t", "1", "-m", "--", "a b", "c;d", "$HOME", "`x`", "*"]);
        assert_eq!(line.to_string().parse::<CommandLine>(), Ok(line));
        for bad in ["", "  ", "'a", "a \\", "''"] {
            assert!(bad.parse::<CommandLine>().is_err(), "{bad:?}");
        }
    }

    #[tokio::test]
    async fn returns_output_and_failure_reason() {
        assert_eq!(command("echo one two").run(LONG).await, Ok("one two\n".to_owned()));
        for (script, expected) in [
            ("echo hunter2; echo hunter2 >&2; exit 7", "failed (exit status: 7)"),
            ("kill -9 $$", "failed (signal: 9 (SIGKILL))"),
            ("echo Unit hunter2.service not found. >&2; exit 5", "failed (exit status: 5): not found"),
            (
                "echo Job for hunter2 failed because a timeout was exceeded.; echo hunter2 >&2; exit 1",
                "failed (exit status: 1): a timeout was exceeded",
            ),
        ] {
            let error = command(&format!("sh -c '{script}'")).run(LONG).await.expect_err("fails");
            assert_eq!(error.to_string(), expected);
            assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        }
        let script = r#"sh -c "seq 100000; echo last""#;
        assert!(command(script).run(LONG).await.expect("succeeds").ends_with("100000\nlast\n"));
        assert_eq!(command(script).start_of_output(LONG, 5).await, Ok("1\n2\n3".to_owned()));
        let error = command("/no/such/program").run(LONG).await.expect_err("is missing");
        assert_eq!(error.to_string(), "cannot be started: No such file or directory (os error 2)");
    }

    #[tokio::test]
    async fn kills_process_group_after_timeout() {
        let folder = tempfile::tempdir().expect("a folder");
        let pid = folder.path().join("pid");
        let script = format!("sh -c 'sleep 600 & echo $! > {}; echo waiting; wait'", pid.display());
        // The limit covers the start of the script; it is killed while waiting.
        let line = command(&script);
        let running = line.run(Duration::from_millis(1500));
        let error = running.await.expect_err("is killed").to_string();
        assert_eq!(error, "did not end within 1.5 s and was killed");
        let pid = std::fs::read_to_string(&pid).expect("the script started");
        // The process dies asynchronously. It is then missing, or a zombie until init reaps it.
        let stat = format!("/proc/{}/stat", pid.trim());
        while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    #[tokio::test]
    async fn does_not_wait_for_background_processes() {
        assert_eq!(command("sh -c 'sleep 30 & echo started'").run(LONG).await, Ok("started\n".to_owned()));
    }
}
