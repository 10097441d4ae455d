//! `spec.rollout` of a Fleet and of a NodePool.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::json;

use super::gates::Gates;
use crate::drain::DrainPolicy;
use crate::fields::{At, Entries, Fields, Located, Map, ReadField, choices, map, wrong_type};
use crate::gates::MAX_GATES;
use crate::schedule::window::Window;
use crate::schedule::{Exclusion, Schedule};
use crate::{Canary, NodeOrder, NodeShare, RolloutPolicy, StartOrder, Steps};
use kubelet_config::document::Reading;
use kubelet_config::finding::Finding;
use kubelet_config::risk::Class;
use kubelet_config::values::duration;
use kubelet_config::values::label::check_label_key;
use nodecfg_contract::names::PoolName;

/// Start of the year for which the length of the windows is checked. Fixed, so that the same files give the same
/// findings.
const CHECKED_YEAR: Timestamp = Timestamp::constant(1_767_225_600, 0);
/// A label that orders nodes, for messages.
const EXAMPLE_LABEL: &str = "topology.kubernetes.io/zone";

map! {
    /// Rollout policy.
    #[derive(Default)]
    pub struct RolloutSpec {
        /// Limit of unavailable nodes: a number, or a percentage of the pool, rounded down to at least one node.
        /// Default {default}.
        #[default(NodeShare::Percent(10))]
        "maxUnavailable" => max_unavailable: Option<NodeShare>,
        /// Canaries, which start before all other nodes.
        "canary" => canary: Option<Canary>,
        /// Number of failed nodes that the rollout tolerates. Default {default}: the first failure stops it.
        #[default(0)]
        "maxFailures" => max_failures: Option<u32>,
        /// Time limit per node from assignment to convergence. Default {default}.
        #[default(Duration::from_secs(5 * 60))]
        #[check(convergence_timeout)]
        "convergenceTimeout" => convergence_timeout: Option<Duration>,
        /// Whether the pool is paused: planned and reported, but not changed. Default {default}.
        #[default(false)]
        "paused" => paused: Option<bool>,
        /// Highest allowed risk class for running pods: none, restart (of the kubelet; pods keep running), drain,
        /// replace (reboot or another node), never. `diff` shows the class of each field; `sync` refuses a higher
        /// class. From drain on, nodes are drained for changes that need it. Default {default}.
        #[default(Class::Restart)]
        "allowDisruption" => allow_disruption: Option<Class>,
        /// Drain of nodes for changes of class drain and above, if allowDisruption allows them. A pool that sets it
        /// replaces the default of the fleet as a whole.
        "drain" => drain: Option<DrainPolicy>,
        /// Weekly times at which nodes may start. They add up. A pool that sets them replaces the windows of the fleet;
        /// an empty list permits every time. Default: every time.
        "windows" => windows: Option<Entries<Window>>,
        /// Times at which no node may start, also within a window. Those of the fleet apply to each pool.
        "exclusions" => exclusions: Option<Entries<Exclusion>>,
        /// Highest risk class of changes that may start outside of the windows: none, restart, drain, replace, never.
        /// Every change restarts the kubelet, also one of class none. Default: no change may.
        "outsideWindows" => outside_windows: Option<Class>,
        /// Order of the nodes, such as one zone after the other. A pool that sets it replaces the default of the fleet as a
        /// whole; `{}` is the order by name. Default: by name.
        "order" => order: Option<OrderSpec>,
        /// Steps after the canaries: numbers of nodes, or percentages of the pool, in rising order. No more nodes have or get
        /// the configuration than a step before it has soaked. A pool that sets it replaces the steps of the fleet; an empty
        /// list is no steps. Default: none.
        #[check(rising)]
        "steps" => steps: Option<Entries<NodeShare>>,
        /// Time from the end of the last node of a step to the start of the next node. Default {default}.
        #[default(Duration::ZERO)]
        "soak" => soak: Option<Duration>,
        /// Least time between the starts of two nodes of the pool. Default {default}.
        #[default(Duration::ZERO)]
        "interval" => interval: Option<Duration>,
        /// Pools that go first: no node of this pool starts until each node of these pools has converged. Only in the
        /// file of a pool.
        "after" => after: Vec<Located<PoolName>>,
        /// Conditions outside of the nodes that must hold before the next step, at most 50. A pool has the gates of its
        /// fleet, too.
        #[schema(json!({"maxItems": MAX_GATES}))]
        "gates" => gates: Gates,
        /// Whether all nodes that a run assigned are rolled back if a gate stops it. Default {default}.
        #[default(false)]
        "rollbackOnGateFailure" => rollback_on_gate_failure: Option<bool>,
        /// Whether a node converges only when the pods that were Ready before its assignment are Ready again, and its
        /// kubelet refused none. Default {default}. Needs the right to list pods; without it, pods are not checked.
        #[default(true)]
        "checkPods" => check_pods: Option<bool>,
    }
}

map! {
    /// Order of a pool's nodes: nodes with the same value of a label start together, in the order of the values. Nodes
    /// without the label come last.
    #[derive(Default)]
    #[schema(json!({"dependentRequired": {"soak": ["by"]}}))]
    #[check(needs_label)]
    pub struct OrderSpec {
        /// Key of the label, such as topology.kubernetes.io/zone.
        #[check(label_key)]
        "by" => by: Option<String>,
        /// Order of the nodes with the same value: by name (name), by the age of the Node from the newest (newest) or from
        /// the oldest (oldest). The canaries are the first ones. Default {default}.
        #[default(StartOrder::Name)]
        "nodes" => nodes: StartOrder,
        /// Time from the end of the last node with one value to the start of the nodes with the next value. Default
        /// {default}.
        #[default(Duration::ZERO)]
        "soak" => soak: Duration,
    }
}

choices! {
    Class: "class", Class::ALL.map(|class| (class.as_str(), class));
    StartOrder: "order", StartOrder::ALL.map(|order| (order.as_str(), order));
}

/// Refuses steps that are no larger than the one before, as far as the number of nodes does not matter.
fn rising(steps: Entries<NodeShare>, at: &mut At<'_>) -> Option<Entries<NodeShare>> {
    let is_falling = |pair: &[NodeShare]| match pair {
        [NodeShare::Count(before), NodeShare::Count(after)] => after <= before,
        [NodeShare::Percent(before), NodeShare::Percent(after)] => after <= before,
        _ => false,
    };
    if let Some([before, after]) = steps.entries.windows(2).find(|pair| is_falling(pair)) {
        at.refuse(&format!("the step {after} is no larger than {before} before it"), "write the steps in rising order");
    }
    Some(steps)
}

fn convergence_timeout(timeout: Duration, at: &mut At<'_>) -> Option<Duration> {
    if timeout.is_zero() {
        let default = duration::format(RolloutSpec::default().convergence_timeout());
        let help = format!("write {default}, the default: a kubelet takes 5 to 15 s to acknowledge an assignment");
        at.refuse("it must be greater than 0", help);
    }
    Some(timeout)
}

fn label_key(key: String, at: &mut At<'_>) -> Option<String> {
    if let Err(problem) = check_label_key(&key) {
        at.refuse(
            &format!("the label key {key:?} {problem}"),
            format!("write the key of a label such as {EXAMPLE_LABEL}"),
        );
    }
    Some(key)
}

fn needs_label(order: Option<OrderSpec>, fields: &Fields<'_>, findings: &mut Vec<Finding>) -> Option<OrderSpec> {
    if fields.get("soak").is_some() {
        fields.require("by", &format!("by: {EXAMPLE_LABEL}"), findings);
    }
    order
}

impl RolloutSpec {
    /// Policy of a pool with this specification and the defaults of `fleet`. A canary replaces the default canary as
    /// a whole.
    #[must_use]
    pub fn policy(&self, fleet: &Self) -> RolloutPolicy {
        let set = self.or(fleet);
        RolloutPolicy {
            max_unavailable: set.max_unavailable(),
            canary: set.canary,
            max_failures: set.max_failures(),
            convergence_timeout: set.convergence_timeout(),
            paused: set.paused(),
            fleet_paused: false,
            allow_disruption: set.allow_disruption(),
            accept_removed: BTreeSet::new(),
            accept_overridden: BTreeSet::new(),
            drain: set.drain.clone().unwrap_or_default(),
            schedule: self.schedule(fleet),
            start_order: set.order.as_ref().map_or(StartOrder::default(), |order| order.nodes),
            order: set.order.clone().and_then(|order| Some(NodeOrder { by: order.by?, soak: order.soak })),
            steps: Steps { shares: set.steps.clone().map(|list| list.entries).unwrap_or_default(), soak: set.soak() },
            interval: set.interval(),
            after: self.after.iter().map(|pool| pool.value.clone()).collect(),
            gates: self.gates.merged(&fleet.gates),
            rollback_on_gate_failure: set.rollback_on_gate_failure(),
            check_pods: set.check_pods(),
        }
    }

    /// The windows of the pool replace those of the fleet. The exclusions of both apply, so that no pool misses a
    /// freeze of the fleet.
    fn schedule(&self, fleet: &Self) -> Schedule {
        let windows = self.windows.as_ref().or(fleet.windows.as_ref());
        let exclusions = [&fleet.exclusions, &self.exclusions].into_iter().flatten();
        Schedule {
            windows: windows.map(|list| list.entries.clone()).unwrap_or_default(),
            exclusions: exclusions.flat_map(|list| list.entries.iter().cloned()).collect(),
            outside: self.outside_windows.or(fleet.outside_windows),
        }
    }
}

impl Default for RolloutPolicy {
    fn default() -> Self {
        RolloutSpec::default().policy(&RolloutSpec::default())
    }
}

impl ReadField for NodeShare {
    type Schema = Self;

    fn read(at: &mut At<'_>) -> Option<Self> {
        const HELP: &str = "write a number of nodes such as 3, or a percentage from 1% to 100%";
        let value = match at.node.reading() {
            Some(Reading::Int(value)) => u32::try_from(value).ok().filter(|count| *count > 0).map(Self::Count),
            Some(Reading::Text(text)) => text
                .strip_suffix('%')
                .filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0'))
                .and_then(|digits| digits.parse().ok())
                .filter(|percent| (1..=100).contains(percent))
                .map(Self::Percent),
            _ => {
                let expected = "a whole number or a percentage";
                at.findings.extend(wrong_type(at.path, expected, at.node).map(|finding| finding.help(HELP)));
                return None;
            }
        };
        if value.is_none() {
            let problem = match at.node.reading() {
                Some(Reading::Int(0)) => "0 would prevent every change; pause the pool instead".to_owned(),
                _ => format!("{} is neither a number of nodes nor a percentage", at.node.describe()),
            };
            let number = at.node.text().filter(|text| text.parse::<u32>().is_ok_and(|count| count > 0));
            let help = number.map_or_else(|| HELP.to_owned(), |number| format!("write {number}, without quotes"));
            at.refuse(&problem, help);
        }
        value
    }

    fn notation(&self) -> String {
        self.to_string()
    }
}

impl JsonSchema for NodeShare {
    fn schema_name() -> Cow<'static, str> {
        "NodeShare".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A number of nodes, or a percentage of the pool.",
            "anyOf": [
                {"type": "integer", "minimum": 1, "maximum": u32::MAX},
                {"type": "string", "pattern": "^([1-9][0-9]?|100)%$"},
            ],
        })
    }
}

/// Checks that the windows of a policy are long enough for a node, and for the soak time of its canaries. `None`: they
/// are.
pub(crate) fn too_short(policy: &RolloutPolicy) -> Option<Finding> {
    let Schedule { windows, outside, .. } = &policy.schedule;
    if windows.is_empty() || outside.is_some_and(|outside| policy.allow_disruption <= outside) {
        return None;
    }
    let longest = policy.schedule.longest(CHECKED_YEAR);
    let node = policy.node_time(policy.drains_nodes());
    let soak = policy.longest_soak();
    // Nodes that converged in an earlier window soak again before the next nodes start.
    let (needed, who) = if longest < node {
        (node, "a node may take")
    } else if longest < node + soak {
        (node + soak, "a soak time and a node after it take")
    } else {
        return None;
    };
    let parts = match (longest < node, policy.drains_nodes()) {
        (true, true) => "convergenceTimeout, drain.timeout and drain.settle",
        (true, false) => "convergenceTimeout",
        (false, true) => "the soak time, convergenceTimeout, drain.timeout and drain.settle",
        (false, false) => "the soak time and convergenceTimeout",
    };
    let message = format!(
        "`spec.rollout.windows`: the longest is {}, but {who} up to {}, so no node could start",
        duration::format(longest),
        duration::format(needed)
    );
    let help = format!("lengthen a window to at least {}, or lower {parts}", duration::format(needed));
    Some(Finding::error("window-too-short", message).field("spec.rollout.windows").help(help))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pool_overrides_fleet_and_fleet_overrides_default() {
        let fleet = RolloutSpec {
            max_unavailable: Some(NodeShare::Count(3)),
            canary: Some(Canary { nodes: 2, soak: Duration::from_secs(5) }),
            paused: Some(true),
            allow_disruption: Some(Class::Drain),
            check_pods: Some(false),
            ..RolloutSpec::default()
        };
        let plain = RolloutSpec::default().policy(&fleet);
        assert_eq!(plain.max_unavailable, NodeShare::Count(3));
        assert_eq!(plain.canary.map(|c| c.nodes), Some(2));
        assert!(plain.paused);
        assert_eq!((plain.allow_disruption, plain.check_pods), (Class::Drain, false));
        assert_eq!(plain.convergence_timeout, Duration::from_secs(300));
        let own = RolloutSpec {
            max_unavailable: Some(NodeShare::Percent(50)),
            canary: Some(Canary { nodes: 0, soak: Duration::from_secs(60) }),
            paused: Some(false),
            allow_disruption: Some(Class::None),
            check_pods: Some(true),
            ..RolloutSpec::default()
        };
        let policy = own.policy(&fleet);
        assert_eq!(policy.max_unavailable, NodeShare::Percent(50));
        assert_eq!((policy.canaries(), policy.canary_soak()), (0, Duration::ZERO));
        assert!(!policy.paused);
        assert_eq!((policy.allow_disruption, policy.check_pods), (Class::None, true));
        assert_eq!(RolloutSpec::default().policy(&RolloutSpec::default()), RolloutPolicy::default());
    }
}
