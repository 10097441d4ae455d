//! What is known of the values that a kubelet runs.

use std::sync::Arc;

use nodecfg_contract::kubelet_values::{OverriddenValue, SetValue};
use nodecfg_contract::nodeconfig::{EFFECTIVE, NodeConfigStatus};

/// What the agent of a node knows of the values that its kubelet runs (`status.effective` and the condition Effective).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// The kubelet runs what the active configuration names, except for these values. The node's own configuration names
    /// nothing.
    Known {
        /// The first of these values.
        overridden: Vec<OverriddenValue>,
        /// Number of the others.
        more: u32,
        /// Values that flags and files set after the place of a configuration. They would override one that names them.
        above: Vec<SetValue>,
    },
    /// The agent cannot tell.
    Unknown {
        /// Reason in one sentence.
        reason: String,
    },
}

impl Proof {
    /// The proof in a status. `None` for agents that do not look.
    pub(super) fn of(status: &NodeConfigStatus) -> Option<Arc<Self>> {
        let effective = status.effective.as_ref();
        if let Some(found) = effective.filter(|effective| effective.source.is_some()) {
            let (overridden, more) = (found.overridden.clone(), found.overridden_more);
            return Some(Arc::new(Self::Known { overridden, more, above: found.above.clone() }));
        }
        let condition = status.conditions.iter().find(|condition| condition.kind == EFFECTIVE)?;
        // An API server with an older definition drops the values, and keeps the condition.
        let dropped = |more| Self::Known { overridden: Vec::new(), more, above: Vec::new() };
        Some(Arc::new(match condition.status.as_str() {
            "True" => dropped(0),
            "False" => dropped(1),
            _ => Self::Unknown { reason: condition.message.clone() },
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodecfg_contract::nodeconfig::{Condition, EffectiveStatus};

    fn proof(effective: Option<EffectiveStatus>, condition: Option<&str>) -> Option<Proof> {
        let condition = condition.map(|status| Condition {
            kind: EFFECTIVE.to_owned(),
            status: status.to_owned(),
            message: "why".to_owned(),
            ..Condition::default()
        });
        let conditions = condition.into_iter().collect();
        let status = NodeConfigStatus { effective, conditions, ..NodeConfigStatus::default() };
        Proof::of(&status).map(|proof| (*proof).clone())
    }

    #[test]
    fn condition_counts_where_the_server_drops_the_values() {
        let known = |more| Some(Proof::Known { overridden: Vec::new(), more, above: Vec::new() });
        let unknown = || Some(Proof::Unknown { reason: "why".to_owned() });
        assert_eq!(proof(None, None), None, "an agent that does not look");
        for effective in [None, Some(EffectiveStatus::default())] {
            assert_eq!(proof(effective.clone(), Some("True")), known(0));
            assert_eq!(proof(effective.clone(), Some("False")), known(1));
            assert_eq!(proof(effective, Some("Unknown")), unknown());
        }
        let source = Some(EffectiveStatus::COMPUTED.to_owned());
        let values = EffectiveStatus { source, overridden_more: 3, ..EffectiveStatus::default() };
        assert_eq!(proof(Some(values), Some("False")), known(3));
    }
}
