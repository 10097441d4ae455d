//! What a kubelet says that it runs: its `configz`, through the API server's node proxy.
//!
//! Two servers are asked, and either may refuse. The API server wants `get` on `nodes/proxy`, which allows much more than this;
//! it then asks the kubelet in its own name, and the kubelet wants that user to have `nodes/proxy` or, since 1.33,
//! `nodes/configz`. What the kubelet answers comes back as it is: plain text where the API server would send a Status.

use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use http::Method;
use serde::de::Error as _;
use serde_json::{Map, Value};

use super::error::ClusterError;
use super::operation::{Operation, Resource, Verb};
use super::reader::ClusterReader;
use super::transport::{Call, Decode};
use nodecfg_contract::names::NodeName;

/// An answer is read no further than this. A KubeletConfiguration has a few kilobytes.
const LIMIT: usize = 1 << 20;
/// How long a kubelet that cannot be reached is tried again: one that is gone would hold everybody up.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many kubelets are asked at a time.
const AT_A_TIME: usize = 8;
/// What API servers say when they cannot reach a kubelet (apimachinery, `pkg/util/proxy/transport.go`).
const UNREACHED: &str = "error trying to reach service";

impl ClusterReader {
    /// The configuration that the kubelet of a node runs, as it shows it itself: with defaults, without `apiVersion` and `kind`.
    ///
    /// # Errors
    /// `Forbidden` when the API server refuses; `KubeletRefuses`, `KubeletUnreachable` and `KubeletSilent` when it is the
    /// kubelet; `NotFound` when there is no such Node; every other [`ClusterError`] of a request.
    pub async fn configz(&self, node: &NodeName) -> Result<Map<String, Value>, ClusterError> {
        let operation = Operation::on(Verb::Get, Resource::Configz, None, node.as_str());
        let call = Call::new(Method::GET, operation.path());
        let transport = self.transport.within(self.transport.limits.total.min(PATIENCE));
        let answer = transport.call(&operation, &call, Bounded::default).await;
        let operation = Box::new(operation);
        match answer {
            Ok(Value::Object(mut answer)) => match answer.remove("kubeletconfig") {
                Some(Value::Object(configuration)) => Ok(configuration),
                _ => {
                    let message = "it has no kubeletconfig".to_owned();
                    Err(ClusterError::Unexpected { operation, message })
                }
            },
            Ok(_) => Err(ClusterError::Unexpected { operation, message: "it is no JSON object".to_owned() }),
            Err(ClusterError::TimedOut { last, .. }) if last.contains(UNREACHED) => {
                let message = last.split_once(UNREACHED).map_or(last.as_str(), |(_, why)| why).trim_start_matches(": ");
                Err(ClusterError::KubeletUnreachable { operation, message: message.to_owned() })
            }
            Err(error) => Err(error),
        }
    }

    /// The same of several nodes, a few at a time, in the order in which they are named.
    pub async fn configz_of(
        &self,
        nodes: impl IntoIterator<Item = &NodeName>,
    ) -> Vec<(NodeName, Result<Map<String, Value>, ClusterError>)> {
        let nodes: Vec<NodeName> = nodes.into_iter().cloned().collect();
        let asked = nodes.into_iter().map(|node| async move {
            let answer = self.configz(&node).await;
            (node, answer)
        });
        stream::iter(asked).buffered(AT_A_TIME).collect().await
    }
}

/// The kubelet's own refusal, as far as a status and a text that is no Status tell it. `None` for everything else.
pub(super) fn refusal(operation: &Operation, code: u16, message: &str) -> Option<ClusterError> {
    let operation = || Box::new(operation.clone());
    match code {
        401 | 403 => Some(ClusterError::KubeletRefuses { operation: operation(), message: message.to_owned() }),
        404 | 405 => Some(ClusterError::KubeletSilent { operation: operation() }),
        _ => None,
    }
}

/// Decodes an answer that is not to be larger than [`LIMIT`].
#[derive(Debug, Default)]
struct Bounded(Vec<u8>);

impl Decode for Bounded {
    type Out = Value;

    fn chunk(&mut self, bytes: &[u8]) -> Result<(), serde_json::Error> {
        if self.0.len() + bytes.len() > LIMIT {
            return Err(serde_json::Error::custom("larger than any configuration"));
        }
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn finish(self) -> Result<Value, serde_json::Error> {
        serde_json::from_slice(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::ReaderOptions;
    use crate::retry::RetryPolicy;
    use nodecfg_sandbox::kubelets::{Fault, FaultSpec};
    use nodecfg_sandbox::nodes::generic;
    use nodecfg_sandbox::{Embedded, EmbeddedOptions, api::ServerProfile};

    async fn up(character: ServerProfile) -> (Embedded, ClusterReader) {
        let fault = FaultSpec { node: None, fault: Fault::Slow(1.0) };
        let options = EmbeddedOptions {
            character,
            speed: 100.0,
            faults: [fault].into_iter().collect(),
            ..EmbeddedOptions::default()
        };
        let specs = generic(3, &[], character.git_version()).unwrap();
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
    async fn kubelets_show_what_they_run() {
        for (character, burst) in [(ServerProfile::V1_21, 10), (ServerProfile::V1_36, 100)] {
            let (embedded, reader) = up(character).await;
            let names = [node(3), node(1), node(2)];
            let shown = reader.configz_of(&names).await;
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
    async fn every_refusal_says_who_refuses_and_what_to_do() {
        for character in [ServerProfile::V1_21, ServerProfile::V1_36] {
            let (embedded, reader) = up(character).await;
            embedded.nodes().inject(&node(1), Some(Fault::Deaf)).await.unwrap();
            embedded.nodes().inject(&node(2), Some(Fault::RefusesConfigz)).await.unwrap();
            let error = reader.configz(&node(1)).await.unwrap_err();
            assert_eq!(error.code(), "kubelet-unreachable", "{error}");
            assert!(
                error.to_string().contains("node-1") && error.to_string().contains("connection refused"),
                "{error}"
            );
            let error = reader.configz(&node(2)).await.unwrap_err();
            assert_eq!(error.code(), "kubelet-refuses", "{error}");
            assert!(error.help().contains("system:kubelet-api-admin"), "{}", error.help());
            let error = reader.configz(&node(9)).await.unwrap_err();
            assert_eq!(error.code(), "object-missing", "{error}");
            embedded.api().deny("get", "nodes/proxy");
            let error = reader.configz(&node(3)).await.unwrap_err();
            assert_eq!(error.code(), "cluster-forbidden");
            assert!(error.to_string().contains("sandbox may not get nodes/proxy in the cluster"), "{error}");
            assert!(error.help().contains("resources: [nodes/proxy]"), "{}", error.help());
            embedded.stop(None).await;
        }
    }

    #[test]
    fn a_kubelet_that_serves_no_configz() {
        let operation = Operation::on(Verb::Get, Resource::Configz, None, "n1");
        assert_eq!(operation.path(), "/api/v1/nodes/n1/proxy/configz");
        let error = refusal(&operation, 404, "404 page not found").unwrap();
        assert!(error.help().contains("enableDebuggingHandlers"), "{}", error.help());
        assert_eq!(refusal(&operation, 500, ""), None);
    }

    #[test]
    fn an_answer_without_end_is_cut() {
        let mut bounded = Bounded::default();
        assert!((0..100).any(|_| bounded.chunk(&[b' '; 20_000]).is_err()));
    }
}
