//! Simulated cluster: what its nodes and pods truly are, and the requests that it has not answered.

use std::collections::{BTreeMap, BTreeSet};

use nodecfg_contract::UnreadableField;
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_contract::{ConfigSource, ConfigStatus, error_text};
use nodecfg_observed::{DrainMark, Node, Observed, Obstacle, Pod, Readiness, Rejection};
use nodecfg_plan::convergence::{Convergence, ConvergenceFailure, Target, WaitContext, evaluate};
use nodecfg_plan::fixtures::{on, refusing};
use nodecfg_plan::{Plan, PoolPlan};
use nodecfg_rollout::machine::Command;
use nodecfg_rollout::progress::Progress;

#[derive(Debug)]
pub(super) struct SimCluster {
    pub(super) nodes: BTreeMap<NodeName, Node>,
    /// Pods of the nodes, by uid.
    pub(super) pods: BTreeMap<NodeName, BTreeMap<String, Pod>>,
    /// Nodes of which the machine sees only the name.
    pub(super) unreadable: BTreeSet<NodeName>,
    /// Nodes whose pods the machine watches.
    pub(super) watched: BTreeSet<NodeName>,
    /// Nodes from which another client removed the mark.
    pub(super) unmarked: BTreeSet<NodeName>,
    /// Nodes that failed, by the events of the machine.
    pub(super) failures: BTreeMap<NodeName, ConvergenceFailure>,
    /// Unanswered requests, the oldest first.
    pub(super) requests: Vec<Command>,
    planned: BTreeMap<NodeName, PlannedNode>,
    /// Source of the nodes before the rollout.
    previous: BTreeMap<NodeName, Option<ConfigSource>>,
}

/// Pool of a node, and how the plan changes it.
#[derive(Debug)]
struct PlannedNode {
    pool: PoolName,
    target: Target,
    drains: bool,
}

/// Node of a command; `None` for commands about pools.
pub(super) fn node_of(command: &Command) -> Option<&NodeName> {
    match command {
        Command::Assign(node, _)
        | Command::ListPods(node)
        | Command::AskPermit(node, _)
        | Command::Mark(node, ..)
        | Command::Show(node, ..)
        | Command::WatchPods(node)
        | Command::UnwatchPods(node)
        | Command::Evict(node, _)
        | Command::CountVolumes(node)
        | Command::DeletePod(node, _)
        | Command::Release(node, _)
        | Command::RollBack(node, _) => Some(node),
        Command::MovePointer(..) => None,
        Command::Report(event) => event.node.as_ref(),
    }
}

/// Reports whether the controller of a pod is a DaemonSet, so that a drain leaves the pod.
pub(super) fn is_of_daemon_set(pod: &Pod) -> bool {
    pod.controller.as_ref().unwrap().kind == "DaemonSet"
}

impl SimCluster {
    pub(super) fn new(plan: &Plan, start: &Observed) -> Self {
        let planned = |pool: &PoolPlan, drains| PlannedNode {
            pool: pool.name.clone(),
            target: pool.targets.only().unwrap().clone(),
            drains,
        };
        let mut nodes = BTreeMap::new();
        for pool in &plan.pools {
            nodes.extend(pool.steps().map(|step| (step.node.clone(), planned(pool, step.drain))));
            nodes.extend(pool.left_alone.iter().map(|left| (left.node.clone(), planned(pool, false))));
        }
        Self {
            nodes: start.nodes.clone(),
            pods: BTreeMap::new(),
            unreadable: BTreeSet::new(),
            watched: BTreeSet::new(),
            unmarked: BTreeSet::new(),
            failures: BTreeMap::new(),
            requests: Vec::new(),
            planned: nodes,
            previous: start.nodes.iter().map(|(name, node)| (name.clone(), node.source.clone())).collect(),
        }
    }

    /// Keeps a request, or records what another command reports.
    pub(super) fn receive(&mut self, command: Command) {
        match command {
            Command::Report(event) => {
                if let (Progress::Failed { failure }, Some(node)) = (event.progress, event.node) {
                    self.failures.insert(node, failure);
                }
            }
            Command::WatchPods(name) => drop(self.watched.insert(name)),
            Command::UnwatchPods(name) => drop(self.watched.remove(&name)),
            Command::Show(..) => {}
            request => self.requests.push(request),
        }
    }

    pub(super) fn pool(&self, node: &NodeName) -> &PoolName {
        &self.planned[node].pool
    }

    pub(super) fn target(&self, node: &NodeName) -> &Target {
        &self.planned[node].target
    }

    pub(super) fn previous(&self, node: &NodeName) -> Option<&ConfigSource> {
        self.previous[node].as_ref()
    }

    /// Reports whether the plan drains a node.
    pub(super) fn drains(&self, node: &NodeName) -> bool {
        self.planned[node].drains
    }

    pub(super) fn in_pool<'a>(&'a self, pool: &'a PoolName) -> impl Iterator<Item = &'a NodeName> {
        self.nodes.keys().filter(move |node| self.pool(node) == pool)
    }

    /// Reports whether a node is Ready, runs what it points at, and is neither claimed by another client nor marked.
    fn is_healthy(&self, node: &Node) -> bool {
        let settled = evaluate(&Target::present(node), node, WaitContext::STATE_ONLY) == Convergence::Converged;
        let free = !node.cordoned && node.drain_mark.is_none() && !self.is_claimed(node);
        node.ready == Readiness::Ready && settled && free
    }

    /// Reports whether another program maintains or deletes a node, or its state is unknown.
    pub(super) fn is_claimed(&self, node: &Node) -> bool {
        node.deleting || node.maintainer.is_some() || self.unreadable.contains(&node.name)
    }

    /// Reports whether a mark, an assignment or a rollback of a node is requested and unanswered. A drain that lost its
    /// mark has failed, and its assignment counts only once it is applied.
    fn is_changing(&self, name: &NodeName) -> bool {
        self.requests.iter().any(|request| match request {
            Command::Mark(node, ..) | Command::RollBack(node, _) => node == name,
            Command::Assign(node, _) => node == name && !self.unmarked.contains(name),
            _ => false,
        })
    }

    /// Reports whether a node failed with its assignment. Such a node counts as unavailable to the end of the rollout.
    fn has_failed(&self, node: &NodeName) -> bool {
        self.failures.get(node).is_some_and(|failure| !matches!(failure, ConvergenceFailure::Drain { .. }))
    }

    /// Reports whether a node counts as available. A node that left the cluster does.
    pub(super) fn is_available(&self, name: &NodeName) -> bool {
        let Some(node) = self.nodes.get(name) else { return true };
        self.is_healthy(node) && !self.is_changing(name) && !self.has_failed(name)
    }

    /// Reports whether a node converged on the target of its pool. Another client may have disrupted it since.
    pub(super) fn is_done(&self, node: &Node) -> bool {
        let runs_target = evaluate(self.target(&node.name), node, WaitContext::STATE_ONLY) == Convergence::Converged;
        runs_target && !self.is_changing(&node.name) && !self.has_failed(&node.name)
    }

    pub(super) fn is_on_target(&self, name: &NodeName) -> bool {
        self.nodes.get(name).is_some_and(|node| self.target(name).is_named_by(node.source.as_ref()))
    }

    /// Reports whether a node is marked. A node that left the cluster counts as marked.
    pub(super) fn is_marked(&self, name: &NodeName) -> bool {
        self.nodes.get(name).is_none_or(|node| node.drain_mark.is_some())
    }

    pub(super) fn pods_of(&self, node: &NodeName) -> impl Iterator<Item = &Pod> {
        self.pods.get(node).into_iter().flat_map(BTreeMap::values)
    }

    /// A node as far as it is readable.
    pub(super) fn seen(&self, name: &NodeName) -> Option<Node> {
        let node = self.nodes.get(name)?.clone();
        if !self.unreadable.contains(name) {
            return Some(node);
        }
        let field = UnreadableField { field: "status".to_owned(), reason: "invalid".to_owned() };
        Some(Node { obstacle: Some(Obstacle::Unreadable(field)), ..Node::named(node.name) })
    }

    pub(super) fn change(&mut self, name: &NodeName, change: impl FnOnce(Node) -> Node) {
        if let Some(node) = self.nodes.remove(name) {
            self.nodes.insert(name.clone(), change(node));
        }
    }

    /// Answer to a list of the pods of a node: 0 an error, 1 a pod that is not Ready, 2 a rejected pod, 3 no pods,
    /// otherwise the pods.
    pub(super) fn listed_pods(&self, node: &NodeName, how: u8) -> Result<Vec<Pod>, String> {
        let mut pods: Vec<Pod> = self.pods_of(node).cloned().collect();
        match how {
            0 => return Err("forbidden".to_owned()),
            1 => pods.iter_mut().take(1).for_each(|pod| pod.ready = false),
            2 => {
                if let Some(pod) = pods.last_mut() {
                    let rejection = Rejection { reason: "NodeAffinity".to_owned(), message: String::new() };
                    (pod.finished, pod.rejection) = (true, Some(Box::new(rejection)));
                }
            }
            3 => pods.clear(),
            _ => {}
        }
        Ok(pods)
    }

    /// Begins the deletion of a pod. `None`: the pod has ended.
    pub(super) fn delete_pod(&mut self, node: &NodeName, uid: &str) -> Option<Pod> {
        let pod = self.pods.get_mut(node)?.get_mut(uid)?;
        pod.deleting = true;
        Some(pod.clone())
    }

    /// Ends a pod that is being deleted, and returns its uid.
    pub(super) fn end_pod(&mut self, node: &NodeName) -> Option<String> {
        let pods = self.pods.get_mut(node)?;
        let uid = pods.values().find(|pod| pod.deleting)?.uid.clone();
        pods.remove(&uid);
        Some(uid)
    }
}

/// The node once it runs what it points at, or refuses that.
pub(super) fn followed(node: Node, good: bool) -> Node {
    match node.source.clone() {
        Some(source) if good => on(node, &source),
        Some(source) => refusing(node, &source, error_text::VALIDATE),
        None => Node { status: ConfigStatus::default(), ..node },
    }
}

pub(super) fn marked(node: Node, mark: Option<DrainMark>) -> Node {
    Node { drain_mark: mark.map(Box::new), ..node }
}
