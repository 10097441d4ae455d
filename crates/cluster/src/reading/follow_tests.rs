//! Tests of following any kind over a fake connection; `watch_tests` covers the rest with Nodes.

use std::pin::pin;

use futures::{Stream, StreamExt};
use serde_json::{Value, json};

use super::*;
use crate::connection::fake::{Reply, reader};
use crate::connection::operation::{Operation, Resource};
use nodecfg_contract::nodeconfig::NodeConfigResource;

fn object(version: u32) -> Value {
    json!({"apiVersion": "nodecfg.dev/v1alpha1", "kind": "NodeConfig", "spec": {},
        "metadata": {"name": "n1", "resourceVersion": version.to_string()}})
}

#[tokio::test]
async fn follows_one_object_without_a_version() {
    let list = json!({"items": [object(3)], "metadata": {"resourceVersion": "7"}});
    let bookmark = json!({"type": "BOOKMARK", "object": {"kind": "NodeConfig", "metadata": {"resourceVersion": "9"}}});
    let changed = json!({"type": "MODIFIED", "object": object(10)});
    let (reader, log) = reader(vec![
        Reply::Json(200, list),
        Reply::Lines(vec![bookmark]),
        Reply::Lines(vec![changed, json!({"type": "DELETED", "object": object(11)})]),
    ]);
    let operation = Operation::on_all(Verb::Watch, Resource::NodeConfigs, None);
    let following = Following { collection: Collection::one(operation, "n1"), version: None, watch: WATCH };
    let version = |item: &[u8]| Ok(serde_json::from_slice::<NodeConfigResource>(item)?.metadata.resource_version);
    let changes: Vec<_> = follow(&reader.transport, following, version).take(3).collect().await;
    let expected = [
        Ok(Change::Relisted(vec!["3".to_owned()])),
        Ok(Change::Upsert("10".to_owned())),
        Ok(Change::Deleted("11".to_owned())),
    ];
    assert_eq!(changes, expected);
    let lines = log.lines();
    let path = "GET /apis/nodecfg.dev/v1alpha1/nodeconfigs?";
    let only = "&fieldSelector=metadata.name%3Dn1";
    assert_eq!(lines[0], format!("{path}limit=250{only}"));
    for (line, version) in lines[1..].iter().zip(["7", "9"]) {
        let begin = format!("{path}watch=true&allowWatchBookmarks=true&resourceVersion={version}&timeoutSeconds=");
        assert!(line.starts_with(&begin) && line.ends_with(only), "{line}");
    }
}

/// Versions of the NodeConfigs that appear. Each watch lasts somewhat more than a second.
fn short_watches(
    reader: &crate::ClusterReader,
    patience: Duration,
) -> impl Stream<Item = Result<Change<String>, ClusterError>> + Send + use<> {
    let collection = Collection::all(Operation::on_all(Verb::Watch, Resource::NodeConfigs, None));
    let following =
        Following { collection, version: Some("7".to_owned()), watch: TOO_SHORT + Duration::from_millis(200) };
    let version = |item: &[u8]| Ok(serde_json::from_slice::<NodeConfigResource>(item)?.metadata.resource_version);
    follow(&reader.within(patience).transport, following, version)
}

fn event(version: u32) -> Reply {
    Reply::Lines(vec![json!({"type": "MODIFIED", "object": object(version)})])
}

fn upsert(version: u32) -> Result<Change<String>, ClusterError> {
    Ok(Change::Upsert(version.to_string()))
}

/// A connection may be forgotten without being closed. Failures in a row count from the first one, and a watch that stood
/// for a while ends the row.
#[tokio::test]
async fn watch_that_outlives_its_time_is_opened_again() {
    let silent = || Reply::Pieces(Vec::new(), true);
    let (reader, log) = reader(vec![event(8), Reply::Reset, silent(), event(9)]);
    let changes = short_watches(&reader, TOO_SHORT).take(2).collect::<Vec<_>>();
    let changes = tokio::time::timeout(Duration::from_secs(20), changes).await.expect("it is noticed");
    assert_eq!((changes, log.all().len()), (vec![upsert(8), upsert(9)], 4));
}

/// Outages before and after a new list are two.
#[tokio::test]
async fn new_list_ends_an_outage() {
    let expired = json!({"kind": "Status", "code": 410, "reason": "Expired", "status": "Failure"});
    let list = json!({"items": [object(9)], "metadata": {"resourceVersion": "9"}});
    let replies =
        vec![event(8), Reply::Reset, Reply::Json(410, expired), Reply::Json(200, list), Reply::Reset, event(10)];
    let (reader, _) = reader(replies);
    let patience = Duration::from_millis(300);
    let mut changes = pin!(short_watches(&reader, patience));
    for expected in [upsert(8), Ok(Change::Relisted(vec!["9".to_owned()])), upsert(10)] {
        assert_eq!(changes.next().await, Some(expected));
        tokio::time::sleep(2 * patience).await;
    }
}
