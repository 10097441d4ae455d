//! Differences between a saved plan and a fresh plan, found by comparing both as JSON.
//!
//! A difference that follows from another one is omitted: a pool with another configuration is one difference, without a
//! list of its nodes.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{ClusterIdentity, SavedPlan};
use crate::reviewed::{ReviewedPlan, ReviewedPool};
use crate::{Plan, Why};
use nodecfg_contract::names::{CommitId, FleetName, NodeName, PoolName};
use nodecfg_fleet::settings::MAX_UNAVAILABLE;
use nodecfg_observed::Observed;

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// JSON pointer (RFC 6901) of the value in the saved plan, such as `/plan/nodes/node-1/uid`.
    pub path: String,
    /// Value in the saved plan; null if it has none.
    pub then: Value,
    /// Present value; null if there is none.
    pub now: Value,
    /// The difference as a sentence without a final period.
    pub message: String,
}

/// The fresh plan and its observation.
#[derive(Debug, Clone, Copy)]
pub struct FreshPlan<'a> {
    /// The fresh plan.
    pub plan: &'a Plan,
    /// The observation.
    pub observed: &'a Observed,
}

impl SavedPlan {
    /// Differences that are known before planning and locking: cluster, fleet and commit.
    #[must_use]
    pub fn context_differences(
        &self,
        cluster: &ClusterIdentity,
        fleet: &FleetName,
        commit: Option<&CommitId>,
    ) -> Vec<Difference> {
        let plan = ReviewedPlan { fleet: fleet.clone(), commit: commit.cloned(), ..self.plan.clone() };
        self.compare(Self { cluster: cluster.clone(), plan, ..self.clone() }, |_| String::new())
    }

    /// All relevant differences to `fresh`, the saved form of `now`, in the order of the file. Without any, both plans
    /// are equal in all compared fields.
    #[must_use]
    pub fn differences(&self, fresh: &Self, now: FreshPlan<'_>) -> Vec<Difference> {
        let pools = || now.plan.pools.iter();
        let left_alone = pools().flat_map(|pool| &pool.left_alone).map(|left| (left.node.as_str(), Some(&left.why)));
        let awaited = pools().flat_map(|pool| pool.steps()).map(|step| (step.node.as_str(), None));
        let planned: BTreeMap<&str, Option<&Why>> = left_alone.chain(awaited).collect();
        self.compare(fresh.clone(), |name| {
            let node = NodeName::new(name).ok();
            let then = node.as_ref().and_then(|node| self.plan.nodes.get(node));
            let seen = node.as_ref().and_then(|node| now.observed.nodes.get(node));
            match (seen, planned.get(name)) {
                (None, _) => "it left the cluster".to_owned(),
                (Some(seen), _) if then.is_none_or(|then| then.uid != seen.uid) => {
                    "it was deleted and recreated".to_owned()
                }
                (Some(_), Some(Some(why))) => why.to_string(),
                (Some(_), Some(None)) => "it points at the target already".to_owned(),
                (Some(_), None) => "it is in no pool any more".to_owned(),
            }
        })
    }

    /// Compares with `fresh`. `why_not` tells why a node is no longer assigned.
    fn compare(&self, fresh: Self, why_not: impl Fn(&str) -> String) -> Vec<Difference> {
        let server = fresh.cluster.server.clone();
        let (then, now) = without_consequences(self.clone(), fresh);
        // Strings, numbers and maps of them always serialize.
        let json = |plan: &Self| serde_json::to_value(plan).unwrap_or_default();
        let mut changes = Vec::new();
        compare(&mut Vec::new(), &json(&then), &json(&now), &mut changes);
        if changes.is_empty() && then != now {
            // Every field is in the JSON, so this is a fault of the comparison, and no reason to carry the plan out.
            changes.push(Change { path: Vec::new(), then: Value::Null, now: Value::Null });
        }
        let difference = |Change { path, then: old, now: new }| Difference {
            message: message(&path, &old, &new, (&then, &now, &server), &why_not),
            path: path.iter().map(|key| format!("/{}", key.replace('~', "~0").replace('/', "~1"))).collect(),
            then: old,
            now: new,
        };
        changes.into_iter().map(difference).collect()
    }
}

/// Makes fields equal that are not compared, or whose difference follows from another one.
fn without_consequences(mut then: SavedPlan, mut now: SavedPlan) -> (SavedPlan, SavedPlan) {
    (now.digest, now.plan_id, now.refused) = (then.digest.clone(), then.plan_id.clone(), then.refused.clone());
    // A cluster may have several addresses.
    now.cluster.server = then.cluster.server.clone();
    // Files without a commit are compared by their content.
    if then.plan.commit.is_none() {
        now.plan.commit = None;
    }
    let content = |pool: &ReviewedPool| (pool.configuration, pool.placement, pool.paused);
    let names: BTreeSet<&PoolName> = then.plan.pools.keys().chain(now.plan.pools.keys()).collect();
    let is_changed =
        |name: &&PoolName| then.plan.pools.get(*name).map(content) != now.plan.pools.get(*name).map(content);
    let changed: BTreeSet<PoolName> = names.into_iter().filter(is_changed).cloned().collect();

    // Another version of nodecfg matters only if it renders the same files differently.
    let renders = |plan: &SavedPlan| -> Vec<_> { plan.plan.pools.values().map(|pool| pool.configuration).collect() };
    if then.plan.commit.is_none() || then.plan.commit != now.plan.commit || renders(&then) == renders(&now) {
        now.nodecfg_version = then.nodecfg_version.clone();
    }
    // A changed pool explains the differences of its ConfigMaps and nodes.
    for plan in [&mut then.plan, &mut now.plan] {
        plan.config_maps.retain(|_, map| !changed.contains(&map.pool));
    }
    let pool_of = |plan: &SavedPlan, node: &NodeName| plan.plan.nodes.get(node).map(|node| node.pool.clone());
    let nodes: BTreeSet<NodeName> = then.plan.nodes.keys().chain(now.plan.nodes.keys()).cloned().collect();
    let mut with_other_nodes = BTreeSet::new();
    for node in nodes {
        let pools = [pool_of(&then, &node), pool_of(&now, &node)];
        if pools[0] != pools[1] {
            with_other_nodes.extend(pools.iter().flatten().cloned());
        }
        if pools.iter().flatten().all(|pool| changed.contains(pool)) {
            then.plan.nodes.remove(&node);
            now.plan.nodes.remove(&node);
        }
    }
    for (name, pool) in &mut now.plan.pools {
        let Some(before) = then.plan.pools.get(name) else { continue };
        // A lower risk is no difference, and other nodes may have another one.
        if changed.contains(name) || with_other_nodes.contains(name) || !pool.risk.exceeds(before.risk) {
            pool.risk = before.risk;
        }
        if pool.policy.get(MAX_UNAVAILABLE) != before.policy.get(MAX_UNAVAILABLE) {
            pool.budget = before.budget;
        }
    }
    (then, now)
}

/// A value that differs between two documents; null where it is missing.
struct Change {
    path: Vec<String>,
    then: Value,
    now: Value,
}

/// Finds the values that differ.
fn compare(path: &mut Vec<String>, then: &Value, now: &Value, found: &mut Vec<Change>) {
    match (then, now) {
        (Value::Object(old), Value::Object(new)) => {
            let added = new.keys().filter(|key| !old.contains_key(*key));
            for key in old.keys().chain(added) {
                path.push(key.clone());
                compare(path, old.get(key).unwrap_or(&Value::Null), new.get(key).unwrap_or(&Value::Null), found);
                path.pop();
            }
        }
        _ if then == now => {}
        _ => found.push(Change { path: path.clone(), then: then.clone(), now: now.clone() }),
    }
}

/// A difference as a sentence.
fn message(
    path: &[String],
    then: &Value,
    now: &Value,
    (old, new, server): (&SavedPlan, &SavedPlan, &str),
    why_not: impl Fn(&str) -> String,
) -> String {
    let text = |value: &Value, unset: &str| match value {
        Value::Null => unset.to_owned(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    let values = |unset: &str| (text(then, unset), text(now, unset));
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    match path.as_slice() {
        ["cluster", "uid"] => format!(
            "the plan is for the cluster at {} (uid {}), and this is the cluster at {} (uid {})",
            old.cluster.server, old.cluster.uid, server, new.cluster.uid
        ),
        ["nodecfgVersion"] => {
            let (then, now) = values("unknown");
            format!("nodecfg {now} renders the same files differently than nodecfg {then}")
        }
        ["plan", "fleet"] => {
            let (then, now) = values("unset");
            format!("the plan is for fleet {then}, and the repository is for fleet {now}")
        }
        ["plan", "commit"] => {
            let (then, now) = values("files without a commit");
            format!("the commit changed: reviewed {then}, now {now}")
        }
        ["plan", "pools", pool] if now.is_null() => format!("pool {pool} was removed"),
        ["plan", "pools", pool] => format!("pool {pool} is new"),
        ["plan", "pools", pool, "configuration"] => {
            let (then, now) = values("the local one");
            format!("pool {pool}: the configuration is {now}, and was {then}")
        }
        ["plan", "pools", pool, "risk", "unknown"] => {
            let (then, now) = values("0");
            format!("pool {pool}: the risk of the change is unknown for {now} nodes, and was for {then}")
        }
        ["plan", "pools", pool, "risk", ..] => {
            let (then, now) = values("none known");
            format!("pool {pool}: the risk of the change is {now}, and was {then}")
        }
        ["plan", "pools", pool, "policy", setting] | ["plan", "pools", pool, setting] => {
            let (then, now) = values("unset");
            format!("pool {pool}: {setting} is {now}, and was {then}")
        }
        ["plan", "configMaps", name] if now.is_null() => {
            format!("ConfigMap {}/{name}, which the plan creates, exists already or is not needed", new.plan.namespace)
        }
        ["plan", "configMaps", name] => format!("ConfigMap {}/{name} existed and is missing now", new.plan.namespace),
        ["plan", "nodes", node] if now.is_null() => format!("node {node} is not assigned any more: {}", why_not(node)),
        ["plan", "nodes", node] => format!("node {node} needs an assignment now"),
        ["plan", "nodes", node, "uid"] => format!("node {node} was deleted and recreated"),
        ["plan", "nodes", node, "from"] => {
            let (then, now) = values("the local configuration");
            format!("node {node} points at {now}, and pointed at {then}")
        }
        ["plan", "nodes", node, field] => {
            let (then, now) = values("unset");
            format!("node {node}: {field} is {now}, and was {then}")
        }
        [] => "the plan differs from a fresh plan".to_owned(),
        path => {
            let (then, now) = values("unset");
            format!("{} is {now}, and was {then}", path.join("."))
        }
    }
}
