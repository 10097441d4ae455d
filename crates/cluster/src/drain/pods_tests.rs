//! Tests of lists and watches over a fake connection.

use serde_json::{Value, json};

use super::*;
use crate::connection::fake::{Reply, reader};

fn pod(name: &str, node: Option<&str>) -> Value {
    json!({"metadata": {"namespace": "web", "name": name, "uid": format!("uid-{name}"), "resourceVersion": "8"},
        "spec": {"nodeName": node}})
}

fn page(items: &[Value], next: &str) -> Reply {
    Reply::Json(200, json!({"metadata": {"resourceVersion": "7", "continue": next}, "items": items}))
}

fn names(pods: &[Pod]) -> Vec<&str> {
    pods.iter().map(|pod| pod.name.as_str()).collect()
}

fn name(text: &str) -> NodeName {
    NodeName::new(text).expect("a name")
}

#[tokio::test]
async fn follows_the_pods_of_one_node() {
    let line = |kind: &str, name: &str| json!({"type": kind, "object": pod(name, Some("n1"))});
    let (reader, log) = reader(vec![
        page(&[pod("a", Some("n1"))], ""),
        Reply::Lines(vec![line("ADDED", "b"), line("MODIFIED", "a"), line("DELETED", "a")]),
    ]);
    let events: Vec<_> = reader.watch_pods(&name("n1")).take(4).map(|event| event.expect("an event")).collect().await;
    let [PodEvent::Relisted(all), PodEvent::Upsert(b), PodEvent::Upsert(a), PodEvent::Gone { uid }] = &events[..]
    else {
        panic!("{events:?}");
    };
    assert_eq!((names(all), b.name.as_str(), a.name.as_str(), uid.as_str()), (vec!["a"], "b", "a", "uid-a"));
    let lines = log.lines();
    assert_eq!(lines[0], "GET /api/v1/pods?limit=250&fieldSelector=spec.nodeName%3Dn1");
    assert!(lines[1].starts_with("GET /api/v1/pods?watch=true"), "{lines:?}");
    assert!(lines[1].ends_with("&fieldSelector=spec.nodeName%3Dn1"), "{lines:?}");
}

/// A drain must not take the node for empty.
#[tokio::test]
async fn unreadable_pod_ends_the_watch_with_an_error() {
    let broken = json!({"metadata": {"namespace": "web", "name": "a"}, "spec": {"nodeName": "n1"}});
    let (reader, _) = reader(vec![page(&[pod("b", Some("n1")), broken], "")]);
    let events: Vec<_> = reader.watch_pods(&name("n1")).collect().await;
    assert!(matches!(events[..], [Err(ClusterError::Unexpected { .. })]), "{events:?}");
}

#[tokio::test]
async fn list_of_all_pods_keeps_what_the_caller_wants() {
    let expired = crate::connection::fake::status(410, "Expired", "too old", json!(null));
    let (reader, log) = reader(vec![
        page(&[pod("a", Some("n1")), pod("b", None)], "t"),
        expired,
        page(&[pod("a", Some("n1")), pod("b", None)], "t"),
        page(&[pod("c", Some("n2"))], ""),
        page(&[pod("a", Some("n1"))], ""),
    ]);
    let kept = reader.list_pods(|pod| Some((pod.node, pod.name))).await.expect("a list");
    assert_eq!(kept, [(name("n1"), "a".to_owned()), (name("n2"), "c".to_owned())]);
    assert_eq!(names(&reader.list_pods_on(&name("n1")).await.expect("a list")), ["a"]);
    let lines = log.lines();
    assert_eq!(lines[3], "GET /api/v1/pods?limit=1000&continue=t");
    assert_eq!(lines[4], "GET /api/v1/pods?limit=250&fieldSelector=spec.nodeName%3Dn1");
}

#[tokio::test]
async fn lists_budgets_of_all_namespaces() {
    let budget = json!({"metadata": {"namespace": "web", "name": "b"}, "status": {"disruptionsAllowed": 2}});
    let (reader, log) = reader(vec![page(&[budget], "")]);
    let budgets = reader.list_pod_budgets().await.expect("a list");
    assert_eq!((budgets.len(), budgets[0].name.as_str(), budgets[0].allowed), (1, "b", 2));
    assert_eq!(log.lines(), ["GET /apis/policy/v1/poddisruptionbudgets?limit=250"]);
}

#[tokio::test]
async fn counts_attached_volumes_of_the_given_nodes() {
    let attachment = |node: &str, status: Value| json!({"spec": {"nodeName": node}, "status": status});
    let attached = || json!({"attached": true});
    let (reader, log) = reader(vec![
        page(&[attachment("n1", attached()), attachment("n2", attached()), attachment("n1", Value::Null)], "t"),
        page(&[attachment("n1", json!({"attached": false})), attachment("n1", json!({"attached": "?"}))], "u"),
        page(&[attachment("n1", attached()), attachment("n3", json!({"attached": false}))], ""),
    ]);
    let nodes = BTreeSet::from([name("n1"), name("n3")]);
    let counts = reader.attached_volumes(&nodes).await.expect("a list");
    assert_eq!(counts, BTreeMap::from([(name("n1"), 4)]));
    assert_eq!(log.lines()[0], "GET /apis/storage.k8s.io/v1/volumeattachments?limit=250");
}

/// A list from etcd would read all pods of the cluster for each node of a rollout.
#[tokio::test]
async fn pods_of_a_changed_node_come_from_the_cache() {
    let (reader, log) = reader(vec![page(&[pod("a", Some("n1")), pod("b", Some("n1"))], "")]);
    assert_eq!(names(&reader.cached_pods_on(&name("n1")).await.expect("pods")), ["a", "b"]);
    assert_eq!(log.lines(), ["GET /api/v1/pods?resourceVersion=0&fieldSelector=spec.nodeName%3Dn1"]);
}
