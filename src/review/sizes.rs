//! Reservations that follow from the size of each node: the amounts of each size, in place of field changes.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::{Changes, Origin, PoolReview};
use kubelet_config::capacity::{Capacity, Resource};
use kubelet_config::risk::{self, Class};
use nodecfg_fleet::{Pool, reserved_field, typical_sizes};
use nodecfg_plan::{ChangedField, PoolPlan};

/// The configuration of the nodes of one size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SizeReview {
    /// The size, such as `4 CPU, 16Gi`.
    pub size: String,
    /// The number of nodes. Unset for a typical size, without a cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<usize>,
    /// The ConfigMap of these nodes. Unset without a cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_map: Option<String>,
    /// The computed amounts of `kubeReserved`.
    pub reserved: Vec<ReservedAmount>,
}

/// A computed amount of a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReservedAmount {
    /// The resource.
    pub resource: Resource,
    /// The old amount. Unset if it is unknown, missing or the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    /// The new amount. Unset if the nodes keep none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<String>,
    /// Risk class of the change from the old amount to the new one. Unset without both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub risk: Option<Class>,
}

/// The amounts of a pool for nodes of a size: computed, or fixed.
fn amounts(pool: Option<&Pool>, size: Capacity) -> BTreeMap<Resource, String> {
    let target = pool.and_then(|pool| pool.for_node(size));
    let root = target.as_ref().and_then(|pool| Some(&pool.target.rendered()?.document.root));
    let amount = |resource: Resource| {
        let value = root?.at(&reserved_field(resource))?.to_json();
        Some((resource, value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
    };
    Resource::ALL.into_iter().filter_map(amount).collect()
}

/// The change of the amounts, for the resources of which `computed` has a formula.
fn reserved(
    computed: &[Resource],
    mut old: BTreeMap<Resource, String>,
    mut new: BTreeMap<Resource, String>,
) -> Vec<ReservedAmount> {
    let change = |resource: &Resource| {
        let (old, new) = (old.remove(resource), new.remove(resource));
        let old = old.filter(|old| Some(old) != new.as_ref());
        let json = |amount: &String| serde_json::Value::from(amount.as_str()).to_string();
        let class = |(old, new): (&String, &String)| {
            risk::of_change(&reserved_field(*resource), Some(&json(old)), Some(&json(new))).class
        };
        let risk = old.as_ref().zip(new.as_ref()).map(class);
        ReservedAmount { resource: *resource, old, new, risk }
    };
    computed.iter().map(change).collect()
}

/// The resources whose amounts one of the pools computes.
fn computed(pools: [Option<&Pool>; 2]) -> Vec<Resource> {
    let of_pools = pools.into_iter().flatten().filter_map(|pool| pool.targets.sizes());
    let formulas = of_pools.flat_map(|sizes| sizes.reserve.value.reserved().formulas());
    let mut resources: Vec<Resource> = formulas.map(|(resource, _)| resource).collect();
    resources.sort_unstable();
    resources.dedup();
    resources
}

/// The amounts for typical machines. Empty if neither pool computes any.
pub(super) fn typical(old: Option<&Pool>, new: Option<&Pool>) -> Vec<SizeReview> {
    let computed = computed([old, new]);
    let of_size = |size: Capacity| {
        let steps = new.or(old).and_then(|pool| pool.targets.sizes()).map(|sizes| sizes.steps());
        let shown = steps.and_then(|steps| size.rounded_up(steps)).unwrap_or(size);
        let reserved = reserved(&computed, amounts(old, size), amounts(new, size));
        SizeReview { size: shown.to_string(), nodes: None, config_map: None, reserved }
    };
    if computed.is_empty() { Vec::new() } else { typical_sizes().map(of_size).collect() }
}

/// The amounts for the nodes of the cluster. Empty if the pool computes none.
pub(super) fn planned(pool: &Pool, planned: &PoolPlan) -> Vec<SizeReview> {
    let computed = computed([Some(pool), None]);
    let of_size = |found: &nodecfg_plan::SizeTarget| {
        let size = found.size?;
        let changes = planned.changes.iter().filter(|set| set.size == Some(size)).flat_map(|set| &set.fields);
        let old = changes.filter_map(|field| Some((resource_of(field)?, plain(field.change.old.as_deref()?))));
        let config_map = found.target.source().and_then(|source| source.config_map.as_ref());
        Some(SizeReview {
            size: size.to_string(),
            nodes: Some(found.nodes),
            config_map: config_map.map(|map| map.name.clone()),
            reserved: reserved(&computed, old.collect(), amounts(Some(pool), size)),
        })
    };
    planned.targets.by_size().iter().filter_map(of_size).collect()
}

/// The text of a value in JSON.
fn plain(value: &str) -> String {
    serde_json::from_str::<String>(value).unwrap_or_else(|_| value.to_owned())
}

/// The resource of a change of `kubeReserved`.
fn resource_of(field: &ChangedField) -> Option<Resource> {
    Resource::ALL.into_iter().find(|resource| reserved_field(*resource) == field.change.path)
}

impl PoolReview {
    /// Moves the computed amounts out of the field changes, and joins the changes that are the same otherwise.
    pub(super) fn without_computed_fields(&mut self) {
        let Some(first) = self.sizes.first() else { return };
        let computed: Vec<Resource> = first.reserved.iter().map(|amount| amount.resource).collect();
        let mut joined: Vec<Changes> = Vec::new();
        for mut set in std::mem::take(&mut self.changes) {
            set.fields.retain(|field| resource_of(field).is_none_or(|resource| !computed.contains(&resource)));
            let is_same = |other: &&mut Changes| {
                let of_map = |from: &Origin| matches!(from, Origin::ConfigMap { .. } | Origin::BySize);
                let alike = |set: &Changes| (set.merged, set.from_placement, set.from_known, set.sample.is_some());
                let from_alike = other.from == set.from || (of_map(&other.from) && of_map(&set.from));
                alike(other) == alike(&set) && other.fields == set.fields && from_alike
            };
            match joined.iter_mut().find(is_same) {
                Some(other) => {
                    if other.from != set.from {
                        other.from = Origin::BySize;
                    }
                    other.sample = other.sample.zip(set.sample).map(|(sample, more)| sample.with(more));
                    other.nodes = other.nodes.zip(set.nodes).map(|(nodes, more)| nodes + more);
                }
                None => joined.push(set),
            }
        }
        self.changes = joined;
    }
}
