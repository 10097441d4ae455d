//! Tests of `explain` for fields.

use crate::cli::program::{nodecfg, run, shows};

#[test]
fn explains_fields() {
    let folder = tempfile::tempdir().unwrap();
    for (name, arguments) in [
        ("map", "evictionHard"),
        ("old-version", "evictionHard --kubernetes-version 1.28"),
        ("key", "evictionHard.memory.available"),
        ("object", "kubeletconfiguration.logging.options"),
        ("recursive", "logging --recursive"),
        ("list", "registerWithTaints"),
        ("within-a-list", "registerWithTaints[].effect"),
        ("deprecated", "streamingConnectionIdleTimeout"),
        ("gated", "shutdownGracePeriod --kubernetes-version v1.20.15"),
        ("state-file", "cpuManagerPolicy"),
        ("gate", "featureGates.GracefulNodeShutdown --kubernetes-version 1.36"),
        ("json", "eventBurst --kubernetes-version 1.26 -o json"),
        ("yaml", "logging.options --recursive -o yaml"),
        ("markdown", "enforceNodeAllocatable -o markdown"),
    ] {
        let shown = run(folder.path(), &format!("explain {arguments}"));
        assert_eq!(shown.exit, 0, "{arguments}");
        shows!(format!("explain-{name}"), shown.shown());
    }
}

#[test]
fn reports_unknown_fields() {
    let folder = tempfile::tempdir().unwrap();
    let mut all = String::new();
    for arguments in [
        "evictionHrad",
        "MaxPods",
        "clientCAFile",
        "MemoryManager",
        "logging.option",
        "maxPods.something",
        "evictionHard.memory.availible",
        "podLogsDir --kubernetes-version 1.29",
        "logging.sanitization",
        "featureGates.NodeSwp",
        "featureGates.NodeSwap --kubernetes-version 1.21",
        "maxPods --kubernetes-version 1.15",
        "evictionHrad -o json",
    ] {
        let shown = run(folder.path(), &format!("explain {arguments}"));
        assert_eq!(shown.exit, 2, "{arguments}");
        all.push_str(&shown.shown());
    }
    shows!("explain-absent", all);
}

#[test]
fn lists_all_fields() {
    let folder = tempfile::tempdir().unwrap();
    let newest = run(folder.path(), "explain");
    let oldest = run(folder.path(), "explain --kubernetes-version 1.16");
    for (shown, has) in [(&newest, true), (&oldest, false)] {
        assert_eq!((shown.exit, shown.err.as_str()), (0, ""));
        assert!(shown.out.contains("\n  maxPods <integer>\n"), "{}", shown.out);
        assert_eq!(shown.out.contains("\n  podLogsDir <string>\n"), has);
        assert!(shown.out.lines().all(|line| line.len() <= 80));
    }
    assert!(newest.out.contains("\n  iptablesDropBit <integer> deprecated\n"));
    let tree = run(folder.path(), "explain --recursive");
    assert!(tree.out.contains("\n  authentication <Object>\n    x509 <Object>\n      clientCAFile <string>\n"));
}

#[test]
fn uses_colors_on_request_only() {
    let folder = tempfile::tempdir().unwrap();
    let with = |arguments: &[&str]| {
        let mut command = nodecfg(folder.path());
        command.args(["explain", "maxPods"]).args(arguments);
        crate::cli::program::Run::of(command).out
    };
    assert!(!with(&[]).contains('\u{1b}'));
    assert!(with(&["--color", "always"]).contains("\u{1b}[1mFIELD:"));
}
