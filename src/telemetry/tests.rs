//! Tests of metrics, the metrics file, the values carried over between runs, and the OpenTelemetry settings.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::*;

use super::facts::{LABELS, NodeFailure, Nodes, PoolFacts, PreviousRun, Run, RunFailure, RunRecord};
use super::metrics::{ALL, COMMON, LAST_SUCCESS, RUN_INFO, samples};
use super::settings::Settings;
use super::textfile;
use nodecfg_contract::ConfigSource;
use nodecfg_contract::names::{CommitId, FleetName, NodeName, PoolName};
use nodecfg_fleet::hold::{Hold, HoldReason};
use nodecfg_observed::Obstacle;
use nodecfg_plan::convergence::{ConvergenceFailure, Target, Waiting};
use nodecfg_plan::state::State;
use nodecfg_plan::{Owner, Why};
use nodecfg_rollout::{End, NodeOutcome, Outcome, PoolOutcome};

fn at(second: i64) -> Timestamp {
    Timestamp::from_millisecond(second * 1000 + 250).expect("a time")
}

fn run(exit: u8) -> Run {
    let general = PoolFacts { states: [(State::Converged, 7), (State::Skipped, 1)].into(), ..PoolFacts::default() };
    let gpu = PoolFacts {
        states: [(State::Converged, 2), (State::NotStarted, 3), (State::Failed, 1), (State::Blocked, 1)].into(),
        failures: [(NodeFailure::TimedOut, 1)].into(),
        on_trial: Some(2),
        held: [("exclusion", 2)].into(),
    };
    let pool = |name: &str| PoolName::new(name).expect("a name");
    let record = RunRecord {
        fleet: Some(FleetName::new("prod").expect("a name")),
        commit: CommitId::new("0123456789abcdef0123456789abcdef01234567").ok(),
        nodes: Some(Nodes { pools: [(pool("general"), general), (pool("gpu"), gpu)].into(), unpooled: 2, marked: 3 }),
        failure: None,
    };
    Run { command: "sync", took: Duration::from_secs(90), ended: at(1_800_000_090), exit, record, before: None }
}

fn text(run: &Run) -> String {
    textfile::render(&samples(run))
}

#[test]
fn a_file_in_full() {
    insta::assert_snapshot!("a_file_in_full", text(&run(5)));
}

#[test]
fn early_failure_has_no_nodes_and_keeps_carried_values() {
    let mut run = run(4);
    run.record = RunRecord { failure: Some(RunFailure::NoCluster), ..RunRecord::default() };
    run.before = Some(PreviousRun { fleet: "prod".to_owned(), last_success: Some(1_799_990_000.5) });
    insta::assert_snapshot!("a_run_that_failed_early", text(&run));
}

/// Checks the requirements of node_exporter's parser that this code could violate.
fn assert_valid(text: &str) {
    let (mut declared, mut series) = (BTreeSet::new(), BTreeSet::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a type");
            assert_eq!(kind, "gauge", "{line}");
            assert!(declared.insert(name.to_owned()), "declared twice: {line}");
            assert!(
                name.starts_with("nodecfg_") && name.bytes().all(|b| b == b'_' || b.is_ascii_lowercase()),
                "{line}"
            );
        }
    }
    for (name, labels, value) in textfile::parse(text).expect("samples") {
        assert!(declared.contains(&name), "{name} without a type");
        assert!(value.is_finite(), "{name}");
        for label in COMMON {
            assert!(labels.contains_key(label), "{name} without {label}");
        }
        assert!(series.insert((name, labels)), "the same series twice: {text}");
    }
    assert!(text.ends_with('\n'), "the last line has no end");
}

#[test]
fn carries_values_over_from_the_previous_run() {
    let before = |fleet: &str| Some(PreviousRun { fleet: fleet.to_owned(), last_success: Some(5.0) });
    // A success is the new value; a diff that finds changes succeeds.
    assert_eq!(Run { before: before("prod"), ..run(0) }.last_success(), Some(1_800_000_090.25));
    assert_eq!(Run { command: "diff", ..run(1) }.last_success(), Some(1_800_000_090.25));
    // A failure keeps the previous value of the same fleet.
    assert_eq!(run(5).last_success(), None);
    assert_eq!(Run { before: before("prod"), ..run(5) }.last_success(), Some(5.0));
    assert_eq!(Run { before: before("test"), ..run(5) }.last_success(), None);
    // With an unreadable repository, the fleet is that of the previous run.
    let unread = Run { before: before("test"), record: RunRecord::default(), ..run(3) };
    assert_eq!((unread.fleet(), unread.last_success()), ("test", Some(5.0)));

    // Carried over through the text of repeated failures.
    let good = text(&run(0));
    let once = Run { before: textfile::carried_over(&good, "sync"), record: RunRecord::default(), ..run(3) };
    let twice = Run { before: textfile::carried_over(&text(&once), "sync"), record: RunRecord::default(), ..run(4) };
    assert_eq!((twice.fleet(), twice.last_success()), ("prod", Some(1_800_000_090.25)));
    // Nothing is carried over from another command's file.
    assert_eq!(textfile::carried_over(&good, "verify"), None);
    for nonsense in ["", "no metrics", "nodecfg_run_info{command=\"sync\"", "nodecfg_run_info{command=\"sync\\"] {
        assert_eq!(textfile::carried_over(nonsense, "sync"), None, "{nonsense}");
    }
}

#[test]
fn replaces_the_file_readable_for_all_users() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("nodecfg.prom");
    textfile::write(&path, "old\n").expect("is written");
    textfile::write(&path, "new\n").expect("is replaced");
    assert_eq!(fs::read_to_string(&path).expect("text"), "new\n");
    let names: Vec<_> =
        fs::read_dir(folder.path()).expect("a folder").map(|entry| entry.expect("a file").file_name()).collect();
    assert_eq!(names, ["nodecfg.prom"], "no draft remains");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o644);
    }
    // A folder has the name of the file: no draft remains.
    fs::create_dir(folder.path().join("x.prom")).expect("a folder");
    textfile::write(&folder.path().join("x.prom"), "no").expect_err("is a folder");
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 2);
    textfile::write(&folder.path().join("missing/x.prom"), "no").expect_err("no such folder");
}

#[test]
fn accepts_only_names_that_node_exporter_reads() {
    for good in ["nodecfg.prom", "/var/lib/node_exporter/a.prom", "./x.prom"] {
        textfile::path(good).expect(good);
    }
    for bad in ["", "nodecfg", "nodecfg.txt", "nodecfg.prom/", ".prom", "a.prom.tmp"] {
        textfile::path(bad).expect_err(bad);
    }
}

#[test]
fn counts_the_outcomes_of_nodes() {
    let refused = || ConvergenceFailure::Refused { error: "no".to_owned() };
    let ends = [
        (End::Converged, Some("converged")),
        (End::LeftAlone { why: Why::Converged }, Some("converged")),
        (End::LeftAlone { why: Why::Paused { order: None } }, Some("skipped")),
        (End::LeftAlone { why: Why::Deleting }, Some("skipped")),
        (End::LeftAlone { why: Why::Obstacle(Obstacle::AgentSilent) }, Some("blocked")),
        (
            End::LeftAlone {
                why: Why::Conflict { source: ConfigSource::config_map("a", "b", "kubelet"), owner: Owner::Unknown },
            },
            Some("blocked"),
        ),
        (End::Failed { failure: refused(), rolled_back: false }, Some("failed")),
        (End::Failed { failure: refused(), rolled_back: true }, Some("failed")),
        (
            End::Failed { failure: ConvergenceFailure::TimedOut { waiting: Waiting::NotAssigned }, rolled_back: false },
            Some("failed"),
        ),
        (End::Refused { error: "forbidden".to_owned() }, Some("failed")),
        (End::Changed { to: None }, Some("blocked")),
        (End::NotStarted, Some("to_assign")),
        (End::Held, Some("to_assign")),
        (End::InFlight, Some("waiting")),
        (End::Gone, None),
    ];
    let number = |label| (label, ends.iter().filter(|(_, other)| *other == Some(label)).count());
    let expected = LABELS.map(|(label, _)| number(label));
    let node = |(end, _): &(End, Option<&str>)| NodeOutcome {
        node: NodeName::new("n").expect("a name"),
        from: None,
        to: Target::Local,
        end: end.clone(),
        seconds: None,
        trial: None,
        drain: None,
        recovery: None,
        marked: false,
    };
    let held = Hold { why: HoldReason::NoWindow, next: None };
    let pool = PoolOutcome { stopped: None, held: Some(held), nodes: ends.iter().map(node).collect() };
    let outcome = Outcome { pools: [(PoolName::new("gpu").expect("a name"), pool)].into() };
    let nodes = Nodes { unpooled: 3, ..Nodes::default() }.ended(&outcome);
    let facts = nodes.pools.values().next().expect("a pool");
    assert_eq!((facts.labelled(), nodes.unpooled), (expected, 3));
    let failures = [(NodeFailure::Rejected, 2), (NodeFailure::TimedOut, 1), (NodeFailure::Refused, 1)];
    assert_eq!(facts.failures, failures.into());
    assert_eq!(facts.held, [("outside_windows", 1)].into());
}

#[test]
fn documentation_lists_every_metric() {
    let page = include_str!("../../docs/reference/metrics.md");
    let row = |metric: &super::metrics::Metric| {
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        format!("| `{}` | `{}` | {} | {} |", metric.name, metric.otel, labels.join(", "), metric.help)
    };
    let expected: Vec<String> = ALL.iter().map(|metric| row(metric)).collect();
    let is: Vec<&str> = page.lines().filter(|line| line.starts_with("| `nodecfg_")).collect();
    assert_eq!(is, expected);
    for name in LABELS.map(|(label, _)| label).iter().chain(&NodeFailure::ALL.map(NodeFailure::name)) {
        assert!(page.contains(&format!("`{name}`")), "{name}");
    }
    // Exactly the rows of the table.
    let table = page.split_once("| `kind` of `nodecfg_run_failure`").expect("the table").1;
    let kinds: Vec<&str> = table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with("| `"))
        .filter_map(|line| line.split('`').nth(1))
        .collect();
    assert_eq!(kinds, RunFailure::ALL.map(RunFailure::name));
}

#[test]
fn names_follow_both_conventions() {
    for metric in ALL {
        // Prometheus name that a collector's exporter derives from a gauge: dots and unit.
        let unit = if metric.unit == "s" { "_seconds" } else { "" };
        assert_eq!(metric.name, format!("{}{unit}", metric.otel.replace('.', "_")));
        assert!(!metric.help.ends_with('.'), "the encoder adds one");
    }
    assert_ne!(RUN_INFO, LAST_SUCCESS);
}

proptest! {
    #[test]
    fn any_run_yields_a_valid_file(
        exit in 0_u8..8,
        kind in proptest::option::of(proptest::sample::select(RunFailure::ALL.to_vec())),
        before in proptest::option::of(("[ -~\n]{0,20}", proptest::option::of(0.0..4e9_f64))),
        read in any::<bool>(),
        counts in proptest::collection::vec(0_usize..5000, 6),
    ) {
        let mut run = run(exit);
        run.record.failure = kind;
        if !read {
            run.record = RunRecord { failure: kind, ..RunRecord::default() };
        }
        if let Some(nodes) = &mut run.record.nodes {
            for pool in nodes.pools.values_mut() {
                pool.states = LABELS.map(|(_, states)| states[0]).into_iter().zip(counts.iter().copied()).collect();
            }
        }
        run.before = before.map(|(fleet, last_success)| PreviousRun { fleet, last_success });
        let text = text(&run);
        assert_valid(&text);
        // The file parses to the written samples.
        let read: Vec<textfile::Line> = textfile::parse(&text).unwrap();
        let mut written: Vec<textfile::Line> = samples(&run)
            .into_iter()
            .map(|sample| {
                let labels = sample.labels.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
                (sample.metric.name.to_owned(), labels, sample.value)
            })
            .collect();
        let order = |name: &str| ALL.iter().position(|metric| metric.name == name);
        written.sort_by_key(|(name, _, _)| order(name));
        prop_assert_eq!(&read, &written);
        let carried = textfile::carried_over(&text, "sync").unwrap();
        prop_assert_eq!(carried, PreviousRun { fleet: run.fleet().to_owned(), last_success: run.last_success() });
    }

    #[test]
    fn parses_any_text_without_panic(text in "[ -~\n\u{e4}\"{}]{0,200}") {
        let _ = textfile::parse(&text);
        let _ = textfile::carried_over(&format!("nodecfg_run_info{{command=\"sync\"{text}"), "sync");
    }

    #[test]
    fn drifted_nodes_are_those_that_should_change(counts in proptest::collection::vec(0_usize..50, 6)) {
        let mut run = run(0);
        let mut pools = 0;
        for pool in run.record.nodes.iter_mut().flat_map(|nodes| nodes.pools.values_mut()) {
            pool.states = LABELS.map(|(_, states)| states[0]).into_iter().zip(counts.iter().copied()).collect();
            pools += 1;
        }
        let expected = counts[1] + counts[2] + counts[3] + counts[4];
        let samples = samples(&run);
        let drifted = samples.iter().filter(|sample| sample.metric.name == "nodecfg_drifted_nodes");
        let drifted: Vec<f64> = drifted.map(|sample| sample.value).collect();
        prop_assert!(pools > 0);
        prop_assert_eq!(drifted, vec![expected as f64; pools]);
    }
}

fn settings(variables: &[(&str, &str)]) -> Settings {
    let variables: BTreeMap<&str, &str> = variables.iter().copied().collect();
    Settings::read(|name| variables.get(name).map(|&value| value.to_owned()))
}

#[test]
fn exports_nothing_unless_requested() {
    assert_eq!(settings(&[]), Settings::default());
    for quiet in [
        &[("OTEL_SERVICE_NAME", "x"), ("TRACEPARENT", "y"), ("OTEL_EXPORTER_OTLP_HEADERS", "a=b")][..],
        &[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")],
        &[("OTEL_SDK_DISABLED", "TRUE"), ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c")],
        &[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c"),
            ("OTEL_TRACES_EXPORTER", "none"),
            ("OTEL_METRICS_EXPORTER", "none"),
        ],
    ] {
        let settings = settings(quiet);
        assert_eq!((settings.traces, settings.metrics, settings.problems.len()), (None, None, 0), "{quiet:?}");
    }
}

#[test]
fn reads_endpoints_headers_and_time_limits() {
    let both = settings(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "https://c.example:4318/x/")]);
    let (traces, metrics) = (both.traces.unwrap(), both.metrics.unwrap());
    assert_eq!(traces.endpoint.to_string(), "https://c.example:4318/x/v1/traces");
    assert_eq!(metrics.endpoint.to_string(), "https://c.example:4318/x/v1/metrics");
    assert_eq!((traces.timeout.as_secs(), traces.host()), (3, "c.example:4318".to_owned()));

    let one = settings(&[
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://u:p@t/as/it/is"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "700"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer%20s3cret, x=1,"),
        ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "x=50%, y=%C3%A4"),
    ]);
    let traces = one.traces.clone().unwrap();
    assert_eq!((one.metrics.is_none(), traces.timeout.as_millis()), (true, 700));
    assert_eq!(traces.endpoint.path(), "/as/it/is");
    let headers = [("authorization", "Bearer s3cret"), ("x", "50%"), ("y", "ä")];
    assert_eq!(traces.headers, headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
    let shown = format!("{one:?}");
    assert!(!shown.contains("s3cret") && !shown.contains("u:p"), "{shown}");

    let ignored = settings(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://c.example"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca.pem"),
        ("OTEL_EXPORTER_OTLP_METRICS_COMPRESSION", "gzip"),
    ]);
    assert!(ignored.traces.is_some() && ignored.metrics.is_some(), "{ignored:?}");
    assert_eq!(ignored.problems.len(), 2, "{ignored:?}");
    assert!(ignored.problems[0].contains("SSL_CERT_FILE"), "{ignored:?}");
    assert!(ignored.problems[1].contains("OTEL_EXPORTER_OTLP_METRICS_COMPRESSION=gzip"), "{ignored:?}");

    let both = settings(&[("OTEL_METRICS_EXPORTER", "otlp"), ("OTEL_EXPORTER_OTLP_TIMEOUT", "0")]);
    assert_eq!(both.metrics.as_ref().unwrap().timeout, Duration::MAX, "0 sets no limit");
    assert_eq!(both.metrics.unwrap().endpoint.to_string(), "http://localhost:4318/v1/metrics");
    assert_eq!(both.traces, None);
}

#[test]
fn reports_problems_once_without_header_values() {
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c");
    for (variables, says, both) in [
        (vec![endpoint, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")], "grpc", true),
        (vec![endpoint, ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "http/json")], "METRICS_PROTOCOL=http/json", false),
        (vec![endpoint, ("OTEL_TRACES_EXPORTER", "zipkin")], "OTEL_TRACES_EXPORTER=zipkin", false),
        (vec![("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "collector:4317")], "not an http or https URL", false),
        (vec![("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "unix:///pa55")], "not an http or https URL", false),
        (vec![endpoint, ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "3s")], "not a number of milliseconds", false),
        (vec![endpoint, ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "pa55")], "not a list of name=value", false),
    ] {
        let settings = settings(&variables);
        assert_eq!(settings.problems.len(), 1, "{settings:?}");
        assert!(settings.problems[0].contains(says) && !settings.problems[0].contains("pa55"), "{settings:?}");
        assert!(settings.traces.is_none() || settings.metrics.is_none());
        assert_eq!(
            settings.traces.is_none() && settings.metrics.is_none(),
            both || variables.len() == 1,
            "{settings:?}"
        );
    }
}
