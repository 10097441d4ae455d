//! Tests of the history of a pool: its revisions, and the nodes on each.

use super::*;
use kubelet_config::capacity::Capacity;
use nodecfg_contract::label_selector::LabelSelector;
use nodecfg_plan::fixtures::{desired, fleet, managed, namespace, node, observed, on, policy, pool, pool_name, source};

fn logged(number: u8) -> Logged {
    Logged {
        commit: CommitId::new(format!("{number:040x}")).unwrap(),
        time: Timestamp::from_second(1_800_000_000 + i64::from(number)).unwrap(),
        author: "Ada\u{1b}[31m".to_owned(),
        subject: format!("commit {number}\r\n\u{202e}more"),
    }
}

fn snapshot(kubelet: &str) -> Snapshot {
    let kubelet = format!("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n{kubelet}\n");
    Snapshot::of_texts([
        ("pools/a/kubelet.yaml", kubelet.as_str()),
        // Errors of other pools do not matter.
        ("pools/b/kubelet.yaml", "nonsense: ["),
    ])
}

/// Revisions after these snapshots, given oldest first.
fn revisions(texts: &[Option<&str>], limit: usize, end: WalkEnd) -> Vec<Revision> {
    let mut log = Log::new(pool_name("a"), Strictness::Strict, limit);
    for (number, text) in texts.iter().enumerate().rev() {
        let snapshot = text.map_or_else(|| Snapshot::of_texts([]), snapshot);
        if log.push(logged(u8::try_from(number).unwrap()), Ok(snapshot)).is_break() {
            return log.end(WalkEnd::Enough);
        }
    }
    log.end(end)
}

fn commits(revisions: &[Revision]) -> Vec<String> {
    revisions.iter().map(|revision| revision.subject.clone()).collect()
}

#[test]
fn lists_only_commits_that_changed_the_content() {
    let texts = [
        None,
        Some("maxPods: 110"),
        Some("maxPods:   110 # the same"),
        Some("maxPods: 120"),
        Some("maxPodz: 1"),
        Some("maxPods: 110"),
        Some("maxPods: 110"),
    ];
    let found = revisions(&texts, 10, WalkEnd::Root);
    assert_eq!(commits(&found), ["commit 5 more", "commit 4 more", "commit 3 more", "commit 1 more"]);
    assert_eq!(found[0].author, "Ada [31m");
    assert!(found[0].current && found.iter().skip(1).all(|revision| !revision.current));
    let Content::Invalid { problem } = &found[1].content else { panic!("{:?}", found[1]) };
    assert!(problem.contains("maxPodz"), "{problem}");
    // Reverted to the same content: nodes are counted once.
    assert_eq!(found[3].same_as.as_ref(), Some(&found[0].commit));
    // An invalid revision is no target of a rollback.
    assert_eq!(previous(&found), Err(Some(&found[2])));

    assert_eq!(commits(&revisions(&texts, 2, WalkEnd::Root)), ["commit 5 more", "commit 4 more"]);
    let shallow = revisions(&texts[2..4], 10, WalkEnd::Shallow);
    assert_eq!(shallow.iter().map(|revision| revision.or_before).collect::<Vec<_>>(), [false, true]);
    assert_eq!(revisions(&[None, None], 10, WalkEnd::Root), []);
    assert_eq!(previous(&revisions(&texts[1..3], 10, WalkEnd::Root)), Err(None));
    // Prefers a revision that nodes have run over a newer one that was never rolled out.
    let mut ran = revisions(&[Some("maxPods: 1"), Some("maxPods: 2"), Some("maxPods: 3")], 10, WalkEnd::Root);
    ran[2].exists = Some(true);
    assert_eq!(previous(&ran), Ok(&ran[2]));
    ran[1].nodes = Some(Nodes { last_known_good: 1, ..Nodes::default() });
    assert_eq!(previous(&ran), Ok(&ran[1]));
}

#[test]
fn lists_a_pool_that_was_deleted_and_recreated() {
    let found = revisions(&[Some("maxPods: 110"), None, Some("maxPods: 120")], 10, WalkEnd::Root);
    assert_eq!(found.iter().map(|revision| revision.content.hash().is_some()).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(found[1].content, Content::Absent);
}

#[test]
fn counts_nodes_per_revision() {
    let mut found = revisions(&[Some("maxPods: 110"), Some("maxPods: 120")], 10, WalkEnd::Root);
    let name = |revision: &Revision| format!("fleet-a-{}", revision.content.hash().unwrap().short());
    let (new, old) = (name(&found[0]), name(&found[1]));
    let assigned = Node { source: Some(source(&new)), ..on(node("n2", "a"), &source(&old)) };
    let mut cluster = observed([
        on(node("n1", "a"), &source(&new)),
        assigned,
        node("n3", "a"),
        on(node("n4", "a"), &source("of-another-client")),
        on(node("n5", "moved"), &source("fleet-a-lost")),
        node("n6", "b"),
    ]);
    let mut lost = managed("fleet-a-lost", Some("fleet"), Some("a"), None);
    lost.commit = Some("f".repeat(40));
    for map in
        [managed(&new, Some("fleet"), Some("a"), None), lost, managed("fleet-b-x", Some("fleet"), Some("b"), None)]
    {
        let key = ConfigMapKey { namespace: map.namespace.clone(), name: map.name.clone() };
        cluster.config_maps.insert(key, map);
    }
    let mut wanted = pool("a", 1, policy(1));
    wanted.selector = LabelSelector::of_label("nodecfg.dev/pool", "a");
    let wanted = desired([wanted]);
    let (fleet, namespace, pool) = (fleet(), namespace(), pool_name("a"));
    let subject = Subject { fleet: &fleet, pool: &pool, namespace: &namespace, desired: Some(&wanted) };
    let rest = subject.find(&mut found, &cluster, &BTreeSet::new());
    let counted = |wanted, assigned, active| Some(Nodes { wanted, assigned, active, last_known_good: 1 });
    assert_eq!((found[0].exists, found[0].nodes), (Some(true), counted(2, 1, 1)));
    assert_eq!((found[1].exists, found[1].nodes), (Some(false), counted(0, 1, 1)));
    assert_eq!((rest.nodes, rest.local, rest.elsewhere), (5, 1, 1));
    assert_eq!(rest.others.len(), 1);
    assert_eq!((rest.others[0].name.as_str(), rest.others[0].known), ("fleet-a-lost", Some(false)));
    assert_eq!(rest.others[0].nodes.wanted, 1);
}

/// Formulas that differ only for large machines give the small ones the same ConfigMap.
#[test]
fn shared_size_does_not_show_that_a_revision_was_run() {
    let formula = |percent: u8| {
        let pool = format!(
            "apiVersion: nodecfg.dev/v1alpha1\nkind: NodePool\nmetadata: {{name: a}}\nspec: {{kubelet: {{reserve: \
             {{kubeReserved: {{cpu: {{tiers: [{{first: 8, percent: 5}}, {{percent: {percent}}}]}}}}}}}}}}\n"
        );
        let kubelet = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
        Snapshot::of_texts([("pools/a/kubelet.yaml", kubelet), ("pools/a/pool.yaml", pool.as_str())])
    };
    let mut log = Log::new(pool_name("a"), Strictness::Strict, 10);
    for (number, percent) in [(3, 1), (2, 2), (1, 3)] {
        assert!(log.push(logged(number), Ok(formula(percent))).is_continue());
    }
    let mut found = log.end(WalkEnd::Root);
    let sized =
        |name: &str, cores: &str| Node { capacity: Capacity::parse(Some(cores), None, None), ..node(name, "a") };
    let mut cluster = observed([sized("n1", "4"), sized("n2", "64")]);
    // The newest revision and the oldest one were rolled out.
    for at in [0, 2] {
        let Content::BySize { sizes, .. } = &found[at].content else { panic!("{:?}", found[at].content) };
        for node in cluster.nodes.values() {
            let (_, target) = sizes.0.of(node.capacity).unwrap();
            let map = managed(&format!("fleet-a-{}", target.hash().unwrap().short()), Some("fleet"), Some("a"), None);
            cluster.config_maps.insert(ConfigMapKey { namespace: map.namespace.clone(), name: map.name.clone() }, map);
        }
    }
    let (fleet, namespace, pool) = (fleet(), namespace(), pool_name("a"));
    let subject = Subject { fleet: &fleet, pool: &pool, namespace: &namespace, desired: None };
    assert_eq!(subject.find(&mut found, &cluster, &BTreeSet::new()).nodes, 0);
    let exists: Vec<_> = found.iter().map(|revision| revision.exists).collect();
    assert_eq!(exists, [Some(true), Some(false), Some(true)]);
    assert_eq!(previous(&found), Ok(&found[2]));
}

#[test]
fn remark_removes_control_characters() {
    assert_eq!(remark("a\u{1b}]0;x\u{7}\tb\n\u{202e}c\u{200b}"), "a ]0;x b c");
    assert_eq!(remark(&"é".repeat(300)).chars().count(), 201);
}
