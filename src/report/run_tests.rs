//! Tests of the report of a run in all formats.

use super::*;
use crate::report::document::tests::{body, each, markdown, page, text as drawn};
use crate::review::{Side, of_plan};
use kubelet_config::finding::Finding;
use kubelet_config::risk::Class;
use nodecfg_contract::error_text;
use nodecfg_contract::names::{FleetName, NamespaceName};
use nodecfg_fleet::RolloutPolicy;
use nodecfg_observed::Pause;
use nodecfg_plan::convergence::{ConvergenceFailure, Target, Trial, Waiting};
use nodecfg_plan::drain::DrainFailure;
use nodecfg_plan::fixtures::{node_name, pause, pool_name, source};
use nodecfg_plan::{Why, fixtures, make};
use nodecfg_rollout::progress::{Event, Progress};
use nodecfg_rollout::{PoolStart, StopReason};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

pub(in crate::report) fn run(server: &str) -> Run {
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
        paused: None,
        settings: Vec::new(),
        pools: Vec::new(),
        nodes_may_move: false,
        base_findings: Vec::new(),
        findings: Vec::new(),
        assumed_version: None,
        cluster: None,
    };
    Run { command: "sync", header, review }
}

pub(in crate::report) fn pool(stopped: Option<StopReason>, ends: impl IntoIterator<Item = End>) -> PoolOutcome {
    let node = |(index, end)| NodeOutcome {
        node: node_name(&format!("n{index:03}")),
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

fn outcome(ends: impl IntoIterator<Item = End>) -> Outcome {
    Outcome { pools: [(pool_name("gpu"), pool(None, ends))].into() }
}

fn end(outcome: &Outcome) -> RunEnd<'_> {
    RunEnd { outcome, at: Timestamp::UNIX_EPOCH, seconds: 61.0 }
}

fn text(outcome: &Outcome) -> String {
    drawn(&report(&run("https://cluster.example"), end(outcome)), usize::MAX, false)
}

fn whole_of(outcome: &Outcome, exit_code: u8, error: Option<&ErrorMessage>) -> Report {
    whole(&run("https://cluster.example"), end(outcome), exit_code, error, RunTimeline::new(at(0)))
}

pub(in crate::report) fn failed(error: &str) -> End {
    End::Failed { failure: ConvergenceFailure::Refused { error: error.to_owned() }, rolled_back: false }
}

#[test]
fn small_rollout_lists_every_node_with_problems_first() {
    let text = text(&outcome([End::Converged, failed("no"), End::NotStarted]));
    let nodes: Vec<&str> = text.lines().skip(1).map_while(|line| line.split_whitespace().next()).collect();
    assert_eq!(nodes, ["n001", "n002", "n000"]);
    assert!(text.ends_with("Not done after 1m01s. 3 nodes: 1 converged, 1 failed, 1 not started.\n"), "{text}");
}

#[test]
fn big_rollout_folds_nodes_alike_and_omits_converged_ones() {
    let converged = std::iter::repeat_n(End::Converged, 900);
    let waiting = std::iter::repeat_n(End::NotStarted, 99);
    let outcome = outcome(converged.chain(waiting).chain([failed("no"), failed("never")]));
    let folded = text(&outcome);
    let rows: Vec<String> =
        folded.lines().take(5).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(
        rows,
        [
            "NODE POOL STATE FROM TO TOOK",
            "n999 gpu failed local prod-gpu-x 1.0s",
            "n1000 gpu failed local prod-gpu-x 1.0s",
            "99 nodes gpu not started local prod-gpu-x -",
            "and 900 more nodes: 900 converged; -v lists them",
        ],
        "{folded}"
    );
    let all = drawn(&report(&run("https://cluster.example"), end(&outcome)), usize::MAX, true);
    assert!(all.lines().count() > 1001, "-v lists all");
}

#[test]
fn result_of_many_pools_is_bounded() {
    let pools = (0..200).map(|index| {
        let canary = StopReason::CanaryFailed { node: node_name(&format!("n{index}")) };
        (pool_name(&format!("p{index:03}")), pool(Some(canary), [failed(&format!("{index}"))]))
    });
    let text = text(&Outcome { pools: pools.collect() });
    assert!(text.lines().count() < 120, "{text}");
    for line in [
        "and 180 more nodes: 180 failed; -v lists them",
        "failed: 180 more; -v lists them",
        "stopped: 180 more; -v lists them",
        "or `nodecfg rollback POOL` for each of p000, p001, p002, p003, p004, p005, p006, p007",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert_eq!(text.matches("next: ").count(), 1);
}

#[test]
fn big_successful_rollout_has_no_table() {
    let text = text(&outcome(std::iter::repeat_n(End::Converged, 60)));
    assert_eq!(text, "60 nodes: 60 converged; -v lists them\n\nDone in 1m01s. 60 nodes: 60 converged.\n");
}

#[test]
fn explains_each_kind_of_failure_once() {
    let outcome = outcome([failed("no"), failed("no"), failed("never"), failed(error_text::LOAD)]);
    for shown in each(&whole_of(&outcome, 5, None)) {
        assert_eq!(shown.matches("meaning").count(), 2, "{shown}");
    }
    assert!(text(&outcome).contains("failed: n000, n001: no\n    meaning:"), "{}", text(&outcome));
}

#[test]
fn explains_each_field_that_nodes_name() {
    let trial = |error: &str| failed(&format!("{}kubelet exited 3 times: {error}", error_text::TRIAL_PREFIX));
    let swap = "failSwapOn: running with swap on is not supported";
    let outcome = outcome([trial("cgroupRoot: invalid configuration: cgroup-root x"), trial(swap), trial(swap)]);
    for shown in each(&whole_of(&outcome, 5, None)) {
        for field in ["cgroupRoot in the configuration of the pool;", "failSwapOn in the configuration of the pool;"] {
            assert!(shown.contains(field), "{field}: {shown}");
        }
        assert_eq!(shown.matches("meaning").count(), 2, "{shown}");
    }
}

#[test]
fn last_line_has_nodes_on_trial() {
    let trial = |seconds: i64| Trial { ends_at: Some(Timestamp::from_second(seconds).unwrap()) };
    let mut three = outcome([End::Converged, End::Converged, End::LeftAlone { why: Why::Converged }]);
    let set = |outcome: &mut Outcome, trials: [Option<Trial>; 3]| {
        let nodes = outcome.pools.values_mut().flat_map(|pool| &mut pool.nodes);
        nodes.zip(trials).for_each(|(node, trial)| node.trial = trial);
    };
    set(&mut three, [Some(trial(450)), None, Some(trial(200))]);
    let known = text(&three);
    assert!(known.contains("  converged, on trial, 8m left  "), "{known}");
    assert!(known.contains("next: pass --wait-trial to wait for the end of the trials;"), "{known}");
    let last = "Done in 1m01s. 3 nodes: 2 converged, 1 already up to date, 2 on trial (up to 8m left).\n";
    assert!(known.ends_with(last), "{known}");
    // With one unknown end, the last end is unknown.
    set(&mut three, [Some(Trial::default()), None, Some(trial(200))]);
    assert!(text(&three).ends_with("2 converged, 1 already up to date, 2 on trial.\n"));
    let mut failing = outcome([End::Converged, failed("no")]);
    set(&mut failing, [Some(trial(60)), None, None]);
    let failing = text(&failing);
    assert!(!failing.contains("--wait-trial"), "{failing}");
    assert!(failing.ends_with("2 nodes: 1 converged, 1 on trial (up to 1m left), 1 failed.\n"), "{failing}");
}

#[test]
fn last_line_ends_with_remarks() {
    let desired = fixtures::desired([fixtures::pool("gpu", 64, fixtures::policy(1))]);
    let plan = make(&desired, &fixtures::observed([]), &fixtures::options()).unwrap();
    let review = of_plan(Side::WorkingTree, &desired, &plan, at(0));
    let run = Run { review, ..run("https://cluster.example") };
    let text = drawn(&report(&run, end(&outcome([End::Converged]))), usize::MAX, false);
    assert!(text.ends_with("Done in 1m01s. 1 node: 1 converged; pool gpu selects no node.\n"), "{text}");
}

#[test]
fn no_changes_are_one_line() {
    let settled = outcome([End::LeftAlone { why: Why::Converged }]);
    assert_eq!(text(&settled), "Done in 1m01s. 1 node: 1 already up to date.\n");
    assert_eq!(text(&outcome([])), "Done in 1m01s. 0 nodes.\n");
}

/// The configuration may be correct, so a rollback is no advice.
#[test]
fn pool_that_was_not_drained_needs_no_other_configuration() {
    let drain = || ConvergenceFailure::Drain { failure: DrainFailure::NoBudget };
    let refused = || ConvergenceFailure::Refused { error: "no".to_owned() };
    for (failures, only_drains) in [(vec![drain(), drain()], true), (vec![drain(), refused()], false)] {
        let ends: Vec<End> = failures.into_iter().map(|failure| End::Failed { failure, rolled_back: false }).collect();
        let mut stopped = outcome(ends);
        for pool in stopped.pools.values_mut() {
            pool.stopped = Some(StopReason::TooManyFailures { failures: 2, max_failures: 1 });
        }
        let text = text(&stopped);
        assert_eq!(text.contains("remove what prevented the drains"), only_drains, "{text}");
        assert_eq!(text.contains("nodecfg rollback"), !only_drains, "{text}");
    }
}

#[test]
fn nodes_that_keep_their_mark_are_named() {
    let mut marked = outcome([End::Converged, End::NotStarted]);
    marked.pools.values_mut().flat_map(|pool| &mut pool.nodes).for_each(|node| node.marked = true);
    let text = text(&marked);
    assert!(text.contains("next: no new pods start on n000, n001, which keep the mark of their drain:"), "{text}");
    assert!(text.contains("\nNot done after 1m01s. 2 nodes: "), "{text}");
    for node in marked.pools.values_mut().flat_map(|pool| &mut pool.nodes).skip(1) {
        node.marked = false;
    }
    let one = summary::next_steps_of_nodes(&marked).join("\n");
    assert!(
        one.contains("on n000, which keeps the mark of its drain: the next sync continues or releases it"),
        "{one}"
    );
}

/// The same report in each format.
#[test]
fn stopped_pool_has_reason_and_next_step() {
    let timed_out = |waiting| End::Failed { failure: ConvergenceFailure::TimedOut { waiting }, rolled_back: false };
    let gpu = pool(
        Some(StopReason::TooManyFailures { failures: 2, max_failures: 1 }),
        [End::NotStarted, timed_out(Waiting::NotAcknowledged), timed_out(Waiting::NotAcknowledged), End::Converged],
    );
    let web = pool(None, [End::Converged, End::Refused { error: "admission <b>@octocat</b> | no".to_owned() }]);
    let outcome = Outcome { pools: [(pool_name("gpu"), gpu), (pool_name("web"), web)].into() };
    let mut timeline = RunTimeline::new(at(0));
    let about = |event: Progress| Event::from(event).of(pool_name("gpu")).about(node_name("n001"));
    timeline.record(at(1), &about(Progress::Assigned { from: None, to: Target::Local }));
    let failure = ConvergenceFailure::TimedOut { waiting: Waiting::NotAcknowledged };
    timeline.record(at(9), &about(Progress::Failed { failure }));
    let whole = whole(&run("https://cluster.example"), RunEnd { at: at(61), ..end(&outcome) }, 5, None, timeline);
    insta::assert_snapshot!("stopped-text", drawn(&whole, 100, false));
    insta::assert_snapshot!("stopped-markdown", markdown(&whole));
    insta::assert_snapshot!("stopped-page", body(&whole));
}

#[test]
fn drains_are_a_table_with_problems_first() {
    let whole = whole_of(&drained::tests::outcome(), 5, None);
    insta::assert_snapshot!("drains-text", drawn(&whole, 120, true));
    insta::assert_snapshot!("drains-markdown", markdown(&whole));
    assert!(page(&whole).contains("mark lost: another client removed the taint"), "what went wrong");
    assert!(!page(&whole_of(&Outcome { pools: BTreeMap::new() }, 0, None)).contains("Drains"));
}

#[test]
fn success_is_short() {
    let whole = whole_of(&outcome([End::Converged, End::Gone]), 0, None);
    insta::assert_snapshot!("done-markdown", markdown(&whole));
}

#[test]
fn all_formats_have_the_drain_of_a_pool() {
    let policy = RolloutPolicy { allow_disruption: Class::Drain, ..fixtures::policy(2) };
    let desired = fixtures::desired([fixtures::pool("gpu", 64, policy)]);
    let plan = make(&desired, &fixtures::observed([fixtures::node("n1", "gpu")]), &fixtures::options()).unwrap();
    let report = review::report("sync", &of_plan(Side::WorkingTree, &desired, &plan, at(0)));
    for shown in each(&report) {
        let drain =
            "rains 1 node, 2 at a time: their current configuration is unknown; up to 15m per node, and 30s to settle";
        assert!(shown.contains(drain), "{shown}");
    }
}

#[test]
fn all_formats_have_the_pods_of_a_drain() {
    let report = review::report("sync", &review::troubled_drain());
    insta::assert_snapshot!("forecast-page", body(&report));
}

#[test]
fn all_formats_have_pauses_and_few_next_steps() {
    let pause = Pause { at: at(0), ..pause("disks") };
    let paused = || End::LeftAlone { why: Why::Paused { order: Some(Box::new(pause.clone())) } };
    let canary = |index| Some(StopReason::CanaryFailed { node: node_name(&format!("n{index}")) });
    let mut pools: BTreeMap<_, _> =
        (0..200).map(|index| (pool_name(&format!("p{index}")), pool(canary(index), [failed("no")]))).collect();
    pools.insert(pool_name("web"), pool(None, [paused(), paused()]));
    let report = whole_of(&Outcome { pools }, 5, None);
    let notices: Vec<(&str, String)> =
        report.notices().map(|item| (item.label.unwrap_or_default(), item.text.plain())).collect();
    let web = "pool web, 2 nodes unchanged: by ada since 1970-01-01T00:00:00Z, disks".to_owned();
    assert!(notices.contains(&("paused", web)), "{notices:?}");
    let resume = "when the reason no longer applies: `nodecfg resume web`, and sync again".to_owned();
    assert!(notices.contains(&("next", resume)), "{notices:?}");
    assert_eq!(notices.iter().filter(|(label, _)| *label == "next").count(), 2, "{notices:?}");
}

#[test]
fn all_formats_have_accepted_new_nodes_and_warnings() {
    let new = outcome([End::LeftAlone { why: Why::New { joined: at(-3600) } }]);
    let mut run = run("https://cluster.example");
    run.review.findings = vec![Finding::warning("max-pods", "too many").help("write 110"), Finding::note("x", "y")];
    run.review.pools = review::troubled_drain().pools;
    let report = whole(&run, end(&new), 0, None, RunTimeline::new(at(0)));
    for shown in [markdown(&report), page(&report)] {
        assert!(shown.contains("joined 1h ago, and never had its configuration"), "{shown}");
        assert!(shown.contains("too many") && shown.contains("write 110") && shown.contains("1 warning"), "{shown}");
    }
    assert!(
        text(&new).contains("new: pool gpu: n000 joined 1h ago, and never had its configuration"),
        "{}",
        text(&new)
    );
}

#[test]
fn all_formats_have_what_a_pool_waits_for() {
    let mut review = review::troubled_drain();
    let rollout = review.pools.iter_mut().find_map(|pool| pool.rollout.as_mut()).unwrap();
    rollout.pause = Some(Pause { at: at(0), ..pause("disks") });
    rollout.start = PoolStart::Waits;
    rollout.after = [pool_name("web")].into();
    for shown in each(&review::report("sync", &review)) {
        for condition in ["by ada since 1970-01-01", "tarts after pool web has converged", "use up maxUnavailable"] {
            assert!(shown.contains(condition), "{condition}: {shown}");
        }
    }
}

#[test]
fn reports_error_with_help() {
    let reason = StopReason::ClusterFailed { error: "no route".to_owned() };
    let outcome = Outcome { pools: [(pool_name("gpu"), pool(Some(reason), [End::InFlight]))].into() };
    let error = ErrorMessage {
        code: "unreachable".to_owned(),
        message: "cannot reach *it*".to_owned(),
        help: "see #1".to_owned(),
    };
    let text = markdown(&whole_of(&outcome, 4, Some(&error)));
    assert!(text.contains("- **error:** cannot reach \\*it\\*\n  - help: see #\u{200b}1\n"), "{text}");
    assert!(text.contains("- **stopped:** pool `gpu`: the cluster failed: no route\n"), "{text}");
}

#[test]
fn early_failure_has_the_error() {
    let error = ErrorMessage {
        code: "repository".to_owned(),
        message: "cannot read <pools>".to_owned(),
        help: "check `the path`".to_owned(),
    };
    let report = super::failed("sync", 3, &[error]);
    let page = page(&report);
    assert!(page.contains("<title>nodecfg sync: Failed, exit code 3</title>"), "{page}");
    assert!(page.contains("cannot read &lt;pools&gt;") && page.contains("check <code>the path</code>"), "{page}");
    let text = markdown(&report);
    assert!(text.starts_with("### nodecfg sync: Failed, exit code 3\n"), "{text}");
}

#[test]
fn all_errors_count() {
    let error =
        |number: usize| ErrorMessage { code: String::new(), message: format!("no {number}"), help: String::new() };
    let errors: Vec<ErrorMessage> = (0..60).map(error).collect();
    let report = super::failed("validate", 3, &errors);
    for shown in [markdown(&report), page(&report)] {
        assert!(shown.contains("error: 10 more; see the JSON output"), "{shown}");
    }
}

#[test]
fn large_failure_fits_on_a_page() {
    let ends = (0..5000).map(|index| failed(&format!("{index} {}", "x|".repeat(5000))));
    let pools = (0..200).map(|index| (pool_name(&format!("p{index}")), pool(None, [End::NotStarted])));
    let mut outcome = Outcome { pools: pools.collect() };
    outcome.pools.insert(pool_name("gpu"), pool(None, ends));
    for index in 0..200 {
        let pause = StopReason::Paused(pause(&index.to_string()));
        let canary = StopReason::CanaryFailed { node: node_name(&format!("n{index}")) };
        outcome.pools.insert(pool_name(&format!("s{index}")), pool(Some(pause), [End::NotStarted]));
        outcome.pools.insert(pool_name(&format!("t{index}")), pool(Some(canary), [End::NotStarted]));
    }
    let text = markdown(&whole_of(&outcome, 5, None));
    assert!(text.len() < 200_000, "{}", text.len());
    assert_eq!(text.matches("**next:**").count(), 2, "one per kind of stop");
    assert!(text.contains("5550 more nodes: 4950 failed, 600 not started; see the JSON output"), "{text}");
    assert_eq!(text.matches("meaning:").count(), 1);
}
