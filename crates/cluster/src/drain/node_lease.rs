//! Lease of a node by which the programs of Medik8s agree who maintains it (medik8s/common at 2dab4f0,
//! `pkg/lease/manager.go`). Node Health Check does not remediate a node whose Lease another program holds. So nodecfg holds
//! it while it drains a node: a kubelet that restarts for long must not get its machine fenced.
//!
//! A Lease is valid by the wall clocks of its holders, as there. Without Medik8s its namespace is missing, and without the
//! component `deploy/medik8s-lease` the right; then a node has no Lease.

use std::sync::atomic::Ordering;
use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::connection::error::ClusterError;
use crate::connection::operation::{Operation, Resource, Verb};
use crate::connection::transport::{Call, whole};
use crate::lock::{WireLease, WireLeaseSpec, micro_time};
use crate::reading::reader::found;
use crate::reading::wire::IgnoredContent;
use crate::writing::writer::{ClusterWriter, FIELD_MANAGER};
use nodecfg_contract::names::NodeName;

/// Namespace of the Leases, unless the programs of Medik8s run with another `LEASE_NAMESPACE`.
pub const NAMESPACE: &str = "medik8s-leases";
/// Identity of nodecfg as a holder. The marks of drains exclude one fleet from the nodes of another.
const HOLDER: &str = "nodecfg";
/// Attempts to take a Lease that another program writes at the same time.
const ATTEMPTS: u32 = 3;

/// Who holds the Lease of a node after a request for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeLease {
    /// nodecfg.
    Held,
    /// Another program, with this identity.
    HeldBy(String),
    /// No program: Medik8s is not installed, or the user may not write its Leases.
    Absent,
}

impl ClusterWriter {
    /// Takes the Lease of the node with this uid for a time, or extends it.
    ///
    /// # Errors
    /// `Conflict` when the Lease changes repeatedly; `LockLost`; every [`ClusterError`] of a request, except that a missing
    /// namespace or right is [`NodeLease::Absent`].
    pub async fn take_node_lease(
        &self,
        node: &NodeName,
        uid: &str,
        duration: Duration,
    ) -> Result<NodeLease, ClusterError> {
        // Asked once for all nodes of a run.
        if self.node_leases_absent.load(Ordering::Relaxed) {
            return Ok(NodeLease::Absent);
        }
        let mut attempt = 1;
        loop {
            match self.try_node_lease(node, uid, duration).await {
                Err(ClusterError::Forbidden { .. } | ClusterError::NamespaceMissing { .. }) => {
                    self.node_leases_absent.store(true, Ordering::Relaxed);
                    return Ok(NodeLease::Absent);
                }
                Err(ClusterError::Conflict { .. } | ClusterError::AlreadyExists { .. }) if attempt < ATTEMPTS => {
                    attempt += 1;
                }
                result => return result,
            }
        }
    }

    async fn try_node_lease(&self, node: &NodeName, uid: &str, duration: Duration) -> Result<NodeLease, ClusterError> {
        let now = nodecfg_clock::now();
        let before = self.node_lease(node).await?;
        if let Some(holder) = before.as_ref().and_then(|lease| holder_at(lease, now)).filter(|holder| *holder != HOLDER)
        {
            return Ok(NodeLease::HeldBy(holder.to_owned()));
        }
        let (method, verb) = match &before {
            Some(_) => (Method::PUT, Verb::Update),
            None => (Method::POST, Verb::Create),
        };
        let operation = operation(verb, node);
        let uri = format!("{}?fieldManager={FIELD_MANAGER}", operation.path());
        let body = lease((node, uid), before.as_ref(), duration, now).to_string();
        let call = Call::new(method, uri).content("application/json", body);
        self.call(&operation, &call, whole::<IgnoredContent>).await?;
        Ok(NodeLease::Held)
    }

    /// Deletes the Lease of a node if nodecfg holds it.
    ///
    /// # Errors
    /// `LockLost`; every [`ClusterError`] of a request, except for a missing Lease, namespace or right.
    pub async fn return_node_lease(&self, node: &NodeName) -> Result<(), ClusterError> {
        if self.node_leases_absent.load(Ordering::Relaxed) {
            return Ok(());
        }
        let returned = async {
            let held =
                self.node_lease(node).await?.filter(|lease| lease.spec.holder_identity.as_deref() == Some(HOLDER));
            let Some(lease) = held else { return Ok(()) };
            let operation = operation(Verb::Delete, node);
            let preconditions = json!({"resourceVersion": lease.metadata.resource_version});
            let body = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions});
            let call = Call::new(Method::DELETE, operation.path()).content("application/json", body.to_string());
            found(self.call(&operation, &call, whole::<IgnoredContent>).await).map(drop)
        };
        match returned.await {
            Err(ClusterError::Forbidden { .. } | ClusterError::NamespaceMissing { .. }) => Ok(()),
            result => result,
        }
    }

    async fn node_lease(&self, node: &NodeName) -> Result<Option<WireLease>, ClusterError> {
        let operation = operation(Verb::Get, node);
        let call = Call::new(Method::GET, operation.path());
        found(self.reader.transport.call(&operation, &call, whole).await)
    }
}

fn operation(verb: Verb, node: &NodeName) -> Operation {
    Operation::on(verb, Resource::Leases, Some(NAMESPACE), &format!("node-{node}"))
}

/// Holder of a valid Lease. One without a renewal time or duration, or with a renewal in the future, is not valid.
fn holder_at(lease: &WireLease, now: Timestamp) -> Option<&str> {
    let spec = &lease.spec;
    let renewed = spec.renew_time.filter(|renewed| *renewed <= now)?;
    let ends = renewed.checked_add(jiff::SignedDuration::from_secs(spec.lease_duration_seconds?)).ok()?;
    spec.holder_identity.as_deref().filter(|_| ends >= now)
}

/// The Lease to write over the present one.
fn lease((node, uid): (&NodeName, &str), before: Option<&WireLease>, duration: Duration, now: Timestamp) -> Value {
    let spec = before.map(|lease| &lease.spec);
    let is_own = |spec: &&WireLeaseSpec| spec.holder_identity.as_deref() == Some(HOLDER);
    let acquired = spec.filter(is_own).and_then(|spec| spec.acquire_time).unwrap_or(now);
    let transitions = match spec {
        None => 0,
        Some(spec) => spec.lease_transitions.unwrap_or_default() + i64::from(!is_own(&spec)),
    };
    json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": format!("node-{node}"),
            "namespace": NAMESPACE,
            "resourceVersion": before.and_then(|lease| lease.metadata.resource_version.as_deref()).unwrap_or_default(),
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}],
        },
        "spec": {
            "holderIdentity": HOLDER,
            "leaseDurationSeconds": duration.as_secs().clamp(1, i32::MAX.unsigned_abs().into()),
            "acquireTime": micro_time(acquired),
            "renewTime": micro_time(now),
            "leaseTransitions": transitions,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClusterReader;
    use crate::connection::fake::options;
    use crate::lock::{self, HeldLock, LockOptions};
    use nodecfg_contract::names::FleetName;
    use nodecfg_sandbox::api::{Api, ApiOptions, ServerProfile};

    const LIMIT: Duration = Duration::from_secs(600);

    async fn cluster(with_medik8s: bool) -> (Api, ClusterWriter, HeldLock) {
        let api = Api::new(ApiOptions { profile: ServerProfile::V1_36, ..ApiOptions::default() });
        if with_medik8s {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
            api.create("", "namespaces", "", namespace, "test").unwrap_or_else(|_| panic!("namespace"));
        }
        let reader = ClusterReader::new(api.client(), "https://sandbox", options());
        let lock = LockOptions::new("kube-system", FleetName::new("prod").expect("a name"), "me".to_owned());
        let held = lock::acquire(&reader, lock).await.expect("free");
        (api, ClusterWriter::new(reader, &held), held)
    }

    fn node() -> NodeName {
        NodeName::new("n1").expect("a name")
    }

    /// Creates the Node, without which the garbage collector deletes its Lease, and returns its uid.
    fn uid(api: &Api) -> String {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}});
        api.create("", "nodes", "", node, "test").unwrap_or_else(|_| panic!("a node"));
        api.get("", "nodes", "", "n1").expect("a node")["metadata"]["uid"].as_str().expect("a uid").to_owned()
    }

    fn shown(api: &Api) -> Option<Value> {
        api.get("coordination.k8s.io", "leases", NAMESPACE, "node-n1")
    }

    /// A Lease of this holder that was renewed so many seconds ago, for a minute.
    fn of_other(api: &Api, holder: &str, ago: i64) {
        let renewed = micro_time(nodecfg_clock::now() - jiff::SignedDuration::from_secs(ago));
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "node-n1", "namespace": NAMESPACE},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 60, "renewTime": renewed, "leaseTransitions": 4},
        });
        api.create("coordination.k8s.io", "leases", NAMESPACE, lease, "test").unwrap_or_else(|_| panic!("a lease"));
    }

    #[tokio::test]
    async fn node_without_medik8s_has_no_lease() {
        let (api, writer, _held) = cluster(false).await;
        assert_eq!(writer.take_node_lease(&node(), "uid", LIMIT).await, Ok(NodeLease::Absent));
        assert_eq!(writer.return_node_lease(&node()).await, Ok(()));
        assert_eq!(shown(&api), None);
    }

    #[tokio::test]
    async fn takes_extends_and_returns_the_lease() {
        let (api, writer, _held) = cluster(true).await;
        let uid = uid(&api);
        assert_eq!(writer.take_node_lease(&node(), &uid, LIMIT).await, Ok(NodeLease::Held));
        let first = shown(&api).expect("a lease");
        let owner = &first["metadata"]["ownerReferences"][0];
        assert_eq!([&owner["kind"], &owner["name"], &owner["uid"]], ["Node", "n1", &uid]);
        let spec = &first["spec"];
        assert_eq!((&spec["holderIdentity"], &spec["leaseDurationSeconds"]), (&json!("nodecfg"), &json!(600)));
        assert_eq!(spec["acquireTime"], spec["renewTime"]);
        assert_eq!(writer.take_node_lease(&node(), &uid, LIMIT * 2).await, Ok(NodeLease::Held));
        let second = shown(&api).expect("a lease");
        assert_eq!(second["spec"]["acquireTime"], spec["acquireTime"]);
        assert_eq!(second["spec"]["leaseDurationSeconds"], 1200);
        assert_eq!(second["spec"]["leaseTransitions"], 0);
        writer.return_node_lease(&node()).await.expect("returned");
        assert_eq!(shown(&api), None);
    }

    #[tokio::test]
    async fn valid_lease_of_another_program_stays() {
        let (api, writer, _held) = cluster(true).await;
        let uid = uid(&api);
        of_other(&api, "node-healthcheck", 50);
        let before = shown(&api);
        let held = NodeLease::HeldBy("node-healthcheck".to_owned());
        assert_eq!(writer.take_node_lease(&node(), &uid, LIMIT).await, Ok(held));
        writer.return_node_lease(&node()).await.expect("no error");
        assert_eq!(shown(&api), before);
    }

    /// One from the future is not valid for the programs of Medik8s either.
    #[tokio::test]
    async fn expired_lease_is_taken_over() {
        for ago in [70, -3600] {
            let (api, writer, _held) = cluster(true).await;
            let uid = uid(&api);
            of_other(&api, "node-healthcheck", ago);
            assert_eq!(writer.take_node_lease(&node(), &uid, LIMIT).await, Ok(NodeLease::Held), "{ago}");
            let spec = shown(&api).expect("a lease")["spec"].clone();
            assert_eq!((&spec["holderIdentity"], &spec["leaseTransitions"]), (&json!("nodecfg"), &json!(5)));
        }
    }
}
