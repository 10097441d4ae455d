//! Tests of the live display at every terminal size.

use anstream::adapter::strip_str;
use jiff::ToSpan as _;

use super::*;
use nodecfg_fleet::{NodeOrder, RolloutPolicy};
use nodecfg_observed::Node;
use nodecfg_plan::convergence::{ConvergenceFailure, Target, Waiting};
use nodecfg_plan::fixtures::{
    ZONE, canary, desired, in_zone, node, node_name, observed, options, policy, pool, pool_name,
};
use nodecfg_plan::{Domain, Plan, make};
use nodecfg_rollout::StopReason;
use nodecfg_rollout::machine::Mode;
use nodecfg_rollout::progress::{Event, PoolState, Progress, StartGate};

fn at(second: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH.checked_add(second.seconds()).unwrap()
}

/// A plan that changes this many nodes of each pool.
fn plan(pools: &[(&str, usize)]) -> Plan {
    let nodes = pools.iter().flat_map(|(name, count)| (0..*count).map(move |number| on(name, number)));
    let policies = pools.iter().map(|(name, count)| {
        let mut policy = policy(u32::try_from(count.div_ceil(20)).unwrap());
        policy.canary = (*count > 10).then(|| canary(5, 300)).flatten();
        pool(name, 50, policy)
    });
    make(&desired(policies), &observed(nodes), &options()).unwrap()
}

fn on(pool: &str, number: usize) -> Node {
    node(&format!("{pool}-{number:04}"), pool)
}

fn named(pool: &str, number: usize) -> (PoolName, NodeName) {
    (pool_name(pool), node_name(&format!("{pool}-{number:04}")))
}

fn assigned(name: &str, number: usize) -> Event {
    let (pool, node) = named(name, number);
    Event::from(Progress::Assigned { from: None, to: Target::Local }).of(pool).about(node)
}

fn waiting(name: &str, number: usize, waiting: Waiting) -> Event {
    let (pool, node) = named(name, number);
    Event::from(Progress::Waiting { waiting }).of(pool).about(node)
}

fn converged(name: &str, number: usize, seconds: f64) -> Event {
    let (pool, node) = named(name, number);
    Event::from(Progress::Converged { seconds, trial: None }).of(pool).about(node)
}

fn failed(name: &str, number: usize, error: &str) -> Event {
    let (pool, node) = named(name, number);
    Event::from(Progress::Failed { failure: ConvergenceFailure::Refused { error: error.to_owned() } })
        .of(pool)
        .about(node)
}

/// Applies an event, with the counts that the rollout would report.
fn apply_event(state: &mut LiveProgress, now: Timestamp, event: Event) {
    let pool = &state.pools[state.index_of[event.pool.as_ref().unwrap()]];
    let (mut counts, mut gate, mut canaries) = (pool.counts, pool.gate, pool.canaries);
    let mut shift = |from: fn(&mut NodeCounts) -> &mut usize, to: fn(&mut NodeCounts) -> &mut usize| {
        *from(&mut counts) -= 1;
        *to(&mut counts) += 1;
    };
    match &event.progress {
        Progress::Assigned { .. } => shift(|of| &mut of.pending, |of| &mut of.in_flight),
        Progress::Waiting { .. } if !pool.in_flight.contains_key(event.node.as_ref().unwrap()) => {
            shift(|of| &mut of.done, |of| &mut of.in_flight);
            (gate, canaries) = (StartGate::Canaries, 1);
        }
        Progress::Converged { .. } => {
            shift(|of| &mut of.in_flight, |of| &mut of.done);
            canaries = canaries.saturating_sub(1);
        }
        Progress::Failed { .. } => shift(|of| &mut of.in_flight, |of| &mut of.failed),
        Progress::Gone => shift(|of| &mut of.pending, |of| &mut of.left),
        Progress::Soaking { until, .. } => gate = StartGate::Soaking { until: *until },
        Progress::DomainSoaking { until, .. } => gate = StartGate::SoakingStage { until: *until },
        Progress::Soaked | Progress::DomainStarted { .. } => gate = StartGate::Open,
        _ => {}
    }
    state.apply(
        now,
        &Event { state: Some(PoolState { counts, gate, canaries, last_failed: None, trials_end: None }), ..event },
    );
}

fn shown(state: &LiveProgress, width: usize, height: usize, now: i64) -> String {
    let lines = state.view(width, height, at(now));
    assert!(lines.len() <= (height * 2 / 3).max(1), "{} lines", lines.len());
    assert!(lines.iter().all(|line| layout::width(line) < width.max(2)));
    lines.iter().map(|line| format!("{}|\n", strip_str(line).to_string().trim_end())).collect()
}

/// A node in each of two zones.
#[test]
fn estimate_contains_the_soaks_of_domains_that_have_not_begun() {
    let order = NodeOrder { by: ZONE.to_owned(), soak: std::time::Duration::from_secs(600) };
    let pools = [pool("a", 50, RolloutPolicy { order: Some(order), ..policy(1) })];
    let nodes = ["x", "y"].into_iter().enumerate().map(|(number, zone)| in_zone(on("a", number), Some(zone)));
    let plan = make(&desired(pools), &observed(nodes), &options()).unwrap();
    let mut state = LiveProgress::new(&plan, &Mode::ASSIGN, at(0));
    let remaining = |state: &LiveProgress, now: i64| state.pools[0].pace(at(now), Some(10.0)).remaining(at(now));
    let started = |value: &str| {
        let domain = Domain { label: ZONE.to_owned(), value: Some(value.to_owned()) };
        Event::from(Progress::DomainStarted { domain, nodes: 1 }).of(pool_name("a"))
    };
    apply_event(&mut state, at(0), started("x"));
    assert_eq!(remaining(&state, 0), Some(2.0 * 10.0 + 600.0));
    apply_event(&mut state, at(0), assigned("a", 0));
    apply_event(&mut state, at(10), converged("a", 0, 10.0));
    let next = Domain { label: ZONE.to_owned(), value: Some("y".to_owned()) };
    apply_event(&mut state, at(10), Event::from(Progress::DomainSoaking { until: at(610), next }).of(pool_name("a")));
    assert_eq!(remaining(&state, 110), Some(500.0 + 10.0), "the present soak counts once");
    assert!(shown(&state, 80, 24, 110).contains("soaking, 8m20s left"));
    apply_event(&mut state, at(610), started("y"));
    assert_eq!(remaining(&state, 610), Some(10.0));
}

/// Three nodes: one done, one in transition, one failed.
fn three() -> LiveProgress {
    let mut state = LiveProgress::new(&plan(&[("general", 3)]), &Mode::ASSIGN, at(0));
    apply_event(&mut state, at(0), assigned("general", 0));
    apply_event(&mut state, at(12), converged("general", 0, 12.0));
    apply_event(&mut state, at(12), assigned("general", 1));
    let error = "failed to validate config: invalid configuration: evictionHard[memory.available]: invalid quantity \
                 \"lots\", see KubeletConfiguration reference";
    apply_event(&mut state, at(20), failed("general", 1, error));
    apply_event(&mut state, at(20), assigned("general", 2));
    apply_event(&mut state, at(21), waiting("general", 2, Waiting::NotAcknowledged));
    state
}

/// Five thousand nodes in four pools: one soaking, one active, one stopped, one done.
fn many() -> LiveProgress {
    let mut state = LiveProgress::new(
        &plan(&[("batch", 1900), ("general", 3000), ("gpu", 97), ("system", 3)]),
        &Mode::ASSIGN,
        at(0),
    );
    for number in 0..5 {
        apply_event(&mut state, at(0), assigned("batch", number));
        apply_event(&mut state, at(20), converged("batch", number, 20.0));
        apply_event(&mut state, at(0), assigned("general", number));
        apply_event(&mut state, at(10), converged("general", number, 10.0));
        apply_event(&mut state, at(0), assigned("gpu", number));
    }
    for number in 0..3 {
        apply_event(&mut state, at(30), assigned("system", number));
        apply_event(&mut state, at(40), converged("system", number, 10.0));
    }
    apply_event(&mut state, at(50), failed("gpu", 2, "failed to load config, see Kubelet log for details"));
    let reason = StopReason::CanaryFailed { node: node_name("gpu-0002") };
    apply_event(&mut state, at(50), Event::from(Progress::Stopped { reason }).of(pool_name("gpu")));
    apply_event(&mut state, at(20), Event::from(Progress::Soaking { until: at(920) }).of(pool_name("batch")));
    apply_event(&mut state, at(10), Event::from(Progress::Soaking { until: at(310) }).of(pool_name("general")));
    apply_event(&mut state, at(310), Event::from(Progress::Soaked).of(pool_name("general")));
    for number in 5..1355 {
        let start = at(310 + i64::try_from(number).unwrap() / 10);
        apply_event(&mut state, start, assigned("general", number));
    }
    for number in 5..1205 {
        apply_event(&mut state, at(430), converged("general", number, 12.0));
    }
    let error = "failed to sync: failed to download: configmaps \"fleet-general-0123456789\" is forbidden".to_owned();
    apply_event(&mut state, at(440), waiting("general", 1210, Waiting::Syncing { error }));
    for number in 1211..1300 {
        apply_event(&mut state, at(440), waiting("general", number, Waiting::Activating));
    }
    state
}

#[test]
fn three_nodes_on_a_small_terminal() {
    insta::assert_snapshot!(shown(&three(), 80, 24, 25));
}

#[test]
fn three_nodes_on_a_large_terminal() {
    insta::assert_snapshot!(shown(&three(), 200, 50, 25));
}

#[test]
fn five_thousand_nodes_on_a_small_terminal() {
    insta::assert_snapshot!(shown(&many(), 80, 24, 450));
}

#[test]
fn five_thousand_nodes_on_a_large_terminal() {
    insta::assert_snapshot!(shown(&many(), 200, 50, 450));
}

#[test]
fn fits_every_terminal() {
    for state in [three(), many()] {
        for (width, height) in [(20, 24), (20, 3), (1, 1), (33, 10), (50, 2), (51, 4), (500, 200)] {
            assert!(!shown(&state, width, height, 450).is_empty());
        }
    }
    insta::assert_snapshot!(format!("{}--\n{}", shown(&three(), 30, 12, 25), shown(&many(), 40, 6, 450)));
}

#[test]
fn many_pools_show_problems_first_and_sum_up_the_rest() {
    let names: Vec<String> = (0..40).map(|number| format!("pool-{number:02}")).collect();
    let pools: Vec<(&str, usize)> = names.iter().map(|name| (name.as_str(), 10)).collect();
    let mut state = LiveProgress::new(&plan(&pools), &Mode::ASSIGN, at(0));
    for name in &names[20..30] {
        apply_event(&mut state, at(1), assigned(name, 0));
    }
    apply_event(&mut state, at(2), failed("pool-25", 0, "no"));
    for number in 0..10 {
        apply_event(&mut state, at(3), assigned("pool-31", number));
        apply_event(&mut state, at(4), converged("pool-31", number, 1.0));
    }
    insta::assert_snapshot!(shown(&state, 80, 24, 5));
    insta::assert_snapshot!("one_line_for_many_pools", shown(&state, 80, 3, 5));
}

#[test]
fn final_display_has_only_bars() {
    let lines: Vec<String> = three().rest(80, 24, at(25)).iter().map(|line| strip_str(line).to_string()).collect();
    assert_eq!(lines, ["general [======>>>>>>>xxxxxx] 1/3  1 failed, 1 in transition"]);
}

#[test]
fn unready_canary_is_in_transition_again_and_counts_once() {
    let mut state = LiveProgress::new(&plan(&[("gpu", 20)]), &Mode::ASSIGN, at(0));
    for number in 0..5 {
        apply_event(&mut state, at(0), assigned("gpu", number));
        apply_event(&mut state, at(5), converged("gpu", number, 5.0));
    }
    apply_event(&mut state, at(5), Event::from(Progress::Soaking { until: at(305) }).of(pool_name("gpu")));
    assert_eq!(state.remaining(at(5)), Some((300.0 + 15.0 * 5.0, false)));
    apply_event(&mut state, at(10), waiting("gpu", 0, Waiting::NotReady));
    assert_eq!(state.remaining(at(10)), Some((5.0 + 300.0 + 15.0 * 5.0, false)));
    apply_event(&mut state, at(12), converged("gpu", 0, 2.0));
    assert!(shown(&state, 80, 24, 12).contains(" 5/20|"), "{}", shown(&state, 80, 24, 12));
}

#[test]
fn deleted_nodes_fill_the_bar() {
    let mut state = LiveProgress::new(&plan(&[("gpu", 3)]), &Mode::ASSIGN, at(0));
    assert!(shown(&state, 80, 24, 2).contains(" 0/3|"));
    let (pool, node) = named("gpu", 0);
    apply_event(&mut state, at(1), Event::from(Progress::Gone).of(pool).about(node));
    assert!(shown(&state, 80, 24, 2).contains(" 1/3  1 left the rollout|"));
}

#[test]
fn watching_run_shows_all_nodes_in_transition() {
    let state = LiveProgress::new(&plan(&[("gpu", 3)]), &Mode { assign: false, ..Mode::ASSIGN }, at(0));
    let view = shown(&state, 80, 24, 2);
    assert!(view.contains("3 in transition") && view.contains("gpu/gpu-0000 not assigned"), "{view}");
}

#[test]
fn wraps_and_cuts_messages() {
    assert_eq!(first_lines("one two three", 7, 3), ["one two", "three"]);
    assert_eq!(first_lines("one two three four", 7, 2), ["one two", "three …"]);
    assert_eq!(first_lines("one two three four", 5, 2), ["one", "two …"]);
    assert_eq!(first_lines("unbreakable", 4, 9), ["unbr", "eaka", "ble"]);
    assert_eq!(first_lines("one\ntwo", 9, 2), ["one two"]);
    assert_eq!(first_lines("x", 4, 0), [""; 0]);
    assert_eq!(first_lines(" \n ", 4, 3), [""; 0]);
}

#[test]
fn removes_control_characters() {
    const HOSTILE: &str = "a\u{1b}[2Jb\nc\u{202e}d\u{9b}2J";
    let mut state = LiveProgress::new(&plan(&[("gpu", 5)]), &Mode::ASSIGN, at(0));
    (0..3).for_each(|number| apply_event(&mut state, at(0), assigned("gpu", number)));
    apply_event(&mut state, at(1), failed("gpu", 0, HOSTILE));
    apply_event(&mut state, at(1), waiting("gpu", 1, Waiting::Syncing { error: HOSTILE.to_owned() }));
    let reason = StopReason::Aborted { by: HOSTILE.to_owned(), reason: Some(HOSTILE.to_owned()) };
    apply_event(&mut state, at(1), Event::from(Progress::Stopped { reason }).of(pool_name("gpu")));
    let view = [state.view(200, 50, at(2)), state.rest(200, 50, at(2))].concat().concat();
    // Only the styles of nodecfg may remain.
    let text = regex::Regex::new("\u{1b}\\[[0-9]+m").unwrap().replace_all(&view, "").into_owned();
    assert!(!text.chars().any(nodecfg_contract::printable::is_hidden), "{text:?}");
    assert_eq!(text.matches("[2Jb").count(), 6, "{text}");
}

#[test]
fn long_names_keep_both_ends_and_the_reason() {
    let pools = ["batch-spot-large-eu-central-1a", "batch-spot-large-eu-central-1b"];
    let mut state = LiveProgress::new(&plan(&pools.map(|name| (name, 3))), &Mode::ASSIGN, at(0));
    for name in pools {
        apply_event(&mut state, at(0), assigned(name, 0));
        apply_event(&mut state, at(1), waiting(name, 0, Waiting::NotAcknowledged));
    }
    apply_event(&mut state, at(1), failed(pools[0], 0, "no"));
    let text = shown(&state, 80, 24, 2);
    for line in [
        "batch-spo…entral-1a [",
        "batch-spo…entral-1b [",
        "eu-central-1a-0000, 1s ago|",
        "  2.0s batch-spot-large-eu-central-1b-0000 not acknowledged yet|",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[test]
fn estimates_follow_the_speed_of_the_nodes() {
    let plan = plan(&[("gpu", 20)]);
    let pace = |speed| LiveProgress::new(&plan, &Mode { speed, ..Mode::ASSIGN }, at(0)).pools[0].pace(at(0), None);
    let (real, fast) = (pace(1.0), pace(10.0));
    assert_eq!((real.soak, fast.soak), (300.0, 30.0));
    assert_eq!(fast.timeout, real.timeout / 10.0);
}

#[test]
fn shows_the_gate_that_delays_a_pool() {
    let gate = || nodecfg_contract::names::GateName::new("errors").expect("a name");
    let closed =
        |pool: &str| Event::from(Progress::GateClosed { gate: gate(), why: "5 errors".to_owned() }).of(pool_name(pool));
    let mut state = LiveProgress::new(&plan(&[("gpu", 3)]), &Mode::ASSIGN, at(0));
    apply_event(&mut state, at(5), closed("gpu"));
    assert!(shown(&state, 120, 24, 6).contains("waiting for gate errors: 5 errors"), "{}", shown(&state, 120, 24, 6));
    apply_event(&mut state, at(7), Event::from(Progress::GateOpened { gate: gate() }).of(pool_name("gpu")));
    assert!(!shown(&state, 120, 24, 8).contains("gate"));
}
