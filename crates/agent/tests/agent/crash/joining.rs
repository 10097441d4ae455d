//! Kills of the agent of a new node. A node that joins by the pool pointer must join once, and lose its startup taint if
//! and only if its kubelet runs the configuration. The kubelet of a booted node is restarted only to roll it back.

use crate::crash::random_scenario::CrashInjector;
use crate::crash::simulated_node::{CrashKind, CrashPoint, SimulatedNode};
use nodecfg_contract::Placement;

/// Configurations with their placements, and whether the kubelet accepts them and is healthy on them.
const CONTENTS: [(&str, Option<Placement>, bool); 4] = [
    ("good-a", Some(Placement::Overlay), true),
    ("silent", Some(Placement::Overlay), false),
    ("bad-value", None, false),
    ("no-restart", Some(Placement::Replace), false),
];

fn settled(mut sim: SimulatedNode, crash: Option<(CrashPoint, CrashKind)>) -> SimulatedNode {
    if let Some((point, kind)) = crash {
        sim.schedule_crash(point, kind);
    }
    CrashInjector::disabled().settle(&mut sim);
    sim
}

fn points() -> Vec<CrashPoint> {
    let effects = (0..14).flat_map(|count| [CrashPoint::Before(count), CrashPoint::After(count)]);
    effects.chain((0..120).map(CrashPoint::Operation)).collect()
}

#[test]
fn joins_once_despite_a_kill_at_any_point() {
    let points = points();
    let mut kills = 0;
    for (content, placement, good) in CONTENTS {
        let expected = settled(SimulatedNode::tainted(1, content, placement), None);
        assert_eq!((expected.joined().created, expected.joined().tainted), (1, !good), "{content}\n{}", expected.log);
        for (seed, point) in (2..).zip(&points) {
            for kind in [CrashKind::Process, CrashKind::Power] {
                let found = settled(SimulatedNode::tainted(seed, content, placement), Some((*point, kind)));
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

#[test]
fn booted_node_joins_once_without_a_restart_despite_a_kill_at_any_point() {
    let mut kills = 0;
    let overlay = Some(Placement::Overlay);
    for (content, placement, good) in [("good-a", overlay, true), ("silent", overlay, false), ("dies", None, false)] {
        for (seed, point) in (2..).zip(points()) {
            for kind in [CrashKind::Process, CrashKind::Power] {
                let found = settled(SimulatedNode::booted(seed, content, placement), Some((point, kind)));
                let restarts = found.log.matches("the kubelet is restarted").count();
                let context = || format!("{content}, {kind:?} at {point:?}\n{}", found.log);
                if good {
                    assert_eq!((found.joined().created, restarts), (1, 0), "{}", context());
                    let joined = found.config.as_ref().and_then(|config| config.spec.placement);
                    assert_eq!(joined, placement, "{}", context());
                } else {
                    assert!(found.joined().created <= 1 && restarts > 0, "{}", context());
                }
                assert!(found.runs_good_config(), "{}", context());
                kills += found.kills;
            }
        }
    }
    println!("{kills} kills");
    assert!(kills > 400, "{kills}");
}
