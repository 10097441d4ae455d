//! Kills of the agent of a new node that joins by the pool pointer. The node must join once, and lose its startup taint
//! if and only if its kubelet runs the configuration.

use crate::random_scenario::CrashInjector;
use crate::simulated_node::{CrashKind, CrashPoint, SimulatedNode};

/// Whether the kubelet accepts the configuration and is healthy on it.
const CONTENTS: [(&str, bool); 4] = [("good-a", true), ("silent", false), ("bad-value", false), ("no-restart", false)];

fn settled(seed: u64, content: &'static str, crash: Option<(CrashPoint, CrashKind)>) -> SimulatedNode {
    let mut sim = SimulatedNode::tainted(seed, content);
    if let Some((point, kind)) = crash {
        sim.schedule_crash(point, kind);
    }
    CrashInjector::disabled().settle(&mut sim);
    sim
}

#[test]
fn joins_once_despite_a_kill_at_any_point() {
    let effects = (0..14).flat_map(|count| [CrashPoint::Before(count), CrashPoint::After(count)]);
    let operations = (0..120).map(CrashPoint::Operation);
    let points: Vec<CrashPoint> = effects.chain(operations).collect();
    let mut kills = 0;
    for (content, good) in CONTENTS {
        let expected = settled(1, content, None);
        assert_eq!((expected.joined().created, expected.joined().tainted), (1, !good), "{content}\n{}", expected.log);
        for (seed, point) in (2..).zip(&points) {
            for kind in [CrashKind::Process, CrashKind::Power] {
                let found = settled(seed, content, Some((*point, kind)));
                let differences = expected.snapshot().differences(&found.snapshot());
                let context = || format!("{content}, {kind:?} at {point:?}\n{}", found.log);
                assert!(differences.is_empty(), "{}\n{}", differences.join("\n"), context());
                assert_eq!((found.joined().created, found.joined().tainted), (1, !good), "{}", context());
                assert!(found.runs_good_config(), "{}", context());
                kills += found.kills;
            }
        }
    }
    println!("{kills} kills");
    assert!(kills > 600, "{kills}");
}
