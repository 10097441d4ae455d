//! Drains of a run for its reports: what was evicted from each node, how long it took, and whether the node is released.

use super::document::{Block, Cell, Section, Table};
use super::{count, duration};
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_plan::convergence::ConvergenceFailure;
use nodecfg_plan::drain::DrainFailure;
use nodecfg_rollout::{DrainRecord, End, NodeOutcome, Outcome};

/// A node that a run drained, or began to drain, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
struct DrainedNode {
    /// The pool.
    pool: PoolName,
    /// The node.
    node: NodeName,
    /// Whether the node was drained.
    result: &'static str,
    /// The number of evicted pods.
    evicted: usize,
    /// The duration of the evictions. Empty if they have not ended.
    took: String,
    /// The last pod that a PodDisruptionBudget protected, and the answer of the API server. Empty without one.
    blocked: String,
    /// What became of the mark.
    mark: &'static str,
}

/// The drains of a run: nodes that keep their mark or were not drained first, then by pool and name.
fn drained(outcome: &Outcome) -> Vec<DrainedNode> {
    let all = outcome.pools.iter().flat_map(|(pool, ended)| ended.nodes.iter().map(move |node| (pool, node)));
    let mut drained: Vec<(u8, DrainedNode)> = all
        .filter_map(|(pool, node)| {
            let record = node.drain.as_ref()?;
            let result = result(node, record);
            let order = if node.marked { 0 } else { u8::from(result == DRAINED) + 1 };
            Some((
                order,
                DrainedNode {
                    pool: pool.clone(),
                    node: node.node.clone(),
                    result,
                    evicted: record.evicted,
                    took: record.seconds.map(duration).unwrap_or_default(),
                    blocked: record.blocked.clone().unwrap_or_default(),
                    mark: mark(node),
                },
            ))
        })
        .collect();
    // The sort is stable: pools and nodes keep their order.
    drained.sort_by_key(|(order, _)| *order);
    drained.into_iter().map(|(_, node)| node).collect()
}

const DRAINED: &str = "drained";

fn result(node: &NodeOutcome, record: &DrainRecord) -> &'static str {
    match &node.end {
        End::Failed { failure: ConvergenceFailure::Drain { failure }, .. } if failure.prevented_change() => {
            "not drained"
        }
        _ if record.seconds.is_none() => "not finished",
        End::NotStarted => "stopped",
        _ => DRAINED,
    }
}

fn mark(node: &NodeOutcome) -> &'static str {
    match &node.end {
        _ if node.marked => "still marked",
        End::Failed { failure: ConvergenceFailure::Drain { failure: DrainFailure::MarkLost }, .. } => {
            "removed by another client"
        }
        End::Gone => "node deleted",
        _ => "released",
    }
}

/// The totals: `3 nodes drained, 1 not drained; 41 pods evicted; 1 node still marked`. `None` without drains.
fn totals(drained: &[DrainedNode]) -> Option<String> {
    let done = drained.iter().filter(|node| node.result == DRAINED).count();
    let mut text = format!("{} drained", count(done, "node"));
    if done < drained.len() {
        text.push_str(&format!(", {} not drained", drained.len() - done));
    }
    text.push_str(&format!("; {} evicted", count(drained.iter().map(|node| node.evicted).sum(), "pod")));
    let marked = drained.iter().filter(|node| node.mark == "still marked").count();
    if marked > 0 {
        text.push_str(&format!("; {} still marked", count(marked, "node")));
    }
    (!drained.is_empty()).then_some(text)
}

/// The drains with their totals. `None` without any.
pub(super) fn section(outcome: &Outcome) -> Option<Section> {
    let drained = drained(outcome);
    let totals = totals(&drained)?;
    let row = |node: &DrainedNode| {
        vec![
            Cell::Node(Some(node.pool.clone()), node.node.clone()),
            Cell::Name(node.pool.to_string()),
            Cell::words(node.result),
            Cell::Number(node.evicted),
            Cell::words(node.took.clone()),
            Cell::words(node.mark),
            Cell::words(node.blocked.clone()),
        ]
    };
    let table = Table {
        caption: "Drains".to_owned(),
        columns: vec!["node", "pool", "drain", "evicted pods", "took", "mark", "last blocked by"],
        rows: drained.iter().map(row).collect(),
        ..Table::default()
    };
    Some(Section::on_demand("Drains", [totals], vec![Block::Table(table)]))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use nodecfg_plan::convergence::Target;
    use nodecfg_plan::fixtures::{node_name, pool_name, source};
    use nodecfg_rollout::PoolOutcome;

    /// A run that drained two nodes, one of them against a budget, and failed to drain two.
    pub(in crate::report) fn outcome() -> Outcome {
        let blocked = "pod db/pg-0: The disruption budget pg needs 2 healthy pods and has 2 currently".to_owned();
        let node = |name: &str, end: End, drain: Option<DrainRecord>, marked: bool| NodeOutcome {
            node: node_name(name),
            from: None,
            to: Target::Source(source("prod-gpu-x").into()),
            end,
            seconds: Some(41.0),
            trial: None,
            drain,
            recovery: None,
            marked,
        };
        let record = |evicted, seconds, blocked| Some(DrainRecord { evicted, seconds, blocked });
        let failed = |failure| End::Failed { failure: ConvergenceFailure::Drain { failure }, rolled_back: false };
        let budget = DrainFailure::Blocked { pod: "db/pg-0".to_owned(), budget: "pg needs 2".to_owned(), pods: 1 };
        let nodes = vec![
            node("n1", End::Converged, record(12, Some(20.0), None), false),
            node("n2", failed(DrainFailure::MarkLost), record(3, Some(8.0), None), false),
            node("n3", End::Converged, record(1, Some(95.0), Some(blocked.clone())), false),
            node("n4", failed(budget), record(4, Some(900.0), Some(blocked)), true),
            node("n5", End::NotStarted, record(0, None, None), false),
            node("n6", End::Converged, None, false),
        ];
        Outcome { pools: [(pool_name("gpu"), PoolOutcome { stopped: None, held: None, nodes })].into() }
    }

    #[test]
    fn lists_drains_with_problems_first() {
        let drained = drained(&outcome());
        let rows: Vec<_> = drained
            .iter()
            .map(|node| (node.node.as_str(), node.result, node.evicted, node.took.as_str(), node.mark))
            .collect();
        assert_eq!(
            rows,
            [
                ("n4", "not drained", 4, "15m", "still marked"),
                ("n2", "not drained", 3, "8.0s", "removed by another client"),
                ("n5", "not finished", 0, "", "released"),
                ("n1", "drained", 12, "20s", "released"),
                ("n3", "drained", 1, "1m35s", "released"),
            ]
        );
        let text = "2 nodes drained, 3 not drained; 20 pods evicted; 1 node still marked";
        assert_eq!(totals(&drained).as_deref(), Some(text));
        assert_eq!(totals(&[]), None);
    }
}
