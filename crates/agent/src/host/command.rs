//! Execution of host commands: without a shell, with a time limit, and with a limit on the captured output.

use std::fmt;
use std::process::Stdio;
use std::str::FromStr;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};

/// Captured bytes of the end of a stream.
const MAX_END: usize = 4096;
/// Maximum number of lines quoted in an error.
const MAX_QUOTED_LINES: usize = 5;
/// Maximum number of characters quoted in an error.
const MAX_QUOTED: usize = 800;
/// Time to keep reading after the command has ended. A background process may hold the output open forever.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(200);

/// Reason why a command failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// The command could not be started and had no effect. Holds the reason in full.
    #[error("{0}")]
    NotStarted(String),
    /// The command failed or timed out. Holds the reason in full, with the last lines of its output.
    #[error("{0}")]
    Failed(String),
}

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
    pub fn with_argument(&self, argument: &str) -> Self {
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
    pub async fn start_of_output(&self, limit: Duration, max: usize) -> Result<String, CommandError> {
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
            .map_err(|error| CommandError::NotStarted(format!("`{self}` cannot be started: {error}")))?;
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
        let quoted = [&err, &out].into_iter().map(Captured::quoted).find(|text| !text.is_empty());
        let wrote = quoted.map_or_else(|| " and wrote nothing".to_owned(), |text| format!(": {text}"));
        let reason = match ended {
            Ok(Ok(status)) if status.success() => return Ok(out.text()),
            Ok(Ok(status)) => format!("`{self}` failed ({status}){wrote}"),
            Ok(Err(error)) => format!("`{self}` cannot be waited for: {error}"),
            Err(_) => format!("`{self}` did not end within {} s and was killed{wrote}", limit.as_secs_f64()),
        };
        Err(CommandError::Failed(reason))
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

    /// Last lines, joined into one line and without control characters.
    fn quoted(&self) -> String {
        let text = self.text();
        let mut lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let lines = lines.split_off(lines.len().saturating_sub(MAX_QUOTED_LINES));
        let joined: Vec<char> = lines.join("; ").chars().filter(|c| !c.is_control()).collect();
        let excess = joined.len().saturating_sub(MAX_QUOTED);
        let end: String = joined.into_iter().skip(excess).collect();
        if excess > 0 { format!("…{end}") } else { end }
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
        let error =
            command(r#"sh -c "echo out; for i in 1 2 3 4 5 6; do echo line $i >&2; done; exit 7""#).run(LONG).await;
        let Err(CommandError::Failed(error)) = error else { panic!("{error:?}") };
        assert!(error.ends_with("failed (exit status: 7): line 2; line 3; line 4; line 5; line 6"), "{error}");
        let script = r#"sh -c "seq 100000; echo last""#;
        assert!(command(script).run(LONG).await.expect("succeeds").ends_with("100000\nlast\n"));
        assert_eq!(command(script).start_of_output(LONG, 5).await, Ok("1\n2\n3".to_owned()));
        let error = command("false").run(LONG).await.expect_err("fails");
        assert_eq!(error.to_string(), "`false` failed (exit status: 1) and wrote nothing");
        let error = command("/no/such/program").run(LONG).await;
        let Err(CommandError::NotStarted(error)) = error else { panic!("{error:?}") };
        assert!(error.starts_with("`/no/such/program` cannot be started: No such file"), "{error}");
    }

    #[tokio::test]
    async fn limits_and_sanitizes_quoted_output() {
        let script = r#"sh -c "head -c 100000 /dev/zero | tr '\0' 'x'; printf '\033[31mend'; exit 1""#;
        let error = command(script).run(LONG).await.expect_err("fails").to_string();
        assert!(error.chars().count() < 1000, "{}", error.len());
        assert!(error.ends_with("xxx[31mend"), "{error}");
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
        assert!(error.ends_with("did not end within 1.5 s and was killed: waiting"), "{error}");
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
