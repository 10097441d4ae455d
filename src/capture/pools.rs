//! Grouping of a cluster's nodes into pools by an existing label.
//!
//! Every node belongs to exactly one pool. Nodes without the label form their own pool, and the selectors of roles
//! exclude each other.

use std::collections::{BTreeMap, BTreeSet};

use nodecfg_contract::labels::POOL_LABEL;
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_observed::Node;

/// Labels of pools in common platforms. The label that most nodes have is used, the first one of several.
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
/// Prefix of role labels; their values are ignored.
const ROLE: &str = "node-role.kubernetes.io/";
/// Roles that take precedence on a node with several roles.
const FIRST_ROLES: [&str; 3] = ["control-plane", "master", "etcd"];

/// Selector of a pool.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Selection {
    /// The label `nodecfg.dev/pool` with the pool's name: the default, which needs no selector.
    ByName(PoolName),
    /// A label and its value.
    Label(String, String),
    /// An existing label, and labels that are missing.
    Marked(String, Vec<String>),
    /// Missing labels.
    Without(Vec<String>),
}

/// Nodes of one pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Name of the pool.
    pub name: PoolName,
    /// Selector of the pool.
    pub selection: Selection,
    /// Nodes of the pool.
    pub nodes: BTreeSet<NodeName>,
}

/// Groups nodes by this label, by the known label that most nodes have, or by their roles. Also returns the label
/// used.
#[must_use]
pub fn group_nodes(nodes: &BTreeMap<NodeName, Node>, label: Option<&str>) -> (String, Vec<Group>) {
    let having =
        |key: &str| nodes.values().filter(|node| node.labels.get(key).is_some_and(|value| !value.is_empty())).count();
    let known = KNOWN
        .iter()
        .rev()
        .map(|key| (having(key), *key))
        .max_by_key(|(count, _)| *count)
        .filter(|(count, _)| *count > 0);
    let (key, selection): (String, Vec<(Selection, &NodeName)>) = match (label, known) {
        (Some(key), _) | (None, Some((_, key))) => {
            (key.to_owned(), nodes.values().map(|node| (by_label(node, key), &node.name)).collect())
        }
        (None, None) => by_role(nodes),
    };
    let mut sorted: BTreeMap<Selection, BTreeSet<NodeName>> = BTreeMap::new();
    for (selection, node) in selection {
        sorted.entry(selection).or_default().insert(node.clone());
    }
    let (mut taken, alone) = (BTreeSet::new(), sorted.len() == 1);
    let mut groups: Vec<Group> = sorted
        .into_iter()
        .filter_map(|(selection, nodes)| {
            Some(Group { name: unique_name(&selection, alone, &mut taken)?, selection, nodes })
        })
        .collect();
    groups.sort_by(|a, b| a.name.cmp(&b.name));
    (key, groups)
}

fn by_label(node: &Node, key: &str) -> Selection {
    // An empty value is a value: the label exists, so `DoesNotExist` would not select the node.
    match node.labels.get(key) {
        Some(value) => match PoolName::new(value.as_str()) {
            Ok(name) if key == POOL_LABEL => Selection::ByName(name),
            _ => Selection::Label(key.to_owned(), value.clone()),
        },
        None => Selection::Without(vec![key.to_owned()]),
    }
}

fn by_role(nodes: &BTreeMap<NodeName, Node>) -> (String, Vec<(Selection, &NodeName)>) {
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
        let all = nodes.keys().map(|name| (Selection::Without(vec![POOL_LABEL.to_owned()]), name)).collect();
        return (POOL_LABEL.to_owned(), all);
    }
    let owned = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>();
    let pick = |node: &Node| match roles.iter().position(|role| node.labels.contains_key(*role)) {
        Some(at) => {
            let before = roles.get(..at).map(owned).unwrap_or_default();
            Selection::Marked(roles.get(at).map(|role| (*role).to_owned()).unwrap_or_default(), before)
        }
        None => Selection::Without(owned(&roles)),
    };
    (format!("{ROLE}<role>"), nodes.values().map(|node| (pick(node), &node.name)).collect())
}

/// A valid name from the selector that no other pool has.
fn unique_name(selection: &Selection, alone: bool, taken: &mut BTreeSet<PoolName>) -> Option<PoolName> {
    let base_name = match selection {
        Selection::ByName(name) => {
            taken.insert(name.clone());
            return Some(name.clone());
        }
        Selection::Label(_, value) if value.is_empty() => "unnamed".to_owned(),
        Selection::Label(_, value) => value.clone(),
        Selection::Marked(role, _) => role.trim_start_matches(ROLE).to_owned(),
        Selection::Without(keys) if keys.iter().any(|key| key.starts_with(ROLE)) => "workers".to_owned(),
        Selection::Without(_) if alone => "nodes".to_owned(),
        Selection::Without(_) => "others".to_owned(),
    };
    let valid: String =
        base_name.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(40).collect();
    let valid = valid.trim_matches('-');
    let valid = if valid.is_empty() { "pool" } else { valid };
    let mut names = std::iter::once(valid.to_owned()).chain((2..).map(|number| format!("{valid}-{number}")));
    let name = names.find_map(|name| PoolName::new(name).ok().filter(|name| !taken.contains(name)))?;
    taken.insert(name.clone());
    Some(name)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn nodes(all: &[(&str, &[(&str, &str)])]) -> BTreeMap<NodeName, Node> {
        all.iter()
            .map(|(name, labels)| {
                let name = NodeName::new(*name).unwrap();
                let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
                (name.clone(), Node { labels: Arc::new(labels), ..Node::named(name) })
            })
            .collect()
    }

    fn sorted(all: &[(&str, &[(&str, &str)])], label: Option<&str>) -> (String, Vec<(String, Vec<String>)>) {
        let nodes = nodes(all);
        let (key, groups) = group_nodes(&nodes, label);
        assert_eq!(groups.iter().map(|group| group.nodes.len()).sum::<usize>(), nodes.len(), "each node once");
        let named = |group: &Group| (group.name.to_string(), group.nodes.iter().map(NodeName::to_string).collect());
        (key, groups.iter().map(named).collect())
    }

    fn pool(name: &str, nodes: &[&str]) -> (String, Vec<String>) {
        (name.to_owned(), nodes.iter().map(|node| (*node).to_owned()).collect())
    }

    #[test]
    fn groups_by_the_label_of_most_nodes() {
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
    fn empty_label_value_forms_its_own_pool() {
        let all: &[(&str, &[(&str, &str)])] = &[("a", &[(POOL_LABEL, "x")]), ("b", &[(POOL_LABEL, "")]), ("c", &[])];
        assert_eq!(sorted(all, None).1, [pool("others", &["c"]), pool("unnamed", &["b"]), pool("x", &["a"])]);
        let (_, groups) = group_nodes(&nodes(all), None);
        assert_eq!(groups[1].selection, Selection::Label(POOL_LABEL.to_owned(), String::new()));
    }

    #[test]
    fn node_with_two_roles_belongs_to_one_pool() {
        const CONTROL: (&str, &str) = ("node-role.kubernetes.io/control-plane", "");
        const INFRA: (&str, &str) = ("node-role.kubernetes.io/infra", "");
        let all: &[(&str, &[(&str, &str)])] = &[("a", &[CONTROL, INFRA]), ("b", &[INFRA]), ("c", &[])];
        let (_, pools) = sorted(all, None);
        assert_eq!(pools, [pool("control-plane", &["a"]), pool("infra", &["b"]), pool("workers", &["c"])]);
        let (_, groups) = group_nodes(&nodes(all), None);
        assert_eq!(groups[1].selection, Selection::Marked(INFRA.0.to_owned(), vec![CONTROL.0.to_owned()]));
    }

    #[test]
    fn unlabeled_nodes_form_one_pool_and_a_requested_label_wins() {
        assert_eq!(sorted(&[("a", &[]), ("b", &[])], None).1, [pool("nodes", &["a", "b"])]);
        let (key, pools) = sorted(&[("a", &[("team", "x")]), ("b", &[("nodecfg.dev/pool", "y")])], Some("team"));
        assert_eq!((key.as_str(), pools), ("team", vec![pool("others", &["b"]), pool("x", &["a"])]));
    }
}
