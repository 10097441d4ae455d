//! The lock against a server that keeps one Lease.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::*;
use crate::fake::{Log, Reply, options, serving, status};
use nodecfg_contract::names::PoolName;
use nodecfg_contract::observed::orders::{ABORT_ANNOTATION, PAUSES_ANNOTATION};
use nodecfg_contract::observed::{Abort, Orders, Pause};

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
    let (reader, store, _) = lease_server(Some(theirs(nodecfg_clock::now())));
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
    *store.lock().expect("not poisoned") = Some(theirs(nodecfg_clock::now()));
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

fn order_of(reader: &ClusterReader, by: &str) -> impl Future<Output = Result<LeaseSnapshot, OrderError>> {
    let (reader, by) = (reader.clone(), by.to_owned());
    async move {
        let fleet = FleetName::new("prod").expect("a name");
        order(&reader, "kube-system", &fleet, |desk| {
            let mut orders = desk.orders.clone();
            let pause = Pause { by: by.clone(), at: Timestamp::UNIX_EPOCH, reason: "disks".to_owned() };
            orders.pause(&PoolName::new(&by).expect("a name"), &pause);
            Some(orders)
        })
        .await
    }
}

fn annotation(store: &Mutex<Option<Value>>, name: &str) -> Value {
    store.lock().expect("not poisoned").as_ref().expect("a Lease")["metadata"]["annotations"][name].clone()
}

fn paused(orders: &Orders) -> Vec<&str> {
    orders.pauses.keys().map(PoolName::as_str).collect()
}

async fn heard(orders: &mut tokio::sync::watch::Receiver<Orders>, what: impl FnMut(&Orders) -> bool) {
    tokio::time::timeout(Duration::from_secs(3), orders.wait_for(what)).await.expect("heard").expect("held");
}

#[tokio::test]
async fn an_order_before_any_lock_makes_a_lease_that_nobody_holds() {
    let (reader, store, _) = lease_server(None);
    let desk = order_of(&reader, "gpu").await.expect("ordered");
    assert_eq!((paused(&desk.orders), holder(&store)), (vec!["gpu"], Value::Null));
    let held = acquire(&reader, lock("me")).await.expect("free");
    assert_eq!(paused(&held.look().await.expect("read")), ["gpu"]);
    held.release().await;
    assert!(annotation(&store, PAUSES_ANNOTATION).as_str().is_some_and(|text| text.contains("disks")), "it stays");
}

#[tokio::test]
async fn two_orders_that_race_are_both_kept_and_the_holder_holds_on() {
    let (reader, store, _) = lease_server(None);
    let held = acquire(&reader, lock("me")).await.expect("free");
    let mut orders = held.orders();
    let (a, b) = tokio::join!(order_of(&reader, "a"), order_of(&reader, "b"));
    assert!(a.is_ok() && b.is_ok(), "{a:?} {b:?}");
    heard(&mut orders, |orders| paused(orders) == ["a", "b"]).await;
    tokio::time::sleep(Duration::from_millis(1200)).await;
    assert_eq!(held.view().check(&write_operation()), Ok(()), "renewed over what others have written");
    assert_eq!(holder(&store), json!("me"));
    held.release().await;
    assert!(annotation(&store, PAUSES_ANNOTATION).as_str().is_some_and(|text| text.contains("\"b\"")));
}

#[tokio::test]
async fn an_abort_is_heard_by_whom_it_is_for_and_goes_with_the_lock() {
    let abort = |holder: &str| Abort {
        holder: holder.to_owned(),
        by: "ada".to_owned(),
        at: Timestamp::UNIX_EPOCH,
        reason: None,
        back: false,
    };
    let (reader, store, _) = lease_server(None);
    let fleet = FleetName::new("prod").expect("a name");
    let give = |holder: &'static str| {
        order(&reader, "kube-system", &fleet, move |_| Some(Orders { abort: Some(abort(holder)), ..Orders::default() }))
    };
    give("an-earlier-one").await.expect("ordered");
    let held = acquire(&reader, lock("me")).await.expect("free");
    assert_eq!(annotation(&store, ABORT_ANNOTATION), Value::Null, "that one has ended");
    assert_eq!(held.look().await.expect("read"), Orders::default());
    give("another").await.expect("ordered");
    assert_eq!(held.look().await.expect("read").abort, None);
    give("me").await.expect("ordered");
    heard(&mut held.orders(), |orders| orders.abort == Some(abort("me"))).await;
    held.release().await;
    assert_eq!(annotation(&store, ABORT_ANNOTATION), Value::Null, "it is carried out");
}

#[tokio::test]
async fn garbled_orders_are_an_error_for_those_who_plan_and_the_holder_holds_on() {
    let (reader, store, _) = lease_server(None);
    order_of(&reader, "gpu").await.expect("ordered");
    let held = acquire(&reader, lock("me")).await.expect("free");
    {
        let mut lease = store.lock().expect("not poisoned");
        let lease = lease.as_mut().expect("a Lease");
        lease["metadata"]["annotations"] = json!({PAUSES_ANNOTATION: "{", "other": "x"});
        lease["metadata"]["resourceVersion"] = "1000".into();
    }
    let error = held.look().await.expect_err("garbled");
    assert!(error.to_string().contains("the annotation nodecfg.dev/pauses cannot be read"), "{error}");
    assert!(error.help().contains("kubectl get lease -n kube-system nodecfg-prod"), "{}", error.help());
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(paused(&held.orders().borrow()), ["gpu"], "what was ordered before counts");
    assert_eq!((held.view().check(&write_operation()), holder(&store)), (Ok(()), json!("me")));
    assert_eq!(annotation(&store, "other"), json!("x"));
    assert!(matches!(order_of(&reader, "b").await, Err(OrderError::Garbled { .. })), "nor overwritten");
    held.release().await;
}

#[tokio::test]
async fn nobody_is_told_orders_under_a_lock_that_is_lost() {
    let (reader, store, _) = lease_server(None);
    let held = acquire(&reader, lock("me")).await.expect("free");
    *store.lock().expect("not poisoned") = Some(theirs(nodecfg_clock::now()));
    let error = held.look().await.expect_err("lost");
    assert!(matches!(error, OrderError::Cluster(ClusterError::LockLost { .. })), "{error}");
    held.lost().await;
    let error = held.look().await.expect_err("lost");
    assert!(error.to_string().ends_with("was lost: other has it now"), "{error}");
}

#[tokio::test]
async fn an_order_that_always_comes_second_ends() {
    let (client, log) = serving(|asked| match asked.method.as_str() {
        "GET" => Reply::Json(200, json!({"metadata": {"resourceVersion": "1"}})),
        _ => status(409, "Conflict", "the object has been modified", json!({})),
    });
    let reader = ClusterReader::new(client, "https://fake", options());
    let error = order_of(&reader, "gpu").await.expect_err("never first");
    assert!(matches!(error, OrderError::Cluster(ClusterError::Conflict { .. })), "{error}");
    assert_eq!(log.all().len(), 22);
}
