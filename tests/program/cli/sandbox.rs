//! Test of `sandbox`: printed instructions and shutdown.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::cli::program::{Run, nodecfg};
use crate::cli::repository::gpu;

/// Sends SIGINT, like Ctrl-C.
fn interrupt(id: u32) {
    assert!(Command::new("sh").args(["-c", &format!("kill -INT {id}")]).status().unwrap().success());
}

#[test]
#[cfg(unix)]
fn prints_instructions_and_serves_until_interrupted() {
    let folder = gpu();
    let child = nodecfg(folder.path())
        .args(["sandbox", "--repo", ".", "--nodes", "2", "--kubeconfig-out", "kube.yaml", "--speed", "100", "-v"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let kubeconfig = folder.path().join("kube.yaml");
    let begin = Instant::now();
    let status = loop {
        assert!(begin.elapsed() < Duration::from_secs(180), "the sandbox does not answer");
        std::thread::sleep(Duration::from_millis(50));
        let mut command = nodecfg(folder.path());
        command.args(["status", "--kubeconfig", "kube.yaml"]);
        if kubeconfig.exists()
            && let status = Run::of(command)
            && status.exit == 0
        {
            break status;
        }
    };
    assert!(status.out.contains("gpu-2"), "{}", status.out);

    interrupt(child.id());
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{err}");
    assert!(output.stdout.is_empty());
    let exports = format!("export KUBECONFIG={}", kubeconfig.display());
    for part in ["sandbox: 2 nodes at https://127.0.0.1:", &exports, "  nodecfg sync\n", "GET /api/v1/nodes"] {
        assert!(err.contains(part), "no {part:?} in {err}");
    }
}
