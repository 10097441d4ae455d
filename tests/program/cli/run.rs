//! Tests of `sync` and `verify`: progress output, reports and exit codes.

use std::io::Read as _;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use crate::cli::cluster::Cluster;
use crate::cli::program::{Run, shows};
use crate::cli::repository::{FLEET, Folder, KUBELET, POOL, gpu};

#[test]
fn prints_rollout_as_text() {
    let folder = gpu();
    let cluster = Cluster::start(&["gpu"], 3, &[]);
    shows!("sync", cluster.run(folder.path(), "sync").shown());
    shows!("sync-nothing", cluster.run(folder.path(), "sync").shown());
    shows!("verify-nothing", cluster.run(folder.path(), "verify").shown());
}

#[test]
fn prints_rollout_as_json_lines() {
    let folder = gpu();
    let cluster = Cluster::start(&["gpu"], 2, &[]);
    let run = cluster.run(folder.path(), "sync -o json");
    assert_eq!((run.exit, run.err.as_str()), (0, ""));
    let lines: String = run
        .json_lines()
        .into_iter()
        .map(|mut line| {
            assert_eq!(line["formatVersion"], 1);
            if line["event"] == "planned" {
                line["pools"] = json!("[the pools, as diff shows them]");
            }
            format!("{line}\n")
        })
        .collect();
    shows!("sync-json", lines);
}

#[test]
fn explains_failed_rollout() {
    let folder = gpu();
    let cluster = Cluster::start(&["gpu"], 3, &["gpu-1=validate-error"]);
    shows!("sync-failed", cluster.run(folder.path(), "sync").shown());
    // The failed node comes first in the plan and uses no budget.
    shows!("diff-after-failure", cluster.run(folder.path(), "diff").shown());

    let json = cluster.run(folder.path(), "verify -o json --timeout 1s").json_lines().pop().unwrap();
    assert_eq!(json["event"], "finished");
    assert_eq!(json["exitCode"], 5);
    let failed = &json["pools"]["gpu"]["nodes"][0];
    assert_eq!(failed["end"]["state"], "failed", "{failed}");
    assert!(failed["explanation"]["lookAt"].as_str().unwrap().contains("journalctl"), "{failed}");
}

#[test]
fn rolls_back_unresponsive_node() {
    let pool = POOL.replace("2m", "2s");
    let files = [("nodecfg.yaml", FLEET), ("pools/gpu/pool.yaml", &pool), ("pools/gpu/kubelet.yaml", KUBELET)];
    let cluster = Cluster::start(&["gpu"], 2, &["gpu-1=deaf"]);
    shows!("sync-rolled-back", cluster.run(Folder::committed(&files).path(), "sync --rollback-on-failure").shown());
}

#[test]
fn reports_contain_result() {
    let pool = POOL.replace("2m", "2s");
    let files = [("nodecfg.yaml", FLEET), ("pools/gpu/pool.yaml", &pool), ("pools/gpu/kubelet.yaml", KUBELET)];
    let (folder, pages) = (Folder::committed(&files), Folder::with(&[]));
    let cluster = Cluster::start(&["gpu"], 2, &["gpu-1=deaf"]);
    let page = pages.path().join("page.md");
    let report = format!("--report markdown={}", page.display());
    assert_eq!(cluster.run(folder.path(), &format!("sync {report}")).exit, 5);
    shows!("sync-timed-out-markdown", std::fs::read_to_string(&page).unwrap());
    assert_eq!(cluster.run(folder.path(), &format!("verify --timeout 1s {report}")).exit, 5);
    let verified = std::fs::read_to_string(&page).unwrap();
    assert!(verified.starts_with("### nodecfg verify: Not done after "), "{verified}");
    // An unsupported report format is rejected before any other work.
    assert_eq!(cluster.run(folder.path(), "sync --report text=page.txt").exit, 2);
}

#[test]
fn closed_pipe_keeps_rollout_and_exit_code() {
    let folder = gpu();
    let cluster = Cluster::start(&["gpu"], 2, &["gpu-2=validate-error"]);
    for format in ["text", "json"] {
        let mut child = cluster
            .command(folder.path(), &format!("sync -o {format}"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut first = [0];
        let mut out = child.stdout.take().unwrap();
        out.read_exact(&mut first).unwrap();
        drop(out);
        assert_eq!(child.wait().unwrap().code(), Some(5), "{format}");
    }
    let status = cluster.run(folder.path(), "status").out;
    assert!(status.contains("1 failed"), "{status}");
}

#[test]
fn dry_run_writes_nothing() {
    let folder = gpu();
    let cluster = Cluster::start(&["gpu"], 2, &[]);
    let before = cluster.embedded().api().revision();
    let dry = cluster.run(folder.path(), "sync --dry-run");
    assert_eq!(dry.exit, 0);
    assert!(dry.out.contains("2 nodes to assign"), "{}", dry.out);
    assert_eq!(cluster.embedded().api().revision(), before);
}

#[test]
fn sandbox_sync_of_example_succeeds() {
    let folder = gpu();
    let mut command = crate::cli::program::nodecfg(folder.path());
    command.args(["sync", "--sandbox", "--sandbox-nodes", "2", "--sandbox-speed", "12"]);
    shows!("sync-sandbox", Run::of(command).shown());
}

#[test]
fn sandbox_soaks_follow_its_speed() {
    let pool = POOL.replace("soak: 1s", "soak: 10m").replace("2m", "1h");
    let files = [("nodecfg.yaml", FLEET), ("pools/gpu/pool.yaml", &pool), ("pools/gpu/kubelet.yaml", KUBELET)];
    let folder = Folder::committed(&files);
    let mut command = crate::cli::program::nodecfg(folder.path());
    command.args(["sync", "--sandbox", "--sandbox-nodes", "2", "--sandbox-speed", "200"]);
    let run = Run::of(command);
    assert_eq!(run.exit, 0, "{}{}", run.out, run.err);
    assert!(run.out.contains("canary, then 10m soak: gpu-1"), "{}", run.out);
    assert!(run.err.contains("on a sandbox cluster at 200 times real speed\n"), "{}", run.err);
    assert!(run.err.contains("gpu canaries converged, soaking for 3s\n"), "{}", run.err);
}

/// Keeps processors busy until dropped.
struct Hog(Arc<AtomicBool>);

impl Hog {
    fn on_half_the_processors() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        for _ in 0..std::thread::available_parallelism().unwrap().get().div_ceil(2) {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || while !stop.load(Ordering::Relaxed) {});
        }
        Self(stop)
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The time limit of a node is 0.3 s of the machine, far less than 500 restarts take.
#[test]
fn sandbox_nodes_do_not_fail_on_a_busy_machine() {
    let pool = "apiVersion: nodecfg.dev/v1alpha1\nkind: NodePool\nmetadata:\n  name: gpu\nspec:\n  rollout:\n    maxUnavailable: 100%\n    convergenceTimeout: 5m\n";
    let folder = Folder::committed(&[
        ("nodecfg.yaml", FLEET),
        ("pools/gpu/pool.yaml", pool),
        ("pools/gpu/kubelet.yaml", KUBELET),
    ]);
    let mut command = crate::cli::program::nodecfg(folder.path());
    command.args(["sync", "--sandbox", "--sandbox-nodes", "500", "--sandbox-speed", "1000"]);
    let hog = Hog::on_half_the_processors();
    let run = Run::of(command);
    drop(hog);
    let end = run.out.lines().last().unwrap_or_default();
    assert_eq!(
        run.exit,
        0,
        "{end} {}",
        run.err.lines().filter(|line| line.contains("failed")).take(3).collect::<String>()
    );
    assert!(end.contains(". 500 nodes: 500 converged, "), "{end}");
}
