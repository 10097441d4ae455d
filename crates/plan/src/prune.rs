//! Selection of the ConfigMaps of a fleet to delete: those that no node refers to and the repository does not need,
//! except the newest of each pool. `prune` and the count in `diff` use the same function.
//!
//! [`check_prune`] verifies every result against the same observation, by other code: for example, no ConfigMap in
//! use is deleted.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::Timestamp;
use serde::Serialize;

use super::Violation;
use nodecfg_contract::ContentHash;
use nodecfg_contract::names::{FleetName, NamespaceName, PoolName};
use nodecfg_observed::{ConfigMapKey, ManagedConfigMap, References};

/// Default number of ConfigMaps to keep per pool.
pub const KEEP: u32 = 3;

/// Options of a prune.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PruneOptions {
    /// Fleet of the ConfigMaps.
    pub fleet: FleetName,
    /// Their namespace.
    pub namespace: NamespaceName,
    /// Number of the newest ConfigMaps to keep per pool, referenced or not. The desired one may be older, for example
    /// after a revert; `wanted` keeps it.
    pub keep: usize,
    /// Names of the ConfigMaps that the repository needs, which are kept; empty without a repository.
    pub wanted: BTreeSet<String>,
    /// Pools to prune; empty: all.
    pub pools: BTreeSet<PoolName>,
}

/// Result of a prune: ConfigMaps to delete and to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrunePlan {
    /// ConfigMaps to delete, by name.
    pub delete: Vec<ManagedConfigMap>,
    /// ConfigMaps to keep, by name.
    pub keep: Vec<KeptConfigMap>,
}

/// A kept ConfigMap of the fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptConfigMap {
    /// The ConfigMap.
    pub map: ManagedConfigMap,
    /// The reason.
    pub why: Kept,
}

/// Reason to keep a ConfigMap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Kept {
    /// Nodes refer to it in spec or status.
    InUse {
        /// Number of nodes.
        nodes: usize,
        /// One of them.
        example: String,
    },
    /// The repository needs it.
    Wanted,
    /// The pointer of its pool names it, so new nodes start with it.
    Pointed,
    /// It is the pointer of its pool.
    Pointer,
    /// It is one of the newest of its pool.
    Recent,
    /// It has no pool label, so its rank within a pool is unknown.
    NoPool,
    /// The API server reports no creation time.
    NoAge,
    /// It is being deleted already.
    Deleting,
    /// Its pool was not requested.
    NotAskedFor,
    /// It has the labels of nodecfg, but a name or content that nodecfg does not give.
    NotOurs,
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse { nodes: 1, example } => write!(f, "in use by {example}"),
            Self::InUse { nodes, example } => write!(f, "in use by {nodes} nodes (for example {example})"),
            Self::Wanted => f.write_str("needed by the repository"),
            Self::Pointed => f.write_str("named by the pointer of its pool"),
            Self::Pointer => f.write_str("the pointer of its pool"),
            Self::Recent => f.write_str("among the newest of its pool"),
            Self::NoPool => f.write_str("names no pool"),
            Self::NoAge => f.write_str("of unknown age"),
            Self::Deleting => f.write_str("being deleted already"),
            Self::NotAskedFor => f.write_str("not requested"),
            Self::NotOurs => f.write_str("not created by nodecfg, despite its labels"),
        }
    }
}

/// Decides on every ConfigMap of the fleet and namespace in `maps`, and ignores other ConfigMaps. `maps` include the pool
/// pointers, and `references` their contents.
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
        for map in &maps {
            let why = match (pool, references.of(&key(map))) {
                (Some(pool), _) if !options.pools.is_empty() && !options.pools.contains(pool) => {
                    Some(Kept::NotAskedFor)
                }
                (_, Some(users)) => Some(Kept::InUse { nodes: users.count, example: users.example.clone() }),
                _ if options.wanted.contains(&map.name) => Some(Kept::Wanted),
                _ if map.is_pointer() => Some(Kept::Pointer),
                // Another client can change the content of a pointer without its annotation, and the other way round.
                _ if references.is_pointed(&key(map)) => Some(Kept::Pointed),
                _ if maps.iter().any(|pointer| records(pointer, map)) => Some(Kept::Pointed),
                (None, None) => Some(Kept::NoPool),
                _ if !is_named_by_us(map) => Some(Kept::NotOurs),
                _ if map.deleting => Some(Kept::Deleting),
                _ if map.created.is_none() => Some(Kept::NoAge),
                _ if rank < options.keep => Some(Kept::Recent),
                _ => None,
            };
            // ConfigMaps with other names have no rank among the newest.
            rank += usize::from(is_named_by_us(map));
            match why {
                Some(why) => keep.push(KeptConfigMap { map: (*map).clone(), why }),
                None => delete.push((*map).clone()),
            }
        }
    }
    delete.sort_by(|a, b| a.name.cmp(&b.name));
    keep.sort_by(|a, b| a.map.name.cmp(&b.map.name));
    PrunePlan { delete, keep }
}

/// Reports whether the name is one that nodecfg gives. A user may copy the labels to another ConfigMap.
fn is_named_by_us(map: &ManagedConfigMap) -> bool {
    let (Some(fleet), Some(pool)) = (&map.fleet, &map.pool) else { return false };
    ContentHash::short_in(&map.name, fleet, pool).is_some()
}

/// Reports whether the annotation of a pointer records a ConfigMap of its pool. One with an unknown kind of hash may
/// record any.
fn records(pointer: &ManagedConfigMap, map: &ManagedConfigMap) -> bool {
    let (Some(fleet), Some(pool), Some(recorded)) = (&map.fleet, &map.pool, &pointer.content_hash) else {
        return false;
    };
    let is_named = |hash: ContentHash| ContentHash::short_in(&map.name, fleet, pool) == Some(hash.short().as_str());
    pointer.is_pointer() && ContentHash::parse(recorded).is_none_or(is_named)
}

fn key(map: &ManagedConfigMap) -> ConfigMapKey {
    ConfigMapKey { namespace: map.namespace.clone(), name: map.name.clone() }
}

/// Returns every violated invariant of a prune; an empty result allows it to run.
#[must_use]
pub fn check_prune(
    plan: &PrunePlan,
    maps: &[ManagedConfigMap],
    references: &References,
    options: &PruneOptions,
) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for deleted in &plan.delete {
        let mut require = |holds: bool, problem: &str| {
            if !holds {
                let subject = format!("ConfigMap {}", deleted.name);
                violations.push(Violation { subject, problem: problem.to_owned() });
            }
        };
        require(seen.insert(&deleted.name), "would be deleted twice");
        require(maps.contains(deleted), "differs from the observation");
        require(!deleted.uid.is_empty(), "has no uid");
        require(deleted.fleet.as_ref() == Some(&options.fleet), "would be deleted but does not belong to this fleet");
        require(is_named_by_us(deleted), "would be deleted but does not have a name of nodecfg");
        require(deleted.namespace == options.namespace.as_str(), "would be deleted in another namespace");
        let used = references.keys().any(|key| key.namespace == deleted.namespace && key.name == deleted.name);
        require(!used, "would be deleted while something refers to it");
        require(!options.wanted.contains(&deleted.name), "would be deleted but the repository needs it");
        let pointer = |other: &&ManagedConfigMap| {
            let same = other.fleet == deleted.fleet && other.pool == deleted.pool;
            // The annotations of a pointer and of its ConfigMap have the same hash.
            same && other.is_pointer() && other.content_hash.is_some() && other.content_hash == deleted.content_hash
        };
        let is_named = references.is_pointed(&key(deleted)) || maps.iter().any(|other| pointer(&other));
        require(!is_named, "would be deleted but the pointer of its pool names it");
        let asked = |pool: &PoolName| options.pools.is_empty() || options.pools.contains(pool);
        require(deleted.pool.as_ref().is_some_and(asked), "would be deleted but was not requested");
        // Counted per ConfigMap, independent of any order.
        let newer = |other: &&ManagedConfigMap| {
            let same =
                other.namespace == deleted.namespace && other.fleet == deleted.fleet && other.pool == deleted.pool;
            same && is_named_by_us(other)
                && other.name != deleted.name
                && newer_or_equal(other.created, deleted.created)
        };
        require(maps.iter().filter(newer).count() >= options.keep, "is among the newest of its pool");
    }
    violations
}

/// Reports whether `other` is at least as new as `this`; false if either creation time is unknown. The check then
/// requires more ConfigMaps to be kept.
fn newer_or_equal(other: Option<Timestamp>, this: Option<Timestamp>) -> bool {
    matches!((other, this), (Some(other), Some(this)) if other >= this)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fixtures::{fleet, managed, namespace, pool_name, source};
    use nodecfg_contract::config_map::FetchedConfigMap;

    fn aged(name: &str, pool: &str, second: i64) -> ManagedConfigMap {
        let created = Some(Timestamp::from_second(1_800_000_000 + second).unwrap());
        ManagedConfigMap { created, ..managed(&long(name, pool), Some("fleet"), Some(pool), None) }
    }

    /// A name in the scheme of nodecfg that ends in `name`.
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
    fn keeps_newest_and_used_config_maps() {
        let maps = [aged("v2", "a", 1), aged("v4", "a", 2), aged("v5", "a", 3), aged("v6", "a", 4), aged("w2", "b", 0)];
        let plan = prune(&maps, &used(&["v4", "v4"]), &options(1));
        assert_eq!(names(&plan), ["v2", "v5"]);
        let kept: Vec<String> =
            plan.keep.iter().map(|kept| format!("{}: {}", ending(&kept.map.name), kept.why)).collect();
        assert_eq!(
            kept,
            [
                "v4: in use by 2 nodes (for example n0)",
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
    fn keeps_config_maps_of_unclear_owner_or_age() {
        let foreign = ManagedConfigMap { fleet: None, ..aged("x", "a", 0) };
        let elsewhere = ManagedConfigMap { namespace: "default".to_owned(), ..aged("z", "a", 0) };
        let without_pool = ManagedConfigMap { pool: None, ..aged("p", "a", 0) };
        let ageless = ManagedConfigMap { created: None, ..aged("q", "a", 0) };
        let going = ManagedConfigMap { deleting: true, ..aged("r", "a", 0) };
        let maps = [foreign, elsewhere, without_pool, ageless, going, aged("s", "a", 9)];
        let plan = prune(&maps, &used(&[]), &options(1));
        assert_eq!(names(&plan), Vec::<&str>::new());
        let kept: Vec<(&str, &Kept)> = plan.keep.iter().map(|kept| (ending(&kept.map.name), &kept.why)).collect();
        assert_eq!(kept, [("p", &Kept::NoPool), ("q", &Kept::NoAge), ("r", &Kept::Deleting), ("s", &Kept::Recent)]);
    }

    /// New nodes get what a pointer contains. Its annotation is a record for people, which other clients can change.
    #[test]
    fn keeps_what_the_content_of_a_pointer_names() {
        let maps = [aged("v2", "a", 1), aged("v4", "a", 2), aged("v6", "a", 3)];
        let data = BTreeMap::from([("configMap".to_owned(), maps[0].name.clone())]);
        let pointer = FetchedConfigMap { namespace: namespace().to_string(), data, ..FetchedConfigMap::default() };
        let mut references = used(&[]);
        references.add_pointer(&pointer);
        let plan = prune(&maps, &references, &options(1));
        assert_eq!(names(&plan), ["v4"]);
        assert!(plan.keep.contains(&KeptConfigMap { map: maps[0].clone(), why: Kept::Pointed }));
        assert_eq!(check_prune(&plan, &maps, &references, &options(1)), []);
        let wrong = PrunePlan { delete: vec![maps[0].clone()], keep: Vec::new() };
        let found = check_prune(&wrong, &maps, &references, &options(1));
        assert_eq!(found[0].problem, "would be deleted but the pointer of its pool names it");
        let elsewhere = FetchedConfigMap { namespace: "default".to_owned(), ..pointer };
        let mut references = used(&[]);
        references.add_pointer(&elsewhere);
        assert_eq!(names(&prune(&maps, &references, &options(1))), ["v2", "v4"]);
    }

    #[test]
    fn checker_rejects_violations() {
        let maps = [aged("v2", "a", 1), aged("v4", "a", 2)];
        let of = |map: &ManagedConfigMap| PrunePlan { delete: vec![map.clone()], keep: Vec::new() };
        let problems = |plan: &PrunePlan, references: &References| -> Vec<String> {
            check_prune(plan, &maps, references, &options(1)).iter().map(ToString::to_string).collect()
        };
        assert_eq!(problems(&of(&maps[0]), &used(&[])), Vec::<String>::new());
        assert_eq!(
            problems(&of(&maps[0]), &used(&["v2"])),
            ["ConfigMap fleet-a-bbbbbbbbv2: would be deleted while something refers to it"]
        );
        assert_eq!(
            problems(&of(&maps[1]), &used(&[])),
            ["ConfigMap fleet-a-bbbbbbbbv4: is among the newest of its pool"]
        );
        let wanted = PruneOptions { wanted: [maps[0].name.clone()].into(), ..options(1) };
        let found = check_prune(&of(&maps[0]), &maps, &used(&[]), &wanted);
        assert_eq!(found[0].problem, "would be deleted but the repository needs it");
        let recreated = ManagedConfigMap { uid: "another".to_owned(), ..maps[0].clone() };
        assert_eq!(
            problems(&of(&recreated), &used(&[])),
            ["ConfigMap fleet-a-bbbbbbbbv2: differs from the observation"]
        );
        let twice = PrunePlan { delete: vec![maps[0].clone(), maps[0].clone()], keep: Vec::new() };
        assert_eq!(problems(&twice, &used(&[])), ["ConfigMap fleet-a-bbbbbbbbv2: would be deleted twice"]);
    }

    #[test]
    fn keeps_config_maps_with_copied_labels() {
        let own = ManagedConfigMap { name: "fleet-a-settings".to_owned(), ..aged("v9", "a", 9) };
        let maps = [aged("v2", "a", 1), aged("v4", "a", 2), own.clone()];
        let plan = prune(&maps, &used(&[]), &options(1));
        assert_eq!(names(&plan), ["v2"]);
        assert!(plan.keep.contains(&KeptConfigMap { map: own.clone(), why: Kept::NotOurs }));
        let old = ManagedConfigMap { created: aged("v2", "a", 0).created, ..own };
        let maps = [old.clone(), aged("v4", "a", 2)];
        let wrong = PrunePlan { delete: vec![old], keep: Vec::new() };
        let problems: Vec<String> =
            check_prune(&wrong, &maps, &used(&[]), &options(1)).iter().map(ToString::to_string).collect();
        assert_eq!(problems, ["ConfigMap fleet-a-settings: would be deleted but does not have a name of nodecfg"]);
    }

    /// Ends of names; some do not follow the scheme of nodecfg.
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
        fn never_deletes_referenced_config_maps(
            maps in prop::collection::vec(some_map(), 0..12),
            in_use in prop::collection::vec(prop::sample::select(ENDS.to_vec()), 0..6),
            keep in 1..4_usize,
        ) {
            // Names are unique.
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
