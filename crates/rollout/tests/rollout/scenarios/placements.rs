//! Changes of the placement alone: source and content stay, so only the placement tells whether a node has arrived.

use super::*;
use nodecfg_contract::Placement;
use nodecfg_fleet::Pool;
use nodecfg_observed::{NodeConfigList, NodeContent};
use nodecfg_plan::fixtures::{fetched, replacing};

const OVERLAY: Option<Placement> = Some(Placement::Overlay);
const REPLACE: Option<Placement> = Some(Placement::Replace);

/// The node on the target. Its NodeConfig has this placement, and its agent reports that one.
fn placed(placement: Option<Placement>, active_placement: Option<Placement>) -> Node {
    let hash = Some(rendered("a", 64).hash);
    let content = NodeContent { assigned: hash, active: hash, placement, active_placement, ..replacing() };
    Node { content: Some(content), ..on(node("n1", "a"), &target()) }
}

/// A rollout of the overlay of a pool to a node that replaces its own configuration.
fn overlaying(mode: Mode) -> Scenario {
    let mut cluster = observed([placed(None, REPLACE)]);
    cluster.versions.node_configs = Some(NodeConfigList::default());
    let wanted = rendered("a", 64);
    with_config_map(&mut cluster, "a", &wanted);
    cluster.contents.extend([fetched(&target(), &wanted.canonical, true)]);
    let overlaying = Pool { placement: OVERLAY, ..pool("a", 64, policy(1)) };
    let mut scenario = Scenario::of(desired([overlaying]), cluster, mode);
    assert_eq!(scenario.send(Input::Start), ["assign n1"]);
    scenario.send(Input::Assigned(node_name("n1")));
    scenario
}

fn end(scenario: &Scenario) -> End {
    scenario.machine.outcome().pools[&pool_name("a")].nodes[0].end.clone()
}

#[test]
fn node_converges_once_its_agent_reports_the_placement() {
    let mut scenario = overlaying(ASSIGN);
    // From before the assignment.
    scenario.see(placed(None, REPLACE));
    scenario.see(placed(OVERLAY, REPLACE));
    assert!(!matches!(end(&scenario), End::Converged), "its source and its content are those of the target");
    let waits = |progress: &Progress| {
        matches!(progress, Progress::Waiting { waiting: Waiting::OtherPlacement { reported: REPLACE }, .. })
    };
    assert!(scenario.progress().any(waits), "{:?}", scenario.events);
    scenario.see(placed(OVERLAY, OVERLAY));
    assert_eq!(end(&scenario), End::Converged);
    // Another client changes the placement alone.
    scenario.see(placed(REPLACE, OVERLAY));
    assert!(matches!(end(&scenario), End::Changed { .. }), "{:?}", end(&scenario));
}

#[test]
fn node_is_rolled_back_to_its_placement() {
    let mut scenario = overlaying(Mode { rollback_on_failure: true, ..ASSIGN });
    let refusing = |placement, active| {
        let mut node = placed(placement, active);
        node.status.error = Some(error_text::VALIDATE.to_owned());
        node
    };
    scenario.see(refusing(OVERLAY, REPLACE));
    assert_eq!(scenario.rolled_back(), ["n1"]);
    scenario.send(Input::RolledBack(node_name("n1"), Ok(())));
    let is_back =
        |scenario: &Scenario| scenario.progress().any(|progress| matches!(progress, Progress::RolledBack { .. }));
    scenario.see(refusing(OVERLAY, REPLACE));
    assert!(!is_back(&scenario), "its NodeConfig still has the overlay");
    scenario.see(placed(REPLACE, OVERLAY));
    assert!(!is_back(&scenario), "its agent still merges");
    scenario.see(placed(REPLACE, REPLACE));
    assert!(is_back(&scenario));
}
