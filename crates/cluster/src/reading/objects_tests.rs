//! Tests of reads of any kind: against the sandbox, and over a fake connection.

use nodecfg_contract::names::NamespaceName;
use serde_json::json;

use super::*;
use crate::connection::fake::{Log, RecordedRequest, Reply, options, serving};

const APPS: &str = "apps/v1";

fn wanted(api_version: &str, kind: &str, namespace: Option<&str>, name: &str) -> ObjectRef {
    ObjectRef {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.map(|name| NamespaceName::new(name).expect("a name")),
        by: ObjectId::Name(name.to_owned()),
    }
}

fn reader(answer: impl FnMut(&RecordedRequest) -> Reply + Send + 'static) -> (ObjectReader, Log) {
    let (client, log) = serving(answer);
    (ClusterReader::new(client, "https://fake", options()).objects(), log)
}

fn served() -> Reply {
    Reply::Json(
        200,
        json!({"kind": "APIResourceList", "groupVersion": APPS, "resources": [
            {"name": "deployments/status", "kind": "Deployment", "namespaced": true},
            {"name": "deployments", "kind": "Deployment", "namespaced": true},
            {"name": "deployments/scale", "kind": "Scale", "namespaced": true},
        ]}),
    )
}

#[tokio::test]
async fn asks_once_for_the_kinds_of_a_group() {
    let (objects, log) = reader(|request| match request.uri.as_str() {
        "/apis/apps/v1" => served(),
        _ => Reply::Json(200, json!({"kind": "Deployment"})),
    });
    for name in ["a", "b"] {
        assert_eq!(objects.get(&wanted(APPS, "Deployment", Some("x"), name)).await, Ok(json!({"kind": "Deployment"})));
    }
    let expected = [
        "GET /apis/apps/v1",
        "GET /apis/apps/v1/namespaces/x/deployments/a",
        "GET /apis/apps/v1/namespaces/x/deployments/b",
    ];
    assert_eq!(log.lines(), expected);
}

#[tokio::test]
async fn refusals_name_the_fix() {
    let get = async |code: u16| {
        let (objects, _) = reader(move |request| match request.uri.as_str() {
            "/apis/apps/v1" => served(),
            _ => Reply::Json(code, json!({"kind": "Status", "message": "a\u{1b}[2J", "reason": "Why", "code": code})),
        });
        objects.get(&wanted(APPS, "Deployment", Some("x"), "a")).await.unwrap_err().to_string()
    };
    assert_eq!(get(403).await, "reading Deployment x/a is forbidden; grant the verb get on deployments.apps");
    assert_eq!(get(404).await, "Deployment x/a is missing; check its namespace and its name or label");
    assert_eq!(get(500).await, "Deployment x/a cannot be read: the API server returns 500: a [2J");
    let (objects, log) = reader(|_| served());
    let error = objects.get(&wanted(APPS, "Deployment", None, "a")).await.unwrap_err();
    assert_eq!(error.to_string(), "Deployment is in a namespace; add `namespace` to the gate");
    for kind in ["Scale", "StatefulSet"] {
        let error = objects.get(&wanted(APPS, kind, Some("x"), "a")).await.unwrap_err();
        assert!(error.to_string().starts_with(&format!("the API server does not serve {kind} of apps/v1")), "{error}");
    }
    assert_eq!(log.lines(), ["GET /apis/apps/v1"]);
}

#[tokio::test]
async fn missing_group_is_asked_again() {
    let mut asked = 0;
    let (objects, _) = reader(move |request| match request.uri.as_str() {
        "/apis/apps/v1" => {
            asked += 1;
            if asked == 1 { Reply::Json(404, json!({"message": "404 page not found"})) } else { served() }
        }
        _ => Reply::Json(200, json!({})),
    });
    let get = async || objects.get(&wanted(APPS, "Deployment", Some("x"), "a")).await;
    assert!(matches!(get().await, Err(ObjectError::NotServed { .. })));
    assert_eq!(get().await, Ok(json!({})));
}

#[tokio::test]
async fn large_unreadable_and_broken_responses_are_failures() {
    let get = async |mut reply: Option<Reply>| {
        let (objects, _) = reader(move |request| match request.uri.as_str() {
            "/apis/apps/v1" => served(),
            _ => reply.take().unwrap_or(Reply::Reset),
        });
        objects.get(&wanted(APPS, "Deployment", Some("x"), "a")).await.unwrap_err().to_string()
    };
    let large = get(Some(Reply::Text(format!("\"{}\"", "x".repeat(LIMIT))))).await;
    assert!(large.ends_with("larger than 2 MiB"), "{large}");
    let secret = get(Some(Reply::Text("{\"a\": secret".to_owned()))).await;
    assert!(secret.ends_with("not readable") && !secret.contains("secret"), "{secret}");
    assert!(get(None).await.starts_with("Deployment x/a cannot be read: "));
}

#[tokio::test]
async fn silent_server_is_a_failure_after_the_time_limit() {
    let (client, _) = serving(|_| Reply::Silence);
    let options = crate::ReaderOptions { request_timeout: Duration::from_millis(100), ..options() };
    let objects = ClusterReader::new(client, "https://fake", options).objects();
    let error = objects.get(&wanted(APPS, "Deployment", Some("x"), "a")).await.unwrap_err().to_string();
    assert_eq!(error, "the list of kinds of apps/v1 cannot be read: no response within 0 s");
}

#[tokio::test]
async fn names_are_escaped() {
    let (objects, log) = reader(|request| match request.uri.as_str() {
        "/apis/apps/v1" => served(),
        _ => Reply::Json(200, json!({})),
    });
    objects.get(&wanted(APPS, "Deployment", Some("x"), "a/../b?c")).await.unwrap();
    assert_eq!(log.lines()[1], "GET /apis/apps/v1/namespaces/x/deployments/a%2F..%2Fb%3Fc");
}

/// An aggregated API server answers for its own group only, but what it names would become a part of paths.
#[tokio::test]
async fn kinds_with_names_that_are_no_resources_are_not_served() {
    for name in ["..", ".", "", "secrets?a=b", "a%2fb", "\u{1b}[2J"] {
        let (objects, log) = reader(move |_| {
            Reply::Json(200, json!({"resources": [{"name": name, "kind": "Deployment", "namespaced": true}]}))
        });
        let error = objects.get(&wanted(APPS, "Deployment", Some("x"), "a")).await.unwrap_err();
        assert!(matches!(error, ObjectError::NotServed { .. }), "{name:?}: {error}");
        assert_eq!(log.lines(), ["GET /apis/apps/v1"]);
    }
}

#[tokio::test]
async fn finds_kinds_of_the_sandbox() {
    use nodecfg_sandbox::nodes::generic;
    use nodecfg_sandbox::{Embedded, EmbeddedOptions};
    let options = EmbeddedOptions::default();
    let specs = generic(1, &[], options.profile.git_version()).unwrap();
    let embedded = Embedded::start(options, specs).await.unwrap();
    let objects =
        ClusterReader::new(embedded.client(), "https://sandbox", crate::connection::fake::options()).objects();
    let node = objects.get(&wanted("v1", "Node", None, "node-1")).await.expect("the node");
    assert_eq!(node["kind"], "Node");
    let error = objects.get(&wanted("v1", "Node", None, "node-2")).await.unwrap_err();
    assert!(matches!(error, ObjectError::Missing { .. }), "{error}");
    let error = objects.get(&wanted("v1", "Gadget", None, "node-1")).await.unwrap_err();
    assert!(matches!(error, ObjectError::NotServed { .. }), "{error}");
}
