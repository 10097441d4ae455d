//! Tests of the status text for clusters of 3, 20 and 15,000 nodes, in 80 and 200 columns.

use super::sentences::problem;
use super::*;
use crate::report::document::tests::{each, markdown, text};
use crate::status::tests::{at, compared, orders};
use crate::status::{Change, FleetStatus, NewNodes, Running, build};
use nodecfg_contract::error_text;
use nodecfg_contract::json_document::Document;
use nodecfg_observed::{Drain, DrainMark, Node, Obstacle, Pause, Readiness};
use nodecfg_plan::convergence::Target;
use nodecfg_plan::fixtures::{node as bare, source as source_of, *};

fn shown(status: &FleetStatus, width: usize, all: bool) -> String {
    let text = text(&report(status), width, all);
    for line in text.lines() {
        assert!(line.chars().count() <= width, "wider than {width}: {line}\n{text}");
        assert_eq!(line, line.trim_end(), "{text}");
    }
    text
}

/// A cluster with nodes of every kind, `nodes` in each pool.
fn cluster(pools: usize, nodes: usize) -> FleetStatus {
    let names: Vec<String> = (0..pools).map(|number| format!("pool-{number:03}")).collect();
    let wanted = desired(names.iter().map(|name| pool(name, 110, policy(1))));
    let mut observed = observed([]);
    for (index, name) in names.iter().enumerate() {
        let Some(rendered) = wanted.pools.get(&pool_name(name)).and_then(|pool| pool.rendered()) else {
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
                (1, 4) => {
                    Node { source: None, obstacle: Some(Obstacle::AgentSilent), status: Default::default(), ..node }
                }
                (1, 5) => on(node, &source_of("made-by-hand-for-a-test")),
                (2, 0..40) => bare(&host, name),
                _ => Node { status_since: Some(since), ..node },
            };
            observed.nodes.insert(node.name.clone(), node);
        }
    }
    let pause = Pause {
        by: "ada@example.com".to_owned(),
        at: at(),
        reason: "waiting for the new\ndisks".to_owned(),
        whole_fleet: false,
        allowed: None,
    };
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

/// The last line is true by itself: a node whose agent cannot tell may run other values.
#[test]
fn last_line_counts_unproven_nodes() {
    let mut status = cluster(1, 3);
    status.nodes[1].unproven = Some("no process named kubelet runs on the host".to_owned());
    let text = shown(&status, 200, false);
    let last = text.lines().last().unwrap();
    assert_eq!(last, "Converged: 3 nodes, each runs the configuration in the repository; 1 may run other values.");
}

#[test]
fn all_formats_show_pauses() {
    let status = cluster(1, 3);
    for shown in each(&report(&status)) {
        assert!(shown.contains("by ada") && shown.contains("waiting for the new"), "{shown}");
    }
}

/// What is printed does not depend on the reports that are requested.
#[test]
fn impossible_plan_stands_in_the_plan_only() {
    let status = cluster(1, 3);
    let empty = nodecfg_plan::make(&desired([]), &observed([]), &options()).unwrap_err();
    let (alone, planned) = (whole(&status, "https://server", None), whole(&status, "https://server", Some(Err(empty))));
    assert_eq!(text(&alone, 100, true), text(&planned, 100, true));
    assert_eq!(alone.notices().count(), planned.notices().count());
    assert!(markdown(&planned).contains("A sync is not possible."), "{}", markdown(&planned));
}

#[test]
fn twenty_nodes_in_two_pools() {
    let status = cluster(2, 10);
    insta::assert_snapshot!("status-20-at-80", shown(&status, 80, false));
    insta::assert_snapshot!("status-20-at-200", shown(&status, 200, false));
}

#[test]
fn narrow_terminal_omits_columns() {
    let wide = shown(&cluster(2, 10), 80, false);
    let narrow = shown(&cluster(2, 10), 60, false);
    assert!(wide.contains("  ASSIGNED"), "{wide}");
    assert!(!narrow.contains("  ASSIGNED") && narrow.contains("  DESIRED") && narrow.contains("  ACTIVE"), "{narrow}");
    for (width, titles) in [
        (120, "NODE POOL STATE SINCE READY DESIRED ASSIGNED ACTIVE"),
        (200, "NODE POOL STATE SINCE READY KUBELET DESIRED WANTED ASSIGNED ACTIVE LAST KNOWN GOOD"),
    ] {
        let text = shown(&cluster(2, 10), width, false);
        let header = text.lines().find(|line| line.starts_with("NODE")).unwrap();
        assert_eq!(header.split_whitespace().collect::<Vec<_>>().join(" "), titles, "{text}");
    }
}

#[test]
fn rolled_back_node_shows_its_new_assignment() {
    let a = desired([pool("a", 110, policy(1))]);
    let Some(rendered) = a.pools.get(&pool_name("a")).and_then(|pool| pool.rendered()) else {
        panic!("no configuration")
    };
    let took = on(node("n1", "a"), &rendered.source(&namespace()));
    let said = |node: Node| {
        let status = compared(&a, &observed([node]), Vec::new());
        problem(&status.nodes[0]).unwrap()
    };
    let back = Node { source: None, ..took.clone() };
    assert_eq!(said(back.clone()), "assigned to local, not yet acknowledged");
    let unready = "the kubelet reports NotReady; ";
    let lost = said(Node { ready: Readiness::NotReady, ..back });
    assert_eq!(lost, format!("{unready}assigned to local, not yet acknowledged"));
    let idle = said(Node { ready: Readiness::NotReady, ..node("n1", "a") });
    assert!(idle.starts_with(&format!("{unready}desired: fleet-a-")), "{idle}");
}

#[test]
fn all_formats_show_rollouts() {
    let mut status = cluster(1, 3);
    let by = "ci-runner-7_4711_00000000deadbeef".to_owned();
    status.fleets[0].orders.abort = Some(nodecfg_observed::Abort {
        by: "ada".to_owned(),
        at: at(),
        holder: by,
        back: false,
        fleet_paused: false,
        reason: Some("wrong".to_owned()),
    });
    for shown in each(&report(&status)) {
        assert!(
            shown.contains("of fleet, by ci") && shown.contains("the rollout of fleet, ordered by ada at"),
            "{shown}"
        );
    }
    let markdown = markdown(&report(&status));
    assert!(
        markdown.contains("| desired | wanted | assigned |") && markdown.contains("| state | since |"),
        "{markdown}"
    );
}

#[test]
fn summarizes_fifteen_thousand_nodes() {
    let status = cluster(200, 75);
    let text = shown(&status, 80, false);
    assert!(text.lines().count() < 90, "{text}");
    insta::assert_snapshot!("status-15000-at-80", text);
    assert_eq!(shown(&status, 120, true).lines().filter(|line| line.starts_with("ip-")).count(), 15_000);
}

#[test]
fn removes_control_characters() {
    let a = desired([pool("a", 110, policy(1))]);
    let Some(rendered) = a.pools.get(&pool_name("a")).and_then(|pool| pool.rendered()) else {
        panic!("no configuration")
    };
    let evil = "\u{1b}]0;owned\u{7}\nfailed\r\u{1b}[2J";
    let observed = observed([refusing(node("n1", "a"), &rendered.source(&namespace()), evil)]);
    let mut fleet = orders([(
        "a",
        Pause { by: evil.to_owned(), at: at(), reason: evil.to_owned(), whole_fleet: false, allowed: None },
    )]);
    fleet.rollout = Some(Running { holder: evil.to_owned(), since: None });
    fleet.unknown = Some(evil.to_owned());
    let status = compared(&a, &observed, vec![fleet]);
    let text = text(&report(&status), 80, false);
    assert!(!text.contains("\u{1b}]") && !text.contains('\u{7}') && !text.contains("\u{1b}[2J"), "{text:?}");
    let change = Change::Node { node: &status.nodes[0], was: None };
    assert!(!change_line(at(), &change).unwrap().contains("\u{1b}]"));
}

#[test]
fn all_problem_states_have_texts() {
    let status = cluster(3, 50);
    for node in &status.nodes {
        let silent = matches!(node.state, State::Converged | State::Unpooled | State::Deleting);
        assert_eq!(problem(node).is_none(), silent, "{node:?}");
    }
    let bad = status.nodes.iter().filter(|node| matches!(node.state, State::Failed | State::Blocked));
    assert!(bad.clone().count() >= 3);
    assert!(bad.map(explanation).all(|explanation| explanation.is_some()));
    assert!(status.nodes[0].desired.as_ref().and_then(Target::source).is_some());
}

#[test]
fn document_sorts_nodes_by_pool_and_name() {
    let status = cluster(2, 10);
    let document = Document::value(body(&status)).unwrap();
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
    let empty = build(&observed([]), None, Vec::new(), at());
    assert_eq!(shown(&empty, 80, false), "No nodes.\n");
}

#[test]
fn new_nodes_are_counted_by_pool() {
    let mut status = cluster(2, 10);
    let since = at() - jiff::SignedDuration::from_hours(2);
    status.pools[0].new_nodes = Some(NewNodes { nodes: 3, oldest: node_name("ip-10-1-0-7"), since });
    insta::assert_snapshot!("status-new-at-80", shown(&status, 80, false));
    insta::assert_snapshot!("status-new-at-200", shown(&status, 200, false));
    let sentence = "3 nodes never had its configuration, the oldest for 2h: ip-10-1-0-7";
    for shown in each(&report(&status)) {
        assert!(shown.contains(sentence), "{shown}");
    }
    let document = Document::value(body(&status)).unwrap();
    assert_eq!(document["pools"][0]["newNodes"]["nodes"], 3);
    assert_eq!(document["pools"][0]["newNodes"]["since"], "2027-01-15T06:00:00Z");
}

#[test]
fn mark_of_a_drain_is_shown_in_every_cluster() {
    let mut status = cluster(1, 25);
    let mark = |hours: i64, tainted| {
        let since = at() - jiff::SignedDuration::from_hours(hours);
        let pool = pool_name("pool-000");
        let drain = Drain { fleet: fleet(), pool, to: None, from: None, since, added: [].into() };
        Some(Box::new(DrainMark { tainted, drain: Some(drain) }))
    };
    status.nodes[3].drain_mark = mark(4, true);
    status.nodes[4].drain_mark = mark(5, false);
    status.nodes[5].drain_mark = Some(Box::new(DrainMark { tainted: true, drain: None }));
    for width in [80, 200] {
        let text = shown(&status, width, false);
        let rows = text.lines().skip_while(|line| !line.starts_with("NODE")).skip(1);
        let rows: Vec<&str> = rows.take_while(|line| line.starts_with("ip-")).collect();
        for (row, words) in rows.iter().zip(["4h", "5h, no taint", "yes"]) {
            assert!(row.starts_with("ip-10-0-0-") && row.contains(&format!(" {words} ")), "{text}");
        }
        assert_eq!(rows.len(), 3, "{text}");
        assert!(text.trim_end().ends_with("; 3 draining."), "{text}");
    }
    let text = markdown(&report(&status));
    assert!(text.contains("**5h, no taint**") && text.contains("; 3 draining."), "{text}");

    // A change of the mark is a change of the status.
    let (was, now) = (&cluster(1, 25).nodes[3], &status.nodes[3]);
    let line = |node, was| {
        let line = change_line(at(), &Change::Node { node, was: Some(was) }).unwrap();
        anstream::adapter::strip_str(&line).to_string()
    };
    assert!(line(now, was).ends_with("converged, draining 4h"), "{}", line(now, was));
    assert!(line(was, now).ends_with("converged, no longer draining"), "{}", line(was, now));
}
