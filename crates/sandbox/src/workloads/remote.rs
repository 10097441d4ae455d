//! The workloads on an API server outside this process, for tests against a real one: the same model, with requests
//! instead of direct access. The driver polls lists, because tests have few pods.

use std::time::Duration;

use http::Request;
use jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use super::budget::{self, DELETION_TIMEOUT};
use super::intake::RESOURCES;
use super::model::{Action, Model};
use super::objects;
use super::populate::{self, Place};
use super::spec::WorkloadSpec;
use crate::api::{Changes, SeenChange};
use crate::kubelets::Moment;

/// Longest pause between two lists.
const PAUSE: Duration = Duration::from_millis(30);
/// Content types of requests with a whole object, and with a part of one.
const OBJECT: &str = "application/json";
const PART: &str = "application/merge-patch+json";

/// The model with its connection to an API server.
pub(super) struct RemoteDriver {
    client: Client,
    model: Model,
    speed: f64,
    began: Instant,
    /// Number of started pods.
    started: u64,
}

/// Path of a resource, or of an object with `name`. The namespace is empty for all namespaces.
fn path(resource: &str, namespace: &str, name: &str) -> String {
    let group = match resource {
        "replicasets" | "daemonsets" => "apis/apps/v1",
        "poddisruptionbudgets" => "apis/policy/v1",
        "volumeattachments" => "apis/storage.k8s.io/v1",
        _ => "api/v1",
    };
    let place = if namespace.is_empty() { String::new() } else { format!("namespaces/{namespace}/") };
    format!("/{group}/{place}{resource}/{name}").trim_end_matches('/').to_owned()
}

/// Path of an object by the key of the model.
fn path_of(resource: &str, key: &str) -> String {
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    path(resource, namespace, name)
}

fn path_at(place: &Place) -> String {
    path(place.resource, &place.namespace, &place.name)
}

/// Reports whether an error is an answer with this code.
fn has_code(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}

impl RemoteDriver {
    /// Creates workloads and starts all pods that fit on nodes.
    pub(super) async fn start(client: Client, spec: &WorkloadSpec, seed: u64, speed: f64) -> Result<Self, kube::Error> {
        let mut driver = Self { client, model: Model::new(seed), speed, began: nodecfg_clock::instant(), started: 0 };
        for mut new in populate::objects(spec) {
            if let Some(owner) = &new.owner {
                new.own(&driver.send("GET", &path_at(owner), OBJECT, &Value::Null).await?);
            }
            let collection = path(new.place.resource, &new.place.namespace, "");
            match driver.send("POST", &collection, OBJECT, &new.object).await {
                Err(error) if new.place.resource == "namespaces" && has_code(&error, 409) => {}
                made => drop(made?),
            }
        }
        while driver.round().await? {}
        driver.model.instant = false;
        Ok(driver)
    }

    /// Runs until `stop` changes.
    pub(super) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        loop {
            match self.round().await {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => tracing::debug!(%error, "the simulated controllers could not list objects"),
            }
            let timer = self.model.next_timer().map(|at| self.began + at.0.div_f64(self.speed));
            let poll = nodecfg_clock::instant() + PAUSE;
            tokio::select! {
                () = tokio::time::sleep_until(timer.map_or(poll, |timer| timer.min(poll))) => {}
                _ = stop.changed() => return,
            }
        }
    }

    fn now(&self) -> Moment {
        Moment(self.began.elapsed().mul_f64(self.speed))
    }

    /// Lists all objects and carries out the model's actions. Returns false if there were none.
    async fn round(&mut self) -> Result<bool, kube::Error> {
        let lists = RESOURCES.map(|resource| self.list(resource));
        let lists = futures::future::try_join_all(lists).await?;
        let now = self.now();
        for (resource, changes) in RESOURCES.into_iter().zip(&lists) {
            self.model.absorb(resource, changes, now);
        }
        // Evictions are forgotten after real time: this server needs longer than the sandbox.
        let expired = nodecfg_clock::now().checked_sub(DELETION_TIMEOUT).unwrap_or(Timestamp::MIN);
        let actions = self.model.step(now, expired);
        let acted = !actions.is_empty();
        for action in actions {
            let failed = self.perform(&action).await.err();
            let Some(error) = failed else { continue };
            tracing::debug!(%error, ?action, "a simulated controller could not act");
            if let Action::Create { namespace, object, .. } = &action {
                let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
                self.model.not_created(&format!("{namespace}/{name}"), now);
            }
        }
        Ok(acted)
    }

    async fn list(&self, resource: &str) -> Result<Changes, kube::Error> {
        let list = self.send("GET", &path(resource, "", ""), OBJECT, &Value::Null).await?;
        let items = list.get("items").and_then(Value::as_array).into_iter().flatten();
        let seen = items.map(|object| SeenChange { deleted: false, object: object.to_string().into() });
        Ok(Changes { seen: seen.collect(), complete: true, revision: 0 })
    }

    async fn perform(&mut self, action: &Action) -> Result<(), kube::Error> {
        match action {
            Action::Create { namespace, object, run } => {
                let mut pod = self.send("POST", &path("pods", namespace, ""), OBJECT, object).await?;
                if *run {
                    self.run_pod(&mut pod).await?;
                }
            }
            Action::Bind { key, uid, node } => {
                let name = key.rsplit('/').next();
                let target = json!({"apiVersion": "v1", "kind": "Node", "name": node});
                let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "uid": uid},
                    "target": target});
                self.send("POST", &format!("{}/binding", path_of("pods", key)), OBJECT, &binding).await?;
            }
            Action::Start { key, uid } => {
                let mut pod = self.send("GET", &path_of("pods", key), OBJECT, &Value::Null).await?;
                if pod.pointer("/metadata/uid").and_then(Value::as_str) == Some(uid) {
                    self.run_pod(&mut pod).await?;
                }
            }
            Action::End { key, uid } => {
                let options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": uid}});
                self.send("DELETE", &path_of("pods", key), OBJECT, &options).await?;
            }
            Action::Delete { key, uid } => {
                let options = json!({"preconditions": {"uid": uid}});
                self.send("DELETE", &path_of("pods", key), OBJECT, &options).await?;
            }
            Action::Set { key, uid, replicas, ready, generation } => {
                let status = objects::set_status(*replicas, *ready, *generation);
                self.put_status(&path_of("replicasets", key), uid, &status).await?;
            }
            Action::Budget { key, revision, status } => {
                let path = path_of("poddisruptionbudgets", key);
                let mut object = self.send("GET", &path, OBJECT, &Value::Null).await?;
                let version = object.pointer("/metadata/resourceVersion").and_then(Value::as_str);
                if version == Some(revision.to_string().as_str()) {
                    budget::write(&mut object, status);
                    self.send("PUT", &format!("{path}/status"), OBJECT, &object).await?;
                }
            }
            Action::Attach { name, node, claim } => {
                let object = objects::attachment(name, node, claim);
                let made = self.send("POST", &path("volumeattachments", "", ""), OBJECT, &object).await?;
                let uid = made.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
                self.put_status(&path("volumeattachments", "", name), uid, &json!({"attached": true})).await?;
            }
            Action::Detach { name } => {
                self.send("DELETE", &path("volumeattachments", "", name), OBJECT, &Value::Null).await?;
            }
        }
        Ok(())
    }

    async fn run_pod(&mut self, pod: &mut Value) -> Result<(), kube::Error> {
        self.started += 1;
        objects::run(pod, self.started, nodecfg_clock::now());
        let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let path = path("pods", text("/metadata/namespace"), text("/metadata/name"));
        self.put_status(&path, text("/metadata/uid"), pod.get("status").unwrap_or(&Value::Null)).await
    }

    /// Merges a status into an object with this uid.
    async fn put_status(&self, path: &str, uid: &str, status: &Value) -> Result<(), kube::Error> {
        let patch = json!({"metadata": {"uid": uid}, "status": status});
        self.send("PATCH", &format!("{path}/status"), PART, &patch).await.map(|_| ())
    }

    async fn send(&self, method: &str, path: &str, content: &str, body: &Value) -> Result<Value, kube::Error> {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = Request::builder().method(method).uri(path).header("Content-Type", content).body(body);
        self.client.request(request.map_err(kube::Error::HttpError)?).await
    }
}
