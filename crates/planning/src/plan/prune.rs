//! Which ConfigMaps of a fleet can be deleted: those that nothing refers to, apart from the newest of each pool. `prune` and the
//! count in `diff` are both of [`prune`].
//!
//! Made from what refers to ConfigMaps and what ConfigMaps there are; [`check_prune`] asserts of every outcome, from the same
//! observation and without the code that made it, that nothing in use is on it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::Timestamp;
use serde::Serialize;

use super::Violation;
use nodecfg_contract::ContentHash;
use nodecfg_contract::names::{FleetName, NamespaceName, PoolName};
use nodecfg_contract::observed::{ConfigMapKey, ManagedConfigMap, References};

/// How many ConfigMaps of each pool are kept unless somebody says otherwise.
pub const KEEP: u32 = 3;

/// What to prune.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PruneOptions {
    /// Whose ConfigMaps.
    pub fleet: FleetName,
    /// Where they are.
    pub namespace: NamespaceName,
    /// How many of each pool are kept, the newest, referred to or not. What a repository asks for need not be among them: after
    /// a revert it is an old one.
    pub keep: usize,
    /// What a repository asks for, where one is given: kept, by name.
    pub wanted: BTreeSet<String>,
    /// Only of these pools; empty: of all.
    pub pools: BTreeSet<PoolName>,
}

/// What a prune would delete, and why it leaves the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrunePlan {
    /// What is deleted, by name.
    pub delete: Vec<ManagedConfigMap>,
    /// What is kept, by name.
    pub keep: Vec<KeptConfigMap>,
}

/// A ConfigMap of the fleet that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptConfigMap {
    /// The ConfigMap.
    pub map: ManagedConfigMap,
    /// Why it is kept.
    pub why: Kept,
}

/// Why a ConfigMap is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Kept {
    /// Nodes refer to it, by what they are pointed at or by what they report.
    InUse {
        /// How many.
        nodes: usize,
        /// One of them.
        example: String,
    },
    /// The repository asks for it.
    Wanted,
    /// It is among the newest of its pool.
    Recent,
    /// It carries no label that names a pool, so that it is not known among which to count it.
    NoPool,
    /// The server does not say when it was created.
    NoAge,
    /// Somebody deletes it already.
    Deleting,
    /// Only other pools were asked for.
    NotAskedFor,
    /// It carries the labels, but nodecfg has not made it so: its name or its content says so.
    NotOurs,
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse { nodes: 1, example } => write!(f, "in use by {example}"),
            Self::InUse { nodes, example } => write!(f, "in use by {nodes} nodes, {example} among them"),
            Self::Wanted => f.write_str("asked for by the repository"),
            Self::Recent => f.write_str("among the newest of its pool"),
            Self::NoPool => f.write_str("names no pool"),
            Self::NoAge => f.write_str("of unknown age"),
            Self::Deleting => f.write_str("being deleted already"),
            Self::NotAskedFor => f.write_str("not asked for"),
            Self::NotOurs => f.write_str("not made by nodecfg, whatever its labels say"),
        }
    }
}

/// Decides on every ConfigMap of the fleet. `maps` may hold others, which are passed over.
#[must_use]
pub fn prune<'m>(
    maps: impl IntoIterator<Item = &'m ManagedConfigMap>,
    references: &References,
    options: &PruneOptions,
) -> PrunePlan {
    let ours = |map: &&ManagedConfigMap| {
        map.fleet.as_ref() == Some(&options.fleet) && map.namespace == options.namespace.as_str()
    };
    let mut by_pool: BTreeMap<Option<&PoolName>, Vec<&ManagedConfigMap>> = BTreeMap::new();
    for map in maps.into_iter().filter(ours) {
        by_pool.entry(map.pool.as_ref()).or_default().push(map);
    }
    let (mut delete, mut keep) = (Vec::new(), Vec::new());
    for (pool, mut maps) in by_pool {
        maps.sort_by_key(|map| (Reverse(map.created), map.name.clone()));
        let mut rank = 0;
        for map in maps {
            let why = match (pool, references.of(&key(map))) {
                (Some(pool), _) if !options.pools.is_empty() && !options.pools.contains(pool) => {
                    Some(Kept::NotAskedFor)
                }
                (_, Some(users)) => Some(Kept::InUse { nodes: users.count, example: users.example.clone() }),
                _ if options.wanted.contains(&map.name) => Some(Kept::Wanted),
                (None, None) => Some(Kept::NoPool),
                _ if !is_named_by_us(map) => Some(Kept::NotOurs),
                _ if map.deleting => Some(Kept::Deleting),
                _ if map.created.is_none() => Some(Kept::NoAge),
                _ if rank < options.keep => Some(Kept::Recent),
                _ => None,
            };
            // What others have named takes no place among the newest.
            rank += usize::from(is_named_by_us(map));
            match why {
                Some(why) => keep.push(KeptConfigMap { map: map.clone(), why }),
                None => delete.push(map.clone()),
            }
        }
    }
    delete.sort_by(|a, b| a.name.cmp(&b.name));
    keep.sort_by(|a, b| a.map.name.cmp(&b.map.name));
    PrunePlan { delete, keep }
}

/// Whether it has the name that nodecfg gives. Labels can be copied with a ConfigMap that is somebody's own.
fn is_named_by_us(map: &ManagedConfigMap) -> bool {
    let (Some(fleet), Some(pool)) = (&map.fleet, &map.pool) else { return false };
    ContentHash::short_in(&map.name, fleet, pool).is_some()
}

fn key(map: &ManagedConfigMap) -> ConfigMapKey {
    ConfigMapKey { namespace: map.namespace.clone(), name: map.name.clone() }
}

/// Every broken invariant of a prune; none, if it may run.
#[must_use]
pub fn check_prune(
    plan: &PrunePlan,
    maps: &[ManagedConfigMap],
    references: &References,
    options: &PruneOptions,
) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for doomed in &plan.delete {
        let mut require = |holds: bool, problem: &str| {
            if !holds {
                let subject = format!("ConfigMap {}", doomed.name);
                violations.push(Violation { subject, problem: problem.to_owned() });
            }
        };
        require(seen.insert(&doomed.name), "would be deleted twice");
        require(maps.contains(doomed), "was not observed so");
        require(!doomed.uid.is_empty(), "has no uid to delete it by");
        require(doomed.fleet.as_ref() == Some(&options.fleet), "would be deleted without being this fleet's");
        require(is_named_by_us(doomed), "would be deleted without having the name that nodecfg gives");
        require(doomed.namespace == options.namespace.as_str(), "would be deleted in another namespace");
        let used = references.keys().any(|key| key.namespace == doomed.namespace && key.name == doomed.name);
        require(!used, "would be deleted while something refers to it");
        require(!options.wanted.contains(&doomed.name), "would be deleted while the repository asks for it");
        let asked = |pool: &PoolName| options.pools.is_empty() || options.pools.contains(pool);
        require(doomed.pool.as_ref().is_some_and(asked), "would be deleted without having been asked for");
        // Counted one by one, however the others were sorted.
        let newer = |other: &&ManagedConfigMap| {
            let same = other.namespace == doomed.namespace && other.fleet == doomed.fleet && other.pool == doomed.pool;
            same && is_named_by_us(other) && other.name != doomed.name && newer_or_equal(other.created, doomed.created)
        };
        require(maps.iter().filter(newer).count() >= options.keep, "is among the newest of its pool");
    }
    violations
}

/// What has no age is not older than anything.
fn newer_or_equal(other: Option<Timestamp>, this: Option<Timestamp>) -> bool {
    matches!((other, this), (Some(other), Some(this)) if other >= this)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::plan::fixtures::{fleet, managed, namespace, pool_name, source};

    fn aged(name: &str, pool: &str, second: i64) -> ManagedConfigMap {
        let created = Some(Timestamp::from_second(1_800_000_000 + second).unwrap());
        ManagedConfigMap { created, ..managed(&long(name, pool), Some("fleet"), Some(pool), None) }
    }

    /// A name as nodecfg gives them, that ends with this.
    fn long(name: &str, pool: &str) -> String {
        format!("fleet-{pool}-{name:b>10}")
    }

    fn ending(name: &str) -> &str {
        name.get(name.len() - 2..).unwrap().trim_start_matches('b')
    }

    fn options(keep: usize) -> PruneOptions {
        PruneOptions { fleet: fleet(), namespace: namespace(), keep, wanted: BTreeSet::new(), pools: BTreeSet::new() }
    }

    fn used(names: &[&str]) -> References {
        let mut references = References::default();
        for (number, name) in names.iter().enumerate() {
            references.add(&format!("n{number}"), [&source(&long(name, "a")), &source(&long(name, "b"))]);
        }
        references
    }

    fn names(plan: &PrunePlan) -> Vec<&str> {
        plan.delete.iter().map(|map| ending(&map.name)).collect()
    }

    #[test]
    fn the_newest_and_whatever_is_in_use_stay() {
        let maps = [aged("v2", "a", 1), aged("v4", "a", 2), aged("v5", "a", 3), aged("v6", "a", 4), aged("w2", "b", 0)];
        let plan = prune(&maps, &used(&["v4", "v4"]), &options(1));
        assert_eq!(names(&plan), ["v2", "v5"]);
        let kept: Vec<String> =
            plan.keep.iter().map(|kept| format!("{}: {}", ending(&kept.map.name), kept.why)).collect();
        assert_eq!(
            kept,
            [
                "v4: in use by 2 nodes, n0 among them",
                "v6: among the newest of its pool",
                "w2: among the newest of its pool"
            ]
        );
        assert_eq!(check_prune(&plan, &maps, &used(&["v4"]), &options(1)), []);
        assert_eq!(names(&prune(&maps, &used(&[]), &options(9))), Vec::<&str>::new());
        let wanted = PruneOptions { wanted: [maps[0].name.clone()].into(), ..options(1) };
        let plan = prune(&maps, &used(&["v4"]), &wanted);
        assert!(!plan.delete.contains(&maps[0]));
        assert!(plan.keep.iter().any(|kept| kept.map == maps[0] && kept.why == Kept::Wanted));
        assert_eq!(check_prune(&plan, &maps, &used(&["v4"]), &wanted), []);
        let only_b = PruneOptions { pools: [pool_name("b")].into(), ..options(1) };
        assert_eq!(names(&prune(&maps, &used(&[]), &only_b)), Vec::<&str>::new());
    }

    #[test]
    fn what_is_not_clearly_ours_and_old_stays() {
        let foreign = ManagedConfigMap { fleet: None, ..aged("x", "a", 0) };
        let elsewhere = ManagedConfigMap { namespace: "default".to_owned(), ..aged("z", "a", 0) };
        let homeless = ManagedConfigMap { pool: None, ..aged("p", "a", 0) };
        let ageless = ManagedConfigMap { created: None, ..aged("q", "a", 0) };
        let going = ManagedConfigMap { deleting: true, ..aged("r", "a", 0) };
        let maps = [foreign, elsewhere, homeless, ageless, going, aged("s", "a", 9)];
        let plan = prune(&maps, &used(&[]), &options(1));
        assert_eq!(names(&plan), Vec::<&str>::new());
        let kept: Vec<(&str, &Kept)> = plan.keep.iter().map(|kept| (ending(&kept.map.name), &kept.why)).collect();
        assert_eq!(kept, [("p", &Kept::NoPool), ("q", &Kept::NoAge), ("r", &Kept::Deleting), ("s", &Kept::Recent)]);
    }

    #[test]
    fn the_checker_lets_nothing_wrong_pass() {
        let maps = [aged("v2", "a", 1), aged("v4", "a", 2)];
        let of = |map: &ManagedConfigMap| PrunePlan { delete: vec![map.clone()], keep: Vec::new() };
        let told = |plan: &PrunePlan, references: &References| -> Vec<String> {
            check_prune(plan, &maps, references, &options(1)).iter().map(ToString::to_string).collect()
        };
        assert_eq!(told(&of(&maps[0]), &used(&[])), Vec::<String>::new());
        assert_eq!(
            told(&of(&maps[0]), &used(&["v2"])),
            ["ConfigMap fleet-a-bbbbbbbbv2: would be deleted while something refers to it"]
        );
        assert_eq!(told(&of(&maps[1]), &used(&[])), ["ConfigMap fleet-a-bbbbbbbbv4: is among the newest of its pool"]);
        let wanted = PruneOptions { wanted: [maps[0].name.clone()].into(), ..options(1) };
        let found = check_prune(&of(&maps[0]), &maps, &used(&[]), &wanted);
        assert_eq!(found[0].problem, "would be deleted while the repository asks for it");
        let anew = ManagedConfigMap { uid: "another".to_owned(), ..maps[0].clone() };
        assert_eq!(told(&of(&anew), &used(&[])), ["ConfigMap fleet-a-bbbbbbbbv2: was not observed so"]);
        let twice = PrunePlan { delete: vec![maps[0].clone(), maps[0].clone()], keep: Vec::new() };
        assert_eq!(told(&twice, &used(&[])), ["ConfigMap fleet-a-bbbbbbbbv2: would be deleted twice"]);
    }

    #[test]
    fn what_only_carries_the_labels_stays_and_takes_no_place() {
        let own = ManagedConfigMap { name: "fleet-a-settings".to_owned(), ..aged("v9", "a", 9) };
        let maps = [aged("v2", "a", 1), aged("v4", "a", 2), own.clone()];
        let plan = prune(&maps, &used(&[]), &options(1));
        assert_eq!(names(&plan), ["v2"]);
        assert!(plan.keep.contains(&KeptConfigMap { map: own.clone(), why: Kept::NotOurs }));
        let old = ManagedConfigMap { created: aged("v2", "a", 0).created, ..own };
        let maps = [old.clone(), aged("v4", "a", 2)];
        let wrong = PrunePlan { delete: vec![old], keep: Vec::new() };
        let told: Vec<String> =
            check_prune(&wrong, &maps, &used(&[]), &options(1)).iter().map(ToString::to_string).collect();
        assert_eq!(told, ["ConfigMap fleet-a-settings: would be deleted without having the name that nodecfg gives"]);
    }

    /// As the name of a ConfigMap ends; some are not nodecfg's.
    const ENDS: [&str; 12] = ["2", "4", "5", "6", "7", "8", "9", "c", "d", "f", "a", "e"];

    fn some_map() -> impl Strategy<Value = ManagedConfigMap> {
        let pool = prop::option::weighted(0.9, prop::sample::select(vec!["a", "b"]));
        let fleet = prop::sample::select(vec![Some("fleet"), Some("fleet"), Some("other"), None]);
        (prop::sample::select(ENDS.to_vec()), fleet, pool, prop::option::weighted(0.9, 0..5_i64), any::<bool>())
            .prop_map(|(end, fleet, pool, second, deleting)| ManagedConfigMap {
                created: second.map(|second| Timestamp::from_second(second).unwrap()),
                deleting,
                ..managed(&long(end, pool.unwrap_or("a")), fleet, pool, None)
            })
    }

    proptest! {
        #[test]
        fn nothing_that_is_referred_to_goes(
            maps in prop::collection::vec(some_map(), 0..12),
            in_use in prop::collection::vec(prop::sample::select(ENDS.to_vec()), 0..6),
            keep in 1..4_usize,
        ) {
            // A name is there once.
            let maps: Vec<ManagedConfigMap> =
                maps.into_iter().map(|map| (map.name.clone(), map)).collect::<BTreeMap<_, _>>().into_values().collect();
            let references = used(&in_use);
            let plan = prune(&maps, &references, &options(keep));
            prop_assert_eq!(check_prune(&plan, &maps, &references, &options(keep)), vec![]);
            prop_assert!(plan.delete.iter().all(|map| !in_use.contains(&ending(&map.name))));
            let ours = maps.iter().filter(|map| map.fleet == Some(fleet())).count();
            prop_assert_eq!(plan.delete.len() + plan.keep.len(), ours);
        }
    }
}
