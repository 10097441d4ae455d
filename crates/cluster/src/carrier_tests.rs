//! How Nodes and NodeConfigs become one, and that two watches in any order come to the same as two lists.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_assert_eq, prop_oneof, proptest};
use serde_json::{Value, json};

use super::*;
use nodecfg_contract::{ConfigSource, ConfigStatus};

fn now() -> Timestamp {
    "2026-11-21T12:00:00Z".parse().expect("a time")
}

fn node(name: &str, uid: &str) -> Node {
    Node { uid: uid.to_owned(), ..Node::named(NodeName::new(name).expect("a name")) }
}

/// A NodeConfig of n1 that was made an hour ago.
fn carrier(metadata: &Value, status: Value) -> NodeConfig {
    let source = ConfigSource::config_map("nodecfg-system", "a", "kubelet");
    let mut object = json!({
        "metadata": {"name": "n1", "uid": "c", "creationTimestamp": "2026-11-21T11:00:00Z"},
        "spec": {"configSource": source},
        "status": status,
    });
    json_patch::merge(&mut object, &json!({"metadata": metadata}));
    serde_json::from_value(object).expect("a NodeConfig")
}

fn owned_by(uid: &str) -> Value {
    json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": uid}]})
}

#[test]
fn what_counts_as_a_nodes_own() {
    let half = |carrier: Option<&NodeConfig>| {
        let node = join(node("n1", "u"), carrier, now());
        (node.half, node.source.is_some())
    };
    let reported = json!({"config": {}});
    assert_eq!(half(None), (NodeSupport::Follows, false), "it is made when something is assigned");
    assert_eq!(half(Some(&carrier(&owned_by("u"), reported.clone()))), (NodeSupport::Follows, true));
    assert_eq!(half(Some(&carrier(&owned_by("old"), reported.clone()))), (NodeSupport::Outlived, false));
    assert_eq!(half(Some(&carrier(&json!({}), reported.clone()))), (NodeSupport::Follows, true), "made by hand");
    let mut going = owned_by("u");
    going["deletionTimestamp"] = json!("2026-11-21T11:59:00Z");
    assert_eq!(half(Some(&carrier(&going, reported))), (NodeSupport::Outlived, false));
    let both = json!({"ownerReferences": [{"kind": "Fleet", "uid": "f"}, {"kind": "Node", "uid": "u"}]});
    assert!(carrier(&both, json!({})).stands_for("u"));
    assert!(!carrier(&both, json!({})).stands_for("f"));
}

#[test]
fn an_agent_has_some_time_to_report() {
    let half = |created: &str| {
        let mut metadata = owned_by("u");
        metadata["creationTimestamp"] = json!(created);
        join(node("n1", "u"), Some(&carrier(&metadata, json!({}))), now()).half
    };
    assert_eq!(half("2026-11-21T11:58:01Z"), NodeSupport::Follows);
    assert_eq!(half("2026-11-21T11:57:59Z"), NodeSupport::AgentSilent);
    assert_eq!(half("2026-11-21T12:00:09Z"), NodeSupport::Follows, "the clocks differ");
}

#[test]
fn what_a_node_says_itself_is_not_asked() {
    let old = ConfigSource::config_map("kube-system", "old", "kubelet");
    let status = ConfigStatus { active: Some(old.clone()), ..ConfigStatus::default() };
    let alone = Node { source: Some(old), status, ..node("n1", "u") };
    let joined = join(alone, None, now());
    assert_eq!((joined.source, joined.status), (None, ConfigStatus::default()));
}

/// What a watch may say of two Nodes' names.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "there are few")]
enum Said {
    Node(Change<Node>),
    Config(Change<(NodeName, Arc<NodeConfig>)>),
}

fn nodes() -> impl Strategy<Value = Node> {
    (0..2_u8, 0..2_u8).prop_map(|(name, uid)| node(&format!("n{name}"), &format!("u{uid}")))
}

fn carriers() -> impl Strategy<Value = (NodeName, Arc<NodeConfig>)> {
    (0..2_u8, 0..3_u8, any::<bool>(), any::<bool>()).prop_map(|(name, owner, reported, assigned)| {
        let metadata = if owner < 2 { owned_by(&format!("u{owner}")) } else { json!({}) };
        let mut carrier = carrier(&metadata, if reported { json!({"config": {"error": "e"}}) } else { json!({}) });
        carrier.metadata.name = format!("n{name}");
        carrier.spec.config_source = carrier.spec.config_source.filter(|_| assigned);
        named(carrier).expect("a name")
    })
}

fn change<T: std::fmt::Debug + Clone + 'static>(
    of: impl Strategy<Value = T> + Clone + 'static,
) -> impl Strategy<Value = Change<T>> {
    prop_oneof![
        6 => of.clone().prop_map(Change::Upsert),
        2 => of.clone().prop_map(Change::Deleted),
        1 => vec(of, 0..2).prop_map(Change::Relisted),
    ]
}

fn said() -> impl Strategy<Value = Vec<Said>> {
    let nodes = Arc::new(nodes());
    let carriers = Arc::new(carriers());
    vec(prop_oneof![change(nodes).prop_map(Said::Node), change(carriers).prop_map(Said::Config)], 0..20)
}

/// Takes in what an event says, as the reader of a watch does.
fn hear(known: &mut BTreeMap<NodeName, Node>, event: NodeEvent) {
    match event {
        NodeEvent::Upsert(node) => {
            known.insert(node.name.clone(), *node);
        }
        NodeEvent::Deleted(name) => {
            known.remove(&name);
        }
        NodeEvent::Relisted(nodes) => *known = nodes.into_iter().map(|node| (node.name.clone(), node)).collect(),
    }
}

proptest! {
    #[test]
    fn two_watches_come_to_the_same_as_two_lists(said in said()) {
        let mut halves = JoinedWatch::default();
        let mut known = BTreeMap::new();
        for said in said {
            let event = match said {
                Said::Node(change) => halves.node(change, now()),
                Said::Config(change) => halves.config(change, now()),
            };
            if let Some(event) = event {
                hear(&mut known, event);
            }
            let listed = |node: &Node| join(node.clone(), halves.configs.get(&node.name).map(Arc::as_ref), now());
            let all: BTreeMap<_, _> = halves.nodes.iter().map(|(name, node)| (name.clone(), listed(node))).collect();
            prop_assert_eq!(&known, &all);
        }
    }

    #[test]
    fn a_watch_goes_on_from_what_was_listed(node in nodes(), carrier in proptest::option::of(carriers()), said in Just(0..3)) {
        let carrier = carrier.map(|(_, carrier)| (node.name.clone(), carrier));
        let list = NodeConfigList { items: carrier.clone().into_iter().collect(), ..NodeConfigList::default() };
        let listed = join_listed(node.clone(), Some(&list), now());
        let mut halves = JoinedWatch::of(&BTreeMap::from([(node.name.clone(), listed.clone())]), Some(&list));
        // The same Node again, as with every heartbeat, changes nothing.
        for _ in said {
            let event = halves.node(Change::Upsert(node.clone()), now());
            prop_assert_eq!(event, Some(NodeEvent::Upsert(Box::new(listed.clone()))));
        }
        // Without its NodeConfig it has nothing, whatever it had.
        if let Some(carrier) = carrier {
            let event = halves.config(Change::Deleted(carrier), now());
            prop_assert_eq!(event, Some(NodeEvent::Upsert(Box::new(join(node, None, now())))));
        }
    }
}
