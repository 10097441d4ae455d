//! Where the nodes of a pool are: on which of its revisions, on something else, on nothing.

use super::{
    BTreeMap, BTreeSet, CommitId, ConfigMapKey, ConfigSource, Content, Desired, FleetName, ManagedConfigMap,
    NamespaceName, Node, Observed, PoolName, Revision, Serialize,
};
use nodecfg_contract::printable::remark;
use nodecfg_planning::plan::belongs;

/// How many nodes refer to a configuration, and by what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Nodes {
    /// Nodes that are pointed at it: their spec names it.
    pub wanted: usize,
    /// Nodes that report that they are to run it.
    pub assigned: usize,
    /// Nodes that report that they run it.
    pub active: usize,
    /// Nodes that report that they would fall back to it.
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

    /// Whether there are none.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// A ConfigMap of the pool that is of none of the revisions that are listed.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OtherConfigMap {
    /// Its name.
    pub name: String,
    /// The commit that it was made from, as it says itself.
    pub commit: Option<String>,
    /// Whether the repository has that commit; unset where it says none.
    pub known: Option<bool>,
    /// The nodes that are on it.
    pub nodes: Nodes,
}

/// Where the nodes of the pool are, beside its revisions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Whereabouts {
    /// How many nodes there are: the pool's, and those that are on one of its ConfigMaps all the same.
    pub nodes: usize,
    /// Nodes that are pointed at nothing: they run their local configuration, or are on their way to it.
    pub local: usize,
    /// Nodes that are pointed at something else than a ConfigMap of this pool.
    pub elsewhere: usize,
    /// ConfigMaps of the pool that are of none of the revisions listed.
    pub others: Vec<OtherConfigMap>,
}

/// What a history is of.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The fleet.
    pub fleet: &'a FleetName,
    /// The pool.
    pub pool: &'a PoolName,
    /// Where its ConfigMaps are.
    pub namespace: &'a NamespaceName,
    /// What the revision asks for, to tell which nodes are the pool's; unset where that cannot be read.
    pub desired: Option<&'a Desired>,
}

impl Subject<'_> {
    fn is_map(&self, source: Option<&ConfigSource>, name: &str) -> bool {
        let map = source.and_then(|source| source.config_map.as_ref());
        map.is_some_and(|map| map.namespace == self.namespace.as_str() && map.name == name)
    }

    fn name(&self, revision: &Revision) -> Option<String> {
        // The fleet may have had another name then; what counts is what a sync would make of it today.
        Some(format!("{}-{}-{}", self.fleet, self.pool, revision.content.hash()?.short()))
    }

    /// Looks up each revision's ConfigMap, and counts the nodes. `is_known` says whether the repository has a commit.
    #[must_use]
    pub fn find(&self, revisions: &mut [Revision], observed: &Observed, is_known: &BTreeSet<CommitId>) -> Whereabouts {
        let of_pool: BTreeMap<&ConfigMapKey, &ManagedConfigMap> = observed
            .config_maps
            .iter()
            .filter(|(_, map)| map.fleet.as_ref() == Some(self.fleet) && map.pool.as_ref() == Some(self.pool))
            .collect();
        let mut listed: BTreeSet<String> = BTreeSet::new();
        for revision in revisions.iter_mut() {
            let name = match &revision.content {
                Content::Config { .. } => self.name(revision),
                _ => continue,
            };
            let Some(name) = name else { continue };
            let key = ConfigMapKey { namespace: self.namespace.to_string(), name: name.clone() };
            revision.exists = Some(observed.config_maps.contains_key(&key));
            if let Content::Config { config_map, .. } = &mut revision.content {
                config_map.clone_from(&name);
            }
            if revision.same_as.is_none() {
                let mut nodes = Nodes::default();
                observed.nodes.values().for_each(|node| nodes.add(node, |source| self.is_map(source, &name)));
                revision.nodes = Some(nodes);
            }
            listed.insert(name);
        }
        let mut found = Whereabouts::default();
        for map in of_pool.values().filter(|map| !listed.contains(&map.name)) {
            let mut nodes = Nodes::default();
            observed.nodes.values().for_each(|node| nodes.add(node, |source| self.is_map(source, &map.name)));
            let known = map
                .commit
                .as_ref()
                .map(|commit| CommitId::new(commit.clone()).is_ok_and(|commit| is_known.contains(&commit)));
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
