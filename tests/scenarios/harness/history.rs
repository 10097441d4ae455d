//! Record of all changes of nodes from a separate watch, so that tests can check invariants on every state instead of
//! samples.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use http::Request;
use kube::Client;
use kube::api::WatchEvent;
use serde_json::Value;
use tokio::task::JoinHandle;

use super::cluster::{NODE_CONFIGS, NodeRecord, by_name, list};
use super::until;

/// One state of one node.
#[derive(Debug, Clone)]
pub struct StateChange {
    /// Name of the node.
    pub node: String,
    /// State of the node; `None` after deletion.
    pub state: Option<NodeRecord>,
}

/// Recording of all nodes since its creation.
pub struct History {
    client: Client,
    resources: Vec<Resource>,
}

/// Recording of one resource.
struct Resource {
    path: &'static str,
    began: BTreeMap<String, Value>,
    changes: Arc<Mutex<Vec<Change>>>,
    watch: JoinHandle<()>,
}

/// A watched change.
#[derive(Debug, Clone)]
struct Change {
    revision: u64,
    node: String,
    object: Option<Value>,
}

impl History {
    pub(super) async fn begin(client: Client, agents: bool) -> Self {
        let paths: &[_] = if agents { &["/api/v1/nodes", NODE_CONFIGS] } else { &["/api/v1/nodes"] };
        let mut resources = Vec::new();
        for path in paths {
            let objects = list(&client, path).await;
            let version = objects["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
            let changes = Arc::new(Mutex::new(Vec::new()));
            let watch = tokio::spawn(follow(client.clone(), path, version, Arc::clone(&changes)));
            resources.push(Resource { path, began: by_name(&objects), changes, watch });
        }
        Self { client, resources }
    }

    /// Ends the recording and returns all changes so far, in order.
    pub async fn end(self) -> Recording {
        for resource in &self.resources {
            let now = by_name(&list(&self.client, resource.path).await);
            until("the watch has caught up", async || {
                let changes = resource.changes.lock().unwrap();
                now.iter().all(|(name, object)| {
                    let began = resource.began.get(name).map(revision);
                    let seen = changes.iter().filter(|change| change.node == *name).map(|change| change.revision).max();
                    began.max(seen) >= Some(revision(object))
                })
            })
            .await;
            resource.watch.abort();
        }
        // Both resources share the revisions of one cluster.
        let of = |(index, resource): (usize, &Resource)| {
            let changes = resource.changes.lock().unwrap().clone();
            changes.into_iter().map(move |change| (index, change)).collect::<Vec<_>>()
        };
        let mut changes: Vec<(usize, Change)> = self.resources.iter().enumerate().flat_map(of).collect();
        changes.sort_by_key(|(_, change)| change.revision);
        let mut objects: Vec<BTreeMap<String, Value>> =
            self.resources.iter().map(|resource| resource.began.clone()).collect();
        let began = objects[0].keys().map(|node| (node.clone(), state(&objects, node).unwrap())).collect();
        let mut state_changes = Vec::new();
        for (index, change) in changes {
            match change.object {
                Some(object) => objects[index].insert(change.node.clone(), object),
                None => objects[index].remove(&change.node),
            };
            let state = state(&objects, &change.node);
            state_changes.push(StateChange { node: change.node, state });
        }
        Recording { began, state_changes }
    }
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

/// State of a node from its objects; `None` if the Node is missing.
fn state(objects: &[BTreeMap<String, Value>], node: &str) -> Option<NodeRecord> {
    let object = objects[0].get(node)?;
    Some(match objects.get(1) {
        None => NodeRecord::of(object),
        Some(node_configs) => NodeRecord::joined(object, node_configs.get(node).unwrap_or(&Value::Null)),
    })
}

async fn follow(client: Client, path: &'static str, version: String, changes: Arc<Mutex<Vec<Change>>>) {
    let path = format!("{path}?watch=true&resourceVersion={version}&timeoutSeconds=300");
    let request = Request::get(path).body(Vec::new()).unwrap();
    let mut events = pin!(client.request_events::<Value>(request).await.expect("a watch"));
    while let Some(event) = events.next().await {
        let (object, deleted) = match event.expect("an event") {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
            WatchEvent::Deleted(object) => (object, true),
            WatchEvent::Bookmark(_) => continue,
            WatchEvent::Error(error) => panic!("{error:?}"),
        };
        let node = object["metadata"]["name"].as_str().unwrap().to_owned();
        let revision = revision(&object);
        changes.lock().unwrap().push(Change { revision, node, object: (!deleted).then_some(object) });
    }
}

fn after(began: &BTreeMap<String, NodeRecord>, state_changes: &[StateChange]) -> BTreeMap<String, NodeRecord> {
    let mut states = began.clone();
    for change in state_changes {
        match &change.state {
            Some(state) => states.insert(change.node.clone(), state.clone()),
            None => states.remove(&change.node),
        };
    }
    states
}

/// A finished recording.
pub struct Recording {
    began: BTreeMap<String, NodeRecord>,
    /// Changes of states, in order.
    pub state_changes: Vec<StateChange>,
}

impl Recording {
    /// Changed assignments in order: node and source.
    pub fn assignments(&self) -> Vec<(String, Option<String>)> {
        let mut sources: BTreeMap<&str, Option<&str>> =
            self.began.iter().map(|(node, state)| (node.as_str(), state.source.as_deref())).collect();
        let mut assignments = Vec::new();
        for change in &self.state_changes {
            let Some(state) = &change.state else { continue };
            let source = state.source.as_deref();
            if sources.insert(&change.node, source).unwrap_or_default() != source {
                assignments.push((change.node.clone(), state.source.clone()));
            }
        }
        assignments
    }

    /// Nodes of [`assignments`](Self::assignments).
    pub fn assigned(&self) -> Vec<String> {
        self.assignments().into_iter().map(|(node, _)| node).collect()
    }

    /// Revision of the first changed assignment.
    pub fn first_assignment(&self) -> u64 {
        let moved = |change: &&StateChange| {
            let state = change.state.as_ref();
            state.is_some_and(|state| self.began.get(&change.node).is_some_and(|began| began.source != state.source))
        };
        self.state_changes.iter().find(moved).and_then(|change| change.state.as_ref()).expect("an assignment").revision
    }

    /// Maximum number of nodes for which `counts` holds at the same time.
    pub fn most(&self, counts: impl Fn(&str, &NodeRecord) -> bool) -> usize {
        let mut states = self.began.clone();
        let number =
            |states: &BTreeMap<String, NodeRecord>| states.iter().filter(|(node, state)| counts(node, state)).count();
        let mut most = number(&states);
        for change in &self.state_changes {
            states = after(&states, std::slice::from_ref(change));
            most = most.max(number(&states));
        }
        most
    }

    /// States of one node, in order.
    pub fn of(&self, node: &str) -> Vec<&NodeRecord> {
        let later =
            self.state_changes.iter().filter(|change| change.node == node).filter_map(|change| change.state.as_ref());
        self.began.get(node).into_iter().chain(later).collect()
    }
}
