//! Tests of metrics and traces: a textfile for node_exporter, and an OpenTelemetry collector on loopback.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use nodecfg::telemetry::textfile;
use nodecfg_sandbox::server::serve;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;

use crate::cli::cluster::Cluster;
use crate::cli::program::Run;
use crate::cli::repository::{Folder, gpu};

/// The series of a textfile, without common labels.
fn metrics(path: &Path) -> BTreeMap<String, f64> {
    let text = std::fs::read_to_string(path).unwrap();
    let line = |(name, mut labels, value): textfile::Line| {
        labels.remove("command");
        labels.remove("fleet");
        let labels: Vec<String> = labels.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        (format!("{name}{{{}}}", labels.join(",")), value)
    };
    textfile::parse(&text).unwrap().into_iter().map(line).collect()
}

#[test]
fn writes_textfile() {
    let folder = gpu();
    let cluster = Cluster::start(&["gpu"], 3, &["gpu-3=validate-error"]);
    let file = folder.path().join(".git/sync.prom");
    let run = |arguments: &str| cluster.run(folder.path(), &format!("{arguments} --metrics-textfile .git/sync.prom"));

    assert_eq!(run("diff").exit, 1);
    let found = metrics(&file);
    assert_eq!(found["nodecfg_nodes{pool=gpu,state=to_assign}"], 3.0, "{found:?}");
    assert_eq!(found["nodecfg_drifted_nodes{pool=gpu}"], 3.0);
    assert_eq!(found["nodecfg_run_exit_code{}"], 1.0);
    let diffed = found["nodecfg_run_last_success_timestamp_seconds{}"];
    assert_eq!(diffed, found["nodecfg_run_timestamp_seconds{}"]);

    // The file belongs to another command, whose success does not count here.
    assert_eq!(run("sync").exit, 5);
    let found = metrics(&file);
    assert_eq!(found["nodecfg_nodes{pool=gpu,state=failed}"], 1.0, "{found:?}");
    assert_eq!(found["nodecfg_node_failures{kind=rejected,pool=gpu}"], 1.0, "{found:?}");
    assert_eq!(found["nodecfg_run_exit_code{}"], 5.0);
    assert!(!found.contains_key("nodecfg_run_last_success_timestamp_seconds{}"), "{found:?}");
    assert!(!found.contains_key("nodecfg_run_failure{kind=cluster}"), "{found:?}");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("fleet=\"prod\"") && !text.contains("gpu-3"), "names of nodes are no labels: {text}");
}

#[test]
fn early_failure_keeps_last_success() {
    let folder = gpu();
    let cluster = Cluster::start(&["gpu"], 1, &[]);
    let file = folder.path().join(".git/sync.prom");
    let arguments = "sync --metrics-textfile .git/sync.prom";
    assert_eq!(cluster.run(folder.path(), arguments).exit, 0);
    let good = metrics(&file);
    assert_eq!(good["nodecfg_nodes{pool=gpu,state=converged}"], 1.0, "{good:?}");

    let kept = |failure: &str, exit: f64| {
        let now = metrics(&file);
        assert_eq!(now[&format!("nodecfg_run_failure{{kind={failure}}}")], 1.0, "{now:?}");
        assert_eq!(now["nodecfg_run_exit_code{}"], exit);
        assert!(now.keys().all(|series| !series.starts_with("nodecfg_nodes{")), "{now:?}");
        let name = "nodecfg_run_last_success_timestamp_seconds{}";
        assert_eq!(now[name], good[name]);
        assert!(now["nodecfg_run_timestamp_seconds{}"] > good[name]);
    };
    let mut away = cluster.command(folder.path(), arguments);
    away.env("KUBECONFIG", "nowhere");
    assert_eq!(Run::of(away).exit, 4);
    kept("no-cluster", 4.0);
    folder.write("pools/gpu/kubelet.yaml", "maxPods: many\n");
    folder.commit();
    assert_eq!(cluster.run(folder.path(), arguments).exit, 3);
    kept("invalid", 3.0);
    // The fleet is known from an earlier run, so the series continues.
    assert!(!std::fs::read_to_string(&file).unwrap().contains("fleet=\"\""));
}

#[test]
fn warns_about_unwritable_file_and_rejects_wrong_name() {
    let folder = gpu();
    let cluster = Cluster::start(&["gpu"], 1, &[]);
    let run = cluster.run(folder.path(), "sync --metrics-textfile missing/x.prom");
    assert_eq!(run.exit, 0, "{}", run.err);
    assert!(run.err.contains("cannot write the metrics to missing/x.prom"), "{}", run.err);
    let run = cluster.run(folder.path(), "sync --metrics-textfile x.txt");
    assert_eq!((run.exit, run.out.as_str()), (2, ""));
    assert!(run.err.contains("must end in .prom"), "{}", run.err);
}

/// Requests that the collector received.
#[derive(Default)]
struct Sent {
    requests: Vec<(Uri, HeaderMap)>,
    spans: Vec<Span>,
    resource: BTreeMap<String, String>,
    metrics: BTreeMap<String, f64>,
    /// Values of the label `command`.
    commands: BTreeSet<String>,
}

/// An OpenTelemetry collector on loopback.
struct Collector {
    address: String,
    sent: Arc<Mutex<Sent>>,
    _runtime: tokio::runtime::Runtime,
}

fn texts(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |pair: &KeyValue| match pair.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    attributes.iter().map(|pair| (pair.key.clone(), text(pair))).collect()
}

async fn take(
    State((sent, status)): State<(Arc<Mutex<Sent>>, StatusCode)>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    let mut sent = sent.lock().unwrap();
    if uri.path().ends_with("/v1/traces") {
        for of_resource in ExportTraceServiceRequest::decode(body).unwrap().resource_spans {
            sent.resource = texts(&of_resource.resource.unwrap().attributes);
            sent.spans.extend(of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
    } else {
        for of_resource in ExportMetricsServiceRequest::decode(body).unwrap().resource_metrics {
            for metric in of_resource.scope_metrics.into_iter().flat_map(|scope| scope.metrics) {
                let Some(Data::Gauge(gauge)) = metric.data else { panic!("{metric:?}") };
                for point in gauge.data_points {
                    let mut labels = texts(&point.attributes);
                    sent.commands.extend(labels.remove("command"));
                    labels.remove("fleet");
                    let labels: Vec<String> =
                        labels.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
                    let Some(number_data_point::Value::AsDouble(value)) = point.value else { panic!("{point:?}") };
                    sent.metrics.insert(format!("{}{{{}}}", metric.name, labels.join(",")), value);
                }
            }
        }
    }
    sent.requests.push((uri, headers));
    status
}

impl Collector {
    fn start(status: StatusCode) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let sent = Arc::new(Mutex::new(Sent::default()));
        let router = Router::new().fallback(take).with_state((Arc::clone(&sent), status));
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        runtime.spawn(async move { axum::serve(listener, router).await });
        Self { address, sent, _runtime: runtime }
    }
}

fn run_with_export(mut command: Command, address: &str, more: &[(&str, &str)]) -> Run {
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{address}")).envs(more.iter().copied());
    Run::of(command)
}

#[test]
fn exports_spans_and_metrics_of_sync() {
    let folder = gpu();
    let cluster = Cluster::start(&["gpu"], 3, &["gpu-3=validate-error"]);
    let collector = Collector::start(StatusCode::OK);
    let environment = [
        ("TRACEPARENT", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20s3cret"),
        ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test"),
        ("NODECFG_LOG", "trace"),
    ];
    let run = run_with_export(cluster.command(folder.path(), "sync"), &collector.address, &environment);
    assert_eq!(run.exit, 5, "{}", run.err);
    assert!(!run.err.contains("OpenTelemetry") && !run.err.contains("s3cret"), "{}", run.err);
    assert!(!run.err.contains("transition"), "spans are no logs: {}", run.err);

    let sent = collector.sent.lock().unwrap();
    assert_eq!(sent.requests.len(), 2, "one of each");
    for (_, headers) in &sent.requests {
        assert_eq!(headers["authorization"], "Bearer s3cret");
        assert_eq!(headers["content-type"], "application/x-protobuf");
    }
    assert_eq!(sent.resource["service.name"], "nodecfg");
    assert_eq!(sent.resource["service.version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(sent.resource["deployment.environment.name"], "test");

    let named = |name: &str| sent.spans.iter().filter(|span| span.name == name).collect::<Vec<_>>();
    let [root] = named("nodecfg sync")[..] else { panic!("{:?}", sent.spans) };
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(hex(&root.trace_id), "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(hex(&root.parent_span_id), "b7ad6b7169203331");
    let attributes = texts(&root.attributes);
    assert_eq!((attributes["process.exit.code"].as_str(), attributes["nodecfg.fleet"].as_str()), ("5", "prod"));
    assert_eq!(attributes["error.type"], "exit-code");
    assert_eq!(root.status.as_ref().unwrap().code, 2);
    for span in &sent.spans {
        assert_eq!(span.trace_id, root.trace_id, "{span:?}");
        assert!(span.end_time_unix_nano >= span.start_time_unix_nano);
    }
    for stage in ["load", "observe", "plan", "lock", "rollout"] {
        let [span] = named(stage)[..] else { panic!("{stage}: {:?}", sent.spans) };
        assert_eq!(span.parent_span_id, root.span_id, "{stage}");
    }
    let [rollout] = named("rollout")[..] else { panic!() };
    let transitions = named("transition");
    assert!(transitions.iter().all(|span| span.parent_span_id == rollout.span_id));
    let events = |span: &Span| span.events.iter().map(|event| event.name.clone()).collect::<Vec<_>>();
    let failed = transitions.iter().find(|span| texts(&span.attributes)["k8s.node.name"] == "gpu-3");
    // Nodes start one by one in the order of their names, but any node may be the canary.
    if let Some(failed) = failed {
        assert_eq!(failed.status.as_ref().unwrap().code, 2, "{failed:?}");
        assert_eq!(events(failed).last().unwrap(), "failed");
    }
    let good = transitions.iter().find(|span| events(span).last().is_some_and(|last| last == "converged"));
    assert_eq!(events(good.expect("a node that converged")).first().unwrap(), "assigned");

    assert_eq!(sent.metrics["nodecfg.run.exit_code{}"], 5.0, "{:?}", sent.metrics);
    assert_eq!(sent.metrics["nodecfg.nodes{pool=gpu,state=failed}"], 1.0);
    assert!(sent.metrics.contains_key("nodecfg.run.duration{}"));
}

#[test]
fn limited_runs_are_commands_of_their_own() {
    let folder = gpu();
    let cluster = Cluster::start(&["gpu"], 2, &[]);
    let collector = Collector::start(StatusCode::OK);
    let label = "-l nodecfg.dev/pool=gpu";
    for (line, exit, command) in [
        ("diff --pool gpu".to_owned(), 1, "diff-limited"),
        ("sync --pool gpu --dry-run".to_owned(), 0, "dry-run"),
        (format!("sync {label}"), 0, "sync-limited"),
        ("verify --pool gpu".to_owned(), 0, "verify-limited"),
        (format!("diff {label}"), 0, "diff-limited"),
        ("diff".to_owned(), 0, "diff"),
    ] {
        let run = run_with_export(cluster.command(folder.path(), &line), &collector.address, &[]);
        assert_eq!(run.exit, exit, "{line}: {}", run.shown());
        let sent = std::mem::take(&mut *collector.sent.lock().unwrap());
        assert_eq!(sent.commands, BTreeSet::from([command.to_owned()]), "{line}");
        assert!(sent.spans.iter().any(|span| span.name == format!("nodecfg {command}")), "{line}: {:?}", sent.spans);
        assert_eq!(sent.metrics["nodecfg.run.exit_code{}"], f64::from(exit), "{line}");
        // A limited diff that finds changes succeeds, too.
        assert!(sent.metrics.contains_key("nodecfg.run.last_success.timestamp{}"), "{line}: {:?}", sent.metrics);
    }
}

#[test]
fn verifies_certificate_of_collector() {
    let folder = gpu();
    let cluster = Cluster::start(&["gpu"], 1, &[]);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let sent = Arc::new(Mutex::new(Sent::default()));
    let router = Router::new().fallback(take).with_state((Arc::clone(&sent), StatusCode::OK));
    let serving = runtime.block_on(serve::serve(router, serve::Options::default())).unwrap();
    let authority = folder.path().join(".git/authority.pem");
    std::fs::write(&authority, serving.ca_pem()).unwrap();
    let run = |trusted: Option<&Path>| {
        let mut command = cluster.command(folder.path(), "diff");
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", serving.url());
        if let Some(authority) = trusted {
            command.env("SSL_CERT_FILE", authority);
        }
        Run::of(command)
    };
    let run_trusted = run(Some(&authority));
    assert_eq!(run_trusted.exit, 1);
    assert!(!run_trusted.err.contains("OpenTelemetry"), "{}", run_trusted.err);
    assert_eq!(std::mem::take(&mut *sent.lock().unwrap()).requests.len(), 2);
    // Certificate of an unknown authority.
    let run_untrusted = run(None);
    assert_eq!((run_untrusted.exit, &run_untrusted.out), (1, &run_trusted.out));
    assert_eq!(run_untrusted.err.matches("could not be sent").count(), 2, "{}", run_untrusted.err);
    assert!(run_untrusted.err.contains("certificate"), "{}", run_untrusted.err);
    assert!(sent.lock().unwrap().requests.is_empty());
}

#[test]
fn unreachable_collector_keeps_exit_code_and_output() {
    let folder = gpu();
    let cluster = Cluster::start(&["gpu"], 1, &[]);
    let plain = cluster.run(folder.path(), "sync --dry-run");

    // A server that accepts connections and never answers.
    let deaf = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = deaf.local_addr().unwrap().to_string();
    let secret = ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=s3cret");
    let limit = [("OTEL_EXPORTER_OTLP_TIMEOUT", "300"), secret];
    let started = Instant::now();
    let run = run_with_export(cluster.command(folder.path(), "sync --dry-run"), &address, &limit);
    // Far from both the timeout and the hour that a run without a timeout would take.
    assert!(started.elapsed() < Duration::from_secs(180));
    assert_eq!((run.exit, &run.out), (plain.exit, &plain.out));
    for what in ["traces", "metrics"] {
        assert_eq!(
            run.err.matches(&format!("OpenTelemetry: {what} could not be sent to {address}")).count(),
            1,
            "{}",
            run.err
        );
    }
    drop(deaf);

    // The collector answers at once, but a busy machine may exceed any limit.
    let limit = [("OTEL_EXPORTER_OTLP_TIMEOUT", "0"), secret];
    let run = run_with_export(cluster.command(folder.path(), "sync --dry-run"), &address, &limit);
    assert_eq!((run.exit, &run.out), (plain.exit, &plain.out));
    assert_eq!(run.err.matches("could not be sent").count(), 2, "{}", run.err);
    assert!(run.err.contains("refused"), "{}", run.err);
    assert!(!run.err.contains("s3cret"));

    // The collector rejects the credentials.
    let collector = Collector::start(StatusCode::UNAUTHORIZED);
    let run = run_with_export(cluster.command(folder.path(), "sync --dry-run"), &collector.address, &limit);
    assert_eq!((run.exit, &run.out), (plain.exit, &plain.out));
    assert!(run.err.contains("it returns 401"), "{}", run.err);
}

#[test]
fn warns_about_unsupported_settings() {
    let folder = gpu();
    let cluster = Cluster::start(&["gpu"], 1, &[]);
    let run = run_with_export(
        cluster.command(folder.path(), "diff"),
        "127.0.0.1:1",
        &[("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")],
    );
    assert_eq!(run.exit, 1);
    assert_eq!(run.err.matches("OTEL_EXPORTER_OTLP_PROTOCOL=grpc is not supported").count(), 1, "{}", run.err);
    let run = run_with_export(cluster.command(folder.path(), "diff"), "127.0.0.1:1", &[("OTEL_SDK_DISABLED", "true")]);
    assert!(!run.err.contains("OpenTelemetry"), "{}", run.err);
}

#[test]
fn exports_runs_that_fail_to_start() {
    let folder = Folder::with(&[]);
    let collector = Collector::start(StatusCode::OK);
    let run = run_with_export(crate::cli::program::nodecfg(folder.path()), &collector.address, &[]);
    assert_eq!(run.exit, 2);
    assert!(collector.sent.lock().unwrap().requests.is_empty(), "help is no run");
    let mut verify = crate::cli::program::nodecfg(folder.path());
    verify.args(["verify", "missing"]);
    assert_eq!(run_with_export(verify, &collector.address, &[]).exit, 3);
    let sent = collector.sent.lock().unwrap();
    assert_eq!(sent.metrics["nodecfg.run.failure{kind=repository}"], 1.0, "{:?}", sent.metrics);
    let root = sent.spans.iter().find(|span| span.name == "nodecfg verify").unwrap();
    assert_eq!(texts(&root.attributes)["error.type"], "repository");
}
