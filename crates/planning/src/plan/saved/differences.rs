//! What has changed since a plan was saved: every difference between its essence and that of a plan made now, each said once,
//! with what is known of why.
//!
//! What follows from another difference is left out: a pool that is new says how many nodes it brings, and a pool whose
//! configuration is another one does not list the nodes that this makes it assign.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{ClusterIdentity, SavedAssignment, SavedPlan, SavedPool};
use crate::plan::{Plan, Why};
use nodecfg_contract::ConfigSource;
use nodecfg_contract::names::{CommitId, FleetName, NodeName, PoolName};
use nodecfg_contract::observed::Observed;

/// Which kind of difference. The order is that of reports: what explains most comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    /// It is for another cluster.
    Cluster,
    /// It is of another fleet.
    Fleet,
    /// Another commit is read.
    Commit,
    /// ConfigMaps go elsewhere.
    Namespace,
    /// Assignments are written elsewhere.
    Binding,
    /// It was planned with other options.
    Options,
    /// Content is hashed by another rule.
    HashVersion,
    /// Another nodecfg renders otherwise.
    NodecfgVersion,
    /// A pool is gone.
    PoolGone,
    /// A pool is new.
    PoolNew,
    /// A pool shall run something else.
    PoolConfiguration,
    /// A field of a pool's rollout policy.
    PoolPolicy,
    /// Somebody has paused a pool from a command line, or resumed it.
    PoolPause,
    /// More or fewer nodes of a pool may be unavailable.
    PoolBudget,
    /// The change does more to running pods.
    PoolRisk,
    /// A ConfigMap to create is there.
    ConfigMapExists,
    /// A ConfigMap that was there is to be created.
    ConfigMapMissing,
    /// A node is to be assigned that was not.
    NodeNew,
    /// A node to be assigned is gone.
    NodeGone,
    /// A node to be assigned was made anew.
    NodeReplaced,
    /// A node to be assigned belongs to another pool, or to none.
    NodeMoved,
    /// A node to be assigned points at something else than it did.
    NodeRepointed,
    /// A node to be assigned points at the target already.
    NodeArrived,
    /// A node to be assigned would be left alone.
    NodeLeftAlone,
    /// Anything that is none of these.
    Other,
}

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// Its kind: safe to match in scripts.
    pub code: Code,
    /// The pool that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolName>,
    /// The node that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeName>,
    /// The ConfigMap, option or field of the policy that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// As it was when the plan was saved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub then: Option<String>,
    /// As it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub now: Option<String>,
    /// All of it in a sentence without its full stop.
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

/// What is so now.
#[derive(Debug, Clone, Copy)]
pub struct Now<'a> {
    /// The plan that was made afresh.
    pub plan: &'a Plan,
    /// What it was made from.
    pub observed: &'a Observed,
}

fn commit_text(commit: Option<&CommitId>) -> String {
    commit.map_or_else(|| "files that are no commit's".to_owned(), ToString::to_string)
}

fn source_text(source: Option<&ConfigSource>) -> String {
    source.map_or_else(|| "the local configuration".to_owned(), ToString::to_string)
}

fn risk_text(pool: &SavedPool) -> String {
    match (pool.risk, pool.risk_unknown) {
        (None, 0) => "none that is known".to_owned(),
        (None, nodes) => format!("not known for {}", nodes_text(nodes)),
        (Some(class), 0) => class.to_string(),
        (Some(class), nodes) => format!("{class}, and not known for {}", nodes_text(nodes)),
    }
}

fn nodes_text(count: usize) -> String {
    if count == 1 { "1 node".to_owned() } else { format!("{count} nodes") }
}

impl SavedPlan {
    /// What can be told before anything is planned, or locked: cluster, fleet and commit.
    #[must_use]
    pub fn surroundings(
        &self,
        cluster: &ClusterIdentity,
        fleet: &FleetName,
        commit: Option<&CommitId>,
    ) -> Vec<Difference> {
        let mut found = Vec::new();
        if self.cluster.uid != cluster.uid {
            let (then, now) = (&self.cluster, cluster);
            let message = format!(
                "it is for another cluster: the one at {} (uid {}), not this one at {} (uid {})",
                then.server, then.uid, now.server, now.uid
            );
            found.push(Difference::of(Code::Cluster, message).values(&then.uid, &now.uid));
        }
        if self.fleet != *fleet {
            let message = format!("it is of fleet {}, and the repository is of fleet {fleet}", self.fleet);
            found.push(Difference::of(Code::Fleet, message).values(self.fleet.as_str(), fleet.as_str()));
        }
        // Files of no commit are known by what they render.
        if self.commit.is_some() && self.commit.as_ref() != commit {
            let (then, now) = (commit_text(self.commit.as_ref()), commit_text(commit));
            found.push(
                Difference::of(Code::Commit, format!("commit {then} was reviewed, and {now} is read now"))
                    .values(then, now),
            );
        }
        found
    }

    /// Every difference that matters between this plan and `fresh`, the essence of the plan of `now`; sorted. None: they are the
    /// same.
    #[must_use]
    pub fn differences(&self, fresh: &Self, now: Now<'_>) -> Vec<Difference> {
        let mut found = self.surroundings(&fresh.cluster, &fresh.fleet, fresh.commit.as_ref());
        self.settings(fresh, &mut found);
        for then in &self.pools {
            match fresh.pool(&then.name) {
                Some(is) => self.pool_differences(fresh, then, is, now, &mut found),
                None => {
                    let message = format!(
                        "pool {} is gone ({} were to be assigned)",
                        then.name,
                        nodes_text(then.assignments.len())
                    );
                    found.push(Difference::of(Code::PoolGone, message).pool(&then.name));
                }
            }
        }
        for is in fresh.pools.iter().filter(|is| self.pool(&is.name).is_none()) {
            let message = format!("pool {} is new ({} to be assigned)", is.name, nodes_text(is.assignments.len()));
            found.push(Difference::of(Code::PoolNew, message).pool(&is.name));
        }
        self.config_map_differences(fresh, now, &mut found);
        if found.is_empty() && self.compared() != fresh.compared() {
            found.push(Difference::of(Code::Other, "it is not what would be planned now"));
        }
        found.sort();
        found
    }

    /// The plan without what is not compared.
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
            // Less of it is no difference, and more of it has been told.
            (pool.risk, pool.risk_unknown, pool.refused) = (None, 0, false);
            // That it came or went has been told; by whom and why is the same plan.
            pool.paused = None;
        }
        compared
    }

    fn settings(&self, fresh: &Self, found: &mut Vec<Difference>) {
        let mut compare = |code, what: &str, name: Option<&str>, then: String, now: String| {
            if then != now {
                let difference = Difference::of(code, format!("{what} is {now}, and was {then}")).values(then, now);
                found.push(Difference { name: name.map(str::to_owned), ..difference });
            }
        };
        compare(Code::Namespace, "the namespace", None, self.namespace.to_string(), fresh.namespace.to_string());
        compare(Code::Binding, "the binding", None, self.binding.clone(), fresh.binding.clone());
        let (then, now) = (&self.options, &fresh.options);
        for (name, then, now) in [
            ("--take-over", then.take_over, now.take_over),
            ("--allow-empty", then.allow_empty, now.allow_empty),
            ("--lenient", then.lenient, now.lenient),
        ] {
            compare(Code::Options, name, Some(name), then.to_string(), now.to_string());
        }
        let named = |namespace: &Option<nodecfg_contract::names::NamespaceName>| {
            namespace.as_ref().map_or_else(|| "not given".to_owned(), ToString::to_string)
        };
        compare(Code::Options, "--namespace", Some("--namespace"), named(&then.namespace), named(&now.namespace));
        compare(
            Code::HashVersion,
            "the rule by which content is hashed",
            None,
            self.hash_version.clone(),
            fresh.hash_version.clone(),
        );
        // Another nodecfg is no difference of its own, but it explains one.
        let same_files = self.commit.is_some() && self.commit == fresh.commit;
        let renders = |plan: &Self| -> BTreeMap<PoolName, Option<String>> {
            plan.pools.iter().map(|pool| (pool.name.clone(), pool.hash.clone())).collect()
        };
        if same_files && self.nodecfg_version != fresh.nodecfg_version && renders(self) != renders(fresh) {
            compare(
                Code::NodecfgVersion,
                "the version of nodecfg, which renders the same files otherwise,",
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
        is: &SavedPool,
        now: Now<'_>,
        found: &mut Vec<Difference>,
    ) {
        let name = &then.name;
        let same_target = then.target == is.target && then.hash == is.hash;
        // A new rule of hashing gives everything a new name; that is said already.
        if !same_target && self.hash_version == fresh.hash_version {
            let (was, shall) = (source_text(then.target.as_ref()), source_text(is.target.as_ref()));
            let message = format!("pool {name} shall run {shall}, and was to run {was}");
            found.push(Difference::of(Code::PoolConfiguration, message).pool(name).values(was, shall));
        }
        for ((field, was), (_, shall)) in then.policy.fields().into_iter().zip(is.policy.fields()) {
            if was != shall {
                let message = format!("pool {name}: {field} is {shall}, and was {was}");
                found.push(Difference::of(Code::PoolPolicy, message).pool(name).name(field).values(was, shall));
            }
        }
        let difference = match (&then.paused, &is.paused) {
            (None, Some(pause)) => Some((format!("pool {name} was paused meanwhile {pause}"), "false", "true")),
            (Some(pause), None) => Some((format!("pool {name} was resumed: it was paused {pause}"), "true", "false")),
            // By whom, and for what reason, changes nothing about what is done.
            _ => None,
        };
        if let Some((message, was, shall)) = difference {
            found.push(Difference::of(Code::PoolPause, message).pool(name).values(was, shall));
        }
        if then.budget != is.budget && then.policy.max_unavailable == is.policy.max_unavailable {
            let message =
                format!("pool {name}: {} of its nodes may be unavailable at once, and were {}", is.budget, then.budget);
            let difference = Difference::of(Code::PoolBudget, message).pool(name);
            found.push(difference.values(then.budget.to_string(), is.budget.to_string()));
        }
        let was: BTreeMap<&NodeName, &SavedAssignment> = then.assignments.iter().map(|one| (&one.node, one)).collect();
        let shall: BTreeMap<&NodeName, &SavedAssignment> = is.assignments.iter().map(|one| (&one.node, one)).collect();
        // What is not known may be anything. That a node is new is told of the node.
        let new = shall.keys().filter(|node| !was.contains_key(*node)).count();
        let lost = then.risk.is_some() && is.risk.is_none() && is.risk_unknown > 0;
        if is.risk > then.risk || is.risk_unknown > then.risk_unknown + new || lost {
            let (was, shall) = (risk_text(then), risk_text(is));
            let message = format!("pool {name}: the risk of the change is {shall}, and was {was}");
            found.push(Difference::of(Code::PoolRisk, message).pool(name).values(was, shall));
        }
        for (node, was) in &was {
            let difference = match shall.get(*node) {
                Some(shall) => same_node(was, &shall.uid, shall.from.as_ref()),
                None => dropped(was, is, same_target, now),
            };
            found.extend(difference.map(|difference| difference.pool(name).node(node)));
        }
        let moved = |node: &NodeName| {
            self.pools
                .iter()
                .any(|pool| fresh.pool(&pool.name).is_some() && pool.assignments.iter().any(|one| one.node == *node))
        };
        // With another configuration it is no wonder that other nodes lack it.
        let held = |pool: &SavedPool| pool.policy.paused || pool.paused.is_some();
        let unpaused = held(then) && !held(is);
        for node in shall.keys().filter(|node| same_target && !unpaused && !was.contains_key(*node) && !moved(node)) {
            let message = format!("node {node} is to be assigned, and was not");
            found.push(Difference::of(Code::NodeNew, message).pool(name).node(node));
        }
    }

    fn config_map_differences(&self, fresh: &Self, now: Now<'_>, found: &mut Vec<Difference>) {
        let keys = |plan: &Self| -> BTreeSet<(PoolName, String)> {
            plan.config_maps.iter().map(|map| (map.pool.clone(), map.name.clone())).collect()
        };
        // Of pools that are otherwise the same: for any other it is no wonder.
        let same = |pool: &PoolName| {
            let (Some(then), Some(is)) = (self.pool(pool), fresh.pool(pool)) else { return false };
            then.target == is.target && !then.assignments.is_empty() && !is.assignments.is_empty()
        };
        let (then, is) = (keys(self), keys(fresh));
        for (pool, name) in then.difference(&is).filter(|(pool, _)| same(pool)) {
            let there = now.plan.config_maps.iter().any(|map| map.name == *name);
            let state = if there { "is there already" } else { "is needed no more" };
            let message = format!("ConfigMap {}/{name}, which was to be created, {state}", fresh.namespace);
            found.push(Difference::of(Code::ConfigMapExists, message).pool(pool).name(name));
        }
        for (pool, name) in is.difference(&then).filter(|(pool, _)| same(pool)) {
            let message =
                format!("ConfigMap {}/{name} was there, and is gone: it would have to be created", fresh.namespace);
            found.push(Difference::of(Code::ConfigMapMissing, message).pool(pool).name(name));
        }
    }
}

/// In what a node that is to be assigned, now as then, is not as it was.
fn same_node(was: &SavedAssignment, uid: &str, from: Option<&ConfigSource>) -> Option<Difference> {
    let node = &was.node;
    if was.uid != uid {
        let message = format!("node {node} was deleted and made anew: another Node has the name");
        return Some(Difference::of(Code::NodeReplaced, message).values(&was.uid, uid));
    }
    if was.from.as_ref() != from {
        let (then, now) = (source_text(was.from.as_ref()), source_text(from));
        let message = format!("node {node} points at {now}, and pointed at {then}");
        return Some(Difference::of(Code::NodeRepointed, message).values(then, now));
    }
    None
}

/// Why a node is not to be assigned any more. `None`: for a reason that is told of its pool.
fn dropped(was: &SavedAssignment, pool: &SavedPool, same_target: bool, now: Now<'_>) -> Option<Difference> {
    let node = &was.node;
    let Some(seen) = now.observed.nodes.get(node) else {
        return Some(Difference::of(Code::NodeGone, format!("node {node} is gone")));
    };
    if seen.uid != was.uid {
        return same_node(was, &seen.uid, None);
    }
    let home = |plan: &&crate::plan::PoolPlan| {
        plan.steps().any(|step| step.node == *node) || plan.left_alone.iter().any(|left| left.node == *node)
    };
    let home = now.plan.pools.iter().find(home);
    if home.is_none_or(|home| home.name != pool.name) {
        let whose = home.map_or_else(|| "in no pool any more".to_owned(), |home| format!("in pool {} now", home.name));
        return Some(Difference::of(Code::NodeMoved, format!("node {node} is {whose}")));
    }
    // Whether it points there already; a source is compared without what only status has.
    let arrived = match (&pool.target, &seen.source) {
        (Some(target), Some(source)) => target.names_same(source),
        (None, None) => true,
        _ => false,
    };
    if arrived {
        let message = format!("node {node} points at {} already", source_text(pool.target.as_ref()));
        return same_target.then(|| Difference::of(Code::NodeArrived, message));
    }
    if seen.source != was.from {
        return same_node(was, &was.uid, seen.source.as_ref());
    }
    let why = home.and_then(|home| home.left_alone.iter().find(|left| left.node == *node)).map(|left| &left.why);
    let state = match why {
        // A field of the policy, or an order.
        Some(Why::Paused { .. }) => return None,
        Some(Why::OutOfScope) => "it is not asked for".to_owned(),
        Some(Why::Deleting) => "it is being deleted".to_owned(),
        Some(Why::Adopted { .. }) => "it runs the wanted content already, under another name".to_owned(),
        Some(Why::Conflict { .. }) => "what it points at is not managed by this fleet".to_owned(),
        Some(Why::Unsupported { version }) => format!("its kubelet is {version}, which cannot follow"),
        Some(Why::WouldRefuse { kubelet, .. }) => {
            format!("its kubelet is {kubelet} and would refuse the configuration")
        }
        Some(Why::NoDynamicConfig | Why::AgentSilent | Why::Outlived) => "nothing on it follows assignments".to_owned(),
        Some(Why::Converged) | None => "there is nothing to assign".to_owned(),
    };
    Some(
        Difference::of(Code::NodeLeftAlone, format!("node {node} would be left alone: {state}"))
            .values("assigned", state),
    )
}
