//! The export to an OpenTelemetry collector, over HTTP with protobuf: set up when a run begins, sent when it ends.
//!
//! Spans are kept until then: a run that is not asked for telemetry starts no thread, and one that is talks to nobody but the
//! cluster while nodes are at stake. Sending takes no longer than the time limit, whatever the collector does, and no error
//! gets further than its text.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry::metrics::MeterProvider as _;
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{Context, KeyValue};
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{Protocol, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracerProvider, Span, SpanData, SpanExporter as _, SpanProcessor};
use tokio::runtime::Handle;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::layer::Layer;
use tracing_subscriber::registry::LookupSpan;

use super::metrics::{ALL, Sample};
use super::settings::{Settings, Signal};
use super::spans::TARGET;

/// What tells how the sending of one kind of data went.
type Sent = mpsc::Receiver<Result<(), String>>;

/// How many spans are kept. A rollout has one for each node, and Kubernetes is said to bear 5,000 nodes.
const SPANS: usize = 100_000;
/// How many spans are sent at a time.
const BATCH: usize = 512;
/// How much of an answer is read, in bytes.
const ANSWER: usize = 4 << 20;
/// The name of the instrumentation.
const SCOPE: &str = "nodecfg";

/// An export that was asked for.
#[derive(Debug)]
pub struct Export {
    settings: Settings,
    resource: Resource,
    spans: Kept,
    /// Lives as long as spans may end.
    tracer: Option<SdkTracerProvider>,
}

impl Export {
    /// What these settings ask for. `None`: nothing.
    #[must_use]
    pub fn new(settings: Settings) -> Option<Self> {
        if settings.traces.is_none() && settings.metrics.is_none() {
            return None;
        }
        // OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES go before these.
        let resource = Resource::builder_empty()
            .with_attributes([
                KeyValue::new("service.name", "nodecfg"),
                KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            ])
            .with_detectors(&[
                Box::new(opentelemetry_sdk::resource::TelemetryResourceDetector),
                Box::new(opentelemetry_sdk::resource::EnvResourceDetector::new()),
            ])
            .with_attributes(named(settings.service.as_deref()))
            .build();
        let spans = Kept::default();
        let tracer = settings.traces.is_some().then(|| {
            let processor = spans.clone();
            SdkTracerProvider::builder().with_span_processor(processor).with_resource(resource.clone()).build()
        });
        Some(Self { settings, resource, spans, tracer })
    }

    /// What takes the spans, beside the logs. `None` when only metrics are exported.
    #[must_use]
    pub fn layer<S>(&self) -> Option<Box<dyn Layer<S> + Send + Sync>>
    where
        S: tracing::Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        let layer = tracing_opentelemetry::layer()
            .with_tracer(self.tracer.as_ref()?.tracer(SCOPE))
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_target(false)
            .with_level(false)
            .with_filter(tracing_subscriber::filter::filter_fn(|metadata| metadata.target() == TARGET));
        Some(Box::new(layer))
    }

    /// Puts a span into the trace of whoever started this process, when that said which.
    pub fn join(&self, span: &tracing::Span) {
        let carrier = self.settings.parent.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
        let carrier: std::collections::HashMap<String, String> = carrier.collect();
        let parent = TraceContextPropagator::new().extract_with_context(&Context::new(), &carrier);
        // Without a layer that takes spans there is nothing to join.
        let _ = span.set_parent(parent);
    }

    /// Sends everything, and ends. Whatever the collector does, this takes no longer than the longest of the time limits.
    ///
    /// # Errors
    /// What went wrong, for each kind of data.
    pub fn finish(self, samples: &[Sample]) -> Result<(), Vec<String>> {
        // A runtime of its own: that of the command is gone.
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| vec![format!("telemetry could not be sent: {error}")])?;
        let Self { settings, resource, spans, tracer } = self;
        let mut awaited: Vec<(&str, &Signal, Sent)> = Vec::new();
        if let Some(signal) = &settings.traces {
            let (spans, resource, handle, to) =
                (spans.take(), resource.clone(), runtime.handle().clone(), signal.clone());
            awaited.push(("traces", signal, in_background(move || send_spans(spans, &resource, &to, &handle))));
        }
        if let Some(signal) = &settings.metrics {
            let (samples, handle, to) = (samples.to_vec(), runtime.handle().clone(), signal.clone());
            awaited.push(("metrics", signal, in_background(move || send_metrics(samples, resource, &to, &handle))));
        }
        let started = nodecfg_clock::instant();
        let mut problems = Vec::new();
        for (what, signal, sent) in awaited {
            let left = signal.timeout.saturating_sub(started.elapsed());
            let result = sent.recv_timeout(left).unwrap_or_else(|_| Err(format!("no answer in {:?}", signal.timeout)));
            if let Err(error) = result {
                problems.push(format!("{what} could not be sent to {}: {error}", signal.host()));
            }
        }
        drop(tracer);
        runtime.shutdown_background();
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }
}

fn named(service: Option<&str>) -> Option<KeyValue> {
    service.map(|name| KeyValue::new("service.name", name.to_owned()))
}

/// Does this in a thread of its own, which nobody waits for longer than they like.
fn in_background<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> mpsc::Receiver<T> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        // Whoever does not wait any more need not be told.
        let _ = sender.send(work());
    });
    receiver
}

/// An exporter, of whatever it exports, that sends to this collector.
fn reaching<E: WithExportConfig + WithHttpConfig>(
    exporter: E,
    to: &Signal,
    handle: &Handle,
    trouble: &LastError,
) -> Result<E, String> {
    Ok(exporter
        .with_http_client(Hyper::new(to, handle, trouble)?)
        .with_headers(to.headers.clone().into_iter().collect())
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(to.endpoint.to_string())
        .with_timeout(to.timeout))
}

fn send_spans(spans: (Vec<SpanData>, usize), resource: &Resource, to: &Signal, handle: &Handle) -> Result<(), String> {
    let (mut spans, dropped) = spans;
    let trouble = LastError::default();
    let exporter = reaching(opentelemetry_otlp::SpanExporter::builder().with_http(), to, handle, &trouble)?;
    let mut exporter = exporter.build().map_err(|error| error.to_string())?;
    exporter.set_resource(resource);
    while !spans.is_empty() {
        let batch: Vec<SpanData> = spans.drain(..spans.len().min(BATCH)).collect();
        handle.block_on(exporter.export(batch)).map_err(|error| trouble.told(&error))?;
    }
    if dropped > 0 { Err(format!("{dropped} spans were too many to keep")) } else { Ok(()) }
}

fn send_metrics(samples: Vec<Sample>, resource: Resource, to: &Signal, handle: &Handle) -> Result<(), String> {
    let trouble = LastError::default();
    let exporter = reaching(opentelemetry_otlp::MetricExporter::builder().with_http(), to, handle, &trouble)?;
    let exporter = exporter.build().map_err(|error| error.to_string())?;
    // It sends when it is asked to, and never of its own accord.
    let reader = PeriodicReader::builder(exporter).with_interval(Duration::from_secs(24 * 3600)).build();
    let provider = SdkMeterProvider::builder().with_reader(reader).with_resource(resource).build();
    let meter = provider.meter(SCOPE);
    for metric in ALL {
        let own: Vec<&Sample> = samples.iter().filter(|sample| sample.metric == *metric).collect();
        if own.is_empty() {
            continue;
        }
        let gauge = meter.f64_gauge(metric.otel).with_description(metric.help).with_unit(metric.unit).build();
        for sample in own {
            let labels = sample.labels.iter().map(|(name, value)| KeyValue::new(*name, value.clone()));
            gauge.record(sample.value, &labels.collect::<Vec<_>>());
        }
    }
    let sent = provider.force_flush().map_err(|error| trouble.told(&error));
    // Its end would send everything once more, and wait for 5 s whatever the time limit. The process ends now.
    std::mem::forget(provider);
    sent
}

/// Spans that have ended, until they are sent.
#[derive(Debug, Clone, Default)]
struct Kept(Arc<Mutex<(Vec<SpanData>, usize)>>);

impl Kept {
    fn take(&self) -> (Vec<SpanData>, usize) {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl SpanProcessor for Kept {
    fn on_start(&self, _span: &mut Span, _context: &Context) {}

    fn on_end(&self, span: SpanData) {
        let (spans, dropped) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if spans.len() < SPANS {
            spans.push(span);
        } else {
            *dropped += 1;
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// What last went wrong with a request, which the exporters do not pass on.
#[derive(Debug, Clone, Default)]
struct LastError(Arc<Mutex<Option<String>>>);

impl LastError {
    fn note(&self, text: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }

    fn told(&self, otherwise: &dyn fmt::Display) -> String {
        let noted = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        noted.unwrap_or_else(|| otherwise.to_string())
    }
}

/// An error with its causes: that of the client alone says no more than that it could not connect.
fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// The HTTP client of the exporters, which call it from threads that have no runtime.
struct Hyper {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    handle: Handle,
    timeout: Duration,
    trouble: LastError,
}

impl Hyper {
    fn new(to: &Signal, handle: &Handle, trouble: &LastError) -> Result<Self, String> {
        let connector = HttpsConnectorBuilder::new();
        let tls = to.endpoint.scheme_str() == Some("https");
        // Certificates are looked for only where they are needed: an image may have none.
        let connector = if tls {
            let provider = rustls::crypto::ring::default_provider();
            connector
                .with_provider_and_native_roots(provider)
                .map_err(|error| format!("no certificates of authorities: {error}"))?
                .https_only()
                .enable_http1()
                .build()
        } else {
            let roots = rustls::RootCertStore::empty();
            let config =
                rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                    .with_safe_default_protocol_versions()
                    .map_err(|error| error.to_string())?
                    .with_root_certificates(roots)
                    .with_no_client_auth();
            connector.with_tls_config(config).https_or_http().enable_http1().build()
        };
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { client, handle: handle.clone(), timeout: to.timeout, trouble: trouble.clone() })
    }
}

impl fmt::Debug for Hyper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hyper").finish_non_exhaustive()
    }
}

impl HttpClient for Hyper {
    // As the macro async_trait would write it.
    fn send_bytes<'a, 'f>(
        &'a self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'f>>
    where
        'a: 'f,
        Self: 'f,
    {
        let (client, timeout) = (self.client.clone(), self.timeout);
        let exchange = async move {
            let response = client.request(request.map(Full::new)).await?;
            let (parts, body) = response.into_parts();
            let body = Limited::new(body, ANSWER).collect().await?.to_bytes();
            Ok::<_, HttpError>(Response::from_parts(parts, body))
        };
        let sent = self.handle.spawn(async move { tokio::time::timeout(timeout, exchange).await });
        let trouble = self.trouble.clone();
        Box::pin(async move {
            let answer = match sent.await? {
                Ok(answer) => answer,
                Err(_) => Err(format!("no answer in {timeout:?}").into()),
            };
            trouble.note(match &answer {
                Ok(response) if response.status().is_success() => None,
                // The body may repeat credentials.
                Ok(response) => Some(format!("it answers {}", response.status())),
                Err(error) => Some(with_causes(&**error)),
            });
            answer
        })
    }
}
