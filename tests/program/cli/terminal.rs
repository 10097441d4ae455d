//! Tests of the status area in a pseudo-terminal, created by `script` of util-linux: redraws, resizes and hang-ups.
//! Without `script` the tests print a note and pass.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use nodecfg_sandbox::kubelets::Fault;
use serde_json::Value;

use crate::cli::cluster::Cluster;
use crate::cli::repository::{FLEET, Folder, KUBELET, POOL};

/// Timeout for every expected event.
const TIMEOUT: Duration = Duration::from_secs(180);

/// A pseudo-terminal of 80 columns and 24 lines that runs the program.
struct Session {
    script: Child,
    seen: Arc<Mutex<String>>,
}

impl Session {
    /// `None` without `script`.
    fn start(cluster: &Cluster, folder: &Path, arguments: &str) -> Option<Self> {
        let version = Command::new("script").arg("--version").output();
        if !version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("util-linux")) {
            // Written to standard error directly, because the harness hides the output of passing tests.
            let _ = writeln!(std::io::stderr(), "skipped: no `script` of util-linux on the PATH: no terminal");
            return None;
        }
        let program = env!("CARGO_BIN_EXE_nodecfg");
        let mut script = Command::new("script")
            .args(["--quiet", "--flush", "--command"])
            // A parent without a terminal, such as `nohup cargo test`, ignores SIGHUP, and so would its children.
            .arg(format!("stty cols 80 rows 24; tty > tty; exec env --default-signal=HUP {program} {arguments}"))
            .arg("/dev/null")
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", folder.join("no-home"))
            .env("KUBECONFIG", cluster.kubeconfig())
            .env("TERM", "xterm")
            .env("SHELL", "/bin/sh")
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (seen, mut out) = (Arc::new(Mutex::new(String::new())), script.stdout.take().unwrap());
        let sink = Arc::clone(&seen);
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = out.read(&mut bytes) {
                sink.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..read]));
            }
        });
        Some(Self { script, seen })
    }

    fn seen(&self) -> String {
        self.seen.lock().unwrap().clone()
    }

    fn until(&self, what: &str, mut happened: impl FnMut(&str) -> bool) {
        let start = Instant::now();
        while !happened(&self.seen()) {
            assert!(start.elapsed() < TIMEOUT, "{what}: {}", self.seen());
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}

#[test]
fn redraws_after_resize_and_stops_gently_after_hang_up() {
    let pool = POOL.replace("    canary: {nodes: 1, soak: 1s}\n", "");
    let files = [("nodecfg.yaml", FLEET), ("pools/gpu/pool.yaml", &pool), ("pools/gpu/kubelet.yaml", KUBELET)];
    let folder = Folder::committed(&files);
    let cluster = Cluster::start(&["gpu"], 3, &[]);
    // The node stays in transition for the whole test.
    cluster.fault("gpu-2", Some(Fault::NeverAcknowledges));
    let Some(session) = Session::start(&cluster, folder.path(), "sync --color never --report json=report") else {
        return;
    };
    session.until("the first node is done, the second is on its way", |seen| {
        seen.contains("1/3") && seen.contains("gpu/gpu-2") && seen.contains("elapsed")
    });

    let before = session.seen().len();
    let terminal = std::fs::read_to_string(folder.path().join("tty")).unwrap();
    let resized = Command::new("stty").args(["-F", terminal.trim(), "cols", "30", "rows", "10"]).status().unwrap();
    assert!(resized.success());
    session.until("the picture fits", |seen| seen[before..].contains("gpu-2 not acknowledge…"));

    drop(session);
    let report = folder.path().join("report");
    let until = |event: &str| -> Value {
        let start = Instant::now();
        loop {
            let written = std::fs::read_to_string(&report).unwrap_or_default();
            let mut lines = written.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            if let Some(line) = lines.find(|line| line["event"] == event) {
                return line;
            }
            assert!(start.elapsed() < TIMEOUT, "no {event}: {written}");
            thread::sleep(Duration::from_millis(20));
        }
    };
    until("stopped");
    cluster.fault("gpu-2", None);
    let finished = until("finished");
    assert_eq!(finished["exitCode"], 5, "{finished}");
    assert_eq!(finished["pools"]["gpu"]["stopped"]["kind"], "interrupted", "{finished}");
    let ends: Vec<&Value> =
        finished["pools"]["gpu"]["nodes"].as_array().unwrap().iter().map(|node| &node["end"]["state"]).collect();
    assert_eq!(ends, ["converged", "converged", "notStarted"], "the node in transition finishes");
}

#[test]
fn quiet_prints_only_problems() {
    let files = [("nodecfg.yaml", FLEET), ("pools/gpu/pool.yaml", POOL), ("pools/gpu/kubelet.yaml", KUBELET)];
    let folder = Folder::committed(&files);
    let cluster = Cluster::start(&["gpu"], 2, &[]);
    let done = cluster.run(folder.path(), "sync -q");
    // Findings of the configuration are warnings.
    assert!(done.exit == 0 && done.out.is_empty() && !done.err.contains("fleet"), "{}", done.shown());
    assert!(!done.err.contains("gpu-1"), "{}", done.shown());
    let state = cluster.run(folder.path(), "status --quiet");
    assert!(state.exit == 0 && state.out.contains("gpu-1") && state.err.is_empty(), "{}", state.shown());

    let failing = Cluster::start(&["gpu"], 2, &["gpu-1=validate-error"]);
    let failed = failing.run(folder.path(), "sync -q");
    assert!(
        failed.exit == 5 && failed.out.contains("failed: gpu-1") && !failed.err.contains("fleet"),
        "{}",
        failed.shown()
    );
    assert!(!failed.out.contains("Plan:"), "{}", failed.shown());

    for arguments in ["sync -q -v", "-q sync -v", "-qv status"] {
        let both = cluster.run(folder.path(), arguments);
        assert!(both.exit == 2 && both.err.contains("cannot be used with"), "{}", both.shown());
    }
}

#[test]
fn reset_shows_pending_nodes() {
    let folder = Folder::committed(&[
        ("nodecfg.yaml", FLEET),
        ("pools/gpu/pool.yaml", POOL),
        ("pools/gpu/kubelet.yaml", KUBELET),
    ]);
    let cluster = Cluster::start(&["gpu"], 3, &[]);
    assert_eq!(cluster.run(folder.path(), "sync").exit, 0);
    // The node stays in transition for the whole test.
    cluster.fault("gpu-1", Some(Fault::NeverAcknowledges));
    let Some(session) = Session::start(&cluster, folder.path(), "reset --all --yes --color never") else { return };
    session.until("the first node is in transition", |seen| seen.contains("gpu/gpu-1") && seen.contains("elapsed"));
    assert!(!session.seen().contains("not assigned"), "{}", session.seen());
}
