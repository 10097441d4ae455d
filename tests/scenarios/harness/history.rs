//! Everything that happened to Nodes, followed by a watch of the scenario's own, so that invariants can be held against
//! every state that there ever was and not just against samples.

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

/// One state of one Node.
#[derive(Debug, Clone)]
pub struct Moment {
    /// The Node.
    pub node: String,
    /// How it was; `None` once it is gone.
    pub state: Option<NodeRecord>,
}

/// The history of all Nodes from the moment this was made.
pub struct History {
    client: Client,
    resources: Vec<Resource>,
}

/// One resource that says something of Nodes.
struct Resource {
    path: &'static str,
    began: BTreeMap<String, Value>,
    changes: Arc<Mutex<Vec<Change>>>,
    watch: JoinHandle<()>,
}

/// What a watch said.
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

    /// Everything that has happened by now, in order.
    pub async fn end(self) -> Past {
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
        // Both resources count by the revisions of the one cluster.
        let of = |(index, resource): (usize, &Resource)| {
            let changes = resource.changes.lock().unwrap().clone();
            changes.into_iter().map(move |change| (index, change)).collect::<Vec<_>>()
        };
        let mut changes: Vec<(usize, Change)> = self.resources.iter().enumerate().flat_map(of).collect();
        changes.sort_by_key(|(_, change)| change.revision);
        let mut objects: Vec<BTreeMap<String, Value>> =
            self.resources.iter().map(|resource| resource.began.clone()).collect();
        let began = objects[0].keys().map(|node| (node.clone(), state(&objects, node).unwrap())).collect();
        let mut moments = Vec::new();
        for (index, change) in changes {
            match change.object {
                Some(object) => objects[index].insert(change.node.clone(), object),
                None => objects[index].remove(&change.node),
            };
            let state = state(&objects, &change.node);
            moments.push(Moment { node: change.node, state });
        }
        Past { began, moments }
    }
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

/// What the objects of a Node say together; `None` where there is no Node.
fn state(objects: &[BTreeMap<String, Value>], node: &str) -> Option<NodeRecord> {
    let object = objects[0].get(node)?;
    Some(match objects.get(1) {
        None => NodeRecord::of(object),
        Some(carriers) => NodeRecord::joined(object, carriers.get(node).unwrap_or(&Value::Null)),
    })
}

async fn follow(client: Client, path: &'static str, version: String, changes: Arc<Mutex<Vec<Change>>>) {
    let path = format!("{path}?watch=true&resourceVersion={version}&timeoutSeconds=300");
    let request = Request::get(path).body(Vec::new()).unwrap();
    let mut events = pin!(client.request_events::<Value>(request).await.expect("a watch"));
    while let Some(event) = events.next().await {
        let (object, gone) = match event.expect("an event") {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
            WatchEvent::Deleted(object) => (object, true),
            WatchEvent::Bookmark(_) => continue,
            WatchEvent::Error(error) => panic!("{error:?}"),
        };
        let node = object["metadata"]["name"].as_str().unwrap().to_owned();
        let revision = revision(&object);
        changes.lock().unwrap().push(Change { revision, node, object: (!gone).then_some(object) });
    }
}

fn after(began: &BTreeMap<String, NodeRecord>, moments: &[Moment]) -> BTreeMap<String, NodeRecord> {
    let mut states = began.clone();
    for moment in moments {
        match &moment.state {
            Some(state) => states.insert(moment.node.clone(), state.clone()),
            None => states.remove(&moment.node),
        };
    }
    states
}

/// A history that has ended.
pub struct Past {
    began: BTreeMap<String, NodeRecord>,
    moments: Vec<Moment>,
}

impl Past {
    /// Which Nodes were pointed elsewhere, in order, and at what.
    pub fn assignments(&self) -> Vec<(String, Option<String>)> {
        let mut sources: BTreeMap<&str, Option<&str>> =
            self.began.iter().map(|(node, state)| (node.as_str(), state.source.as_deref())).collect();
        let mut assignments = Vec::new();
        for moment in &self.moments {
            let Some(state) = &moment.state else { continue };
            let source = state.source.as_deref();
            if sources.insert(&moment.node, source).unwrap_or_default() != source {
                assignments.push((moment.node.clone(), state.source.clone()));
            }
        }
        assignments
    }

    /// The Nodes of [`assignments`](Self::assignments) alone.
    pub fn assigned(&self) -> Vec<String> {
        self.assignments().into_iter().map(|(node, _)| node).collect()
    }

    /// The revision at which the first Node was pointed elsewhere.
    pub fn first_assignment(&self) -> u64 {
        let moved = |moment: &&Moment| {
            let state = moment.state.as_ref();
            state.is_some_and(|state| self.began.get(&moment.node).is_some_and(|began| began.source != state.source))
        };
        self.moments.iter().find(moved).and_then(|moment| moment.state.as_ref()).expect("an assignment").revision
    }

    /// The most Nodes that `counts` holds for at any one time.
    pub fn most(&self, counts: impl Fn(&str, &NodeRecord) -> bool) -> usize {
        let mut states = self.began.clone();
        let number =
            |states: &BTreeMap<String, NodeRecord>| states.iter().filter(|(node, state)| counts(node, state)).count();
        let mut most = number(&states);
        for moment in &self.moments {
            states = after(&states, std::slice::from_ref(moment));
            most = most.max(number(&states));
        }
        most
    }

    /// The states that one Node went through.
    pub fn of(&self, node: &str) -> Vec<&NodeRecord> {
        let later = self.moments.iter().filter(|moment| moment.node == node).filter_map(|moment| moment.state.as_ref());
        self.began.get(node).into_iter().chain(later).collect()
    }
}
