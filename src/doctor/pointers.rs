//! Checks of the pool pointers: content, and the configuration of the repository.

use std::collections::{BTreeMap, BTreeSet};

use super::{Check, Facts, NameSample, count};
use nodecfg_contract::names::{FleetName, PoolName};
use nodecfg_contract::pool_pointer::PoolPointer;
use nodecfg_fleet::{Desired, Pool};
use nodecfg_observed::{ConfigMapKey, ManagedConfigMap, Observed};
use nodecfg_plan::{PointerState, membership};

const CODE: &str = "pool-pointer";

/// State of a pointer beside the repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Comparison {
    /// The repository does not publish this pool.
    Unused,
    /// Another configuration, or no pointer; the next sync writes it.
    Moves,
    /// No pointer, and no node proves the repository's configuration.
    Missing,
    /// Another configuration, and no node proves the repository's one.
    Stays,
}

pub(super) fn examine(facts: &Facts, checks: &mut Vec<Check>) {
    let Some(observed) = facts.observed() else { return };
    let desired = facts.repository.as_ref().and_then(|repository| Some(&repository.as_ref().ok()?.desired));
    let before = checks.len();
    changed(facts, observed, desired, checks);
    if let Some(desired) = desired {
        compare(facts, observed, desired, checks);
    }
    if checks.len() > before {
        return;
    }
    checks.push(match (observed.pointers.len(), desired) {
        (0, _) => Check::ok(CODE, "no configuration is published for new nodes"),
        (number, None) => Check::ok(CODE, format!("{} with the recorded content", count(number, "pool pointer"))),
        (_, Some(_)) => Check::ok(CODE, "new nodes start with the configurations of the repository"),
    });
}

/// Pointers of the fleet, or of every fleet without a repository.
fn pointers<'o>(
    observed: &'o Observed,
    desired: Option<&'o Desired>,
) -> impl Iterator<Item = (&'o ConfigMapKey, &'o ManagedConfigMap, &'o FleetName, &'o PoolName)> {
    let named =
        observed.pointers.iter().filter_map(|(key, map)| Some((key, map, map.fleet.as_ref()?, map.pool.as_ref()?)));
    named.filter(move |(_, _, fleet, _)| desired.is_none_or(|desired| desired.fleet == **fleet))
}

fn changed(facts: &Facts, observed: &Observed, desired: Option<&Desired>, checks: &mut Vec<Check>) {
    // A pointer whose labels were changed is not listed as one.
    let published = desired.into_iter().filter(|desired| desired.pool_pointers);
    let published = published.flat_map(|desired| desired.pools.keys().map(|pool| (&desired.fleet, pool)));
    let listed = pointers(observed, desired).map(|(_, _, fleet, pool)| (fleet, pool));
    for (fleet, pool) in listed.chain(published).collect::<BTreeSet<_>>() {
        let key = ConfigMapKey { namespace: facts.namespace.to_string(), name: PoolPointer::name(fleet, pool) };
        let map = observed.contents.get(&key).and_then(Option::as_ref);
        let fault = match PointerState::of(fleet, pool, &facts.namespace, observed) {
            PointerState::Changed(error) => error.to_string(),
            PointerState::Written(_) if map.is_some_and(|map| map.immutable) => "it is immutable".to_owned(),
            PointerState::Written(_) | PointerState::Missing => continue,
        };
        let fix = format!(
            "find out which client changed it, then run `kubectl delete configmap -n {} {}` and sync",
            key.namespace, key.name
        );
        checks
            .push(Check::warning(CODE, format!("pointer {key} was changed: {fault}")).about(key.to_string()).fix(fix));
    }
}

fn compare(facts: &Facts, observed: &Observed, desired: &Desired, checks: &mut Vec<Check>) {
    let mut found: BTreeMap<Comparison, NameSample> = BTreeMap::new();
    let moves = |name: &PoolName| {
        facts
            .plan()
            .and_then(|plan| plan.as_ref().ok())
            .is_some_and(|plan| plan.pools.iter().any(|pool| pool.name == *name && pool.pointer.is_some()))
    };
    let existing: BTreeMap<&PoolName, &ManagedConfigMap> =
        pointers(observed, Some(desired)).map(|(_, pointer, _, pool)| (pool, pointer)).collect();
    let published = |name: &PoolName| desired.pools.get(name).filter(|_| desired.pool_pointers);
    let members = membership(desired, &observed.nodes).pools;
    let names_targets = |name: &PoolName, pool: &Pool| {
        let nodes = members.get(name).map(Vec::as_slice).unwrap_or_default();
        PointerState::of(&desired.fleet, name, &facts.namespace, observed).names_targets(pool, nodes, observed)
    };
    let names: BTreeSet<&PoolName> = existing.keys().copied().chain(desired.pools.keys()).collect();
    for name in names {
        let comparison = match (published(name), existing.get(name)) {
            (None, None) => continue,
            (None, Some(_)) => Comparison::Unused,
            (Some(pool), Some(_)) if names_targets(name, pool) => continue,
            (Some(_), _) if moves(name) => Comparison::Moves,
            (Some(_), Some(_)) => Comparison::Stays,
            (Some(_), None) => Comparison::Missing,
        };
        found.entry(comparison).or_default().add(name);
    }
    for (comparison, pools) in found {
        let pools = pools.counted("pool");
        checks.push(match comparison {
            Comparison::Unused => Check::warning(
                CODE,
                format!("new nodes start with the pointers of {pools}, which the repository does not publish"),
            )
            .about("unused")
            .fix("delete these pointers, or set poolPointers in nodecfg.yaml and restore the pools"),
            Comparison::Moves => {
                Check::note(CODE, format!("the next sync writes the pointers of {pools}")).about("moves")
            }
            Comparison::Missing => Check::warning(
                CODE,
                format!("new nodes cannot start with the configuration of {pools}, because the pointer is missing"),
            )
            .about("missing")
            .fix(
                "run `nodecfg sync` once the pool has nodes. If all of them joined by themselves, first run \
                 `kubectl delete nodeconfig NODE` for one; it keeps its configuration",
            ),
            Comparison::Stays => Check::warning(
                CODE,
                format!("new nodes start with another configuration than the repository has in {pools}"),
            )
            .about("stays")
            .fix("run `nodecfg sync`: a pointer moves once the canaries of its pool have held"),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{gpu, healthy, with_pools};
    use super::super::{CheckResult, Repository};
    use super::*;
    use nodecfg_contract::config_map::FetchedConfigMap;
    use nodecfg_contract::labels::CONTENT_HASH_ANNOTATION;
    use nodecfg_fleet::{Pool, RolloutPolicy};
    use nodecfg_plan::fixtures::{desired, options, pool, rendered, with_pointer};
    use nodecfg_plan::make;

    /// Facts of a healthy cluster with a pointer to the configuration with this number of pods.
    fn pointing_to(max_pods: u32, change: impl FnOnce(&mut Observed)) -> Facts {
        let mut facts = healthy(false);
        let observed = facts.observed.as_mut().unwrap().as_mut().unwrap();
        with_pointer(observed, "gpu", &rendered("gpu", max_pods));
        change(observed);
        facts
    }

    /// The facts with this pool in a repository that publishes it.
    fn published(mut facts: Facts, pool: Pool) -> Facts {
        let desired = Desired { pool_pointers: true, ..desired([pool]) };
        let plan = facts.observed().map(|observed| make(&desired, observed, &options()));
        facts.repository = Some(Ok(Repository { shown: ".".to_owned(), desired, warnings: 0, plan }));
        facts
    }

    fn found(facts: &Facts) -> Vec<(CheckResult, String)> {
        let mut checks = Vec::new();
        examine(facts, &mut checks);
        assert!(checks.iter().all(|check| check.verdict != CheckResult::Warning || check.fix.is_some()));
        checks.into_iter().map(|check| (check.verdict, check.seen)).collect()
    }

    #[track_caller]
    fn assert_found(facts: &Facts, verdict: CheckResult, seen: &str) {
        assert_eq!(found(facts), [(verdict, seen.to_owned())]);
    }

    #[test]
    fn pointers_are_compared_with_the_repository() {
        let none = "no configuration is published for new nodes";
        assert_found(&with_pools(healthy(false), [gpu()]), CheckResult::Ok, none);
        assert_found(&pointing_to(110, |_| ()), CheckResult::Ok, "1 pool pointer with the recorded content");
        let same = "new nodes start with the configurations of the repository";
        assert_found(&published(pointing_to(110, |_| ()), gpu()), CheckResult::Ok, same);
        let moves = "the next sync writes the pointers of 1 pool (gpu)";
        assert_found(&published(pointing_to(64, |_| ()), gpu()), CheckResult::Note, moves);
        assert_found(&published(healthy(false), gpu()), CheckResult::Note, moves);
        let paused = pool("gpu", 110, RolloutPolicy { paused: true, ..RolloutPolicy::default() });
        let stays = "new nodes start with another configuration than the repository has in 1 pool (gpu)";
        assert_found(&published(pointing_to(64, |_| ()), paused), CheckResult::Warning, stays);
        let unused = "new nodes start with the pointers of 1 pool (gpu), which the repository does not publish";
        assert_found(&with_pools(pointing_to(110, |_| ()), [gpu()]), CheckResult::Warning, unused);
        // Pool `cpu` has no nodes that could prove its configuration.
        let other = published(pointing_to(110, |_| ()), pool("cpu", 110, RolloutPolicy::default()));
        let missing = "new nodes cannot start with the configuration of 1 pool (cpu), because the pointer is missing";
        let both = [unused, missing].map(|seen| (CheckResult::Warning, seen.to_owned()));
        assert_eq!(found(&other), both);
    }

    #[test]
    fn changed_content_is_a_warning() {
        let changed = |observed: &mut Observed| {
            let key = observed.pointers.keys().next().cloned().unwrap();
            let map = observed.contents.get_mut(&key).unwrap().as_mut().unwrap();
            map.data.insert("kubelet".to_owned(), "maxPods: 1\n".to_owned());
        };
        let facts = published(pointing_to(110, changed), gpu());
        let [(verdict, seen), (_, moves)] = found(&facts).try_into().unwrap();
        assert_eq!(verdict, CheckResult::Warning);
        assert!(seen.contains("nodecfg-pool-fleet-gpu was changed: its content has the hash v1:blake3:"), "{seen}");
        assert_eq!(moves, "the next sync writes the pointers of 1 pool (gpu)");
        // Also without a repository.
        assert_eq!(found(&pointing_to(110, changed)), [(CheckResult::Warning, seen)]);
        let seen_of = |change: fn(&mut FetchedConfigMap)| {
            let changed = |observed: &mut Observed| observed.contents.values_mut().flatten().for_each(change);
            found(&published(pointing_to(110, changed), gpu())).remove(0).1
        };
        let other =
            seen_of(|map| drop(map.annotations.insert(CONTENT_HASH_ANNOTATION.to_owned(), "v1:blake3:0".to_owned())));
        assert!(
            other.ends_with("its annotations record another hash, placement or commit than its content has"),
            "{other}"
        );
        assert!(seen_of(|map| map.immutable = true).ends_with("it is immutable"));
    }
}
