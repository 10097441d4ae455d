//! Hosts made for each need. The recorded starts of real kubelets (`tests/data/startup-errors.jsonl`) say which
//! configurations need what.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use kubelet_config::document::Document;
use kubelet_config::{Minor, verdict};
use serde_json::{Value, json};

use super::*;

/// A host with two CPUs, 24 GiB, cgroup v1 and no systemd, as that of the recordings. Its only kubelet is process 7.
struct TestHost {
    folder: tempfile::TempDir,
}

impl TestHost {
    fn new() -> Self {
        let host = Self { folder: tempfile::tempdir().expect("a folder") };
        for controller in CONTROLLERS {
            host.make_folder(&format!("/sys/fs/cgroup/{controller}/n2"));
        }
        host.put("/sys/devices/system/cpu/online", "0-1\n");
        host.put("/sys/devices/system/cpu/present", "0-1\n");
        host.put("/sys/devices/system/node/online", "0\n");
        host.put("/etc/kubernetes/not-pem", "not a certificate\n");
        host.put("/proc/meminfo", "MemTotal:       24684092 kB\nMemFree:        1 kB\n");
        host.put("/proc/swaps", "Filename Type Size Used Priority\n");
        host.put_proc("stat", "cpu 1 2\nbtime 1000\n");
        for pid in ["self", "7"] {
            host.put_proc(&format!("{pid}/comm"), "kubelet\n");
            host.put_proc(&format!("{pid}/stat"), "7 (kubelet) S 1 0 0");
            host.put_proc(&format!("{pid}/status"), "Name:\tkubelet\nNSpid:\t7\n");
        }
        fs::create_dir_all(host.proc().join("7/fd")).expect("created");
        symlink("socket:[71]", host.proc().join("7/fd/3")).expect("linked");
        symlink(host.root(), host.proc().join("7/root")).expect("linked");
        host.put_proc(
            "7/net/tcp",
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
             0: 00000000:34BC 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 70 1 0 100 0 0 10 0\n   \
             1: 0100007F:2711 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 71 1 0 100 0 0 10 0\n   \
             2: 0100007F:2712 00000000:0000 01 00000000:00000000 00:00000000 00000000 0 0 72 1 0 100 0 0 10 0\n",
        );
        host.put_proc(
            "7/net/fib_trie",
            "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n     |-- 10.0.0.0\n        \
             /24 link UNICAST\nLocal:\n     |-- 10.0.0.5\n        /32 host LOCAL\n     |-- 192.168.8.0\n        \
             /24 host LOCAL\n     |-- 10.0.0.255\n        /32 link BROADCAST\n",
        );
        host.put_proc("7/net/if_inet6", "fd00000000000000000000000000000a 02 40 00 80 eth0\n");
        host
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    fn proc(&self) -> PathBuf {
        self.folder.path().join("proc")
    }

    /// A path of the host, as this test sees it.
    fn at(&self, path: &str) -> PathBuf {
        self.root().join(path.trim_start_matches('/'))
    }

    fn put(&self, path: &str, text: &str) {
        put(&self.at(path), text);
    }

    fn put_proc(&self, name: &str, text: &str) {
        put(&self.proc().join(name), text);
    }

    fn make_folder(&self, path: &str) {
        fs::create_dir_all(self.at(path)).expect("created");
    }

    fn unmet(&self, need: HostNeed) -> Option<Unmet> {
        let view = HostView::new(&self.proc(), &self.at("/var/lib/kubelet"), None).expect("one kubelet");
        view.unmet(&[need]).pop().expect("an answer")
    }

    /// What the host says of a need, as people see it; empty if the host has it.
    fn says(&self, need: HostNeed) -> String {
        self.unmet(need).map(|unmet| unmet.to_string()).unwrap_or_default()
    }
}

fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a parent")).expect("created");
    fs::write(path, text).expect("written");
}

/// Recorded starts that this host cannot decide, with the reason.
const UNDECIDED: [(&str, &str); 4] = [
    ("cpuManager-state-corrupt", "the kubelet's checksum is of a Go structure"),
    ("podLogsDir-unwritable", "needs a file system of the kernel: see `folders_are_created_where_a_program_can`"),
    ("gate-unknown", "the build of 1.36 of the recordings only warns about unknown gates"),
    ("anonymous-webhook-standalone", "the kubelet has no kubeconfig"),
];

#[test]
fn decides_as_real_kubelets_did() {
    let (mut wrong, mut refused) = (Vec::new(), 0);
    for line in include_str!("../../../../tests/data/startup-errors.jsonl").lines() {
        let start: Value = serde_json::from_str(line).expect("JSON");
        let id = start["id"].as_str().expect("a name");
        let minor = Minor::parse(start["kubelet"].as_str().expect("a version")).expect("a minor");
        let mut whole: Value =
            serde_json::from_str(include_str!("../../../../tests/data/startup-base.json")).expect("JSON");
        let fields = whole.as_object_mut().expect("an object");
        if minor == Minor(36) {
            fields.insert("failCgroupV1".to_owned(), json!(false));
        }
        fields.extend(start["config"].as_object().expect("an object").clone());
        let document = Document::parse("kubelet.json", &whole.to_string()).document.expect("a document");
        let verdict = verdict::assess(&document, minor);
        if !verdict.runs() || UNDECIDED.iter().any(|(undecided, _)| *undecided == id) {
            continue;
        }
        let host = TestHost::new();
        for (file, content) in start["state"].as_object().into_iter().flatten() {
            host.put(&format!("/var/lib/kubelet/{file}"), content.as_str().expect("a text"));
        }
        let needs = verdict.host_conditions.into_iter().filter_map(|condition| condition.need);
        let unmet: Vec<String> = needs.map(|need| host.says(need)).filter(|text| !text.is_empty()).collect();
        refused += usize::from(!unmet.is_empty());
        let exits = start["exits"].as_bool().expect("a boolean");
        if exits == unmet.is_empty() {
            wrong.push(format!("{id} {minor} exits: {exits}, unmet: {unmet:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(refused >= 26, "only {refused} configurations were refused");
}

#[test]
fn files_are_looked_up_below_the_root_of_the_kubelet() {
    let host = TestHost::new();
    let made = rcgen::generate_simple_self_signed(vec!["node".to_owned()]).expect("a certificate");
    let other = rcgen::generate_simple_self_signed(vec!["node".to_owned()]).expect("a certificate");
    host.put("/etc/ca.crt", &made.cert.pem());
    host.put("/etc/tls.key", &made.signing_key.serialize_pem());
    host.put("/etc/other.key", &other.signing_key.serialize_pem());
    host.make_folder("/etc/folder");
    // An absolute link leads to the same place for the kubelet, not to that of this process.
    symlink("/etc/ca.crt", host.at("/etc/link.crt")).expect("linked");
    symlink("/../../../etc/ca.crt", host.at("/etc/dots.crt")).expect("linked");
    symlink("/etc/loop", host.at("/etc/loop")).expect("linked");
    let certificates = |path: &str| host.says(HostNeed::Certificates(path.to_owned()));
    for good in ["/etc/ca.crt", "/etc/link.crt", "/etc/dots.crt"] {
        assert_eq!(certificates(good), "", "{good}");
    }
    assert_eq!(certificates("/nope/ca.crt"), "/nope/ca.crt does not exist on this host");
    assert_eq!(certificates("/etc/ca.crt/x"), "/etc/ca.crt/x does not exist on this host");
    assert_eq!(certificates("/etc/folder"), "/etc/folder is no regular file on this host");
    assert_eq!(certificates("/etc/tls.key"), "/etc/tls.key has no PEM certificate on this host");
    // Unknown: a relative path, an endless link, a huge file.
    File::create(host.at("/etc/huge")).and_then(|file| file.set_len(2 * MAX_FILE)).expect("created");
    for unknown in ["etc/nope", "/etc/loop", "/etc/huge", "/etc/\0"] {
        assert_eq!(certificates(unknown), "", "{unknown}");
    }
    // A file of the kernel: reading it may have effects.
    let real = HostView::new(&host.proc(), Path::new("/var/lib/kubelet"), None)
        .map(|view| HostView { root: PathBuf::from("/"), ..view });
    let need = [HostNeed::Certificates("/proc/version".to_owned())];
    assert_eq!(real.expect("one kubelet").unmet(&need), [None]);
    let pair =
        |key: &str| host.says(HostNeed::KeyPair { certificate: "/etc/ca.crt".to_owned(), key: format!("/etc/{key}") });
    assert_eq!(pair("tls.key"), "");
    assert_eq!(pair("other.key"), "/etc/other.key is not the private key of /etc/ca.crt on this host");
    assert_eq!(pair("ca.crt"), "/etc/ca.crt has no PEM private key on this host");
    assert_eq!(pair("no.key"), "/etc/no.key does not exist on this host");
    host.put("/etc/odd.key", "-----BEGIN ODD PRIVATE KEY-----\n");
    assert_eq!(pair("odd.key"), "", "a kind of key that this program does not know");
}

#[test]
fn sockets_need_not_answer() {
    let host = TestHost::new();
    host.make_folder("/run");
    drop(UnixListener::bind(host.at("/run/c.sock")).expect("bound"));
    assert_eq!(host.says(HostNeed::Socket("/run/c.sock".to_owned())), "");
    assert_eq!(host.says(HostNeed::Socket("/run/no.sock".to_owned())), "/run/no.sock does not exist on this host");
    assert_eq!(host.says(HostNeed::Socket("/run".to_owned())), "/run is no socket on this host");
}

#[test]
fn folders_are_created_where_a_program_can() {
    let host = TestHost::new();
    host.put("/var/file", "");
    let folder = |path: &str| host.says(HostNeed::Folder(path.to_owned()));
    for good in ["/var", "/var/log/pods", "/new"] {
        assert_eq!(folder(good), "", "{good}");
    }
    assert_eq!(folder("/var/file"), "/var/file is no folder on this host");
    assert_eq!(folder("/var/file/x"), "/var/file/x does not exist on this host, and cannot be created there");
    // The file system of the kernel that this test has.
    fs::remove_file(host.proc().join("7/root")).expect("removed");
    symlink("/", host.proc().join("7/root")).expect("linked");
    assert_eq!(folder("/proc/nope"), "/proc/nope does not exist on this host, and cannot be created there");
}

#[test]
fn cgroups_have_the_names_of_either_driver() {
    let host = TestHost::new();
    let cgroup = |paths: &[&str]| host.says(HostNeed::Cgroup(paths.iter().map(|path| (*path).to_owned()).collect()));
    assert_eq!(cgroup(&["n2", "n2.slice"]), "");
    assert_eq!(cgroup(&["nope", "nope.slice"]), "this host has no cgroup /nope");
    assert_eq!(host.says(HostNeed::CgroupV2), "this host has cgroup v1");
    assert_eq!(cgroup(&["../../../etc"]), "this host has no cgroup /../../../etc", "whatever is there");
    fs::remove_dir(host.at("/sys/fs/cgroup/pids/n2")).expect("removed");
    assert_eq!(cgroup(&["n2"]), "this host has no cgroup /n2", "the kubelet wants it in every hierarchy");
    host.put("/sys/fs/cgroup/cgroup.controllers", "cpu\n");
    assert_eq!(host.says(HostNeed::CgroupV2), "");
    assert_eq!(cgroup(&["n2"]), "this host has no cgroup /n2");
    host.make_folder("/sys/fs/cgroup/n2.slice");
    assert_eq!(cgroup(&["n2", "n2.slice"]), "");
    fs::remove_dir_all(host.at("/sys/fs/cgroup")).expect("removed");
    assert_eq!((host.says(HostNeed::CgroupV2), cgroup(&["n2"])), Default::default(), "unknown");
}

#[test]
fn machine_has_cpus_memory_and_numa_nodes() {
    let host = TestHost::new();
    assert_eq!(host.says(HostNeed::Cpus(vec![(0, 0), (1, 1)])), "");
    assert_eq!(host.says(HostNeed::Cpus(vec![(0, 2)])), "this host has only the CPUs 0-1 online");
    assert_eq!(host.says(HostNeed::CpuMillis(2000)), "");
    assert_eq!(host.says(HostNeed::CpuMillis(2001)), "this host has 2 CPUs, and 2001m are reserved");
    let capacity = 24_684_092 * 1024;
    let kept = |bytes, percent: Option<&str>| KeptMemory { bytes, percent: percent.map(str::to_owned) };
    assert_eq!(host.says(HostNeed::Memory(kept(capacity, None))), "");
    let message = "this host has 25276510208 bytes of memory, and 25276510209 are reserved";
    assert_eq!(host.says(HostNeed::Memory(kept(capacity + 1, None))), message);
    assert_eq!(host.says(HostNeed::Memory(kept(capacity / 2, Some("50")))), "");
    assert_ne!(host.says(HostNeed::Memory(kept(capacity / 2 + 1, Some("50")))), "");
    let sum = |sum, kept| host.says(HostNeed::ReservedMemory { sum, kept });
    assert_eq!(sum(capacity / 2 + 7, kept(7, Some("50"))), "");
    assert!(sum(capacity / 2, kept(7, Some("50"))).starts_with("reservedMemory has 12638255104 bytes of memory, and "));
    assert_eq!(host.says(HostNeed::NumaNodes(vec![0, 7])), "this host has no NUMA node 7");
    assert_eq!(host.says(HostNeed::NumaNodesAtMost(1)), "");
    host.put("/sys/devices/system/node/online", "0-8\n");
    assert_eq!(host.says(HostNeed::NumaNodesAtMost(8)), "this host has 9 NUMA nodes");
    assert_eq!(host.says(HostNeed::SwapOff), "");
    host.put("/proc/swaps", "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n");
    assert_eq!(host.says(HostNeed::SwapOff), "swap is on on this host");
    assert_eq!(host.says(HostNeed::Systemd), "systemd does not run on this host");
    host.make_folder("/run/systemd/system");
    assert_eq!(host.says(HostNeed::Systemd), "");
    for broken in ["", "x", "0-"] {
        host.put("/sys/devices/system/cpu/online", broken);
        host.put("/proc/meminfo", broken);
        let needs = [HostNeed::Cpus(vec![(9, 9)]), HostNeed::Memory(kept(u64::MAX, None))];
        assert_eq!(needs.map(|need| host.unmet(need)), [None, None], "unknown: {broken:?}");
    }
}

#[test]
fn state_files_are_of_the_policy() {
    let host = TestHost::new();
    let file = StateFile::CpuManagerState;
    let state = |policy: &str| host.unmet(HostNeed::StateFile { file, policy: policy.to_owned() });
    assert_eq!(state("static"), None);
    host.put("/var/lib/kubelet/cpu_manager_state", r#"{"policyName":"none"}"#);
    assert_eq!(state("none"), None);
    assert_eq!(state("static"), Some(Unmet::OtherState { file }));
    host.put("/var/lib/kubelet/cpu_manager_state", "nonsense");
    assert_eq!(state("none"), Some(Unmet::DamagedState { file }));
}

#[test]
fn addresses_and_ports_are_those_of_the_kubelet() {
    let host = TestHost::new();
    let address = |text: &str| host.says(HostNeed::Address(text.to_owned()));
    for good in ["127.0.0.9", "::1", "::0", "::ffff:10.0.0.5", "10.0.0.5", "192.168.8.77", "fd00::a"] {
        assert_eq!(address(good), "", "{good}");
    }
    for bad in ["203.0.113.9", "10.0.0.6", "10.0.0.255", "fd00::b"] {
        assert_eq!(address(bad), format!("this host does not have the address {bad}"));
    }
    assert_eq!(address("010.0.0.6"), "", "a notation that only the kubelet reads is unknown");
    host.put_proc("sys/net/ipv4/ip_nonlocal_bind", "1\n");
    assert_eq!(address("203.0.113.9"), "");
    let port = |address: &str, port| host.says(HostNeed::Port { address: address.to_owned(), port });
    assert_eq!(port("0.0.0.0", 13500), "another program listens on port 13500 of this host");
    assert_eq!(port("10.0.0.5", 13500), "another program listens on port 13500 of this host");
    assert_eq!(port("0.0.0.0", 10001), "", "the kubelet's own");
    assert_eq!(port("0.0.0.0", 10002), "", "a connection, and no listener");
    fs::write(host.proc().join("7/comm"), "k3s-server\n").expect("written");
    symlink(host.root(), host.proc().join("1")).expect("linked");
    let view = HostView::new(&host.proc(), Path::new("/var/lib/kubelet"), Some(&host.root())).expect("a view");
    assert_eq!(view.unmet(&[HostNeed::Port { address: "0.0.0.0".to_owned(), port: 13500 }]), [None], "whose port?");
    fs::write(host.proc().join("7/comm"), "kubelet\n").expect("written");
    fs::remove_file(host.proc().join("7/fd/3")).expect("removed");
    assert_eq!(port("0.0.0.0", 10001), "another program listens on port 10001 of this host");
    assert_eq!(port("10.0.0.5", 10001), "", "that program listens on another address");
}

#[test]
fn view_of_the_kubelet_is_known_or_nothing_is() {
    let host = TestHost::new();
    let view =
        |own_root: Option<PathBuf>| HostView::new(&host.proc(), Path::new("/var/lib/kubelet"), own_root.as_deref());
    assert_eq!(view(None).map(|view| view.root), Some(host.proc().join("7/root")));
    // A process that may not look into the kubelet's, in a pod and on the host.
    fs::remove_file(host.proc().join("7/root")).expect("removed");
    assert!(view(None).is_none());
    assert_eq!(view(Some(host.root())).map(|view| view.root), Some(host.root()));
    // Two kubelets: it is unknown which one sees what.
    host.put_proc("8/comm", "kubelet\n");
    host.put_proc("8/stat", "8 (kubelet) S 1 0 0");
    host.put_proc("8/status", "NSpid:\t8\n");
    assert!(view(Some(host.root())).is_none());
}
