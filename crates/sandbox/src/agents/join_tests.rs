//! Tests of nodes that join a running sandbox.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::api::ServerProfile;
use crate::kubelets::BootedConfig;
use crate::machines::Options;
use crate::nodes::NodeSpec;
use crate::{Embedded, EmbeddedOptions, agents, nodes};
use nodecfg_agent::api::PointerPlace;
use nodecfg_agent::settings::Settings;
use nodecfg_contract::ContentHash;
use nodecfg_contract::config_map::PoolConfig;
use nodecfg_contract::labels::{FLEET_LABEL, MANAGED_BY_LABEL, MANAGER, POOL_LABEL};
use nodecfg_contract::names::{FleetName, NamespaceName, PoolName};
use nodecfg_contract::pool_pointer::PoolPointer;

const LIMIT: Duration = Duration::from_secs(60);
const NAMESPACE: &str = "nodecfg-system";
const KUBELET: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 64\n";

fn pointed() -> PoolConfig {
    let hash = ContentHash::of(KUBELET.as_bytes());
    PoolConfig { config_map: format!("prod-gpu-{}", hash.short()), hash, kubelet: KUBELET.to_owned(), placement: None }
}

/// Cluster without nodes, with the ConfigMap of the pool `gpu` and its pointer.
async fn cluster() -> Embedded {
    let place =
        PointerPlace { fleet: FleetName::new("prod").unwrap(), namespace: NamespaceName::new(NAMESPACE).unwrap() };
    let options = EmbeddedOptions {
        profile: ServerProfile::V1_36,
        nodes: Options { speed: 40.0, ..Options::default() },
        agents: agents::Options {
            settings: Settings { trial_period: Duration::from_secs(40), ..Settings::default() },
            join: Some(place),
            ..agents::Options::default()
        },
        ..EmbeddedOptions::default()
    };
    let embedded = Embedded::start(options, Vec::new()).await.unwrap();
    let labels = json!({MANAGED_BY_LABEL: MANAGER, FLEET_LABEL: "prod", POOL_LABEL: "gpu"});
    let pointer = PoolPointer::to(Some(pointed()), None);
    let objects = [
        (pointed().config_map, json!({"kubelet": KUBELET}), true),
        ("nodecfg-pool-prod-gpu".to_owned(), json!(pointer.data()), false),
    ];
    for (name, data, immutable) in objects {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels},
            "data": data, "immutable": immutable});
        embedded.api().create("", "configmaps", NAMESPACE, object, "test").unwrap();
    }
    embedded
}

fn specs(count: usize) -> Vec<NodeSpec> {
    let mut specs = nodes::generic(count, &[PoolName::new("gpu").unwrap()], "v1.36.2").unwrap();
    // Only maxPods differs, so that no change needs more than a drained node.
    specs.iter_mut().for_each(|spec| spec.host.file = Some(KUBELET.replace("64", "110")));
    specs
}

async fn until(what: &str, check: impl Fn() -> bool) {
    let waiting = async {
        while !check() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LIMIT, waiting).await.unwrap_or_else(|_| panic!("timed out: {what}"));
}

fn node(embedded: &Embedded, name: &str) -> Value {
    embedded.api().get("", "nodes", "", name).unwrap_or_default()
}

fn status(embedded: &Embedded, name: &str) -> Value {
    embedded.api().get("nodecfg.dev", "nodeconfigs", "", name).unwrap_or_default()["status"].clone()
}

fn is_known_good(embedded: &Embedded, name: &str) -> bool {
    status(embedded, name).pointer("/config/lastKnownGood/configMap/name") == Some(&json!(pointed().config_map))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tainted_nodes_join_and_lose_only_that_taint() {
    let embedded = cluster().await;
    let mut specs = specs(20);
    specs.iter_mut().for_each(|spec| spec.startup_taint = true);
    let names: Vec<String> = specs.iter().map(|spec| spec.name.to_string()).collect();
    embedded.join(specs).await.unwrap();
    for name in &names {
        until("the node joins", || is_known_good(&embedded, name)).await;
        until("the taint is removed", || !node(&embedded, name)["spec"].to_string().contains("/nodecfg")).await;
        let found = embedded.api().get("nodecfg.dev", "nodeconfigs", "", name).unwrap();
        assert_eq!(found["metadata"]["ownerReferences"][0]["uid"], node(&embedded, name)["metadata"]["uid"]);
        assert_eq!(found["spec"]["maxDisruption"], "drain");
        assert_eq!(node(&embedded, name)["metadata"]["labels"][POOL_LABEL], "gpu");
    }
    embedded.stop(None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_without_taint_does_not_join() {
    let embedded = cluster().await;
    let mut specs = specs(2);
    specs[0].startup_taint = true;
    let names: Vec<String> = specs.iter().map(|spec| spec.name.to_string()).collect();
    embedded.join(specs).await.unwrap();
    until("the other node joins", || is_known_good(&embedded, &names[0])).await;
    assert_eq!(embedded.api().get("nodecfg.dev", "nodeconfigs", "", &names[1]), None);
    embedded.stop(None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn booted_node_joins_without_a_restart() {
    let embedded = cluster().await;
    let booted = BootedConfig {
        pool: "gpu".to_owned(),
        config_map: pointed().config_map,
        namespace: NAMESPACE.to_owned(),
        kubelet: KUBELET.to_owned(),
    };
    let mut spec = specs(1).remove(0);
    spec.host.booted = Some(booted);
    let name = spec.name.to_string();
    embedded.join(vec![spec]).await.unwrap();
    until("the node joins", || is_known_good(&embedded, &name)).await;
    let events = kube::core::Request::new("/api/v1/namespaces/default/events");
    let events = events.list(&kube::core::params::ListParams::default()).unwrap();
    let events: Value = embedded.client().request(events).await.unwrap();
    let reasons: BTreeMap<String, usize> =
        events["items"].as_array().unwrap().iter().fold(BTreeMap::new(), |mut reasons, event| {
            *reasons.entry(event["reason"].as_str().unwrap().to_owned()).or_default() += 1;
            reasons
        });
    assert_eq!(reasons.get("NodeConfigCreated"), Some(&1), "{reasons:?}");
    assert_eq!((reasons.get("KubeletConfigChanged"), reasons.get("Starting")), (None, None), "{reasons:?}");
    embedded.stop(None).await;
}
