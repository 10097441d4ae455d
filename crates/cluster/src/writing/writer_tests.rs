//! Tests of the requests that a writer sends and of its handling of responses.

use super::*;
use kubelet_config::risk::Class;
use nodecfg_contract::config_map::PoolConfig;
use nodecfg_contract::names::{CommitId, NamespaceName};
use nodecfg_contract::{Assignment, ConfigSource, ContentHash, Placement};

fn spec() -> PoolConfigMap {
    let text = "kind: KubeletConfiguration\n";
    let (config_map, hash) = ("prod-gpu-0123456789".to_owned(), ContentHash::of(text.as_bytes()));
    PoolConfigMap {
        config: PoolConfig { config_map, hash, kubelet: text.to_owned(), placement: Some(Placement::Overlay) },
        namespace: NamespaceName::new("kube-system").expect("a name"),
        fleet: FleetName::new("prod").expect("a name"),
        pool: PoolName::new("gpu").expect("a name"),
        commit: Some(CommitId::new("0".repeat(40)).expect("a commit")),
        path: "pools/gpu/kubelet.yaml".to_owned(),
    }
}

fn with(change: impl FnOnce(&mut PoolConfig)) -> PoolConfigMap {
    let mut spec = spec();
    change(&mut spec.config);
    spec
}

#[test]
fn config_map_is_immutable_and_names_its_origin() {
    let spec = spec();
    let map = config_map(&spec);
    assert_eq!(map["immutable"], true);
    assert_eq!(map["data"], json!({"kubelet": spec.config.kubelet}));
    assert_eq!(
        map["metadata"]["labels"],
        json!({"app.kubernetes.io/managed-by": "nodecfg", "nodecfg.dev/fleet": "prod", "nodecfg.dev/pool": "gpu"})
    );
    assert_eq!(map["metadata"]["annotations"]["nodecfg.dev/content-hash"], spec.config.hash.to_string());
    assert_eq!(map["metadata"]["annotations"]["nodecfg.dev/commit"], "0".repeat(40));
    assert_eq!(map["metadata"]["annotations"]["nodecfg.dev/placement"], "overlay");
    let uncommitted = config_map(&PoolConfigMap { commit: None, ..spec });
    assert!(uncommitted["metadata"]["annotations"].get("nodecfg.dev/commit").is_none());
}

#[test]
fn accepts_only_the_same_immutable_content() {
    let spec = spec();
    let mut found = FetchedConfigMap { immutable: true, ..FetchedConfigMap::default() };
    assert_eq!(difference(&found, &spec.config.kubelet).as_deref(), Some("has no key \"kubelet\""));
    found.data.insert("kubelet".to_owned(), spec.config.kubelet.clone());
    assert_eq!(difference(&found, &spec.config.kubelet), None);
    assert_eq!(difference(&found, "other").as_deref(), Some("holds another configuration"));
    let mutable = FetchedConfigMap { immutable: false, ..found.clone() };
    assert!(difference(&mutable, &spec.config.kubelet).is_some());
    let deleting = FetchedConfigMap { deleting: true, ..found.clone() };
    assert_eq!(difference(&deleting, &spec.config.kubelet).as_deref(), Some("is being deleted"));
    found.data.insert("more".to_owned(), String::new());
    assert_eq!(difference(&found, &spec.config.kubelet).as_deref(), Some("holds more than the configuration"));
}

#[test]
fn event_has_the_kubelets_format() {
    let notice = NodeNotice {
        node: NodeName::new("n1").expect("a name"),
        warning: true,
        reason: "NodeConfigFailed",
        message: "é".repeat(1000),
        at: Timestamp::from_second(1_800_000_000).expect("in range"),
    };
    let event = event(&notice, COMPONENT);
    assert_eq!(event["involvedObject"], json!({"kind": "Node", "name": "n1", "uid": "n1"}));
    assert_eq!(event["metadata"], json!({"generateName": "n1.", "namespace": "default"}));
    assert_eq!(event["type"], "Warning");
    assert_eq!(event["lastTimestamp"], "2027-01-15T08:00:00Z");
    assert_eq!(event["message"].as_str().expect("text").len(), 1024);
}

mod over_the_wire {
    use std::sync::Mutex;

    use super::*;
    use crate::connection::fake::{Log, Reply, node, options, serving, status};
    use crate::lock;
    use crate::lock::LockOptions;
    use crate::writing::pointer_writer::{PointerSpec, Replaced};
    use nodecfg_contract::config_map::PoolConfig;
    use nodecfg_contract::pool_pointer::PoolPointer;

    /// A writer with its lock, over a fake server that handles Leases and returns these replies to other requests.
    async fn writer(replies: Vec<Reply>) -> (ClusterWriter, HeldLock, Log) {
        let mut replies = std::collections::VecDeque::from(replies);
        let (client, log) = serving(move |request| match (request.uri.contains("/leases"), request.method.as_str()) {
            (true, "GET") => status(404, "NotFound", "not found", json!({"kind": "leases"})),
            (true, _) => Reply::Json(200, request.body.clone()),
            (false, _) => replies.pop_front().unwrap_or(Reply::Reset),
        });
        let reader = ClusterReader::new(client, "https://fake", options());
        let lock = LockOptions::new("kube-system", FleetName::new("prod").expect("a name"), "me".to_owned());
        let held = lock::acquire(&reader, lock).await.expect("free");
        (ClusterWriter::new(reader, &held), held, log)
    }

    fn exists() -> Reply {
        status(409, "AlreadyExists", "already exists", json!({"kind": "configmaps"}))
    }

    fn set() -> Assignment {
        let to = Some(ConfigSource::config_map("y", "x", KUBELET_KEY));
        let (from_hash, to_hash, max_disruption) = (None, None, Class::Restart);
        Assignment {
            uid: "uid-n1".to_owned(),
            from: None,
            to,
            from_hash,
            to_hash,
            from_placement: None,
            to_placement: None,
            present_placement: None,
            max_disruption,
        }
    }

    #[tokio::test]
    async fn create_compares_an_existing_map_and_never_overwrites() {
        let same = || Reply::Json(200, config_map(&spec()));
        let other = Reply::Json(200, config_map(&with(|config| config.kubelet = "x: 1\n".to_owned())));
        // The retry after a lost response gets "already exists".
        let (writer, _held, log) = writer(vec![same(), Reply::Reset, exists(), same(), exists(), other]).await;
        assert_eq!(writer.create_config_map(&spec()).await, Ok(Created::Created));
        assert_eq!(writer.create_config_map(&spec()).await, Ok(Created::AlreadyThere));
        let error = writer.create_config_map(&spec()).await.expect_err("differs");
        assert_eq!(
            error.to_string(),
            "cannot create configmap kube-system/prod-gpu-0123456789: a ConfigMap of that name exists and holds another \
             configuration"
        );
        let written: Vec<String> = log.lines().into_iter().filter(|line| line.contains("configmaps")).collect();
        assert!(written.iter().all(|line| line.starts_with("POST") || line.starts_with("GET")), "{written:?}");
    }

    fn pointer(kubelet: &str) -> PoolPointer {
        let hash = ContentHash::of(kubelet.as_bytes());
        let config = PoolConfig {
            config_map: format!("prod-gpu-{}", hash.short()),
            hash,
            kubelet: kubelet.to_owned(),
            placement: None,
        };
        PoolPointer::to(Some(config), None)
    }

    /// A pointer as the server returns it.
    fn pointing(pointer: &PoolPointer) -> serde_json::Value {
        json!({
            "metadata": {
                "namespace": "kube-system", "name": "nodecfg-pool-prod-gpu", "uid": "u", "resourceVersion": "7",
                "labels": labels(&spec().fleet, &spec().pool), "annotations": pointer.annotations(),
            },
            "data": pointer.data(),
        })
    }

    /// A rollback must not undo the move of a later run, nor restore what another client wrote.
    #[tokio::test]
    async fn pointer_is_restored_only_in_place_of_what_the_run_wrote() {
        let (before, after, third) = (pointer("maxPods: 32\n"), pointer("maxPods: 64\n"), pointer("maxPods: 128\n"));
        let restore = PointerSpec {
            namespace: "kube-system".to_owned(),
            fleet: spec().fleet,
            pool: spec().pool,
            pointer: before.clone(),
            replaces: Replaced::Content(after.clone()),
        };
        let mut forged = pointing(&after);
        forged["data"] = json!(third.data());
        let again = writer(vec![Reply::Json(200, pointing(&before))]);
        let mut rerecorded = pointing(&after);
        rerecorded["metadata"]["annotations"] = json!(third.annotations());
        for other in [pointing(&third), forged, rerecorded] {
            let (writer, _held, log) = writer(vec![Reply::Json(200, other)]).await;
            let error = writer.write_pointer(&restore).await.expect_err("it has other content");
            assert!(matches!(error, ClusterError::Conflict { .. }), "{error}");
            assert!(!log.lines().iter().any(|line| line.starts_with("PUT") && line.contains("configmaps")));
        }
        // What the run wrote is replaced, in the version that was read.
        let (writer, _held, log) = writer(vec![Reply::Json(200, pointing(&after)), Reply::Json(200, json!({}))]).await;
        writer.write_pointer(&restore).await.expect("restored");
        let written = log.all().into_iter().find(|sent| sent.method == "PUT" && sent.uri.contains("configmaps"));
        let written = written.expect("a write").body;
        assert_eq!((&written["metadata"]["resourceVersion"], &written["data"]), (&json!("7"), &json!(before.data())));
        assert_eq!(written["metadata"]["annotations"], json!(before.annotations()));
        // A lost answer to the restoration.
        let (late, _held, log) = again.await;
        late.write_pointer(&restore).await.expect("restored already");
        assert!(!log.lines().iter().any(|line| line.starts_with("PUT") && line.contains("configmaps")));
    }

    /// The response to the first attempt may be lost. A pointer with other data or annotations is another client's.
    #[tokio::test]
    async fn conflict_is_a_success_only_with_what_the_run_wrote() {
        let (wanted, third) = (pointer("maxPods: 64\n"), pointer("maxPods: 128\n"));
        let mut rerecorded = pointing(&wanted);
        rerecorded["metadata"]["annotations"] = json!(third.annotations());
        for (found, is_done) in [(pointing(&wanted), true), (pointing(&third), false), (rerecorded, false)] {
            let modified = status(409, "Conflict", "the object has been modified", json!({}));
            let (writer, _held, _) = writer(vec![modified, Reply::Json(200, found)]).await;
            let (namespace, replaces) = ("kube-system".to_owned(), Replaced::Version("7".to_owned()));
            let (fleet, pool, pointer) = (spec().fleet, spec().pool, wanted.clone());
            let written = writer.write_pointer(&PointerSpec { namespace, fleet, pool, pointer, replaces }).await;
            assert_eq!(written.is_ok(), is_done, "{written:?}");
        }
    }

    #[tokio::test]
    async fn error_names_the_missing_namespace() {
        let missing = status(404, "NotFound", "namespaces \"x\" not found", json!({"kind": "namespaces", "name": "x"}));
        let (writer, _held, _) = writer(vec![missing]).await;
        let error = writer.create_config_map(&spec()).await.expect_err("missing");
        assert!(matches!(&error, ClusterError::NamespaceMissing { namespace, .. } if namespace == "x"), "{error}");
    }

    #[tokio::test]
    async fn patch_result_depends_on_the_returned_node() {
        let name = NodeName::new("n1").expect("a name");
        let mut kept = node("n1", 3);
        kept["spec"] =
            json!({"configSource": {"configMap": {"name": "x", "namespace": "y", "kubeletConfigKey": "kubelet"}}});
        let rejected =
            || status(422, "Invalid", "the server rejected our request due to an error in our request", json!({}));
        let invalid = status(422, "Invalid", "kubeletConfigKey must be set", json!({"kind": "Node", "name": "n1"}));
        let (writer, _held, log) =
            writer(vec![Reply::Json(200, kept), Reply::Json(200, node("n1", 3)), Reply::Reset, rejected(), invalid])
                .await;
        let patched = writer.assign(&name, &set()).await.expect("kept");
        assert_eq!(patched.map(|source| source.to_string()).as_deref(), Some("y/x"));
        let error = writer.assign(&name, &set()).await.expect_err("dropped");
        assert!(matches!(error, ClusterError::FeatureDropped { .. }), "{error}");
        assert!(error.to_string().contains("1.26"), "{error}");
        let error = writer.assign(&name, &set()).await.expect_err("a test failed");
        assert!(matches!(error, ClusterError::PreconditionFailed { .. }), "{error}");
        let error = writer.assign(&name, &set()).await.expect_err("refused");
        assert!(matches!(error, ClusterError::Invalid { .. }), "{error}");
        let request = log.all().into_iter().find(|request| request.method == "PATCH").expect("a patch");
        assert_eq!(request.uri, "/api/v1/nodes/n1?fieldManager=nodecfg");
        assert_eq!(request.headers[http::header::CONTENT_TYPE], "application/json-patch+json");
    }

    /// The other NodeConfig may have the same assignment, or belong to an earlier Node.
    #[tokio::test]
    async fn node_config_that_another_client_creates_first_is_read_again() {
        let missing = status(404, "NotFound", "not found", json!({"kind": "nodeconfigs", "name": "n1"}));
        let (mut writer, _held, log) = writer(vec![missing, exists()]).await;
        writer.reader.binding = crate::reading::binding::Binding::NodeConfig;
        let error = writer.assign(&NodeName::new("n1").expect("a name"), &set()).await.expect_err("exists");
        assert!(matches!(error, ClusterError::PreconditionFailed { .. }), "{error}");
        assert!(log.lines().iter().any(|line| line.starts_with("POST") && line.contains("nodeconfigs")));
    }

    #[tokio::test]
    async fn sends_events_once_and_never_fails() {
        let message = "events is forbidden: User \"ci\" cannot create resource \"events\"";
        let (writer, _held, log) = writer(vec![status(403, "Forbidden", message, json!({})), Reply::Reset]).await;
        let notice = NodeNotice {
            node: NodeName::new("n1").expect("a name"),
            warning: false,
            reason: "NodeConfigAssigned",
            message: "m".to_owned(),
            at: Timestamp::UNIX_EPOCH,
        };
        writer.emit_event(&notice).await;
        writer.emit_event(&notice).await;
        let sent = log.lines().into_iter().filter(|line| line == "POST /api/v1/namespaces/default/events").count();
        assert_eq!(sent, 2);
    }

    #[tokio::test]
    async fn neither_creates_nor_assigns_without_the_lock() {
        let (writer, held, log) = writer(Vec::new()).await;
        held.release().await;
        let before = log.all().len();
        let name = NodeName::new("n1").expect("a name");
        for error in [
            writer.create_config_map(&spec()).await.expect_err("no lock"),
            writer.assign(&name, &set()).await.expect_err("no lock"),
        ] {
            assert!(matches!(error, ClusterError::LockLost { .. }), "{error}");
        }
        assert_eq!(log.all().len(), before);
    }

    #[tokio::test]
    async fn write_under_retry_is_not_sent_again_after_the_loss_of_the_lock() {
        let map = nodecfg_observed::ManagedConfigMap {
            namespace: "kube-system".to_owned(),
            name: spec().config.config_map,
            uid: "u".to_owned(),
            resource_version: "1".to_owned(),
            fleet: None,
            pool: None,
            content_hash: None,
            commit: None,
            placement: None,
            created: None,
            deleting: false,
        };
        for verb in ["POST", "PATCH", "DELETE"] {
            let lock: Arc<Mutex<Option<HeldLock>>> = Arc::default();
            let lost = Arc::clone(&lock);
            let (client, log) =
                serving(move |request| match (request.uri.contains("/leases"), request.method.as_str()) {
                    (true, "GET") => status(404, "NotFound", "not found", json!({"kind": "leases"})),
                    (true, _) => Reply::Json(200, request.body.clone()),
                    (false, "GET") => {
                        let text = spec().config.kubelet;
                        let name = format!("prod-gpu-{}", ContentHash::of(text.as_bytes()).short());
                        let mut found = config_map(&with(|config| config.config_map = name));
                        found["metadata"]["uid"] = "u".into();
                        Reply::Json(200, found)
                    }
                    // The lock is lost while the server is overloaded.
                    (false, _) => {
                        drop(lost.lock().expect("not poisoned").take());
                        status(503, "ServiceUnavailable", "overloaded", json!({}))
                    }
                });
            let reader = ClusterReader::new(client, "https://fake", options());
            let options = LockOptions::new("kube-system", FleetName::new("prod").expect("a name"), "me".to_owned());
            let held = lock::acquire(&reader, options).await.expect("free");
            let writer = ClusterWriter::new(reader, &held);
            *lock.lock().expect("not poisoned") = Some(held);
            let error = match verb {
                "POST" => writer.create_config_map(&spec()).await.map(drop),
                "PATCH" => writer.assign(&NodeName::new("n1").expect("a name"), &set()).await.map(drop),
                _ => writer.delete_config_map(&map).await.map(drop),
            };
            let error = error.expect_err("lost");
            assert!(matches!(error, ClusterError::LockLost { .. }), "{verb}: {error}");
            let sent = log.all().into_iter().filter(|sent| sent.method == verb && !sent.uri.contains("/leases"));
            assert!(sent.count() <= 2, "{verb}: {:?}", log.lines());
        }
    }
}
