//! Forecast of drains: what the evictions of each node would do to its pods as they are now.
//!
//! It uses the same [`treatment`] as the drain itself. Pods and budgets change until a node is drained, so it decides
//! nothing.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::pods::{Refusal, Stay, Treatment, treatment};
use crate::{Plan, PoolPlan};
use nodecfg_contract::names::NodeName;
use nodecfg_fleet::drain::DrainPolicy;
use nodecfg_observed::{Pod, PodBudget};

/// Pods on the nodes of a pool that are drained.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodForecast {
    /// Number of pods to evict.
    pub evict: usize,
    /// Number of pods that the policy does not allow to evict.
    pub refused: usize,
    /// Number of pods whose PodDisruptionBudgets allow no eviction now.
    pub blocked: usize,
    /// Number of pods that stay, because they tolerate the taint of the drain.
    pub tolerant: usize,
    /// Nodes by name.
    pub nodes: Vec<NodeForecast>,
}

impl PodForecast {
    /// Forecast of these nodes.
    pub fn of(nodes: impl IntoIterator<Item = NodeForecast>) -> Self {
        let mut nodes: Vec<NodeForecast> = nodes.into_iter().collect();
        nodes.sort_by(|a, b| a.node.cmp(&b.node));
        let sum = |number: fn(&NodeForecast) -> usize| nodes.iter().map(number).sum();
        Self {
            evict: sum(|node| node.evict),
            refused: sum(|node| node.refused.len()),
            blocked: sum(|node| node.blocked.len()),
            tolerant: sum(|node| node.tolerant),
            nodes,
        }
    }
}

/// Pods on a node that is drained.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeForecast {
    /// The node.
    pub node: NodeName,
    /// Number of pods to evict. 0 if a pod is refused, because the drain then evicts none.
    pub evict: usize,
    /// Number of pods that stay, because they tolerate the taint of the drain.
    pub tolerant: usize,
    /// Pods that the policy does not allow to evict, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedPod>,
    /// Pods whose PodDisruptionBudgets allow no eviction now, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blocked: Vec<BlockedPod>,
}

/// Pod that the policy does not allow to evict.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RefusedPod {
    /// Namespace and name of the pod.
    pub pod: String,
    /// Reason of the refusal.
    pub reason: Refusal,
}

/// Pod whose PodDisruptionBudgets allow no eviction now.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockedPod {
    /// Namespace and name of the pod.
    pub pod: String,
    /// Namespaces and names of its budgets: one that allows no eviction now, or several, with which no eviction succeeds.
    pub budgets: Vec<String>,
}

/// Judge of the pods on the nodes that are drained.
#[derive(Debug)]
pub struct Forecaster<'a> {
    policies: BTreeMap<&'a NodeName, &'a DrainPolicy>,
    /// Budgets by namespace.
    budgets: BTreeMap<String, Vec<PodBudget>>,
}

/// Effect of a drain on a pod, with no more of the pod than a forecast needs: a cluster may have 450,000.
#[derive(Debug)]
pub struct JudgedPod<'a> {
    node: &'a NodeName,
    effect: Effect,
}

#[derive(Debug)]
enum Effect {
    Evict,
    Block(BlockedPod),
    Refuse(RefusedPod),
    Tolerate,
}

/// Nodes that a plan drains, with the policies of their pools.
#[must_use]
pub fn drained_nodes<'a>(plan: &'a Plan) -> BTreeMap<&'a NodeName, &'a DrainPolicy> {
    let of_pool = |pool: &'a PoolPlan| {
        let steps = pool.steps().filter(|step| step.drain);
        steps.map(|step| (&step.node, &pool.policy.drain))
    };
    plan.pools.iter().flat_map(of_pool).collect()
}

impl<'a> Forecaster<'a> {
    /// Judge of the pods on these nodes. `budgets` are all of the cluster.
    #[must_use]
    pub fn new(policies: BTreeMap<&'a NodeName, &'a DrainPolicy>, budgets: Vec<PodBudget>) -> Self {
        let mut by_namespace: BTreeMap<String, Vec<PodBudget>> = BTreeMap::new();
        for budget in budgets {
            by_namespace.entry(budget.namespace.clone()).or_default().push(budget);
        }
        Self { policies, budgets: by_namespace }
    }

    /// Nodes that are drained.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = &'a NodeName> {
        self.policies.keys().copied()
    }

    /// Judges a pod. `None` for pods on other nodes, and for pods that every drain ignores or only waits for.
    #[must_use]
    pub fn judge(&self, pod: &Pod) -> Option<JudgedPod<'a>> {
        let (node, policy) = self.policies.get_key_value(&pod.node)?;
        let effect = match treatment(pod, policy) {
            Treatment::Refuse(reason) => Effect::Refuse(RefusedPod { pod: pod.to_string(), reason }),
            Treatment::Stay(Stay::TolerantOfMark) => Effect::Tolerate,
            Treatment::Stay(Stay::Mirror | Stay::Finished | Stay::DaemonSet | Stay::Skipped) => return None,
            Treatment::Evict if pod.deleting => return None,
            Treatment::Evict => self.blocking(pod).map_or(Effect::Evict, Effect::Block),
        };
        Some(JudgedPod { node, effect })
    }

    /// The pod with its budgets, if they allow no eviction now. An API server deletes a pending pod without a look at
    /// budgets, and refuses the eviction of another one with several budgets, whatever they allow (kubernetes,
    /// `pkg/registry/core/pod/storage/eviction.go`, 1.36).
    fn blocking(&self, pod: &Pod) -> Option<BlockedPod> {
        if pod.pending {
            return None;
        }
        let budgets = self.budgets.get(&pod.namespace).into_iter().flatten().filter(|budget| budget.covers(pod));
        let budgets: Vec<&PodBudget> = budgets.collect();
        let is_blocked = match budgets.as_slice() {
            [] => false,
            [budget] => !budget.allows(pod),
            _ => true,
        };
        let name = |budget: &PodBudget| format!("{}/{}", budget.namespace, budget.name);
        is_blocked.then(|| {
            let mut budgets: Vec<String> = budgets.into_iter().map(name).collect();
            budgets.sort();
            BlockedPod { pod: pod.to_string(), budgets }
        })
    }

    /// Forecast of every node from its judged pods.
    #[must_use]
    pub fn forecast(&self, pods: impl IntoIterator<Item = JudgedPod<'a>>) -> BTreeMap<NodeName, NodeForecast> {
        let empty = |node: &NodeName| NodeForecast {
            node: node.clone(),
            evict: 0,
            tolerant: 0,
            refused: Vec::new(),
            blocked: Vec::new(),
        };
        let mut nodes: BTreeMap<NodeName, NodeForecast> =
            self.nodes().map(|node| (node.clone(), empty(node))).collect();
        for JudgedPod { node, effect } in pods {
            let Some(forecast) = nodes.get_mut(node) else { continue };
            match effect {
                Effect::Evict => forecast.evict += 1,
                Effect::Block(pod) => {
                    forecast.evict += 1;
                    forecast.blocked.push(pod);
                }
                Effect::Refuse(pod) => forecast.refused.push(pod),
                Effect::Tolerate => forecast.tolerant += 1,
            }
        }
        for forecast in nodes.values_mut() {
            forecast.refused.sort();
            forecast.blocked.sort();
            if !forecast.refused.is_empty() {
                forecast.evict = 0;
            }
        }
        nodes
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{daemon, pod};
    use super::*;
    use crate::fixtures::node_name;
    use nodecfg_contract::label_selector::LabelSelector;
    use nodecfg_fleet::drain::PodLoss;

    fn budget(name: &str, app: &str, allowed: i32) -> PodBudget {
        let selector = Some(LabelSelector::of_label("app", app));
        let (namespace, name) = ("web".to_owned(), name.to_owned());
        PodBudget { namespace, name, selector, allowed, healthy: 2, required: 3, spares_unready: false }
    }

    fn app(name: &str, app: &str) -> Pod {
        let mut pod = pod(name);
        pod.labels.insert("app".to_owned(), app.to_owned());
        pod
    }

    fn on(pod: Pod, node: &str) -> Pod {
        Pod { node: node_name(node), ..pod }
    }

    /// Forecasts of `n1`, which refuses losses, and of `n2`, which accepts them.
    fn forecast(pods: &[Pod], budgets: Vec<PodBudget>) -> [NodeForecast; 2] {
        let (strict, loose) = (
            DrainPolicy::default(),
            DrainPolicy { empty_dir: PodLoss::Delete, unmanaged: PodLoss::Delete, ..DrainPolicy::default() },
        );
        let (n1, n2) = (node_name("n1"), node_name("n2"));
        let forecaster = Forecaster::new(BTreeMap::from([(&n1, &strict), (&n2, &loose)]), budgets);
        let judged: Vec<JudgedPod<'_>> = pods.iter().filter_map(|pod| forecaster.judge(pod)).collect();
        let mut nodes = forecaster.forecast(judged);
        assert_eq!(nodes.len(), 2);
        [nodes.remove(&n1).unwrap(), nodes.remove(&n2).unwrap()]
    }

    #[test]
    fn counts_pods_to_evict_and_ignores_the_others() {
        let pods = [
            pod("a"),
            pod("b"),
            daemon("proxy"),
            Pod { mirror: true, ..pod("static") },
            Pod { finished: true, ..pod("job") },
            Pod { deleting: true, ..pod("ending") },
            Pod { tolerates_drain: true, ..pod("tolerant") },
            on(pod("elsewhere"), "n3"),
        ];
        let [n1, n2] = forecast(&pods, Vec::new());
        assert_eq!((n1.evict, n1.tolerant, n1.refused.len(), n1.blocked.len()), (2, 1, 0, 0));
        assert_eq!((n2.evict, n2.tolerant), (0, 0), "a node without pods has a forecast");
    }

    #[test]
    fn node_with_refused_pods_evicts_none() {
        let lossy = [pod("a"), Pod { empty_dir: true, ..pod("scratch") }, Pod { controller: None, ..pod("alone") }];
        let pods: Vec<Pod> = lossy.iter().cloned().chain(lossy.iter().map(|pod| on(pod.clone(), "n2"))).collect();
        let [n1, n2] = forecast(&pods, Vec::new());
        let refused = |pod: &str, reason| RefusedPod { pod: pod.to_owned(), reason };
        assert_eq!(n1.refused, [refused("web/alone", Refusal::Unmanaged), refused("web/scratch", Refusal::EmptyDir)]);
        assert_eq!((n1.evict, n2.evict, n2.refused.len()), (0, 3, 0));
        let total = PodForecast::of([n2, n1]);
        assert_eq!((total.evict, total.refused), (3, 2));
        assert_eq!(total.nodes.iter().map(|node| node.node.as_str()).collect::<Vec<_>>(), ["n1", "n2"]);
    }

    #[test]
    fn budgets_block_when_they_allow_nothing_or_are_several() {
        let budgets = vec![
            budget("none", "stuck", 0),
            budget("some", "free", 1),
            budget("z", "double", 3),
            budget("y", "double", 3),
            PodBudget { namespace: "other".to_owned(), ..budget("foreign", "free", 0) },
        ];
        let pods = [
            app("stuck-1", "stuck"),
            app("free-1", "free"),
            app("double-1", "double"),
            Pod { deleting: true, ..app("stuck-2", "stuck") },
            Pod { finished: true, ..app("stuck-3", "stuck") },
        ];
        let [n1, _] = forecast(&pods, budgets);
        let blocked = |pod: &str, budgets: &[&str]| BlockedPod {
            pod: pod.to_owned(),
            budgets: budgets.iter().map(|name| (*name).to_owned()).collect(),
        };
        assert_eq!(n1.blocked, [blocked("web/double-1", &["web/y", "web/z"]), blocked("web/stuck-1", &["web/none"])]);
        assert_eq!(n1.evict, 3);
    }

    #[test]
    fn pods_that_serve_nothing_are_blocked_only_if_the_server_refuses_them() {
        let strict = budget("strict", "a", 0);
        let enough = PodBudget { healthy: 3, ..strict.clone() };
        let none_required = PodBudget { healthy: 0, required: 0, ..strict.clone() };
        let lenient = PodBudget { spares_unready: true, ..strict.clone() };
        let several = vec![lenient.clone(), budget("second", "a", 1)];
        let ready = app("a-0", "a");
        let unready = Pod { ready: false, ..ready.clone() };
        let pending = Pod { pending: true, ..unready.clone() };
        for (budgets, blocks_ready, blocks_unready) in [
            (vec![strict], true, true),
            (vec![enough], true, false),
            (vec![none_required], true, true),
            (vec![lenient], true, false),
            (several, true, true),
        ] {
            for (pod, is_blocked) in [(&ready, blocks_ready), (&unready, blocks_unready), (&pending, false)] {
                let [n1, _] = forecast(std::slice::from_ref(pod), budgets.clone());
                assert_eq!((n1.evict, n1.blocked.len()), (1, usize::from(is_blocked)), "{budgets:?} {pod:?}");
            }
        }
    }
}
