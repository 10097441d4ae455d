//! Finds out whether a server keeps `Node.spec.configSource`, by a patch with `dryRun=All`, which goes through everything a
//! patch goes through and stores nothing.

use http::Method;
use serde_json::json;

use super::error::ClusterError;
use super::operation::{Operation, Resource, Verb};
use super::reader::ClusterReader;
use super::transport::{Call, Whole};
use super::wire::{LabelKeys, WireNode};
use crate::contract::{ConfigSource, KUBELET_KEY};
use crate::names::NodeName;
use crate::observed::{Binding, BindingCheck, BindingEvidence, ServerVersion};

impl ClusterReader {
    /// Patches a Node with a made-up source in a dry run and looks whether it comes back. API servers from 1.26 answer
    /// 200 and drop it. Where the dry run is refused (RBAC, an admission webhook without dry-run support, the Node gone),
    /// the version decides.
    ///
    /// # Errors
    /// Every [`ClusterError`] of a request but the refusals above.
    pub async fn check_binding(&self, node: &NodeName, version: &ServerVersion) -> Result<BindingCheck, ClusterError> {
        let operation = Operation::on(Verb::Patch, Resource::Nodes, None, node.as_str());
        let probe = ConfigSource::config_map("kube-system", "nodecfg-binding-check", KUBELET_KEY);
        let body = json!({"spec": {"configSource": probe}}).to_string();
        let uri = format!("{}?dryRun=All&fieldManager=nodecfg", operation.path());
        let call = Call::new(Method::PATCH, uri).content("application/merge-patch+json", body);
        match self.transport.call(&operation, &call, Whole::<WireNode>::new).await {
            Ok(answer) => {
                let kept = answer.into_node(&LabelKeys::Only(Default::default())).and_then(|node| node.source);
                let binding = if kept.is_some_and(|kept| kept.names_same(&probe)) {
                    Binding::Supported
                } else {
                    Binding::Dropped
                };
                Ok(BindingCheck { binding, evidence: BindingEvidence::DryRun(node.clone()) })
            }
            Err(
                error @ (ClusterError::Forbidden { .. } | ClusterError::Invalid { .. } | ClusterError::NotFound { .. }),
            ) => {
                let check = by_version(version);
                tracing::info!("{error}; whether configSource is kept is known from {}", check.evidence);
                Ok(check)
            }
            Err(error) => Err(error),
        }
    }
}

/// What the version of a server says about the binding.
#[must_use]
pub fn by_version(version: &ServerVersion) -> BindingCheck {
    let text = version.git_version.clone();
    match version.keeps_config_source() {
        Some(true) => BindingCheck { binding: Binding::Supported, evidence: BindingEvidence::ServerVersion(text) },
        Some(false) => BindingCheck { binding: Binding::Dropped, evidence: BindingEvidence::ServerVersion(text) },
        None => BindingCheck { binding: Binding::Supported, evidence: BindingEvidence::Assumed(text) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_decides_where_the_dry_run_may_not() {
        let check = |text: &str| by_version(&ServerVersion::read(text, "", ""));
        assert_eq!(check("v1.25.9").binding, Binding::Supported);
        assert_eq!(check("v1.26.0").binding, Binding::Dropped);
        let unreadable = check("v0.0.0-master+$Format:%H$");
        assert_eq!(unreadable.binding, Binding::Supported);
        assert!(matches!(unreadable.evidence, BindingEvidence::Assumed(_)));
    }
}
