//! Simulated nodes for a repository: finds for every pool labels that its selector matches and that no other pool
//! claims. Pure.
//!
//! A selector does not determine labels, so labels are searched. The search starts with an example of the selector
//! and changes one label at a time until no rival pool selects the node.

use std::collections::{BTreeMap, BTreeSet};

use kubelet_config::capacity::Capacity;
use kubelet_config::finding::Finding;
use kubelet_config::{Minor, NEWEST};
use nodecfg_contract::Placement;
use nodecfg_contract::label_selector::LabelSelector;
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_fleet::{Desired, typical_sizes};
use nodecfg_sandbox::api::ServerProfile;
use nodecfg_sandbox::kubelets::KUBEADM_FILE;
use nodecfg_sandbox::nodes::{NodeSpec, numbered, own_labels};

mod own_file;

use own_file::own_file;

/// Last kubelet version with Dynamic Kubelet Configuration.
const LAST_DYNAMIC: Minor = Minor(23);
/// Limit of the label sets tried for one pool. Real repositories need a few.
const ATTEMPTS: usize = 20_000;

/// Profile of the API server for the kubelet versions that a repository declares: 1.21 when all support Dynamic
/// Kubelet Configuration. `None` without declared versions.
#[must_use]
pub fn profile_for(desired: &Desired) -> Option<ServerProfile> {
    let mut declared = desired.pools.values().flat_map(|pool| &pool.kubelets).peekable();
    declared.peek()?;
    Some(if declared.all(|minor| *minor <= LAST_DYNAMIC) { ServerProfile::V1_21 } else { ServerProfile::V1_36 })
}

/// Kubelet version of a pool's nodes: the newest declared version that the API server supports, otherwise the
/// server's own version.
fn kubelet_version(declared: &[Minor], profile: ServerProfile) -> String {
    let fits = |minor: &&Minor| match profile {
        ServerProfile::V1_21 => **minor <= LAST_DYNAMIC,
        ServerProfile::V1_36 => **minor > LAST_DYNAMIC && **minor <= NEWEST,
    };
    let newest = declared.iter().filter(fits).max();
    newest.map_or_else(|| profile.git_version().to_owned(), |minor| format!("v{minor}.0"))
}

/// Number of sizes of the nodes of a pool whose configuration follows from the size.
const SIZES: usize = 3;

/// Creates `per_pool` nodes for each pool, and a note for each pool without a possible node.
#[must_use]
pub fn nodes_for(desired: &Desired, per_pool: usize, profile: ServerProfile) -> (Vec<NodeSpec>, Vec<Finding>) {
    let (mut nodes, mut notes) = (Vec::new(), Vec::new());
    let candidates: Vec<Candidate<'_>> = desired
        .pools
        .iter()
        .map(|(name, pool)| Candidate { name, selector: &pool.selector, priority: pool.priority })
        .collect();
    for (name, pool) in &desired.pools {
        let kubelet_version = kubelet_version(&pool.kubelets, profile);
        let minor = Minor::parse(&kubelet_version).unwrap_or(NEWEST);
        let placement = pool.placement.unwrap_or(match profile {
            ServerProfile::V1_21 => Placement::Replace,
            ServerProfile::V1_36 => Placement::Overlay,
        });
        // Nodes of a pool without sizes have the capacity of every simulated node.
        let sizes: Vec<Option<Capacity>> = match pool.targets.sizes() {
            Some(_) => typical_sizes().take(SIZES).map(Some).collect(),
            None => vec![None],
        };
        let own_file_of = |size: &Option<Capacity>| {
            let of_size = pool.for_node(size.unwrap_or_default())?;
            let rendered = of_size.target.rendered()?;
            Some(own_file(rendered, placement, pool.policy.allow_disruption, minor))
        };
        let machines: Vec<_> = sizes.iter().map(|size| (*size, own_file_of(size))).collect();
        let made: Result<Vec<NodeSpec>, Misfit> = fitting_labels(name, &candidates).and_then(|labels| {
            (1..=per_pool)
                .map(|number| {
                    let node = numbered(name.as_str(), number, per_pool).map_err(|_| Misfit::Name)?;
                    let mut node = NodeSpec::new(node, labels.clone(), &kubelet_version);
                    if let Some((size, own)) = machines.get((number - 1) % machines.len()) {
                        node.capacity = size.unwrap_or(node.capacity);
                        node.host.file.clone_from(own);
                    }
                    // Selectors may also match labels that a kubelet sets itself, for example its name.
                    let fits = winner(&node.labels, &candidates) == Some(name);
                    if fits { Ok(node) } else { Err(Misfit::OwnLabels) }
                })
                .collect()
        });
        match made {
            Ok(made) => nodes.extend(made),
            Err(misfit) => notes.push(
                Finding::note("pool-without-sandbox-node", format!("pool {name} has no node in the sandbox: {misfit}"))
                    .at(pool.place.clone()),
            ),
        }
    }
    (nodes, notes)
}

/// Selector and priority of a pool.
#[derive(Debug, Clone, Copy)]
struct Candidate<'a> {
    name: &'a PoolName,
    selector: &'a LabelSelector,
    priority: i64,
}

/// Reason for a pool without a node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Misfit {
    #[error("its selector contradicts itself and selects no node")]
    Contradiction,
    #[error("its selector excludes labels that every kubelet sets")]
    OwnLabels,
    #[error("every node that it selects also belongs to pool {rival}, whose priority {priority} is not lower")]
    Shadowed { rival: PoolName, priority: i64 },
    #[error("the search found no labels that only this pool selects")]
    GaveUp,
    #[error("its name is too long for names of nodes")]
    Name,
}

/// Pool of a node with these labels. `None` when no pool selects the node, or several of the same priority.
fn winner<'a>(labels: &BTreeMap<String, String>, pools: &[Candidate<'a>]) -> Option<&'a PoolName> {
    let selecting = || pools.iter().filter(|pool| pool.selector.matches(labels));
    let highest = selecting().map(|pool| pool.priority).max()?;
    let mut first = selecting().filter(|pool| pool.priority == highest);
    let winner = first.next()?;
    first.next().is_none().then_some(winner.name)
}

/// Labels with which a node belongs to this pool, in addition to the kubelet's own labels.
fn fitting_labels(name: &PoolName, pools: &[Candidate<'_>]) -> Result<BTreeMap<String, String>, Misfit> {
    let Some(pool) = pools.iter().find(|pool| pool.name == name) else { return Err(Misfit::GaveUp) };
    let example = pool.selector.example().ok_or(Misfit::Contradiction)?;
    let rivals: Vec<&Candidate<'_>> =
        pools.iter().filter(|rival| rival.name != name && rival.priority >= pool.priority).collect();
    let node = NodeName::new("node").map_err(|_| Misfit::Name)?;
    let mut search =
        Search { pool, rivals: &rivals, own: own_labels(&node), values: values(pools), attempts: ATTEMPTS };
    if !pool.selector.matches(&search.whole(&example)) {
        return Err(Misfit::OwnLabels);
    }
    if let Some(labels) = search.avoid_rivals(example.clone(), rivals.len()) {
        return Ok(labels);
    }
    // Names the first rival that cannot be avoided even alone.
    let inevitable = rivals.iter().find(|rival| {
        let alone = [**rival];
        let mut search =
            Search { pool, rivals: &alone, own: search.own.clone(), values: values(pools), attempts: ATTEMPTS };
        search.avoid_rivals(example.clone(), 1).is_none()
    });
    Err(match inevitable {
        Some(rival) => Misfit::Shadowed { rival: rival.name.clone(), priority: rival.priority },
        None => Misfit::GaveUp,
    })
}

/// Values to try for every key in selectors: all values in selectors, and one other value.
fn values(pools: &[Candidate<'_>]) -> BTreeMap<String, BTreeSet<String>> {
    let mut values: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for pool in pools {
        for (key, value) in &pool.selector.match_labels {
            values.entry(key.clone()).or_default().insert(value.clone());
        }
        for requirement in &pool.selector.match_expressions {
            values.entry(requirement.key.clone()).or_default().extend(requirement.values.iter().cloned());
        }
    }
    for named in values.values_mut() {
        let other = (0..).map(|n| if n == 0 { "other".to_owned() } else { format!("other-{n}") });
        let unnamed = other.into_iter().find(|value| !named.contains(value));
        named.extend(unnamed);
    }
    values
}

struct Search<'a> {
    pool: &'a Candidate<'a>,
    rivals: &'a [&'a Candidate<'a>],
    own: BTreeMap<String, String>,
    values: BTreeMap<String, BTreeSet<String>>,
    attempts: usize,
}

impl Search<'_> {
    /// All labels of a node with these additional labels.
    fn whole(&self, labels: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let mut whole = self.own.clone();
        whole.extend(labels.iter().map(|(key, value)| (key.clone(), value.clone())));
        whole
    }

    /// Changes labels until no rival selects the node. Each change avoids one rival; at most `depth` changes.
    fn avoid_rivals(&mut self, labels: BTreeMap<String, String>, depth: usize) -> Option<BTreeMap<String, String>> {
        let whole = self.whole(&labels);
        let Some(rival) = self.rivals.iter().copied().find(|rival| rival.selector.matches(&whole)) else {
            return Some(labels);
        };
        if depth == 0 {
            return None;
        }
        let keys: BTreeSet<&str> = rival.selector.keys().collect();
        for key in keys {
            let values = self.values.get(key).cloned().unwrap_or_default();
            for value in values.into_iter().map(Some).chain([None]) {
                self.attempts = self.attempts.checked_sub(1)?;
                let mut changed = labels.clone();
                match value {
                    Some(value) => changed.insert(key.to_owned(), value),
                    None => changed.remove(key),
                };
                let whole = self.whole(&changed);
                if self.pool.selector.matches(&whole)
                    && !rival.selector.matches(&whole)
                    && let Some(found) = self.avoid_rivals(changed, depth - 1)
                {
                    return Some(found);
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodecfg_contract::label_selector::{Operator, Requirement};

    /// A pool from `name priority` and requirements: `k=v`, `k!`, `!k`, `k in a,b`, `k notin a,b`.
    fn pool(name: &str, priority: i64, requirements: &[&str]) -> (PoolName, LabelSelector, i64) {
        let mut selector = LabelSelector::default();
        let mut require = |key: &str, operator, values: &str| {
            let values = values.split(',').filter(|value| !value.is_empty()).map(str::to_owned).collect();
            selector.match_expressions.push(Requirement { key: key.to_owned(), operator, values });
        };
        let mut labels = BTreeMap::new();
        for text in requirements {
            match (text.split_once(" in "), text.split_once(" notin "), text.split_once('=')) {
                (Some((key, values)), ..) => require(key, Operator::In, values),
                (_, Some((key, values)), _) => require(key, Operator::NotIn, values),
                (.., Some((key, value))) => {
                    labels.insert(key.to_owned(), value.to_owned());
                }
                _ if text.starts_with('!') => require(&text[1..], Operator::DoesNotExist, ""),
                _ => require(text, Operator::Exists, ""),
            }
        }
        selector.match_labels = labels;
        (PoolName::new(name).unwrap(), selector, priority)
    }

    fn fit(pools: &[(PoolName, LabelSelector, i64)]) -> Vec<Result<BTreeMap<String, String>, Misfit>> {
        let candidates: Vec<Candidate<'_>> =
            pools.iter().map(|(name, selector, priority)| Candidate { name, selector, priority: *priority }).collect();
        pools
            .iter()
            .map(|(name, ..)| {
                let labels = fitting_labels(name, &candidates)?;
                let node = NodeSpec::new(NodeName::new("n").unwrap(), labels.clone(), "v1.21.1");
                assert_eq!(winner(&node.labels, &candidates), Some(name), "{labels:?}");
                Ok(labels)
            })
            .collect()
    }

    fn all_fit(pools: &[(PoolName, LabelSelector, i64)]) {
        for (pool, fitted) in pools.iter().zip(fit(pools)) {
            assert!(fitted.is_ok(), "{}: {fitted:?}", pool.0);
        }
    }

    #[test]
    fn labels_come_from_the_selector() {
        let fitted = fit(&[pool("a", 0, &["pool=a"]), pool("b", 0, &["pool=b", "gpu"])]);
        assert_eq!(fitted[0], Ok(BTreeMap::from([("pool".to_owned(), "a".to_owned())])));
        assert_eq!(fitted[1].as_ref().unwrap()["pool"], "b");
        assert!(fitted[1].as_ref().unwrap().contains_key("gpu"));
    }

    #[test]
    fn catch_all_pool_avoids_the_other_pools() {
        all_fit(&[
            pool("rest", -10, &[]),
            pool("gpu", 10, &["accelerator in h100,h200"]),
            pool("on-demand", 0, &["!spot"]),
            pool("not-old", 0, &["spot", "generation notin v1,v2", "!legacy"]),
        ]);
    }

    #[test]
    fn satisfies_and_avoids_every_operator() {
        all_fit(&[
            pool("low", 0, &["tier in a,b,c", "zone"]),
            pool("high", 5, &["tier in a,b"]),
            pool("other", 5, &["tier=c", "zone notin x,other"]),
        ]);
        all_fit(&[pool("linux", 0, &["kubernetes.io/os=linux"]), pool("windows", 1, &["kubernetes.io/os=windows"])]);
    }

    #[test]
    fn reports_why_a_pool_has_no_node() {
        let reasons = |pools: &[_]| fit(pools).into_iter().map(|fitted| fitted.err()).collect::<Vec<_>>();
        assert_eq!(reasons(&[pool("a", 0, &["x", "!x"])]), [Some(Misfit::Contradiction)]);
        assert_eq!(reasons(&[pool("a", 0, &["!kubernetes.io/os"])]), [Some(Misfit::OwnLabels)]);
        let shadowed =
            |rival: &str, priority| Some(Misfit::Shadowed { rival: PoolName::new(rival).unwrap(), priority });
        assert_eq!(reasons(&[pool("a", 0, &["x=1", "y"]), pool("b", 3, &["x=1"])]), [shadowed("b", 3), None]);
        assert_eq!(reasons(&[pool("a", 0, &["x"]), pool("b", 0, &["x"])]), [shadowed("b", 0), shadowed("a", 0)]);
        assert_eq!(
            reasons(&[pool("a", 0, &["x"]), pool("b", 1, &["y"]), pool("c", 1, &["!y"])]),
            [Some(Misfit::GaveUp), None, None]
        );
    }

    #[test]
    fn creates_nodes_for_every_satisfiable_pool() {
        use kubelet_config::finding::Place;
        use nodecfg_contract::names::FleetName;
        use nodecfg_fleet::{Pool, PoolTarget, RolloutPolicy};

        let pools = [pool("cpu", 0, &["pool=cpu"]), pool("gpu", 5, &["gpu"]), pool("never", 0, &["gpu", "pool=x"])];
        let pools = pools.into_iter().map(|(name, selector, priority)| {
            let (policy, place) = (RolloutPolicy::default(), Place::whole_file(format!("pools/{name}/pool.yaml")));
            (
                name.clone(),
                Pool {
                    name,
                    selector,
                    priority,
                    policy,
                    targets: PoolTarget::Local.into(),
                    placement: None,
                    own: None,
                    named: None,
                    require_nodes: None,
                    kubelets: Vec::new(),
                    place,
                    files: BTreeSet::new(),
                },
            )
        });
        let fleet = FleetName::new("f").unwrap();
        let desired = Desired {
            fleet,
            namespace: None,
            commit: None,
            uncommitted: 0,
            max_unavailable: None,
            pool_pointers: false,
            paused: false,
            pools: pools.collect(),
        };
        let (nodes, notes) = nodes_for(&desired, 10, ServerProfile::V1_21);
        let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!((names.len(), names[0], names[9], names[10]), (20, "cpu-01", "cpu-10", "gpu-01"));
        assert!(
            nodes[..10].iter().all(|node| node.labels["pool"] == "cpu" && node.labels["kubernetes.io/os"] == "linux")
        );
        let [note] = notes.as_slice() else { panic!("{notes:?}") };
        assert_eq!(note.place.as_ref().unwrap().file.as_ref(), "pools/never/pool.yaml");
        assert_eq!(
            note.message,
            "pool never has no node in the sandbox: every node that it selects also belongs to pool gpu, whose priority 5 is \
             not lower"
        );
    }

    #[test]
    fn versions_follow_the_declared_kubelets() {
        let of =
            |minors: &[u32], profile| kubelet_version(&minors.iter().map(|m| Minor(*m)).collect::<Vec<_>>(), profile);
        assert_eq!(of(&[], ServerProfile::V1_21), "v1.21.14");
        assert_eq!(of(&[], ServerProfile::V1_36), "v1.36.2");
        assert_eq!(of(&[19, 23, 30], ServerProfile::V1_21), "v1.23.0");
        assert_eq!(of(&[23, 30, 28], ServerProfile::V1_36), "v1.30.0");
        assert_eq!(of(&[21], ServerProfile::V1_36), "v1.36.2");
    }

    #[test]
    fn finds_labels_for_two_hundred_pools_quickly() {
        let mut pools: Vec<_> =
            (0..200).map(|n| pool(&format!("p{n}"), n, &[&format!("pool=p{n}"), "!drained"])).collect();
        pools.push(pool("rest", -1, &[]));
        all_fit(&pools);
    }
}
