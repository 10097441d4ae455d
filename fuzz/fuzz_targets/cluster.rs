//! Fuzz target of the answers of API servers and kubelets: the first byte selects the request, the others are the answer.
//! Lists whose items have valid names are read whatever else the items have.

#![no_main]

use std::collections::BTreeSet;
use std::pin::pin;

use futures::StreamExt as _;
use libfuzzer_sys::fuzz_target;
use nodecfg_cluster::reading::binding::Binding;
use nodecfg_cluster::connection::fake::{Reply, node, options, serving};
use nodecfg_cluster::{CONFIGZ_PATIENCE, ClusterReader};
use nodecfg_contract::{ContentHash, ObjectId, ObjectRef};
use nodecfg_contract::names::{FleetName, NodeName, PoolName};
use nodecfg_observed::ListVersions;
use nodecfg_contract::pool_pointer::PoolPointer;
use serde_json::{Value, json};
use tokio::runtime::Builder;

/// Error statuses.
const STATUSES: [u16; 7] = [400, 403, 404, 410, 422, 429, 500];

/// Reader of a server of this version, whose first answers to requests with `path` are this one.
fn reader(version: &str, path: &'static str, answer: (u16, &str), mut times: usize) -> ClusterReader {
    let version = json!({"gitVersion": version, "major": "1", "minor": "36"});
    let (status, body) = (answer.0, answer.1.to_owned());
    let (client, _) = serving(move |request| {
        let uri = request.uri.as_str();
        if uri == "/version" {
            return Reply::Json(200, version.clone());
        }
        // Lists of one object only ask whether one exists.
        if uri.contains(path) && !uri.contains("limit=1&") && !uri.ends_with("limit=1") && times > 0 {
            times -= 1;
            return if status == 200 {
                Reply::Text(body.clone())
            } else {
                Reply::Json(status, serde_json::from_str(&body).unwrap_or_default())
            };
        }
        if uri.contains("watch=true") {
            return Reply::Json(404, json!({"kind": "Status", "code": 404, "reason": "NotFound"}));
        }
        let items = if uri.contains("/nodes?") { vec![node("n1", 1)] } else { Vec::new() };
        Reply::Json(200, json!({"metadata": {"resourceVersion": "9"}, "items": items}))
    });
    ClusterReader::new(client, "https://fake", options())
}

/// Names of the items of a list. `None` if this is no list, or if an item has no valid name.
fn names(list: &Value) -> Option<BTreeSet<NodeName>> {
    let metadata = list.as_object()?.get("metadata")?.as_object()?;
    let is_text = |key| metadata.get(key).is_none_or(|value| value.is_null() || value.is_string());
    let is_whole = metadata.get("continue").is_none_or(|next| next.is_null() || next == "");
    let name = |item: &Value| NodeName::new(item.get("metadata")?.get("name")?.as_str()?).ok();
    let named = list.get("items")?.as_array()?.iter().map(name).collect::<Option<_>>()?;
    (is_text("resourceVersion") && is_whole).then_some(named)
}

async fn read(kind: u8, status: u16, body: &str) {
    let n1 = NodeName::new("n1").unwrap();
    let one = |path| reader("v1.30.0", path, (status, body), 1);
    match kind {
        b'0' | b'1' => {
            // Which value of a repeated key counts depends on the decoder. No API server sends one.
            let value: Option<Value> = serde_json::from_str(body).ok();
            let body = value.as_ref().map_or_else(|| body.to_owned(), Value::to_string);
            let listed = value.as_ref().and_then(names).filter(|_| status == 200);
            let of = |path| reader("v1.30.0", path, (status, &body), 1);
            if kind == b'0' {
                let read = of("/nodes?").list_nodes().await;
                if let Some(listed) = listed {
                    assert!(read.unwrap().0.keys().eq(&listed));
                }
            } else {
                let reader = of("/nodeconfigs?").with_binding(Some(Binding::NodeConfig)).await.unwrap();
                let read = reader.list_nodes().await;
                if listed.is_some() {
                    assert!(read.unwrap().0.keys().eq([&n1]));
                }
            }
        }
        b'2' => {
            let reader = reader("v1.36.0", "/nodes?", (status, body), 1);
            let reader = reader.with_binding(Some(Binding::NodeConfig)).await.unwrap();
            // A stream that cannot be read is followed by pages.
            assert!(reader.list_nodes_with_signs().await.is_ok());
        }
        b'3' => {
            let events = one("/nodes?").watch_nodes(&Default::default(), &ListVersions::default());
            let mut events = pin!(events.take(1000));
            while events.next().await.is_some() {}
        }
        b'4' => {
            let (fleet, pool) = (FleetName::new("prod").unwrap(), PoolName::new("gpu").unwrap());
            let map = one("/configmaps/").config_map("kube-system", &PoolPointer::name(&fleet, &pool)).await;
            let Ok(Some(mut map)) = map else { return };
            let _ = PoolPointer::read(&map, &fleet, &pool);
            // No input has the right hash by chance.
            let kubelet = map.data.entry("kubelet".to_owned()).or_default();
            let hash = ContentHash::of(kubelet.as_bytes());
            map.data.insert("contentHash".to_owned(), hash.to_string());
            map.data.insert("configMap".to_owned(), format!("prod-gpu-{}", hash.short()));
            if let Ok(pointer) = PoolPointer::read(&map, &fleet, &pool) {
                let data = pointer.data();
                assert!(data.iter().all(|(key, text)| map.data.get(key) == Some(text)), "{data:?}");
            }
        }
        b'5' => {
            let _ = one("/configz").configz(&n1, CONFIGZ_PATIENCE).await;
        }
        b'6' => {
            // The answer is the list of kinds as well as the object.
            let objects = reader("v1.30.0", "/api/v1", (status, body), 2).objects();
            let by = ObjectId::Name("a".to_owned());
            let node = ObjectRef { api_version: "v1".to_owned(), kind: "Node".to_owned(), namespace: None, by };
            let _ = objects.get(&node).await;
        }
        b'7' => {
            let _ = one("/configmaps?").list_config_maps("kube-system").await;
        }
        b'8' => {
            let _ = one("/nodes/").node(&n1).await;
        }
        _ => {
            let _ = one("/namespaces/").cluster_uid().await;
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, body)) = bytes.split_first() else { return };
    let Ok(body) = std::str::from_utf8(body) else { return };
    let error = STATUSES.get(usize::from(kind >> 4 & 7)).filter(|_| kind & 0x80 != 0);
    // Waits end at once.
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(read(b'0' | kind & 0xf, *error.unwrap_or(&200), body));
});
