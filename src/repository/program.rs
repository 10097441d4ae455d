//! Runs external programs for a repository: `git`, and `gpg` and `ssh-keygen` for signatures.
//!
//! A program gets only the arguments and environment of its caller, no shell and no standard input. It runs in its
//! own process group, which is killed at a limit or on request.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

/// The maximum kept bytes of standard error. Older ones are dropped.
const MAX_ERROR: usize = 64 << 10;
/// The shortest and longest interval between checks of a running program.
const POLL_INTERVALS: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(50)];
/// How long to wait for output after the program has ended. Another process may hold its pipes, and a busy machine delays
/// the threads that read them: without its output, a valid signature would be refused.
const PIPE_TIMEOUT: Duration = Duration::from_secs(5);

/// Location of programs and temporary files.
#[derive(Debug, Clone, Default)]
pub struct Programs {
    /// The value of `PATH`.
    pub path: OsString,
    /// The folder for temporary files.
    pub temporary: PathBuf,
}

/// Error of running a program.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// The program is not installed.
    #[error("the program {name} is not installed")]
    Missing {
        /// The name of the program.
        name: &'static str,
    },
    /// The system cannot run the program.
    #[error("cannot run {name}: {source}")]
    Failed {
        /// The name of the program.
        name: &'static str,
        /// The I/O error.
        source: io::Error,
    },
    /// The program reached the time limit and was killed.
    #[error("{name} did not finish within {seconds} s and was stopped")]
    TooSlow {
        /// The name of the program.
        name: &'static str,
        /// The limit.
        seconds: u64,
    },
    /// The program reached the output limit and was killed.
    #[error("{name} wrote more than {bytes} bytes")]
    TooMuch {
        /// The name of the program.
        name: &'static str,
        /// The limit.
        bytes: usize,
    },
    /// The caller stopped the program.
    #[error("{name} was stopped")]
    Stopped {
        /// The name of the program.
        name: &'static str,
    },
}

impl ProgramError {
    /// How to fix the error.
    #[must_use]
    pub fn help(&self) -> String {
        match self {
            Self::Missing { name } => {
                let package = match *name {
                    "gpg" => "GnuPG",
                    "ssh-keygen" | "ssh" => "OpenSSH",
                    other => other,
                };
                format!("install {package}, so that {name} is on the PATH")
            }
            Self::Failed { name, .. } => format!("check the installation of {name}"),
            Self::TooSlow { name, .. } | Self::TooMuch { name, .. } | Self::Stopped { name } => {
                format!("run it again; if it happens again, check that {name} works on this machine")
            }
        }
    }
}

/// Result of a program.
#[derive(Debug)]
pub struct Answer {
    /// The exit status.
    pub status: ExitStatus,
    /// The standard output.
    pub out: Vec<u8>,
    /// The end of the standard error.
    pub err: Vec<u8>,
    /// Whether the beginning of standard error was dropped.
    pub cut: bool,
}

/// Limits of a program.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The maximum run time.
    pub time: Duration,
    /// The maximum bytes of standard output.
    pub bytes: usize,
}

/// Stops a program from another thread.
#[derive(Debug, Default)]
pub struct Stopper(Mutex<Running>);

#[derive(Debug, Default)]
struct Running {
    stopped: bool,
    /// The process group of the running program. Cleared before the leader is reaped, because its ID may be reused
    /// afterwards.
    group: Option<Pid>,
}

impl Stopper {
    /// Kills the running program and prevents further starts.
    pub fn stop(&self) {
        let mut running = locked(&self.0);
        running.stopped = true;
        running.kill();
    }

    /// Reports whether [`Self::stop`] was called.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        locked(&self.0).stopped
    }

    fn spawn(&self, name: &'static str, command: &mut Command) -> Result<Child, ProgramError> {
        let mut running = locked(&self.0);
        if running.stopped {
            return Err(ProgramError::Stopped { name });
        }
        let child = command.spawn().map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => ProgramError::Missing { name },
            _ => ProgramError::Failed { name, source },
        })?;
        running.group = Some(Pid::from_child(&child));
        Ok(child)
    }

    /// The exit status, if the program has ended.
    fn ended(&self, child: &mut Child) -> io::Result<Option<ExitStatus>> {
        let mut running = locked(&self.0);
        let status = child.try_wait()?;
        if status.is_some() {
            running.group = None;
        }
        Ok(status)
    }
}

impl Running {
    fn kill(&self) {
        if let Some(group) = self.group {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a program to its end. Calls `on_stderr` repeatedly with the standard error so far; an error from `on_stderr`
/// stops the program.
///
/// # Errors
/// When the program cannot run, reached a limit or was stopped, or the error of `on_stderr`.
pub fn run<E: From<ProgramError>>(
    name: &'static str,
    command: &mut Command,
    limits: Limits,
    stopper: &Stopper,
    mut on_stderr: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<Answer, E> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = stopper.spawn(name, command)?;
    let out = Output::read(child.stdout.take(), limits.bytes.saturating_add(1), false);
    let err = Output::read(child.stderr.take(), MAX_ERROR, true);
    let (mut waited, mut pause) = (Duration::ZERO, POLL_INTERVALS[0]);
    let ended = loop {
        match stopper.ended(&mut child) {
            Ok(Some(status)) => break Ok(status),
            Ok(None) => {}
            Err(source) => break Err(ProgramError::Failed { name, source }.into()),
        }
        if waited >= limits.time {
            break Err(ProgramError::TooSlow { name, seconds: limits.time.as_secs() }.into());
        }
        if locked(&out).bytes.len() > limits.bytes {
            break Err(ProgramError::TooMuch { name, bytes: limits.bytes }.into());
        }
        if let Err(error) = on_stderr(&locked(&err).bytes) {
            break Err(error);
        }
        thread::sleep(pause);
        waited += pause;
        pause = (pause * 2).min(POLL_INTERVALS[1]);
    };
    let status = match ended {
        Ok(status) => status,
        Err(error) => {
            locked(&stopper.0).kill();
            let _ = child.wait();
            locked(&stopper.0).group = None;
            return Err(error);
        }
    };
    if stopper.is_stopped() {
        return Err(ProgramError::Stopped { name }.into());
    }
    let mut waited = Duration::ZERO;
    while waited < PIPE_TIMEOUT && !(locked(&out).complete && locked(&err).complete) {
        thread::sleep(POLL_INTERVALS[0]);
        waited += POLL_INTERVALS[0];
    }
    let cut = locked(&err).cut;
    let take_bytes = |output: &Mutex<Output>| std::mem::take(&mut locked(output).bytes);
    let (out, err) = (take_bytes(&out), take_bytes(&err));
    if out.len() > limits.bytes {
        return Err(ProgramError::TooMuch { name, bytes: limits.bytes }.into());
    }
    Ok(Answer { status, out, err, cut })
}

/// The output of a program so far.
#[derive(Debug, Default)]
struct Output {
    bytes: Vec<u8>,
    complete: bool,
    /// Whether the beginning was dropped.
    cut: bool,
}

impl Output {
    /// Reads a stream on a separate thread. With `end`, keeps the last `most` bytes, otherwise stops at `most` bytes.
    fn read(stream: Option<impl Read + Send + 'static>, most: usize, end: bool) -> Arc<Mutex<Self>> {
        let output = Arc::new(Mutex::new(Self::default()));
        let (written, mut buffer) = (Arc::clone(&output), [0; 8 << 10]);
        thread::spawn(move || {
            let mut stream = stream;
            while let Some(count) = stream.as_mut().and_then(|stream| stream.read(&mut buffer).ok()) {
                let mut output = locked(&written);
                output.bytes.extend(buffer.get(..count).unwrap_or_default());
                if end {
                    let surplus = output.bytes.len().saturating_sub(most);
                    output.bytes.drain(..surplus);
                    output.cut |= surplus > 0;
                } else {
                    output.bytes.truncate(most);
                }
                if count == 0 || (!end && output.bytes.len() == most) {
                    break;
                }
            }
            locked(&written).complete = true;
        });
        output
    }
}

/// Searches for a program in `PATH`. Skips empty folders, which a shell takes for the current folder.
pub fn find(name: &'static str, programs: &Programs) -> Result<PathBuf, ProgramError> {
    use std::os::unix::fs::PermissionsExt as _;
    let runs = |file: &Path| file.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0);
    let folders = programs.path.as_encoded_bytes().split(|byte| *byte == b':');
    let folders = folders.map(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes);
    let mut files = folders.filter(|folder| !folder.is_empty()).map(|folder| Path::new(folder).join(name));
    files.find(|file| runs(file)).ok_or(ProgramError::Missing { name })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { time: Duration::from_secs(60), bytes: 100 };

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn ran(script: &str, limits: Limits) -> Result<Answer, ProgramError> {
        run("sh", &mut shell(script), limits, &Stopper::default(), |_| Ok(()))
    }

    /// Reports whether a process exists and has not ended.
    fn runs(pid: &str) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The state follows the name in parentheses.
        stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with(['Z', 'X']))
    }

    fn must_end(file: &Path) {
        let pid = std::fs::read_to_string(file).unwrap().trim().to_owned();
        // The kernel needs a moment for a process that was killed.
        for _ in 0..500 {
            if !runs(&pid) {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("process {pid} still runs");
    }

    #[test]
    fn returns_output_and_exit_status() {
        let answer = ran("echo out; echo err >&2; exit 3", LIMITS).unwrap();
        assert_eq!((answer.out.as_slice(), answer.err.as_slice()), (&b"out\n"[..], &b"err\n"[..]));
        assert_eq!(answer.status.code(), Some(3));
        // Only the end of a long standard error is kept.
        let answer = ran("yes start | head -c 100000 >&2; echo last >&2", LIMITS).unwrap();
        assert!(answer.cut && answer.err.len() == MAX_ERROR && answer.err.ends_with(b"last\n"));
    }

    #[test]
    fn kills_the_whole_group_after_the_time_limit() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let script = format!("sleep 600 & echo $! > {}; wait", file.display());
        let limits = Limits { time: Duration::from_millis(500), ..LIMITS };
        let error = ran(&script, limits).unwrap_err();
        assert!(matches!(error, ProgramError::TooSlow { .. }), "{error}");
        must_end(&file);
    }

    #[test]
    fn kills_a_program_that_writes_without_end() {
        let error = ran("yes", LIMITS).unwrap_err();
        assert!(matches!(error, ProgramError::TooMuch { bytes: 100, .. }), "{error}");
        let error = ran("yes | head -c 101", LIMITS).unwrap_err();
        assert!(matches!(error, ProgramError::TooMuch { bytes: 100, .. }), "{error}");
        assert_eq!(ran("yes | head -c 100", LIMITS).unwrap().out.len(), 100);
    }

    #[test]
    fn stops_a_program_from_another_thread() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let stopper = Arc::new(Stopper::default());
        let script = format!("sleep 600 & echo $! > {}.new; mv {0}.new {0}; wait", file.display());
        let (started, other) = (file.clone(), Arc::clone(&stopper));
        let thread = thread::spawn(move || {
            while !started.exists() {
                thread::sleep(Duration::from_millis(5));
            }
            other.stop();
        });
        let error = run("sh", &mut shell(&script), LIMITS, &stopper, |_| Ok::<_, ProgramError>(())).unwrap_err();
        thread.join().unwrap();
        assert!(matches!(error, ProgramError::Stopped { .. }), "{error}");
        must_end(&file);
        let again = run("sh", &mut shell("exit 0"), LIMITS, &stopper, |_| Ok::<_, ProgramError>(()));
        assert!(matches!(again, Err(ProgramError::Stopped { .. })), "{again:?}");
    }

    #[test]
    fn background_process_with_the_pipes_does_not_delay_the_caller() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let answer = ran(&format!("sleep 600 & echo $! > {}; echo done", file.display()), LIMITS).unwrap();
        assert_eq!(answer.out, b"done\n");
        let pid = std::fs::read_to_string(&file).unwrap();
        assert!(Command::new("kill").arg(pid.trim()).status().unwrap().success());
    }

    #[test]
    fn names_a_missing_program_and_its_fix() {
        let error = run("gpg", &mut Command::new("/nonexistent/gpg"), LIMITS, &Stopper::default(), |_| {
            Ok::<_, ProgramError>(())
        });
        let error = error.unwrap_err();
        assert_eq!(
            format!("{error}; {}", error.help()),
            "the program gpg is not installed; install GnuPG, so that gpg is on the PATH"
        );
        let programs = Programs { path: "/nonexistent:/bin:/usr/bin".into(), temporary: PathBuf::new() };
        assert!(find("sh", &programs).unwrap().ends_with("sh"));
        assert!(matches!(find("ssh-keygen", &Programs::default()), Err(ProgramError::Missing { name: "ssh-keygen" })));
    }
}
