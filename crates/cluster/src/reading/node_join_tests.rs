//! Tests of joining Nodes with NodeConfigs. Property: two watches in any order yield the same Nodes as two lists.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_assert_eq, prop_oneof, proptest};
use serde_json::{Value, json};

use super::*;
use nodecfg_contract::{ConfigSource, ConfigStatus, ContentHash, UnreadableField, error_text};
use nodecfg_observed::CreationTime;

fn now() -> Timestamp {
    "2026-11-21T12:00:00Z".parse().expect("a time")
}

fn node(name: &str, uid: &str) -> Node {
    Node { uid: uid.to_owned(), ..Node::named(NodeName::new(name).expect("a name")) }
}

/// A NodeConfig of n1, created an hour ago.
fn node_config(metadata: &Value, status: Value) -> NodeConfigState {
    let source = ConfigSource::config_map("nodecfg-system", "a", "kubelet");
    let mut object = json!({
        "metadata": {"name": "n1", "uid": "c", "creationTimestamp": "2026-11-21T11:00:00Z"},
        "spec": {"configSource": source},
        "status": status,
    });
    json_patch::merge(&mut object, &json!({"metadata": metadata}));
    NodeConfigState::of(serde_json::from_value(object).expect("a NodeConfig"))
}

fn join(mut node: Node, config: Option<&NodeConfigState>, now: Timestamp) -> Node {
    super::join(&mut node, config, now);
    node
}

fn owned_by(uid: &str) -> Value {
    json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": uid}]})
}

#[test]
fn node_with_its_node_config_was_assigned_before() {
    let before = |config: Option<&NodeConfigState>| join(node("n1", "u"), config, now()).assigned_before;
    assert!(!before(None), "created with the first assignment");
    let reset = NodeConfigState { source: None, ..node_config(&owned_by("u"), json!({"config": {}})) };
    assert!(before(Some(&reset)), "reset to the local configuration");
    assert!(!before(Some(&node_config(&owned_by("old"), json!({})))), "of an earlier node");
}

/// A compromised node must not keep a run waiting for years.
#[test]
fn believes_only_ends_of_trials_within_a_day() {
    let ends = |end: &str, metadata: &Value| {
        let status =
            json!({"config": {}, "agent": {"version": "1", "heardAt": "2026-11-21T12:00:00Z", "trialEndsAt": end}});
        join(node("n1", "u"), Some(&node_config(metadata, status)), now()).trial_ends.map(|end| end.to_string())
    };
    for near in ["2026-11-21T11:00:00Z", "2026-11-22T12:00:00Z"] {
        assert_eq!(ends(near, &owned_by("u")).as_deref(), Some(near));
    }
    assert_eq!(ends("2026-11-22T12:00:01Z", &owned_by("u")), None);
    assert_eq!(ends("2026-11-21T12:05:00Z", &owned_by("old")), None, "of an earlier node");
}

#[test]
fn accepts_only_the_nodes_own_node_config() {
    let obstacle = |config: Option<&NodeConfigState>| {
        let node = join(node("n1", "u"), config, now());
        let own = (node.source.is_some(), node.status.error().is_some(), node.status_since.is_some());
        assert!(matches!(own, (true, true, true) | (false, false, false)), "all or nothing: {own:?}");
        let content = node.content.expect("with NodeConfigs");
        assert_eq!(content.active.is_some(), own.0);
        (node.obstacle, own.0)
    };
    let hash = ContentHash::of(b"a").to_string();
    let since = "2026-11-21T11:30:00Z";
    let active = json!({"type": "Active", "status": "True", "reason": "R", "message": "", "lastTransitionTime": since});
    let reported = json!({"config": {"error": "e"}, "contentHash": hash, "conditions": [active]});
    assert_eq!(obstacle(None), (None, false), "created with the first assignment");
    assert_eq!(obstacle(Some(&node_config(&owned_by("u"), reported.clone()))), (None, true));
    assert_eq!(obstacle(Some(&node_config(&owned_by("old"), reported.clone()))), (Some(Obstacle::Outlived), false));
    assert_eq!(obstacle(Some(&node_config(&json!({}), reported.clone()))), (None, true), "created by hand");
    let mut deleted = owned_by("u");
    deleted["deletionTimestamp"] = json!("2026-11-21T11:59:00Z");
    assert_eq!(obstacle(Some(&node_config(&deleted, reported))), (Some(Obstacle::Outlived), false));
    let both = json!({"ownerReferences": [{"kind": "Fleet", "uid": "f"}, {"kind": "Node", "uid": "u"}]});
    assert!(node_config(&both, json!({})).represents("u"));
    assert!(!node_config(&both, json!({})).represents("f"));
}

/// A compromised node can name another Node as owner, or keep its NodeConfig by finalizers.
#[test]
fn node_config_that_stays_is_replaced_by_an_assignment() {
    let obstacle = |created: &str, metadata: &Value| {
        let created = CreationTime::parse(created);
        join(Node { created, ..node("n1", "u") }, Some(&node_config(metadata, json!({}))), now()).obstacle
    };
    let (old, young) = ("2026-11-21T11:58:00Z", "2026-11-21T11:58:01Z");
    assert_eq!(obstacle(old, &owned_by("other")), None);
    assert_eq!(obstacle(young, &owned_by("other")), Some(Obstacle::Outlived), "it is collected soon");
    assert_eq!(obstacle("", &owned_by("other")), Some(Obstacle::Outlived), "its age is unknown");
    assert_eq!(obstacle(old, &owned_by("c")), Some(Obstacle::Outlived), "the reconciler has left it to the collector");
    let mut deleted = owned_by("u");
    deleted["deletionTimestamp"] = json!("2026-11-21T11:59:00Z");
    assert_eq!(obstacle(old, &deleted), Some(Obstacle::Outlived));
    deleted["finalizers"] = json!(["example.com/keep"]);
    for (created, owner) in [(old, "u"), (young, "u"), (young, "other")] {
        deleted["ownerReferences"] = owned_by(owner)["ownerReferences"].clone();
        assert_eq!(obstacle(created, &deleted), None);
    }
}

#[test]
fn unreadable_node_stays_unreadable_with_any_node_config() {
    let field = UnreadableField { field: "status.conditions".to_owned(), reason: "x".to_owned() };
    let obstacle = Some(Obstacle::Unreadable(field));
    let attacked = Node { obstacle: obstacle.clone(), ..node("n1", "u") };
    let good = node_config(&owned_by("u"), json!({"config": {}}));
    let outlived = node_config(&owned_by("old"), json!({}));
    for config in [None, Some(&good), Some(&outlived)] {
        assert_eq!(join(attacked.clone(), config, now()).obstacle, obstacle);
    }
    // An unreadable NodeConfig of an earlier Node says nothing about this one.
    let field = UnreadableField { field: "spec".to_owned(), reason: "x".to_owned() };
    let unreadable = NodeConfigState { unreadable: Some(Box::new(field)), ..outlived };
    assert_eq!(join(node("n1", "u"), Some(&unreadable), now()).obstacle, Some(Obstacle::Outlived));
}

/// A later NodeConfig that is readable must not make a Node readable that is not.
#[test]
fn watch_keeps_a_node_unreadable_for_its_own_fields() {
    let field = |field: &str| UnreadableField { field: field.to_owned(), reason: "x".to_owned() };
    let unreadable = Box::new(field("spec"));
    let config = NodeConfigState { unreadable: Some(unreadable), ..node_config(&owned_by("u"), json!({})) };
    let obstacle = Some(Obstacle::Unreadable(field("status.conditions")));
    let listed = Node { obstacle: obstacle.clone(), ..node("n1", "u") };
    let items = BTreeMap::from([(listed.name.clone(), Arc::new(config))]);
    let listed_configs = NodeConfigList { items, ..NodeConfigList::default() };
    let mut watch = JoinedWatch::of(&BTreeMap::from([(listed.name.clone(), listed.clone())]), Some(&listed_configs));
    let readable = Arc::new(node_config(&owned_by("u"), json!({"config": {}})));
    let Some(NodeEvent::Upsert(joined)) = watch.config(Change::Upsert((listed.name, readable)), now()) else {
        panic!("a Node")
    };
    assert_eq!(joined.obstacle, obstacle);
}

#[test]
fn new_node_config_gives_the_agent_time_to_report() {
    let obstacle = |created: &str| {
        let mut metadata = owned_by("u");
        metadata["creationTimestamp"] = json!(created);
        join(node("n1", "u"), Some(&node_config(&metadata, json!({}))), now()).obstacle
    };
    assert_eq!(obstacle("2026-11-21T11:58:01Z"), None);
    assert_eq!(obstacle("2026-11-21T11:57:59Z"), Some(Obstacle::AgentSilent));
    assert_eq!(obstacle("2026-11-21T12:00:09Z"), None, "the clocks differ");
}

#[test]
fn ignores_the_nodes_own_configuration() {
    let old = ConfigSource::config_map("kube-system", "old", "kubelet");
    let status = ConfigStatus { active: Some(old.clone()), ..ConfigStatus::default() };
    let alone = Node { source: Some(old), status, ..node("n1", "u") };
    let joined = join(alone, None, now());
    assert_eq!((joined.source, joined.status), (None, ConfigStatus::default()));
}

/// The present spec may have removed the cause, by another placement or a higher disruption.
#[test]
fn ignores_the_error_of_an_earlier_spec() {
    let error_of = |seen: Option<i64>, error: &str| {
        let mut metadata = owned_by("u");
        metadata["generation"] = json!(2);
        let config = node_config(&metadata, json!({"observedGeneration": seen, "config": {"error": error}}));
        join(node("n1", "u"), Some(&config), now()).status.error
    };
    let sync = format!("{}{}maxPods", error_text::SYNC_PREFIX, error_text::NEEDS_DRAIN_PREFIX);
    for error in [sync.as_str(), error_text::VALIDATE] {
        assert_eq!(error_of(Some(1), error), None);
        for seen in [Some(2), None] {
            assert_eq!(error_of(seen, error).as_deref(), Some(error), "{seen:?}");
        }
    }
}

/// Change from either watch, of two possible Nodes.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "there are few")]
enum WatchChange {
    Node(Change<Node>),
    Config(Change<(NodeName, Arc<NodeConfigState>)>),
}

fn nodes() -> impl Strategy<Value = Node> {
    (0..2_u8, 0..2_u8).prop_map(|(name, uid)| node(&format!("n{name}"), &format!("u{uid}")))
}

fn node_configs() -> impl Strategy<Value = (NodeName, Arc<NodeConfigState>)> {
    (0..2_u8, 0..3_u8, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(name, owner, reported, assigned, bad)| {
            let metadata = if owner < 2 { owned_by(&format!("u{owner}")) } else { json!({}) };
            let mut config =
                node_config(&metadata, if reported { json!({"config": {"error": "e"}}) } else { json!({}) });
            config.source = config.source.filter(|_| assigned);
            let field = || UnreadableField { field: "spec".to_owned(), reason: "x".to_owned() };
            config.unreadable = bad.then(|| Box::new(field()));
            (NodeName::new(format!("n{name}")).expect("a name"), Arc::new(config))
        },
    )
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

fn watch_changes() -> impl Strategy<Value = Vec<WatchChange>> {
    let nodes = Arc::new(nodes());
    let configs = Arc::new(node_configs());
    let either = prop_oneof![change(nodes).prop_map(WatchChange::Node), change(configs).prop_map(WatchChange::Config)];
    vec(either, 0..20)
}

/// Applies an event as the reader of a watch does.
fn apply(known: &mut BTreeMap<NodeName, Node>, event: NodeEvent) {
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
    fn two_watches_yield_the_same_as_two_lists(changes in watch_changes()) {
        let mut watch = JoinedWatch::default();
        let mut known = BTreeMap::new();
        for change in changes {
            let event = match change {
                WatchChange::Node(change) => watch.node(change, now()),
                WatchChange::Config(change) => watch.config(change, now()),
            };
            if let Some(event) = event {
                apply(&mut known, event);
            }
            let listed = |node: &Node| join(node.clone(), watch.configs.get(&node.name).map(Arc::as_ref), now());
            let all: BTreeMap<_, _> = watch.nodes.iter().map(|(name, node)| (name.clone(), listed(node))).collect();
            prop_assert_eq!(&known, &all);
        }
    }

    #[test]
    fn watch_continues_from_a_list(node in nodes(), config in proptest::option::of(node_configs()), repeats in 0..3_u8) {
        let config = config.map(|(_, config)| (node.name.clone(), config));
        let list = NodeConfigList { items: config.clone().into_iter().collect(), ..NodeConfigList::default() };
        let mut listed = node.clone();
        join_listed(&mut listed, Some(&list), now());
        let mut watch = JoinedWatch::of(&BTreeMap::from([(node.name.clone(), listed.clone())]), Some(&list));
        // An unchanged Node, as with every heartbeat, changes nothing.
        for _ in 0..repeats {
            let event = watch.node(Change::Upsert(node.clone()), now());
            prop_assert_eq!(event, Some(NodeEvent::Upsert(Box::new(listed.clone()))));
        }
        // Without its NodeConfig the Node has no assignment.
        if let Some(config) = config {
            let event = watch.config(Change::Deleted(config), now());
            prop_assert_eq!(event, Some(NodeEvent::Upsert(Box::new(join(node, None, now())))));
        }
    }
}
