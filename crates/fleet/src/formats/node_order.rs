//! Reader of `spec.rollout.order`.

use super::fields::Fields;
use super::read::{duration_of, missing_field};
use crate::NodeOrder;
use crate::formats::OrderSpec;
use kubelet_config::finding::Finding;
use kubelet_config::label::check_label_key;

/// Keys of `spec.rollout.order`.
pub(super) const ORDER: [&str; 2] = ["by", "soak"];

/// Reads the order of the nodes.
pub(super) fn order(rollout: &Fields<'_>, findings: &mut Vec<Finding>) -> Option<OrderSpec> {
    const EXAMPLE: &str = "topology.kubernetes.io/zone";
    let fields = rollout.object("order", &ORDER, findings)?;
    if fields.get("by").is_none() && fields.get("soak").is_some() {
        findings.push(missing_field(&fields, "by", &format!("by: {EXAMPLE}")));
    }
    let by = fields.text("by", findings).map(|(key, _)| key.to_owned());
    if let (Some(key), Some(node)) = (&by, fields.get("by"))
        && let Err(problem) = check_label_key(key)
    {
        let finding = fields.bad_value("by", node, &format!("the label key {key:?} {problem}"));
        findings.push(finding.help(format!("write the key of a label such as {EXAMPLE}")));
    }
    Some(OrderSpec { by, soak: duration_of(&fields, "soak", findings).unwrap_or_default() })
}

impl OrderSpec {
    /// The order. `None` without a label: by name.
    pub(super) fn order(&self) -> Option<NodeOrder> {
        Some(NodeOrder { by: self.by.clone()?, soak: self.soak })
    }
}
