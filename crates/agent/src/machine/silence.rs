//! That an agent which has nothing to say is heard of all the same, and seldom.

use jiff::{SignedDuration, Timestamp};

use super::world::{World, at};
use nodecfg_contract::nodeconfig::ReportingAgent;

fn agent(world: &World) -> ReportingAgent {
    world.status().agent.expect("says which agent it is")
}

fn heard(world: &World) -> Timestamp {
    agent(world).heard_at.parse().expect("a moment")
}

/// An agent that has told what there is to tell.
fn at_rest(seed: u64) -> World {
    let mut world = World::new(seed);
    world.assign(None);
    world.run_for(30.0);
    assert_eq!(agent(&world).version, env!("CARGO_PKG_VERSION"));
    world
}

#[test]
fn an_agent_without_news_is_heard_of_about_hourly() {
    let mut silences = Vec::new();
    for seed in 1..5 {
        let mut world = at_rest(seed);
        for _ in 0..3 {
            let before = heard(&world);
            world.run_until(before + SignedDuration::from_mins(59));
            assert_eq!(heard(&world), before);
            world.run_until(before + SignedDuration::from_mins(73));
            silences.push(heard(&world).duration_since(before).as_secs());
        }
    }
    assert!(silences.iter().all(|silence| (3_600..=4_321).contains(silence)), "{silences:?}");
    silences.dedup();
    assert!(silences.len() > 1, "all at once: {silences:?}");
}

#[test]
fn a_start_is_no_news_and_another_version_is() {
    let mut world = at_rest(1);
    let before = heard(&world);
    world.run_for(600.0);
    world.kill(2);
    world.run_for(600.0);
    assert_eq!(heard(&world), before);
    world.config.as_mut().unwrap().status.agent.as_mut().unwrap().version = "0.0.9".to_owned();
    world.kill(3);
    world.run_for(30.0);
    assert_eq!(agent(&world).version, env!("CARGO_PKG_VERSION"));
    assert!(heard(&world) > before);
}

#[test]
fn a_clock_that_was_wrong_is_set_right() {
    let mut world = at_rest(1);
    let later = (at(0.0) + SignedDuration::from_hours(9_000)).strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    world.config.as_mut().unwrap().status.agent.as_mut().unwrap().heard_at = later;
    world.kill(2);
    world.run_for(30.0);
    assert!(heard(&world) <= world.now);
}

/// An API server with an older definition of NodeConfigs drops what it does not know.
#[test]
fn what_the_server_forgets_is_not_told_again_and_again() {
    let mut world = at_rest(1);
    for _ in 0..10 {
        world.config.as_mut().unwrap().status.agent = None;
        world.see();
        world.run_for(60.0);
        assert_eq!(world.status().agent, None);
    }
    world.run_for(4_400.0);
    assert!(world.status().agent.is_some());
}
