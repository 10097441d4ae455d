//! Differences between a saved plan and a fresh plan, each reported once with its known cause.
//!
//! A difference that follows from another one is omitted: a new pool is one difference without a list of its nodes,
//! and a pool with another target does not list the nodes that it therefore assigns.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{ClusterIdentity, SavedAssignment, SavedOptions, SavedPlan, SavedPool};
use crate::{Plan, Why};
use nodecfg_contract::names::{CommitId, FleetName, NamespaceName, NodeName, PoolName};
use nodecfg_contract::{ConfigSource, Placement};
use nodecfg_observed::Observed;

/// Kind of a difference, in the order of reports: the most general first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    /// The plan is for another cluster.
    Cluster,
    /// The plan is for another fleet.
    Fleet,
    /// The commit differs.
    Commit,
    /// The namespace of the ConfigMaps differs.
    Namespace,
    /// The binding differs: assignments are written to another resource.
    Binding,
    /// An option differs.
    Options,
    /// The version of the content hash differs.
    HashVersion,
    /// Another version of nodecfg renders the same files differently.
    NodecfgVersion,
    /// A pool was removed.
    PoolGone,
    /// A pool was added.
    PoolNew,
    /// The target of a pool differs.
    PoolConfiguration,
    /// A field of a rollout policy differs.
    PoolPolicy,
    /// An operator paused or resumed a pool.
    PoolPause,
    /// The budget of a pool differs.
    PoolBudget,
    /// The change disrupts running pods more.
    PoolRisk,
    /// A ConfigMap to create exists already.
    ConfigMapExists,
    /// A ConfigMap that existed must be created.
    ConfigMapMissing,
    /// A node needs an assignment that the saved plan lacks.
    NodeNew,
    /// An assigned node left the cluster.
    NodeGone,
    /// An assigned node was recreated.
    NodeReplaced,
    /// An assigned node belongs to another pool, or to none.
    NodeMoved,
    /// An assigned node has another source.
    NodeRepointed,
    /// An assigned node points at the target already.
    NodeArrived,
    /// An assigned node would be left unchanged.
    NodeLeftAlone,
    /// Any other difference.
    Other,
}

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// Kind, stable for scripts.
    pub code: Code,
    /// Pool of the difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolName>,
    /// Node of the difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeName>,
    /// ConfigMap, option or policy field of the difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Value in the saved plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub then: Option<String>,
    /// Present value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub now: Option<String>,
    /// The difference as a sentence without a final period.
    pub message: String,
}

impl Difference {
    fn of(code: Code, message: impl Into<String>) -> Self {
        Self { code, pool: None, node: None, name: None, then: None, now: None, message: message.into() }
    }

    fn values(self, then: impl Into<String>, now: impl Into<String>) -> Self {
        Self { then: Some(then.into()), now: Some(now.into()), ..self }
    }

    fn pool(self, pool: &PoolName) -> Self {
        Self { pool: Some(pool.clone()), ..self }
    }

    fn node(self, node: &NodeName) -> Self {
        Self { node: Some(node.clone()), ..self }
    }

    fn name(self, name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..self }
    }
}

/// The fresh plan and its observation.
#[derive(Debug, Clone, Copy)]
pub struct FreshPlan<'a> {
    /// The fresh plan.
    pub plan: &'a Plan,
    /// The observation.
    pub observed: &'a Observed,
}

fn commit_text(commit: Option<&CommitId>) -> String {
    commit.map_or_else(|| "files without a commit".to_owned(), ToString::to_string)
}

fn source_text(source: Option<&ConfigSource>) -> String {
    source.map_or_else(|| "the local configuration".to_owned(), ToString::to_string)
}

fn placement_text(placement: Option<Placement>) -> String {
    placement.map_or_else(|| "unset".to_owned(), |placement| placement.to_string())
}

fn risk_text(pool: &SavedPool) -> String {
    match (pool.risk, pool.risk_unknown) {
        (None, 0) => "none known".to_owned(),
        (None, nodes) => format!("unknown for {}", nodes_text(nodes)),
        (Some(class), 0) => class.to_string(),
        (Some(class), nodes) => format!("{class}, unknown for {}", nodes_text(nodes)),
    }
}

fn nodes_text(count: usize) -> String {
    if count == 1 { "1 node".to_owned() } else { format!("{count} nodes") }
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
        let mut found = Vec::new();
        if self.cluster.uid != cluster.uid {
            let (then, now) = (&self.cluster, cluster);
            let message = format!(
                "the plan is for the cluster at {} (uid {}), and this is the cluster at {} (uid {})",
                then.server, then.uid, now.server, now.uid
            );
            found.push(Difference::of(Code::Cluster, message).values(&then.uid, &now.uid));
        }
        if self.fleet != *fleet {
            let message = format!("the plan is for fleet {}, and the repository is for fleet {fleet}", self.fleet);
            found.push(Difference::of(Code::Fleet, message).values(self.fleet.as_str(), fleet.as_str()));
        }
        // Files without a commit are compared by their rendered content.
        if self.commit.is_some() && self.commit.as_ref() != commit {
            let (then, now) = (commit_text(self.commit.as_ref()), commit_text(commit));
            found.push(
                Difference::of(Code::Commit, format!("the commit changed: reviewed {then}, now {now}"))
                    .values(then, now),
            );
        }
        found
    }

    /// Returns all relevant differences to `fresh`, the saved form of `now`, in order of reports. An empty result
    /// means that the plans are equal in all compared fields.
    #[must_use]
    pub fn differences(&self, fresh: &Self, now: FreshPlan<'_>) -> Vec<Difference> {
        let mut found = self.context_differences(&fresh.cluster, &fresh.fleet, fresh.commit.as_ref());
        self.option_differences(fresh, &mut found);
        for then in &self.pools {
            match fresh.pool(&then.name) {
                Some(current) => self.pool_differences(fresh, then, current, now, &mut found),
                None => {
                    let message = format!(
                        "pool {} was removed (the plan assigns {})",
                        then.name,
                        nodes_text(then.assignments.len())
                    );
                    found.push(Difference::of(Code::PoolGone, message).pool(&then.name));
                }
            }
        }
        for current in fresh.pools.iter().filter(|current| self.pool(&current.name).is_none()) {
            let message =
                format!("pool {} is new ({} to be assigned)", current.name, nodes_text(current.assignments.len()));
            found.push(Difference::of(Code::PoolNew, message).pool(&current.name));
        }
        self.config_map_differences(fresh, now, &mut found);
        if found.is_empty() && self.compared() != fresh.compared() {
            found.push(Difference::of(Code::Other, "the plan differs from a fresh plan"));
        }
        found.sort();
        found
    }

    /// Copy in which the fields that are not compared, or were compared before, are blank.
    fn compared(&self) -> Self {
        let mut compared = Self {
            digest: String::new(),
            nodecfg_version: String::new(),
            plan_id: String::new(),
            cluster: ClusterIdentity { server: String::new(), ..self.cluster.clone() },
            commit: None,
            ..self.clone()
        };
        for pool in &mut compared.pools {
            // A lower risk is no difference, and a higher one is reported already.
            (pool.risk, pool.risk_unknown, pool.refused) = (None, 0, false);
            // A new or removed pause is reported already. Its author and reason do not change the plan.
            pool.paused = None;
        }
        compared
    }

    fn option_differences(&self, fresh: &Self, found: &mut Vec<Difference>) {
        let mut compare = |code, what: &str, name: Option<&str>, then: String, now: String| {
            if then != now {
                let difference = Difference::of(code, format!("{what} is {now}, and was {then}")).values(then, now);
                found.push(Difference { name: name.map(str::to_owned), ..difference });
            }
        };
        compare(Code::Namespace, "the namespace", None, self.namespace.to_string(), fresh.namespace.to_string());
        compare(Code::Binding, "the binding", None, self.binding.clone(), fresh.binding.clone());
        let (then, now) = (&self.options, &fresh.options);
        let limit = |plan: &Self| plan.max_unavailable.clone().unwrap_or_else(|| "none".to_owned());
        compare(
            Code::PoolPolicy,
            "maxUnavailable of all pools",
            Some("spec.maxUnavailable"),
            limit(self),
            limit(fresh),
        );
        for (name, then, now) in [
            ("--take-over", then.take_over, now.take_over),
            ("--allow-empty", then.allow_empty, now.allow_empty),
            ("--lenient", then.lenient, now.lenient),
        ] {
            compare(Code::Options, name, Some(name), then.to_string(), now.to_string());
        }
        let named = |value: Option<&str>| value.unwrap_or("not given").to_owned();
        let namespace = |options: &SavedOptions| named(options.namespace.as_ref().map(NamespaceName::as_str));
        compare(Code::Options, "--namespace", Some("--namespace"), namespace(then), namespace(now));
        let binding = |options: &SavedOptions| named(options.binding.as_deref());
        compare(Code::Options, "--binding", Some("--binding"), binding(then), binding(now));
        compare(
            Code::HashVersion,
            "the version of the content hash",
            None,
            self.hash_version.clone(),
            fresh.hash_version.clone(),
        );
        // Another version of nodecfg is no difference by itself, but it explains one.
        let same_files = self.commit.is_some() && self.commit == fresh.commit;
        let renders = |plan: &Self| -> BTreeMap<PoolName, Option<String>> {
            plan.pools.iter().map(|pool| (pool.name.clone(), pool.hash.clone())).collect()
        };
        if same_files && self.nodecfg_version != fresh.nodecfg_version && renders(self) != renders(fresh) {
            compare(
                Code::NodecfgVersion,
                "the version of nodecfg, which renders the same files differently,",
                None,
                self.nodecfg_version.clone(),
                fresh.nodecfg_version.clone(),
            );
        }
    }

    fn pool_differences(
        &self,
        fresh: &Self,
        then: &SavedPool,
        current: &SavedPool,
        now: FreshPlan<'_>,
        found: &mut Vec<Difference>,
    ) {
        let name = &then.name;
        let placed = then.placement == current.placement;
        let same_target = then.target == current.target && then.hash == current.hash && placed;
        if !placed && then.target.is_some() && current.target.is_some() {
            let (old, new) = (placement_text(then.placement), placement_text(current.placement));
            let message = format!("the placement of pool {name} is {new}, and was {old}");
            found.push(Difference::of(Code::PoolConfiguration, message).pool(name).values(old, new));
        }
        // A new hash version changes every name; that is reported already.
        if (&then.target, &then.hash) != (&current.target, &current.hash) && self.hash_version == fresh.hash_version {
            let (old, new) = (source_text(then.target.as_ref()), source_text(current.target.as_ref()));
            let message = format!("the target of pool {name} is {new}, and was {old}");
            found.push(Difference::of(Code::PoolConfiguration, message).pool(name).values(old, new));
        }
        for ((field, old), (_, new)) in then.policy.fields().into_iter().zip(current.policy.fields()) {
            if old != new {
                let message = format!("pool {name}: {field} is {new}, and was {old}");
                found.push(Difference::of(Code::PoolPolicy, message).pool(name).name(field).values(old, new));
            }
        }
        let difference = match (&then.paused, &current.paused) {
            (None, Some(pause)) => Some((format!("pool {name} was paused {pause}"), "false", "true")),
            (Some(pause), None) => Some((format!("pool {name} was resumed: it was paused {pause}"), "true", "false")),
            // Author and reason of a pause do not change the plan.
            _ => None,
        };
        if let Some((message, old, new)) = difference {
            found.push(Difference::of(Code::PoolPause, message).pool(name).values(old, new));
        }
        if then.budget != current.budget && then.policy.max_unavailable == current.policy.max_unavailable {
            let message =
                format!("pool {name}: the budget is {} unavailable nodes, and was {}", current.budget, then.budget);
            let difference = Difference::of(Code::PoolBudget, message).pool(name);
            found.push(difference.values(then.budget.to_string(), current.budget.to_string()));
        }
        let old: BTreeMap<&NodeName, &SavedAssignment> = then.assignments.iter().map(|one| (&one.node, one)).collect();
        let new: BTreeMap<&NodeName, &SavedAssignment> =
            current.assignments.iter().map(|one| (&one.node, one)).collect();
        // An unknown risk counts as a higher one. The risk of added nodes does not count, because each added node is
        // a difference of its own.
        let added = new.keys().filter(|node| !old.contains_key(*node)).count();
        let lost = then.risk.is_some() && current.risk.is_none() && current.risk_unknown > 0;
        if current.risk > then.risk || current.risk_unknown > then.risk_unknown + added || lost {
            let (old, new) = (risk_text(then), risk_text(current));
            let message = format!("pool {name}: the risk of the change is {new}, and was {old}");
            found.push(Difference::of(Code::PoolRisk, message).pool(name).values(old, new));
        }
        for (node, old) in &old {
            let difference = match new.get(*node) {
                Some(new) => node_difference(old, &new.uid, new.from.as_ref(), new.from_placement),
                None => dropped_node(old, current, same_target, now),
            };
            found.extend(difference.map(|difference| difference.pool(name).node(node)));
        }
        let moved = |node: &NodeName| {
            self.pools
                .iter()
                .any(|pool| fresh.pool(&pool.name).is_some() && pool.assignments.iter().any(|one| one.node == *node))
        };
        // A new target or the end of a pause explains additional assignments.
        let is_paused = |pool: &SavedPool| pool.policy.paused || pool.paused.is_some();
        let unpaused = is_paused(then) && !is_paused(current);
        for node in new.keys().filter(|node| same_target && !unpaused && !old.contains_key(*node) && !moved(node)) {
            let message = format!("node {node} needs an assignment now");
            found.push(Difference::of(Code::NodeNew, message).pool(name).node(node));
        }
    }

    fn config_map_differences(&self, fresh: &Self, now: FreshPlan<'_>, found: &mut Vec<Difference>) {
        let keys = |plan: &Self| -> BTreeSet<(PoolName, String)> {
            plan.config_maps.iter().map(|map| (map.pool.clone(), map.name.clone())).collect()
        };
        // Only for pools that have an unchanged target and assignments in both plans; otherwise the pool explains the
        // change.
        let same = |pool: &PoolName| {
            let (Some(then), Some(current)) = (self.pool(pool), fresh.pool(pool)) else { return false };
            then.target == current.target && !then.assignments.is_empty() && !current.assignments.is_empty()
        };
        let (then, current) = (keys(self), keys(fresh));
        for (pool, name) in then.difference(&current).filter(|(pool, _)| same(pool)) {
            let exists = now.plan.config_maps.iter().any(|map| map.name == *name);
            let state = if exists { "exists already" } else { "is no longer needed" };
            let message = format!("ConfigMap {}/{name}, which the plan creates, {state}", fresh.namespace);
            found.push(Difference::of(Code::ConfigMapExists, message).pool(pool).name(name));
        }
        for (pool, name) in current.difference(&then).filter(|(pool, _)| same(pool)) {
            let message = format!("ConfigMap {}/{name} existed and is missing now", fresh.namespace);
            found.push(Difference::of(Code::ConfigMapMissing, message).pool(pool).name(name));
        }
    }
}

/// Reports that a node was recreated or has another source, if so.
fn node_difference(
    old: &SavedAssignment,
    uid: &str,
    from: Option<&ConfigSource>,
    placement: Option<Placement>,
) -> Option<Difference> {
    let node = &old.node;
    if old.uid != uid {
        let message = format!("node {node} was deleted and recreated");
        return Some(Difference::of(Code::NodeReplaced, message).values(&old.uid, uid));
    }
    if old.from.as_ref() != from {
        let (then, now) = (source_text(old.from.as_ref()), source_text(from));
        let message = format!("node {node} points at {now}, and pointed at {then}");
        return Some(Difference::of(Code::NodeRepointed, message).values(then, now));
    }
    if old.from_placement != placement {
        let (then, now) = (placement_text(old.from_placement), placement_text(placement));
        let message = format!("node {node} has the placement {now}, and had {then}");
        return Some(Difference::of(Code::NodeRepointed, message).values(then, now));
    }
    None
}

/// Reason why a node is no longer assigned; `None` if its pool reports the reason.
fn dropped_node(old: &SavedAssignment, pool: &SavedPool, same_target: bool, now: FreshPlan<'_>) -> Option<Difference> {
    let node = &old.node;
    let Some(seen) = now.observed.nodes.get(node) else {
        return Some(Difference::of(Code::NodeGone, format!("node {node} left the cluster")));
    };
    if seen.uid != old.uid {
        return node_difference(old, &seen.uid, None, None);
    }
    let planned_pool = |plan: &&crate::PoolPlan| {
        plan.steps().any(|step| step.node == *node) || plan.left_alone.iter().any(|left| left.node == *node)
    };
    let planned_pool = now.plan.pools.iter().find(planned_pool);
    if planned_pool.is_none_or(|found| found.name != pool.name) {
        let place = planned_pool
            .map_or_else(|| "in no pool any more".to_owned(), |found| format!("in pool {} now", found.name));
        return Some(Difference::of(Code::NodeMoved, format!("node {node} is {place}")));
    }
    // Compares the source without the fields that only a status has.
    let placement = seen.content.and_then(|content| content.placement);
    let arrived = match (&pool.target, &seen.source) {
        _ if seen.content.is_some() && placement != pool.placement => false,
        (Some(target), Some(source)) => target.names_same(source),
        (None, None) => true,
        _ => false,
    };
    if arrived {
        let message = format!("node {node} points at {} already", source_text(pool.target.as_ref()));
        return same_target.then(|| Difference::of(Code::NodeArrived, message));
    }
    if seen.source != old.from || placement != old.from_placement {
        return node_difference(old, &old.uid, seen.source.as_ref(), placement);
    }
    let why =
        planned_pool.and_then(|found| found.left_alone.iter().find(|left| left.node == *node)).map(|left| &left.why);
    let state = match why {
        // Reported as a policy or pause difference of the pool.
        Some(Why::Paused { .. }) => return None,
        Some(Why::OutOfScope) => "it was not requested".to_owned(),
        Some(Why::Deleting) => "it is being deleted".to_owned(),
        Some(Why::Adopted { .. }) => "it runs the desired content from another ConfigMap".to_owned(),
        Some(Why::Conflict { .. }) => "this fleet does not manage its ConfigMap".to_owned(),
        Some(Why::Unsupported { version }) => format!("kubelet {version} does not support configSource"),
        Some(Why::WouldRefuse { kubelet, .. }) => {
            format!("kubelet {kubelet} would refuse the configuration")
        }
        Some(Why::OverReserved(reservation)) => format!("the configuration reserves {reservation}"),
        Some(Why::NoDynamicConfig | Why::AgentSilent | Why::AgentOutdated | Why::Outlived) => {
            "it does not follow assignments".to_owned()
        }
        Some(Why::Contested { .. }) => "several pools of equal priority select it".to_owned(),
        Some(Why::Maintained { by }) => format!("{by} maintains it"),
        Some(Why::DrainedBy { fleet }) => format!("fleet {fleet} drains it"),
        Some(Why::Unreadable(field)) => field.to_string(),
        Some(Why::New { .. }) => "it is new".to_owned(),
        Some(Why::Converged) | None => "no assignment is needed".to_owned(),
    };
    Some(
        Difference::of(Code::NodeLeftAlone, format!("node {node} would be left unchanged: {state}"))
            .values("assigned", state),
    )
}
