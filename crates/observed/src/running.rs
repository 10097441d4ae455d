//! Configurations that kubelets run, according to themselves.

use std::fmt;

use serde::Serialize;

/// Answer of a kubelet to the question what it runs (`configz`). A compromised kubelet may lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunningConfig {
    /// A KubeletConfiguration with the defaults of the kubelet's version. May contain secrets.
    Read(String),
    /// There is no usable answer.
    Unread(UnreadReason),
}

/// Reason why the configuration that a kubelet runs was not read, by the number of nodes that it concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum UnreadReason {
    /// The answer is no configuration, or exceeds the limits of one.
    Unusable,
    /// The kubelet or the API server did not answer in time.
    Unreachable,
    /// The kubelet does not serve `configz`.
    NotServed,
    /// The kubelet refuses the API server's request.
    KubeletRefuses,
    /// The user may not get `nodes/proxy`.
    Forbidden,
}

impl fmt::Display for UnreadReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unusable => "configz is unusable",
            Self::Unreachable => "configz is unreachable",
            Self::NotServed => "the kubelet does not serve configz",
            Self::KubeletRefuses => "the kubelet refuses configz",
            Self::Forbidden => "may not get nodes/proxy",
        })
    }
}
