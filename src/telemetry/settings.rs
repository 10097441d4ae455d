//! OpenTelemetry settings from the environment variables of the specification. Pure: a function provides the
//! variables. Header values are credentials and must not be printed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use http::Uri;

/// Default time limit for sending at the end of a run. The specification has 10 s, which is too long for a finished
/// pipeline with an unreachable collector.
pub const TIMEOUT: Duration = Duration::from_secs(3);

/// Destination of one kind of data.
#[derive(Clone, PartialEq, Eq)]
pub struct Signal {
    /// Complete URL.
    pub endpoint: Uri,
    /// Headers of each request.
    pub headers: BTreeMap<String, String>,
    /// Time limit for sending. `Duration::MAX`: no limit.
    pub timeout: Duration,
}

impl Signal {
    /// Host for messages: a URL may contain a password.
    #[must_use]
    pub fn host(&self) -> String {
        let host = self.endpoint.host().unwrap_or_default();
        self.endpoint.port_u16().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&String> = self.headers.keys().collect();
        f.debug_struct("Signal")
            .field("host", &self.host())
            .field("headers", &names)
            .field("timeout", &self.timeout)
            .finish()
    }
}

/// Requested exports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// Spans.
    pub traces: Option<Signal>,
    /// Metrics.
    pub metrics: Option<Signal>,
    /// `TRACEPARENT` and `TRACESTATE` (W3C): the trace of the parent process.
    pub parent: BTreeMap<&'static str, String>,
    /// `OTEL_SERVICE_NAME`.
    pub service: Option<String>,
    /// Unsupported or invalid requests, in whole sentences.
    pub problems: Vec<String>,
}

/// Names of one signal.
struct Names {
    what: &'static str,
    exporter: &'static str,
    infix: &'static str,
    path: &'static str,
}

const TRACES: Names = Names { what: "traces", exporter: "OTEL_TRACES_EXPORTER", infix: "TRACES_", path: "v1/traces" };
const METRICS: Names =
    Names { what: "metrics", exporter: "OTEL_METRICS_EXPORTER", infix: "METRICS_", path: "v1/metrics" };

impl Settings {
    /// Reads the variables. An empty variable counts as unset, as in the specification.
    #[must_use]
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let variable =
            |name: &str| variable(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        if variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Self::default();
        }
        let mut problems = Vec::new();
        let mut signal = |names: &Names| {
            read_signal(names, &variable).unwrap_or_else(|problem| {
                problems.push(problem);
                None
            })
        };
        let (traces, metrics) = (signal(&TRACES), signal(&METRICS));
        for (names, signal) in [(&TRACES, &traces), (&METRICS, &metrics)] {
            problems.extend(signal.iter().flat_map(|_| ignored(names, &variable)));
        }
        // Both signals often have the same problem.
        let mut known = BTreeSet::new();
        problems.retain(|problem| known.insert(problem.clone()));
        let parent = [("traceparent", "TRACEPARENT"), ("tracestate", "TRACESTATE")];
        let parent = parent.into_iter().filter_map(|(key, name)| Some((key, variable(name)?))).collect();
        Self { traces, metrics, parent, service: variable("OTEL_SERVICE_NAME"), problems }
    }
}

/// Name and value of a variable. The variable of one signal overrides the variable of all signals.
fn either(names: &Names, suffix: &str, variable: &impl Fn(&str) -> Option<String>) -> Option<(String, String)> {
    [format!("OTEL_EXPORTER_OTLP_{}{suffix}", names.infix), format!("OTEL_EXPORTER_OTLP_{suffix}")]
        .into_iter()
        .find_map(|name| variable(&name).map(|value| (name, value)))
}

/// Settings without effect on data that is sent.
fn ignored(names: &Names, variable: &impl Fn(&str) -> Option<String>) -> Vec<String> {
    let certificate = either(names, "CERTIFICATE", variable)
        .map(|(name, _)| format!("{name} is not supported: set SSL_CERT_FILE to the certificates of the authorities"));
    let compression = either(names, "COMPRESSION", variable)
        .filter(|(_, value)| value != "none")
        .map(|(name, value)| format!("{name}={value} is not supported: the data is sent uncompressed"));
    certificate.into_iter().chain(compression).collect()
}

fn read_signal(names: &Names, variable: &impl Fn(&str) -> Option<String>) -> Result<Option<Signal>, String> {
    let own = format!("OTEL_EXPORTER_OTLP_{}", names.infix);
    let either = |suffix: &str| either(names, suffix, variable);
    let wanted = match variable(names.exporter).as_deref() {
        Some("none") => return Ok(None),
        Some("otlp") => true,
        Some(other) => {
            return Err(format!(
                "{}={other} is not supported, so no {} are exported: set it to otlp or none",
                names.exporter, names.what
            ));
        }
        None => false,
    };
    let endpoint = match (variable(&format!("{own}ENDPOINT")), variable("OTEL_EXPORTER_OTLP_ENDPOINT")) {
        (Some(endpoint), _) => endpoint,
        (None, Some(base)) => format!("{}/{}", base.trim_end_matches('/'), names.path),
        (None, None) if wanted => format!("http://localhost:4318/{}", names.path),
        (None, None) => return Ok(None),
    };
    if let Some((name, protocol)) = either("PROTOCOL").filter(|(_, protocol)| protocol != "http/protobuf") {
        return Err(format!(
            "{name}={protocol} is not supported, so its data is not exported: use http/protobuf, usually on port 4318 of a \
             collector"
        ));
    }
    let bad = || {
        // The value may contain a password.
        format!("the endpoint for {} is not an http or https URL, so no {} are exported", names.what, names.what)
    };
    let endpoint: Uri = endpoint.parse().map_err(|_| bad())?;
    if !matches!(endpoint.scheme_str(), Some("http" | "https")) || endpoint.host().is_none_or(str::is_empty) {
        return Err(bad());
    }
    let timeout = match either("TIMEOUT") {
        None => TIMEOUT,
        Some((name, text)) => match text.parse() {
            Ok(0) => Duration::MAX,
            Ok(milliseconds) => Duration::from_millis(milliseconds),
            Err(_) => {
                return Err(format!(
                    "{name}={text} is not a number of milliseconds, so no {} are exported",
                    names.what
                ));
            }
        },
    };
    // Headers of all signals first; headers of this signal override them.
    let mut headers = BTreeMap::new();
    for name in ["OTEL_EXPORTER_OTLP_HEADERS".to_owned(), format!("{own}HEADERS")] {
        let Some(text) = variable(&name) else { continue };
        let parsed = parse_headers(&text)
            .ok_or_else(|| format!("{name} is not a list of name=value pairs, so no {} are exported", names.what))?;
        headers.extend(parsed);
    }
    Ok(Some(Signal { endpoint, headers, timeout }))
}

/// Parses `name=value,name=value` with percent-encoded values.
fn parse_headers(text: &str) -> Option<BTreeMap<String, String>> {
    let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
    let parse = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        let (name, value) = (name.trim().to_ascii_lowercase(), percent_decoded(value.trim())?);
        http::HeaderName::try_from(name.as_str()).ok()?;
        http::HeaderValue::try_from(value.as_str()).ok()?;
        Some((name, value))
    };
    pairs.map(parse).collect()
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        bytes.extend_from_slice(before.as_bytes());
        match after.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..)?;
            }
            // A percent sign without two hex digits stands for itself: tokens may be unencoded.
            None => {
                bytes.push(b'%');
                rest = after;
            }
        }
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8(bytes).ok()
}
