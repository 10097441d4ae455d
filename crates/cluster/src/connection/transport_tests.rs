//! Tests of retries, their time limits and their log lines, of the server's time, and of long error responses.

use std::io::Write;

use serde_json::json;

use super::*;
use crate::connection::fake::{Reply, options, serving, status};
use crate::connection::operation::{Resource, Verb};
use crate::reading::reader::ClusterReader;

/// Log output, as lines that start with the level.
#[derive(Clone, Default)]
struct LogBuffer(Arc<Mutex<Vec<u8>>>);

impl Write for LogBuffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("not poisoned").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl LogBuffer {
    fn lines(&self) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().expect("not poisoned").clone()).expect("text");
        text.lines().map(str::to_owned).collect()
    }
}

#[tokio::test]
async fn logs_an_outage_once_for_all_requests() {
    let mut requests = 0;
    let (client, _) = serving(move |_| {
        requests += 1;
        if requests <= 60 {
            status(503, "ServiceUnavailable", "starting", json!(null))
        } else {
            Reply::Json(200, json!({}))
        }
    });
    let written = LogBuffer::default();
    let writer = written.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::INFO)
        .without_time()
        .with_target(false)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    // With a single subscriber, a thread of another test that reaches an event first would disable it here, too: tracing
    // then asks only the subscriber of that thread.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    let _guard = tracing::subscriber::set_default(subscriber);
    let reader = ClusterReader::new(client, "https://fake", options());
    let requests = (0..20).map(|_| reader.server_version());
    for result in futures::future::join_all(requests).await {
        result.expect("retried");
    }
    assert_eq!(
        written.lines(),
        [
            " WARN cannot read the server's version yet: the API server returns 503: starting; trying again",
            " INFO no request to the API server is being retried any longer"
        ]
    );
}

#[tokio::test]
async fn uses_the_servers_time() {
    let operation = Operation::on_all(Verb::Get, Resource::Version, None);
    for (ahead, taken) in [(SignedDuration::from_hours(1), true), (SignedDuration::from_secs(1), false)] {
        let date = nodecfg_clock::now()
            .checked_add(ahead)
            .expect("in range")
            .strftime("%a, %d %b %Y %H:%M:%S GMT")
            .to_string();
        let date: &'static str = Box::leak(date.into_boxed_str());
        let (client, _) = serving(move |_| Reply::Header(200, ("date", date), json!({})));
        let limits = Limits { attempt: Duration::from_secs(1), total: Duration::from_secs(1) };
        let transport = Transport::new(client, "https://fake", RetryPolicy::default(), limits, 1);
        let call = Call::new(Method::GET, operation.path());
        // A kubelet must not set the time of the lock.
        for (call, wanted) in [(call.clone().proxied(), SignedDuration::ZERO), (call, ahead)] {
            transport.call(&operation, &call, whole::<serde_json::Value>).await.expect("an answer");
            let difference = transport.server_time().duration_since(nodecfg_clock::now());
            let wanted = if taken { wanted } else { SignedDuration::ZERO };
            assert!((difference - wanted).abs() < SignedDuration::from_millis(1500), "{difference:?}");
        }
    }
}

#[tokio::test]
async fn limits_the_bytes_read_from_an_error_page() {
    let operation = Operation::on_all(Verb::Get, Resource::Version, None);
    let (client, _) = serving(|_| Reply::Json(400, json!("x".repeat(10 * ERROR_BODY_LIMIT))));
    let limits = Limits { attempt: Duration::from_secs(1), total: Duration::from_secs(1) };
    let transport = Transport::new(client, "https://fake", RetryPolicy::default(), limits, 1);
    let call = Call::new(Method::GET, operation.path());
    let error = transport.call(&operation, &call, whole::<serde_json::Value>).await.expect_err("an error");
    assert!(error.to_string().len() < 400, "{error}");
}
