//! Tests of following any kind over a fake connection; `watch_tests` covers the rest with Nodes.

use futures::StreamExt;
use serde_json::{Value, json};

use super::*;
use crate::fake::{Reply, reader};
use crate::operation::{Operation, Resource};
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
