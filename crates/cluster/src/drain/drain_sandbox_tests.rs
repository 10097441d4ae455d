//! Tests of the requests of a drain against the embedded API server, with both server profiles.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use http::Method;
use serde_json::{Value, json};

use crate::connection::fake::options;
use crate::connection::transport::{Call, whole};
use crate::lock::{HeldLock, LockOptions};
use crate::reading::wire::IgnoredContent;
use crate::{ClusterReader, ClusterWriter, Operation, PodEvent, Resource, Verb, lock};
use nodecfg_contract::names::{FleetName, NodeName};
use nodecfg_observed::{EvictionAnswer, Pod};
use nodecfg_sandbox::api::{Api, ApiOptions, ServerProfile};

struct Cluster {
    api: Api,
    writer: ClusterWriter,
    _held: HeldLock,
}

impl Cluster {
    async fn new(profile: ServerProfile) -> Self {
        let api = Api::new(ApiOptions { profile, ..ApiOptions::default() });
        let reader = ClusterReader::new(api.client(), "https://sandbox", options());
        let lock = LockOptions::new("kube-system", FleetName::new("prod").expect("a name"), "me".to_owned());
        let held = lock::acquire(&reader, lock).await.expect("free");
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
        api.create("", "namespaces", "", namespace, "test").unwrap_or_else(|_| panic!("shop"));
        Self { api, writer: ClusterWriter::new(reader, &held), _held: held }
    }

    fn reader(&self) -> &ClusterReader {
        &self.writer.reader
    }

    async fn send(&self, method: Method, path: &str, media: &'static str, body: Value) {
        let operation = Operation::on_all(Verb::Patch, Resource::Pods, None);
        let call = Call::new(method, path.to_owned()).content(media, body.to_string());
        let sent = self.reader().transport.call(&operation, &call, whole::<IgnoredContent>).await;
        sent.unwrap_or_else(|error| panic!("{path}: {error}"));
    }

    /// Creates a running pod on node n1, and returns it as a reader sees it.
    async fn pod(&self, name: &str) -> Pod {
        let resources = json!({"cpu": "2", "memory": "1Gi"});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "web"}},
            "spec": {"nodeName": "n1", "containers": [{"name": "main", "image": "web:1",
                "resources": {"limits": resources, "requests": resources}}]}});
        self.api.create("", "pods", "shop", pod, "test").unwrap_or_else(|_| panic!("{name}"));
        let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        let path = format!("/api/v1/namespaces/shop/pods/{name}/status");
        self.send(Method::PATCH, &path, "application/merge-patch+json", status).await;
        let pods = self.reader().list_pods_on(&node("n1")).await.expect("a list");
        pods.into_iter().find(|pod| pod.name == name).expect("the pod")
    }

    async fn budget(&self, name: &str, allowed: u32) {
        let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name},
            "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}});
        self.api.create("policy", "poddisruptionbudgets", "shop", budget, "test").unwrap_or_else(|_| panic!("{name}"));
        self.allow(name, allowed).await;
    }

    /// Sets the status of a budget as its controller does.
    async fn allow(&self, name: &str, allowed: u32) {
        let status = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": allowed, "desiredHealthy": 2,
            "currentHealthy": 2 + allowed, "expectedPods": 3}});
        let path = format!("/apis/policy/v1/namespaces/shop/poddisruptionbudgets/{name}/status");
        self.send(Method::PATCH, &path, "application/merge-patch+json", status).await;
    }

    /// Ends a pod as its kubelet does after the containers have stopped.
    async fn end(&self, pod: &Pod) {
        let path = format!("/api/v1/namespaces/shop/pods/{}", pod.name);
        self.send(Method::DELETE, &path, "application/json", json!({"gracePeriodSeconds": 0})).await;
    }

    fn names(&self, pods: &[Pod]) -> BTreeSet<String> {
        pods.iter().map(|pod| pod.name.clone()).collect()
    }
}

fn node(text: &str) -> NodeName {
    NodeName::new(text).expect("a name")
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[tokio::test]
async fn evicts_within_budgets_and_sees_pods_go() {
    for profile in [ServerProfile::V1_21, ServerProfile::V1_36] {
        let cluster = Cluster::new(profile).await;
        let (a, b) = (cluster.pod("a").await, cluster.pod("b").await);
        cluster.budget("web", 1).await;
        let node = node("n1");
        let mut events = pin!(cluster.reader().watch_pods(&node));
        let mut next = async || {
            let event = tokio::time::timeout(Duration::from_secs(5), events.next()).await.expect("in time");
            event.expect("open").expect("no error")
        };
        let PodEvent::Relisted(pods) = next().await else { panic!("a list first") };
        assert_eq!(cluster.names(&pods), names(&["a", "b"]));

        assert_eq!(cluster.writer.evict(&a).await, Ok(EvictionAnswer::Evicted));
        let PodEvent::Upsert(changed) = next().await else { panic!("the pod ends") };
        assert_eq!((&changed.uid, changed.deleting), (&a.uid, true));
        let refused = cluster.writer.evict(&b).await.expect("an answer");
        // The controller has not counted the pods again.
        let reason = "The disruption budget web needs 2 healthy pods and has 3 currently";
        assert_eq!(refused, EvictionAnswer::Blocked { reason: reason.to_owned() });
        cluster.end(&a).await;
        assert_eq!(next().await, PodEvent::Gone { uid: a.uid.clone() });

        // A pod of the same name is another pod. The budget is asked first.
        let again = cluster.pod("a").await;
        cluster.allow("web", 2).await;
        assert_eq!(cluster.writer.evict(&a).await, Ok(EvictionAnswer::Gone));
        cluster.writer.delete_daemon_pod(&a).await.expect("gone");
        let left = cluster.reader().list_pods_on(&node).await.expect("a list");
        assert!(left.iter().all(|pod| !pod.deleting) && left.iter().any(|pod| pod.uid == again.uid), "{left:?}");
        cluster.writer.delete_daemon_pod(&again).await.expect("deleted");
        cluster.end(&again).await;
        assert_eq!(cluster.writer.evict(&again).await, Ok(EvictionAnswer::Gone));

        cluster.budget("other", 1).await;
        assert_eq!(cluster.writer.evict(&b).await, Ok(EvictionAnswer::SeveralBudgets));
        cluster.send(Method::DELETE, "/api/v1/namespaces/shop", "application/json", json!({})).await;
        assert_eq!(cluster.writer.evict(&b).await, Ok(EvictionAnswer::NamespaceTerminating));
    }
}

#[tokio::test]
async fn reads_pods_budgets_and_volumes() {
    for profile in [ServerProfile::V1_21, ServerProfile::V1_36] {
        let cluster = Cluster::new(profile).await;
        let pod = cluster.pod("a").await;
        assert!(pod.exclusive_cpus, "the server derives the quality of service: {pod:?}");
        assert_eq!((pod.controller.as_ref(), pod.finished, pod.empty_dir), (None, false, false));
        let unbound = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "c"},
            "spec": {"containers": [{"name": "main", "image": "web:1"}]}});
        cluster.api.create("", "pods", "shop", unbound, "test").unwrap_or_else(|_| panic!("c"));
        let all = cluster.reader().list_pods(|pod| Some(pod.name)).await.expect("a list");
        assert_eq!(all, ["a"]);
        cluster.budget("web", 0).await;
        let budgets = cluster.reader().list_pod_budgets().await.expect("a list");
        let [budget] = &budgets[..] else { panic!("{budgets:?}") };
        assert!(budget.covers(&pod));
        assert_eq!((budget.allowed, budget.healthy, budget.required), (0, 2, 2));
        for (name, on, attached) in [("x", "n1", true), ("y", "n1", false), ("z", "n2", true)] {
            let attachment = json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
                "metadata": {"name": name}, "status": {"attached": attached},
                "spec": {"attacher": "csi", "nodeName": on, "source": {"persistentVolumeName": name}}});
            let created = cluster.api.create("storage.k8s.io", "volumeattachments", "", attachment, "test");
            created.unwrap_or_else(|_| panic!("{name}"));
            let path = format!("/apis/storage.k8s.io/v1/volumeattachments/{name}/status");
            let status = json!({"status": {"attached": attached}});
            cluster.send(Method::PATCH, &path, "application/merge-patch+json", status).await;
        }
        let counts = cluster.reader().attached_volumes(&BTreeSet::from([node("n1")])).await.expect("a list");
        assert_eq!(counts, BTreeMap::from([(node("n1"), 1)]));
    }
}

/// The rule of [`PodBudget::allows`](nodecfg_observed::PodBudget::allows) against the answers of the server.
#[tokio::test]
async fn budgets_allow_what_the_server_evicts() {
    let cluster = Cluster::new(ServerProfile::V1_36).await;
    cluster.budget("web", 0).await;
    let budget = "/apis/policy/v1/namespaces/shop/poddisruptionbudgets/web";
    let (mut number, mut spared) = (0, 0);
    for policy in ["IfHealthyBudget", "AlwaysAllow"] {
        for (allowed, healthy, required) in [(1, 3, 2), (0, 2, 2), (0, 1, 2), (0, 0, 0)] {
            for ready in ["True", "False"] {
                let name = format!("pod-{number}");
                number += 1;
                cluster.pod(&name).await;
                let conditions = json!({"status": {"conditions": [{"type": "Ready", "status": ready}]}});
                let path = format!("/api/v1/namespaces/shop/pods/{name}/status");
                cluster.send(Method::PATCH, &path, "application/merge-patch+json", conditions).await;
                let spec = json!({"spec": {"unhealthyPodEvictionPolicy": policy}});
                cluster.send(Method::PATCH, budget, "application/merge-patch+json", spec).await;
                let status = json!({"status": {"observedGeneration": 9, "disruptionsAllowed": allowed,
                    "currentHealthy": healthy, "desiredHealthy": required}});
                cluster.send(Method::PATCH, &format!("{budget}/status"), "application/merge-patch+json", status).await;

                let budgets = cluster.reader().list_pod_budgets().await.expect("a list");
                let pods = cluster.reader().list_pods_on(&node("n1")).await.expect("a list");
                let pod = pods.into_iter().find(|pod| pod.name == name).expect("the pod");
                let allows = budgets.first().expect("the budget").allows(&pod);
                let evicted = cluster.writer.evict(&pod).await == Ok(EvictionAnswer::Evicted);
                assert_eq!(allows, evicted, "{policy} {allowed} {healthy} {required} {ready}");
                spared += usize::from(evicted && allowed == 0);
            }
        }
    }
    assert_eq!(spared, 4);
}
