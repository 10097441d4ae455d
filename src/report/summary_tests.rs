//! Tests of the summary of a rollout.

use super::*;
use nodecfg_contract::error_text;
use nodecfg_plan::convergence::{Target, Trial};
use nodecfg_plan::drain::DrainFailure;
use nodecfg_plan::fixtures::{node_name, pool_name, source as config_map};
use nodecfg_rollout::{PoolOutcome, StopReason};

const FOLDED: SummaryOptions = SummaryOptions { width: usize::MAX, all: false, at: Timestamp::UNIX_EPOCH };

fn outcome(ends: impl IntoIterator<Item = End>) -> Outcome {
    let node = |(index, end)| NodeOutcome {
        node: node_name(&format!("n{index:03}")),
        from: None,
        to: Target::Source(config_map("prod-gpu-x").into()),
        end,
        seconds: Some(1.0),
        trial: None,
        drain: None,
        recovery: None,
        marked: false,
    };
    let nodes = ends.into_iter().enumerate().map(node).collect();
    Outcome { pools: [(pool_name("gpu"), PoolOutcome { stopped: None, held: None, nodes })].into() }
}

fn text(outcome: &Outcome) -> String {
    let mut out = Vec::new();
    write(&mut out, outcome, 61.0, &[], FOLDED).unwrap();
    anstream::adapter::strip_str(&String::from_utf8(out).unwrap()).to_string()
}

fn failed(error: &str) -> End {
    End::Failed { failure: ConvergenceFailure::Refused { error: error.to_owned() }, rolled_back: false }
}

#[test]
fn small_rollout_lists_every_node_in_order() {
    let text = text(&outcome([End::Converged, failed("no"), End::NotStarted]));
    let nodes: Vec<&str> = text.lines().skip(1).map_while(|line| line.split_whitespace().next()).collect();
    assert_eq!(nodes, ["n000", "n001", "n002"]);
    assert!(text.ends_with("Not done after 1m01s. 3 nodes: 1 converged, 1 failed, 1 not started.\n"), "{text}");
}

#[test]
fn big_rollout_folds_nodes_alike_and_omits_converged_ones() {
    let converged = std::iter::repeat_n(End::Converged, 900);
    let waiting = std::iter::repeat_n(End::NotStarted, 99);
    let outcome = outcome(converged.chain(waiting).chain([failed("no"), failed("never")]));
    let folded = text(&outcome);
    let expected = "NODE       POOL   FROM    TO           STATE         SECONDS\n\
                    n999       gpu    local   prod-gpu-x   failed        1.0\n\
                    n1000      gpu    local   prod-gpu-x   failed        1.0\n\
                    99 nodes   gpu    local   prod-gpu-x   not started   -\n\
                    900 more nodes: 900 converged; -v lists them\n";
    assert!(folded.starts_with(expected), "{folded}");
    let mut out = Vec::new();
    write(&mut out, &outcome, 61.0, &[], SummaryOptions { all: true, ..FOLDED }).unwrap();
    assert!(String::from_utf8(out).unwrap().lines().count() > 1001, "-v lists all");
}

#[test]
fn big_table_is_bounded() {
    let pools = (0..200).map(|index| {
        let mut pool = outcome([failed(&format!("{index}"))]).pools.into_values().next().unwrap();
        pool.stopped = Some(StopReason::CanaryFailed { node: node_name(&format!("n{index}")) });
        (pool_name(&format!("p{index:03}")), pool)
    });
    let text = text(&Outcome { pools: pools.collect() });
    assert!(text.lines().count() < 80, "{text}");
    for line in [
        "150 more nodes: 150 failed; -v lists them",
        "failed: 192 more nodes: 192 other messages; -o json lists them",
        "stopped: 192 more pools; -o json lists them",
        "or `nodecfg rollback POOL` for each of p000, p001, p002, p003, p004, p005, p006, p007 and 192 more: nodes",
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
    let text = text(&outcome([failed("no"), failed("no"), failed("never"), failed(error_text::LOAD)]));
    assert_eq!(text.matches("meaning:").count(), 2, "{text}");
    assert!(text.contains("failed: n002: never\nfailed: n000, n001: no\n  meaning:"), "{text}");
}

#[test]
fn explains_each_field_that_nodes_name() {
    let trial = |error: &str| failed(&format!("{}kubelet exited 3 times: {error}", error_text::TRIAL_PREFIX));
    let swap = "failSwapOn: running with swap on is not supported";
    let outcome = outcome([trial("cgroupRoot: invalid configuration: cgroup-root x"), trial(swap), trial(swap)]);
    let markdown = |outcome: &Outcome| {
        let mut out = Vec::new();
        crate::report::run_summary::write_explanations(&mut out, outcome).unwrap();
        String::from_utf8(out).unwrap()
    };
    for (text, first, second) in [
        (text(&outcome), "see:     cgroupRoot in the configuration of the pool;", "see:     failSwapOn in"),
        (markdown(&outcome), "**failed:** `n000`\n", "**failed:** `n001`, `n002`\n"),
    ] {
        assert!(text.contains(first) && text.contains(second), "{text}");
        assert_eq!(text.matches("meaning:").count(), 2, "{text}");
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
    let remarks = ["pool gpu selects no node", "3 nodes are in no pool"].map(str::to_owned);
    let line = totals(&outcome([End::Converged]), 61.0, &remarks, Timestamp::UNIX_EPOCH);
    assert_eq!(
        anstream::adapter::strip_str(&line).to_string(),
        "Done in 1m01s. 1 node: 1 converged; pool gpu selects no node, 3 nodes are in no pool."
    );
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
    let one = next_steps_of_nodes(&marked).join("\n");
    assert!(
        one.contains("on n000, which keeps the mark of its drain: the next sync continues or releases it"),
        "{one}"
    );
}
