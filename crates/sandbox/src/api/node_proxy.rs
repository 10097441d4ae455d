//! Interface for `nodes/<name>/proxy` requests. The node simulation implements it.

use super::Api;

/// Handler of requests that the API server forwards to kubelets.
pub trait NodeProxy: Send + Sync {
    /// Sends a GET request for a path to the kubelet of an existing Node.
    fn get(&self, api: &Api, node: &str, path: &str) -> ProxyResult;
}

/// Result of a forwarded request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProxyResult {
    /// The kubelet is unreachable, for this reason.
    Unreachable(String),
    /// Response of the kubelet, which the API server returns unchanged.
    Response {
        /// HTTP status code.
        status: u16,
        /// Media type.
        content_type: &'static str,
        /// Body.
        body: String,
    },
}
