//! Metrics for Prometheus. Metrics that kubelets 1.11 to 1.23 had for Dynamic Kubelet Configuration (`pkg/kubelet/metrics`) keep
//! their names and labels, so that existing dashboards work. Other metrics start with `nodecfg_agent_`.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::state::{Ledger, Phase};
use nodecfg_contract::ConfigSource;

/// The media type of [`Metrics::text`].
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The node's configuration as metrics. Clones share their values.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    shown: Shown,
}

/// The exported values, shared by the agent and the scrapes.
type Shown = Arc<Mutex<Option<View>>>;

#[derive(Debug, Clone)]
struct View {
    ledger: Ledger,
    error: bool,
}

impl Metrics {
    /// Replaces the exported values. `error`: `status.config.error` is set.
    pub fn show(&self, ledger: &Ledger, error: bool) {
        let view = View { ledger: ledger.clone(), error };
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = Some(view);
    }

    /// The response to a scrape, in the OpenMetrics text format.
    #[must_use]
    pub fn text(&self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Scrape { shown: Arc::clone(&self.shown) }));
        let mut text = String::new();
        match prometheus_client::encoding::text::encode(&mut text, &registry) {
            Ok(()) => text,
            // Writing to a String does not fail.
            Err(fmt::Error) => String::new(),
        }
    }
}

#[derive(Debug)]
struct Scrape {
    shown: Shown,
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let build = encoder.encode_descriptor(
            "nodecfg_agent_build_info",
            "The version of the agent. Always 1",
            None,
            MetricType::Gauge,
        );
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        ConstGauge::new(1_i64).encode(build?.encode_family(&version)?)?;

        let Some(View { ledger, error }) = self.shown.lock().unwrap_or_else(PoisonError::into_inner).clone() else {
            return Ok(());
        };
        for (name, help, source) in [
            ("assigned", "The configuration that the node has taken as its assignment. Always 1", &ledger.assigned),
            ("active", "The configuration that the kubelet runs. Always 1", &ledger.beyond.active),
            (
                "last_known_good",
                "The configuration that the kubelet goes back to when the assignment fails. Always 1",
                &ledger.last_known_good,
            ),
        ] {
            let name = format!("kubelet_node_config_{name}");
            let mut metric = encoder.encode_descriptor(&name, help, None, MetricType::Gauge)?;
            ConstGauge::new(1_i64).encode(metric.encode_family(&labels(source.as_ref()))?)?;
        }
        let gauges = [
            (
                "kubelet_node_config_error",
                "Whether (1) or not (0) something is wrong with the assignment: status.config.error is set",
                error,
            ),
            (
                "nodecfg_agent_trial",
                "Whether (1) or not (0) the kubelet is watched after a restart",
                matches!(ledger.beyond.phase, Phase::Trying(_)),
            ),
        ];
        for (name, help, holds) in gauges {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(i64::from(holds)).encode(metric)?;
        }
        let counters = [
            (
                "nodecfg_agent_restarts",
                "Restarts of the kubelet by the agent, counted across its own restarts",
                ledger.beyond.restarts,
            ),
            (
                "nodecfg_agent_rollbacks",
                "Falls back to the last known good configuration, counted likewise",
                ledger.beyond.rollbacks,
            ),
        ];
        for (name, help, count) in counters {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(count).encode(metric)?;
        }
        Ok(())
    }
}

/// The kubelet's labels of a source: `local`, or the path of the ConfigMap.
fn labels(source: Option<&ConfigSource>) -> [(&'static str, String); 4] {
    let map = source.and_then(|source| source.config_map.as_ref());
    let path = map.map_or_else(
        || "local".to_owned(),
        |map| format!("/api/v1/namespaces/{}/configmaps/{}", map.namespace, map.name),
    );
    [
        ("node_config_source", path),
        ("node_config_uid", map.and_then(|map| map.uid.clone()).unwrap_or_default()),
        ("node_config_resource_version", map.and_then(|map| map.resource_version.clone()).unwrap_or_default()),
        ("node_config_kubelet_key", map.map(|map| map.kubelet_config_key.clone()).unwrap_or_default()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{AgentState, Trial};

    fn source(name: &str) -> ConfigSource {
        let mut source = ConfigSource::config_map("kube-system", name, "kubelet");
        if let Some(map) = &mut source.config_map {
            (map.uid, map.resource_version) = (Some("u-1".to_owned()), Some("7".to_owned()));
        }
        source
    }

    #[test]
    fn a_scrape_in_full() {
        let metrics = Metrics::default();
        let trial = Trial {
            started: jiff::Timestamp::UNIX_EPOCH,
            before: None,
            healthy_since: None,
            ailing_since: None,
            lapses: 0,
        };
        let ledger = Ledger {
            assigned: Some(source("new")),
            last_known_good: None,
            beyond: AgentState {
                phase: Phase::Trying(trial),
                active: Some(source("old\"\n")),
                restarts: 3,
                rollbacks: 1,
                ..AgentState::default()
            },
        };
        metrics.show(&ledger, true);
        insta::assert_snapshot!(metrics.text());
    }

    #[test]
    fn before_anything_is_known_and_when_the_node_runs_its_local_configuration() {
        let metrics = Metrics::default();
        assert!(!metrics.text().contains("kubelet_node_config"));
        metrics.clone().show(&Ledger::default(), false);
        let text = metrics.text();
        assert!(text.contains("kubelet_node_config_error 0\n"), "{text}");
        assert_eq!(text.matches("node_config_source=\"local\",node_config_uid=\"\"").count(), 3, "{text}");
        assert!(text.ends_with("# EOF\n"));
    }
}
