//! Reads of the pods on nodes that a plan drains, for reviews. A plan without drains causes no request.

use std::collections::BTreeMap;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use tracing::Instrument as _;

use crate::review::{Review, UnreadPods};
use crate::telemetry::spans;
use nodecfg_cluster::{ClusterError, ClusterReader};
use nodecfg_contract::names::NodeName;
use nodecfg_plan::Plan;
use nodecfg_plan::drain::forecast::{Forecaster, JudgedPod, NodeForecast, drained_nodes};

/// Maximum number of nodes whose pods are listed one by one. For more nodes, one list of all pods costs less.
const MAX_LISTED: usize = 20;
/// Number of concurrent requests.
const MAX_CONCURRENT: usize = 4;

/// Adds the pods on the nodes that the plan drains to its review. A failed request leaves them unknown, because the
/// plan does not need them.
pub(crate) async fn with_drained_pods(review: Review, plan: &Plan, reader: &ClusterReader) -> Review {
    if review.drains() == 0 {
        return review;
    }
    let pods = forecast(plan, reader).instrument(spans::stage("forecast")).await;
    let pods = pods.map_err(|error| {
        tracing::debug!(%error, "the pods to evict are unknown");
        UnreadPods { error: error.to_string(), help: help(&error) }
    });
    review.with_drained_pods(&pods)
}

/// The fix of an error. A review needs fewer rights than a drain.
fn help(error: &ClusterError) -> String {
    match error {
        ClusterError::Forbidden { .. } => {
            "bind the user to the ClusterRole nodecfg-forecaster of deploy/forecaster".to_owned()
        }
        other => other.help(),
    }
}

async fn forecast(plan: &Plan, reader: &ClusterReader) -> Result<BTreeMap<NodeName, NodeForecast>, ClusterError> {
    // Budgets first: each pod is judged as it arrives.
    let forecaster = Forecaster::new(drained_nodes(plan), reader.list_pod_budgets().await?);
    let judged: Vec<JudgedPod<'_>> = if forecaster.nodes().len() > MAX_LISTED {
        reader.list_pods(|pod| forecaster.judge(&pod)).await?
    } else {
        let requests = forecaster.nodes().map(|node| reader.list_pods_on(node));
        let pods: Vec<Vec<JudgedPod<'_>>> = stream::iter(requests)
            .buffered(MAX_CONCURRENT)
            .map_ok(|pods| pods.iter().filter_map(|pod| forecaster.judge(pod)).collect())
            .try_collect()
            .await?;
        pods.into_iter().flatten().collect()
    };
    Ok(forecaster.forecast(judged))
}
