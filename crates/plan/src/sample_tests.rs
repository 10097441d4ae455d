//! Tests of samples: which kubelets are asked, and what their answers change.

use std::collections::BTreeSet;

use super::change_fixtures::{config, planned, runs, wants};
use super::fixtures::{
    desired, fetched, managed, namespace, node, node_name, observed, on, policy, pool, replacing, source,
    with_config_map,
};
use super::{Sample, Scope, check, nodes_to_sample};
use crate::reviewed::ReviewedPool;
use kubelet_config::risk::Class;
use nodecfg_contract::{ConfigStatus, KubeletVersion, Placement};
use nodecfg_fleet::{Desired, Pool, PoolTarget};
use nodecfg_observed::{
    ConfigMapKey, Node, NodeConfigList, NodeContent, Observed, Readiness, RunningConfig, UnreadReason,
};

/// `number` nodes `n01`… on their local configuration, with kubelets of this version.
fn local(number: usize, version: &str) -> Observed {
    let node = |index: usize| Node {
        kubelet_version: KubeletVersion::parse(version),
        ready: Readiness::Ready,
        ..node(&format!("n{index:02}"), "a")
    };
    observed((1..=number).map(node))
}

/// Sets the answers of nodes: the fields that they run, or an error.
fn answer(cluster: &mut Observed, answers: &[(&str, Result<&str, UnreadReason>)]) {
    let one = |(name, answer): &(&str, Result<&str, UnreadReason>)| {
        let answer = match answer {
            Ok(fields) => RunningConfig::Read(config(fields).canonical),
            Err(reason) => RunningConfig::Unread(*reason),
        };
        (node_name(name), answer)
    };
    cluster.running = answers.iter().map(one).collect();
}

#[test]
fn samples_few_nodes_of_each_unknown_group() {
    let sampled = |cluster: &Observed| {
        let plan = planned(&wants("maxPods: 150", Class::Restart), cluster);
        nodes_to_sample(&plan, cluster).iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(sampled(&local(40, "v1.36.2")), "n01 n20 n40");
    assert_eq!(sampled(&local(2, "v1.36.2")), "n01 n02");
    assert_eq!(sampled(&local(3, "v1.99.0")), "", "their defaults are unknown");
    let mut mixed = local(9, "v1.36.2");
    for (index, node) in mixed.nodes.values_mut().enumerate() {
        if index < 4 {
            node.kubelet_version = KubeletVersion::parse("v1.35.0");
        }
        if index == 8 {
            node.ready = Readiness::NotReady;
        }
    }
    assert_eq!(sampled(&mixed), "n01 n02 n04 n05 n06 n08");
    // Every version is a group of its own.
    let mut many = local(90, "v1.36.2");
    for (index, node) in many.nodes.values_mut().enumerate() {
        node.kubelet_version = KubeletVersion::parse(&format!("v1.{}.0", 20 + index % 15));
    }
    assert_eq!(sampled(&many).split(' ').count(), 24);
}

/// Adds a node that runs a ConfigMap with these fields.
fn add_known(cluster: &mut Observed, name: &str, fields: &str) {
    add_config_map(cluster, fields);
    let node = Node { kubelet_version: KubeletVersion::parse("v1.36.2"), ..runs(name, fields) };
    cluster.nodes.insert(node.name.clone(), node);
}

fn add_config_map(cluster: &mut Observed, fields: &str) {
    let rendered = config(fields);
    with_config_map(cluster, "a", &rendered);
    cluster.contents.extend([fetched(&rendered.source(&namespace()), &rendered.canonical, true)]);
}

/// Points a node to a ConfigMap whose content is unknown.
fn add_unreadable(cluster: &mut Observed, name: &str, status: impl FnOnce(Node) -> ConfigStatus) {
    let key = ConfigMapKey { namespace: "kube-system".to_owned(), name: "fleet-a-gone".to_owned() };
    cluster.config_maps.insert(key, managed("fleet-a-gone", Some("fleet"), Some("a"), None));
    let node =
        on(Node { kubelet_version: KubeletVersion::parse("v1.36.2"), ..node(name, "a") }, &source("fleet-a-gone"));
    let status = status(node.clone());
    cluster.nodes.insert(node.name.clone(), Node { status, ..node });
}

#[test]
fn asks_no_node_whose_configuration_is_known_or_stays() {
    let mut cluster = local(1, "v1.36.2");
    add_known(&mut cluster, "n02", "maxPods: 64");
    add_unreadable(&mut cluster, "n03", |node| node.status);
    // A node that points at its target keeps its assignment.
    add_config_map(&mut cluster, "maxPods: 150");
    let target = config("maxPods: 150").source(&namespace());
    let awaited = Node { source: Some(target), ..cluster.nodes[&node_name("n01")].clone() };
    cluster.nodes.insert(node_name("n04"), Node { name: node_name("n04"), ..awaited });
    let sampled = |desired: &Desired| nodes_to_sample(&planned(desired, &cluster), &cluster);
    assert_eq!(sampled(&wants("maxPods: 150", Class::Restart)), [node_name("n01"), node_name("n03")]);
    // The local configuration as target is unknown, so that there is nothing to compare.
    let local = Pool { targets: PoolTarget::Local.into(), ..pool("a", 0, policy(1)) };
    assert_eq!(sampled(&desired([local])), []);
}

#[test]
fn limit_leaves_no_group_out() {
    // 24 versions with two nodes each: one node of each is asked.
    let mut cluster = local(48, "v1.36.2");
    for (index, node) in cluster.nodes.values_mut().enumerate() {
        node.kubelet_version = KubeletVersion::parse(&format!("v1.{}.0", 13 + index % 24));
    }
    let plan = planned(&wants("maxPods: 150", Class::Restart), &cluster);
    let asked: BTreeSet<_> = nodes_to_sample(&plan, &cluster)
        .iter()
        .filter_map(|name| cluster.nodes[name].kubelet_version.map(|version| version.minor))
        .collect();
    let known = cluster.nodes.values().filter_map(Node::known_minor).collect::<BTreeSet<_>>().len();
    assert_eq!(asked.len(), known);
}

/// A harmless majority must not hide a node that the change disrupts.
#[test]
fn riskiest_answer_counts_and_of_equally_risky_ones_the_most_frequent() {
    for (running, shown, same, worst) in [
        ("110 110 200", "200", 1, Class::Drain),
        ("200 180 180", "180", 2, Class::Drain),
        // The first of equal numbers.
        ("200 180", "200", 1, Class::Drain),
        ("110 110 120", "110", 2, Class::Restart),
    ] {
        let mut cluster = local(3, "v1.36.2");
        let fields: Vec<String> = running.split(' ').map(|max_pods| format!("maxPods: {max_pods}")).collect();
        let answers: Vec<_> =
            ["n01", "n02", "n03"].into_iter().zip(fields.iter().map(|fields| Ok(&**fields))).collect();
        answer(&mut cluster, &answers);
        let plan = planned(&wants("maxPods: 150", Class::Restart), &cluster);
        let set = &plan.pools[0].changes[0];
        let (old, sample) = (set.fields[0].change.old.as_deref(), set.sample.as_ref().map(|sample| sample.same));
        assert_eq!((old, sample, plan.pools[0].disruption.worst), (Some(shown), Some(same), Some(worst)), "{running}");
        assert_eq!(plan.refusals().len(), usize::from(worst > Class::Restart), "{running}");
    }
}

/// What any asked node loses refuses the plan, also if another one is riskier.
#[test]
fn loss_of_every_answer_refuses() {
    let mut cluster = local(3, "v1.36.2");
    let dns = "clusterDNS: [10.96.0.10]\nclusterDomain: a.b";
    answer(&mut cluster, &[("n01", Ok("maxPods: 200")), ("n02", Ok(dns)), ("n03", Ok("clusterDNS: [10.96.0.11]"))]);
    let wanted = |placement, allowed| {
        let mut desired = wants("maxPods: 150", allowed);
        for pool in desired.pools.values_mut() {
            pool.placement = Some(placement);
        }
        desired
    };
    let lost = |desired: &Desired, cluster: &Observed| {
        let plan = planned(desired, cluster);
        assert_eq!(check(&plan, desired, cluster, &Scope::Everything), []);
        let lost = plan.pools[0].disruption.lost.iter().map(|lost| lost.omitted.path.clone()).collect::<Vec<_>>();
        (lost, plan.refusals().len())
    };
    let both = vec!["clusterDNS".to_owned(), "clusterDomain".to_owned()];
    assert_eq!(lost(&wanted(Placement::Replace, Class::Restart), &cluster), (both.clone(), 2));
    assert_eq!(lost(&wanted(Placement::Replace, Class::Never), &cluster), (both, 1));
    // A node that keeps its own values loses nothing.
    cluster.versions.node_configs = Some(NodeConfigList::default());
    assert_eq!(lost(&wanted(Placement::Overlay, Class::Never), &cluster), (vec![], 0));
}

#[test]
fn answer_about_a_known_configuration_permits_nothing() {
    let mut cluster = local(0, "v1.36.2");
    add_known(&mut cluster, "n01", "maxPods: 200");
    answer(&mut cluster, &[("n01", Ok("maxPods: 150"))]);
    let plan = planned(&wants("maxPods: 150", Class::Restart), &cluster);
    assert_eq!((plan.refusals().len(), plan.pools[0].changes[0].sample), (1, None));
}

#[test]
fn answer_of_a_node_in_transition_is_about_its_active_configuration() {
    let mut cluster = local(0, "v1.36.2");
    add_unreadable(&mut cluster, "n01", |_| ConfigStatus::default());
    answer(&mut cluster, &[("n01", Ok("maxPods: 110"))]);
    let plan = planned(&wants("maxPods: 150", Class::Restart), &cluster);
    let sets = plan.pools[0].changes.iter();
    let sets: Vec<(bool, bool)> = sets.map(|set| (set.from.is_some(), set.sample.is_some())).collect();
    assert_eq!(sets, [(false, true), (true, false)]);
    assert_eq!(plan.pools[0].disruption.unknown, 1);
}

#[test]
fn rollback_to_replaced_content_needs_what_it_needs_without_a_sample() {
    // The agent of n01 verified other content than the ConfigMap of its source has now.
    let mut cluster = local(0, "v1.36.2");
    add_known(&mut cluster, "n01", "maxPods: 64");
    let other = Some(config("maxPods: 65").hash);
    let content =
        NodeContent { assigned: other, active: other, max_disruption: None, self_assigned: false, ..replacing() };
    cluster.nodes.get_mut(&node_name("n01")).unwrap().content = Some(content);
    answer(&mut cluster, &[("n01", Ok("maxPods: 110"))]);
    let plan = planned(&wants("maxPods: 150", Class::Restart), &cluster);
    let step = plan.pools[0].steps().next().unwrap();
    assert!(plan.pools[0].changes[0].is_sampled() && step.can_return);
    assert_eq!(step.rollback_needs, None, "one answer does not tell what a rollback does");
}

#[test]
fn sample_gives_risk_and_refuses() {
    let mut cluster = local(40, "v1.36.2");
    answer(&mut cluster, &[("n01", Ok("maxPods: 110")), ("n20", Ok("maxPods: 200")), ("n40", Ok(""))]);
    let plan = planned(&wants("maxPods: 150", Class::Restart), &cluster);
    let set = &plan.pools[0].changes[0];
    assert_eq!(set.sample, Some(Sample { asked: 3, read: 3, same: 1, unread: None }));
    // The riskiest answer counts: fewer pods than now on n20.
    assert_eq!((set.fields[0].change.old.as_deref(), set.nodes, set.from_known), (Some("200"), 40, true));
    let disruption = &plan.pools[0].disruption;
    assert_eq!((disruption.worst, disruption.unknown, disruption.refused), (Some(Class::Drain), 0, true));
    assert_eq!(plan.refusals().len(), 1);
    // The checker rejects a plan that hides it.
    let mut hidden = plan.clone();
    hidden.pools[0].disruption.refused = false;
    let desired = wants("maxPods: 150", Class::Restart);
    assert!(!check(&hidden.identified(), &desired, &cluster, &Scope::Everything).is_empty());
    assert_eq!(planned(&wants("maxPods: 150", Class::Drain), &cluster).refusals(), []);
    // A rollback to an unknown configuration is as possible as without a sample.
    assert!(plan.pools[0].steps().all(|step| step.rollback_needs.is_none()));
}

#[test]
fn running_values_and_defaults_are_compared_in_effect() {
    let mut cluster = local(3, "v1.36.2");
    let running = "maxPods: 110\nsyncFrequency: 1m0s\nnodeStatusMaxImages: 50\npodsPerCore: 7";
    answer(&mut cluster, &[("n01", Ok(running))]);
    let plan = planned(&wants("maxPods: 110\nsyncFrequency: 60s", Class::Restart), &cluster);
    let fields: Vec<(&str, bool)> =
        plan.pools[0].changes[0].fields.iter().map(|field| (&*field.change.path, field.no_effect)).collect();
    let expected = [("podsPerCore", false), ("syncFrequency", true)];
    assert_eq!(fields, expected, "a default that runs is no change, another notation has no effect");
}

#[test]
fn benign_sample_permits_nothing() {
    let wanted = "cpuManagerPolicy: static";
    let mut cluster = local(2, "v1.36.2");
    add_known(&mut cluster, "n9", "maxPods: 64");
    assert_eq!(planned(&wants(wanted, Class::Restart), &cluster).refusals().len(), 1);
    answer(&mut cluster, &[("n01", Ok(wanted)), ("n02", Ok(wanted))]);
    assert_eq!(planned(&wants(wanted, Class::Restart), &cluster).refusals().len(), 1);
}

#[test]
fn unread_sample_leaves_the_risk_unknown() {
    let mut cluster = local(3, "v1.36.2");
    answer(&mut cluster, &[("n01", Err(UnreadReason::Unreachable)), ("n02", Err(UnreadReason::Forbidden))]);
    let plan = planned(&wants("cpuManagerPolicy: static", Class::None), &cluster);
    let set = &plan.pools[0].changes[0];
    assert_eq!(set.sample, Some(Sample { asked: 2, read: 0, same: 0, unread: Some(UnreadReason::Forbidden) }));
    // The reason does not depend on the order.
    answer(&mut cluster, &[("n01", Err(UnreadReason::Forbidden)), ("n02", Err(UnreadReason::Unreachable))]);
    let again = planned(&wants("cpuManagerPolicy: static", Class::None), &cluster);
    assert_eq!(again.pools[0].changes[0].sample, set.sample);
    assert_eq!((set.from_known, plan.pools[0].disruption.unknown), (false, 3));
    assert_eq!(plan.refusals(), []);
    // Hostile answers.
    for text in ["", "[", "- 1\n", "x"] {
        cluster.running = [(node_name("n01"), RunningConfig::Read(text.to_owned()))].into();
        assert_eq!(planned(&wants("maxPods: 5", Class::None), &cluster).refusals(), [], "{text:?}");
    }
    let long: String = (0..2000).map(|index| format!("field{index}: 1\n")).collect();
    cluster.running = [(node_name("n01"), RunningConfig::Read(long))].into();
    let plan = planned(&wants("maxPods: 5", Class::None), &cluster);
    assert_eq!(plan.pools[0].changes[0].sample.and_then(|sample| sample.unread), Some(UnreadReason::Unusable));
}

#[test]
fn saved_plan_does_not_depend_on_samples() {
    let desired = wants("maxPods: 150", Class::Restart);
    let mut cluster = local(3, "v1.36.2");
    let risk = |cluster: &Observed| {
        let risk = ReviewedPool::from(&planned(&desired, cluster).pools[0]).risk;
        (risk.class, risk.unknown)
    };
    assert_eq!(risk(&cluster), (None, 3));
    answer(&mut cluster, &[("n01", Ok("maxPods: 64"))]);
    assert_eq!(risk(&cluster), (None, 3));
}

/// The node with an agent that writes drop-ins.
fn dropping_in(node: Node) -> Node {
    let placement = Some(Placement::Overlay);
    let content = node.content.unwrap_or_default();
    let content = NodeContent { placement, active_placement: placement, reported: true, ..content };
    Node { content: Some(content), ..node }
}

/// The cluster, whose NodeConfigs carry the assignments, with agents that write drop-ins.
fn with_drop_ins(mut cluster: Observed) -> Observed {
    cluster.versions.node_configs = Some(NodeConfigList::default());
    for node in cluster.nodes.values_mut() {
        *node = dropping_in(Node { ready: Readiness::Ready, ..node.clone() });
    }
    cluster
}

/// Paths of the changed fields of the only set, each with its class, and whether the set has a risk.
fn changed(cluster: &Observed, wanted: &str) -> (Vec<(String, Option<Class>)>, bool) {
    let plan = planned(&wants(wanted, Class::Restart), cluster);
    let [set] = &plan.pools[0].changes[..] else { panic!("{:?}", plan.pools[0].changes) };
    let class = |field: &super::ChangedField| field.risk.as_ref().map(|risk| risk.class);
    (set.fields.iter().map(|field| (field.change.path.clone(), class(field))).collect(), set.has_risk())
}

#[test]
fn drop_in_is_merged_over_what_its_kubelet_runs() {
    let own = "cgroupDriver: systemd\ncgroupRoot: /x\nevictionHard: {memory.available: 1Gi}";
    let mut file = local(1, "v1.36.2");
    answer(&mut file, &[("n01", Ok(own))]);
    let drop_in = with_drop_ins(file.clone());
    let wanted = "maxPods: 200\nevictionHard: {memory.available: 500Mi}";
    let refused = |cluster: &Observed| planned(&wants(wanted, Class::Restart), cluster).refusals().len();
    assert_eq!((refused(&file), refused(&drop_in)), (2, 0), "the class, and the thresholds that it loses");
    let restart = |path: &str| (path.to_owned(), Some(Class::Restart));
    assert_eq!(
        changed(&drop_in, wanted),
        (vec![restart("evictionHard[\"memory.available\"]"), restart("maxPods")], true),
        "the other fields stay"
    );
    // A value that it names is compared as everywhere.
    assert_eq!(changed(&drop_in, "cgroupRoot: /y").0, [("cgroupRoot".to_owned(), Some(Class::Replace))]);
}

#[test]
fn fields_that_one_drop_in_names_alone_have_an_unknown_risk() {
    let mut cluster = observed([]);
    let (before, wanted) = ("maxPods: 64\ncgroupRoot: /x", "maxPods: 200\ncgroupDriver: systemd");
    add_known(&mut cluster, "n01", before);
    let mut cluster = with_drop_ins(cluster);
    let known = ("maxPods".to_owned(), Some(Class::Restart));
    let (driver, root) = (("cgroupDriver".to_owned(), None), ("cgroupRoot".to_owned(), None));
    assert_eq!(changed(&cluster, wanted), (vec![driver, root.clone(), known.clone()], false));
    let plan = planned(&wants(wanted, Class::Restart), &cluster);
    assert_eq!((plan.refusals(), plan.pools[0].disruption.unknown), (vec![], 1));
    assert_eq!(nodes_to_sample(&plan, &cluster), [node_name("n01")]);
    let saved = plan.pools[0].disruption_without_samples();

    // The kubelet shows the own value of an added field, and none of a removed one.
    answer(&mut cluster, &[("n01", Ok("maxPods: 64\ncgroupRoot: /x\ncgroupDriver: systemd"))]);
    assert_eq!(changed(&cluster, wanted), (vec![root, known], false));
    let plan = planned(&wants(wanted, Class::Restart), &cluster);
    assert_eq!(plan.pools[0].disruption_without_samples(), saved, "a saved plan does not depend on the answer");
    answer(&mut cluster, &[("n01", Ok("maxPods: 64\ncgroupRoot: /x\ncgroupDriver: cgroupfs"))]);
    assert_eq!(planned(&wants(wanted, Class::Restart), &cluster).refusals().len(), 1);

    // Fields that both name need no question.
    let both = planned(&wants("maxPods: 200\ncgroupRoot: /x", Class::Restart), &cluster);
    assert_eq!((nodes_to_sample(&both, &cluster), both.pools[0].disruption.unknown), (vec![], 0));
}

/// A kubelet may answer wrongly, and another node may run something else.
#[test]
fn answers_take_back_nothing_that_is_known_without_them() {
    let mut cluster = observed([]);
    add_known(&mut cluster, "n01", "maxPods: 64\ncgroupRoot: /x\nclusterDNS: [10.96.0.10]");
    let mut cluster = with_drop_ins(cluster);
    let overlay = wants("cgroupRoot: /y\nclusterDNS: [10.96.0.10]\nstreamingConnectionIdleTimeout: 1h", Class::Restart);
    let mut replace = wants("maxPods: 64\ncgroupRoot: /x", Class::Restart);
    for pool in replace.pools.values_mut() {
        pool.placement = Some(Placement::Replace);
    }
    for desired in [overlay, replace] {
        cluster.running.clear();
        let refused = |cluster: &Observed| planned(&desired, cluster).refusals();
        let without = refused(&cluster);
        assert_eq!(without.len(), 1, "{without:?}");
        for answered in ["cgroupRoot: /y", "cgroupRoot: /x\nmaxPods: 64", "maxPods: 9\nclusterDNS: [10.96.0.10]"] {
            answer(&mut cluster, &[("n01", Ok(answered))]);
            let with = refused(&cluster);
            let paths = |problems: &[super::Problem]| problems.iter().map(ToString::to_string).collect::<String>();
            for path in ["cgroupRoot", "clusterDNS"].into_iter().filter(|path| paths(&without).contains(path)) {
                assert!(paths(&with).contains(path), "{answered} hides {path}: {with:?}");
            }
            let plan = planned(&desired, &cluster);
            assert_eq!(check(&plan, &desired, &cluster, &Scope::Everything), []);
        }
    }
}

#[test]
fn drop_in_is_drained_for_what_its_kubelet_shows() {
    let drains = |answered: Option<&str>, wanted: &str| {
        let mut cluster = observed([]);
        add_known(&mut cluster, "n01", "maxPods: 64");
        add_known(&mut cluster, "n02", "maxPods: 64");
        let mut cluster = with_drop_ins(cluster);
        if let Some(fields) = answered {
            answer(&mut cluster, &[("n01", Ok(fields))]);
        }
        planned(&wants(wanted, Class::Drain), &cluster).pools[0].drains()
    };
    let pids = "maxPods: 64\npodPidsLimit: 4096";
    assert_eq!(drains(None, pids), 2, "the own value is unknown");
    assert_eq!(drains(Some("maxPods: 64\npodPidsLimit: 4096"), pids), 0, "kubelets run it already");
    assert_eq!(drains(Some("maxPods: 64"), pids), 2);
    assert_eq!(drains(None, "maxPods: 200"), 0);
    assert_eq!(drains(None, "maxPods: 20"), 2);
}
