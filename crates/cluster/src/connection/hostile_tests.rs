//! Tests of a server, proxy or aggregated API server that sends endless, large or unprintable answers.

use std::time::Duration;

use futures::StreamExt as _;
use serde_json::json;

use super::fake::{RecordedRequest, Reply, options, serving};
use super::transport::{LARGEST_OBJECT, MOST_OBJECTS};
use crate::{Binding, ClusterError, ClusterReader, NodeEvent, ReaderOptions};
use nodecfg_contract::names::NodeName;
use nodecfg_contract::printable::is_hidden;
use nodecfg_observed::ListVersions;

const MIB: usize = 1 << 20;

/// Reader of this server. It has time for answers of many MiB, also on a slow machine.
fn reader(answer: impl FnMut(&RecordedRequest) -> Reply + Send + 'static) -> ClusterReader {
    let limits = Duration::from_secs(120);
    let (client, _) = serving(answer);
    ClusterReader::new(client, "https://fake", ReaderOptions { request_timeout: limits, patience: limits, ..options() })
}

/// Reader of a server whose answers begin like this, and never end.
fn endless(start: &'static str) -> ClusterReader {
    reader(move |request| {
        if request.uri == "/version" {
            return Reply::Json(200, json!({"gitVersion": "v1.36.0"}));
        }
        if request.uri.contains("limit=1&") || request.uri.ends_with("limit=1") {
            return Reply::Json(200, json!({"metadata": {}, "items": []}));
        }
        let filler = std::iter::repeat_n(" ".repeat(MIB), LARGEST_OBJECT / MIB + 2);
        Reply::Pieces([start.to_owned()].into_iter().chain(filler).collect(), false)
    })
}

fn is_too_large<T>(answer: Result<T, ClusterError>) {
    let Err(error) = answer else { panic!("an endless answer") };
    assert!(matches!(error, ClusterError::Unexpected { .. }), "{error}");
}

#[tokio::test]
async fn endless_objects_are_refused_at_their_limit() {
    let node = NodeName::new("n1").unwrap();
    is_too_large(endless("{\"metadata\":").node(&node).await);
    is_too_large(endless("{\"metadata\":").config_map("kube-system", "a").await);
    is_too_large(endless("{\"metadata\":").list_nodes().await);
    is_too_large(endless("{\"metadata\":{},\"items\":[{\"a\":").list_nodes().await);
    let streaming = endless("{\"type\":").with_binding(Some(Binding::NodeConfig)).await.unwrap();
    is_too_large(streaming.list_nodes().await);
    let versions = ListVersions { nodes: "1".to_owned(), ..ListVersions::default() };
    let mut events = Box::pin(endless("{\"type\":").watch_nodes(&std::collections::BTreeMap::new(), &versions));
    is_too_large::<NodeEvent>(events.next().await.unwrap());
}

#[tokio::test]
async fn endless_lists_are_refused_at_their_limit() {
    let mut asked = 0;
    let pages = reader(move |_| {
        asked += 1;
        Reply::Json(200, json!({"metadata": {"continue": format!("page-{asked}")}, "items": []}))
    });
    is_too_large(pages.list_nodes().await);
    // A page with more objects than its limit, without an end.
    let items = reader(|_| {
        let items = "{\"metadata\":{\"name\":\"n\"}},".repeat(MOST_OBJECTS / 10);
        let pieces = std::iter::repeat_n(items, 12);
        Reply::Pieces(["{\"metadata\":{},\"items\":[".to_owned()].into_iter().chain(pieces).collect(), false)
    });
    is_too_large(items.list_nodes().await);
}

#[tokio::test]
async fn error_of_a_watch_is_printable_and_short() {
    let hostile = format!("\u{1b}]52;c;eA==\u{7}\u{202e}{}", "x".repeat(100_000));
    let causes: Vec<_> = (0..1000).map(|_| json!({"reason": "a", "message": &hostile})).collect();
    let line = json!({"type": "ERROR", "object": {"kind": "Status", "code": 403, "reason": "Forbidden",
        "message": &hostile, "details": {"name": &hostile, "kind": &hostile, "causes": causes}}});
    let reader = reader(move |_| Reply::Lines(vec![line.clone()]));
    let versions = ListVersions { nodes: "1".to_owned(), ..ListVersions::default() };
    let mut events = Box::pin(reader.watch_nodes(&std::collections::BTreeMap::new(), &versions));
    let error = events.next().await.unwrap().unwrap_err();
    let text = format!("{error:?} {error} {}", error.help());
    assert!(!error.to_string().chars().any(is_hidden), "{error}");
    assert!(text.len() < 100_000, "{} bytes", text.len());
}
