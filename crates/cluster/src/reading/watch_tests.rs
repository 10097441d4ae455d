//! Tests of a watch across closed connections, outages and expired versions.

use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use serde_json::{Value, json};

use super::*;
use crate::connection::fake::{Reply, node, nodes, options, reader, serving, status};
use crate::connection::retry::RetryPolicy;
use crate::reading::reader::ReaderOptions;

fn line(kind: &str, object: Value) -> Value {
    json!({"type": kind, "object": object})
}

fn text(event: Result<NodeEvent, ClusterError>) -> String {
    match event {
        Ok(NodeEvent::Upsert(node)) => format!("upsert {}", node.name),
        Ok(NodeEvent::Deleted(name)) => format!("deleted {name}"),
        Ok(NodeEvent::Relisted(nodes)) => format!("relisted {}", nodes.len()),
        Err(error) => format!("error {error}"),
    }
}

fn watch(reader: &ClusterReader) -> impl Stream<Item = Result<NodeEvent, ClusterError>> + Send + use<> {
    reader.watch_nodes(&BTreeMap::new(), &ListVersions { nodes: "10".to_owned(), node_configs: None })
}

fn versions(lines: &[String]) -> Vec<String> {
    let version = |line: &String| {
        let (_, rest) = line.split_once("resourceVersion=").unwrap_or(("", line));
        rest.split('&').next().unwrap_or_default().to_owned()
    };
    lines.iter().map(version).collect()
}

#[tokio::test]
async fn watch_resumes_after_closed_and_broken_connections() {
    let (reader, log) = reader(vec![
        Reply::Lines(vec![
            line("ADDED", node("a", 11)),
            line("DELETED", node("b", 12)),
            line("BOOKMARK", json!({"kind": "Node", "metadata": {"resourceVersion": "20"}})),
        ]),
        Reply::Pieces(vec![format!("{}\n{{\"type\":\"MODI", line("MODIFIED", node("c", 21)))], false),
        Reply::Reset,
        Reply::Header(429, ("retry-after", "0"), json!({})),
        Reply::Lines(vec![line("MODIFIED", node("d", 22))]),
    ]);
    let events: Vec<String> = watch(&reader).take(4).map(text).collect().await;
    assert_eq!(events, ["upsert a", "deleted b", "upsert c", "upsert d"]);
    let lines = log.lines();
    assert!(lines[0].contains("watch=true&allowWatchBookmarks=true"), "{}", lines[0]);
    assert_eq!(versions(&lines), ["10", "20", "21", "21", "21"]);
}

#[tokio::test]
async fn expired_version_causes_a_new_list() {
    let expired =
        json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old", "status": "Failure"});
    let (reader, log) = reader(vec![
        Reply::Lines(vec![line("ERROR", expired)]),
        Reply::Json(200, nodes(&["a", "b"], 30, "")),
        status(410, "Expired", "too old", json!(null)),
        Reply::Json(200, nodes(&["a"], 40, "")),
        Reply::Lines(vec![line("MODIFIED", node("a", 41))]),
    ]);
    let events: Vec<String> = watch(&reader).take(3).map(text).collect().await;
    assert_eq!(events, ["relisted 2", "relisted 1", "upsert a"]);
    let lines = log.lines();
    assert_eq!(versions(&[lines[0].clone(), lines[2].clone(), lines[4].clone()]), ["10", "30", "40"]);
}

/// The old connection yields nothing any more, also if the server keeps it open.
#[tokio::test]
async fn new_list_replaces_the_connection_of_an_expired_watch() {
    let expired = json!({"kind": "Status", "code": 410, "reason": "Expired", "status": "Failure"});
    let (reader, log) = reader(vec![
        Reply::Pieces(vec![format!("{}\n", line("ERROR", expired))], true),
        Reply::Json(200, nodes(&["a", "b"], 30, "")),
        Reply::Lines(vec![line("MODIFIED", node("a", 41))]),
    ]);
    let events = watch(&reader).take(2).map(text).collect::<Vec<String>>();
    let events = tokio::time::timeout(Duration::from_secs(10), events).await.expect("not from the old connection");
    assert_eq!((events, log.all().len()), (vec!["relisted 2".to_owned(), "upsert a".to_owned()], 3));
}

#[tokio::test]
async fn lists_that_expire_at_once_slow_down() {
    let (client, log) = serving(|request| {
        let expired = json!({"kind": "Status", "code": 410, "reason": "Expired", "status": "Failure"});
        let is_watch = request.uri.contains("watch=true");
        if is_watch { Reply::Lines(vec![line("ERROR", expired)]) } else { Reply::Json(200, nodes(&["a"], 30, "")) }
    });
    let hour = Duration::from_secs(3600);
    let retry = RetryPolicy { first_delay: hour, longest_delay: hour };
    let reader = ClusterReader::new(client, "https://fake", ReaderOptions { retry, ..options() });
    let mut events = pin!(watch(&reader));
    assert_eq!(text(events.next().await.expect("the first list")), "relisted 1");
    let many_turns = async {
        for _ in 0..10_000 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        event = events.next() => panic!("{event:?}"),
        () = many_turns => {}
    }
    assert_eq!(log.all().len(), 3, "the second list waits: {:?}", log.lines());
}

#[tokio::test]
async fn open_watch_yields_events_at_once() {
    let piece = format!("{}\n", line("MODIFIED", node("a", 11)));
    let (reader, log) = reader(vec![Reply::Pieces(vec![piece], true)]);
    let mut events = pin!(watch(&reader));
    assert_eq!(text(events.next().await.expect("an event")), "upsert a");
    let quiet = tokio::time::timeout(Duration::from_millis(300), events.next()).await;
    assert!(quiet.is_err(), "a quiet watch stays open past the limit of a request");
    assert_eq!(log.all().len(), 1);
}

#[tokio::test]
async fn stream_ends_after_a_refusal_and_after_a_long_outage() {
    let message =
        "nodes is forbidden: User \"ci\" cannot watch resource \"nodes\" in API group \"\" at the cluster scope";
    let (reader, _) = reader(vec![status(403, "Forbidden", message, json!({}))]);
    let events: Vec<String> = watch(&reader).map(text).collect().await;
    assert_eq!(events, ["error cannot watch nodes: ci may not watch nodes in the cluster"]);

    // A server that closes every watch at once must not cause a tight loop of requests.
    let (client, log) = serving(|_| Reply::Lines(Vec::new()));
    let reader = ClusterReader::new(client, "https://fake", options()).within(Duration::from_millis(200));
    let events: Vec<String> = watch(&reader).map(text).collect().await;
    assert!(events.len() == 1 && events[0].contains("the watch was closed at once"), "{events:?}");
    assert!(log.all().len() < 60, "{}", log.all().len());
}
