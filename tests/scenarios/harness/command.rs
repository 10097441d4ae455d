//! Runs of the nodecfg binary.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use serde_json::Value;

use super::{LIMIT, until, until_within};

/// Result of a finished run.
pub struct Run {
    /// Exit code; `None` after a signal.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Run {
    /// Asserts the exit code.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self}");
        self
    }

    /// Asserts that standard output or standard error contains `text`; line breaks count as spaces.
    #[track_caller]
    pub fn prints(self, text: &str) -> Self {
        assert!(self.has(text), "{text:?} is missing\n{self}");
        self
    }

    /// Asserts that neither output contains `text`.
    #[track_caller]
    pub fn does_not_print(self, text: &str) -> Self {
        assert!(!self.has(text), "{text:?} is present\n{self}");
        self
    }

    /// Reports whether standard output or standard error contains `text`; line breaks and repeated spaces count as one
    /// space.
    pub fn has(&self, text: &str) -> bool {
        flat(&self.out).contains(text) || flat(&self.err).contains(text)
    }

    /// Number of lines in standard error that contain `text`.
    pub fn lines_with(&self, text: &str) -> usize {
        self.err.lines().filter(|line| line.contains(text)).count()
    }

    /// Parses standard output as one JSON document.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}\n{self}"))
    }

    /// Parses standard output as JSON lines.
    #[track_caller]
    pub fn json_lines(&self) -> Vec<Value> {
        let read = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}\n{self}"));
        self.out.lines().map(read).collect()
    }
}

/// Removes the line breaks and margins that fit a report to a terminal.
fn flat(text: &str) -> String {
    text.split_whitespace().filter(|word| *word != "│").collect::<Vec<_>>().join(" ")
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "exit {:?}\n--- stdout\n{}\n--- stderr\n{}", self.code, self.out, self.err)
    }
}

/// A running process, which is killed when dropped.
pub struct Running {
    child: Child,
    out: Stream,
    err: Stream,
}

struct Stream {
    text: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Stream {
    fn follow(mut source: impl Read + Send + 'static) -> Self {
        let text = Arc::new(Mutex::new(String::new()));
        let shared = Arc::clone(&text);
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = source.read(&mut buffer) {
                shared.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..count]));
            }
        });
        Self { text, reader: Some(reader) }
    }

    fn text(&self) -> String {
        self.text.lock().unwrap().clone()
    }

    fn whole(&mut self) -> String {
        self.reader.take().map(JoinHandle::join);
        self.text()
    }
}

impl Running {
    /// Starts the binary with these arguments, without environment variables that select a cluster.
    pub fn start(home: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(crate::PROGRAM);
        command.args(arguments).current_dir(home).env("HOME", home);
        for name in
            ["KUBECONFIG", "KUBERNETES_SERVICE_HOST", "NODECFG_REV", "NODECFG_LOG", "HTTPS_PROXY", "https_proxy"]
        {
            command.env_remove(name);
        }
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
        let out = Stream::follow(child.stdout.take().unwrap());
        let err = Stream::follow(child.stderr.take().unwrap());
        Self { child, out, err }
    }

    /// Waits until standard error contains `text`, and returns all of it.
    pub async fn until_stderr_contains(&mut self, text: &str) -> String {
        until(&format!("standard error contains {text:?}"), async || {
            let written = self.err.text();
            if let Some(status) = self.child.try_wait().unwrap()
                && !written.contains(text)
            {
                panic!("ended ({status}) without {text:?} in standard error\n{written}\n{}", self.out.text());
            }
            written.contains(text)
        })
        .await;
        self.err.text()
    }

    /// Waits until standard output contains `text`.
    pub async fn until_stdout_contains(&mut self, text: &str) {
        until(&format!("standard output contains {text:?}"), async || {
            let written = self.out.text();
            if let Some(status) = self.child.try_wait().unwrap()
                && !written.contains(text)
            {
                panic!("ended ({status}) without {text:?} in standard output\n{written}\n{}", self.err.text());
            }
            written.contains(text)
        })
        .await;
    }

    /// Waits until one line of standard output contains all parts.
    pub async fn until_stdout_line_contains(&mut self, parts: &[&str]) {
        let has = |written: &str| written.lines().any(|line| parts.iter().all(|part| line.contains(part)));
        until(&format!("a line of standard output contains {parts:?}"), async || {
            let written = self.out.text();
            if let Some(status) = self.child.try_wait().unwrap()
                && !has(&written)
            {
                panic!("ended ({status}) without a line with {parts:?}\n{written}\n{}", self.err.text());
            }
            has(&written)
        })
        .await;
    }

    /// Sends SIGINT, like Ctrl-C.
    pub fn interrupt(&self) {
        let script = format!("kill -INT {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
    }

    /// Sends SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Reports whether the process has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Process ID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the end of the process.
    pub async fn end(mut self) -> Run {
        let mut ended: Option<ExitStatus> = None;
        until_within(LIMIT, "the run ends", &mut async || {
            ended = self.child.try_wait().unwrap();
            ended.is_some()
        })
        .await;
        Run { code: ended.and_then(|status| status.code()), out: self.out.whole(), err: self.err.whole() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The process still runs only after a failed test.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
