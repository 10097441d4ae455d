//! Tests of heartbeats: an agent without changes still reports about once an hour.

use jiff::{SignedDuration, Timestamp};

use super::sim_harness::{SimHarness, at};
use nodecfg_contract::nodeconfig::ReportingAgent;

fn agent(sim: &SimHarness) -> ReportingAgent {
    sim.status().agent.expect("the agent is reported")
}

fn reported_at(sim: &SimHarness) -> Timestamp {
    agent(sim).heard_at.parse().expect("a time")
}

/// Simulation of an agent that has reported everything.
fn settled_sim(seed: u64) -> SimHarness {
    let mut sim = SimHarness::new(seed);
    sim.assign(None);
    sim.run_for(30.0);
    assert_eq!(agent(&sim).version, env!("CARGO_PKG_VERSION"));
    sim
}

#[test]
fn sends_heartbeat_about_hourly() {
    let mut intervals = Vec::new();
    for seed in 1..5 {
        let mut sim = settled_sim(seed);
        for _ in 0..3 {
            let before = reported_at(&sim);
            sim.run_until(before + SignedDuration::from_mins(59));
            assert_eq!(reported_at(&sim), before);
            sim.run_until(before + SignedDuration::from_mins(73));
            intervals.push(reported_at(&sim).duration_since(before).as_secs());
        }
    }
    assert!(intervals.iter().all(|interval| (3_600..=4_321).contains(interval)), "{intervals:?}");
    intervals.dedup();
    assert!(intervals.len() > 1, "no jitter: {intervals:?}");
}

#[test]
fn reports_after_version_change_only() {
    let mut sim = settled_sim(1);
    let before = reported_at(&sim);
    sim.run_for(600.0);
    sim.kill(2);
    sim.run_for(600.0);
    assert_eq!(reported_at(&sim), before);
    sim.config.as_mut().unwrap().status.agent.as_mut().unwrap().version = "0.0.9".to_owned();
    sim.kill(3);
    sim.run_for(30.0);
    assert_eq!(agent(&sim).version, env!("CARGO_PKG_VERSION"));
    assert!(reported_at(&sim) > before);
}

#[test]
fn replaces_heartbeat_time_in_the_future() {
    let mut sim = settled_sim(1);
    let later = (at(0.0) + SignedDuration::from_hours(9_000)).strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    sim.config.as_mut().unwrap().status.agent.as_mut().unwrap().heard_at = later;
    sim.kill(2);
    sim.run_for(30.0);
    assert!(reported_at(&sim) <= sim.now);
}

/// An API server with an older NodeConfig definition drops unknown fields.
#[test]
fn tolerates_server_that_drops_the_agent_field() {
    let mut sim = settled_sim(1);
    for _ in 0..10 {
        sim.config.as_mut().unwrap().status.agent = None;
        sim.deliver_node_config();
        sim.run_for(60.0);
        assert_eq!(sim.status().agent, None);
    }
    sim.run_for(4_400.0);
    assert!(sim.status().agent.is_some());
}
