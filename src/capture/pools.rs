//! The nodes of a cluster sorted into pools by a label that they have already.
//!
//! Every node is in exactly one pool: those without the label are one of their own, and the selectors of roles exclude each
//! other.

use std::collections::{BTreeMap, BTreeSet};

use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_contract::observed::Node;
use nodecfg_contract::observed::POOL_LABEL;

/// Labels by which others know pools, in the order in which they are asked for; of several, the one that most nodes have.
const KNOWN: [&str; 9] = [
    POOL_LABEL,
    "eks.amazonaws.com/nodegroup",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
    "karpenter.sh/nodepool",
    "alpha.eksctl.io/nodegroup-name",
    "cluster.x-k8s.io/deployment-name",
    "doks.digitalocean.com/node-pool",
    "node.kubernetes.io/pool",
];
/// The prefix of labels that name roles; their values mean nothing.
const ROLE: &str = "node-role.kubernetes.io/";
/// The roles that count first, where a node has several.
const FIRST_ROLES: [&str; 3] = ["control-plane", "master", "etcd"];

/// How a pool selects its nodes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Picks {
    /// By `nodecfg.dev/pool` and its own name, which need not be written down.
    ByName(PoolName),
    /// By a label and its value.
    Label(String, String),
    /// By a label that is there, and others that are not.
    Marked(String, Vec<String>),
    /// By labels that are not there.
    Without(Vec<String>),
}

/// The nodes of one pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// What the pool is called.
    pub name: PoolName,
    /// Which nodes are its.
    pub picks: Picks,
    /// Those that are.
    pub nodes: BTreeSet<NodeName>,
}

/// Sorts nodes by this label, or by the known one that most of them have, or by their roles. Also says which it was.
#[must_use]
pub fn sort(nodes: &BTreeMap<NodeName, Node>, label: Option<&str>) -> (String, Vec<Group>) {
    let having =
        |key: &str| nodes.values().filter(|node| node.labels.get(key).is_some_and(|value| !value.is_empty())).count();
    let known = KNOWN
        .iter()
        .rev()
        .map(|key| (having(key), *key))
        .max_by_key(|(count, _)| *count)
        .filter(|(count, _)| *count > 0);
    let (key, picks): (String, Vec<(Picks, &NodeName)>) = match (label, known) {
        (Some(key), _) | (None, Some((_, key))) => {
            (key.to_owned(), nodes.values().map(|node| (by_label(node, key), &node.name)).collect())
        }
        (None, None) => by_role(nodes),
    };
    let mut sorted: BTreeMap<Picks, BTreeSet<NodeName>> = BTreeMap::new();
    for (picks, node) in picks {
        sorted.entry(picks).or_default().insert(node.clone());
    }
    let (mut taken, alone) = (BTreeSet::new(), sorted.len() == 1);
    let mut groups: Vec<Group> = sorted
        .into_iter()
        .filter_map(|(picks, nodes)| Some(Group { name: named(&picks, alone, &mut taken)?, picks, nodes }))
        .collect();
    groups.sort_by(|a, b| a.name.cmp(&b.name));
    (key, groups)
}

fn by_label(node: &Node, key: &str) -> Picks {
    // An empty value is one, too: the label is there, and `DoesNotExist` would not select the node.
    match node.labels.get(key) {
        Some(value) => match PoolName::new(value.as_str()) {
            Ok(name) if key == POOL_LABEL => Picks::ByName(name),
            _ => Picks::Label(key.to_owned(), value.clone()),
        },
        None => Picks::Without(vec![key.to_owned()]),
    }
}

fn by_role(nodes: &BTreeMap<NodeName, Node>) -> (String, Vec<(Picks, &NodeName)>) {
    let rank = |role: &str| FIRST_ROLES.iter().position(|first| *first == role).unwrap_or(FIRST_ROLES.len());
    let keys: BTreeSet<&str> = nodes
        .values()
        .flat_map(|node| node.labels.keys())
        .filter(|key| key.starts_with(ROLE))
        .map(String::as_str)
        .collect();
    let mut roles: Vec<&str> = keys.into_iter().collect();
    roles.sort_by_key(|key| (rank(key.trim_start_matches(ROLE)), key.to_owned()));
    if roles.is_empty() {
        let all = nodes.keys().map(|name| (Picks::Without(vec![POOL_LABEL.to_owned()]), name)).collect();
        return (POOL_LABEL.to_owned(), all);
    }
    let owned = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>();
    let pick = |node: &Node| match roles.iter().position(|role| node.labels.contains_key(*role)) {
        Some(at) => {
            let before = roles.get(..at).map(owned).unwrap_or_default();
            Picks::Marked(roles.get(at).map(|role| (*role).to_owned()).unwrap_or_default(), before)
        }
        None => Picks::Without(owned(&roles)),
    };
    (format!("{ROLE}<role>"), nodes.values().map(|node| (pick(node), &node.name)).collect())
}

/// A name that no other pool has.
fn named(picks: &Picks, alone: bool, taken: &mut BTreeSet<PoolName>) -> Option<PoolName> {
    let wish = match picks {
        Picks::ByName(name) => {
            taken.insert(name.clone());
            return Some(name.clone());
        }
        Picks::Label(_, value) if value.is_empty() => "unnamed".to_owned(),
        Picks::Label(_, value) => value.clone(),
        Picks::Marked(role, _) => role.trim_start_matches(ROLE).to_owned(),
        Picks::Without(keys) if keys.iter().any(|key| key.starts_with(ROLE)) => "workers".to_owned(),
        Picks::Without(_) if alone => "nodes".to_owned(),
        Picks::Without(_) => "others".to_owned(),
    };
    let plain: String =
        wish.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(40).collect();
    let plain = plain.trim_matches('-');
    let plain = if plain.is_empty() { "pool" } else { plain };
    let mut names = std::iter::once(plain.to_owned()).chain((2..).map(|number| format!("{plain}-{number}")));
    let name = names.find_map(|name| PoolName::new(name).ok().filter(|name| !taken.contains(name)))?;
    taken.insert(name.clone());
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(all: &[(&str, &[(&str, &str)])]) -> BTreeMap<NodeName, Node> {
        all.iter()
            .map(|(name, labels)| {
                let name = NodeName::new(*name).unwrap();
                let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
                (name.clone(), Node { labels, ..Node::named(name) })
            })
            .collect()
    }

    fn sorted(all: &[(&str, &[(&str, &str)])], label: Option<&str>) -> (String, Vec<(String, Vec<String>)>) {
        let nodes = nodes(all);
        let (key, groups) = sort(&nodes, label);
        assert_eq!(groups.iter().map(|group| group.nodes.len()).sum::<usize>(), nodes.len(), "each node once");
        let named = |group: &Group| (group.name.to_string(), group.nodes.iter().map(NodeName::to_string).collect());
        (key, groups.iter().map(named).collect())
    }

    fn pool(name: &str, nodes: &[&str]) -> (String, Vec<String>) {
        (name.to_owned(), nodes.iter().map(|node| (*node).to_owned()).collect())
    }

    #[test]
    fn the_label_that_most_nodes_have_makes_the_pools() {
        let (key, pools) = sorted(
            &[
                ("a", &[("eks.amazonaws.com/nodegroup", "Big_One"), ("nodecfg.dev/pool", "x")]),
                ("b", &[("eks.amazonaws.com/nodegroup", "big-one")]),
                ("c", &[]),
            ],
            None,
        );
        assert_eq!(key, "eks.amazonaws.com/nodegroup");
        assert_eq!(pools, [pool("big-one", &["a"]), pool("big-one-2", &["b"]), pool("others", &["c"])]);
    }

    #[test]
    fn an_empty_value_makes_a_pool_of_its_own() {
        let all: &[(&str, &[(&str, &str)])] = &[("a", &[(POOL_LABEL, "x")]), ("b", &[(POOL_LABEL, "")]), ("c", &[])];
        assert_eq!(sorted(all, None).1, [pool("others", &["c"]), pool("unnamed", &["b"]), pool("x", &["a"])]);
        let (_, groups) = sort(&nodes(all), None);
        assert_eq!(groups[1].picks, Picks::Label(POOL_LABEL.to_owned(), String::new()));
    }

    #[test]
    fn a_node_with_two_roles_is_in_one_pool() {
        const CONTROL: (&str, &str) = ("node-role.kubernetes.io/control-plane", "");
        const INFRA: (&str, &str) = ("node-role.kubernetes.io/infra", "");
        let all: &[(&str, &[(&str, &str)])] = &[("a", &[CONTROL, INFRA]), ("b", &[INFRA]), ("c", &[])];
        let (_, pools) = sorted(all, None);
        assert_eq!(pools, [pool("control-plane", &["a"]), pool("infra", &["b"]), pool("workers", &["c"])]);
        let (_, groups) = sort(&nodes(all), None);
        assert_eq!(groups[1].picks, Picks::Marked(INFRA.0.to_owned(), vec![CONTROL.0.to_owned()]));
    }

    #[test]
    fn nodes_without_any_label_are_one_pool_and_an_asked_label_counts() {
        assert_eq!(sorted(&[("a", &[]), ("b", &[])], None).1, [pool("nodes", &["a", "b"])]);
        let (key, pools) = sorted(&[("a", &[("team", "x")]), ("b", &[("nodecfg.dev/pool", "y")])], Some("team"));
        assert_eq!((key.as_str(), pools), ("team", vec![pool("others", &["b"]), pool("x", &["a"])]));
    }
}
