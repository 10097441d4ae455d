//! Tests of the request log and of every fault.

use std::time::{Duration, Instant};

use axum::routing::get;
use futures::{StreamExt, stream};
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt as _;

use super::super::serve::tests::{ServerAddress, fetch};
use super::super::serve::{Options, serve};
use super::*;

/// Router that answers every path. `/api/v1/nodes` streams three lines in chunks that differ from the lines.
fn router() -> Router {
    let pieces = || ["{\"type\":\"ADD", "ED\"}\n{\"type\":\"MODIFIED\"}\n{\"ty", "pe\":\"DELETED\"}\n"];
    Router::new()
        .route(
            "/api/v1/nodes",
            get(move || async move { Body::from_stream(stream::iter(pieces().map(Ok::<_, std::io::Error>))) }),
        )
        .fallback(|| async { "0123456789" })
}

fn request(method: Method, uri: &str) -> Request<Body> {
    Request::builder().method(method).uri(uri).body(Body::empty()).expect("is a request")
}

async fn send(wire: &Wire, uri: &str) -> Result<Response, ConnectionReset> {
    send_to(wire, router(), request(Method::GET, uri)).await
}

async fn send_to(wire: &Wire, router: Router, request: Request<Body>) -> Result<Response, ConnectionReset> {
    let Ok(response) = wire.wrap(router).oneshot(request).await;
    if response.extensions().get::<ResetConnection>().is_some() { Err(ConnectionReset) } else { Ok(response) }
}

async fn text(response: Response) -> String {
    let body = response.into_body().collect().await.expect("is whole").to_bytes();
    String::from_utf8(body.to_vec()).expect("is text")
}

async fn status_body(response: Response) -> Value {
    serde_json::from_str(&text(response).await).expect("is JSON")
}

#[tokio::test]
async fn every_request_is_logged_once_with_its_status() {
    let wire = Wire::new();
    send(&wire, "/api/v1/nodes").await.expect("answers");
    send(&wire, "/api/v1/nodes?watch=1").await.expect("answers");
    send(&wire, "/version").await.expect("answers");
    wire.faults.inject(Fault::once(Matcher::any(), FaultKind::Reset));
    send(&wire, "/api/v1/nodes/a").await.expect_err("reset");
    let entries = wire.log.entries();
    let seen: Vec<_> = entries.iter().map(|entry| (entry.request.verb, entry.status.map(|s| s.as_u16()))).collect();
    assert_eq!(seen, [("list", Some(200)), ("watch", Some(200)), ("get", Some(200)), ("get", None)]);
    assert_eq!(wire.log.count("watch", "nodes"), 1);
    assert_eq!(entries[1].request.to_string(), "GET /api/v1/nodes?watch=1");
}

#[tokio::test]
async fn refusals_are_kubernetes_status_objects() {
    let wire = Wire::new();
    for (code, reason) in
        [(429, "TooManyRequests"), (500, "InternalError"), (503, "ServiceUnavailable"), (504, "Timeout")]
    {
        let code = StatusCode::from_u16(code).expect("is a status");
        let kind = FaultKind::Status { code, retry_after: Some(Duration::from_secs(3)) };
        wire.faults.inject(Fault::once(Matcher::on("list", "nodes"), kind));
        let response = send(&wire, "/api/v1/nodes").await.expect("answers");
        assert_eq!((response.status(), &response.headers()["retry-after"]), (code, &"3".parse().expect("header")));
        assert_eq!(response.headers()["content-type"], "application/json");
        let body = status_body(response).await;
        assert_eq!((&body["kind"], &body["reason"]), (&"Status".into(), &reason.into()));
        assert_eq!((&body["code"], &body["details"]["retryAfterSeconds"]), (&code.as_u16().into(), &3.into()));
        assert_eq!(send(&wire, "/api/v1/nodes").await.expect("answers").status(), 200, "affected twice");
    }
}

#[tokio::test]
async fn faults_apply_to_matching_requests_within_limits() {
    let wire = Wire::new();
    let kind = FaultKind::status(StatusCode::SERVICE_UNAVAILABLE);
    let twice = wire.faults.inject(Fault::once(Matcher::on("get", "nodes"), kind.clone()).skip(1).times(2));
    let mut seen = Vec::new();
    for _ in 0..5 {
        seen.push(send(&wire, "/api/v1/nodes/a").await.expect("answers").status().as_u16());
        assert_eq!(send(&wire, "/api/v1/nodes").await.expect("answers").status(), 200, "another verb was affected");
    }
    assert_eq!((seen, twice.affected()), (vec![200, 503, 503, 200, 200], 2));

    let always = wire.faults.inject(Fault::always(Matcher::on("list", "configmaps"), kind));
    for uri in ["/api/v1/configmaps", "/api/v1/namespaces/a/configmaps"] {
        assert_eq!(send(&wire, uri).await.expect("answers").status(), 503, "{uri}");
    }
    always.remove();
    assert_eq!(send(&wire, "/api/v1/configmaps").await.expect("answers").status(), 200);
}

#[tokio::test]
async fn latency_adds_to_another_fault() {
    let wire = Wire::new();
    wire.faults.inject(Fault::once(Matcher::any(), FaultKind::status(StatusCode::GATEWAY_TIMEOUT)));
    wire.faults.inject(Fault::once(Matcher::any(), FaultKind::Latency(Duration::from_millis(60))));
    let begun = Instant::now();
    assert_eq!(send(&wire, "/api/v1/nodes").await.expect("answers").status(), 504);
    assert!(begun.elapsed() >= Duration::from_millis(60));
    assert_eq!(send(&wire, "/api/v1/nodes").await.expect("answers").status(), 200);
}

#[tokio::test]
async fn watches_end_between_events() {
    let wire = Wire::new();
    let close = |after_events| Fault::once(Matcher::any(), FaultKind::CloseWatch { after_events });
    for (after, wanted) in
        [(0, ""), (1, "{\"type\":\"ADDED\"}\n"), (2, "{\"type\":\"ADDED\"}\n{\"type\":\"MODIFIED\"}\n")]
    {
        wire.faults.inject(close(after));
        assert_eq!(text(send(&wire, "/api/v1/nodes?watch=1").await.expect("answers")).await, wanted);
    }
    wire.faults.inject(close(0));
    assert_eq!(
        text(send(&wire, "/api/v1/nodes").await.expect("answers")).await.lines().count(),
        3,
        "a list is not a watch"
    );
    wire.faults.clear();

    wire.faults.inject(Fault::once(Matcher::any(), FaultKind::ExpireWatch { after_events: 1 }));
    let body = text(send(&wire, "/api/v1/nodes?watch=1").await.expect("answers")).await;
    let events: Vec<Value> = body.lines().map(|line| serde_json::from_str(line).expect("is JSON")).collect();
    assert_eq!((events.len(), &events[0]["type"], &events[1]["type"]), (2, &"ADDED".into(), &"ERROR".into()));
    assert_eq!((&events[1]["object"]["code"], &events[1]["object"]["reason"]), (&410.into(), &"Expired".into()));
}

#[tokio::test]
async fn only_continuations_expire() {
    let wire = Wire::new();
    wire.faults.inject(Fault::once(Matcher::any(), FaultKind::ContinueExpired));
    assert_eq!(send(&wire, "/api/v1/nodes?limit=1").await.expect("answers").status(), 200);
    let token = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NjQzLCJzdGFydCI6InJuMVx1MDAwMCJ9";
    let response = send(&wire, &format!("/api/v1/nodes?limit=1&continue={token}")).await.expect("answers");
    assert_eq!(response.status(), StatusCode::GONE);
    let body = status_body(response).await;
    assert_eq!(body["reason"], "Expired");
    assert_eq!(body["metadata"]["continue"], "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0Ijoicm4xXHUwMDAwIn0");
}

#[tokio::test]
async fn lost_response_is_executed_and_reset_request_is_not() {
    use std::sync::atomic::{AtomicU32, Ordering};
    static CARRIED_OUT: AtomicU32 = AtomicU32::new(0);
    let router = Router::new().fallback(|| async { CARRIED_OUT.fetch_add(1, Ordering::SeqCst).to_string() });
    let wire = Wire::new();
    for (kind, wanted) in [(FaultKind::LoseAnswer, 1), (FaultKind::Reset, 1)] {
        wire.faults.inject(Fault::once(Matcher::any(), kind));
        let response = send_to(&wire, router.clone(), request(Method::PATCH, "/api/v1/nodes/a")).await;
        assert_eq!(response.map(|_| ()), Err(ConnectionReset));
        assert_eq!(CARRIED_OUT.load(Ordering::SeqCst), wanted);
    }
}

#[tokio::test]
async fn bodies_fail_in_the_middle_and_requests_hang() {
    let wire = Wire::new();
    wire.faults.inject(Fault::once(Matcher::any(), FaultKind::CutBody { after_bytes: 4 }));
    let mut body = send(&wire, "/x").await.expect("answers").into_body().into_data_stream();
    assert_eq!(body.next().await.expect("begins").expect("begins well"), "0123");
    assert!(body.next().await.expect("goes on").is_err(), "the body did not fail");

    wire.faults.inject(Fault::once(Matcher::any(), FaultKind::Hang));
    assert!(tokio::time::timeout(Duration::from_millis(50), send(&wire, "/x")).await.is_err());
    assert_eq!(wire.log.entries().last().expect("was logged").status, None);
}

#[tokio::test]
async fn faults_apply_over_tls() {
    let wire = Wire::new();
    let serving = serve(wire.wrap(router()), Options::default()).await.expect("serves");
    let at = ServerAddress::of(&serving);
    for alpn in [&b"http/1.1"[..], b"h2"] {
        for kind in [FaultKind::Reset, FaultKind::LoseAnswer, FaultKind::CutBody { after_bytes: 4 }] {
            wire.faults.inject(Fault::once(Matcher::any(), kind.clone()));
            assert!(fetch(at.clone(), "localhost", alpn, "/x").await.is_err(), "{kind:?}");
            let (status, _, body) = fetch(at.clone(), "localhost", alpn, "/x").await.expect("answers again");
            assert_eq!((status, &body[..]), (StatusCode::OK, &b"0123456789"[..]));
        }
        wire.faults.inject(Fault::once(
            Matcher::any(),
            FaultKind::Status { code: StatusCode::TOO_MANY_REQUESTS, retry_after: Some(Duration::from_secs(1)) },
        ));
        let (status, headers, _) = fetch(at.clone(), "localhost", alpn, "/x").await.expect("answers");
        assert_eq!((status.as_u16(), &headers["retry-after"]), (429, &"1".parse().expect("header")));
        wire.faults.inject(Fault::once(Matcher::any(), FaultKind::CloseWatch { after_events: 1 }));
        let watch = fetch(at.clone(), "localhost", alpn, "/api/v1/nodes?watch=1").await.expect("answers");
        assert_eq!(&watch.2[..], b"{\"type\":\"ADDED\"}\n");
    }
}

#[tokio::test]
async fn faults_apply_to_in_process_client() {
    use k8s_openapi::api::core::v1::Namespace;
    let wire = Wire::new();
    let api = Api::new(crate::api::ApiOptions::default());
    let namespaces: kube::Api<Namespace> = kube::Api::all(wire.client(&api, User::admin("admin")));
    wire.faults.inject(Fault::once(Matcher::on("get", "namespaces"), FaultKind::Reset));
    wire.faults
        .inject(Fault::once(Matcher::on("get", "namespaces"), FaultKind::status(StatusCode::SERVICE_UNAVAILABLE)));
    let reset = namespaces.get("default").await.expect_err("is reset");
    assert!(matches!(reset, kube::Error::Service(_)), "{reset:?}");
    let refused = namespaces.get("default").await.expect_err("is refused");
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 503), "{refused:?}");
    assert_eq!(namespaces.get("default").await.expect("is there").metadata.name.as_deref(), Some("default"));
    assert_eq!(wire.log.count("get", "namespaces"), 3);
}
