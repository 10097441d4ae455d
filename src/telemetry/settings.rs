//! What the environment says about OpenTelemetry, in the variables of its specification. Pure: the variables come in as a
//! function. The values of headers are credentials; nothing here shows them.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use http::Uri;

/// How long the end of a run may wait for a collector when nobody says otherwise. The specification has 10 s; a pipeline that
/// is done should not wait so long to learn that a collector is not there.
pub const TIMEOUT: Duration = Duration::from_secs(3);

/// Where one kind of data goes.
#[derive(Clone, PartialEq, Eq)]
pub struct Signal {
    /// The whole URL.
    pub endpoint: Uri,
    /// Headers of each request.
    pub headers: BTreeMap<String, String>,
    /// How long sending may take.
    pub timeout: Duration,
}

impl Signal {
    /// The host, for messages: a URL may hold a password.
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

/// What is to be exported.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// Spans.
    pub traces: Option<Signal>,
    /// Metrics.
    pub metrics: Option<Signal>,
    /// `TRACEPARENT` and `TRACESTATE`: the trace of whoever started this process, as W3C writes them.
    pub parent: BTreeMap<&'static str, String>,
    /// `OTEL_SERVICE_NAME`.
    pub service: Option<String>,
    /// What was asked for and cannot be had, in whole sentences.
    pub problems: Vec<String>,
}

/// The names of one signal.
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
    /// Reads the variables; an empty one counts as not set, as the specification has it.
    #[must_use]
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let variable =
            |name: &str| variable(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        if variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Self::default();
        }
        let mut problems = Vec::new();
        let mut signal = |names: &Names| match read_signal(names, &variable) {
            Ok(signal) => signal,
            Err(problem) => {
                // Both of them often have the same.
                if !problems.contains(&problem) {
                    problems.push(problem);
                }
                None
            }
        };
        let (traces, metrics) = (signal(&TRACES), signal(&METRICS));
        for (names, signal) in [(&TRACES, &traces), (&METRICS, &metrics)] {
            if signal.is_some() {
                for problem in ignored(names, &variable) {
                    if !problems.contains(&problem) {
                        problems.push(problem);
                    }
                }
            }
        }
        let parent = [("traceparent", "TRACEPARENT"), ("tracestate", "TRACESTATE")];
        let parent = parent.into_iter().filter_map(|(key, name)| Some((key, variable(name)?))).collect();
        Self { traces, metrics, parent, service: variable("OTEL_SERVICE_NAME"), problems }
    }
}

/// What is asked for and not done, though the data is sent.
fn ignored(names: &Names, variable: &impl Fn(&str) -> Option<String>) -> Vec<String> {
    let set = |suffix: &str| {
        [format!("OTEL_EXPORTER_OTLP_{}{suffix}", names.infix), format!("OTEL_EXPORTER_OTLP_{suffix}")]
            .into_iter()
            .find_map(|name| variable(&name).map(|value| (name, value)))
    };
    let certificate = set("CERTIFICATE").map(|(name, _)| {
        format!("{name} is not supported and has no effect: name the authorities' certificates in SSL_CERT_FILE")
    });
    let compression = set("COMPRESSION")
        .filter(|(_, value)| value != "none")
        .map(|(name, value)| format!("{name}={value} is not supported: what is sent is not compressed"));
    certificate.into_iter().chain(compression).collect()
}

fn read_signal(names: &Names, variable: &impl Fn(&str) -> Option<String>) -> Result<Option<Signal>, String> {
    let own = format!("OTEL_EXPORTER_OTLP_{}", names.infix);
    // The signal's own variable goes before the one for all signals.
    let either = |suffix: &str| {
        let named = |name: String| variable(&name).map(|value| (name, value));
        named(format!("{own}{suffix}")).or_else(|| named(format!("OTEL_EXPORTER_OTLP_{suffix}")))
    };
    let wanted = match variable(names.exporter).as_deref() {
        Some("none") => return Ok(None),
        Some("otlp") => true,
        Some(other) => {
            return Err(format!(
                "{}={other} is not supported; no {} are exported: use otlp or none",
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
            "{name}={protocol} is not supported, nothing is exported that way: use http/protobuf, at a collector usually on \
             port 4318"
        ));
    }
    let bad = || {
        // The value may hold a password.
        format!("the endpoint for {} is no http or https URL; no {} are exported", names.what, names.what)
    };
    let endpoint: Uri = endpoint.parse().map_err(|_| bad())?;
    if !matches!(endpoint.scheme_str(), Some("http" | "https")) || endpoint.host().is_none_or(str::is_empty) {
        return Err(bad());
    }
    let timeout = match either("TIMEOUT") {
        None => TIMEOUT,
        Some((name, text)) => Duration::from_millis(
            text.parse()
                .map_err(|_| format!("{name}={text} is no number of milliseconds; no {} are exported", names.what))?,
        ),
    };
    // Not of the other signal's host: what is for all goes first, what is for this one replaces it.
    let mut headers = BTreeMap::new();
    for name in ["OTEL_EXPORTER_OTLP_HEADERS".to_owned(), format!("{own}HEADERS")] {
        let Some(text) = variable(&name) else { continue };
        let parsed = parse_headers(&text)
            .ok_or_else(|| format!("{name} is no list of name=value pairs; no {} are exported", names.what))?;
        headers.extend(parsed);
    }
    Ok(Some(Signal { endpoint, headers, timeout }))
}

/// `name=value,name=value`, values percent-encoded.
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
            // A percent sign that encodes nothing is one: tokens are pasted as they are.
            None => {
                bytes.push(b'%');
                rest = after;
            }
        }
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8(bytes).ok()
}
