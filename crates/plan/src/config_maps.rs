//! Index of the cluster's ConfigMaps: owner and content of the ConfigMaps that nodes point at or that pools need.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::{ConfigMapPlan, Owner, Problem};
use crate::convergence::WantedSource;
use crate::target::{pool_config, pool_placement};
use kubelet_config::document::Document;
use nodecfg_contract::config_map::{FetchedConfigMap, PoolConfigMap};
use nodecfg_contract::names::{NamespaceName, NodeName};
use nodecfg_contract::{ConfigMapSource, ConfigSource, ContentHash, KUBELET_KEY};
use nodecfg_fleet::{Desired, Pool, Rendered, SizedPool};
use nodecfg_observed::{ConfigMapKey, Observed};

/// Index of the observed ConfigMaps. It parses each content once, because thousands of nodes share a few ConfigMaps.
pub struct ConfigMapIndex<'a> {
    desired: &'a Desired,
    observed: &'a Observed,
    parsed: RefCell<BTreeMap<ConfigSource, Option<Document>>>,
    hashes: RefCell<BTreeMap<ConfigSource, Option<ContentHash>>>,
}

impl<'a> ConfigMapIndex<'a> {
    /// Builds the index. The content of a ConfigMap that was not fetched is unknown, but its metadata may record the
    /// hash.
    #[must_use]
    pub fn new(desired: &'a Desired, observed: &'a Observed) -> Self {
        Self { desired, observed, parsed: RefCell::default(), hashes: RefCell::default() }
    }

    /// The desired state that the index is built from.
    pub(super) fn desired(&self) -> &'a Desired {
        self.desired
    }

    /// The observation that the index is built from.
    pub(super) fn observed(&self) -> &'a Observed {
        self.observed
    }

    fn fetched(&self, source: &ConfigSource) -> Option<&'a FetchedConfigMap> {
        self.observed.contents.get(&ConfigMapKey::of(source)?)?.as_ref()
    }

    /// Reports whether the ConfigMap of a source was fetched, contains the key and is not being deleted.
    pub(super) fn is_readable(&self, source: &ConfigSource) -> bool {
        let key = source.config_map.as_ref().map(|map| &map.kubelet_config_key);
        self.fetched(source).is_some_and(|map| !map.deleting && key.is_some_and(|key| map.data.contains_key(key)))
    }

    /// Content of a source as a document; `None` if it was not fetched, is missing or cannot be parsed.
    pub(super) fn document(&self, source: &ConfigSource) -> Option<Document> {
        if let Some(known) = self.parsed.borrow().get(source) {
            return known.clone();
        }
        let key = &source.config_map.as_ref()?.kubelet_config_key;
        let document = self
            .fetched(source)
            .and_then(|map| map.data.get(key))
            .and_then(|text| Document::parse(&source.to_string(), text).document);
        self.parsed.borrow_mut().insert(source.clone(), document.clone());
        document
    }

    /// Hash of the content of a source by the current algorithm; `None` if unknown. A recorded hash counts only for
    /// content that was not fetched.
    pub(super) fn hash(&self, source: &ConfigSource) -> Option<ContentHash> {
        if let Some(known) = self.hashes.borrow().get(source) {
            return *known;
        }
        let hash = match self.fetched(source) {
            Some(_) => self.document(source).map(|document| ContentHash::of(document.canonical().as_bytes())),
            None => self.recorded_hash(source),
        };
        self.hashes.borrow_mut().insert(source.clone(), hash);
        hash
    }

    /// Hash in the metadata of a ConfigMap of this fleet. It is trusted without the content, because nodecfg created
    /// the ConfigMap and it is immutable.
    fn recorded_hash(&self, source: &ConfigSource) -> Option<ContentHash> {
        let map = source.config_map.as_ref().filter(|map| map.kubelet_config_key == KUBELET_KEY)?;
        let managed = self.observed.config_maps.get(&ConfigMapKey::of(source)?)?;
        if managed.fleet.as_ref() != Some(&self.desired.fleet) || managed.name != map.name {
            return None;
        }
        ContentHash::parse(managed.content_hash.as_deref()?)
    }

    /// Returns the owner of the ConfigMap that a node of `pool` points at, and whether it has the desired content.
    #[must_use]
    pub fn current_source(&self, source: &ConfigSource, pool: &SizedPool<'_>) -> CurrentSource {
        let wanted = pool.target.hash();
        let fleet = ConfigMapKey::of(source)
            .and_then(|key| self.observed.config_maps.get(&key).and_then(|map| map.fleet.clone()))
            .or_else(|| self.fetched(source).and_then(FetchedConfigMap::fleet));
        let fleet = fleet.or_else(|| self.is_named_by_us(source).then(|| self.desired.fleet.clone()));
        let other_owner = match fleet {
            Some(fleet) if fleet == self.desired.fleet => None,
            Some(fleet) => Some(Owner::Fleet { fleet }),
            None => Some(Owner::Unknown),
        };
        let hash = self.hash(source);
        let uid = ConfigMapKey::of(source).and_then(|key| self.observed.uid_of(&key)).map(str::to_owned);
        let placement = Some(pool_placement(pool, self.observed));
        let may_override = Some(pool.policy.accept_overridden.clone());
        let current = WantedSource { source: source.clone(), hash, uid, placement, may_override };
        CurrentSource { other_owner, same_content: wanted.is_some() && hash == wanted, wanted: current }
    }

    /// Reports whether a ConfigMap without labels has a name that nodecfg gives to this content in this fleet, in any
    /// pool. So a ConfigMap that a user recreated by hand still belongs to this fleet.
    fn is_named_by_us(&self, source: &ConfigSource) -> bool {
        let ours = |map: &ConfigMapSource| {
            let pool = map.name.strip_prefix(self.desired.fleet.as_str()).and_then(|rest| rest.strip_prefix('-'));
            let hash = pool.and_then(|rest| rest.rsplit_once('-')).map(|(_, hash)| hash.to_owned());
            map.kubelet_config_key == KUBELET_KEY
                && hash.is_some()
                && hash == self.hash(source).map(|hash| hash.short())
        };
        source.config_map.as_deref().is_some_and(ours)
    }

    /// Returns the ConfigMap of a pool, to be created or existing with the right content. `on_target` returns the
    /// nodes that already point at it; `assigned` is the number of nodes that will be. A ConfigMap that was not fetched is
    /// not checked: its metadata was sufficient.
    pub(super) fn need(
        &self,
        pool: &Pool,
        rendered: &Rendered,
        namespace: &NamespaceName,
        assigned: usize,
        on_target: impl FnOnce() -> Vec<NodeName>,
    ) -> Result<ConfigMapPlan, Problem> {
        let source = rendered.source(namespace);
        let name = rendered.config_map.clone();
        let existing = self.fetched(&source);
        let was_requested = ConfigMapKey::of(&source).is_some_and(|key| self.observed.contents.contains_key(&key));
        let deleting = existing.is_some_and(|map| map.deleting);
        if was_requested && (existing.is_none() || deleting) {
            let on_target = on_target();
            if let Some(example) = on_target.first() {
                let (namespace, nodes, example) = (namespace.clone(), on_target.len(), example.clone());
                return Err(Problem::ConfigMapMissing { namespace, name, deleting, nodes, example });
            }
        }
        if deleting && assigned > 0 {
            return Err(Problem::ConfigMapDeleting { namespace: namespace.clone(), name, nodes: assigned });
        }
        if let Some(map) = existing {
            let fleet = map.fleet();
            if fleet.as_ref().is_some_and(|fleet| *fleet != self.desired.fleet) {
                return Err(Problem::NameTaken { namespace: namespace.clone(), name, fleet });
            }
            let content = map.data.get(KUBELET_KEY);
            if content != Some(&rendered.canonical) {
                let found = self.document(&source).map(|document| ContentHash::of(document.canonical().as_bytes()));
                if found != Some(rendered.hash) {
                    return Err(Problem::ContentMismatch {
                        namespace: namespace.clone(),
                        name,
                        wanted: rendered.hash,
                        found,
                    });
                }
            }
            if !map.immutable {
                return Err(Problem::NotImmutable { namespace: namespace.clone(), name });
            }
        }
        let map = PoolConfigMap {
            config: pool_config(pool, rendered, self.observed),
            namespace: namespace.clone(),
            fleet: self.desired.fleet.clone(),
            pool: pool.name.clone(),
            commit: self.desired.commit.clone(),
            path: rendered.path.clone(),
        };
        Ok(ConfigMapPlan { map, create: existing.is_none() })
    }
}

/// ConfigMap that a node points at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CurrentSource {
    /// Its owner, unless that is this fleet.
    pub other_owner: Option<Owner>,
    /// Whether its content is the desired one.
    pub same_content: bool,
    /// The source with the hash and uid that the cluster has now.
    pub wanted: WantedSource,
}
