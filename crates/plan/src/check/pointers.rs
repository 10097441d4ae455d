//! Invariants of the moves of pool pointers.

use super::{Checker, evidence};
use crate::{PointerTime, Scope};
use nodecfg_contract::config_map::FetchedConfigMap;
use nodecfg_contract::labels::{CONTENT_HASH_ANNOTATION, PLACEMENT_ANNOTATION};
use nodecfg_contract::{ContentHash, KUBELET_KEY};
use nodecfg_observed::ConfigMapKey;

/// Reports whether a pointer has another content or placement than its annotations record.
fn is_forged(map: &FetchedConfigMap) -> bool {
    let hash = map.text(KUBELET_KEY).map(|text| ContentHash::of(text.as_bytes()).to_string());
    let placement = map.text("placement");
    hash.as_ref() != map.annotations.get(CONTENT_HASH_ANNOTATION)
        || placement != map.annotations.get(PLACEMENT_ANNOTATION).map(String::as_str)
}

impl Checker<'_> {
    /// A pointer that another client changed is reported, and replaced in the version that was read. A pointer moves only to
    /// the reviewed content of its pool. It moves at once only if more nodes of the pool
    /// than canaries run that content by an assignment of the reconciler, and no canary must prove it first.
    pub(super) fn pointers(&mut self) {
        for pool in &self.plan.pools {
            let subject = format!("pointer of pool {}", pool.name);
            let requested = match self.scope {
                Scope::Everything => true,
                Scope::Pools(pools) => pools.contains(&pool.name),
                Scope::Nodes(_) => false,
            };
            let name = format!("nodecfg-pool-{}-{}", self.plan.fleet, pool.name);
            let key = ConfigMapKey { namespace: self.plan.namespace.to_string(), name };
            let map = self.observed.contents.get(&key).and_then(Option::as_ref);
            let forged = map.is_some_and(is_forged) && self.desired.pool_pointers && requested;
            let reported = self.plan.pointer_changes.contains_key(&pool.name);
            self.require(!forged || reported, &subject, "has other content than it records");
            let Some(pointer) = &pool.pointer else { continue };
            let present = map.filter(|map| map.is_managed()).map(|map| &map.resource_version);
            self.require(pointer.resource_version.as_ref() == present, &subject, "does not replace what was read");
            self.require(!forged || pointer.from.is_none(), &subject, "could be restored to what another client wrote");
            let wanted = self.desired.pool_pointers && requested && !pool.is_paused();
            self.require(wanted, &subject, "moves although the pool was not requested, is paused or has no pointer");
            let hash = pointer.to.config.as_ref().map(|config| ContentHash::of(config.kubelet.as_bytes()));
            let named = pointer.to.config.as_ref().map(|config| config.hash);
            self.require(
                hash == pool.target.hash() && named == pool.target.hash(),
                &subject,
                "does not name the content of its pool",
            );
            let placement = pointer.to.config.as_ref().and_then(|config| config.placement);
            self.require(placement == pool.target.placement(), &subject, "has another placement than its pool");
            if pointer.when == PointerTime::AtOnce {
                let proven = evidence::is_proven(pool, self.observed);
                self.require(proven, &subject, "moves at once although no node proves its content");
            }
        }
    }
}
