//! Bounds of what reading a snapshot keeps, and its reduction to some files.

use super::*;
use kubelet_config::finding::MAX_PER_FILE;

/// The author of a pull request chooses the number of pools and of wrong values.
#[test]
fn findings_of_a_pool_are_limited_before_the_next_one_is_read() {
    let wrong = "{key: a, operator: x}, ".repeat(3_000);
    let pool = |name: &str| {
        format!(
            "apiVersion: nodecfg.dev/v1alpha1\nkind: NodePool\nmetadata: {{name: {name}}}\n\
             spec: {{nodeSelector: {{matchExpressions: [{wrong}]}}, kubelet: {{local: true}}}}\n"
        )
    };
    let pools = ["a", "b", "c"].map(|name| (format!("pools/{name}/pool.yaml"), pool(name)));
    let snapshot = Snapshot::of_texts(pools.iter().map(|(path, text)| (path.as_str(), text.as_str())));
    let checks = Checks::default();
    let mut files = Files::new(&snapshot, &checks);
    files.desired();
    assert_eq!(files.findings.len(), 3 * (MAX_PER_FILE + 1));
    let built = build(&snapshot, &checks);
    assert!(built.desired.is_none());
    let counts = built.findings.iter().filter(|finding| finding.code == "findings-left-out");
    let counts: Vec<&str> = counts.map(|finding| finding.message.as_str()).collect();
    let expected =
        ["a", "b", "c"].map(|name| format!("2900 further findings about pools/{name}/pool.yaml are not listed"));
    assert_eq!(counts, expected);
}

const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

/// Pools and codes of findings that concern these paths.
fn concerned(paths: &[&str]) -> (Vec<String>, Vec<String>) {
    let pool = |name: &str, spec: &str| {
        format!(
            "apiVersion: nodecfg.dev/v1alpha1\nkind: NodePool\nmetadata: {{name: {name}}}\nspec: {{kubelet: {spec}}}\n"
        )
    };
    let snapshot = Snapshot::of_texts([
        ("base/kubelet.yaml", HEAD),
        ("base/old.yaml", HEAD),
        ("pools/a/pool.yaml", pool("a", "{base: ../../base/kubelet.yaml, patches: [patch.yaml]}").as_str()),
        ("pools/a/patch.yaml", "maxPod: 5\n"),
        ("pools/ab/kubelet.yaml", format!("{HEAD}port: x\n").as_str()),
        ("pools/c/pool.yaml", pool("c", "{base: ../../base/kubelet.yaml, patches: [missing.yaml]}").as_str()),
        ("pools/c/spare.yaml", "maxPods: 5\n"),
    ]);
    let paths = paths.iter().map(|path| (*path).to_owned()).collect();
    let built = build(&snapshot, &Checks::default()).concerning(&paths);
    (built.files.into_keys().collect(), built.findings.iter().map(|finding| finding.code.to_owned()).collect())
}

#[test]
fn keeps_pools_that_use_the_files() {
    for (paths, pools, codes) in [
        (&["base/kubelet.yaml"][..], &["a", "c"][..], &["unknown-field", "bad-path", "unused-file"][..]),
        (&["pools/a"], &["a"], &["unknown-field"]),
        (&["pools/a/patch.yaml"], &["a"], &["unknown-field"]),
        (&["pools/ab/kubelet.yaml"], &["ab"], &["wrong-type"]),
        (&["pools/c/spare.yaml"], &["c"], &["bad-path", "unused-file"]),
        (&["pools"], &["a", "ab", "c"], &["unknown-field", "wrong-type", "bad-path", "unused-file"]),
        (&["base/old.yaml"], &[], &["unused-file"]),
        (&["elsewhere.yaml"], &[], &[]),
    ] {
        let (found_pools, found_codes) = concerned(paths);
        assert_eq!(
            (found_pools, found_codes),
            (pools.iter().map(|s| (*s).to_owned()).collect(), codes.iter().map(|s| (*s).to_owned()).collect()),
            "{paths:?}"
        );
    }
}
