//! NodeConfigs that a compromised node left behind so that no later machine of its name gets one.

use super::*;
use crate::reading::observe;

/// A cluster with Nodes that joined ten minutes ago.
async fn old_cluster(nodes: &[&str]) -> (Api, ClusterReader) {
    let clock = Arc::new(|| nodecfg_clock::now() - jiff::SignedDuration::from_mins(10));
    let api = api_with(ApiOptions { profile: ServerProfile::V1_36, clock, ..ApiOptions::default() }, nodes);
    define(&api);
    let reader = reader(&api).with_binding(None).await.expect("bound");
    (api, reader)
}

/// A NodeConfig of n1 as its agent may create it without an admission policy: any owner, finalizers and labels, no hash.
fn left_behind(owner: &Value, finalizers: &[&str]) -> Value {
    json!({
        "apiVersion": "nodecfg.dev/v1alpha1", "kind": "NodeConfig",
        "metadata": {
            "name": "n1", "ownerReferences": [owner], "finalizers": finalizers,
            "labels": {"app.kubernetes.io/managed-by": "helm", "x": "y"}, "annotations": {"x": "y"},
        },
        "spec": {"configSource": source("a"), "selfAssigned": true},
    })
}

fn owner(node: &str, uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid})
}

/// The state of n1, and the assignment that planning makes for it.
async fn assign_new(api: &Api, reader: &ClusterReader) -> Result<Option<ConfigSource>, ClusterError> {
    let (nodes, _) = reader.list_nodes().await.expect("the list is readable");
    assert!(nodes.values().all(|node| node.name == name("n1") || node.obstacle.is_none()), "{nodes:?}");
    let n1 = &nodes[&name("n1")];
    assert_eq!((n1.obstacle.clone(), &n1.source, n1.status.active.as_ref()), (None, &None, None));
    assert!(!n1.assigned_before && !n1.is_self_assigned(), "nothing of the earlier machine counts");
    let (writer, _held) = writer(reader).await;
    writer.assign(&name("n1"), &assign(&uid_of(api, "n1"), None, Some("b"))).await
}

#[tokio::test]
async fn node_config_of_a_foreign_owner_is_replaced() {
    let (api, reader) = old_cluster(&["n1", "n2"]).await;
    for finalizers in [&[][..], &["example.com/keep"]] {
        create(&api, GROUP, "nodeconfigs", left_behind(&owner("n2", &uid_of(&api, "n2")), finalizers));
        let error = assign_new(&api, &reader).await.expect_err("the node is read again");
        assert!(matches!(error, ClusterError::PreconditionFailed { .. }), "{error}");
        assert_eq!(api.get(GROUP, "nodeconfigs", "", "n1"), None, "the garbage collector has deleted it");
        assert_eq!(assign_new(&api, &reader).await, Ok(Some(source("b"))));
        let made = node_config(&api, "n1");
        assert_eq!(made["metadata"]["ownerReferences"], json!([owner("n1", &uid_of(&api, "n1"))]));
        assert_eq!((made["metadata"].get("finalizers"), made["spec"].get("selfAssigned")), (None, None));
        delete(&reader, "n1").await;
    }
}

/// The machine is gone, and a new one has its name.
#[tokio::test]
async fn node_config_that_finalizers_keep_is_replaced() {
    let (api, reader) = old_cluster(&["n1"]).await;
    for uid in ["uid-of-the-earlier-node", &uid_of(&api, "n1")] {
        create(&api, GROUP, "nodeconfigs", left_behind(&owner("n1", uid), &["example.com/keep"]));
        delete(&reader, "n1").await;
        assert!(node_config(&api, "n1")["metadata"]["deletionTimestamp"].is_string());
        assert_eq!(assign_new(&api, &reader).await, Ok(Some(source("b"))));
        assert_eq!(node_config(&api, "n1")["metadata"]["ownerReferences"], json!([owner("n1", &uid_of(&api, "n1"))]));
        delete(&reader, "n1").await;
    }
}

/// The garbage collector has not deleted it yet, or the cluster reserves changes of owners for other users.
#[tokio::test]
async fn node_config_of_another_node_is_left_alone_while_it_may_go_by_itself() {
    // The Node joined just now.
    let (api, reader) = cluster(&["n1", "n2"]).await;
    create(&api, GROUP, "nodeconfigs", left_behind(&owner("n2", &uid_of(&api, "n2")), &[]));
    let observed = observe::list(&reader, None).await.expect("a list");
    assert_eq!(observed.nodes[&name("n1")].obstacle, Some(Obstacle::Outlived));
    let (writer, _held) = writer(&reader).await;
    let before = node_config(&api, "n1");
    for uid in [uid_of(&api, "n1").as_str(), "another"] {
        let error = writer.assign(&name("n1"), &assign(uid, None, Some("b"))).await.expect_err("not yet");
        assert!(matches!(error, ClusterError::PreconditionFailed { .. }), "{error}");
    }
    assert_eq!(node_config(&api, "n1"), before);
    // An assignment for an earlier Node removes nothing, however old the present one is; nor does one that was decided
    // for a node with an assignment, or a reset.
    let (api, reader) = old_cluster(&["n1", "n2"]).await;
    create(&api, GROUP, "nodeconfigs", left_behind(&owner("n2", &uid_of(&api, "n2")), &[]));
    let (writer, _held) = super::writer(&reader).await;
    let before = node_config(&api, "n1");
    let uid = uid_of(&api, "n1");
    for (uid, from, to) in [("earlier", None, Some("b")), (&uid, Some("a"), Some("b")), (&uid, None, None)] {
        let error = writer.assign(&name("n1"), &assign(uid, from, to)).await.expect_err("as it was read");
        assert!(matches!(error, ClusterError::PreconditionFailed { .. }), "{error}");
        assert_eq!(node_config(&api, "n1"), before);
    }
}

/// The garbage collector may need some time. Until then, the node waits instead of losing its attempts.
#[tokio::test]
async fn discarded_node_config_is_awaited() {
    let config = |uid: &str| {
        let config = json!({"metadata": {"name": "n1", "uid": "c", "ownerReferences": [owner("n1", uid)]}, "spec": {}});
        nodecfg_observed::NodeConfigState::of(serde_json::from_value(config).expect("a NodeConfig"))
    };
    assert!(config("c").discarded && !config("d").discarded);
}
