//! What changed nodes had before their assignment, and have since, for the reports of a run: Ready pods and extended
//! resources.

use super::count;
use super::document::{Block, Cell, Section, Table};
use crate::status::Grade;
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_rollout::{BeforeAfter, NodeOutcome, Outcome, Recovery};

/// A node that a run assigned, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ChangedNode {
    /// The pool.
    pool: PoolName,
    /// The node.
    node: NodeName,
    /// Ready pods: `12 → 11`. Empty if they were not listed.
    pods: String,
    /// Extended resources: `nvidia.com/gpu 8 → 8`. Empty without any.
    resources: String,
    /// Whether the node has less than before.
    has_less: bool,
}

/// The nodes with known pods or resources: those that have less first, then by pool and name.
fn changed(outcome: &Outcome) -> Vec<ChangedNode> {
    let all = outcome.pools.iter().flat_map(|(pool, ended)| ended.nodes.iter().map(move |node| (pool, node)));
    let mut changed: Vec<ChangedNode> = all.filter_map(|(pool, node)| in_words(pool, node)).collect();
    // The sort is stable: pools and nodes keep their order.
    changed.sort_by_key(|node| !node.has_less);
    changed
}

fn in_words(pool: &PoolName, node: &NodeOutcome) -> Option<ChangedNode> {
    let Recovery { ready_pods, resources } = node.recovery.as_ref()?;
    let shown = |number: &BeforeAfter| {
        format!("{} → {}", number.before, number.after.map_or_else(|| "unknown".to_owned(), |after| after.to_string()))
    };
    let texts: Vec<String> = resources.iter().map(|(name, number)| format!("{name} {}", shown(number))).collect();
    let has_less = |number: &BeforeAfter| number.after.is_some_and(|after| after < number.before);
    Some(ChangedNode {
        pool: pool.clone(),
        node: node.node.clone(),
        pods: ready_pods.as_ref().map(shown).unwrap_or_default(),
        resources: texts.join(", "),
        has_less: ready_pods.iter().chain(resources.values()).any(has_less),
    })
}

/// The totals: `Ready pods and extended resources of 3 nodes; 1 with less than before`. `None` without
/// nodes.
fn totals(changed: &[ChangedNode]) -> Option<String> {
    let less = changed.iter().filter(|node| node.has_less).count();
    let mut text = format!("Ready pods and extended resources of {}", count(changed.len(), "node"));
    if less > 0 {
        text.push_str(&format!("; {less} with less than before"));
    }
    (!changed.is_empty()).then_some(text)
}

/// What changed nodes had before and have since, with the totals. `None` without nodes.
pub(super) fn section(outcome: &Outcome) -> Option<Section> {
    let changed = changed(outcome);
    let totals = totals(&changed)?;
    let row = |node: &ChangedNode| {
        vec![
            Cell::Node(Some(node.pool.clone()), node.node.clone()),
            Cell::Name(node.pool.to_string()),
            Cell::words(node.pods.clone()),
            Cell::words(node.resources.clone()),
            if node.has_less { Cell::Graded(Grade::Warning, "less than before".to_owned()) } else { Cell::Empty },
        ]
    };
    let table = Table {
        caption: "Before and after".to_owned(),
        columns: vec!["node", "pool", "Ready pods", "extended resources", "result"],
        rows: changed.iter().map(row).collect(),
        ..Table::default()
    };
    Some(Section::on_demand("Before and after", [totals], vec![Block::Table(table)]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodecfg_plan::convergence::Target;
    use nodecfg_plan::fixtures::{node_name, pool_name, source};
    use nodecfg_rollout::{End, PoolOutcome};

    fn outcome() -> Outcome {
        let number = |before, after| BeforeAfter { before, after };
        let gpus = |numbers| [("nvidia.com/gpu".to_owned(), numbers)].into();
        let node = |name: &str, recovery: Option<Recovery>| NodeOutcome {
            node: node_name(name),
            from: None,
            to: Target::Source(source("prod-gpu-x").into()),
            end: End::Converged,
            seconds: Some(41.0),
            trial: None,
            drain: None,
            recovery,
            marked: false,
        };
        let nodes = vec![
            node("n1", Some(Recovery { ready_pods: Some(number(12, Some(12))), resources: gpus(number(8, Some(8))) })),
            node("n2", None),
            node("n3", Some(Recovery { ready_pods: Some(number(3, None)), ..Recovery::default() })),
            node("n4", Some(Recovery { ready_pods: None, resources: gpus(number(8, Some(0))) })),
        ];
        Outcome { pools: [(pool_name("gpu"), PoolOutcome { stopped: None, held: None, nodes })].into() }
    }

    #[test]
    fn lists_nodes_with_less_first() {
        let changed = changed(&outcome());
        let rows: Vec<_> = changed
            .iter()
            .map(|node| (node.node.as_str(), node.pods.as_str(), node.resources.as_str(), node.has_less))
            .collect();
        assert_eq!(
            rows,
            [
                ("n4", "", "nvidia.com/gpu 8 → 0", true),
                ("n1", "12 → 12", "nvidia.com/gpu 8 → 8", false),
                ("n3", "3 → unknown", "", false),
            ]
        );
        let text = "Ready pods and extended resources of 3 nodes; 1 with less than before";
        assert_eq!(totals(&changed).as_deref(), Some(text));
        assert_eq!(totals(&[]), None);
    }
}
