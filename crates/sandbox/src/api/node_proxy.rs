//! The place where requests to `nodes/<name>/proxy` leave the API server: whoever simulates the nodes answers them.

use super::Api;

/// What a node's kubelet answers a request that the API server passes on.
pub trait NodeProxy: Send + Sync {
    /// A GET of a path of the kubelet of this Node, which exists.
    fn get(&self, api: &Api, node: &str, path: &str) -> Proxied;
}

/// What came of passing on a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proxied {
    /// The kubelet could not be reached, for this reason.
    Unreachable(String),
    /// The kubelet's own answer, which the API server passes back as it is.
    Answer {
        /// Its status.
        status: u16,
        /// Its media type.
        content_type: &'static str,
        /// Its body.
        body: String,
    },
}
