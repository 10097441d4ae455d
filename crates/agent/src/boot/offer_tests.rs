//! Tests of reading the offer: retries, refusals, hostile pointers, and files.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::tests::{in_place, modes, node, now, text};
use super::*;
use crate::boot::offer::{ReadOptions, Target};
use crate::disk::memory::MemoryDisk;
use kubelet_config::capacity::Capacity;
use nodecfg_cluster::connection::fake::{Log, Reply, replying, serving, status};
use nodecfg_cluster::connection::retry::RetryPolicy;
use nodecfg_contract::config_map::PoolConfig;
use nodecfg_contract::names::{FleetName, NamespaceName};
use nodecfg_contract::pool_pointer::PoolPointer;

/// Short times in the proportions of the defaults.
fn options() -> ReadOptions {
    ReadOptions {
        timeout: Duration::from_millis(600),
        attempt: Duration::from_millis(100),
        retry: RetryPolicy { first_delay: Duration::from_millis(5), longest_delay: Duration::from_millis(50) },
        seed: 1,
    }
}

fn target() -> Target {
    Target {
        fleet: FleetName::new("prod").unwrap(),
        pool: PoolName::new("gpu").unwrap(),
        namespace: NamespaceName::new("nodecfg-system").unwrap(),
    }
}

fn capacity() -> Capacity {
    Capacity::parse(Some("4"), Some("16Gi"), None)
}

fn pointer(kubelet: &str) -> Value {
    let hash = ContentHash::of(kubelet.as_bytes());
    json!({
        "metadata": {
            "name": "nodecfg-pool-prod-gpu", "namespace": "nodecfg-system", "uid": "u", "resourceVersion": "7",
            "labels": {
                "app.kubernetes.io/managed-by": "nodecfg", "nodecfg.dev/fleet": "prod", "nodecfg.dev/pool": "gpu",
            },
        },
        "data": {
            "configMap": format!("prod-gpu-{}", hash.short()), "contentHash": hash.to_string(), "kubelet": kubelet,
        },
    })
}

async fn read(client: kube::Client) -> Result<Option<Offer>, BootError> {
    target().offered_by_cluster(client, "https://fake", capacity(), options()).await
}

/// Result, the time that it took, and the number of requests.
async fn timed((client, log): (kube::Client, Log)) -> (Result<Option<Offer>, BootError>, Duration, usize) {
    let began = nodecfg_clock::instant();
    let result = read(client).await;
    (result, began.elapsed(), log.lines().len())
}

#[tokio::test]
async fn reads_pointer_by_one_request() {
    let kubelet = text("maxPods: 64");
    let (client, log) = replying(vec![Reply::Json(200, pointer(&kubelet))]);
    let offer = read(client).await.unwrap().unwrap();
    assert_eq!(log.lines(), ["GET /api/v1/namespaces/nodecfg-system/configmaps/nodecfg-pool-prod-gpu"]);
    assert_eq!((offer.hash, &offer.kubelet), (ContentHash::of(kubelet.as_bytes()), &kubelet));
    let map = offer.source.config_map.unwrap();
    assert_eq!(map.name, format!("prod-gpu-{}", offer.hash.short()));
    assert_eq!((map.uid.as_deref(), map.resource_version.as_deref()), (Some("u"), Some("7")));
    assert_eq!((map.namespace.as_str(), map.kubelet_config_key.as_str()), ("nodecfg-system", KUBELET_KEY));

    let mut local = pointer(&kubelet);
    local["data"] = json!({"commit": "c".repeat(40)});
    assert_eq!(read(replying(vec![Reply::Json(200, local)]).0).await.unwrap(), None);
}

/// A pointer with a configuration for each of these sizes, by memory.
fn pointer_of_sizes(sizes: &[&str]) -> Value {
    let config = |memory: &&str| {
        let kubelet = text(&format!("maxPods: 64\nkubeReserved: {{memory: {memory}}}"));
        let hash = ContentHash::of(kubelet.as_bytes());
        let config_map = format!("prod-gpu-{}", hash.short());
        (Capacity::parse(None, Some(memory), None), PoolConfig { config_map, hash, kubelet, placement: None })
    };
    let steps = Capacity::parse(None, Some("1Gi"), None);
    let of_sizes = PoolPointer { steps, configs: sizes.iter().map(config).collect(), commit: None };
    let mut object = pointer(&text("maxPods: 64"));
    object["data"] = json!(of_sizes.data());
    object
}

#[tokio::test]
async fn takes_the_configuration_of_its_size() {
    let read_as = |memory: Option<&'static str>| async move {
        let (client, _) = replying(vec![Reply::Json(200, pointer_of_sizes(&["16Gi", "64Gi"]))]);
        let capacity = Capacity::parse(Some("4"), memory, None);
        target().offered_by_cluster(client, "https://fake", capacity, options()).await
    };
    for (memory, size) in [("15996Mi", "memory: 16Gi"), ("64Gi", "memory: 64Gi")] {
        let offer = read_as(Some(memory)).await.unwrap().unwrap();
        assert!(offer.kubelet.contains(size), "{memory}: {}", offer.kubelet);
    }
    for (memory, problem) in [
        (Some("63Gi"), "it has no configuration for nodes of the size 63Gi"),
        (None, "the capacity of this node is unknown"),
    ] {
        let error = read_as(memory).await.unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
}

#[tokio::test]
async fn waits_for_network_and_credentials() {
    let replies = vec![
        Reply::Reset,
        Reply::Silence,
        status(401, "Unauthorized", "Unauthorized", json!({})),
        status(503, "ServiceUnavailable", "starting", json!({})),
        Reply::Pieces(vec!["{".to_owned()], false),
        Reply::Json(200, pointer(&text("maxPods: 64"))),
    ];
    // Enough time for a busy machine.
    let (client, log) = replying(replies);
    let options = ReadOptions { timeout: Duration::from_secs(60), ..options() };
    let offer = target().offered_by_cluster(client, "https://fake", capacity(), options).await.unwrap();
    assert!(offer.is_some());
    assert_eq!(log.lines().len(), 6);
}

#[tokio::test]
async fn gives_up_at_the_timeout() {
    for reply in [|| Reply::Reset, || Reply::Silence, || status(500, "InternalError", "x", json!({}))] {
        let (result, took, requests) = timed(serving(move |_| reply())).await;
        assert!(matches!(result, Err(BootError::Cluster(_))), "{result:?}");
        assert!(took > Duration::from_millis(500) && requests > 2, "{took:?}, {requests} requests");
    }
}

#[tokio::test]
async fn refusals_are_final() {
    let name = "nodecfg-pool-prod-gpu";
    let replies = [
        status(404, "NotFound", "not found", json!({"kind": "configmaps", "name": name})),
        status(404, "NotFound", "not found", json!({"kind": "namespaces", "name": "nodecfg-system"})),
        status(403, "Forbidden", "User \"x\" cannot get resource \"configmaps\"", json!({})),
        Reply::Text("<html>".to_owned()),
        Reply::Text(pointer(&"x".repeat(9 << 20)).to_string()),
    ];
    for reply in replies {
        let (result, _, requests) = timed(replying(vec![reply])).await;
        assert!(matches!(result, Err(BootError::Cluster(_))), "{result:?}");
        assert_eq!(requests, 1, "{result:?}");
    }
}

#[tokio::test]
async fn refuses_hostile_pointers() {
    let changed = |path: &str, value: &str| {
        let mut pointer = pointer(&text("maxPods: 64"));
        *pointer.pointer_mut(path).unwrap() = value.into();
        pointer
    };
    for (pointer, reason) in [
        (changed("/data/kubelet", "maxPods: 65\n"), "contentHash is"),
        (changed("/data/contentHash", "v2:x"), "not a hash"),
        (changed("/data/configMap", "prod-gpu-other"), "configMap is not the name"),
        (changed("/metadata/labels/nodecfg.dev~1pool", "cpu"), "another owner"),
        (changed("/metadata/labels/nodecfg.dev~1fleet", "test"), "another owner"),
        (changed("/metadata/labels/app.kubernetes.io~1managed-by", "helm"), "another owner"),
    ] {
        let (client, log) = replying(vec![Reply::Json(200, pointer)]);
        let error = read(client).await.unwrap_err();
        assert!(matches!(error, BootError::Pointer { .. }) && error.to_string().contains(reason), "{error}");
        assert_eq!(log.lines().len(), 1);
    }
}

#[test]
fn reads_file_without_cluster() {
    let disk = MemoryDisk::new();
    let path = Path::new("/etc/nodecfg/kubelet.yaml");
    let read = |wanted: Option<&str>| {
        target().offered_by_file(&disk, path, wanted.map(|text| ContentHash::of(text.as_bytes())), None)
    };
    assert!(read(None).unwrap_err().to_string().contains("it is missing"));
    let canonical = text("maxPods: 64");
    // Formatting and comments do not change the content.
    disk.put(path, format!("# gpu\n{}", canonical.replace(": ", ":   ")).as_bytes(), 0o644);
    let offer = read(Some(&canonical)).unwrap();
    assert_eq!((&offer.kubelet, offer.hash), (&canonical, ContentHash::of(canonical.as_bytes())));
    let error = read(Some("other")).unwrap_err();
    assert!(matches!(error, BootError::OtherContent { .. }), "{error}");
    for boot in modes() {
        let disk = node();
        boot.install(&disk, &offer, &target().pool, None, now()).unwrap();
        assert_eq!(in_place(&boot, &disk).as_ref(), Some(&canonical));
    }
    for content in [&b"["[..], b"", b"\xff", &[b'#'; (1 << 20) + 1]] {
        disk.put(path, content, 0o644);
        read(None).unwrap_err();
    }
}
