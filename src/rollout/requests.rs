//! Requests of a rollout: converts commands of the state machine to requests, and their results to inputs.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use nodecfg_cluster::drain::{NODE_LEASE_NAMESPACE, NodeLease};
use nodecfg_cluster::{ClusterError, ClusterReader, ClusterWriter, PointerSpec};
use nodecfg_contract::Assignment;
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_contract::printable::remark;
use nodecfg_observed::{Drain, Maintainer, Node, Pod};
use nodecfg_rollout::machine::{Command, Input, Shown};

/// Queued request.
pub(super) enum Request {
    Assign(NodeName, Assignment),
    RollBack(NodeName, Assignment),
    Reread(NodeName),
    ListPods(NodeName),
    MovePointer(Box<PointerSpec>),
    /// A request of a drain.
    Drain(DrainRequest),
}

/// Queued request of a drain.
pub(super) enum DrainRequest {
    Mark(NodeName, String, Box<Drain>, Duration),
    Show(NodeName, String, Shown),
    Evict(NodeName, Box<Pod>),
    CountVolumes(BTreeSet<NodeName>),
    DeletePod(NodeName, Box<Pod>),
    Release(NodeName, String),
}

/// Response to a request.
pub(super) enum Response {
    Assigned(NodeName),
    Changed(NodeName),
    Refused(NodeName, ClusterError),
    RolledBack(NodeName, Result<(), ClusterError>),
    Reread(NodeName, Box<Result<Option<Node>, ClusterError>>),
    /// The pods of a node.
    Pods(NodeName, Result<Vec<Pod>, ClusterError>),
    /// The pointer of a pool.
    Pointer(PoolName, Result<(), ClusterError>),
    /// Inputs that answer a request of a drain, and the error that they report.
    Drain(Vec<Input>, Option<ClusterError>),
}

/// Requests that were not sent yet, the oldest first.
#[derive(Default)]
pub(super) struct Queue(VecDeque<Request>);

impl Queue {
    /// Adds the request of a command. Returns commands that are no requests.
    pub(super) fn add(&mut self, command: Command) -> Option<Command> {
        self.0.push_back(match command {
            Command::Assign(node, change) => Request::Assign(node, change),
            Command::RollBack(node, change) => Request::RollBack(node, change),
            Command::ListPods(node) => Request::ListPods(node),
            Command::Mark(node, uid, drain, limit) => {
                Request::Drain(DrainRequest::Mark(node, uid, Box::new(drain), limit))
            }
            Command::Show(node, uid, shown) => Request::Drain(DrainRequest::Show(node, uid, shown)),
            Command::Evict(node, pod) => Request::Drain(DrainRequest::Evict(node, pod)),
            Command::DeletePod(node, pod) => Request::Drain(DrainRequest::DeletePod(node, pod)),
            Command::Release(node, uid) => Request::Drain(DrainRequest::Release(node, uid)),
            Command::CountVolumes(node) => {
                self.count_volumes(node);
                return None;
            }
            Command::WatchPods(_)
            | Command::UnwatchPods(_)
            | Command::MovePointer(..)
            | Command::AskPermit(..)
            | Command::Report(_) => {
                return Some(command);
            }
        });
        None
    }

    /// Adds a node to the count that is queued, because one list serves all nodes.
    fn count_volumes(&mut self, node: NodeName) {
        for request in &mut self.0 {
            if let Request::Drain(DrainRequest::CountVolumes(nodes)) = request {
                nodes.insert(node);
                return;
            }
        }
        self.0.push_back(Request::Drain(DrainRequest::CountVolumes(BTreeSet::from([node]))));
    }

    /// Adds a request that is sent next.
    pub(super) fn add_first(&mut self, request: Request) {
        self.0.push_front(request);
    }

    pub(super) fn next(&mut self) -> Option<Request> {
        self.0.pop_front()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes the evictions and counts of a node whose drain has ended.
    pub(super) fn end_drain(&mut self, node: &NodeName) {
        self.0.retain_mut(|request| match request {
            Request::Drain(DrainRequest::Evict(other, _)) => other != node,
            Request::Drain(DrainRequest::CountVolumes(nodes)) => {
                nodes.remove(node);
                !nodes.is_empty()
            }
            _ => true,
        });
    }

    /// Removes the assignments of these nodes, and returns the nodes.
    pub(super) fn withdraw(&mut self, is_withdrawn: impl Fn(&NodeName) -> bool) -> Vec<NodeName> {
        let mut withdrawn = Vec::new();
        self.0.retain(|request| match request {
            Request::Assign(node, _) if is_withdrawn(node) => {
                withdrawn.push(node.clone());
                false
            }
            _ => true,
        });
        withdrawn
    }
}

/// Sends a request.
pub(super) async fn send(request: Request, reader: &ClusterReader, writer: Option<&ClusterWriter>) -> Response {
    match (request, writer) {
        (Request::Assign(node, change), Some(writer)) => match writer.assign(&node, &change).await {
            Ok(_) => Response::Assigned(node),
            Err(
                ClusterError::PreconditionFailed { .. } | ClusterError::Conflict { .. } | ClusterError::NotFound { .. },
            ) => Response::Changed(node),
            Err(error) if may_have_arrived(&error) => Response::Changed(node),
            Err(error) => Response::Refused(node, error),
        },
        (Request::RollBack(node, change), Some(writer)) => {
            let result = writer.assign(&node, &change).await.map(drop);
            Response::RolledBack(node, result)
        }
        (Request::Reread(node), _) => {
            let result = reader.node(&node).await;
            Response::Reread(node, Box::new(result))
        }
        (Request::ListPods(node), _) => {
            let pods = reader.cached_pods_on(&node).await;
            Response::Pods(node, pods)
        }
        (Request::MovePointer(spec), Some(writer)) => {
            let result = writer.write_pointer(&spec).await;
            Response::Pointer(spec.pool, result)
        }
        (Request::Drain(request), Some(writer)) => send_drain(request, reader, writer).await,
        // Without a writer the machine assigns nothing and drains nothing.
        (Request::Assign(node, _) | Request::RollBack(node, _), None) => Response::Changed(node),
        (Request::Drain(_) | Request::MovePointer(_), None) => Response::Drain(Vec::new(), None),
    }
}

async fn send_drain(request: DrainRequest, reader: &ClusterReader, writer: &ClusterWriter) -> Response {
    match request {
        DrainRequest::Mark(node, uid, drain, limit) => mark((node, &uid), &drain, limit, writer).await,
        DrainRequest::Show(node, uid, shown) => {
            let result = match shown {
                Shown::Drained => writer.show_drained(&node, &uid).await,
                Shown::Unmarked => writer.show_unmarked(&node, &uid).await,
            };
            Response::Drain(Vec::new(), result.err())
        }
        DrainRequest::Evict(node, pod) => {
            answer(writer.evict(&pod).await, |result| Input::Evicted(node, pod.uid, result))
        }
        DrainRequest::CountVolumes(nodes) => match reader.attached_volumes(&nodes).await {
            Ok(mut counts) => {
                let count = |node: NodeName| {
                    let volumes = counts.remove(&node).unwrap_or(0);
                    Input::Volumes(node, Ok(volumes))
                };
                Response::Drain(nodes.into_iter().map(count).collect(), None)
            }
            Err(error) => {
                let failed = |node| Input::Volumes(node, Err(error.to_string()));
                Response::Drain(nodes.into_iter().map(failed).collect(), Some(error))
            }
        },
        DrainRequest::DeletePod(node, pod) => {
            answer(writer.delete_daemon_pod(&pod).await, |result| Input::PodDeleted(node, pod.uid, result))
        }
        DrainRequest::Release(node, uid) => {
            answer(writer.release_drain(&node, &uid).await.map(drop), |result| Input::Released(node, result))
        }
    }
}

/// Marks a node once its Lease keeps others from it. A Lease without a mark would keep them from it for nothing.
async fn mark((node, uid): (NodeName, &str), drain: &Drain, limit: Duration, writer: &ClusterWriter) -> Response {
    let marked = match writer.take_node_lease(&node, uid, limit).await {
        Ok(NodeLease::HeldBy(holder)) => {
            tracing::info!("the Lease of node {node} in {NODE_LEASE_NAMESPACE} is held by {}", remark(&holder));
            return Response::Drain(vec![Input::Claimed(node, Maintainer::Medik8sLease)], None);
        }
        Ok(NodeLease::Held | NodeLease::Absent) => writer.mark_for_drain(&node, uid, drain).await.map(drop),
        Err(error) => Err(error),
    };
    match marked {
        // The release of the mark that the node may have returns the Lease, too.
        Err(error) if may_have_arrived(&error) => {
            Response::Drain(vec![Input::PerhapsMarked(node, error.to_string())], Some(error))
        }
        result => {
            if result.is_err()
                && let Err(error) = writer.show_unmarked(&node, uid).await
            {
                tracing::warn!("node {node} still shows a drain: {error}");
            }
            answer(result, |result| Input::Marked(node, result))
        }
    }
}

/// Reports whether a request that failed with this error may have changed the object.
fn may_have_arrived(error: &ClusterError) -> bool {
    matches!(error, ClusterError::TimedOut { .. } | ClusterError::Unreachable { .. } | ClusterError::Unexpected { .. })
}

fn answer<T>(result: Result<T, ClusterError>, input: impl FnOnce(Result<T, String>) -> Input) -> Response {
    match result {
        Ok(value) => Response::Drain(vec![input(Ok(value))], None),
        Err(error) => Response::Drain(vec![input(Err(error.to_string()))], Some(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use kubelet_config::risk::Class;
    use nodecfg_cluster::connection::fake;
    use nodecfg_cluster::connection::fake::{Reply, status};
    use nodecfg_cluster::lock;
    use nodecfg_cluster::lock::LockOptions;
    use nodecfg_observed::drain::DRAIN_TAINT;
    use nodecfg_plan::drain::fixtures::{mark, pod};
    use nodecfg_plan::fixtures::{fleet, node_name, pool_name, source};
    use serde_json::json;

    impl Queue {
        /// The requests in words: `assign n1`.
        pub(in crate::rollout) fn texts(&self) -> Vec<String> {
            let text = |request: &Request| match request {
                Request::Assign(node, _) => format!("assign {node}"),
                Request::RollBack(node, _) => format!("roll back {node}"),
                Request::Reread(node) => format!("reread {node}"),
                Request::ListPods(node) => format!("list {node}"),
                Request::MovePointer(spec) => format!("point {}", spec.pool),
                Request::Drain(DrainRequest::Mark(node, ..)) => format!("mark {node}"),
                Request::Drain(DrainRequest::Show(node, _, shown)) => format!("show {node} {shown:?}"),
                Request::Drain(DrainRequest::Evict(node, pod)) => format!("evict {node} {}", pod.name),
                Request::Drain(DrainRequest::DeletePod(node, pod)) => format!("delete {node} {}", pod.name),
                Request::Drain(DrainRequest::Release(node, _)) => format!("release {node}"),
                Request::Drain(DrainRequest::CountVolumes(nodes)) => {
                    format!("volumes {}", nodes.iter().map(NodeName::as_str).collect::<Vec<_>>().join(" "))
                }
            };
            self.0.iter().map(text).collect()
        }
    }

    fn evict(node: &str, name: &str) -> Command {
        let pod = Pod { node: node_name(node), ..pod(name) };
        Command::Evict(node_name(node), Box::new(pod))
    }

    /// A pod must not be evicted for a change that is not made any more.
    #[test]
    fn evictions_of_an_ended_drain_are_not_sent() {
        let drain = Drain {
            fleet: fleet(),
            pool: pool_name("a"),
            to: None,
            from: None,
            since: jiff::Timestamp::UNIX_EPOCH,
            added: BTreeSet::new(),
        };
        let mut queue = Queue::default();
        for command in [
            Command::Mark(node_name("n1"), "uid".to_owned(), drain, Duration::from_secs(60)),
            evict("n1", "a"),
            evict("n2", "b"),
            Command::CountVolumes(node_name("n1")),
            Command::CountVolumes(node_name("n2")),
            Command::Release(node_name("n1"), "uid".to_owned()),
        ] {
            assert_eq!(queue.add(command), None);
        }
        assert_eq!(queue.texts(), ["mark n1", "evict n1 a", "evict n2 b", "volumes n1 n2", "release n1"]);
        queue.end_drain(&node_name("n1"));
        assert_eq!(queue.texts(), ["mark n1", "evict n2 b", "volumes n2", "release n1"]);
        queue.end_drain(&node_name("n2"));
        assert_eq!(queue.texts(), ["mark n1", "release n1"]);
        let watch = Command::WatchPods(node_name("n1"));
        assert_eq!(queue.add(watch.clone()), Some(watch));
    }

    fn assignment() -> Assignment {
        let (from, to) = (None, Some(source("a")));
        let (from_hash, to_hash, max_disruption) = (None, None, Class::Restart);
        Assignment {
            uid: "uid-n1".to_owned(),
            from,
            to,
            from_hash,
            to_hash,
            from_placement: None,
            to_placement: None,
            present_placement: None,
            max_disruption,
        }
    }

    /// A pool that stops still owes its nodes what was begun.
    #[test]
    fn only_assignments_are_withdrawn() {
        let mut queue = Queue::default();
        for command in [
            Command::RollBack(node_name("n1"), assignment().reversed()),
            Command::Assign(node_name("n1"), assignment()),
            Command::Release(node_name("n1"), "uid-n1".to_owned()),
        ] {
            assert_eq!(queue.add(command), None);
        }
        assert_eq!(queue.withdraw(|_| true), [node_name("n1")]);
        assert_eq!(queue.texts(), ["roll back n1", "release n1"]);
    }

    /// Response to a request about node n1, of a server that answers each write, and each list, with this reply.
    async fn response(request: Request, mut reply: impl FnMut() -> Reply + Send + 'static) -> Response {
        let marked = matches!(request, Request::Drain(DrainRequest::Release(..)));
        let (client, _) =
            fake::serving(move |request| match (request.uri.contains("/leases"), request.method.as_str()) {
                (true, "GET") => status(404, "NotFound", "not found", json!({"kind": "leases"})),
                (true, _) => Reply::Json(200, request.body.clone()),
                (false, "GET") if request.uri == "/version" => {
                    Reply::Json(200, json!({"major": "1", "minor": "36", "gitVersion": "v1.36.0"}))
                }
                (false, "GET") if request.uri.contains("/nodes/") => {
                    let mut node = fake::node("n1", 1);
                    if marked {
                        node["spec"] = json!({"taints": [{"key": DRAIN_TAINT, "effect": "NoSchedule"}]});
                    }
                    Reply::Json(200, node)
                }
                (false, _) => reply(),
            });
        let reader = ClusterReader::new(client, "https://fake", fake::options());
        let lock = LockOptions::new("kube-system", fleet(), "me".to_owned());
        let held = lock::acquire(&reader, lock).await.unwrap();
        // No failure is retried.
        let writer = ClusterWriter::new(reader.within(Duration::ZERO), &held);
        send(request, &reader, Some(&writer)).await
    }

    /// A success that is none would let pods onto a node that changes, or end the run with a wrong result.
    #[tokio::test]
    async fn refusal_is_never_a_success() {
        let refused = || status(403, "Forbidden", "User \"ci\" cannot do that", json!({}));
        let n1 = || node_name("n1");
        let roll_back = response(Request::RollBack(n1(), assignment().reversed()), refused).await;
        assert!(matches!(roll_back, Response::RolledBack(_, Err(ClusterError::Forbidden { .. }))));
        for request in [
            DrainRequest::Evict(n1(), Box::new(pod("a"))),
            DrainRequest::DeletePod(n1(), Box::new(pod("a"))),
            DrainRequest::CountVolumes(BTreeSet::from([n1()])),
            DrainRequest::Release(n1(), "uid-n1".to_owned()),
        ] {
            let Response::Drain(inputs, Some(_)) = response(Request::Drain(request), refused).await else {
                panic!("an error")
            };
            let failed = |input: &Input| match input {
                Input::Evicted(_, _, result) => result.is_err(),
                Input::PodDeleted(_, _, result) | Input::Released(_, result) => result.is_err(),
                Input::Volumes(_, result) => result.is_err(),
                _ => false,
            };
            assert!(inputs.len() == 1 && inputs.iter().all(failed), "{inputs:?}");
        }
    }

    /// A Lease without a mark would keep remediators from a node that nodecfg does not change.
    #[tokio::test]
    async fn refused_mark_keeps_no_lease() {
        let mut lease: Option<serde_json::Value> = None;
        let missing = || status(404, "NotFound", "not found", json!({"kind": "leases"}));
        let (client, log) = fake::serving(move |request| match request.method.as_str() {
            "GET" if request.uri.contains("/leases/node-n1") => {
                lease.clone().map_or_else(missing, |lease| Reply::Json(200, lease))
            }
            "GET" if request.uri.contains("/leases") => missing(),
            "GET" => Reply::Json(200, fake::node("n1", 1)),
            "PATCH" => status(422, "Invalid", "the server rejected our request", json!({})),
            _ => {
                lease = request.uri.contains("medik8s").then(|| request.body.clone());
                Reply::Json(200, request.body.clone())
            }
        });
        let reader = ClusterReader::new(client, "https://fake", fake::options());
        let lock = LockOptions::new("kube-system", fleet(), "me".to_owned());
        let held = lock::acquire(&reader, lock).await.unwrap();
        let writer = ClusterWriter::new(reader.clone(), &held);
        let drain = Box::new(mark("a").drain.unwrap());
        let request = DrainRequest::Mark(node_name("n1"), "uid-n1".to_owned(), drain, Duration::from_secs(60));
        let Response::Drain(inputs, Some(_)) = send(Request::Drain(request), &reader, Some(&writer)).await else {
            panic!("an error")
        };
        assert!(matches!(inputs[..], [Input::Marked(_, Err(_))]), "{inputs:?}");
        let of_medik8s = log.lines().into_iter().filter(|line| line.contains("medik8s") && !line.starts_with("GET"));
        let methods: Vec<String> = of_medik8s.filter_map(|line| Some(line.split_once(' ')?.0.to_owned())).collect();
        assert_eq!(methods, ["POST", "DELETE"]);
    }

    /// A node with attached volumes is not drained.
    #[tokio::test]
    async fn one_list_counts_the_volumes_of_all_nodes() {
        let attached = json!({"metadata": {"name": "v"}, "spec": {"nodeName": "n1"}, "status": {"attached": true}});
        let list = move || Reply::Json(200, json!({"metadata": {"resourceVersion": "1"}, "items": [attached]}));
        let nodes = [node_name("n1"), node_name("n2")];
        let count = DrainRequest::CountVolumes(BTreeSet::from(nodes.clone()));
        let Response::Drain(inputs, None) = response(Request::Drain(count), list).await else { panic!("no error") };
        let [n1, n2] = nodes;
        assert_eq!(inputs, [Input::Volumes(n1, Ok(1)), Input::Volumes(n2, Ok(0))]);
    }

    /// A request that may have arrived is neither done nor refused.
    #[tokio::test]
    async fn lost_response_leaves_the_outcome_open() {
        let assign = || Request::Assign(node_name("n1"), assignment());
        let drain = || {
            let drain = Box::new(mark("a").drain.unwrap());
            Request::Drain(DrainRequest::Mark(node_name("n1"), "uid-n1".to_owned(), drain, Duration::from_secs(60)))
        };
        let lost: [fn() -> Reply; 3] = [|| Reply::Silence, || Reply::Reset, || Reply::Text("<html>".to_owned())];
        for reply in lost {
            assert!(matches!(response(assign(), reply).await, Response::Changed(_)));
            let Response::Drain(inputs, Some(_)) = response(drain(), reply).await else { panic!("an error") };
            assert!(matches!(inputs[..], [Input::PerhapsMarked(..)]), "{inputs:?}");
        }
        // Another client changed the node, or nothing was changed.
        let changed: [fn() -> Reply; 3] = [
            || status(404, "NotFound", "not found", json!({"kind": "nodes", "name": "n1"})),
            || status(409, "Conflict", "the object has been modified", json!({})),
            || status(422, "Invalid", "the server rejected our request", json!({})),
        ];
        for reply in changed {
            assert!(matches!(response(assign(), reply).await, Response::Changed(_)));
            let Response::Drain(inputs, Some(_)) = response(drain(), reply).await else { panic!("an error") };
            assert!(matches!(inputs[..], [Input::Marked(_, Err(_))]), "{inputs:?}");
        }
        let refused = || status(403, "Forbidden", "User \"ci\" cannot patch resource \"nodes\"", json!({}));
        assert!(matches!(response(assign(), refused).await, Response::Refused(_, ClusterError::Forbidden { .. })));
        let Response::Drain(inputs, Some(_)) = response(drain(), refused).await else { panic!("an error") };
        assert!(matches!(inputs[..], [Input::Marked(_, Err(_))]), "{inputs:?}");
    }
}
