//! Check for pools with equal selector and equal priority, which select the same nodes.

use std::collections::BTreeMap;

use super::Pool;
use kubelet_config::finding::Finding;
use nodecfg_contract::names::PoolName;

/// Reports each pool that selects the same nodes with the same priority as an earlier one.
pub(super) fn check(pools: &BTreeMap<PoolName, Pool>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut seen: BTreeMap<(String, i64), &Pool> = BTreeMap::new();
    for pool in pools.values() {
        let key = (pool.selector.to_string(), pool.priority);
        match seen.get(&key) {
            Some(first) => {
                let message = format!(
                    "pools {} and {} select the same nodes ({}) with the same priority",
                    first.name, pool.name, key.0
                );
                let help = format!(
                    "set spec.priority: {}; the higher pool wins a node that several select",
                    pool.priority.saturating_add(1)
                );
                let finding = Finding::error("same-selector", message).at(pool.place.clone());
                findings.push(finding.related(first.place.clone(), "the other pool").help(help));
            }
            None => {
                seen.insert(key, pool);
            }
        }
    }
    findings
}
