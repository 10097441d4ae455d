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

use super::cluster::{State, list};
use super::until;

/// One state of one Node.
#[derive(Debug, Clone)]
pub struct Moment {
    /// The Node.
    pub node: String,
    /// How it was; `None` once it is gone.
    pub state: Option<State>,
}

/// The history of all Nodes from the moment this was made.
pub struct History {
    client: Client,
    began: BTreeMap<String, State>,
    moments: Arc<Mutex<Vec<Moment>>>,
    watch: JoinHandle<()>,
}

impl History {
    pub(super) async fn begin(client: Client) -> Self {
        let nodes = list(&client, "/api/v1/nodes").await;
        let version = nodes["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        let moments = Arc::new(Mutex::new(Vec::new()));
        let watch = tokio::spawn(follow(client.clone(), version, Arc::clone(&moments)));
        let began = states(&nodes);
        Self { client, began, moments, watch }
    }

    /// Everything that has happened by now, in order.
    pub async fn end(self) -> Past {
        let now = states(&list(&self.client, "/api/v1/nodes").await);
        until("the watch has caught up", async || {
            let latest = after(&self.began, &self.moments.lock().unwrap());
            now.iter().all(|(node, state)| latest.get(node).is_some_and(|seen| seen.revision >= state.revision))
        })
        .await;
        self.watch.abort();
        let moments = self.moments.lock().unwrap().clone();
        Past { began: self.began, moments }
    }
}

async fn follow(client: Client, version: String, moments: Arc<Mutex<Vec<Moment>>>) {
    let path = format!("/api/v1/nodes?watch=true&resourceVersion={version}&timeoutSeconds=300");
    let request = Request::get(path).body(Vec::new()).unwrap();
    let mut events = pin!(client.request_events::<Value>(request).await.expect("a watch"));
    while let Some(event) = events.next().await {
        let (node, gone) = match event.expect("an event") {
            WatchEvent::Added(node) | WatchEvent::Modified(node) => (node, false),
            WatchEvent::Deleted(node) => (node, true),
            WatchEvent::Bookmark(_) => continue,
            WatchEvent::Error(error) => panic!("{error:?}"),
        };
        let name = node["metadata"]["name"].as_str().unwrap().to_owned();
        let state = (!gone).then(|| State::of(&node));
        moments.lock().unwrap().push(Moment { node: name, state });
    }
}

fn states(nodes: &Value) -> BTreeMap<String, State> {
    let named = |node: &Value| (node["metadata"]["name"].as_str().unwrap().to_owned(), State::of(node));
    nodes["items"].as_array().unwrap().iter().map(named).collect()
}

fn after(began: &BTreeMap<String, State>, moments: &[Moment]) -> BTreeMap<String, State> {
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
    began: BTreeMap<String, State>,
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
    pub fn most(&self, counts: impl Fn(&str, &State) -> bool) -> usize {
        let mut states = self.began.clone();
        let number =
            |states: &BTreeMap<String, State>| states.iter().filter(|(node, state)| counts(node, state)).count();
        let mut most = number(&states);
        for moment in &self.moments {
            states = after(&states, std::slice::from_ref(moment));
            most = most.max(number(&states));
        }
        most
    }

    /// The states that one Node went through.
    pub fn of(&self, node: &str) -> Vec<&State> {
        let later = self.moments.iter().filter(|moment| moment.node == node).filter_map(|moment| moment.state.as_ref());
        self.began.get(node).into_iter().chain(later).collect()
    }
}
