//! Typical mistakes of new users: the output says what is wrong, where and why, and its fix works when applied.

use std::fmt::Write as _;

use crate::cli::cluster::Cluster;
use crate::cli::program::{Run, run, shows};
use crate::cli::repository::{FLEET, Folder};

const HEADER: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
const POOL: &str = "\
apiVersion: nodecfg.dev/v1alpha1
kind: NodePool
metadata:
  name: gpu
spec:
  kubernetesVersion: \"1.36\"
  nodeSelector:
    matchLabels: {accelerator: h200}
  kubelet:
    patches: [tuning.yaml]
";
const TUNING: &str = "podPidsLimit: 4096\n";
const EDGE: &str =
    "apiVersion: nodecfg.dev/v1alpha1\nkind: NodePool\nmetadata: {name: edge}\nspec: {kubernetesVersion: \"1.36\"}\n";

/// A repository without findings.
fn repository() -> Folder {
    Folder::committed(&[
        ("nodecfg.yaml", FLEET),
        ("pools/gpu/pool.yaml", POOL),
        ("pools/gpu/kubelet.yaml", &format!("{HEADER}maxPods: 32\n")),
        ("pools/gpu/tuning.yaml", TUNING),
        ("pools/edge/pool.yaml", EDGE),
        ("pools/edge/kubelet.yaml", &format!("{HEADER}maxPods: 30\n")),
    ])
}

/// A mistake in one file, and its fix.
struct Mistake {
    name: &'static str,
    file: &'static str,
    /// The text of the file without the mistake, replaced by the mistake.
    wrong: (&'static str, &'static str),
    exit: i32,
    /// Line and column of the mistake.
    place: &'static str,
    /// Why it is a mistake.
    why: &'static str,
    help: &'static str,
    /// The part of the wrong text that the help replaces, and its replacement.
    fix: (&'static str, &'static str),
}

const KUBELET: &str = "pools/gpu/kubelet.yaml";
const POOL_FILE: &str = "pools/gpu/pool.yaml";

const MISTAKES: &[Mistake] = &[
    Mistake {
        name: "field-typo",
        file: KUBELET,
        wrong: ("maxPods: 32", "maxPod: 32"),
        exit: 3,
        place: "3:1",
        why: "unknown field \"maxPod\"",
        help: "did you mean \"maxPods\"?",
        fix: ("maxPod", "maxPods"),
    },
    Mistake {
        name: "indentation",
        file: KUBELET,
        wrong: ("maxPods: 32", "systemReserved:\nephemeral-storage: 1Gi"),
        exit: 3,
        place: "4:1",
        why: "unknown field \"ephemeral-storage\"",
        help: "did you mean `systemReserved.ephemeral-storage`?",
        fix: ("\nephemeral-storage", "\n  ephemeral-storage"),
    },
    Mistake {
        name: "misaligned",
        file: KUBELET,
        wrong: ("maxPods: 32", "systemReserved:\n  memory: 1Gi\n cpu: 100m"),
        exit: 3,
        place: "5:2",
        why: "this line is indented by 1",
        help: "indent it by 0 or 2",
        fix: ("\n cpu", "\n  cpu"),
    },
    Mistake {
        name: "unit",
        file: KUBELET,
        wrong: ("maxPods: 32", "systemReserved: {memory: 1GB}"),
        exit: 3,
        place: "3:26",
        why: "is not a quantity",
        help: "write \"1Gi\"",
        fix: ("1GB", "\"1Gi\""),
    },
    Mistake {
        name: "unit-missing",
        file: KUBELET,
        wrong: ("maxPods: 32", "mergeDefaultEvictionSettings: true\nevictionHard: {nodefs.available: 10}"),
        exit: 3,
        place: "4:34",
        why: "must be text, not the number 10",
        help: "write \"10%\" for a share of the capacity",
        fix: (": 10}", ": \"10%\"}"),
    },
    Mistake {
        name: "type",
        file: KUBELET,
        wrong: ("maxPods: 32", "maxPods: \"32\""),
        exit: 3,
        place: "3:10",
        why: "must be a whole number, not the text \"32\"",
        help: "write 32, without quotes",
        fix: ("\"32\"", "32"),
    },
    Mistake {
        name: "two-pools",
        file: "pools/edge/pool.yaml",
        wrong: ("spec: {", "spec: {nodeSelector: {matchLabels: {accelerator: h200}}, "),
        exit: 3,
        place: "pools/gpu/pool.yaml",
        why: "select the same nodes (accelerator=h200) with the same priority",
        help: "set spec.priority: 1",
        fix: ("spec: {", "spec: {priority: 1, "),
    },
    Mistake {
        name: "pool-name",
        file: POOL_FILE,
        wrong: ("name: gpu", "name: gpus"),
        exit: 3,
        place: "4:9",
        why: "the pool name \"gpus\" differs from the folder name \"gpu\"",
        help: "write \"gpu\", or rename the folder to pools/gpus",
        fix: ("gpus", "\"gpu\""),
    },
    Mistake {
        name: "missing-patch",
        file: POOL_FILE,
        wrong: ("[tuning.yaml]", "[tuning.yaml, hugepages.yaml]"),
        exit: 3,
        place: "10:28",
        why: "pools/gpu/hugepages.yaml is missing",
        help: "add the file, or remove the path",
        fix: (", hugepages.yaml", ""),
    },
    Mistake {
        name: "patch-path",
        file: POOL_FILE,
        wrong: ("[tuning.yaml]", "[pools/gpu/tuning.yaml]"),
        exit: 3,
        place: "10:15",
        why: "pools/gpu/pools/gpu/tuning.yaml is missing",
        help: "write tuning.yaml",
        fix: ("pools/gpu/tuning.yaml", "tuning.yaml"),
    },
    Mistake {
        name: "one-signal-eviction",
        file: KUBELET,
        wrong: ("maxPods: 32", "evictionHard:\n  memory.available: 1Gi"),
        exit: 0,
        place: "4:3",
        why: "these signals lose their default thresholds",
        help: "mergeDefaultEvictionSettings: true keeps the defaults",
        fix: ("evictionHard:", "mergeDefaultEvictionSettings: true\nevictionHard:"),
    },
    Mistake {
        name: "deprecated-field",
        file: KUBELET,
        wrong: ("maxPods: 32", "iptablesDropBit: 12"),
        exit: 0,
        place: "3:18",
        why: "`iptablesDropBit` is deprecated since 1.28",
        help: "remove it: no component marks packets for dropping",
        fix: ("iptablesDropBit: 12\n", ""),
    },
    Mistake {
        name: "gate-typo",
        file: KUBELET,
        wrong: ("maxPods: 32", "featureGates: {MemoryQos: true}"),
        exit: 3,
        place: "3:16",
        why: "the kubelet has no feature gate `MemoryQos`",
        help: "did you mean `MemoryQoS`?",
        fix: ("MemoryQos", "MemoryQoS"),
    },
];

#[test]
fn each_mistake_in_a_file_has_a_fix_that_works() {
    let good = run(repository().path(), "validate");
    assert_eq!((good.exit, good.out.lines().next()), (0, Some("Valid: 2 pools")), "{}", good.shown());
    for mistake in MISTAKES {
        let folder = repository();
        let text = std::fs::read_to_string(folder.path().join(mistake.file)).unwrap();
        assert!(text.contains(mistake.wrong.0), "{}", mistake.name);
        let wrong = text.replace(mistake.wrong.0, mistake.wrong.1);
        folder.write(mistake.file, &wrong);
        folder.commit();
        let shown = run(folder.path(), "validate");
        assert_eq!(shown.exit, mistake.exit, "{}: {}", mistake.name, shown.shown());
        // miette wraps lines.
        let flat = shown.out.split_whitespace().collect::<Vec<_>>().join(" ");
        let place = if mistake.place.contains(".yaml") {
            mistake.place.to_owned()
        } else {
            format!("{}:{}", mistake.file, mistake.place)
        };
        for part in [place.as_str(), mistake.why, mistake.help] {
            assert!(flat.contains(part), "{} lacks {part:?}: {}", mistake.name, shown.shown());
        }
        let fixed = wrong.replace(mistake.fix.0, mistake.fix.1);
        assert_ne!(fixed, wrong, "{}", mistake.name);
        folder.write(mistake.file, &fixed);
        folder.commit();
        let again = run(folder.path(), "validate");
        assert_eq!(
            (again.exit, again.out.lines().next()),
            (0, Some("Valid: 2 pools")),
            "{}: {}",
            mistake.name,
            again.shown()
        );
        shows!(format!("mistake-{}", mistake.name), shown.shown());
    }
}

/// The outputs of a command with a mistake and of the same command with its fix.
fn shown(wrong: &Run, exit: i32, parts: &[&str], fixed: &Run, fixed_exit: i32) -> String {
    assert_eq!(wrong.exit, exit, "{}", wrong.shown());
    // Lines are wrapped.
    let flat = format!("{} {}", wrong.out, wrong.err).split_whitespace().collect::<Vec<_>>().join(" ");
    for part in parts {
        assert!(flat.contains(part), "{part:?}: {}", wrong.shown());
    }
    assert_eq!(fixed.exit, fixed_exit, "{}", fixed.shown());
    let mut text = wrong.shown();
    writeln!(text, "with the fix: {}, exit code {}", fixed.line, fixed.exit).unwrap();
    text
}

#[test]
fn each_mistake_in_arguments_has_a_fix_that_works() {
    let folder = repository();
    let path = folder.path();
    let revision = shown(
        &run(path, "validate --rev mastre"),
        3,
        &["no revision \"mastre\"", "master"],
        &run(path, "validate --rev master"),
        0,
    );
    let real = path.canonicalize().unwrap().display().to_string();
    shows!("mistake-revision", revision.replace(&real, "[folder]"));
    let pool = shown(
        &run(path, "history gup"),
        2,
        &["there is no pool gup", "did you mean gpu?"],
        &run(path, "history gpu --no-cluster"),
        0,
    );
    shows!("mistake-pool-argument", pool);
    let empty = Folder::with(&[]);
    let wrong = run(empty.path(), "validate");
    let init = run(empty.path(), "init --no-cluster");
    assert_eq!(init.exit, 0, "{}", init.shown());
    let text = shown(&wrong, 3, &["nothing was checked", "nodecfg init"], &run(empty.path(), "validate"), 0);
    shows!("mistake-no-repository", text);
}

#[test]
fn each_mistake_with_the_cluster_has_a_fix_that_works() {
    let folder = repository();
    let path = folder.path();
    let cluster = Cluster::start(&["gpu"], 1, &[]);
    let good = std::fs::read_to_string(cluster.kubeconfig()).unwrap();
    folder.write("good.kubeconfig", &good);
    let token = good.lines().find_map(|line| line.trim().strip_prefix("token: ")).unwrap();
    folder.write("expired.kubeconfig", &good.replace(token, "\"expired\""));
    let fixed = run(path, "doctor --kubeconfig good.kubeconfig");
    for (name, arguments, parts) in [
        ("no-kubeconfig", "status", &["no cluster: tried --kubeconfig (not given)", "--kubeconfig"][..]),
        ("kubeconfig-path", "status --kubeconfig god.kubeconfig", &["god.kubeconfig", "check the path"]),
        (
            "kubeconfig-context",
            "status --kubeconfig good.kubeconfig --context prod",
            &["no context \"prod\"; it has nodecfg-sandbox", "--context"],
        ),
        (
            "token",
            "status --kubeconfig expired.kubeconfig",
            &["does not accept the credentials", "kubectl auth whoami"],
        ),
    ] {
        let wrong = run(path, arguments);
        let fix = match name {
            "kubeconfig-context" => "status --kubeconfig good.kubeconfig --context nodecfg-sandbox",
            _ => "status --kubeconfig good.kubeconfig",
        };
        let text = shown(&wrong, 4, parts, &run(path, fix), run(path, "status --kubeconfig good.kubeconfig").exit);
        let home = path.join("no-home").display().to_string();
        shows!(format!("mistake-{name}"), text.replace(&home, "[home]"));
    }
    assert!(fixed.exit < 6, "{}", fixed.shown());
}

#[test]
fn each_mistake_between_files_and_cluster_has_a_fix_that_works() {
    let cluster = Cluster::start(&["gpu", "edge"], 1, &[]);
    let of_cluster = |text: &str, label: &str| text.replace("1.36", "1.21").replace("accelerator: h200", label);
    let folder = repository();
    folder.write("pools/edge/pool.yaml", &of_cluster(EDGE, ""));
    folder.write(POOL_FILE, &of_cluster(POOL, "nodecfg.dev/pool: gup"));
    folder.commit();
    let wrong = cluster.run(folder.path(), "diff");
    let selected = of_cluster(POOL, "nodecfg.dev/pool: gpu");
    folder.write(POOL_FILE, &selected);
    // The fix has no effect before it is committed, and the last line says so.
    let uncommitted = cluster.run(folder.path(), "diff");
    let worktree = cluster.run(folder.path(), "diff --worktree");
    let validated = run(folder.path(), "validate");
    folder.commit();
    let fixed = cluster.run(folder.path(), "diff");
    let warning = ["pool gpu selects no node", "gup", "in the nodeSelector of pool gpu", POOL_FILE];
    shows!("mistake-label", shown(&wrong, 1, &warning, &fixed, 1));
    shows!("mistake-dirty-tree", shown(&uncommitted, 1, &["1 uncommitted file not included"], &fixed, 1));
    let place =
        ["uncommitted changes are not used: pools/gpu/pool.yaml", "commit them, or read the files of the folder"];
    shows!("mistake-dirty-tree-validate", shown(&validated, 0, &place, &run(folder.path(), "validate"), 0));
    for fixed in [worktree, fixed] {
        assert!(!fixed.out.contains("selects no node") && !fixed.out.contains("uncommitted"), "{}", fixed.shown());
        assert!(fixed.out.contains("2 nodes to assign"), "{}", fixed.shown());
    }
}
