//! What changed nodes had before their assignment, and have since, for the reports of a run: Ready pods and extended
//! resources.

use std::io;
use std::io::Write;

use super::count;
use super::table::{Column, Table};
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_rollout::{BeforeAfter, NodeOutcome, Outcome, Recovery};

/// A node that a run assigned, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedNode {
    /// The pool.
    pub pool: PoolName,
    /// The node.
    pub node: NodeName,
    /// Ready pods: `12 → 11`. Empty if they were not listed.
    pub pods: String,
    /// Extended resources: `nvidia.com/gpu 8 → 8`. Empty without any.
    pub resources: String,
    /// Whether the node has less than before.
    pub has_less: bool,
}

/// The nodes with known pods or resources: those that have less first, then by pool and name.
pub(super) fn changed(outcome: &Outcome) -> Vec<ChangedNode> {
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

/// The totals: `Ready pods and extended resources of 3 nodes before and after; 1 with less than before`. `None` without
/// nodes.
pub(super) fn totals(changed: &[ChangedNode]) -> Option<String> {
    let less = changed.iter().filter(|node| node.has_less).count();
    let mut text = format!("Ready pods and extended resources of {} before and after", count(changed.len(), "node"));
    if less > 0 {
        text.push_str(&format!("; {less} with less than before"));
    }
    (!changed.is_empty()).then_some(text)
}

/// Writes the table for terminals. Empty columns are left out.
///
/// # Errors
/// When `out` cannot be written.
pub(super) fn write(out: &mut dyn Write, outcome: &Outcome, width: usize) -> io::Result<()> {
    let changed = changed(outcome);
    if changed.is_empty() {
        return Ok(());
    }
    let cells = |cell: &dyn Fn(&ChangedNode) -> String| {
        let dash = |text: String| if text.is_empty() { "-".to_owned() } else { text };
        changed.iter().map(|node| dash(cell(node))).collect::<Vec<String>>()
    };
    let columns = vec![
        Column::new("NODE", cells(&|node| node.node.to_string())).cut_last(),
        Column::new("POOL", cells(&|node| node.pool.to_string())).cut(),
        Column::new("READY PODS", cells(&|node| node.pods.clone())),
        Column::new("RESOURCES", cells(&|node| node.resources.clone())).cut(),
    ];
    for line in Table::new(columns).spaced().lines(width) {
        writeln!(out, "{line}")?;
    }
    writeln!(out)
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
        let text = "Ready pods and extended resources of 3 nodes before and after; 1 with less than before";
        assert_eq!(totals(&changed).as_deref(), Some(text));
        assert_eq!(totals(&[]), None);
    }

    #[test]
    fn table_has_a_line_per_node() {
        let mut text = Vec::new();
        write(&mut text, &outcome(), 100).unwrap();
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(
            lines,
            [
                "NODE POOL READY PODS RESOURCES",
                "n4 gpu - nvidia.com/gpu 8 → 0",
                "n1 gpu 12 → 12 nvidia.com/gpu 8 → 8",
                "n3 gpu 3 → unknown -",
                "",
            ]
        );
    }
}
