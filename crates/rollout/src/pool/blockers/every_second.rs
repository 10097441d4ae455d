//! A blocker of a test, which holds every second node: what a new reason to wait costs.

use std::time::Duration;

use super::{Asked, MayStart};
use crate::instant::Now;
use crate::outcome::End;
use crate::pool::Pool;
use crate::pool::node::Node;
use crate::signals::{Command, Mode};
use nodecfg_contract::names::GateName;
use nodecfg_contract::{ObjectId, ObjectRef};
use nodecfg_fleet::RolloutPolicy;
use nodecfg_fleet::gates::{Gate, GateCheck, Moment, Wanted};
use nodecfg_fleet::hold::{Hold, HoldReason};
use nodecfg_plan::fixtures::{desired, namespace, node, node_name, observed, on, options, policy, pool, rendered};
use nodecfg_plan::make;

fn may_start(_: &Pool, node: &Node) -> MayStart {
    match node.intent.name().as_str() {
        "n2" | "n4" => MayStart::Hold(hold()),
        _ => MayStart::Yes,
    }
}

/// A pool is held once no other node waits, also not for its permit.
#[test]
fn pool_is_not_held_while_a_node_awaits_its_permit() {
    let (api_version, kind, by) = ("v1".to_owned(), "Node".to_owned(), ObjectId::Name("{node}".to_owned()));
    let object = ObjectRef { api_version, kind, namespace: None, by };
    let wanted = Wanted::Condition { condition: "Idle".to_owned(), status: "True".to_owned() };
    let check = GateCheck::Object { object, wanted };
    let name = GateName::new("owner").expect("a name");
    let gates = vec![Gate { name, check, at: Moment::ALL.into(), patience: Duration::from_secs(600) }];
    let desired = desired([pool("a", 64, RolloutPolicy { gates, ..policy(4) })]);
    let plan = make(&desired, &observed(["n1", "n2"].map(|name| node(name, "a"))), &options()).expect("can be planned");
    let mode = Mode { gates: Some(Duration::from_secs(15)), ..Mode::ASSIGN };
    let mut pool = Pool::new(&plan.fleet, &plan.pools[0], mode);
    pool.starts.blockers.insert(0, (may_start, Asked::Again));
    pool.step(Now::START, Pool::start);
    let (_, id) = pool.ids().next().expect("has nodes");
    pool.step(Now::START, |pool| pool.permit_answered(id, &[]));
    assert!(!pool.is_finished());
    assert_eq!(pool.outcome().held, None);
}

fn hold() -> Hold {
    Hold { why: HoldReason::Exclusion { reason: "every second".to_owned() }, next: None }
}

#[test]
fn blocker_holds_its_nodes_and_no_other() {
    let names = ["n1", "n2", "n3", "n4"];
    let desired = desired([pool("a", 64, policy(4))]);
    let plan = make(&desired, &observed(names.map(|name| node(name, "a"))), &options()).expect("can be planned");
    let mut pool = Pool::new(&plan.fleet, &plan.pools[0], Mode::ASSIGN);
    pool.starts.blockers.push((may_start, Asked::Again));
    let assigned: Vec<String> = pool
        .step(Now::START, Pool::start)
        .into_iter()
        .filter_map(|command| matches!(&command, Command::Assign(..)).then(|| format!("{command:?}")))
        .collect();
    assert_eq!(assigned.len(), 2);
    let target = rendered("a", 64).source(&namespace());
    for name in ["n1", "n3"] {
        let (_, id) = pool.ids().find(|(node, _)| **node == node_name(name)).expect("is in the pool");
        pool.step(Now::START, |pool| pool.assigned(id));
        pool.step(Now::START, |pool| pool.observed(id, &on(node(name, "a"), &target)));
    }
    let outcome = pool.outcome();
    assert!(pool.is_finished());
    assert_eq!(outcome.held, Some(hold()));
    let ends: Vec<&End> = outcome.nodes.iter().map(|node| &node.end).collect();
    assert_eq!(ends, [&End::Converged, &End::Held, &End::Converged, &End::Held]);
}
