//! Metrics for Prometheus. The kubelet's metrics for Dynamic Kubelet Configuration (`pkg/kubelet/metrics`, 1.11 to
//! 1.23) keep their names and labels, so that existing dashboards work. Other metrics start with `nodecfg_agent_`.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::ledger::{Ledger, Phase};
use nodecfg_contract::ConfigSource;

/// Media type of [`Metrics::text`].
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Metrics of the node's configuration. Clones share their values.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    view: SharedView,
}

/// Exported values, shared by the agent and the scrapes.
type SharedView = Arc<Mutex<Option<View>>>;

#[derive(Debug, Clone)]
struct View {
    ledger: Ledger,
    error: bool,
}

impl Metrics {
    /// Replaces the exported values. `error`: `status.config.error` is set.
    pub fn update(&self, ledger: &Ledger, error: bool) {
        let view = View { ledger: ledger.clone(), error };
        *self.view.lock().unwrap_or_else(PoisonError::into_inner) = Some(view);
    }

    /// Response to a scrape, in the OpenMetrics text format.
    #[must_use]
    pub fn text(&self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Scrape { view: Arc::clone(&self.view) }));
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
    view: SharedView,
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let build = encoder.encode_descriptor(
            "nodecfg_agent_build_info",
            "Version of the agent. Always 1",
            None,
            MetricType::Gauge,
        );
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        ConstGauge::new(1_i64).encode(build?.encode_family(&version)?)?;

        let Some(View { ledger, error }) = self.view.lock().unwrap_or_else(PoisonError::into_inner).clone() else {
            return Ok(());
        };
        for (name, help, source) in [
            ("assigned", "Configuration assigned to the node. Always 1", &ledger.assigned),
            ("active", "Configuration that the kubelet runs. Always 1", &ledger.agent_state.active),
            (
                "last_known_good",
                "Configuration that the kubelet returns to when the assignment fails. Always 1",
                &ledger.last_known_good,
            ),
        ] {
            let name = format!("kubelet_node_config_{name}");
            let mut metric = encoder.encode_descriptor(&name, help, None, MetricType::Gauge)?;
            ConstGauge::new(1_i64).encode(metric.encode_family(&labels(source.as_ref()))?)?;
        }
        let gauges = [
            ("kubelet_node_config_error", "Whether status.config.error is set (1) or not (0)", error),
            (
                "nodecfg_agent_trial",
                "Whether the kubelet is on trial after a restart (1) or not (0)",
                matches!(ledger.agent_state.phase, Phase::Trying(_)),
            ),
        ];
        for (name, help, holds) in gauges {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(i64::from(holds)).encode(metric)?;
        }
        let counters = [
            (
                "nodecfg_agent_restarts",
                "Restarts of the kubelet by the agent. The count survives restarts of the agent",
                ledger.agent_state.restarts,
            ),
            (
                "nodecfg_agent_rollbacks",
                "Rollbacks to the last known good configuration. The count survives restarts of the agent",
                ledger.agent_state.rollbacks,
            ),
        ];
        for (name, help, count) in counters {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(count).encode(metric)?;
        }
        Ok(())
    }
}

/// The kubelet's labels for a source: `local` or the path of the ConfigMap.
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
    use crate::ledger::{AgentState, Trial};

    fn source(name: &str) -> ConfigSource {
        let mut source = ConfigSource::config_map("kube-system", name, "kubelet");
        if let Some(map) = source.config_map_mut() {
            (map.uid, map.resource_version) = (Some("u-1".to_owned()), Some("7".to_owned()));
        }
        source
    }

    #[test]
    fn exports_all_metrics() {
        let metrics = Metrics::default();
        let trial = Trial {
            started: jiff::Timestamp::UNIX_EPOCH,
            before: None,
            healthy_since: None,
            unhealthy_since: None,
            interruptions: 0,
        };
        let ledger = Ledger {
            assigned: Some(source("new")),
            last_known_good: None,
            agent_state: AgentState {
                phase: Phase::Trying(trial),
                active: Some(source("old\"\n")),
                restarts: 3,
                rollbacks: 1,
                ..AgentState::default()
            },
        };
        metrics.update(&ledger, true);
        insta::assert_snapshot!(metrics.text());
    }

    #[test]
    fn exports_local_configuration() {
        let metrics = Metrics::default();
        assert!(!metrics.text().contains("kubelet_node_config"));
        metrics.clone().update(&Ledger::default(), false);
        let text = metrics.text();
        assert!(text.contains("kubelet_node_config_error 0\n"), "{text}");
        assert_eq!(text.matches("node_config_source=\"local\",node_config_uid=\"\"").count(), 3, "{text}");
        assert!(text.ends_with("# EOF\n"));
    }
}
