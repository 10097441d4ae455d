//! Tests of the lock and its orders against a fake server that stores one Lease.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::*;
use crate::connection::fake::{Log, RecordedRequest, Reply, options, serving, status};
use crate::reading::reader::ReaderOptions;
use nodecfg_contract::names::PoolName;
use nodecfg_observed::orders::{ABORT_ANNOTATION, PAUSES_ANNOTATION};
use nodecfg_observed::{Abort, Orders, Pause};

/// The Lease of a server; `None` when it is missing.
type Store = Arc<Mutex<Option<Value>>>;

/// A server that stores one Lease and checks versions as the API server does.
fn lease_server(initial: Option<Value>) -> (ClusterReader, Store, Log) {
    let store = Arc::new(Mutex::new(initial));
    let kept = Arc::clone(&store);
    let (client, log) = serving(move |request| answer(request, &kept));
    (ClusterReader::new(client, "https://fake", options()), store, log)
}

/// Answer of an API server that stores the Lease there.
fn answer(request: &RecordedRequest, store: &Store) -> Reply {
    let mut lease = store.lock().expect("not poisoned");
    let stored = |lease: &mut Option<Value>, code| {
        let mut new = request.body.clone();
        let old = lease.as_ref().and_then(|lease| lease["metadata"]["resourceVersion"].as_str()?.parse::<u64>().ok());
        new["metadata"]["resourceVersion"] = (old.unwrap_or(100) + 1).to_string().into();
        *lease = Some(new.clone());
        Reply::Json(code, new)
    };
    match (request.method.as_str(), lease.clone()) {
        ("GET", Some(lease)) => Reply::Json(200, lease),
        ("POST", None) => stored(&mut lease, 201),
        ("POST", Some(_)) => status(409, "AlreadyExists", "already exists", json!({})),
        ("PUT", Some(old)) if old["metadata"]["resourceVersion"] == request.body["metadata"]["resourceVersion"] => {
            stored(&mut lease, 200)
        }
        ("PUT", Some(_)) => status(409, "Conflict", "the object has been modified", json!({})),
        _ => status(404, "NotFound", "not found", json!({"kind": "leases", "name": "nodecfg-prod"})),
    }
}

/// A reader of the Lease by an API server whose clock differs by `skew`, until `alive` is false.
fn reader_with_skew(store: &Store, skew: SignedDuration, alive: &Arc<AtomicBool>) -> ClusterReader {
    let (store, alive) = (Arc::clone(store), Arc::clone(alive));
    let (client, _) = serving(move |request| {
        if !alive.load(Ordering::Relaxed) {
            return Reply::Reset;
        }
        let Reply::Json(code, body) = answer(request, &store) else { return Reply::Reset };
        let date = nodecfg_clock::now().checked_add(skew).expect("in range");
        let date = date.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        Reply::Header(code, ("date", Box::leak(date.into_boxed_str())), body)
    });
    ClusterReader::new(client, "https://fake", options())
}

fn lock(me: &str) -> LockOptions {
    let fleet = FleetName::new("prod").expect("a name");
    LockOptions { duration: Duration::from_secs(1), ..LockOptions::new("kube-system", fleet, me.to_owned()) }
}

fn foreign_lease(renewed: Timestamp) -> Value {
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
async fn takes_renews_and_releases_a_free_lock() {
    let (reader, store, log) = lease_server(None);
    let held = acquire(&reader, lock("me")).await.expect("free");
    assert_eq!((held.lease(), holder(&store)), ("kube-system/nodecfg-prod", json!("me")));
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(held.view().check(&write_operation()), Ok(()), "renewed past its first expiry");
    let renewals: Vec<Value> =
        log.all().into_iter().filter(|request| request.method == "PUT").map(|put| put.body).collect();
    assert!(renewals.len() >= 3);
    let (since, now) =
        (|put: &Value| put["spec"]["acquireTime"].clone(), |put: &Value| put["spec"]["renewTime"].clone());
    assert!(since(&renewals[0]) == since(&renewals[2]) && now(&renewals[0]) != now(&renewals[2]), "{renewals:?}");
    held.release().await;
    assert_eq!(holder(&store), json!(""));
    // The next client gets the lock without waiting.
    let next = acquire(&reader, lock("next")).await.expect("released");
    assert_eq!(holder(&store), json!("next"));
    drop(next);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(holder(&store), json!(""), "dropping releases the lock too");
}

#[tokio::test]
async fn refuses_or_waits_for_a_held_lock() {
    let (reader, store, _) = lease_server(Some(foreign_lease(nodecfg_clock::now())));
    let error = acquire(&reader, lock("me")).await.expect_err("held");
    assert!(matches!(&error, LockError::Held { holder, .. } if holder == "other"), "{error}");
    assert!(error.to_string().contains("other holds the lock kube-system/nodecfg-prod"), "{error}");
    // The foreign lock is not renewed, so it expires during the wait.
    let options = LockOptions { timeout: Duration::from_secs(10), ..lock("me") };
    let held = acquire(&reader, options).await.expect("expired");
    assert_eq!(holder(&store), json!("me"));
    let transitions =
        store.lock().expect("not poisoned").as_ref().expect("a Lease")["spec"]["leaseTransitions"].clone();
    assert_eq!(transitions, json!(5));
    held.release().await;
}

/// The API server stores times that nodecfg cannot represent, any holder and a full counter.
#[tokio::test]
async fn any_lease_that_the_api_server_accepts_is_readable() {
    let (far, hostile) = ("9999-12-31T23:59:59.999999Z", "ci\u{9b}2J\n::error::x\u{202e}");
    let lease = json!({"metadata": {"name": "nodecfg-prod", "resourceVersion": "7"}, "spec": {"holderIdentity": hostile,
        "leaseDurationSeconds": 1, "renewTime": far, "acquireTime": far, "leaseTransitions": i32::MAX}});
    let (reader, store, _) = lease_server(Some(lease));
    let fleet = FleetName::new("prod").expect("a name");
    let view = read(&reader, "kube-system", &fleet).await.expect("readable").expect("exists");
    assert_eq!((view.holder(), view.acquired, view.renewed), (Some(hostile), None, None));
    let held = LockError::Held {
        lease: "a/b".to_owned(),
        holder: hostile.to_owned(),
        since: view.acquired,
        expires: view.expires(),
    };
    assert_eq!(held.to_string(), "another sync of this fleet runs: ci 2J ::error::x holds the lock a/b");
    let held = acquire(&reader, lock("me")).await.expect("expired");
    assert_eq!(holder(&store), json!("me"));
    let transitions =
        store.lock().expect("not poisoned").as_ref().expect("a Lease")["spec"]["leaseTransitions"].clone();
    assert_eq!(transitions, json!(i32::MAX), "the API server refuses larger ones");
    held.release().await;
}

/// One reconciler renews its lock by an API server with the right time. The API servers of the others have other times.
#[tokio::test]
async fn clocks_that_differ_never_make_two_holders() {
    let mut random = fastrand::Rng::with_seed(4711);
    let mut skews = vec![0, 3600, -3600];
    skews.extend(std::iter::repeat_with(|| random.i64(-90_000..90_000)).take(5));
    futures::future::join_all(skews.into_iter().map(|seconds| async move {
        let skew = SignedDuration::from_secs(seconds);
        let (store, alive) = (Store::default(), Arc::new(AtomicBool::new(true)));
        let first = reader_with_skew(&store, SignedDuration::ZERO, &alive);
        let second = reader_with_skew(&store, skew, &Arc::new(AtomicBool::new(true)));
        let lock = |me: &str| LockOptions { duration: Duration::from_secs(2), ..lock(me) };
        let held = acquire(&first, lock("first")).await.expect("free");
        for timeout in [Duration::ZERO, Duration::from_secs(3)] {
            let attempt = acquire(&second, LockOptions { timeout, ..lock("second") });
            let end = tokio::time::timeout(Duration::from_secs(20), attempt).await.expect("ends at its timeout");
            let error = end.expect_err("held");
            assert!(matches!(&error, LockError::Held { holder, .. } if holder == "first"), "{skew}: {error}");
            assert_eq!((held.view().check(&write_operation()), holder(&store)), (Ok(()), json!("first")), "{skew}");
        }
        alive.store(false, Ordering::Relaxed);
        let options = LockOptions { timeout: Duration::from_secs(10), ..lock("second") };
        let next = acquire(&second, options).await.expect("the first one died");
        assert!(held.view().check(&write_operation()).is_err(), "{skew}: the first one does not write any more");
        assert_eq!(next.view().check(&write_operation()), Ok(()), "{skew}");
    }))
    .await;
}

#[tokio::test]
async fn lease_of_a_dead_holder_is_observed_for_its_duration() {
    let long_ago = nodecfg_clock::now().checked_sub(SignedDuration::from_hours(1)).expect("in range");
    let (reader, store, _) = lease_server(Some(foreign_lease(long_ago)));
    let began = std::time::Instant::now();
    let held = acquire(&reader, lock("me")).await.expect("not renewed");
    assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
    held.release().await;
    // A Lease that claims a longer duration than this process uses needs --lock-timeout.
    let mut longer = foreign_lease(long_ago);
    longer["spec"]["leaseDurationSeconds"] = 2.into();
    *store.lock().expect("not poisoned") = Some(longer);
    let error = acquire(&reader, lock("me")).await.expect_err("not proven");
    assert!(matches!(error, LockError::Held { .. }), "{error}");
}

#[tokio::test]
async fn process_that_slept_past_the_expiry_refuses_writes() {
    let (reader, _, _) = lease_server(None);
    let held = acquire(&reader, lock("me")).await.expect("free");
    // Stops the only thread of this runtime, and so the renewals.
    std::thread::sleep(Duration::from_millis(1100));
    let error = held.view().check(&write_operation()).expect_err("expired");
    assert!(error.to_string().contains("nothing more was written: it expired at 20"), "{error}");
}

/// Answers the request with this number late. Breaks later requests.
fn slow_server(late: usize, delay: Duration) -> (ClusterReader, Log) {
    let store = Store::default();
    let mut writes = 0;
    let (client, log) = serving(move |request| {
        writes += usize::from(request.method != "GET");
        if writes > late {
            return Reply::Reset;
        }
        let reply = answer(request, &store);
        if writes == late {
            std::thread::sleep(delay);
        }
        reply
    });
    let patient = ReaderOptions { request_timeout: Duration::from_secs(5), ..options() };
    (ClusterReader::new(client, "https://fake", patient), log)
}

#[tokio::test]
async fn lock_lasts_from_before_its_first_write() {
    let (reader, _) = slow_server(1, Duration::from_millis(700));
    let began = std::time::Instant::now();
    let held = acquire(&reader, lock("me")).await.expect("free");
    tokio::time::sleep(Duration::from_millis(1100).saturating_sub(began.elapsed())).await;
    held.view().check(&write_operation()).expect_err("expired a second after the request was sent");
}

#[tokio::test]
async fn lock_lasts_from_before_its_renewal() {
    let (reader, log) = slow_server(2, Duration::from_millis(600));
    let began = std::time::Instant::now();
    let held = acquire(&reader, lock("me")).await.expect("free");
    // The renewal is sent after a third of a second, and answered late.
    tokio::time::sleep(Duration::from_millis(1600).saturating_sub(began.elapsed())).await;
    held.view().check(&write_operation()).expect_err("expired a second after the renewal was sent");
    assert!(log.lines().iter().any(|line| line.starts_with("PUT")), "{:?}", log.lines());
}

#[tokio::test]
async fn lock_taken_by_another_client_stops_writes() {
    let (reader, store, _) = lease_server(None);
    let held = acquire(&reader, lock("me")).await.expect("free");
    *store.lock().expect("not poisoned") = Some(foreign_lease(nodecfg_clock::now()));
    let reason = tokio::time::timeout(Duration::from_secs(3), held.lost()).await.expect("noticed");
    assert_eq!(reason, "other holds it now");
    let error = held.view().check(&write_operation()).expect_err("lost");
    assert_eq!(
        error.to_string(),
        "cannot patch node n1: the lock kube-system/nodecfg-prod was lost, so nothing more was written: \
         other holds it now"
    );
    held.release().await;
    assert_eq!(holder(&store), json!("other"), "a foreign lock is kept");
}

/// Another run may take the lock before the response arrives.
#[tokio::test]
async fn no_write_passes_while_the_release_is_unanswered() {
    let (store, view) = (Store::default(), Arc::<Mutex<Option<LockView>>>::default());
    let (kept, seen) = (Arc::clone(&store), Arc::clone(&view));
    let (client, _) = serving(move |request| {
        if request.body["spec"]["holderIdentity"] == json!("") {
            let view = seen.lock().expect("not poisoned").take().expect("released once");
            view.check(&write_operation()).expect_err("released");
        }
        answer(request, &kept)
    });
    let reader = ClusterReader::new(client, "https://fake", options());
    let held = acquire(&reader, lock("me")).await.expect("free");
    *view.lock().expect("not poisoned") = Some(held.view());
    assert_eq!(held.view().check(&write_operation()), Ok(()));
    held.release().await;
    assert_eq!((holder(&store), view.lock().expect("not poisoned").is_none()), (json!(""), true));
}

/// A server on which another client writes the Lease right before the release. Returns the Lease after the release.
async fn released_after(change: impl Fn(&mut Value) + Send + 'static) -> Value {
    let store = Store::default();
    let kept = Arc::clone(&store);
    let mut changed = false;
    let (client, _) = serving(move |request| {
        if request.body["spec"]["holderIdentity"] == json!("") && !std::mem::replace(&mut changed, true) {
            let mut lease = kept.lock().expect("not poisoned");
            let lease = lease.as_mut().expect("a Lease");
            lease["metadata"]["resourceVersion"] = "1000".into();
            change(lease);
        }
        answer(request, &kept)
    });
    let reader = ClusterReader::new(client, "https://fake", options());
    acquire(&reader, lock("me")).await.expect("free").release().await;
    store.lock().expect("not poisoned").clone().expect("a Lease")
}

#[tokio::test]
async fn release_keeps_what_another_client_wrote_before() {
    let taken = released_after(|lease| lease["spec"]["holderIdentity"] = "other".into()).await;
    assert_eq!(taken["spec"]["holderIdentity"], "other");
    let ordered = released_after(|lease| lease["metadata"]["annotations"] = json!({PAUSES_ANNOTATION: "{}"})).await;
    assert_eq!(ordered["spec"]["holderIdentity"], "");
    assert_eq!(ordered["metadata"]["annotations"], json!({PAUSES_ANNOTATION: "{}"}));
}

/// The next client may create the Lease at once.
#[tokio::test]
async fn deleted_lease_is_lost_at_the_next_renewal() {
    let (reader, store, _) = lease_server(None);
    let held = acquire(&reader, lock("me")).await.expect("free");
    *store.lock().expect("not poisoned") = None;
    assert_eq!(held.lost().await, "the Lease was deleted");
    held.view().check(&write_operation()).expect_err("lost");
}

#[tokio::test]
async fn lock_is_lost_at_its_expiry_when_renewals_fail() {
    let mut requests = 0;
    let (client, _) = serving(move |request| {
        requests += 1;
        match requests {
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
async fn one_of_two_concurrent_clients_gets_the_lock() {
    let (reader, store, _) = lease_server(None);
    let (a, b) = tokio::join!(acquire(&reader, lock("a")), acquire(&reader, lock("b")));
    assert!(a.is_ok() != b.is_ok(), "{a:?} {b:?}");
    assert_eq!(holder(&store), json!(if a.is_ok() { "a" } else { "b" }));
}

#[tokio::test]
async fn gives_up_after_repeated_conflicts() {
    let (client, log) = serving(|request| match request.method.as_str() {
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
        update_orders(&reader, "kube-system", &fleet, |snapshot| {
            let mut orders = snapshot.orders.clone();
            let pause = Pause {
                by: by.clone(),
                at: Timestamp::UNIX_EPOCH,
                reason: "disks".to_owned(),
                whole_fleet: false,
                allowed: None,
            };
            orders.pause(Some(&PoolName::new(&by).expect("a name")), &pause);
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

async fn wait_for(orders: &mut tokio::sync::watch::Receiver<Orders>, wanted: impl FnMut(&Orders) -> bool) {
    tokio::time::timeout(Duration::from_secs(3), orders.wait_for(wanted)).await.expect("in time").expect("held");
}

#[tokio::test]
async fn order_without_a_lock_creates_a_lease_without_holder() {
    let (reader, store, _) = lease_server(None);
    let snapshot = order_of(&reader, "gpu").await.expect("ordered");
    assert_eq!((paused(&snapshot.orders), holder(&store)), (vec!["gpu"], Value::Null));
    let held = acquire(&reader, lock("me")).await.expect("free");
    assert_eq!(paused(&held.read_orders().await.expect("read")), ["gpu"]);
    held.release().await;
    assert!(annotation(&store, PAUSES_ANNOTATION).as_str().is_some_and(|text| text.contains("disks")), "kept");
}

#[tokio::test]
async fn keeps_concurrent_orders_and_the_lock() {
    let (reader, store, _) = lease_server(None);
    let held = acquire(&reader, lock("me")).await.expect("free");
    let mut orders = held.orders();
    let (a, b) = tokio::join!(order_of(&reader, "a"), order_of(&reader, "b"));
    assert!(a.is_ok() && b.is_ok(), "{a:?} {b:?}");
    wait_for(&mut orders, |orders| paused(orders) == ["a", "b"]).await;
    tokio::time::sleep(Duration::from_millis(1200)).await;
    assert_eq!(held.view().check(&write_operation()), Ok(()), "renewed over the changes of other clients");
    assert_eq!(holder(&store), json!("me"));
    held.release().await;
    assert!(annotation(&store, PAUSES_ANNOTATION).as_str().is_some_and(|text| text.contains("\"b\"")));
}

#[tokio::test]
async fn only_the_named_holder_gets_an_abort_and_release_removes_it() {
    let abort = |holder: &str| Abort {
        holder: holder.to_owned(),
        by: "ada".to_owned(),
        at: Timestamp::UNIX_EPOCH,
        reason: None,
        back: false,
        fleet_paused: false,
    };
    let (reader, store, _) = lease_server(None);
    let fleet = FleetName::new("prod").expect("a name");
    let give = |holder: &'static str| {
        update_orders(&reader, "kube-system", &fleet, move |_| {
            Some(Orders { abort: Some(abort(holder)), ..Orders::default() })
        })
    };
    give("an-earlier-one").await.expect("ordered");
    let held = acquire(&reader, lock("me")).await.expect("free");
    assert_eq!(annotation(&store, ABORT_ANNOTATION), Value::Null, "the earlier holder has ended");
    assert_eq!(held.read_orders().await.expect("read"), Orders::default());
    give("another").await.expect("ordered");
    assert_eq!(held.read_orders().await.expect("read").abort, None);
    give("me").await.expect("ordered");
    wait_for(&mut held.orders(), |orders| orders.abort == Some(abort("me"))).await;
    held.release().await;
    assert_eq!(annotation(&store, ABORT_ANNOTATION), Value::Null, "carried out");
}

#[tokio::test]
async fn unreadable_orders_are_an_error_and_keep_the_lock() {
    let (reader, store, _) = lease_server(None);
    order_of(&reader, "gpu").await.expect("ordered");
    let held = acquire(&reader, lock("me")).await.expect("free");
    {
        let mut lease = store.lock().expect("not poisoned");
        let lease = lease.as_mut().expect("a Lease");
        lease["metadata"]["annotations"] = json!({PAUSES_ANNOTATION: "{", "other": "x"});
        lease["metadata"]["resourceVersion"] = "1000".into();
    }
    let error = held.read_orders().await.expect_err("unreadable");
    assert!(error.to_string().contains("the annotation nodecfg.dev/pauses cannot be read"), "{error}");
    assert!(error.help().contains("kubectl edit lease -n kube-system nodecfg-prod"), "{}", error.help());
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(paused(&held.orders().borrow()), ["gpu"], "the previous orders stay in force");
    assert_eq!((held.view().check(&write_operation()), holder(&store)), (Ok(()), json!("me")));
    assert_eq!(annotation(&store, "other"), json!("x"));
    assert!(matches!(order_of(&reader, "b").await, Err(OrderError::Unreadable { .. })), "not overwritten");
    held.release().await;
}

#[tokio::test]
async fn reads_no_orders_under_a_lost_lock() {
    let (reader, store, _) = lease_server(None);
    let held = acquire(&reader, lock("me")).await.expect("free");
    *store.lock().expect("not poisoned") = Some(foreign_lease(nodecfg_clock::now()));
    let error = held.read_orders().await.expect_err("lost");
    assert!(matches!(error, OrderError::Cluster(ClusterError::LockLost { .. })), "{error}");
    held.lost().await;
    let error = held.read_orders().await.expect_err("lost");
    assert!(error.to_string().ends_with("nothing more was written: other holds it now"), "{error}");
}

#[tokio::test]
async fn order_gives_up_after_repeated_conflicts() {
    let (client, log) = serving(|request| match request.method.as_str() {
        "GET" => Reply::Json(200, json!({"metadata": {"resourceVersion": "1"}})),
        _ => status(409, "Conflict", "the object has been modified", json!({})),
    });
    let reader = ClusterReader::new(client, "https://fake", options());
    let error = order_of(&reader, "gpu").await.expect_err("never first");
    assert!(matches!(error, OrderError::Cluster(ClusterError::Conflict { .. })), "{error}");
    assert_eq!(log.all().len(), 22);
}

/// `verify` must not judge nodes that a sync is about to assign, and `abort` waits for the end of its holder.
#[tokio::test]
async fn waits_until_the_holder_has_released_its_lock() {
    let fleet = FleetName::new("prod").expect("a name");
    let (reader, store, log) = lease_server(Some(foreign_lease(nodecfg_clock::now())));
    let waits = async {
        wait_until_free(&reader, "kube-system", &fleet).await.expect("read");
        log.all().len()
    };
    let released = async {
        while log.all().is_empty() {
            tokio::task::yield_now().await;
        }
        store.lock().expect("not poisoned").as_mut().expect("a Lease")["spec"]["holderIdentity"] = json!("");
    };
    let (reads, ()) = tokio::join!(waits, released);
    assert!(reads > 1, "the first read does not suffice");
}

/// A lock counts from the moment before its first write. A write that arrives later would take a lock that has expired.
#[tokio::test]
async fn lock_is_not_taken_by_a_write_that_ends_after_its_duration() {
    let (client, _) = serving(|request| match request.method.as_str() {
        "GET" => status(404, "NotFound", "not found", json!({"kind": "leases", "name": "nodecfg-prod"})),
        _ => Reply::Json(503, json!({})),
    });
    let reader = ClusterReader::new(client, "https://fake", options()).within(Duration::from_secs(30));
    let began = tokio::time::Instant::now();
    acquire(&reader, lock("me")).await.expect_err("no write is accepted");
    assert!(began.elapsed() < Duration::from_secs(15), "the lock lasts one second, and the wait {:?}", began.elapsed());
}
