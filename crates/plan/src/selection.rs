//! Selectors that probably have a spelling error: pools without nodes, and nodes in no pool whose labels are close to
//! the selector of a pool.
//!
//! Nodes in no pool are valid by themselves, because a fleet need not manage the control plane. They are a probable
//! mistake beside an empty pool, or if their value of [`POOL_LABEL`] is close to that of a pool.

use std::collections::{BTreeMap, BTreeSet};

use super::Options;
use super::membership::Membership;
use super::problem::Problem;
use crate::problem::NearLabel;
use crate::problem::correct_label;
use kubelet_config::finding::{Finding, nearest};
use nodecfg_contract::label_selector::LabelSelector;
use nodecfg_contract::labels::POOL_LABEL;
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_contract::printable::one_line;
use nodecfg_fleet::{Desired, Pool};
use nodecfg_observed::Node;
use schemars::JsonSchema;
use serde::Serialize;

/// Maximum number of different label sets that are compared with the selectors. A node can write labels of its own.
const MAX_LABEL_SETS: usize = 200;

/// Minimum length of a value that is compared with a pool that has nodes, so that `cpu` does not count as a misspelt
/// `gpu`.
const MIN_LENGTH: usize = 5;

/// A pool whose selector probably has a spelling error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DoubtfulSelection {
    /// The pool.
    pub pool: PoolName,
    /// Whether the pool has no node.
    pub empty: bool,
    /// Label of nodes in no pool that is close to the selector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub near: Option<NearLabel>,
}

/// Doubtful selections of the pools in scope, by pool. Empty if the request accepts empty pools.
pub(super) fn doubtful(desired: &Desired, members: &Membership<'_>, options: &Options) -> Vec<DoubtfulSelection> {
    if options.allow_empty {
        return Vec::new();
    }
    let contested: BTreeSet<&PoolName> = members.contested.iter().flat_map(|(_, pools)| pools).copied().collect();
    let mut unpooled: BTreeMap<&BTreeMap<String, String>, Vec<&NodeName>> = BTreeMap::new();
    for node in &members.unpooled {
        if unpooled.len() < MAX_LABEL_SETS || unpooled.contains_key(&*node.labels) {
            unpooled.entry(&node.labels).or_default().push(&node.name);
        }
    }
    let doubt = |(name, nodes): (&&PoolName, &Vec<&Node>)| {
        let pool =
            desired.pools.get(*name).filter(|_| options.scope.touches(name, nodes.iter().map(|node| &node.name)))?;
        let empty = nodes.is_empty() && !contested.contains(name) && pool.require_nodes != Some(false);
        let near = near_label(pool, empty, &unpooled);
        (empty || near.is_some()).then(|| DoubtfulSelection { pool: pool.name.clone(), empty, near })
    };
    members.pools.iter().filter_map(doubt).collect()
}

/// The label that most nodes in no pool have. A pool with nodes is compared by [`POOL_LABEL`] only: other labels
/// exist for other purposes.
fn near_label(
    pool: &Pool,
    empty: bool,
    unpooled: &BTreeMap<&BTreeMap<String, String>, Vec<&NodeName>>,
) -> Option<NearLabel> {
    let mut found: BTreeMap<(String, String), Vec<&NodeName>> = BTreeMap::new();
    for (labels, nodes) in unpooled {
        let is_long = |key: &str| labels.get(key).is_some_and(|value| value.len() >= MIN_LENGTH);
        let considered = |key: &str| empty || (key == POOL_LABEL && is_long(key));
        if let Some(pair) = near_pair(&pool.selector, labels, considered) {
            found.entry(pair).or_default().extend(nodes);
        }
    }
    // The first of equal numbers, so that the result depends on no order of nodes.
    let most = found.values().map(Vec::len).max()?;
    let ((label, wanted), nodes) = found.into_iter().find(|(_, nodes)| nodes.len() == most)?;
    let example = (*nodes.iter().min()?).clone();
    Some(NearLabel { label, wanted, nodes: nodes.len(), example })
}

/// The label that alone prevents a selection and is close to the required one, and the required one.
fn near_pair(
    selector: &LabelSelector,
    labels: &BTreeMap<String, String>,
    considered: impl Fn(&str) -> bool,
) -> Option<(String, String)> {
    let of_labels = selector.match_labels.iter().map(|(key, value)| (key.as_str(), vec![value.as_str()]));
    // A corrected label never meets the other operators.
    let expressions = selector.match_expressions.iter();
    let of_expressions = expressions
        .map(|requirement| (requirement.key.as_str(), requirement.values.iter().map(String::as_str).collect()));
    let required: Vec<(&str, Vec<&str>)> = of_labels.chain(of_expressions).collect();
    required.into_iter().filter(|(key, _)| considered(key)).find_map(|(key, values)| {
        let (label_key, value, wanted) = match labels.get(key) {
            Some(value) => (key, value, close(value, values.iter().copied())?),
            None => {
                let (label_key, value) =
                    labels.iter().find(|(other, value)| values.contains(&value.as_str()) && is_close(other, key))?;
                (label_key.as_str(), value, value.as_str())
            }
        };
        let mut corrected = labels.clone();
        corrected.remove(label_key);
        corrected.insert(key.to_owned(), wanted.to_owned());
        selector.matches(&corrected).then(|| (format!("{label_key}={value}"), format!("{key}={wanted}")))
    })
}

/// The nearest of the candidates, if it is near enough to be a spelling error.
fn close<'c>(text: &str, candidates: impl Iterator<Item = &'c str>) -> Option<&'c str> {
    // Names that differ only in their digits are numbered: `p1` is no misspelt `p2`.
    let letters = |text: &str| text.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
    nearest(text, candidates.filter(|candidate| letters(text) != letters(candidate)))
}

fn is_close(text: &str, candidate: &str) -> bool {
    close(text, std::iter::once(candidate)).is_some()
}

/// Problems of pools that require nodes and have none.
pub(super) fn required_nodes<'a>(
    desired: &'a Desired,
    doubtful: &'a [DoubtfulSelection],
) -> impl Iterator<Item = Problem> + 'a {
    let requires = |pool: &PoolName| desired.pools.get(pool).is_some_and(|pool| pool.require_nodes == Some(true));
    doubtful
        .iter()
        .filter(move |doubt| doubt.empty && requires(&doubt.pool))
        .map(|doubt| Problem::RequiredNodesMissing { pool: doubt.pool.clone(), near: doubt.near.clone().map(Box::new) })
}

/// The warning about a doubtful selection.
pub(super) fn warning(pool: &Pool, doubt: &DoubtfulSelection, nodes: &BTreeMap<NodeName, Node>) -> Finding {
    let name = &doubt.pool;
    if let (false, Some(near)) = (doubt.empty, &doubt.near) {
        let message = format!("{} of pool {name}", near.text());
        return Finding::warning("similar-label", message).at(pool.place.clone()).help(correct_label(name, near));
    }
    let message = format!("pool {name} selects no node ({})", one_line(&pool.selector.to_string()));
    let outranked = nodes.values().any(|node| pool.selects(&node.name, &node.labels));
    let (message, help) = match &doubt.near {
        Some(near) => (format!("{message}; {}", near.text()), correct_label(name, near)),
        None if outranked => (
            format!("{message} that belongs to no pool of higher priority"),
            format!("give pool {name} a higher spec.priority, or remove the pool"),
        ),
        None => (
            message,
            format!(
                "correct spec.nodeSelector or the labels, or write spec.requireNodes: false if pool {name} may be empty"
            ),
        ),
    };
    Finding::warning("empty-pool", message).at(pool.place.clone()).help(help)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::fixtures::{desired, node, observed, options, policy, pool, pool_name};
    use crate::{Plan, Scope, make};
    use nodecfg_contract::label_selector::{Operator, Requirement};

    fn planned(pools: impl IntoIterator<Item = Pool>, nodes: impl IntoIterator<Item = Node>) -> Plan {
        make(&desired(pools), &observed(nodes), &options()).expect("can be planned")
    }

    fn messages(plan: &Plan) -> Vec<String> {
        let warnings = plan.findings.iter().filter(|finding| matches!(finding.code, "empty-pool" | "similar-label"));
        warnings
            .map(|finding| {
                format!("{}: {} [{}]", finding.code, finding.message, finding.help.clone().unwrap_or_default())
            })
            .collect()
    }

    #[test]
    fn empty_pool_has_the_nearest_label() {
        let nodes = [node("n1", "cpu"), node("n2", "gpu-h20"), node("n10", "gpu-h20"), node("n3", "other")];
        let plan = planned([pool("cpu", 64, policy(1)), pool("gpu-h200", 64, policy(1))], nodes);
        assert_eq!(
            messages(&plan),
            ["empty-pool: pool gpu-h200 selects no node (nodecfg.dev/pool=gpu-h200)"].map(|start| format!(
                "{start} [correct spec.nodeSelector or the labels, or write spec.requireNodes: false if pool \
                     gpu-h200 may be empty]"
            )),
            "names that differ only in digits are numbered"
        );
        let nodes = [node("n1", "cpu"), node("n2", "gup"), node("n10", "gup"), node("n3", "other")];
        let plan = planned([pool("cpu", 64, policy(1)), pool("gpu", 64, policy(1))], nodes);
        assert_eq!(
            messages(&plan),
            [
                "empty-pool: pool gpu selects no node (nodecfg.dev/pool=gpu); 2 nodes in no pool (for example n2) have the \
              label nodecfg.dev/pool=gup, which is close to nodecfg.dev/pool=gpu [write nodecfg.dev/pool=gup in the \
              nodeSelector of pool gpu, or label the nodes nodecfg.dev/pool=gpu]"
            ]
        );
        assert_eq!(
            plan.doubtful.iter().map(|doubt| (doubt.pool.as_str(), doubt.empty)).collect::<Vec<_>>(),
            [("gpu", true)]
        );
    }

    #[test]
    fn misspelt_key_is_found_among_the_labels_of_the_other_selectors() {
        let mut gpu = pool("gpu", 64, policy(1));
        gpu.selector = LabelSelector::of_label("nodecfg.dev/pol", "gpu");
        let plan = planned([pool("cpu", 64, policy(1)), gpu], [node("n1", "cpu"), node("n2", "gpu")]);
        let near = plan.doubtful[0].near.as_ref().map(|near| (near.label.as_str(), near.wanted.as_str(), near.nodes));
        assert_eq!(near, Some(("nodecfg.dev/pool=gpu", "nodecfg.dev/pol=gpu", 1)));
    }

    #[test]
    fn corrected_label_must_select_the_node() {
        let labeled = |labels: &[(&str, &str)]| Node {
            labels: Arc::new(labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()),
            ..node("n2", "")
        };
        let near = |key: &str, others: &str, found: Node| {
            let mut gpu = pool("gpu", 64, policy(1));
            gpu.selector = format!("{key}=gpu,{others}").parse().unwrap();
            planned([pool("cpu", 64, policy(1)), gpu], [node("n1", "cpu"), found]).doubtful.remove(0).near.is_some()
        };
        assert!(near("kind", "arch=arm", labeled(&[("kind", "gup"), ("arch", "arm")])));
        assert!(!near("kind", "arch=arm", labeled(&[("kind", "gup"), ("arch", "amd")])), "two labels differ");
        assert!(!near("kind", "arch=arm", labeled(&[("kind", "gup")])));
        // The correction replaces the misspelt key.
        assert!(near("kind", "!kin", labeled(&[("kin", "gpu")])));
        // Values that must not match are no spelling error.
        assert!(!near("kind", "zone!=europe-a", labeled(&[("zone", "europe-b")])));
        assert!(!near("kind", "zone notin (europe-a)", labeled(&[("zon", "europe-a")])));
    }

    #[test]
    fn number_of_compared_label_sets_is_limited() {
        let with = |number: usize, pool: &str, other: usize| {
            let node = node(&format!("n{number:03}"), pool);
            let labels = [("other".to_owned(), other.to_string())];
            Node { labels: Arc::new((*node.labels).clone().into_iter().chain(labels).collect()), ..node }
        };
        let mut nodes = vec![with(1, "gup", 0)];
        nodes.extend((2..=MAX_LABEL_SETS).map(|number| with(number, "database", number)));
        // Known labels count, further ones do not.
        nodes.extend([with(300, "gup", 0), with(301, "gup", 1)]);
        let plan = planned(
            [pool("cpu", 64, policy(1)), pool("gpu", 64, policy(1))],
            [nodes, vec![node("n0", "cpu")]].concat(),
        );
        assert_eq!(plan.doubtful[0].near.as_ref().map(|near| near.nodes), Some(2));
    }

    #[test]
    fn example_is_the_first_of_all_nodes_with_the_label() {
        let with = |name: &str, pool: &str, zone: &str| {
            let mut node = node(name, pool);
            Arc::make_mut(&mut node.labels).insert("zone".to_owned(), zone.to_owned());
            node
        };
        let nodes = [with("n1", "gup", "b"), with("n2", "gup", "a"), with("n3", "gpo", "a"), node("n0", "cpu")];
        let plan = planned([pool("cpu", 64, policy(1)), pool("gpu", 64, policy(1))], nodes);
        let near = plan.doubtful[0].near.as_ref().expect("a label");
        assert_eq!((near.label.as_str(), near.nodes, near.example.as_str()), ("nodecfg.dev/pool=gup", 2, "n1"));
    }

    #[test]
    fn pool_of_contested_nodes_is_not_empty() {
        let rival = Pool { name: pool_name("c"), ..pool("b", 64, policy(1)) };
        let plan =
            planned([pool("a", 64, policy(1)), pool("b", 64, policy(1)), rival], [node("n1", "a"), node("n2", "b")]);
        assert_eq!(plan.doubtful, []);
    }

    #[test]
    fn nodes_in_no_pool_alone_are_no_mistake() {
        let control = Node {
            labels: Arc::new(BTreeMap::from([("node-role.kubernetes.io/control-plane".to_owned(), String::new())])),
            ..node("c1", "")
        };
        let plan = planned([pool("cpu", 64, policy(1))], [node("n1", "cpu"), node("n2", "database"), control]);
        assert_eq!((plan.unpooled.len(), plan.doubtful.as_slice(), messages(&plan).len()), (2, &[][..], 0));
        // A short name is close to too many others.
        assert_eq!(planned([pool("cpu", 64, policy(1))], [node("n1", "cpu"), node("n2", "gpu")]).doubtful, []);
    }

    #[test]
    fn pool_with_nodes_is_compared_by_the_pool_label_only() {
        let zones = |name: &str, zone: &str| Node {
            labels: Arc::new(BTreeMap::from([("zone".to_owned(), zone.to_owned())])),
            ..node(name, "")
        };
        let mut zoned = pool("a", 64, policy(1));
        zoned.selector = LabelSelector {
            match_expressions: vec![Requirement {
                key: "zone".to_owned(),
                operator: Operator::In,
                values: vec!["europe-a".to_owned()],
            }],
            ..LabelSelector::default()
        };
        assert_eq!(planned([zoned], [zones("n1", "europe-a"), zones("n2", "europe-b")]).doubtful, []);
        let workers = Pool { require_nodes: Some(true), ..pool("workers", 64, policy(1)) };
        let plan = planned([workers], [node("n1", "workers"), node("n2", "worker")]);
        assert_eq!(
            messages(&plan),
            ["similar-label: node n2 in no pool has the label nodecfg.dev/pool=worker, which is close to \
              nodecfg.dev/pool=workers of pool workers [write nodecfg.dev/pool=worker in the nodeSelector of pool \
              workers, or label the nodes nodecfg.dev/pool=workers]"]
        );
        assert!(!plan.doubtful[0].empty);
    }

    #[test]
    fn pool_decides_whether_it_may_be_empty() {
        let with = |require_nodes| {
            let pools = [pool("cpu", 64, policy(1)), Pool { require_nodes, ..pool("gpu", 64, policy(1)) }];
            make(&desired(pools), &observed([node("n1", "cpu")]), &options())
        };
        assert_eq!(with(Some(false)).expect("may be empty").doubtful, []);
        assert_eq!(with(None).expect("a warning").doubtful.len(), 1);
        let problems = with(Some(true)).expect_err("requires nodes");
        assert_eq!(problems, [Problem::RequiredNodesMissing { pool: pool_name("gpu"), near: None }]);
        assert!(problems[0].is_of_repository());
        let pools = [pool("cpu", 64, policy(1)), Pool { require_nodes: Some(true), ..pool("gpu", 64, policy(1)) }];
        for accepted in [
            Options { allow_empty: true, ..options() },
            Options { scope: Scope::Pools([pool_name("cpu")].into()), ..options() },
        ] {
            assert_eq!(
                make(&desired(pools.clone()), &observed([node("n1", "cpu")]), &accepted).expect("accepted").doubtful,
                []
            );
        }
    }

    #[test]
    fn pool_outranked_by_others_is_empty_for_that_reason() {
        let all = Pool { selector: LabelSelector::default(), priority: -1, ..pool("rest", 64, policy(1)) };
        let plan = planned([pool("cpu", 64, policy(1)), all], [node("n1", "cpu")]);
        assert_eq!(
            messages(&plan),
            [
                "empty-pool: pool rest selects no node (<everything>) that belongs to no pool of higher priority [give pool \
              rest a higher spec.priority, or remove the pool]"
            ]
        );
    }
}
