//! Tests of `diff --against`, without and with a cluster.

use serde_json::{Value, json};

use crate::cli::cluster::Cluster;
use crate::cli::program::{run, shows};
use crate::cli::repository::{FLEET, Folder};

const HEADER: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

fn kubelet(fields: &str) -> String {
    format!("{HEADER}{fields}\n")
}

fn pool(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: nodecfg.dev/v1alpha1\nkind: NodePool\nmetadata: {{name: {name}}}\nspec:\n  kubernetesVersion: \"1.21\"\n  \
         kubelet: {{base: ../../base/kubelet.yaml}}\n{spec}"
    )
}

/// A fleet before the change, with one pool for each kind of change.
fn before() -> Folder {
    let folder = Folder::committed(&[
        ("nodecfg.yaml", FLEET),
        ("base/kubelet.yaml", &kubelet("clusterDNS: [10.96.0.10]\nclusterDomain: cluster.local")),
    ]);
    for name in ["batch", "calm", "edge", "general", "gpu", "old", "web"] {
        folder.write(&format!("pools/{name}/pool.yaml"), &pool(name, "  rollout: {maxUnavailable: 1}\n"));
    }
    folder.write("pools/batch/kubelet.yaml", &kubelet("maxPods: 60"));
    folder.write("pools/calm/kubelet.yaml", &kubelet("maxPods: 25"));
    folder.write("pools/edge/kubelet.yaml", &kubelet("maxPods: 30"));
    folder.write("pools/general/kubelet.yaml", &kubelet("registryPullQPS: 10\nmaxPods: 110"));
    folder.write("pools/gpu/kubelet.yaml", &kubelet("cpuManagerPolicy: none\nkubeReserved: {cpu: 500m}"));
    folder.write("pools/old/kubelet.yaml", &kubelet("maxPods: 20"));
    folder.write("pools/web/kubelet.yaml", &kubelet("podPidsLimit: 4096"));
    folder.commit();
    folder
}

/// The fleet with a change of each kind.
fn after() -> Folder {
    let folder = before();
    folder.write(
        "pools/gpu/kubelet.yaml",
        &kubelet(
            "cpuManagerPolicy: static\nkubeReserved: {cpu: 500m}\nnodeStatusUpdateFrequency: 20s\n\
             staticPodURL: \"http://x/`|<b>@octocat #12\"",
        ),
    );
    folder.write("pools/general/kubelet.yaml", &kubelet("registryPullQPS: 20\nmaxPods: 120"));
    let policy = "  rollout: {maxUnavailable: 25%, canary: {nodes: 2, soak: 90s}, allowDisruption: drain}\n";
    folder.write("pools/batch/pool.yaml", &pool("batch", policy));
    let selection =
        "  priority: 5\n  nodeSelector: {matchLabels: {nodecfg.dev/pool: web}}\n  rollout: {maxUnavailable: 1}\n";
    folder.write("pools/edge/pool.yaml", &pool("edge", selection));
    folder.write("pools/calm/kubelet.yaml", &kubelet("# Enough for everybody.\nmaxPods:   25"));
    folder.write("pools/fresh/pool.yaml", &pool("fresh", ""));
    folder.write("pools/fresh/kubelet.yaml", &kubelet("maxPods: 64"));
    folder.remove("pools/old/pool.yaml");
    folder.remove("pools/old/kubelet.yaml");
    folder.commit();
    folder
}

/// The command in the summary of warnings shows these warnings, also for another revision.
#[test]
fn named_command_shows_summarized_warnings() {
    let folder = Folder::committed(&[
        ("nodecfg.yaml", FLEET),
        ("pools/gpu/kubelet.yaml", &kubelet("evictionHard: {memory.available: 1Gi}")),
    ]);
    folder.write("pools/gpu/kubelet.yaml", &kubelet("evictionHard: {memory.available: 2Gi}\nclusterDNS: [10.96.0.10]"));
    folder.commit();
    for (arguments, warnings, codes) in [
        ("diff --against HEAD~1", "2 warnings", &["eviction-defaults-lost", "cluster-domain-missing"][..]),
        ("diff --against HEAD --rev HEAD~1", "1 warning", &["eviction-defaults-lost"]),
    ] {
        let diff = run(folder.path(), arguments);
        assert!(
            diff.err.contains(&format!("warning: the configuration has {warnings}; run `nodecfg ")),
            "{}",
            diff.shown()
        );
        let command = diff.err.split('`').nth(1).expect("a command");
        let words = shlex::split(command).expect("words");
        let validate = run(folder.path(), &words[1..].join(" "));
        assert_eq!(validate.exit, 0, "{}", validate.shown());
        for code in codes {
            assert!(validate.out.contains(code) && !diff.err.contains(code), "{command}\n{}", validate.shown());
        }
        let verbose = run(folder.path(), &format!("{arguments} -v"));
        assert!(codes.iter().all(|code| verbose.err.contains(code)), "{}", verbose.shown());
    }
}

#[test]
fn prints_two_revisions_in_every_format() {
    let folder = after();
    shows!("against", run(folder.path(), "diff --against HEAD^1").shown());
    shows!("against-markdown", run(folder.path(), "diff --against HEAD^1 -o markdown").shown());
    shows!("against-json", run(folder.path(), "diff --against HEAD^1 -o json").shown());
    let yaml = run(folder.path(), "diff --against HEAD^1 -o yaml");
    assert!(yaml.out.starts_with("formatVersion: 1\nkind: Diff\nchanged: true\nworst: drain\n"), "{}", yaml.shown());
    let all = run(folder.path(), "diff --against HEAD^1 -v");
    assert!(all.out.contains("[kubernetes.io/docs/tasks/"), "the sources: {}", all.shown());
}

#[test]
fn prints_two_revisions_and_cluster() {
    let folder = before();
    let cluster = Cluster::start(&["batch", "calm", "edge", "general", "gpu", "old", "web"], 2, &[]);
    assert_eq!(cluster.run(folder.path(), "sync").exit, 0);
    // A different repository with the same first commit.
    let folder = after();
    let with = "diff --against HEAD^1 --context nodecfg-sandbox";
    shows!("against-cluster", cluster.run(folder.path(), with).shown());
    shows!("against-cluster-markdown", cluster.run(folder.path(), &format!("{with} -o markdown")).shown());
    let json = cluster.run(folder.path(), &format!("{with} -o json"));
    let json: Value = serde_json::from_str(&json.out).unwrap();
    let moves = json["cluster"]["moves"].as_array().unwrap();
    assert!(moves.contains(&json!({"node": "web-1", "from": "web", "to": "edge"})), "{json}");
    // Without a named cluster, options that depend on a cluster are rejected.
    for allowance in ["--take-over", "--allow-empty"] {
        let alone = cluster.run(folder.path(), &format!("diff --against HEAD^1 {allowance}"));
        assert_eq!((alone.exit, alone.out.as_str()), (2, ""), "{}", alone.shown());
        assert!(alone.err.contains("a comparison of revisions reads none"), "{}", alone.shown());
        assert_ne!(cluster.run(folder.path(), &format!("{with} {allowance}")).exit, 2);
    }
    cluster.embedded().api().deny("list", "nodes");
    assert_eq!(cluster.run(folder.path(), "diff --against HEAD^1").exit, 1);
}

#[test]
fn compares_a_merge_commit_with_its_first_parent() {
    let folder = before();
    let git = |arguments: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.current_dir(folder.path()).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        command.args(["-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "commit.gpgsign=false"]);
        let output = command.args(arguments).output().unwrap();
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let main = git(&["rev-parse", "HEAD"]);
    git(&["checkout", "--quiet", "--detach"]);
    git(&["commit", "--quiet", "--allow-empty", "--message", "change"]);
    let change = git(&["rev-parse", "HEAD"]);
    git(&["checkout", "--quiet", "--detach", &main]);
    git(&["commit", "--quiet", "--allow-empty", "--message", "meanwhile"]);
    let target = git(&["rev-parse", "HEAD"]);
    git(&["merge", "--quiet", "--no-ff", "--message", "merge", &change]);
    let merge = git(&["rev-parse", "HEAD"]);

    let of = |commit: &str, more: &str| run(folder.path(), &format!("diff --merge-of {commit} -o json {more}"));
    let merged = of(&change, "");
    let document: Value = serde_json::from_str(&merged.out).unwrap_or_else(|_| panic!("{}", merged.shown()));
    assert_eq!((&document["from"]["commit"], &document["to"]["commit"]), (&json!(target), &json!(merge)), "{document}");
    // Only the second parent of the revision is the merged commit.
    for (commit, revision) in
        [(&target, "HEAD"), (&merge, "HEAD"), (&main, "HEAD"), (&change, &change), (&main, &change)]
    {
        let refused = of(commit, &format!("--rev {revision}"));
        assert_eq!(refused.exit, 3, "{}", refused.shown());
        assert!(refused.out.contains("is not the merge commit of"), "{}", refused.shown());
    }
    let octopus =
        git(&["commit-tree", "-p", &target, "-p", &change, "-p", &main, "-m", "three", &format!("{merge}^{{tree}}")]);
    assert_eq!(of(&change, &format!("--rev {octopus}")).exit, 3);
    for wrong in ["--against HEAD", "--worktree", "file:///nowhere"] {
        assert_eq!(of(&change, wrong).exit, 2, "{wrong}");
    }
    assert_eq!(of("main", "").exit, 2);
    std::fs::write(folder.path().join(".git/shallow"), format!("{merge}\n")).unwrap();
    let (folder_of_target, file) = target.split_at(2);
    std::fs::remove_file(folder.path().join(".git/objects").join(folder_of_target).join(file)).unwrap();
    let shallow = of(&change, "");
    assert_eq!(shallow.exit, 3, "{}", shallow.shown());
    assert!(shallow.out.contains("lacks") && shallow.out.contains("git fetch --deepen=1"), "{}", shallow.shown());
}

#[test]
fn prints_no_change() {
    let folder = before();
    shows!("against-nothing", run(folder.path(), "diff --against HEAD").shown());
    let markdown = run(folder.path(), "diff --against HEAD -o markdown");
    assert!(markdown.exit == 0 && markdown.out.lines().count() <= 6, "{}", markdown.shown());
    folder.write("pools/calm/kubelet.yaml", &kubelet("# Enough for everybody.\nmaxPods:   25"));
    folder.commit();
    let formatted = run(folder.path(), "diff --against HEAD^1 -o markdown");
    assert_eq!(formatted.exit, 0, "{}", formatted.shown());
    assert!(formatted.out.contains("1 file differs only in formatting"), "{}", formatted.shown());
    // --worktree compares uncommitted changes.
    folder.write("pools/calm/kubelet.yaml", &kubelet("maxPods: 26"));
    assert_eq!(run(folder.path(), "diff --against HEAD").exit, 0);
    assert_eq!(run(folder.path(), "diff --against HEAD --worktree").exit, 1);
}

#[test]
fn limits_markdown_length() {
    let folder = after();
    let whole = run(folder.path(), "diff --against HEAD^1 -o markdown").out;
    for most in [2000, 3000, 5000] {
        let kept = run(folder.path(), &format!("diff --against HEAD^1 -o markdown --max-chars {most}")).out;
        assert!(kept.chars().count() <= most && kept.contains("**Shortened**"), "{kept}");
        assert_eq!(kept.matches("<details>").count(), kept.matches("</details>").count(), "{kept}");
        assert_eq!(kept.lines().next(), whole.lines().next());
    }
    let enough = run(folder.path(), "diff --against HEAD^1 -o markdown --max-chars 65536").out;
    assert_eq!(enough, whole);
    let text = run(folder.path(), "diff --against HEAD^1 --max-chars 65536");
    assert_eq!(text.exit, 2, "{}", text.shown());
    assert_eq!(run(folder.path(), "diff --against HEAD^1 -o markdown --max-chars 100").exit, 2);
}

#[test]
fn accepts_invalid_base_revision() {
    let folder = before();
    folder.write("pools/gpu/kubelet.yaml", "maxPods: [\n");
    folder.write("pools/web/kubelet.yaml", &kubelet("podPidLimit: 1"));
    folder.commit();
    // The change under review fixes both.
    folder.write("pools/gpu/kubelet.yaml", &kubelet("maxPods: 50"));
    folder.write("pools/web/kubelet.yaml", &kubelet("podPidsLimit: 1"));
    folder.commit();
    shows!("against-invalid", run(folder.path(), "diff --against HEAD^1").shown());
    let markdown = run(folder.path(), "diff --against HEAD^1 -o markdown");
    assert!(markdown.out.contains("is invalid"), "{}", markdown.shown());
    // In the other direction, the change is invalid.
    let worse = run(folder.path(), "diff --rev HEAD^1 --against HEAD");
    assert_eq!(worse.exit, 3, "{}", worse.shown());
    // Values that the declared kubelets reject are found without a cluster.
    folder.write("pools/gpu/kubelet.yaml", &kubelet("maxPods: -5"));
    folder.commit();
    let refused = run(folder.path(), "diff --against HEAD^1");
    assert_eq!(refused.exit, 3, "{}", refused.shown());
    assert!(refused.err.contains("max-pods (kubelet 1.21 refuses it)"), "{}", refused.shown());
    let unknown = run(folder.path(), "diff --against nowhere");
    assert!(unknown.exit == 3 && unknown.err.contains("nowhere"), "{}", unknown.shown());
}
