//! Static pods that a change stops. No drain moves them: their kubelet runs them from its own files, and the pods that
//! the API server shows for them only mirror them.

use super::disruption::ChangedField;
use crate::desired::Pool;
use kubelet_config::finding::Finding;
use kubelet_config::risk::Class;
use kubelet_config::secrets::NOT_SHOWN;

/// The fields that name the static pods of a node.
const FIELDS: [&str; 2] = ["staticPodPath", "staticPodURL"];

/// Warns of the first changed field of a pool that stops static pods. The class of such a change is `replace` on every
/// node, because a plan knows no node's static pods.
#[must_use]
pub fn static_pods_warning<'f>(pool: &Pool, fields: impl IntoIterator<Item = &'f ChangedField>) -> Option<Finding> {
    let stops = |field: &&ChangedField| {
        let class = field.risk.as_ref().map(|risk| risk.class);
        FIELDS.contains(&field.change.path.as_str()) && class >= Some(Class::Replace)
    };
    let ChangedField { change, .. } = fields.into_iter().find(stops)?;
    let (path, old) = (&change.path, change.old.as_deref().unwrap_or_default());
    let event = match &change.new {
        None => format!("the configuration omits {path}, which is {old} now"),
        Some(new) => format!("{path} changes from {old} to {new}"),
    };
    let message = format!(
        "pool {}: {event}: kubelets stop the static pods that run from there, on control-plane nodes the API server and \
         etcd, and a drain moves none of them",
        pool.name
    );
    // A redacted value is no value to write.
    let kept = if old.contains(NOT_SHOWN) { path.clone() } else { format!("{path}: {old}") };
    let place = change.place.clone().unwrap_or_else(|| pool.place.clone());
    Some(
        Finding::warning("static-pods-stopped", message)
            .at(place)
            .field(path)
            .help(format!("write {kept}, or create new nodes with this configuration")),
    )
}
