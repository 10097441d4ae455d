//! Tests of the startup taint.

use std::path::Path;

use super::tests::{CONFIG, CONFIG_DIR, files, node, text};
use super::*;
use crate::disk::memory::MemoryDisk;
use nodecfg_contract::pool_pointer::{STARTUP_TAINT, STARTUP_TAINT_EFFECT};

fn add(disk: &MemoryDisk) -> Result<(), BootError> {
    startup_taint::add(disk, Path::new(CONFIG_DIR), Some(Path::new(CONFIG)))
}

fn written(disk: &MemoryDisk) -> String {
    let path = Path::new(CONFIG_DIR).join(startup_taint::DROP_IN);
    String::from_utf8(disk.content(&path).unwrap().to_vec()).unwrap()
}

/// Drop-ins replace lists.
#[test]
fn repeats_taints_in_effect() {
    let disk = node();
    add(&disk).unwrap();
    let alone = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nregisterWithTaints:\n\x20 - effect: NoSchedule\n    key: startup-taint.cluster-autoscaler.kubernetes.io/nodecfg\n";
    assert_eq!(written(&disk), alone);
    add(&disk).unwrap();
    assert_eq!(written(&disk), alone);
    disk.put(Path::new(CONFIG), text("registerWithTaints: [{key: a, effect: NoExecute}]").as_bytes(), 0o644);
    add(&disk).unwrap();
    assert!(
        written(&disk).contains("  - effect: NoExecute\n    key: a\n  - effect: NoSchedule\n"),
        "{}",
        written(&disk)
    );
    // The image may register the taint itself. A kubelet refuses a repeated one.
    let own = format!("registerWithTaints: [{{key: {STARTUP_TAINT}, effect: {STARTUP_TAINT_EFFECT}}}]");
    disk.put(Path::new(CONFIG), text(&own).as_bytes(), 0o644);
    add(&disk).unwrap();
    assert_eq!(written(&disk), alone);
    let later = text("registerWithTaints: [{key: b, value: x, effect: NoSchedule}]");
    disk.put(&Path::new(CONFIG_DIR).join("90-nodecfg.conf"), later.as_bytes(), 0o644);
    add(&disk).unwrap();
    assert!(!written(&disk).contains("key: a") && written(&disk).contains("value: x"), "{}", written(&disk));
    startup_taint::remove(&disk, Path::new(CONFIG_DIR)).unwrap();
    assert!(!files(&disk).keys().any(|path| path.contains("startup-taint")));
    startup_taint::remove(&disk, Path::new(CONFIG_DIR)).unwrap();
}

#[test]
fn reports_taint_without_effect() {
    let disk = node();
    let later = Path::new(CONFIG_DIR).join("99-z.conf");
    disk.put(&later, text("maxPods: 3").as_bytes(), 0o644);
    add(&disk).unwrap();
    disk.put(&later, text("registerWithTaints: []").as_bytes(), 0o644);
    assert!(add(&disk).unwrap_err().to_string().contains("which replaces the taint"));
    disk.put(&later, b"[", 0o644);
    assert!(add(&disk).unwrap_err().to_string().contains("cannot be read"));
}

/// A kubelet reads every `*.conf` of the folder.
#[test]
fn no_crash_leaves_a_partial_drop_in() {
    let disk = node();
    add(&disk).unwrap();
    let (whole, operations) = (written(&disk), disk.operations());
    for (operation, seed) in (0..operations).flat_map(|operation| (0..9).map(move |seed| (operation, seed))) {
        let disk = node();
        disk.kill_at(operation);
        add(&disk).unwrap_err();
        disk.crash(seed);
        let read = |path: &String| path.starts_with(CONFIG_DIR) && path.ends_with(".conf");
        for (path, content) in files(&disk).iter().filter(|(path, _)| read(path)) {
            assert!(path.ends_with("/10-image.conf") || &**content == whole.as_bytes(), "{operation} {path}");
        }
    }
}
