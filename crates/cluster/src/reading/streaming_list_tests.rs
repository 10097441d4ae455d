//! Tests of streaming lists over a fake connection, and their replacement by pages.

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::connection::fake::{Reply, reader};
use crate::connection::operation::{Operation, Resource, Verb};
use crate::reading::reader::ClusterReader;
use nodecfg_observed::ListVersions;

fn node(name: &str, uid: &str) -> Value {
    json!({"kind": "Node", "metadata": {"name": name, "uid": uid, "resourceVersion": "3"}})
}

fn event(kind: &str, object: &Value) -> Value {
    json!({"type": kind, "object": object})
}

/// As recorded on API server 1.36 with etcd 3.5.30.
fn end(version: &str) -> Value {
    let annotations = json!({"k8s.io/initial-events-end": "true"});
    event("BOOKMARK", &json!({"kind": "Node", "metadata": {"resourceVersion": version, "annotations": annotations}}))
}

async fn names(reader: &ClusterReader) -> Result<(Vec<(String, String)>, ListVersions), crate::ClusterError> {
    let (nodes, versions) = reader.list_nodes().await?;
    Ok((nodes.into_iter().map(|(name, node)| (name.to_string(), node.uid)).collect(), versions))
}

fn streaming(reader: ClusterReader) -> ClusterReader {
    ClusterReader { streams_lists: Arc::new(true.into()), ..reader }
}

fn named(name: &str, uid: &str) -> (String, String) {
    (name.to_owned(), uid.to_owned())
}

#[tokio::test]
async fn reads_the_objects_before_the_last_initial_event() {
    let bookmark = event("BOOKMARK", &json!({"kind": "Node", "metadata": {"resourceVersion": "5"}}));
    let changes = vec![
        event("ADDED", &node("n1", "u1")),
        event("ADDED", &node("n2", "u2")),
        event("ADDED", &node("n3", "u3")),
        event("MODIFIED", &node("n2", "u2-new")),
        bookmark,
        event("DELETED", &node("n3", "u3")),
        end("9"),
        event("DELETED", &node("n1", "u1")),
    ];
    let (reader, log) = reader(vec![Reply::Lines(changes)]);
    let (nodes, versions) = names(&streaming(reader)).await.expect("a list");
    assert_eq!(nodes, [named("n1", "u1"), named("n2", "u2-new")]);
    assert_eq!(versions.nodes, "9");
    let wanted = "GET /api/v1/nodes?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
                  &allowWatchBookmarks=true&timeoutSeconds=300";
    assert_eq!(log.lines(), [wanted]);
}

/// Answers that were recorded on API servers without streaming lists, and broken ones.
#[tokio::test]
async fn reads_pages_where_the_server_has_no_streaming_list() {
    let forbidden = json!({"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden"});
    let invalid = json!({"kind": "Status", "status": "Failure", "code": 422, "reason": "Invalid"});
    let disabled = json!({"kind": "Status", "status": "Failure", "code": 500, "reason": "InternalError",
        "message": "a watch stream was requested by the client but the required storage feature RequestWatchProgress is disabled"});
    let ended = vec![event("ADDED", &node("n1", "cut"))];
    for refusal in [
        Reply::Json(403, forbidden),
        Reply::Json(422, invalid),
        Reply::Lines(vec![event("ERROR", &disabled)]),
        Reply::Lines(ended),
        Reply::Lines(vec![event("UNKNOWN", &node("n1", "cut")), end("9")]),
        Reply::Text("no JSON\n".to_owned()),
        Reply::Reset,
        Reply::Silence,
    ] {
        let page = || Reply::Json(200, json!({"items": [node("n1", "u1")], "metadata": {"resourceVersion": "7"}}));
        let (reader, log) = reader(vec![refusal, page(), page()]);
        let reader = streaming(reader);
        // A server that refused once is not asked again.
        for _ in 0..2 {
            let listed = tokio::time::timeout(Duration::from_secs(60), names(&reader)).await.expect("no endless wait");
            let (nodes, versions) = listed.expect("a list");
            assert_eq!((nodes, versions.nodes.as_str()), (vec![named("n1", "u1")], "7"));
        }
        assert_eq!(log.lines().len(), 3);
        assert!(log.lines()[1..].iter().all(|line| line == "GET /api/v1/nodes?limit=250"), "{:?}", log.lines());
    }
}

/// One node that writes an unreadable value must not make the list unreadable.
#[tokio::test]
async fn unreadable_node_is_listed() {
    let mut damaged = node("n1", "u1");
    damaged["status"] = json!({"conditions": 7});
    let (reader, _) = reader(vec![Reply::Lines(vec![event("ADDED", &damaged), end("9")])]);
    let (nodes, _) = streaming(reader).list_nodes().await.expect("a list");
    assert!(nodes.values().all(nodecfg_observed::Node::is_unreadable) && nodes.len() == 1);
}

#[tokio::test]
async fn silence_between_objects_ends_the_attempt() {
    let first = format!("{}\n", event("ADDED", &node("n1", "u1")));
    let (reader, _) = reader(vec![Reply::Pieces(vec![first], true)]);
    let all = Collection::all(Operation::on_all(Verb::List, Resource::Nodes, None));
    let read = stream_list(&reader.transport, &all, |item| {
        Ok(reader.decoder.node(item)?.map(|node| (node.name.clone(), node)))
    });
    // Long before the end that the request asks for.
    let read = tokio::time::timeout(Duration::from_secs(60), read).await.expect("no endless wait");
    assert!(matches!(read, Err(AttemptError::TooSlow(_))));
}
