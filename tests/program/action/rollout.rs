//! Tests of commands with a cluster: a sandbox that this process serves.

use std::path::PathBuf;

use nodecfg_contract::names::PoolName;
use nodecfg_sandbox::server::serve::Serving;
use nodecfg_sandbox::{Embedded, EmbeddedOptions, machines, nodes};
use tokio::runtime::Runtime;

use crate::action::github::Github;
use crate::action::job::{Job, possible};
use crate::action::workspace::{KUBELET, Workspace};

const POOL: &str = "\
apiVersion: nodecfg.dev/v1alpha1
kind: NodePool
metadata: {name: gpu}
spec: {rollout: {maxUnavailable: 1, allowDisruption: never}}
";

struct Cluster {
    _runtime: Runtime,
    _embedded: Embedded,
    _serving: Serving,
    home: tempfile::TempDir,
}

impl Cluster {
    /// Starts two nodes of the pool gpu.
    fn start(faults: &[&str]) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let faults = faults.iter().map(|fault| fault.parse().unwrap()).collect();
        let options = EmbeddedOptions {
            nodes: machines::Options { seed: 1, speed: 100.0, faults },
            images: 0,
            ..EmbeddedOptions::default()
        };
        let specs = nodes::generic(2, &[PoolName::new("gpu").unwrap()], "v1.21.14").unwrap();
        let (embedded, serving) = runtime.block_on(async {
            let embedded = Embedded::start(options, specs).await.unwrap();
            let serving = embedded.serve(None).await.unwrap();
            (embedded, serving)
        });
        let home = tempfile::tempdir().unwrap();
        embedded.save_kubeconfig(&serving, &home.path().join("kubeconfig")).unwrap();
        // No role of `diff` and `sync` has this right.
        embedded.api().deny("get", "nodes/proxy");
        Self { _runtime: runtime, _embedded: embedded, _serving: serving, home }
    }

    fn path(&self) -> PathBuf {
        self.home.path().join("kubeconfig")
    }

    /// Kubeconfig in the format of a secret.
    fn kubeconfig(&self) -> String {
        std::fs::read_to_string(self.path()).unwrap()
    }
}

fn workspace() -> Workspace {
    Workspace::of(&[("pools/gpu/kubelet.yaml", KUBELET), ("pools/gpu/pool.yaml", POOL)])
}

#[test]
fn plan_sync_and_verify_run_after_merge() {
    if !possible() {
        return;
    }
    let (github, cluster, workspace) = (Github::start(), Cluster::start(&[]), workspace());
    let plans = tempfile::tempdir().unwrap();
    let plan = plans.path().join("plan.json");
    let job = |command: &str| {
        Job::push(&workspace, &github).with("command", command).with("kubeconfig", cluster.kubeconfig())
    };

    let diff = job("diff").with("plan-out", plan.to_str().unwrap()).run();
    diff.passed();
    assert_eq!(diff.output("changed"), "true");
    assert!(diff.output("plan-id").starts_with("p1:"), "{}", diff.output("plan-id"));
    let counts: serde_json::Value = serde_json::from_str(diff.output("counts")).unwrap();
    assert_eq!(counts["cluster"]["assign"], 2, "{counts}");
    assert_eq!(diff.output("plan"), plan.to_str().unwrap());
    assert!(diff.left("kubeconfig").is_empty(), "the kubeconfig is still there");
    assert!(diff.left("../kubeconfigs")[0].exists());
    let modes = std::fs::read_to_string(&diff.left("../kubeconfigs")[0]).unwrap();
    assert!(modes.lines().all(|line| line.starts_with("-rw------- ")), "{modes}");

    let sync = job("sync").with("plan", plan.to_str().unwrap()).run();
    sync.passed();
    assert_eq!((sync.output("changed"), sync.output("counts")), ("true", r#"{"converged":2}"#));
    assert!(sync.summary.contains("### nodecfg sync: Done in "), "{}", sync.summary);
    assert!(sync.log().contains("2 converged"), "{}", sync.log());

    // The plan was made before the sync.
    let stale = job("sync").with("plan", plan.to_str().unwrap()).run();
    stale.failed_in("Pass or fail", "exit code 7");

    let verify = job("verify").run();
    verify.passed();
    assert_eq!(verify.output("changed"), "false");
    assert!(verify.summary.contains("### nodecfg verify: Done in "), "{}", verify.summary);
    let settled = job("diff").with("fail-on", "changes").run();
    settled.passed();
}

#[test]
fn summary_names_failed_nodes() {
    if !possible() {
        return;
    }
    let (github, cluster, workspace) = (Github::start(), Cluster::start(&["gpu-1=validate-error"]), workspace());
    let job = Job::push(&workspace, &github)
        .with("command", "sync")
        .with("kubeconfig-path", cluster.path().to_str().unwrap());
    let outcome = job.run();
    outcome.failed_in("Pass or fail", "exit code 5");
    let summary = &outcome.summary;
    assert!(summary.starts_with("### nodecfg sync: Not done after "), "{summary}");
    assert!(summary.contains("| `gpu-1` | `gpu` | failed | `local` | "), "{summary}");
    // Reason of the stop, next step, and meaning of the failure.
    for part in ["- **stopped:** pool `gpu`: ", "- **next:** ", "- meaning: ", "- see: ", "exit code 5"] {
        assert!(summary.contains(part), "{part}: {summary}");
    }
    assert!(summary.contains("<summary>Plan</summary>"), "{summary}");
    assert!(cluster.path().exists(), "what was there before stays");
}

#[test]
fn unreachable_cluster_is_exit_code_4() {
    if !possible() {
        return;
    }
    let (github, workspace) = (Github::start(), workspace());
    let kubeconfig = "{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}], \
                      clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}], users: [{name: a, user: {token: t}}]}";
    let job = Job::push(&workspace, &github).with("command", "sync").with("kubeconfig", kubeconfig);
    let outcome = job.with("args", "--request-timeout 1s\n--lock-timeout 0s").run();
    outcome.failed_in("Pass or fail", "exit code 4");
    assert!(outcome.summary.contains("127.0.0.1:1"), "{}", outcome.summary);
    assert!(outcome.left("kubeconfig").is_empty());
}
