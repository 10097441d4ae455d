//! Bounds of what reading a snapshot keeps.

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
