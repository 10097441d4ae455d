//! What people see of a cluster of 3, of 20 and of 15,000 nodes, in 80 columns and in 200.

use super::*;
use crate::status::tests::{at, compared, orders};
use crate::status::{FleetStatus, Running, make};
use nodecfg_contract::error_text;
use nodecfg_contract::observed::{Node, NodeSupport, Pause, Readiness};
use nodecfg_planning::judge::Target;
use nodecfg_planning::plan::fixtures::{node as bare, source as source_of, *};

fn shown(status: &FleetStatus, width: usize, all: bool) -> String {
    let mut out = Vec::new();
    text(&mut out, status, Look { width, all }).unwrap();
    let text = anstream::adapter::strip_str(&String::from_utf8(out).unwrap()).to_string();
    for line in text.lines() {
        assert!(line.chars().count() <= width, "wider than {width}: {line}\n{text}");
        assert_eq!(line, line.trim_end(), "{text}");
    }
    text
}

/// A cluster with nodes of every kind in these pools of so many nodes each.
fn cluster(pools: usize, nodes: usize) -> FleetStatus {
    let names: Vec<String> = (0..pools).map(|number| format!("pool-{number:03}")).collect();
    let wanted = desired(names.iter().map(|name| pool(name, 110, policy(1))));
    let mut observed = observed([]);
    for (index, name) in names.iter().enumerate() {
        let Some(nodecfg_planning::desired::PoolTarget::Config(rendered)) =
            wanted.pools.get(&pool_name(name)).map(|p| &p.target)
        else {
            panic!("no configuration")
        };
        with_config_map(&mut observed, name, rendered);
        let source = rendered.source(&namespace());
        for number in 0..nodes {
            let host = format!("ip-10-{index}-{}-{}.eu-central-1.compute.internal", number / 200, number % 200);
            let node = on(node(&host, name), &source);
            let since = at() - jiff::SignedDuration::from_secs(90 * number as i64);
            let node = match (index, number) {
                (1, 0) => refusing(node, &source, error_text::VALIDATE),
                (1, 1) => refusing(node, &source, error_text::VALIDATE),
                (1, 2) => Node { ready: Readiness::NotReady, ready_since: Some(since), ..node },
                (1, 3) => Node { source: Some(source.clone()), ..bare(&host, name) },
                (1, 4) => Node { source: None, half: NodeSupport::AgentSilent, status: Default::default(), ..node },
                (1, 5) => on(node, &source_of("made-by-hand-for-a-test")),
                (2, 0..40) => bare(&host, name),
                _ => Node { status_since: Some(since), ..node },
            };
            observed.nodes.insert(node.name.clone(), node);
        }
    }
    let pause = Pause { by: "ada@example.com".to_owned(), at: at(), reason: "waiting for the new\ndisks".to_owned() };
    let mut fleet = orders([("pool-000", pause)]);
    fleet.rollout = Some(Running { holder: "ci-runner-7_4711_00000000deadbeef".to_owned(), since: Some(at()) });
    compared(&wanted, &observed, vec![fleet])
}

#[test]
fn three_nodes() {
    let status = cluster(1, 3);
    insta::assert_snapshot!("status-3-at-80", shown(&status, 80, false));
    insta::assert_snapshot!("status-3-at-200", shown(&status, 200, false));
}

#[test]
fn twenty_nodes_in_two_pools() {
    let status = cluster(2, 10);
    insta::assert_snapshot!("status-20-at-80", shown(&status, 80, false));
    insta::assert_snapshot!("status-20-at-200", shown(&status, 200, false));
}

#[test]
fn a_narrow_window_leaves_out_columns_and_nothing_is_wider_than_it() {
    let wide = shown(&cluster(2, 10), 80, false);
    let narrow = shown(&cluster(2, 10), 60, false);
    assert!(wide.contains("  ASSIGNED"), "{wide}");
    assert!(!narrow.contains("  ASSIGNED") && narrow.contains("  DESIRED") && narrow.contains("  ACTIVE"), "{narrow}");
}

#[test]
fn a_node_that_was_pointed_back_is_not_said_to_be_unassigned() {
    let a = desired([pool("a", 110, policy(1))]);
    let Some(nodecfg_planning::desired::PoolTarget::Config(rendered)) =
        a.pools.get(&pool_name("a")).map(|pool| &pool.target)
    else {
        panic!("no configuration")
    };
    let took = on(node("n1", "a"), &rendered.source(&namespace()));
    let said = |node: Node| {
        let status = compared(&a, &observed([node]), Vec::new());
        words(&status.nodes[0]).unwrap()
    };
    let back = Node { source: None, ..took.clone() };
    assert_eq!(said(back.clone()), "it is pointed at local now, and has not taken that yet");
    let unready = "its kubelet says that it cannot run pods; ";
    let lost = said(Node { ready: Readiness::NotReady, ..back });
    assert_eq!(lost, format!("{unready}it is pointed at local now, and has not taken that yet"));
    let idle = said(Node { ready: Readiness::NotReady, ..node("n1", "a") });
    assert!(idle.starts_with(&format!("{unready}the repository wants fleet-a-")), "{idle}");
}

#[test]
fn markdown_says_what_the_text_says_of_a_rollout() {
    let mut status = cluster(1, 3);
    let by = "ci-runner-7_4711_00000000deadbeef".to_owned();
    status.fleets[0].abort = Some(nodecfg_contract::observed::Abort {
        by: "ada".to_owned(),
        at: at(),
        holder: by,
        back: false,
        reason: Some("wrong".to_owned()),
    });
    let mut out = Vec::new();
    markdown(&mut out, &status, false).unwrap();
    let markdown = String::from_utf8(out).unwrap();
    assert!(markdown.starts_with("**Rollout:** of fleet, by ci"), "{markdown}");
    assert!(
        markdown.contains("**Stopping:** the rollout of fleet: told to by ada at 2027-01-15T08:00:00Z: wrong\n"),
        "{markdown}"
    );
    assert!(markdown.contains("| desired | assigned |") && markdown.contains("| since | state |"), "{markdown}");
    assert!(shown(&status, 200, false).contains("Stopping: the rollout of fleet: told to by ada at"));
}

#[test]
fn fifteen_thousand_nodes_are_summed_up() {
    let status = cluster(200, 75);
    let text = shown(&status, 80, false);
    assert!(text.lines().count() < 80, "{text}");
    insta::assert_snapshot!("status-15000-at-80", text);
    assert_eq!(shown(&status, 120, true).lines().filter(|line| line.starts_with("ip-")).count(), 15_000);
}

#[test]
fn what_comes_from_the_cluster_steers_no_terminal() {
    let a = desired([pool("a", 110, policy(1))]);
    let Some(nodecfg_planning::desired::PoolTarget::Config(rendered)) =
        a.pools.get(&pool_name("a")).map(|pool| &pool.target)
    else {
        panic!("no configuration")
    };
    let evil = "\u{1b}]0;owned\u{7}\nfailed\r\u{1b}[2J";
    let observed = observed([refusing(node("n1", "a"), &rendered.source(&namespace()), evil)]);
    let mut fleet = orders([("a", Pause { by: evil.to_owned(), at: at(), reason: evil.to_owned() })]);
    fleet.rollout = Some(Running { holder: evil.to_owned(), since: None });
    fleet.unknown = Some(evil.to_owned());
    let status = compared(&a, &observed, vec![fleet]);
    let mut out = Vec::new();
    text(&mut out, &status, Look { width: 80, all: false }).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(!text.contains("\u{1b}]") && !text.contains('\u{7}') && !text.contains("\u{1b}[2J"), "{text:?}");
    let change = crate::status::Change::Node { node: &status.nodes[0], was: None };
    assert!(!line(at(), &change).unwrap().contains("\u{1b}]"));
}

#[test]
fn drift_and_states_have_words() {
    let status = cluster(3, 50);
    for node in &status.nodes {
        let silent = matches!(node.state, State::Converged | State::Unpooled | State::Deleting);
        assert_eq!(words(node).is_none(), silent, "{node:?}");
    }
    let bad = status.nodes.iter().filter(|node| matches!(node.state, State::Failed | State::Blocked));
    assert!(bad.clone().count() >= 3);
    assert!(bad.map(explanation).all(|explanation| explanation.is_some()));
    assert!(status.nodes[0].desired.as_ref().and_then(Target::source).is_some());
}

#[test]
fn programs_get_nodes_by_pool_and_name() {
    let status = cluster(2, 10);
    let document = document(&status).unwrap();
    let names: Vec<(&str, &str)> = document["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| (node["pool"].as_str().unwrap(), node["node"].as_str().unwrap()))
        .collect();
    assert!(names.is_sorted(), "{names:?}");
    assert_eq!(document["pools"][0]["pool"], "pool-001");
    assert_eq!(document["pools"][0]["worst"], "failed");
    assert!(document["nodes"][10]["explanation"]["meaning"].is_string());
    let empty = make(&observed([]), None, Vec::new(), at());
    assert_eq!(shown(&empty, 80, false), "The cluster has no nodes.\n");
}
