//! Tests of `validate` on repositories.

use crate::cli::program::{run, shows};
use crate::cli::repository::{FLEET, Folder, KUBELET, POOL, gpu};

const HEADER: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

fn one_pool(kubelet: &str) -> Folder {
    Folder::committed(&[("nodecfg.yaml", FLEET), ("pools/gpu/kubelet.yaml", kubelet)])
}

#[test]
fn accepts_valid_repository() {
    let folder = gpu();
    shows!("validate-good", run(folder.path(), "validate").shown());
    shows!("validate-good-json", run(folder.path(), "validate -o json").shown());
    shows!("validate-good-markdown", run(folder.path(), "validate -o markdown").shown());
}

#[test]
fn prints_bad_files_as_text() {
    let bomb = format!(
        "{HEADER}a: &a [x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c]\n\
         e: &e [*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n"
    );
    for (name, kubelet) in [
        ("malformed", format!("{HEADER}maxPods: [1\nfoo: }}\n")),
        ("duplicate-key", format!("{HEADER}maxPods: 10\nmaxPods: 11\n")),
        ("bomb", bomb),
        ("unknown-field", format!("{HEADER}maxPod: 10\n")),
        ("wrong-kind", "apiVersion: v1\nkind: Pod\n".to_owned()),
        ("ambiguous", format!("{HEADER}clusterDomain: yes\n")),
    ] {
        shows!(format!("validate-{name}"), run(one_pool(&kubelet).path(), "validate").shown());
    }
}

/// A repository with several_findings findings in two files.
fn several_findings() -> Folder {
    let pool = POOL.replace("maxUnavailable: 1", "maxUnavailable: 0").replace("gpu}", "gqu}");
    Folder::committed(&[
        ("nodecfg.yaml", FLEET),
        ("pools/gpu/pool.yaml", &pool),
        ("pools/gpu/kubelet.yaml", &format!("{KUBELET}maxPod: 1\nmaxPods: 2\n")),
    ])
}

#[test]
fn prints_findings_in_every_format() {
    let folder = several_findings();
    shows!("validate-several", run(folder.path(), "validate").shown());
    shows!("validate-several-json", run(folder.path(), "validate -o json").shown());
    shows!("validate-several-yaml", run(folder.path(), "validate -o yaml").shown());
    shows!("validate-several-markdown", run(folder.path(), "validate -o markdown").shown());
    shows!("sync-several-json", run(folder.path(), "sync --sandbox -o json").shown());
}

#[test]
fn names_uncommitted_changes_without_reading_them() {
    let folder = gpu();
    folder.write("pools/gpu/kubelet.yaml", "maxPods: [");
    let committed = run(folder.path(), "validate");
    assert_eq!(committed.exit, 0);
    assert!(committed.out.contains("uncommitted changes are not used: pools/gpu/kubelet.yaml"), "{}", committed.out);
    assert_eq!(run(folder.path(), "validate --worktree").exit, 3);
}

#[test]
fn uses_colors_on_request_only() {
    let folder = several_findings();
    let plain = run(folder.path(), "validate").out;
    assert!(!plain.contains('\x1b'));
    let colored = run(folder.path(), "validate --color always").out;
    assert!(colored.contains('\x1b'));
    assert_eq!(anstream::adapter::strip_str(&colored).to_string(), plain);
}
