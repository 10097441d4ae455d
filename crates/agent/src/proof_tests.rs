//! Tests of the comparison of reviewed values with what a kubelet runs.

use std::collections::BTreeMap;

use super::*;
use kubelet_config::gates;

const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
const MINOR: Minor = Minor(36);

fn text(body: &str) -> String {
    format!("{HEAD}{body}\n")
}

fn process(arguments: &[&str]) -> KubeletProcess {
    KubeletProcess { arguments: arguments.iter().map(ToString::to_string).collect(), started: 1_000, pid: 7 }
}

/// A kubelet with this file and these drop-ins.
fn files(file: &str, drop_ins: &[(&str, &str)], drop_in: Option<&'static str>) -> KubeletFiles {
    let entries: BTreeMap<String, FolderEntry> =
        drop_ins.iter().map(|(name, body)| ((*name).to_owned(), FolderEntry::File(text(body)))).collect();
    let root = Some(FolderEntry::Folder(entries));
    let config_dir = (drop_in.is_some() || !drop_ins.is_empty()).then(|| ConfigDir { path: "/d".to_owned(), root });
    KubeletFiles { config: Some(("/f".to_owned(), text(file))), config_dir, changed_at: None, drop_in }
}

/// The overridden values, each as a sentence.
fn found(reviewed: &str, files: &KubeletFiles, arguments: &[&str]) -> Vec<String> {
    let status = compare(Some(&text(reviewed)), files, &process(arguments), MINOR).expect("known");
    assert_eq!(status.source.as_deref(), Some("computed"));
    status.overridden.iter().map(ToString::to_string).collect()
}

#[test]
fn names_field_values_and_cause() {
    let reviewed = "maxPods: 60\npodPidsLimit: 100";
    let own_and_reviewed = "clusterDomain: a.b\nmaxPods: 60\npodPidsLimit: 100";
    let alone = files(own_and_reviewed, &[], None);
    assert!(found(reviewed, &alone, &["--node-ip=10.0.0.1"]).is_empty());
    assert_eq!(found(reviewed, &alone, &["--max-pods=50"]), ["maxPods is 50 by the flag --max-pods, reviewed is 60"]);
    // Not reviewed.
    assert!(found(reviewed, &alone, &["--cluster-domain=x.y"]).is_empty());
    let with_later = files(own_and_reviewed, &[("10-site.conf", "podPidsLimit: 5")], None);
    assert_eq!(found(reviewed, &with_later, &[]), ["podPidsLimit is 5 by the file /d/10-site.conf, reviewed is 100"]);
}

#[test]
fn only_what_comes_after_the_drop_in_overrides_it() {
    let reviewed = "maxPods: 60\nevictionHard: {memory.available: 1Gi}";
    let folder = [("10-first.conf", "maxPods: 10"), ("90-nodecfg.conf", reviewed), ("95-other.conf", "maxPods: 95")];
    let own = "maxPods: 5\nevictionHard: {nodefs.available: 7%}";
    let in_place = files(own, &folder[..2], Some("90-nodecfg.conf"));
    assert!(found(reviewed, &in_place, &[]).is_empty());
    let overridden = files(own, &folder, Some("90-nodecfg.conf"));
    assert_eq!(
        found(reviewed, &overridden, &["--eviction-hard=memory.available<2Gi"]),
        [
            "evictionHard.memory.available is \"2Gi\" by the flag --eviction-hard, reviewed is \"1Gi\"",
            "maxPods is 95 by the file /d/95-other.conf, reviewed is 60",
        ]
    );
}

#[test]
fn lists_what_would_override_another_configuration() {
    let own = files("maxPods: 60", &[("95-other.conf", "podPidsLimit: 7")], Some("90-nodecfg.conf"));
    let arguments = ["--registry-qps=9", "--node-ip=10.0.0.1"];
    let status = compare(None, &own, &process(&arguments), MINOR).expect("known");
    let above: Vec<String> = status.above.iter().map(|set| format!("{} {} {}", set.field, set.value, set.by)).collect();
    assert_eq!(above, ["podPidsLimit 7 /d/95-other.conf", "registryPullQPS 9 --registry-qps"]);
    assert_eq!((status.overridden.len(), status.above_more), (0, 0));
}

#[test]
fn same_values_have_the_same_hash() {
    let hash = |files: &KubeletFiles, arguments: &[&str]| {
        compare(Some(&text("maxPods: 60")), files, &process(arguments), MINOR).expect("known").hash.expect("a hash")
    };
    let plain = hash(&files("maxPods: 60", &[], None), &[]);
    assert!(plain.starts_with("v1:blake3:"));
    assert_eq!(plain, hash(&files("", &[("90-nodecfg.conf", "maxPods: 60")], Some("90-nodecfg.conf")), &[]));
    assert_ne!(plain, hash(&files("maxPods: 60", &[], None), &["--pod-max-pids=9"]));
}

#[test]
fn unknown_is_no_proof() {
    let alone = files("maxPods: 60", &[], None);
    let ends = |files: &KubeletFiles, arguments: &[&str]| {
        compare(Some(&text("maxPods: 60")), files, &process(arguments), MINOR).expect_err("unknown")
    };
    assert_eq!(ends(&alone, &["--no-such-flag=1"]), Unproven::Refused);
    assert_eq!(ends(&files("maxPods: -1", &[], None), &[]), Unproven::Refused);
    let at =
        |second| KubeletFiles { changed_at: Timestamp::from_second(second).ok(), ..files("maxPods: 60", &[], None) };
    assert!(compare(Some(&text("maxPods: 60")), &at(1_002), &process(&[]), MINOR).is_ok(), "a second may be lost");
    assert_eq!(ends(&at(1_003), &[]), Unproven::NotRestarted);
    let known = |text: &str| version(KubeletVersion::parse(text));
    assert_eq!(known("v1.36.2"), Ok(MINOR));
    for text in ["v1.99.0", "v2.36.0", "v1.4.0"] {
        assert_eq!(known(text), Err(Unproven::Version), "{text}");
    }
    assert_eq!(version(None), Err(Unproven::Version));
}

#[test]
fn publishes_a_bounded_number_of_values_and_no_secret() {
    let switches = |gate: &&str| {
        let files = files(&format!("featureGates: {{{gate}: true}}"), &[], None);
        gates::needs(gate, MINOR).next().is_none()
            && compare(Some(&text("")), &files, &process(&[&format!("--feature-gates={gate}=false")]), MINOR).is_ok()
    };
    let off = gates::all_known(MINOR).filter(|(gate, known)| !known.default && !gate.starts_with("All"));
    let off: Vec<&str> = off.map(|(gate, _)| gate).filter(switches).take(25).collect();
    let all = |value: &str, between: &str| off.iter().map(|gate| format!("{gate}{between}{value}")).collect::<Vec<_>>();
    let reviewed = format!("featureGates: {{{}}}", all("true", ": ").join(", "));
    let flags = format!("--feature-gates={}", all("false", "=").join(","));
    let status =
        compare(Some(&text(&reviewed)), &files(&reviewed, &[], None), &process(&[&flags]), MINOR).expect("known");
    assert_eq!((status.overridden.len(), status.overridden_more), (20, 5));

    let reviewed = "staticPodURLHeader: {Authorization: [hunter2]}\nclusterDomain: a.b";
    let other = "staticPodURLHeader: {Authorization: [swordfish]}";
    let later = files(reviewed, &[("95-other.conf", other)], None);
    let status = compare(Some(&text(reviewed)), &later, &process(&["--cluster-domain", &"x".repeat(300)]), MINOR);
    let status = serde_json::to_string(&status.expect("known")).expect("JSON");
    assert!(!status.contains("hunter2") && !status.contains("swordfish"), "{status}");
    assert!(status.contains("xx…"), "{status}");
}
