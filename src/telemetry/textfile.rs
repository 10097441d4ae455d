//! Metrics file for the textfile collector of node_exporter: rendering, atomic replacement, and reading of the values
//! that the next run carries over.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::facts::PreviousRun;
use super::metrics::{ALL, LAST_SUCCESS, RUN_INFO, Sample};
use crate::atomic_file::{Readers, replace};

/// Largest file that is read, in bytes. Files of nodecfg have a few KiB.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Samples in the text format of Prometheus and node_exporter.
#[must_use]
pub fn render(samples: &[Sample]) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Samples(samples.to_vec())));
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &registry) {
        Ok(()) => text,
        // Writing to a String never fails.
        Err(fmt::Error) => String::new(),
    }
}

#[derive(Debug)]
struct Samples(Vec<Sample>);

impl Collector for Samples {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for metric in ALL {
            let mut own = self.0.iter().filter(|sample| sample.metric == *metric).peekable();
            if own.peek().is_none() {
                continue;
            }
            let mut family = encoder.encode_descriptor(metric.name, metric.help, None, MetricType::Gauge)?;
            for sample in own {
                ConstGauge::new(sample.value).encode(family.encode_family(&sample.labels.as_slice())?)?;
            }
        }
        Ok(())
    }
}

/// Line of a file: name, labels, value.
pub type Line = (String, BTreeMap<String, String>, f64);

/// Parses comments and samples without timestamps, as [`render`] writes them. `None` for any other text.
#[must_use]
pub fn parse(text: &str) -> Option<Vec<Line>> {
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Line> {
    let (name, rest) = line.split_at(line.find(['{', ' '])?);
    let mut labels = BTreeMap::new();
    let mut rest = rest;
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        while !rest.starts_with('}') {
            let (label, after) = rest.split_once("=\"")?;
            let mut value = String::new();
            let mut characters = after.char_indices();
            let end = loop {
                match characters.next()? {
                    (at, '"') => break at,
                    (_, '\\') => value.push(match characters.next()?.1 {
                        'n' => '\n',
                        other => other,
                    }),
                    (_, other) => value.push(other),
                }
            };
            if labels.insert(label.to_owned(), value).is_some() {
                return None;
            }
            rest = after.get(end + 1..)?;
            rest = rest.strip_prefix(',').unwrap_or(rest);
        }
        rest = rest.strip_prefix('}')?;
    }
    Some((name.to_owned(), labels, rest.strip_prefix(' ')?.parse().ok()?))
}

/// Values of the previous run of this command. `None` when the file is missing, unreadable or too large, or has no
/// run of this command.
#[must_use]
pub fn before(path: &Path, command: &str) -> Option<PreviousRun> {
    let is_readable = fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() <= MAX_FILE_BYTES);
    carried_over(&is_readable.then(|| fs::read_to_string(path).ok())??, command)
}

/// Values to carry over from this text. `None` when the text is not a metrics file with a run of this command.
#[must_use]
pub fn carried_over(text: &str, command: &str) -> Option<PreviousRun> {
    let lines = parse(text)?;
    let of = |name: &str| {
        let is = |labels: &BTreeMap<String, String>| labels.get("command").is_some_and(|is| is == command);
        lines.iter().find(|(is_name, labels, _)| is_name == name && is(labels))
    };
    let (_, labels, _) = of(RUN_INFO.name)?;
    let last_success = of(LAST_SUCCESS.name).map(|(_, _, value)| *value).filter(|value| value.is_finite());
    Some(PreviousRun { fleet: labels.get("fleet").cloned().unwrap_or_default(), last_success })
}

/// Path of a file for the collector.
///
/// # Errors
/// The name does not end in `.prom`: node_exporter reads no other files.
pub fn path(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.extension().is_some_and(|extension| extension == "prom") && !text.ends_with('/') {
        Ok(path)
    } else {
        Err("the name must end in .prom: node_exporter reads no other files".to_owned())
    }
}

/// Replaces the file atomically, readable for all users: node_exporter is another user.
///
/// # Errors
/// The folder is missing or not writable. The old file then stays unchanged.
pub fn write(path: &Path, text: &str) -> io::Result<()> {
    replace(path, text.as_bytes(), Readers::Everyone)
}
