//! The lock against a server that keeps one Lease.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::*;
use crate::clock;
use crate::cluster::fake::{Log, Reply, options, serving, status};

/// A server that keeps one Lease, with versions as the API server has them.
fn lease_server(initial: Option<Value>) -> (ClusterReader, Arc<Mutex<Option<Value>>>, Log) {
    let store = Arc::new(Mutex::new(initial));
    let kept = Arc::clone(&store);
    let mut version = 100;
    let (client, log) = serving(move |asked| {
        let mut lease = kept.lock().expect("not poisoned");
        let mut stored = |lease: &mut Option<Value>, code| {
            let mut new = asked.body.clone();
            version += 1;
            new["metadata"]["resourceVersion"] = version.to_string().into();
            *lease = Some(new.clone());
            Reply::Json(code, new)
        };
        match (asked.method.as_str(), lease.clone()) {
            ("GET", Some(lease)) => Reply::Json(200, lease),
            ("POST", None) => stored(&mut lease, 201),
            ("POST", Some(_)) => status(409, "AlreadyExists", "already exists", json!({})),
            ("PUT", Some(old)) if old["metadata"]["resourceVersion"] == asked.body["metadata"]["resourceVersion"] => {
                stored(&mut lease, 200)
            }
            ("PUT", Some(_)) => status(409, "Conflict", "the object has been modified", json!({})),
            _ => status(404, "NotFound", "not found", json!({"kind": "leases", "name": "nodecfg-prod"})),
        }
    });
    (ClusterReader::new(client, "https://fake", options()), store, log)
}

fn lock(me: &str) -> LockOptions {
    let fleet = FleetName::new("prod").expect("a name");
    LockOptions { duration: Duration::from_secs(1), ..LockOptions::new("kube-system", fleet, me.to_owned()) }
}

fn theirs(renewed: Timestamp) -> Value {
    json!({"metadata": {"name": "nodecfg-prod", "resourceVersion": "7"}, "spec": {"holderIdentity": "other",
        "leaseDurationSeconds": 1, "renewTime": micro_time(renewed), "acquireTime": micro_time(renewed), "leaseTransitions": 4}})
}

fn holder(store: &Mutex<Option<Value>>) -> Value {
    store.lock().expect("not poisoned").as_ref().expect("a Lease")["spec"]["holderIdentity"].clone()
}

fn write_operation() -> Operation {
    Operation::on(Verb::Patch, Resource::Nodes, None, "n1")
}

#[tokio::test]
async fn a_free_lock_is_taken_renewed_and_given_up() {
    let (reader, store, log) = lease_server(None);
    let held = acquire(&reader, lock("me")).await.expect("free");
    assert_eq!((held.lease(), holder(&store)), ("kube-system/nodecfg-prod", json!("me")));
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(held.view().check(&write_operation()), Ok(()), "renewed past its first expiry");
    assert!(log.lines().iter().filter(|line| line.starts_with("PUT")).count() >= 3);
    held.release().await;
    assert_eq!(holder(&store), json!(""));
    // And the next one gets it without waiting.
    let next = acquire(&reader, lock("next")).await.expect("given up");
    assert_eq!(holder(&store), json!("next"));
    drop(next);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(holder(&store), json!(""), "dropping gives it up too");
}

#[tokio::test]
async fn a_held_lock_is_refused_or_waited_for() {
    let (reader, store, _) = lease_server(Some(theirs(clock::now())));
    let error = acquire(&reader, lock("me")).await.expect_err("held");
    assert!(matches!(&error, LockError::Held { holder, .. } if holder == "other"), "{error}");
    assert!(error.to_string().contains("other holds the lock kube-system/nodecfg-prod"), "{error}");
    // Nobody renews it, so it expires while this one waits.
    let options = LockOptions { timeout: Duration::from_secs(10), ..lock("me") };
    let held = acquire(&reader, options).await.expect("expired");
    assert_eq!(holder(&store), json!("me"));
    let transitions =
        store.lock().expect("not poisoned").as_ref().expect("a Lease")["spec"]["leaseTransitions"].clone();
    assert_eq!(transitions, json!(5));
    held.release().await;
}

#[tokio::test]
async fn a_lock_that_somebody_takes_is_lost_and_stops_writes() {
    let (reader, store, _) = lease_server(None);
    let held = acquire(&reader, lock("me")).await.expect("free");
    *store.lock().expect("not poisoned") = Some(theirs(clock::now()));
    let reason = tokio::time::timeout(Duration::from_secs(3), held.lost()).await.expect("noticed");
    assert_eq!(reason, "other has it now");
    let error = held.view().check(&write_operation()).expect_err("lost");
    assert_eq!(error.to_string(), "cannot patch node n1: the lock kube-system/nodecfg-prod was lost: other has it now");
    held.release().await;
    assert_eq!(holder(&store), json!("other"), "what is another's is left alone");
}

#[tokio::test]
async fn a_lock_that_cannot_be_renewed_is_lost_when_it_expires() {
    let mut asked = 0;
    let (client, _) = serving(move |request| {
        asked += 1;
        match asked {
            1 => status(404, "NotFound", "not found", json!({"kind": "leases"})),
            2 => Reply::Json(201, request.body.clone()),
            _ => Reply::Reset,
        }
    });
    let reader = ClusterReader::new(client, "https://fake", options());
    let held = acquire(&reader, lock("me")).await.expect("free");
    let began = std::time::Instant::now();
    let reason = tokio::time::timeout(Duration::from_secs(4), held.lost()).await.expect("noticed");
    assert!(reason.starts_with("it could not be renewed in time: "), "{reason}");
    assert!(began.elapsed() >= Duration::from_millis(900), "not before it expires");
}

#[tokio::test]
async fn of_two_that_come_together_one_gets_it() {
    let (reader, store, _) = lease_server(None);
    let (a, b) = tokio::join!(acquire(&reader, lock("a")), acquire(&reader, lock("b")));
    assert!(a.is_ok() != b.is_ok(), "{a:?} {b:?}");
    assert_eq!(holder(&store), json!(if a.is_ok() { "a" } else { "b" }));
}

#[tokio::test]
async fn a_race_that_is_always_lost_ends() {
    let (client, log) = serving(|asked| match asked.method.as_str() {
        "GET" => status(404, "NotFound", "not found", json!({"kind": "leases"})),
        _ => status(409, "AlreadyExists", "already exists", json!({})),
    });
    let reader = ClusterReader::new(client, "https://fake", options());
    let error = acquire(&reader, lock("me")).await.expect_err("never free");
    assert!(matches!(error, LockError::Cluster(ClusterError::AlreadyExists { .. })), "{error}");
    assert_eq!(log.all().len(), 22);
}
