//! Counts of a pool's nodes per revision, per other ConfigMap, and on the local configuration.

use super::{
    BTreeMap, BTreeSet, CommitId, ConfigMapKey, ConfigSource, Content, Desired, FleetName, ManagedConfigMap,
    NamespaceName, Node, Observed, PoolName, Revision, Serialize,
};
use kubelet_config::capacity::Capacity;
use nodecfg_contract::ContentHash;
use nodecfg_contract::printable::remark;
use nodecfg_plan::{PointerState, belongs};

/// Number of nodes that refer to a configuration, by the kind of reference.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Nodes {
    /// Nodes whose spec names it.
    pub wanted: usize,
    /// Nodes that report it as assigned.
    pub assigned: usize,
    /// Nodes that report it as active.
    pub active: usize,
    /// Nodes that report it as last known good.
    pub last_known_good: usize,
}

impl Nodes {
    fn add(&mut self, node: &Node, same: impl Fn(Option<&ConfigSource>) -> bool) {
        let status = &node.status;
        for (number, source) in [
            (&mut self.wanted, &node.source),
            (&mut self.assigned, &status.assigned),
            (&mut self.active, &status.active),
            (&mut self.last_known_good, &status.last_known_good),
        ] {
            *number += usize::from(same(source.as_ref()));
        }
    }

    /// Reports whether all counts are zero.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// ConfigMap of the pool that belongs to none of the listed revisions.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OtherConfigMap {
    /// Name of the ConfigMap.
    pub name: String,
    /// Commit according to its annotation.
    pub commit: Option<String>,
    /// True if the repository has that commit; unset without an annotation.
    pub known: Option<bool>,
    /// Nodes that refer to the ConfigMap.
    pub nodes: Nodes,
}

/// Nodes of the pool outside its revisions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Whereabouts {
    /// Number of nodes: those of the pool, and others on one of its ConfigMaps.
    pub nodes: usize,
    /// Nodes without an assignment: they run their local configuration or are about to.
    pub local: usize,
    /// Nodes assigned to something other than a ConfigMap of this pool.
    pub elsewhere: usize,
    /// ConfigMaps of the pool that belong to none of the listed revisions.
    pub others: Vec<OtherConfigMap>,
}

/// Subject of a history.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The fleet.
    pub fleet: &'a FleetName,
    /// The pool.
    pub pool: &'a PoolName,
    /// Namespace of its ConfigMaps.
    pub namespace: &'a NamespaceName,
    /// Desired state of the revision, to find the pool's nodes; unset when unreadable.
    pub desired: Option<&'a Desired>,
}

impl Subject<'_> {
    fn is_map(&self, source: Option<&ConfigSource>, name: &str) -> bool {
        let map = source.and_then(|source| source.config_map.as_ref());
        map.is_some_and(|map| map.namespace == self.namespace.as_str() && map.name == name)
    }

    /// Names of the ConfigMaps of a revision: for each size of these capacities, if it follows from that.
    fn config_map_names(&self, revision: &Revision, capacities: &BTreeSet<Capacity>) -> BTreeSet<String> {
        // The fleet may have been renamed since: uses the name that a sync would use today.
        let name = |hash: ContentHash| hash.config_map(self.fleet, self.pool);
        match &revision.content {
            Content::Config { hash, .. } => [name(*hash)].into(),
            Content::BySize { sizes, .. } => {
                let rounded = capacities.iter().filter_map(|capacity| capacity.rounded_up(sizes.0.steps()));
                let rounded: BTreeSet<Capacity> = rounded.collect();
                rounded.into_iter().filter_map(|size| Some(name(sizes.0.of(size)?.1.hash()?))).collect()
            }
            Content::Local | Content::Absent | Content::Invalid { .. } => BTreeSet::new(),
        }
    }

    /// Finds each revision's ConfigMap by its present name, which replaces the name in the revision, and counts the
    /// nodes. The pointer of the pool counts only if its content was read. `known_commits` are the commits that the repository has.
    #[must_use]
    pub fn find(
        &self,
        revisions: &mut [Revision],
        observed: &Observed,
        known_commits: &BTreeSet<CommitId>,
    ) -> Whereabouts {
        let of_pool: BTreeMap<&ConfigMapKey, &ManagedConfigMap> = observed
            .config_maps
            .iter()
            .filter(|(_, map)| map.fleet.as_ref() == Some(self.fleet) && map.pool.as_ref() == Some(self.pool))
            .collect();
        let pointed: BTreeSet<String> = match PointerState::of(self.fleet, self.pool, self.namespace, observed) {
            PointerState::Written(pointer) => pointer.configs.into_values().map(|config| config.config_map).collect(),
            PointerState::Missing | PointerState::Changed(_) => BTreeSet::new(),
        };
        let on_one = |node: &Node| {
            let key = node.source.as_ref().and_then(ConfigMapKey::of);
            key.is_some_and(|key| of_pool.contains_key(&key))
        };
        let is_of_pool =
            |node: &&Node| self.desired.is_none_or(|desired| belongs(desired, self.pool, node)) || on_one(node);
        let capacities: BTreeSet<Capacity> =
            observed.nodes.values().filter(is_of_pool).map(|node| node.capacity).collect();
        let all: Vec<BTreeSet<String>> =
            revisions.iter().map(|revision| self.config_map_names(revision, &capacities)).collect();
        let mut listed: BTreeSet<String> = BTreeSet::new();
        for (revision, names) in revisions.iter_mut().zip(&all) {
            let Some(first) = names.first() else { continue };
            let key = |name: &String| ConfigMapKey { namespace: self.namespace.to_string(), name: name.clone() };
            let existing: Vec<_> = names.iter().filter_map(|name| observed.config_maps.get(&key(name))).collect();
            // Two formulas may give some sizes the same. Such a ConfigMap does not show that the revision was rolled out.
            let is_shared = |name: &String| all.iter().any(|others| others != names && others.contains(name));
            let own = existing.iter().any(|map| !is_shared(&map.name)) || names.iter().all(is_shared);
            revision.exists = Some(!existing.is_empty() && own);
            revision.placement = existing.iter().find_map(|map| map.placement);
            if let Content::Config { config_map, .. } = &mut revision.content {
                config_map.clone_from(first);
            }
            if revision.same_as.is_none() {
                let mut nodes = Nodes::default();
                let is_of_revision = |source: Option<&ConfigSource>| {
                    let map = source.and_then(|source| source.config_map.as_ref());
                    map.is_some_and(|map| map.namespace == self.namespace.as_str() && names.contains(&map.name))
                };
                observed.nodes.values().for_each(|node| nodes.add(node, is_of_revision));
                revision.nodes = Some(nodes);
                revision.new_nodes = !names.is_disjoint(&pointed);
            }
            listed.extend(names.iter().cloned());
        }
        let mut found = Whereabouts::default();
        for map in of_pool.values().filter(|map| !listed.contains(&map.name)) {
            let mut nodes = Nodes::default();
            observed.nodes.values().for_each(|node| nodes.add(node, |source| self.is_map(source, &map.name)));
            let known = map
                .commit
                .as_ref()
                .map(|commit| CommitId::new(commit.clone()).is_ok_and(|commit| known_commits.contains(&commit)));
            let commit = map.commit.as_deref().map(remark);
            found.others.push(OtherConfigMap { name: map.name.clone(), commit, known, nodes });
        }
        for node in observed.nodes.values() {
            let key = node.source.as_ref().and_then(ConfigMapKey::of);
            let on_one = key.as_ref().is_some_and(|key| {
                of_pool.contains_key(key) || (key.namespace == self.namespace.as_str() && listed.contains(&key.name))
            });
            let belongs = self.desired.is_some_and(|desired| belongs(desired, self.pool, node));
            found.nodes += usize::from(on_one || belongs);
            found.local += usize::from(belongs && node.source.is_none());
            found.elsewhere += usize::from(belongs && !on_one && node.source.is_some());
        }
        found
    }
}
