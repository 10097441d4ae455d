//! Runs a command of this host: its words go to the system as they are, without a shell; its time is limited, and so is what
//! is kept of its output.

use std::fmt;
use std::process::Stdio;
use std::str::FromStr;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};

/// How much of the end of each stream is kept, in bytes.
const KEPT: usize = 4096;
/// How many lines of it an error quotes.
const QUOTED_LINES: usize = 5;
/// How many characters of it an error quotes.
const QUOTED: usize = 800;
/// How long to go on reading after the command has ended: something that it left running may hold its output open for ever.
const DRAIN: Duration = Duration::from_millis(200);

/// Why a command did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// It cannot be started, so nothing was done. The reason in full.
    #[error("{0}")]
    NotStarted(String),
    /// It failed, or took too long: the reason in full, with the last lines that it wrote.
    #[error("{0}")]
    Failed(String),
}

/// A program and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    program: String,
    arguments: Vec<String>,
}

impl FromStr for CommandLine {
    type Err = String;

    /// Splits as a POSIX shell splits words, quotes and backslashes included; nothing is expanded.
    fn from_str(text: &str) -> Result<Self, String> {
        let words = shlex::split(text).ok_or("it has a quote that is not closed, or ends with a backslash")?;
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
            // A null character, with which it cannot be started either.
            Err(_) => f.write_str(&self.program),
        }
    }
}

impl CommandLine {
    /// The same command with one more argument.
    #[must_use]
    pub fn with(&self, argument: &str) -> Self {
        let mut longer = self.clone();
        longer.arguments.push(argument.to_owned());
        longer
    }

    /// Runs it to its end and gives what it wrote to standard output, the last 4 kB of it. Its standard input is empty. When
    /// `limit` is over, it and everything that it started in its process group are killed; so it is alone when the
    /// caller loses interest.
    ///
    /// # Errors
    /// It cannot be started, fails, or takes too long.
    pub async fn run(&self, limit: Duration) -> Result<String, CommandError> {
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
        let (mut out, mut err) = (Tail::default(), Tail::default());
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
                let _ = tokio::time::timeout(DRAIN, reading).await;
            }
            ended
        };
        let quoted = [&err, &out].into_iter().map(Tail::quoted).find(|text| !text.is_empty());
        let wrote = quoted.map_or_else(|| " and wrote nothing".to_owned(), |text| format!(": {text}"));
        let reason = match ended {
            Ok(Ok(status)) if status.success() => return Ok(out.text()),
            Ok(Ok(status)) => format!("`{self}` failed ({status}){wrote}"),
            Ok(Err(error)) => format!("`{self}` cannot be waited for: {error}"),
            Err(_) => format!("`{self}` had not ended after {} s, was killed{wrote}", limit.as_secs_f64()),
        };
        Err(CommandError::Failed(reason))
    }
}

/// Kills the command and what it started, and waits for its end.
async fn kill(child: &mut Child) {
    let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
    if let Some(group) = group {
        // An error means that nothing of it is left.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.kill().await;
}

/// The end of a stream.
#[derive(Debug, Default)]
struct Tail {
    bytes: Vec<u8>,
}

impl Tail {
    async fn follow(&mut self, source: Option<impl AsyncRead + Unpin>) {
        let Some(mut source) = source else { return };
        let mut buffer = [0; 1024];
        while let Ok(count @ 1..) = source.read(&mut buffer).await {
            self.bytes.extend_from_slice(buffer.get(..count).unwrap_or_default());
            let excess = self.bytes.len().saturating_sub(KEPT);
            self.bytes.drain(..excess);
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// Its last lines on one line, and without what a terminal would make of control characters.
    fn quoted(&self) -> String {
        let text = self.text();
        let mut lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let lines = lines.split_off(lines.len().saturating_sub(QUOTED_LINES));
        let joined: Vec<char> = lines.join("; ").chars().filter(|c| !c.is_control()).collect();
        let excess = joined.len().saturating_sub(QUOTED);
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
    fn words_as_a_shell_splits_them_and_nothing_expanded() {
        let line = command(r#"nsenter -t 1 -m -- "a b" 'c;d' $HOME `x` *"#);
        assert_eq!(line.program, "nsenter");
        assert_eq!(line.arguments, ["-t", "1", "-m", "--", "a b", "c;d", "$HOME", "`x`", "*"]);
        assert_eq!(line.to_string().parse::<CommandLine>(), Ok(line));
        for bad in ["", "  ", "'a", "a \\", "''"] {
            assert!(bad.parse::<CommandLine>().is_err(), "{bad:?}");
        }
    }

    #[tokio::test]
    async fn output_of_a_success_and_of_a_failure() {
        assert_eq!(command("echo one two").run(LONG).await, Ok("one two\n".to_owned()));
        let error =
            command(r#"sh -c "echo out; for i in 1 2 3 4 5 6; do echo line $i >&2; done; exit 7""#).run(LONG).await;
        let Err(CommandError::Failed(error)) = error else { panic!("{error:?}") };
        assert!(error.ends_with("failed (exit status: 7): line 2; line 3; line 4; line 5; line 6"), "{error}");
        let error = command("false").run(LONG).await.expect_err("fails");
        assert_eq!(error.to_string(), "`false` failed (exit status: 1) and wrote nothing");
        let error = command("/no/such/program").run(LONG).await;
        let Err(CommandError::NotStarted(error)) = error else { panic!("{error:?}") };
        assert!(error.starts_with("`/no/such/program` cannot be started: No such file"), "{error}");
    }

    #[tokio::test]
    async fn what_an_error_quotes_is_bounded_and_harmless() {
        let script = r#"sh -c "head -c 100000 /dev/zero | tr '\0' 'x'; printf '\033[31mend'; exit 1""#;
        let error = command(script).run(LONG).await.expect_err("fails").to_string();
        assert!(error.chars().count() < 1000, "{}", error.len());
        assert!(error.ends_with("xxx[31mend"), "{error}");
    }

    #[tokio::test]
    async fn one_that_takes_too_long_is_killed_with_all_that_it_started() {
        let folder = tempfile::tempdir().expect("a folder");
        let pid = folder.path().join("pid");
        let script = format!("sh -c 'sleep 600 & echo $! > {}; echo waiting; wait'", pid.display());
        // Time that the script needs to begin is no matter: it is killed when it waits.
        let line = command(&script);
        let running = line.run(Duration::from_millis(1500));
        let error = running.await.expect_err("is killed").to_string();
        assert!(error.ends_with("had not ended after 1.5 s, was killed: waiting"), "{error}");
        let pid = std::fs::read_to_string(&pid).expect("it began");
        // It dies when the system comes to it: then it is gone, or a zombie that init has not fetched yet.
        let stat = format!("/proc/{}/stat", pid.trim());
        while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    #[tokio::test]
    async fn what_it_leaves_running_does_not_hold_it_up() {
        assert_eq!(command("sh -c 'sleep 30 & echo started'").run(LONG).await, Ok("started\n".to_owned()));
    }
}
