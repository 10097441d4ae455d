//! The settings of a rollout policy, for reviews and saved plans.

use std::fmt::Display;

use crate::{Canary, RolloutPolicy, StartOrder};
use kubelet_config::values::duration;

/// A setting of a rollout policy.
pub struct PolicySetting {
    /// Path in `pool.yaml`.
    pub path: &'static str,
    /// What it decides, as the continuation of "it is".
    pub meaning: &'static str,
    /// Its value in the notation of `pool.yaml`; empty if it is unset.
    pub read: fn(&RolloutPolicy) -> String,
}

/// Path of the setting that pauses a pool.
pub const PAUSED: &str = "spec.rollout.paused";
/// Path of the setting that gives the budget.
pub const MAX_UNAVAILABLE: &str = "spec.rollout.maxUnavailable";

/// Every setting.
pub const POLICY_SETTINGS: [PolicySetting; 17] = [
    PolicySetting {
        path: MAX_UNAVAILABLE,
        meaning: "how many nodes may be unavailable at once",
        read: |policy| policy.max_unavailable.to_string(),
    },
    PolicySetting {
        path: "spec.rollout.canary",
        meaning: "the nodes that go first, and their soak time",
        read: |policy| policy.canary.map(canary).unwrap_or_default(),
    },
    PolicySetting {
        path: "spec.rollout.maxFailures",
        meaning: "failed nodes before the rollout stops",
        read: |policy| policy.max_failures.to_string(),
    },
    PolicySetting {
        path: "spec.rollout.convergenceTimeout",
        meaning: "how long a node may take",
        read: |policy| duration::format(policy.convergence_timeout),
    },
    PolicySetting { path: PAUSED, meaning: "whether the pool is paused", read: |policy| policy.paused.to_string() },
    PolicySetting {
        path: "spec.rollout.allowDisruption",
        meaning: "the worst allowed disruption of running pods",
        read: |policy| policy.allow_disruption.to_string(),
    },
    PolicySetting {
        path: "spec.kubelet.acceptRemoved",
        meaning: "the fields that nodes may lose although that harms them",
        read: |policy| list(&policy.accept_removed),
    },
    PolicySetting {
        path: "spec.kubelet.acceptOverridden",
        meaning: "the fields that something else may set",
        read: |policy| list(&policy.accept_overridden),
    },
    PolicySetting {
        path: "spec.rollout.drain",
        meaning: "how nodes are drained for changes that need it",
        read: |policy| policy.drain.to_string(),
    },
    PolicySetting {
        path: "spec.rollout.windows",
        meaning: "when nodes may start",
        read: |policy| policy.schedule.to_string(),
    },
    PolicySetting { path: "spec.rollout.order", meaning: "the order of the nodes", read: order },
    PolicySetting {
        path: "spec.rollout.steps",
        meaning: "the shares of the pool that must soak before more nodes start",
        read: |policy| policy.steps.to_string(),
    },
    PolicySetting {
        path: "spec.rollout.interval",
        meaning: "the least time between the starts of two nodes",
        read: |policy| duration::format(policy.interval),
    },
    PolicySetting {
        path: "spec.rollout.after",
        meaning: "the pools that go first",
        read: |policy| list(&policy.after),
    },
    PolicySetting {
        path: "spec.rollout.gates",
        meaning: "what must hold outside of the nodes before the next one starts",
        read: |policy| list(&policy.gates),
    },
    PolicySetting {
        path: "spec.rollout.rollbackOnGateFailure",
        meaning: "whether assigned nodes are rolled back if a gate stops the rollout",
        read: |policy| policy.rollback_on_gate_failure.to_string(),
    },
    PolicySetting {
        path: "spec.rollout.checkPods",
        meaning: "whether the pods of changed nodes must be back",
        read: |policy| policy.check_pods.to_string(),
    },
];

fn order(policy: &RolloutPolicy) -> String {
    let by = policy.order.as_ref().map(ToString::to_string);
    let start_order = Some(policy.start_order).filter(|order| *order != StartOrder::Name);
    let nodes = start_order.map(|order| format!("{} nodes first", order.as_str()));
    list(by.into_iter().chain(nodes))
}

fn list<T: Display>(values: impl IntoIterator<Item = T>) -> String {
    values.into_iter().map(|value| value.to_string()).collect::<Vec<_>>().join(", ")
}

/// Canaries as a review shows them: `2 nodes, 10m soak`.
#[must_use]
pub fn canary(canary: Canary) -> String {
    let nodes = if canary.nodes == 1 { "1 node".to_owned() } else { format!("{} nodes", canary.nodes) };
    if canary.soak.is_zero() { nodes } else { format!("{nodes}, {} soak", duration::format(canary.soak)) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;
    use crate::drain::{DrainMode, DrainPolicy};
    use crate::formats::schema::nodepool_schema;
    use crate::gates::{Baseline, Gate, GateCheck, Moment, PATIENCE, PrometheusQuery, Wanted};
    use nodecfg_contract::names::GateName;
    use nodecfg_contract::{ObjectId, ObjectRef};

    /// Fields that another setting contains.
    const CONTAINED: [&str; 3] = ["exclusions", "outsideWindows", "soak"];

    fn texts(policy: &RolloutPolicy) -> Vec<String> {
        POLICY_SETTINGS.iter().map(|setting| (setting.read)(policy)).collect()
    }

    /// Reviewers see only the texts.
    #[test]
    fn different_policies_have_different_texts() {
        let gate = |query: &str, version: &str| {
            let at = BTreeSet::from(Moment::ALL);
            let of = |name: &str, check: GateCheck| Gate {
                name: GateName::new(name).expect("a name"),
                check,
                at: at.clone(),
                patience: PATIENCE,
            };
            let query = PrometheusQuery { query: query.to_owned(), present: "up".to_owned() };
            let object = ObjectRef {
                api_version: version.to_owned(),
                kind: "Deployment".to_owned(),
                namespace: None,
                by: ObjectId::Name("y".to_owned()),
            };
            let wanted = Wanted::Condition { condition: "Available".to_owned(), status: "True".to_owned() };
            let gates = vec![
                of("a", GateCheck::Prometheus { query, baseline: Baseline::Use }),
                of("b", GateCheck::Object { object, wanted }),
            ];
            RolloutPolicy { gates, ..RolloutPolicy::default() }
        };
        let plain = gate("sum(x == 1)", "apps/v1");
        assert_ne!(texts(&plain), texts(&gate("sum(x  == 1)", "apps/v1")), "white space may be in quotes");
        assert_ne!(texts(&plain), texts(&gate("su\u{200b}m(x == 1)", "apps/v1")));
        assert_ne!(texts(&plain), texts(&gate("sum(x == 1)", "apps/v2")));
        let accept = |seconds| RolloutPolicy {
            drain: DrainPolicy {
                mode: DrainMode::Accept,
                settle: Duration::from_secs(seconds),
                ..DrainPolicy::default()
            },
            ..RolloutPolicy::default()
        };
        assert_ne!(texts(&accept(30)), texts(&accept(60)), "the check of pods takes this time");
    }

    #[test]
    fn each_field_of_a_rollout_is_a_setting() {
        let schema = nodepool_schema();
        let fields = schema["$defs"]["RolloutSpec"]["properties"].as_object().expect("a map");
        for field in fields.keys().filter(|field| !CONTAINED.contains(&field.as_str())) {
            let path = format!("spec.rollout.{field}");
            assert!(POLICY_SETTINGS.iter().any(|setting| setting.path == path), "POLICY_SETTINGS lacks {path}");
        }
    }
}
