//! Loop that feeds the model with the changes of the API server, and carries out its actions.

use std::collections::VecDeque;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use super::budget::{self, DELETION_TIMEOUT};
use super::intake::RESOURCES;
use super::model::{Action, Model};
use super::objects;
use crate::api::Api;
use crate::kubelets::Moment;

/// Actions of a round, after which other tasks run.
const BATCH: usize = 64;
/// Client that writes as the controllers do.
const MANAGER: &str = "kube-controller-manager";

/// The model with its connection to the API server.
pub(super) struct Driver {
    api: Api,
    model: Model,
    speed: f64,
    began: Instant,
    /// Revision up to which each resource was read.
    read: [Option<u64>; 5],
    signals: [watch::Receiver<u64>; 5],
    /// Actions that are not carried out yet.
    pending: VecDeque<Action>,
    /// Number of started pods.
    started: u64,
}

impl Driver {
    pub(super) fn new(api: &Api, seed: u64, speed: f64) -> Self {
        Self {
            api: api.clone(),
            model: Model::new(seed),
            speed,
            began: nodecfg_clock::instant(),
            read: [None; 5],
            signals: RESOURCES.map(|resource| api.signal(resource)),
            pending: VecDeque::new(),
            started: 0,
        }
    }

    fn now(&self) -> Moment {
        Moment(self.began.elapsed().mul_f64(self.speed))
    }

    /// Lets all pods start that can start at once.
    pub(super) fn fill(&mut self) {
        while self.round(self.now()) {}
        self.model.instant = false;
    }

    /// Time of the next timer of the model.
    pub(super) fn next_timer(&self) -> Option<Moment> {
        self.model.next_timer()
    }

    /// Runs until `stop` changes.
    pub(super) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        loop {
            self.settle().await;
            let timer = self.next_timer().map(|at| self.began + at.0.div_f64(self.speed));
            // Without a timer, the pause has no effect.
            let timer = timer.unwrap_or_else(|| nodecfg_clock::instant() + Duration::from_secs(3600));
            let changed = self.signals.iter_mut().map(|signal| Box::pin(signal.changed()));
            tokio::select! {
                _ = futures::future::select_all(changed) => {}
                () = tokio::time::sleep_until(timer) => {}
                _ = stop.changed() => return,
            }
        }
    }

    /// Reads changes and carries out actions until there are none. Other tasks run in between.
    async fn settle(&mut self) {
        while self.round(self.now()) {
            tokio::task::yield_now().await;
        }
    }

    /// Reads changes and carries out the next actions at a time. Returns false if there was nothing to do.
    pub(super) fn round(&mut self, now: Moment) -> bool {
        let changed = self.absorb(now);
        let timeout = SignedDuration::try_from_secs_f64(DELETION_TIMEOUT.as_secs_f64() / self.speed);
        let expired = self.api.now().checked_sub(timeout.unwrap_or(DELETION_TIMEOUT)).unwrap_or(Timestamp::MIN);
        if self.pending.is_empty() {
            self.pending.extend(self.model.step(now, expired));
        }
        let idle = self.pending.is_empty();
        for _ in 0..BATCH {
            let Some(action) = self.pending.pop_front() else { break };
            self.perform(action, now);
        }
        changed || !idle
    }

    /// Reads the changes of all resources. Returns false if there are none.
    fn absorb(&mut self, now: Moment) -> bool {
        let mut changed = false;
        for (index, resource) in RESOURCES.into_iter().enumerate() {
            if let Some(signal) = self.signals.get_mut(index) {
                signal.borrow_and_update();
            }
            let Some(since) = self.read.get_mut(index) else { continue };
            let changes = self.api.changes(resource, *since);
            *since = Some(changes.revision);
            changed |= !changes.seen.is_empty();
            self.model.absorb(resource, &changes, now);
        }
        changed
    }

    fn perform(&mut self, action: Action, moment: Moment) {
        let api = &self.api;
        let now = api.now();
        match action {
            Action::Create { namespace, object, run } => {
                let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
                let key = format!("{namespace}/{name}");
                self.started += u64::from(run);
                let number = self.started;
                let start = |pod: &mut Value| {
                    if run {
                        objects::run(pod, number, now);
                    }
                };
                if let Err(error) = api.insert_pod(&namespace, object, start) {
                    tracing::debug!(%error, "a simulated controller could not create a pod");
                    self.model.not_created(&key, moment);
                }
            }
            Action::Bind { key, uid, node } => {
                api.rewrite("pods", &key, &uid, |pod| {
                    if let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) {
                        spec.insert("nodeName".to_owned(), node.as_str().into());
                    }
                });
            }
            Action::Start { key, uid } => {
                self.started += 1;
                let number = self.started;
                api.rewrite("pods", &key, &uid, |pod| objects::run(pod, number, now));
            }
            Action::End { key, uid } => self.delete(&key, &uid, Some(0)),
            Action::Delete { key, uid } => self.delete(&key, &uid, None),
            Action::Set { key, uid, replicas, ready, generation } => {
                let status = objects::set_status(replicas, ready, generation);
                api.rewrite("replicasets", &key, &uid, |set| {
                    if let Some(set) = set.as_object_mut() {
                        set.insert("status".to_owned(), status.clone());
                    }
                });
            }
            Action::Budget { key, revision, status } => {
                api.rewrite_at("poddisruptionbudgets", &key, revision, |object| {
                    budget::write(object, &status);
                });
            }
            Action::Attach { name, node, claim } => {
                let object = objects::attachment(&name, &node, &claim);
                if let Ok(created) = api.create("storage.k8s.io", "volumeattachments", "", object, MANAGER) {
                    let uid = created.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
                    api.rewrite("volumeattachments", &name, uid, |attachment| {
                        if let Some(attachment) = attachment.as_object_mut() {
                            attachment.insert("status".to_owned(), json!({"attached": true}));
                        }
                    });
                }
            }
            Action::Detach { name } => api.remove("volumeattachments", "", &name),
        }
    }

    fn delete(&self, key: &str, uid: &str, grace: Option<i64>) {
        if let Some((namespace, name)) = key.split_once('/') {
            self.api.delete_pod(namespace, name, uid, grace);
        }
    }
}
