//! Tests of written pages: bounded, deterministic, and without active content from texts.

use std::collections::BTreeMap;

use jiff::Timestamp;
use proptest::prelude::*;

use crate::report::document::tests::{body, page};
use crate::report::document::{Block, Cell, Item, NodeColumn, NodeEntry, NodePool, Nodes, Table, Text, Weight};
use crate::report::error::ErrorMessage;
use crate::report::run::tests::{failed, pool, run};
use crate::report::run::{RunEnd, whole};
use crate::report::status;
use crate::report::timeline::RunTimeline;
use nodecfg_contract::ConfigSource;
use nodecfg_contract::printable::is_hidden;
use nodecfg_observed::Observed;
use nodecfg_plan::fixtures::{node_name, pool_name};
use nodecfg_plan::state::State;
use nodecfg_rollout::progress::{Event, Progress};
use nodecfg_rollout::{End, Outcome, StopReason};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

#[test]
fn page_of_an_empty_cluster_has_no_nodes() {
    let status = crate::status::build(&Observed::default(), None, Vec::new(), at(0));
    let page = page(&status::whole(&status, "https://cluster.example", None));
    assert!(page.contains("<title>nodecfg status: No nodes.</title>"), "{page}");
}

/// At most 600 bytes per node, for messages of any length.
#[test]
fn pages_of_large_clusters_are_bounded() {
    for (nodes, most) in [(5_000, 3_000_000), (15_000, 9_000_000)] {
        let mut timeline = RunTimeline::new(at(0));
        let gpu = pool_name("gpu");
        for index in 0..nodes {
            let node = node_name(&format!("n{index:05}"));
            let progress = Event::from(Progress::Converged { seconds: 1.0, trial: None }).of(gpu.clone()).about(node);
            timeline.record(at(index), &progress);
        }
        let ends = (0..nodes).map(|index| match index % 50 {
            0 => failed(&format!("{index} {}", "<&>".repeat(100_000 / (index as usize + 1)))),
            _ => End::Converged,
        });
        let outcome = Outcome { pools: [(gpu, pool(None, ends))].into() };
        let end = RunEnd { outcome: &outcome, at: at(nodes), seconds: 60.0 };
        let report = whole(&run("https://cluster.example"), end, 5, None, timeline);
        let written = page(&report);
        assert!(written.len() < most, "{nodes} nodes: {} bytes", written.len());
        assert_eq!(written, page(&report), "the same page twice");
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
        let report = |texts: &[String]| {
            let [server, error, word, cell, help] = texts else { panic!("five") };
            let ends = [failed(error), End::Changed { to: Some(ConfigSource::config_map("ns", cell, cell)) }];
            let stopped = Some(StopReason::ClusterFailed { error: error.clone() });
            let outcome = Outcome { pools: [(pool_name("gpu"), pool(stopped, ends))].into() };
            let message = ErrorMessage { code: cell.clone(), message: word.clone(), help: format!("x{help}") };
            let end = RunEnd { outcome: &outcome, at: at(1), seconds: 1.0 };
            let mut report = whole(&run(server), end, 5, Some(&message), RunTimeline::new(at(0)));
            let entry = NodeEntry {
                name: node_name("n1"),
                state: State::Blocked,
                words: word.clone(),
                weight: Weight::Problem,
                cells: vec![Cell::Words(cell.clone()), Cell::Name(format!("x{cell}"))],
                message: format!("x{error}"),
            };
            let pool = NodePool { name: None, fleet: None, cells: Vec::new(), remarks: vec![help.clone()], nodes: vec![entry] };
            let column = |title| NodeColumn { title, omitted: 0, optional: true };
            report.blocks.push(Block::Nodes(Nodes {
                at: at(1),
                pool_columns: Vec::new(),
                columns: vec![column("a"), column("b")],
                pools: vec![pool],
            }));
            report.blocks.push(Block::Table(Table {
                caption: cell.clone(),
                columns: vec!["c"],
                rows: vec![vec![Cell::Words(format!("x{word}"))]],
                ..Table::default()
            }));
            let pieces = Text::name(format!("x{cell}")).then(format!("x{word}"));
            report.blocks.push(Item::labeled("note", pieces).with([Item::quiet(format!("x{help}"))]).into());
            report
        };
        // Backticks may add code elements only.
        let elements = |page: &str| {
            let mut seen = skeleton(page);
            seen.retain(|tag, _| tag != "code" && tag != "/code");
            seen
        };
        let plain: Vec<String> = vec!["x".to_owned(); 5];
        let written = body(&report(&texts));
        prop_assert!(!written.chars().any(|c| is_hidden(c) && c != '\n'), "{written}");
        prop_assert_eq!(elements(&written), elements(&body(&report(&plain))));
    }
}
