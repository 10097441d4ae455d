//! Tests of the folder with the kubelet's drop-ins.

use super::tests::{CONFIG_DIR, OWN, drop_in, node, open};
use super::*;
use crate::disk::memory::MemoryDisk;

/// A kubelet enters folders, hidden ones too, and reads in the order of each level.
#[test]
fn reads_the_drop_ins_that_a_kubelet_reads() {
    let disk = node();
    let put = |name: &str, text: &str| disk.put(&Path::new(CONFIG_DIR).join(name), text.as_bytes(), 0o644);
    for name in [".hidden/a.conf", "50-site/z.conf", "50-site/below/b.conf", "90-nodecfg.conf.d/c.conf", "91/d.conf"] {
        put(name, &format!("# {name}\n"));
    }
    put("50-site/readme", "no drop-in");
    put("20-image.yaml", "no drop-in");
    let under = open(&disk, &drop_in()).unwrap().underneath(&disk, Placement::Overlay).unwrap();
    let expected = [OWN, "# .hidden/a.conf\n", "podPidsLimit: 5\n", "# 50-site/below/b.conf\n", "# 50-site/z.conf\n"];
    assert_eq!(under.texts().collect::<Vec<_>>(), expected);
}

/// The kubelet does not start with such a folder, or reads other files than it seems.
#[test]
fn refuses_folders_that_a_kubelet_reads_in_another_way() {
    let under = |disk: &MemoryDisk, activation: &Activation| {
        open(disk, activation)
            .and_then(|placer| placer.underneath(disk, Placement::Overlay))
            .map(|found| found.texts().count())
    };
    let disk = node();
    disk.put_link(Path::new(CONFIG_DIR));
    insta::assert_snapshot!(under(&disk, &drop_in()).unwrap_err().to_string(), @"/etc/kubernetes/kubelet.conf.d is a link, and a kubelet reads no file below it: name the folder itself in the kubelet's --config-dir and in --kubelet-config-dir, or end both with a slash");
    let disk = node();
    let followed = Activation::DropIn { config_dir: format!("{CONFIG_DIR}/").into(), config: None };
    assert_eq!(under(&disk, &followed).unwrap(), 1);
    for number in 0..200 {
        disk.put(&Path::new(CONFIG_DIR).join(format!("20-{number}.conf")), b"", 0o644);
    }
    insta::assert_snapshot!(under(&disk, &drop_in()).unwrap_err().to_string(), @"/etc/kubernetes/kubelet.conf.d has 202 files that the kubelet reads, and nodecfg reads at most 64: merge some of them");
    let disk = node();
    disk.put(&Path::new(CONFIG_DIR).join("20-image.conf"), &[0xff], 0o644);
    insta::assert_snapshot!(under(&disk, &drop_in()).unwrap_err().to_string(), @"/etc/kubernetes/kubelet.conf.d/20-image.conf is not UTF-8 text: the kubelet does not start with its --config-dir; correct or remove the file");
    let disk = node();
    disk.put_link(&Path::new(CONFIG_DIR).join("20-image.conf"));
    insta::assert_snapshot!(under(&disk, &drop_in()).unwrap_err().to_string(), @"/etc/kubernetes/kubelet.conf.d/20-image.conf is a link to nothing: the kubelet does not start with its --config-dir; correct or remove the file");
    let disk = node();
    disk.put(&Path::new(CONFIG_DIR).join("a/".repeat(40)).join("z.conf"), b"", 0o644);
    assert!(matches!(under(&disk, &drop_in()), Err(PlacementError::TooDeep(_))));
}
