//! Reads of kubelet configurations: the `configz` of a kubelet, through the API server's node proxy.
//!
//! Both servers may refuse. The API server requires `get` on `nodes/proxy`, which allows much more than this request.
//! The API server then calls the kubelet as its own user. The kubelet requires `nodes/proxy` for that user or, since
//! 1.33, `nodes/configz`. The API server passes the kubelet's response on unchanged: plain text instead of a Status.

use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use http::Method;
use serde_json::{Map, Value};

use super::reader::ClusterReader;
use crate::connection::error::ClusterError;
use crate::connection::operation::{Operation, Resource, Verb};
use crate::connection::transport::{Call, Decode, append};
use nodecfg_contract::names::NodeName;

/// Limit of the bytes read from a response. A KubeletConfiguration has a few kilobytes.
const LIMIT: usize = 1 << 20;
/// Usual time limit of one kubelet's request with all its retries: a dead kubelet must not delay the others.
pub const CONFIGZ_PATIENCE: Duration = Duration::from_secs(10);
/// Number of concurrent requests.
const MAX_CONCURRENT: usize = 8;
/// Message of API servers for an unreachable kubelet (apimachinery, `pkg/util/proxy/transport.go`).
const UNREACHED: &str = "error trying to reach service";

impl ClusterReader {
    /// Configuration that the kubelet of a node runs, as the kubelet returns it: with defaults, without `apiVersion`
    /// and `kind`. `patience` limits the time of the request with all its retries.
    ///
    /// # Errors
    /// `Forbidden` when the API server refuses; `KubeletRefuses`, `KubeletUnreachable` and `KubeletSilent` for
    /// failures of the kubelet; `NotFound` when the Node is missing; every other [`ClusterError`] of a request.
    pub async fn configz(&self, node: &NodeName, patience: Duration) -> Result<Map<String, Value>, ClusterError> {
        let operation = Operation::on(Verb::Get, Resource::Configz, None, node.as_str());
        let call = Call::new(Method::GET, operation.path()).proxied();
        let transport = self.transport.within(self.transport.limits.total.min(patience));
        let answer = transport.call(&operation, &call, Bounded::default).await;
        let operation = Box::new(operation);
        match answer {
            Ok(Value::Object(mut answer)) => match answer.remove("kubeletconfig") {
                Some(Value::Object(configuration)) => Ok(configuration),
                _ => {
                    let message = "it contains no kubeletconfig".to_owned();
                    Err(ClusterError::Unexpected { operation, message })
                }
            },
            Ok(_) => Err(ClusterError::Unexpected { operation, message: "it is not a JSON object".to_owned() }),
            Err(ClusterError::TimedOut { last, .. }) if last.contains(UNREACHED) => {
                let message = last.split_once(UNREACHED).map_or(last.as_str(), |(_, why)| why).trim_start_matches(": ");
                Err(ClusterError::KubeletUnreachable { operation, message: message.to_owned() })
            }
            Err(error) => Err(error),
        }
    }

    /// Configurations of several nodes, read concurrently and returned in the order of `nodes`.
    pub async fn configz_of(
        &self,
        nodes: impl IntoIterator<Item = &NodeName>,
        patience: Duration,
    ) -> Vec<(NodeName, Result<Map<String, Value>, ClusterError>)> {
        let nodes: Vec<NodeName> = nodes.into_iter().cloned().collect();
        let requests = nodes.into_iter().map(|node| async move {
            let answer = self.configz(&node, patience).await;
            (node, answer)
        });
        stream::iter(requests).buffered(MAX_CONCURRENT).collect().await
    }
}

/// Decoder of a response of at most [`LIMIT`] bytes.
#[derive(Debug, Default)]
struct Bounded(Vec<u8>);

impl Decode for Bounded {
    type Out = Value;

    fn chunk(&mut self, bytes: &[u8]) -> Result<(), serde_json::Error> {
        append(&mut self.0, bytes, LIMIT)
    }

    fn finish(self) -> Result<Value, serde_json::Error> {
        serde_json::from_slice(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::retry::RetryPolicy;
    use crate::reading::reader::ReaderOptions;
    use nodecfg_sandbox::kubelets::{Fault, FaultSpec};
    use nodecfg_sandbox::machines::Options;
    use nodecfg_sandbox::nodes::generic;
    use nodecfg_sandbox::{Embedded, EmbeddedOptions, api::ServerProfile};

    async fn up(profile: ServerProfile) -> (Embedded, ClusterReader) {
        let fault = FaultSpec { node: None, fault: Fault::Slow(1.0) };
        let options = EmbeddedOptions {
            profile,
            nodes: Options { speed: 100.0, faults: [fault].into_iter().collect(), ..Options::default() },
            ..EmbeddedOptions::default()
        };
        let specs = generic(3, &[], profile.git_version()).unwrap();
        let embedded = Embedded::start(options, specs).await.unwrap();
        let delay = Duration::from_millis(5);
        let options = ReaderOptions {
            patience: Duration::from_millis(50),
            retry: RetryPolicy { first_delay: delay, longest_delay: delay },
            ..ReaderOptions::default()
        };
        let reader = ClusterReader::new(embedded.client(), "https://sandbox", options);
        (embedded, reader)
    }

    fn node(number: u32) -> NodeName {
        NodeName::new(format!("node-{number}")).unwrap()
    }

    #[tokio::test]
    async fn reads_configurations_in_the_given_order() {
        for (profile, burst) in [(ServerProfile::V1_21, 10), (ServerProfile::V1_36, 100)] {
            let (embedded, reader) = up(profile).await;
            let names = [node(3), node(1), node(2)];
            let shown = reader.configz_of(&names, CONFIGZ_PATIENCE).await;
            let order: Vec<&NodeName> = shown.iter().map(|(name, _)| name).collect();
            assert_eq!(order, [&names[0], &names[1], &names[2]]);
            for (_, configuration) in &shown {
                let configuration = configuration.as_ref().unwrap();
                assert_eq!(
                    (&configuration["cgroupDriver"], &configuration["eventBurst"]),
                    (&"systemd".into(), &burst.into())
                );
            }
            embedded.stop(None).await;
        }
    }

    #[tokio::test]
    async fn refusal_names_the_refusing_server_and_the_fix() {
        for profile in [ServerProfile::V1_21, ServerProfile::V1_36] {
            let (embedded, reader) = up(profile).await;
            embedded.nodes().inject(&node(1), Some(Fault::Deaf)).unwrap();
            embedded.nodes().inject(&node(2), Some(Fault::RefusesConfigz)).unwrap();
            let error = reader.configz(&node(1), CONFIGZ_PATIENCE).await.unwrap_err();
            assert_eq!(error.code(), "kubelet-unreachable", "{error}");
            assert!(
                error.to_string().contains("node-1") && error.to_string().contains("connection refused"),
                "{error}"
            );
            let error = reader.configz(&node(2), CONFIGZ_PATIENCE).await.unwrap_err();
            assert_eq!(error.code(), "kubelet-refuses", "{error}");
            assert!(error.help().contains("system:kubelet-api-admin"), "{}", error.help());
            let error = reader.configz(&node(9), CONFIGZ_PATIENCE).await.unwrap_err();
            assert_eq!(error.code(), "object-missing", "{error}");
            embedded.api().deny("get", "nodes/proxy");
            let error = reader.configz(&node(3), CONFIGZ_PATIENCE).await.unwrap_err();
            assert_eq!(error.code(), "cluster-forbidden");
            assert!(error.to_string().contains("sandbox may not get nodes/proxy in the cluster"), "{error}");
            assert!(error.help().contains("nodecfg-capture"), "{}", error.help());
            embedded.stop(None).await;
        }
    }

    #[test]
    fn limits_the_bytes_of_a_response() {
        let mut bounded = Bounded::default();
        assert!((0..100).any(|_| bounded.chunk(&[b' '; 20_000]).is_err()));
    }
}
