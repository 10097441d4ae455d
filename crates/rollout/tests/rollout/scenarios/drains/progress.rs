//! Events of a drain.

use super::*;

/// A drain reports its start, each new block and its end. A block that is tried again changes nothing.
#[test]
fn drain_reports_start_blocks_and_end_once() {
    let mut scenario = rollout(drains(1), &["n1"]);
    scenario.send(Input::Start);
    scenario.marked("n1");
    scenario.pods("n1", [pod("a"), pod("b"), daemon("proxy")]);
    let blocked = |budget: &str| EvictionAnswer::Blocked { reason: format!("budget {budget}") };
    for budget in ["web", "web", "all", "web"] {
        for name in ["a", "b"] {
            assert_eq!(scenario.evicted("n1", name, blocked(budget)), [""; 0]);
        }
        assert_eq!(scenario.wait(5), ["evict n1 a", "evict n1 b"]);
    }
    assert_eq!(scenario.evicted("n1", "a", EvictionAnswer::Gone), [""; 0]);
    assert_eq!(scenario.evicted("n1", "b", EvictionAnswer::Gone), ["volumes n1"]);
    scenario.send(Input::Volumes(node_name("n1"), Ok(0)));
    let of_drain = |progress: &Progress| match progress {
        Progress::DrainStarted { pods } => Some(format!("{pods} pods")),
        Progress::DrainBlocked { pod, reason } => Some(format!("{pod} {reason}")),
        Progress::Drained { seconds } => Some(format!("{seconds} s")),
        _ => None,
    };
    let reported: Vec<String> = scenario.progress().filter_map(of_drain).collect();
    assert_eq!(reported, ["2 pods", "web/a budget web", "web/a budget all", "20 s"]);
    assert_eq!(
        scenario.waits(),
        [
            "n1: draining",
            "n1: draining, 2 pods left",
            "n1: draining, 2 pods left; blocked: pod web/a: budget web",
            "n1: draining, 2 pods left; blocked: pod web/a: budget all",
            "n1: draining, 2 pods left; blocked: pod web/a: budget web",
            "n1: draining, 1 pod left; blocked: pod web/b: budget web",
        ]
    );
}
