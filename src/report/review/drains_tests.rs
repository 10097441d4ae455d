//! Tests of drains in reviews of all formats.

use jiff::Timestamp;
use std::collections::BTreeMap;

use super::*;
use crate::report::document::tests::{markdown, text};
use crate::report::review::report;
use crate::review::{Side, UnreadPods, groups, of_plan};
use kubelet_config::risk::Class;
use nodecfg_contract::names::NodeName;
use nodecfg_fleet::{Pool, PoolTarget, RolloutPolicy};
use nodecfg_observed::{Drain, DrainMark, Node, NodeContent, RunningConfig};
use nodecfg_plan::drain::forecast::{BlockedPod, RefusedPod};
use nodecfg_plan::fixtures::{
    desired, fetched, fleet, namespace, node, node_name, observed, on, options, policy, pool, pool_name, rendered,
    rendered_of, with_config_map,
};
use nodecfg_plan::make;

/// Pool that drains nodes, for another policy of the topology manager.
fn draining(name: &str, budget: u32) -> Pool {
    let policy = RolloutPolicy { allow_disruption: Class::Drain, ..policy(budget) };
    let target = PoolTarget::Config(Box::new(rendered_of(name, "maxPods: 64\ntopologyManagerPolicy: restricted")));
    Pool { targets: target.into(), ..pool(name, 64, policy) }
}

/// Review of these pools on nodes that run `maxPods: 64`.
fn review(
    pools: impl IntoIterator<Item = Pool>,
    nodes: impl IntoIterator<Item = (&'static str, &'static str)>,
) -> Review {
    let desired = desired(pools);
    let nodes = nodes.into_iter().map(|(name, pool)| on(node(name, pool), &rendered(pool, 64).source(&namespace())));
    let mut cluster = observed(nodes.collect::<Vec<Node>>());
    for pool in desired.pools.keys() {
        let old = rendered(pool.as_str(), 64);
        with_config_map(&mut cluster, pool.as_str(), &old);
        cluster.contents.extend([fetched(&old.source(&namespace()), &old.canonical, true)]);
    }
    let plan = make(&desired, &cluster, &options()).unwrap();
    of_plan(Side::WorkingTree, &desired, &plan, Timestamp::UNIX_EPOCH)
}

fn forecast(node: &str, evict: usize) -> NodeForecast {
    NodeForecast { node: node_name(node), evict, tolerant: 0, refused: Vec::new(), blocked: Vec::new() }
}

fn with_pods(review: Review, nodes: impl IntoIterator<Item = NodeForecast>) -> Review {
    let nodes: BTreeMap<NodeName, NodeForecast> = nodes.into_iter().map(|one| (one.node.clone(), one)).collect();
    review.with_drained_pods(&Ok(nodes))
}

/// Four nodes: one with pods to evict, two with refused pods, and one with blocked pods and a pod that stays.
pub(in crate::report) fn troubled() -> Review {
    let refused = |pod: &str, reason| RefusedPod { pod: pod.to_owned(), reason };
    let blocked = |pod: &str, budgets: &[&str]| BlockedPod {
        pod: pod.to_owned(),
        budgets: budgets.iter().map(|name| (*name).to_owned()).collect(),
    };
    let n2 = vec![refused("web/scratch-1", Refusal::EmptyDir), refused("web/scratch-2", Refusal::EmptyDir)];
    let n3 = vec![refused("ci/job\u{1b}[2J", Refusal::Unmanaged), refused("web/scratch-3", Refusal::EmptyDir)];
    let n4 = vec![blocked("db/pg-0", &["db/pg"]), blocked("web/api-1", &["web/a", "web/b"])];
    let nodes = [
        forecast("n1", 20),
        NodeForecast { refused: n2, ..forecast("n2", 0) },
        NodeForecast { refused: n3, ..forecast("n3", 0) },
        NodeForecast { blocked: n4, tolerant: 1, ..forecast("n4", 12) },
    ];
    with_pods(review([draining("a", 2)], [("n1", "a"), ("n2", "a"), ("n3", "a"), ("n4", "a")]), nodes)
}

fn rendered_text(review: &Review, all: bool, width: usize) -> String {
    text(&report("sync", review), width, all)
}

#[test]
fn drain_is_part_of_the_text() {
    insta::assert_snapshot!("drain-80", rendered_text(&troubled(), true, 80));
    insta::assert_snapshot!("drain-200", rendered_text(&troubled(), false, 200));
}

#[test]
fn drain_is_part_of_markdown() {
    insta::assert_snapshot!("drain-markdown", markdown(&report("sync", &troubled())));
}

#[test]
fn drains_of_pools_with_the_same_change_are_one_line() {
    let review = review([draining("a", 1), draining("b", 2)], [("n1", "a"), ("n2", "a"), ("n3", "b")]);
    let review = with_pods(review, [forecast("n1", 3), forecast("n2", 4), forecast("n3", 5)]);
    let groups = groups(&review.pools);
    let [group] = groups.as_slice() else { panic!("one change") };
    assert_eq!(
        summary(group).unwrap(),
        "drains 3 nodes, 1 to 2 at a time in each pool: topologyManagerPolicy; up to 15m per node, and 30s to settle; at least \
         1m in total"
    );
    let drain = group.merged.drain().unwrap();
    assert_eq!(drain.forecast().map(|forecast| (forecast.evict, forecast.nodes.len())), Some((12, 3)));
}

#[test]
fn unknown_configuration_is_a_reason_to_drain() {
    let desired = desired([draining("a", 1)]);
    let nodes = [node("n1", "a"), node("n2", "a")];
    let plan = make(&desired, &observed(nodes), &options()).unwrap();
    let review = of_plan(Side::WorkingTree, &desired, &plan, Timestamp::UNIX_EPOCH);
    let groups = groups(&review.pools);
    let summary = summary(&groups[0]).unwrap();
    assert!(
        summary.starts_with("drains 2 nodes, 1 at a time: their current configuration is unknown; up to"),
        "{summary}"
    );
}

/// One node leaves a ConfigMap for a field that needs a drain. Two others run their local configuration, of which a
/// kubelet answers that it needs none: an agent of the other compares again, and a node without an agent is drained.
#[test]
fn unknown_configuration_is_a_reason_only_for_nodes_that_it_drains() {
    let desired = desired([draining("a", 1)]);
    let old = rendered("a", 64);
    for (has_agents, nodes, why) in [
        (true, "1 node (n1)", "topologyManagerPolicy"),
        (false, "2 nodes (n1, n3)", "topologyManagerPolicy, and the current configuration of some is unknown"),
    ] {
        let content = has_agents.then(NodeContent::default);
        let known = on(node("n1", "a"), &old.source(&namespace()));
        let nodes_of = [known, node("n2", "a"), node("n3", "a")].map(|node| Node { content, ..node });
        let mut cluster = observed(nodes_of);
        with_config_map(&mut cluster, "a", &old);
        cluster.contents.extend([fetched(&old.source(&namespace()), &old.canonical, true)]);
        let answer = r#"{"maxPods": 60, "topologyManagerPolicy": "restricted"}"#.to_owned();
        cluster.running.extend([(node_name("n2"), RunningConfig::Read(answer))]);
        let review =
            of_plan(Side::WorkingTree, &desired, &make(&desired, &cluster, &options()).unwrap(), Timestamp::UNIX_EPOCH);
        let groups = groups(&review.pools);
        let summary = summary(&groups[0]).unwrap();
        assert!(summary.starts_with(&format!("drains {nodes}, 1 at a time: {why}; up to")), "{summary}");
    }
}

#[test]
fn unread_pods_leave_the_rest_of_the_review() {
    let review = review([draining("a", 1)], [("n1", "a")]);
    let before = rendered_text(&review, false, 200);
    let unread = UnreadPods { error: "cannot list pods: user may not".to_owned(), help: "bind it".to_owned() };
    let after = rendered_text(&review.with_drained_pods(&Err(unread)), false, 200);
    let added: Vec<&str> = after.lines().filter(|line| !before.contains(line)).collect();
    assert_eq!(added, ["    note: the pods to evict are unknown: cannot list pods: user may not; bind it"]);
}

#[test]
fn released_nodes_are_named_and_counted() {
    let desired = desired([pool("a", 64, policy(1))]);
    let drain = Drain {
        fleet: fleet(),
        pool: pool_name("a"),
        to: None,
        from: None,
        since: Timestamp::UNIX_EPOCH,
        added: Default::default(),
    };
    let nodes = [("n1", true), ("n2", false)].map(|(name, tainted)| {
        let mark = DrainMark { tainted, drain: Some(drain.clone()) };
        let on = on(node(name, "a"), &rendered("a", 64).source(&namespace()));
        Node { drain_mark: Some(Box::new(mark)), ..on }
    });
    let mut cluster = observed(nodes);
    with_config_map(&mut cluster, "a", &rendered("a", 64));
    let plan = make(&desired, &cluster, &options()).unwrap();
    let review = of_plan(Side::WorkingTree, &desired, &plan, Timestamp::UNIX_EPOCH);
    let shown = rendered_text(&review, false, 200);
    let both = "releases n1: marked by the drain of an earlier run; removes the annotations of an earlier drain from n2, whose \
                taint is gone\n";
    assert!(shown.contains(both), "{shown}");
    assert!(shown.contains("Plan: 2 nodes to release, 2 nodes up to date"), "{shown}");
    assert_eq!(crate::report::review::verdict::verdict(&review), "releases 2 nodes of an earlier drain");
}
