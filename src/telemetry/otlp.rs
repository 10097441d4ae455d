//! Export to an OpenTelemetry collector over HTTP with protobuf: set up at the start of a run, sent at its end.
//!
//! Spans are buffered until the end. Without telemetry a run starts no thread; with telemetry it contacts the
//! collector only after the rollout. Sending respects the time limit, and an error is only reported as text.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::HttpsConnector;
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
use crate::https::{Authorities, connector, with_causes};

/// Receiver of the result of sending one kind of data.
type SendResult = mpsc::Receiver<Result<(), String>>;

/// Limit of buffered spans, far above a rollout's: it has one per node, and Kubernetes supports 5,000 nodes.
const MAX_SPANS: usize = 100_000;
/// Number of spans per request.
const SPANS_PER_REQUEST: usize = 512;
/// Limit of the bytes read from a response.
const RESPONSE_LIMIT: usize = 4 << 20;
/// Name of the instrumentation.
const SCOPE: &str = "nodecfg";

/// Requested export.
#[derive(Debug)]
pub struct Export {
    settings: Settings,
    resource: Resource,
    spans: SpanBuffer,
    /// Must live as long as spans may end.
    tracer: Option<SdkTracerProvider>,
}

impl Export {
    /// Export with these settings. `None`: nothing is requested.
    #[must_use]
    pub fn new(settings: &mut Settings) -> Option<Self> {
        if settings.traces.is_none() && settings.metrics.is_none() {
            return None;
        }
        let settings = std::mem::take(settings);
        // OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES override these attributes.
        let resource = Resource::builder_empty()
            .with_attributes([
                KeyValue::new("service.name", "nodecfg"),
                KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            ])
            .with_detectors(&[
                Box::new(opentelemetry_sdk::resource::TelemetryResourceDetector),
                Box::new(opentelemetry_sdk::resource::EnvResourceDetector::new()),
            ])
            .with_attributes(service_attribute(settings.service.as_deref()))
            .build();
        let spans = SpanBuffer::default();
        let tracer = settings.traces.is_some().then(|| {
            let processor = spans.clone();
            SdkTracerProvider::builder().with_span_processor(processor).with_resource(resource.clone()).build()
        });
        Some(Self { settings, resource, spans, tracer })
    }

    /// Layer that collects the spans. `None` when only metrics are exported.
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

    /// Adds a span to the trace of the parent process, if the environment names one.
    pub fn join(&self, span: &tracing::Span) {
        let carrier = self.settings.parent.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
        let carrier: std::collections::HashMap<String, String> = carrier.collect();
        let parent = TraceContextPropagator::new().extract_with_context(&Context::new(), &carrier);
        // An error means that no layer collects spans.
        let _ = span.set_parent(parent);
    }

    /// Sends all data and ends, at most after the longest of the time limits.
    ///
    /// # Errors
    /// One message for each kind of data that was not sent.
    pub fn finish(self, samples: &[Sample]) -> Result<(), Vec<String>> {
        // A new runtime: the command's runtime has ended.
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| vec![format!("telemetry could not be sent: {error}")])?;
        let Self { settings, resource, spans, tracer } = self;
        let mut awaited: Vec<(&str, &Signal, SendResult)> = Vec::new();
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
            let result =
                sent.recv_timeout(left).unwrap_or_else(|_| Err(format!("no response in {:?}", signal.timeout)));
            if let Err(error) = result {
                problems.push(format!("{what} could not be sent to {}: {error}", signal.host()));
            }
        }
        drop(tracer);
        runtime.shutdown_background();
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }
}

fn service_attribute(service: Option<&str>) -> Option<KeyValue> {
    service.map(|name| KeyValue::new("service.name", name.to_owned()))
}

/// Runs `work` in a new thread. The caller may stop waiting.
fn in_background<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> mpsc::Receiver<T> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        // The receiver may be closed.
        let _ = sender.send(work());
    });
    receiver
}

/// Configures an exporter for this collector.
fn configure<E: WithExportConfig + WithHttpConfig>(
    exporter: E,
    to: &Signal,
    handle: &Handle,
    last_error: &LastError,
) -> Result<E, String> {
    Ok(exporter
        .with_http_client(HyperClient::new(to, handle, last_error)?)
        .with_headers(to.headers.clone().into_iter().collect())
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(to.endpoint.to_string())
        .with_timeout(to.timeout))
}

fn send_spans(spans: (Vec<SpanData>, usize), resource: &Resource, to: &Signal, handle: &Handle) -> Result<(), String> {
    let (mut spans, dropped) = spans;
    let last_error = LastError::default();
    let exporter = configure(opentelemetry_otlp::SpanExporter::builder().with_http(), to, handle, &last_error)?;
    let mut exporter = exporter.build().map_err(|error| error.to_string())?;
    exporter.set_resource(resource);
    while !spans.is_empty() {
        let batch: Vec<SpanData> = spans.drain(..spans.len().min(SPANS_PER_REQUEST)).collect();
        handle.block_on(exporter.export(batch)).map_err(|error| last_error.message(&error))?;
    }
    if dropped > 0 { Err(format!("{dropped} spans exceeded the limit of {MAX_SPANS} spans")) } else { Ok(()) }
}

fn send_metrics(samples: Vec<Sample>, resource: Resource, to: &Signal, handle: &Handle) -> Result<(), String> {
    let last_error = LastError::default();
    let exporter = configure(opentelemetry_otlp::MetricExporter::builder().with_http(), to, handle, &last_error)?;
    let exporter = exporter.build().map_err(|error| error.to_string())?;
    // Sends only on request: the interval exceeds the duration of a run.
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
    let sent = provider.force_flush().map_err(|error| last_error.message(&error));
    // Dropping the provider would send all metrics again and wait for 5 s regardless of the time limit. The process
    // ends now.
    std::mem::forget(provider);
    sent
}

/// Buffer of ended spans, with the number of dropped spans.
#[derive(Debug, Clone, Default)]
struct SpanBuffer(Arc<Mutex<(Vec<SpanData>, usize)>>);

impl SpanBuffer {
    fn take(&self) -> (Vec<SpanData>, usize) {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl SpanProcessor for SpanBuffer {
    fn on_start(&self, _span: &mut Span, _context: &Context) {}

    fn on_end(&self, span: SpanData) {
        let (spans, dropped) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if spans.len() < MAX_SPANS {
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

/// Last error of a request, which the exporters do not pass on.
#[derive(Debug, Clone, Default)]
struct LastError(Arc<Mutex<Option<String>>>);

impl LastError {
    fn note(&self, text: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }

    fn message(&self, otherwise: &dyn fmt::Display) -> String {
        let noted = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        noted.unwrap_or_else(|| otherwise.to_string())
    }
}

/// HTTP client of the exporters, which call it from threads without a runtime.
struct HyperClient {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    handle: Handle,
    timeout: Duration,
    last_error: LastError,
}

impl HyperClient {
    fn new(to: &Signal, handle: &Handle, last_error: &LastError) -> Result<Self, String> {
        let tls = to.endpoint.scheme_str() == Some("https");
        let connector = connector(if tls { Authorities::Native } else { Authorities::None })?;
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { client, handle: handle.clone(), timeout: to.timeout, last_error: last_error.clone() })
    }
}

impl fmt::Debug for HyperClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HyperClient").finish_non_exhaustive()
    }
}

impl HttpClient for HyperClient {
    // Signature as the macro async_trait generates it.
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
            let body = Limited::new(body, RESPONSE_LIMIT).collect().await?.to_bytes();
            Ok::<_, HttpError>(Response::from_parts(parts, body))
        };
        let sent = self.handle.spawn(async move { tokio::time::timeout(timeout, exchange).await });
        let last_error = self.last_error.clone();
        Box::pin(async move {
            let response = match sent.await? {
                Ok(response) => response,
                Err(_) => Err(format!("no response in {timeout:?}").into()),
            };
            last_error.note(match &response {
                Ok(response) if response.status().is_success() => None,
                // The body may repeat credentials.
                Ok(response) => Some(format!("it returns {}", response.status())),
                Err(error) => Some(with_causes(&**error)),
            });
            response
        })
    }
}
