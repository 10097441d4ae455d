//! What the kubelets of a pool's nodes would do with its configuration. A configuration that a kubelet refuses must never
//! reach a node: it is a problem, found before anything is written.

use std::collections::BTreeMap;

use super::{PoolPlan, Problem, Why, addresses};
use crate::desired::{Checked, Pool, PoolTarget, Rendered, check_document, told_once};
use kubelet_config::Minor;
use kubelet_config::finding::{Finding, Severity, Strictness};
use kubelet_config::minor::{NEWEST, OLDEST};
use kubelet_config::verdict::assess;
use nodecfg_contract::names::NodeName;
use nodecfg_contract::observed::{Node, Observed};

/// The minor version of a node's kubelet, when configurations can be checked for it.
fn known_minor(node: &Node) -> Option<Minor> {
    node.kubelet_version
        .filter(|version| version.major == 1)
        .map(|version| Minor(version.minor))
        .filter(|m| m.is_known())
}

/// What there is to say of a pool's configuration, for every version that its nodes report, and the problem that it is when
/// a node would get a configuration that its kubelet, or the gate, refuses. Where a version's nodes are left alone anyway,
/// such as those whose kubelets do not follow `configSource`, errors are warnings.
pub(super) fn pool(
    pool: &Pool,
    nodes: &[&NodeName],
    observed: &Observed,
    plan: &PoolPlan,
    gate: Strictness,
) -> (Vec<Finding>, Option<Problem>) {
    let PoolTarget::Config(rendered) = &pool.target else { return (Vec::new(), None) };
    let mut by_minor: BTreeMap<Minor, Vec<&NodeName>> = BTreeMap::new();
    let mut unjudged: BTreeMap<String, Vec<&NodeName>> = BTreeMap::new();
    for node in nodes.iter().filter_map(|name| observed.nodes.get(*name)) {
        match known_minor(node) {
            Some(minor) => by_minor.entry(minor).or_default().push(&node.name),
            None => {
                let version =
                    node.kubelet_version.map_or_else(|| "no version".to_owned(), |version| version.to_string());
                unjudged.entry(version).or_default().push(&node.name);
            }
        }
    }
    let minors: Vec<Minor> = by_minor.keys().copied().collect();
    let Checked { verdicts, mut findings } = check_document(&rendered.document, &minors);
    gate.apply(&mut findings);
    // What is merely worth knowing is for those who write the file.
    findings.retain(|finding| finding.severity != Severity::Note);
    let exposed: BTreeMap<Minor, Vec<&NodeName>> = exposed(plan, observed);
    for finding in &mut findings {
        if !finding.kubelets.iter().any(|minor| exposed.contains_key(minor)) {
            finding.severity = finding.severity.max(Severity::Warning);
        }
    }
    let problem = refused(pool, &exposed, &findings);
    findings.extend(unjudged.iter().map(|(version, nodes)| not_judged(pool, version, nodes)));
    findings.extend(contradiction(pool, &by_minor));
    findings.extend(addresses::too_few(pool, rendered, &verdicts, &by_minor, observed));
    (told_once(findings), problem)
}

/// The nodes that get the configuration, or have got it and do not run it yet, by the version of their kubelets.
fn exposed<'a>(plan: &'a PoolPlan, observed: &Observed) -> BTreeMap<Minor, Vec<&'a NodeName>> {
    let paused = plan.left_alone.iter().filter(|left| matches!(left.why, Why::Paused { .. })).map(|left| &left.node);
    let mut exposed: BTreeMap<Minor, Vec<&NodeName>> = BTreeMap::new();
    for name in plan.steps().map(|step| &step.node).chain(paused) {
        if let Some(minor) = observed.nodes.get(name).and_then(known_minor) {
            exposed.entry(minor).or_default().push(name);
        }
    }
    exposed
}

fn refused(pool: &Pool, exposed: &BTreeMap<Minor, Vec<&NodeName>>, findings: &[Finding]) -> Option<Problem> {
    let errors: Vec<Finding> = findings.iter().filter(|finding| finding.severity == Severity::Error).cloned().collect();
    let affected: BTreeMap<Minor, &Vec<&NodeName>> = exposed
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

fn not_judged(pool: &Pool, version: &str, nodes: &[&NodeName]) -> Finding {
    let example = nodes.first().map(ToString::to_string).unwrap_or_default();
    let who = match nodes.len() {
        1 => format!("node {example} reports"),
        more => format!("{more} nodes, {example} among them, report"),
    };
    let message = format!("pool {}: {who} {version}, for which its configuration cannot be judged", pool.name);
    Finding::warning("version-not-judged", message)
        .at(pool.place.clone())
        .help(format!("nodecfg knows the rules of kubelets {OLDEST} to {NEWEST}"))
}

/// Where `spec.kubernetesVersion` says other versions than the nodes do: then `validate` checks for the wrong ones.
fn contradiction(pool: &Pool, by_minor: &BTreeMap<Minor, Vec<&NodeName>>) -> Option<Finding> {
    if pool.kubelets.is_empty() {
        return None;
    }
    let (minor, nodes) = by_minor.iter().find(|(minor, _)| !pool.kubelets.contains(minor))?;
    let example = nodes.first()?;
    let said: Vec<String> = pool.kubelets.iter().map(ToString::to_string).collect();
    let message = format!(
        "pool {} has kubelets of version {minor}, {example} for one, and its spec.kubernetesVersion says {}",
        pool.name,
        said.join(", ")
    );
    let seen: Vec<String> = by_minor.keys().map(|minor| format!("\"{minor}\"")).collect();
    let help = format!("checked for what the nodes report; write spec.kubernetesVersion: [{}]", seen.join(", "));
    Some(Finding::warning("version-contradicts", message).at(pool.place.clone()).help(help))
}

/// Why the kubelet of a node, as it is now, would refuse a configuration. `None`: it would not, or that is not known.
pub(super) fn refusal(node: &Node, rendered: &Rendered) -> Option<Why> {
    let minor = known_minor(node)?;
    let verdict = assess(&rendered.document, minor);
    let first = verdict.reasons().next()?;
    Some(Why::WouldRefuse { kubelet: minor, reason: first.message.clone() })
}
