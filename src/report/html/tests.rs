//! Tests of written pages: complete, bounded, deterministic, and without active content from texts.

use std::collections::BTreeMap;

use jiff::Timestamp;
use proptest::prelude::*;

use super::page::{Node, Page, Pool};
use super::{Run, RunTimeline, failed, of_run, of_status, write};
use crate::report::error::ErrorMessage;
use crate::report::progress::RunHeader;
use crate::review::{Review, Side, of_plan};
use kubelet_config::finding::Finding;
use kubelet_config::risk::Class;
use nodecfg_contract::ConfigSource;
use nodecfg_contract::names::{FleetName, NamespaceName};
use nodecfg_contract::printable::is_hidden;
use nodecfg_fleet::RolloutPolicy;
use nodecfg_observed::{Observed, Pause};
use nodecfg_plan::convergence::{ConvergenceFailure, Target};
use nodecfg_plan::fixtures::{node_name, pool_name, source};
use nodecfg_plan::state::State;
use nodecfg_plan::{Why, fixtures, make};
use nodecfg_rollout::progress::{Event, Progress};
use nodecfg_rollout::{End, NodeOutcome, Outcome, PoolOutcome, PoolStart, StopReason};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn text(page: &Page) -> String {
    let mut out = Vec::new();
    write(&mut out, page).unwrap();
    String::from_utf8(out).unwrap()
}

/// The body between style and script, which are the same on all pages.
fn body(page: &str) -> &str {
    let begin = page.find("<body>").unwrap();
    let end = page.find("<script>").unwrap();
    &page[begin..end]
}

fn run(server: &str) -> Run {
    let header = RunHeader {
        fleet: FleetName::new("prod").unwrap(),
        commit: None,
        signer: None,
        namespace: NamespaceName::new("kube-system").unwrap(),
        server: server.to_owned(),
        ignored_windows: None,
    };
    let review = Review {
        from: Side::Cluster,
        to: Side::WorkingTree,
        fleet: header.fleet.clone(),
        settings: Vec::new(),
        pools: Vec::new(),
        nodes_may_move: false,
        base_findings: Vec::new(),
        findings: Vec::new(),
        assumed_version: None,
        cluster: None,
    };
    Run { command: "sync", header, review, timeline: RunTimeline::new(at(0)) }
}

fn pool(stopped: Option<StopReason>, ends: impl IntoIterator<Item = End>) -> PoolOutcome {
    let node = |(index, end)| NodeOutcome {
        node: node_name(&format!("n{index:05}")),
        from: None,
        to: Target::Source(source("prod-gpu-x").into()),
        end,
        seconds: Some(1.0),
        trial: None,
        drain: None,
        recovery: None,
        marked: false,
    };
    PoolOutcome { stopped, held: None, nodes: ends.into_iter().enumerate().map(node).collect() }
}

fn refused(error: &str) -> End {
    End::Failed { failure: ConvergenceFailure::Refused { error: error.to_owned() }, rolled_back: false }
}

#[test]
fn page_of_a_small_run() {
    let mut run = run("https://cluster.example");
    let (gpu, node) = (pool_name("gpu"), node_name("n00000"));
    let to = Target::Source(source("prod-gpu-x").into());
    let error = "failed to validate config, see Kubelet log for details";
    let assigned = Event::from(Progress::Assigned { from: None, to }).of(gpu.clone()).about(node.clone());
    run.timeline.record(at(1), &assigned);
    let failure = ConvergenceFailure::Refused { error: error.to_owned() };
    run.timeline.record(at(9), &Event::from(Progress::Failed { failure }).of(gpu.clone()).about(node.clone()));
    let stopped = StopReason::CanaryFailed { node };
    let outcome = Outcome { pools: [(gpu, pool(Some(stopped), [refused(error), End::NotStarted]))].into() };
    let page = text(&of_run(run, &outcome, at(10), 10.0, 5, None));
    insta::assert_snapshot!("html-run", body(&page).replace("><", ">\n<"));
}

#[test]
fn page_has_the_drain_of_a_pool() {
    let policy = RolloutPolicy { allow_disruption: Class::Drain, ..fixtures::policy(2) };
    let desired = fixtures::desired([fixtures::pool("gpu", 64, policy)]);
    let plan = make(&desired, &fixtures::observed([fixtures::node("n1", "gpu")]), &fixtures::options()).unwrap();
    let run = Run {
        review: of_plan(Side::WorkingTree, &desired, &plan, Timestamp::UNIX_EPOCH),
        ..run("https://cluster.example")
    };
    let page = text(&of_run(run, &Outcome { pools: BTreeMap::new() }, at(10), 10.0, 0, None));
    let drain = "<p>Drains 1 node, 2 at a time: their current configuration is unknown; up to 15m per node, and 30s to settle.</p>";
    assert!(page.contains(drain), "{page}");
}

#[test]
fn page_has_what_each_drain_did() {
    let outcome = crate::report::drained::tests::outcome();
    let page = text(&of_run(run("https://cluster.example"), &outcome, at(10), 10.0, 5, None));
    let begin = page.find("<section id=\"drains\">").unwrap();
    let section = &page[begin..begin + page[begin..].find("</section>").unwrap()];
    insta::assert_snapshot!("html-drains", section.replace("><", ">\n<"));
    assert!(page.contains("mark lost: another client removed the taint"), "what went wrong");
    let without =
        text(&of_run(run("https://cluster.example"), &Outcome { pools: BTreeMap::new() }, at(10), 10.0, 0, None));
    assert!(!without.contains("<section id=\"drains\">"));
}

#[test]
fn page_has_the_pods_of_a_drain() {
    let review = crate::report::review::troubled_drain();
    let run = Run { review, ..run("https://cluster.example") };
    let page = text(&of_run(run, &Outcome { pools: BTreeMap::new() }, at(10), 10.0, 0, None));
    let begin = page.find("<p>Drains 4 nodes").unwrap();
    let drain = &page[begin..begin + page[begin..].find("</details>").unwrap()];
    insta::assert_snapshot!("html-drain-forecast", drain.replace("><", ">\n<"));
}

#[test]
fn page_has_pauses_and_few_next_steps() {
    let pause = Pause { by: "ada".to_owned(), at: at(0), reason: "disks".to_owned(), allowed: None };
    let paused = || End::LeftAlone { why: Why::Paused { order: Some(Box::new(pause.clone())) } };
    let canary = |index| Some(StopReason::CanaryFailed { node: node_name(&format!("n{index}")) });
    let mut pools: BTreeMap<_, _> =
        (0..200).map(|index| (pool_name(&format!("p{index}")), pool(canary(index), [refused("no")]))).collect();
    pools.insert(pool_name("web"), pool(None, [paused(), paused()]));
    let page = of_run(run("https://cluster.example"), &Outcome { pools }, at(10), 10.0, 5, None);
    let notices: Vec<(&str, &str)> = page.notices.iter().map(|notice| (notice.label, notice.text.as_str())).collect();
    let web = "pool web, 2 nodes unchanged: by ada since 1970-01-01T00:00:00Z, disks";
    let resume = "when the reason no longer applies: `nodecfg resume web`, and sync again";
    assert!(notices.ends_with(&[("paused", web), ("next", resume)]), "{notices:?}");
    assert!(notices.contains(&("stopped", "192 more pools; -o json lists them")), "{notices:?}");
    assert_eq!(notices.iter().filter(|(label, _)| *label == "next").count(), 2, "{notices:?}");
}

#[test]
fn page_has_accepted_new_nodes_and_warnings() {
    let new = End::LeftAlone { why: Why::New { joined: at(0) } };
    let outcome = Outcome { pools: [(pool_name("gpu"), pool(None, [new]))].into() };
    let mut run = run("https://cluster.example");
    run.review.findings = vec![Finding::warning("max-pods", "too many").help("write 110"), Finding::note("x", "y")];
    let page = of_run(run, &outcome, at(3600), 1.0, 0, None);
    let notices: Vec<(&str, &str)> = page.notices.iter().map(|notice| (notice.label, notice.text.as_str())).collect();
    let new = "pool gpu: n00000 joined 1h ago, and never had its configuration";
    assert_eq!(notices, [("new", new), ("warning", "too many; write 110")]);
}

#[test]
fn all_formats_show_what_a_pool_waits_for() {
    let mut review = crate::report::review::troubled_drain();
    let rollout = review.pools.iter_mut().find_map(|pool| pool.rollout.as_mut()).unwrap();
    rollout.pause = Some(Pause { by: "ada".to_owned(), at: at(0), reason: "disks".to_owned(), allowed: None });
    rollout.start = PoolStart::Waits;
    rollout.after = [pool_name("web")].into();
    let (mut plain, mut markdown) = (Vec::new(), Vec::new());
    crate::report::review::text(&mut plain, &review, false, 200).unwrap();
    crate::report::review::markdown(&mut markdown, &review, None).unwrap();
    let run = Run { review, ..run("https://cluster.example") };
    let page = text(&of_run(run, &Outcome { pools: BTreeMap::new() }, at(10), 10.0, 0, None));
    for shown in [String::from_utf8(plain).unwrap(), String::from_utf8(markdown).unwrap(), page] {
        for condition in ["by ada since 1970-01-01", "tarts after pool web has converged", "use up maxUnavailable"] {
            assert!(shown.contains(condition), "{condition}: {shown}");
        }
    }
}

#[test]
fn page_of_an_early_failure_has_the_error() {
    let error = ErrorMessage {
        code: "repository".to_owned(),
        message: "cannot read <pools>".to_owned(),
        help: "check `the path`".to_owned(),
    };
    let page = text(&failed("sync", at(0), 3, vec![error]));
    assert!(page.contains("<title>nodecfg sync: failed</title>"), "{page}");
    assert!(page.contains("cannot read &lt;pools&gt;") && page.contains("check <code>the path</code>"), "{page}");
}

#[test]
fn page_of_an_empty_cluster_has_zero_nodes() {
    let status = crate::status::build(&Observed::default(), None, Vec::new(), at(0));
    let page = text(&of_status(&status, "https://cluster.example", None));
    assert!(page.contains("0 nodes"), "{page}");
}

/// At most 600 bytes per node, for messages of any length.
#[test]
fn pages_of_large_clusters_are_bounded() {
    for (nodes, most) in [(5_000, 3_000_000), (15_000, 9_000_000)] {
        let mut run = run("https://cluster.example");
        let gpu = pool_name("gpu");
        for index in 0..nodes {
            let node = node_name(&format!("n{index:05}"));
            let progress = Event::from(Progress::Converged { seconds: 1.0, trial: None }).of(gpu.clone()).about(node);
            run.timeline.record(at(index), &progress);
        }
        let ends = (0..nodes).map(|index| match index % 50 {
            0 => refused(&format!("{index} {}", "<&>".repeat(100_000 / (index as usize + 1)))),
            _ => End::Converged,
        });
        let outcome = Outcome { pools: [(gpu, pool(None, ends))].into() };
        let page = of_run(run, &outcome, at(nodes), 60.0, 5, None);
        let written = text(&page);
        assert!(written.len() < most, "{nodes} nodes: {} bytes", written.len());
        assert_eq!(written, text(&page), "the same page twice");
    }
}

fn hostile_text() -> impl Strategy<Value = String> {
    let hostile = [
        "<script>",
        "\"onmouseover=\"",
        "javascript:",
        "</style>",
        "\u{202e}",
        "`",
        "'",
        "&#60;b&#62;",
        "-->",
        "\u{0}",
    ];
    prop_oneof![
        any::<String>(),
        prop::collection::vec(prop::sample::select(hostile.to_vec()), 0..4).prop_map(|all| all.concat())
    ]
}

/// The elements and attributes of a page, without values.
fn skeleton(page: &str) -> BTreeMap<String, usize> {
    let mut seen = BTreeMap::new();
    for tag in page.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').expect("a tag ends");
        let mut names = String::new();
        for (index, part) in tag.split('"').enumerate() {
            if index % 2 == 0 {
                names.push_str(part);
            }
        }
        *seen.entry(names).or_default() += 1;
    }
    seen
}

proptest! {
    /// Texts do not change elements or attributes, and leave no hidden character.
    #[test]
    fn no_text_adds_an_element_or_an_attribute(texts in prop::collection::vec(hostile_text(), 5)) {
        let page = |texts: &[String]| {
            let [server, error, word, cell, help] = texts else { panic!("five") };
            let ends = [refused(error), End::Changed { to: Some(ConfigSource::config_map("ns", cell, cell)) }];
            let stopped = Some(StopReason::ClusterFailed { error: error.clone() });
            let outcome = Outcome { pools: [(pool_name("gpu"), pool(stopped, ends))].into() };
            let message = ErrorMessage { code: cell.clone(), message: word.clone(), help: format!("x{help}") };
            let mut page = of_run(run(server), &outcome, at(1), 1.0, 5, Some(&message));
            page.pools.push(Pool {
                name: None,
                fleet: None,
                remarks: vec![help.clone()],
                nodes: vec![Node {
                    name: node_name("n1"),
                    state: State::Blocked,
                    state_text: word.clone(),
                    cells: vec![cell.clone(), format!("x{cell}"), word.clone()],
                    message: format!("x{error}"),
                }],
            });
            text(&page)
        };
        // Backticks may add code elements only.
        let elements = |page: &str| {
            let mut seen = skeleton(page);
            seen.retain(|tag, _| tag != "code" && tag != "/code");
            seen
        };
        let plain: Vec<String> = vec!["x".to_owned(); 5];
        let written = page(&texts);
        prop_assert!(!body(&written).chars().any(|c| is_hidden(c) && c != '\n'), "{written}");
        prop_assert_eq!(elements(body(&written)), elements(body(&page(&plain))));
    }
}
