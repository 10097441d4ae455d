//! Check of a pool's configuration against the kubelets of its nodes. A configuration that a kubelet or the strict
//! checks refuse is a problem found before any write. Other findings are warnings, for example a kubelet version
//! without known rules.

use std::collections::{BTreeMap, BTreeSet};

use super::reservations::PoolReservations;
use super::{PoolPlan, Problem, Why, addresses};
use kubelet_config::finding::{Finding, Severity, Strictness};
use kubelet_config::verdict::assess;
use kubelet_config::{Minor, NEWEST, OLDEST};
use nodecfg_contract::names::NodeName;
use nodecfg_fleet::{Checked, Pool, PoolTarget, Rendered, check_document, dedupe};
use nodecfg_observed::{Node, Observed};

/// Findings on a pool's configuration for every version that its nodes report. Returns a problem if a node would get
/// a configuration that its kubelet or the strict checks refuse. Errors become warnings for versions that the pool does
/// not declare, and for those whose nodes are all left unchanged for another reason than a pause.
pub(super) fn check_pool(
    pool: &Pool,
    nodes: &[&Node],
    observed: &Observed,
    plan: &PoolPlan,
    strictness: Strictness,
) -> (Vec<Finding>, Option<Problem>) {
    let PoolTarget::Config(rendered) = &pool.target else { return (Vec::new(), None) };
    let mut by_minor: BTreeMap<Minor, Vec<&NodeName>> = BTreeMap::new();
    let mut unknown_versions: BTreeMap<String, Vec<&NodeName>> = BTreeMap::new();
    for node in nodes {
        match node.known_minor() {
            Some(minor) => by_minor.entry(minor).or_default().push(&node.name),
            None => {
                let version =
                    node.kubelet_version.map_or_else(|| "no version".to_owned(), |version| version.to_string());
                unknown_versions.entry(version).or_default().push(&node.name);
            }
        }
    }
    let minors: Vec<Minor> = by_minor.keys().copied().collect();
    let Checked { verdicts, mut findings } = check_document(&rendered.document, &minors);
    strictness.apply(&mut findings);
    // Notes are only for authors of the file.
    findings.retain(|finding| finding.severity != Severity::Note);
    let mut affected_nodes: BTreeMap<Minor, Vec<&NodeName>> = affected_nodes(plan, observed);
    affected_nodes.retain(|minor, _| is_declared(pool, *minor));
    for finding in &mut findings {
        if !finding.kubelets.iter().any(|minor| affected_nodes.contains_key(minor)) {
            finding.severity = finding.severity.max(Severity::Warning);
        }
    }
    let problem = refused_problem(pool, &affected_nodes, &findings);
    findings.extend(unknown_versions.iter().map(|(version, nodes)| unknown_version_warning(pool, version, nodes)));
    findings.extend(undeclared_version_warning(pool, &by_minor));
    findings.extend(PoolReservations::new(pool).warning(pool, nodes));
    findings.extend(addresses::check_pod_addresses(pool, rendered, &verdicts, &by_minor, observed));
    (dedupe(findings), problem)
}

/// Nodes with a step and nodes of a paused pool, by kubelet version: the configuration reaches or reached them.
fn affected_nodes<'a>(plan: &'a PoolPlan, observed: &Observed) -> BTreeMap<Minor, Vec<&'a NodeName>> {
    let paused = plan.left_alone.iter().filter(|left| matches!(left.why, Why::Paused { .. })).map(|left| &left.node);
    let mut affected_nodes: BTreeMap<Minor, Vec<&NodeName>> = BTreeMap::new();
    for name in plan.steps().map(|step| &step.node).chain(paused) {
        if let Some(minor) = observed.nodes.get(name).and_then(Node::known_minor) {
            affected_nodes.entry(minor).or_default().push(name);
        }
    }
    affected_nodes
}

fn refused_problem(
    pool: &Pool,
    affected_nodes: &BTreeMap<Minor, Vec<&NodeName>>,
    findings: &[Finding],
) -> Option<Problem> {
    let errors: Vec<Finding> = findings.iter().filter(|finding| finding.severity == Severity::Error).cloned().collect();
    let affected: BTreeMap<Minor, &Vec<&NodeName>> = affected_nodes
        .iter()
        .filter(|(minor, _)| errors.iter().any(|finding| finding.kubelets.contains(minor)))
        .map(|(minor, nodes)| (*minor, nodes))
        .collect();
    let example = affected.values().find_map(|nodes| nodes.first())?;
    Some(Problem::Refused {
        pool: pool.name.clone(),
        kubelets: affected.keys().copied().collect(),
        nodes: affected.values().map(|nodes| nodes.len()).sum(),
        example: (**example).clone(),
        findings: errors,
    })
}

/// Codes of the findings that need the cluster's nodes, so that `nodecfg validate` cannot report them.
pub const CLUSTER_FINDINGS: [&str; 9] = [
    "empty-pool",
    "max-pods-over-addresses",
    "pool-pointer-changed",
    "reservations-near-capacity",
    "similar-label",
    "value-lost",
    "value-overridden",
    "version-contradicts",
    "version-not-judged",
];

fn unknown_version_warning(pool: &Pool, version: &str, nodes: &[&NodeName]) -> Finding {
    let example = nodes.first().map(ToString::to_string).unwrap_or_default();
    let who = match nodes.len() {
        1 => format!("node {example} reports"),
        more => format!("{more} nodes (for example {example}) report"),
    };
    let message = format!("pool {}: {who} {version}, whose configuration rules are unknown", pool.name);
    Finding::warning("version-not-judged", message)
        .at(pool.place.clone())
        .help(format!("nodecfg supports the rules of kubelets {OLDEST} to {NEWEST}"))
}

/// Warns if a node reports a version that `spec.kubernetesVersion` does not list, because `validate` then does not
/// check that version.
fn undeclared_version_warning(pool: &Pool, by_minor: &BTreeMap<Minor, Vec<&NodeName>>) -> Option<Finding> {
    if pool.kubelets.is_empty() {
        return None;
    }
    let (minor, nodes) = by_minor.iter().find(|(minor, _)| !pool.kubelets.contains(minor))?;
    let example = nodes.first()?;
    let declared: Vec<String> = pool.kubelets.iter().map(ToString::to_string).collect();
    let message = format!(
        "pool {} has kubelets of version {minor} (for example {example}), but spec.kubernetesVersion lists {}",
        pool.name,
        declared.join(", ")
    );
    let reported: Vec<String> = by_minor.keys().map(|minor| format!("\"{minor}\"")).collect();
    let help = format!(
        "nodes whose kubelet would not run the configuration as written are left unchanged; write spec.kubernetesVersion: [{}]",
        reported.join(", ")
    );
    Some(Finding::warning("version-contradicts", message).at(pool.place.clone()).help(help))
}

/// Reports whether a pool declares a version, or none.
fn is_declared(pool: &Pool, minor: Minor) -> bool {
    pool.kubelets.is_empty() || pool.kubelets.contains(&minor)
}

/// Versions of kubelets that a pool does not declare, although it declares some, and for which its configuration has an
/// error. Their nodes are left unchanged: each node reports its own version, so one node must not stop a pool.
#[derive(Debug, Default)]
pub(super) struct UndeclaredKubelets(BTreeMap<Minor, Why>);

impl UndeclaredKubelets {
    pub(super) fn new(pool: &Pool, nodes: &[&Node], strictness: Strictness) -> Self {
        let PoolTarget::Config(rendered) = &pool.target else { return Self::default() };
        let minors = nodes.iter().filter_map(|node| node.known_minor());
        let undeclared: BTreeSet<Minor> = minors.filter(|minor| !is_declared(pool, *minor)).collect();
        let refusal = |minor| {
            let mut findings = check_document(&rendered.document, &[minor]).findings;
            strictness.apply(&mut findings);
            let error = findings.into_iter().find(|finding| finding.severity == Severity::Error)?;
            Some((minor, Why::WouldRefuse { kubelet: minor, reason: error.message }))
        };
        Self(undeclared.into_iter().filter_map(refusal).collect())
    }

    /// Reason why the kubelet of a node would not run the configuration as written, if its version is not declared.
    pub(super) fn refusal(&self, node: &Node) -> Option<Why> {
        self.0.get(&node.known_minor()?).cloned()
    }
}

/// Reason why the current kubelet of a node would refuse a configuration; `None` if it would accept it, or the
/// version is unknown.
pub(super) fn refusal(node: &Node, rendered: &Rendered) -> Option<Why> {
    let minor = node.known_minor()?;
    let verdict = assess(&rendered.document, minor);
    let first = verdict.reasons().next()?;
    Some(Why::WouldRefuse { kubelet: minor, reason: first.message.clone() })
}
