//! Checks of a pool's configuration against its nodes.
//!
//! - Kubelets: a configuration that a kubelet or the strict checks refuse is a problem found before any write. Other
//!   findings are warnings, for example a kubelet version without known rules.
//! - Pod addresses: `maxPods` above them is a warning.
//! - Capacity: a kubelet does not start with reservations above it, so such a node is left unchanged. The check blocks
//!   this node alone, because the node reports its own capacity.
//! - Flags and later files, which the agents report: a value without effect is a warning, because the node does not
//!   converge unless the pool accepts that.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::convergence::is_accepted;
use crate::target::{SizeGroup, SizeGroups};
use crate::{PoolPlan, Problem, Step, Why};
use kubelet_config::advice::review;
use kubelet_config::capacity::{Capacity, Reservations};
use kubelet_config::document::Node as Value;
use kubelet_config::effective::{is_same_value, named_values};
use kubelet_config::fields::secrets;
use kubelet_config::finding::{Finding, Severity, Strictness};
use kubelet_config::verdict::{Stage, Verdict, assess, configuration};
use kubelet_config::{Minor, NEWEST, OLDEST};
use nodecfg_contract::kubelet_values::{SetValue, origin};
use nodecfg_contract::names::NodeName;
use nodecfg_contract::printable::one_line;
use nodecfg_fleet::{Checked, Pool, PoolTarget, Rendered, SizedPool, dedupe, judge_document};
use nodecfg_observed::{Node, Observed, Proof};

/// Findings on a pool's configuration for every version that its nodes report. Returns a problem if a node would get
/// a configuration that its kubelet or the strict checks refuse. Errors become warnings for versions that the pool does
/// not declare, and for those whose nodes are all left unchanged for another reason than a pause.
///
/// `steps` are those of the size. A size without any has the findings of the first one, whose other fields are the same.
pub(super) fn check_pool(
    group: &SizeGroup<'_>,
    sizes: &SizeGroups<'_>,
    observed: &Observed,
    (plan, steps): (&PoolPlan, &[&Step]),
    strictness: Strictness,
) -> (Vec<Finding>, Option<Problem>) {
    let SizeGroup { pool, nodes, .. } = group;
    let mut affected_nodes: BTreeMap<Minor, Vec<&NodeName>> = affected_nodes((plan, steps), pool.size, observed);
    let judged = if affected_nodes.is_empty() { sizes.groups.first() } else { Some(group) };
    let (PoolTarget::Config(rendered), Some(judged)) = (&*pool.target, judged.and_then(SizeGroup::judged)) else {
        return (Vec::new(), None);
    };
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
    let Checked { verdicts, mut findings } = judged.clone();
    strictness.apply(&mut findings);
    findings.retain(is_shown);
    if !affected_nodes.is_empty() {
        let refusals = Refusals::new(group, strictness);
        affected_nodes.retain(|minor, _| !refusals.0.contains_key(minor));
    }
    for finding in &mut findings {
        if !finding.kubelets.iter().any(|minor| affected_nodes.contains_key(minor)) {
            finding.severity = finding.severity.max(Severity::Warning);
        }
    }
    let problem = refused_problem(pool, &affected_nodes, &findings);
    findings.extend(unknown_versions.iter().map(|(version, nodes)| unknown_version_warning(pool, version, nodes)));
    findings.extend(undeclared_version_warning(pool, &by_minor));
    findings.extend(group.reservations.warning(pool, nodes));
    findings.extend(check_pod_addresses(pool, rendered, &verdicts, &by_minor, observed));
    (dedupe(findings), problem)
}

/// Advice on a pool's configuration for all versions of its kubelets. It is never an error, and the same for all sizes:
/// reserved amounts that formulas compute have units and no defaults.
pub(super) fn advice(sizes: &SizeGroups<'_>) -> Vec<Finding> {
    let first = sizes.groups.first().and_then(|group| group.pool.target.rendered());
    let nodes = sizes.groups.iter().flat_map(|group| &group.nodes);
    let minors: BTreeSet<Minor> = nodes.filter_map(|node| node.known_minor()).collect();
    let review = |first: &Rendered| {
        let verdicts: Vec<Verdict> = minors.iter().map(|minor| assess(&first.document, *minor)).collect();
        review(&first.document, &verdicts)
    };
    let mut findings = first.map(review).unwrap_or_default();
    findings.retain(is_shown);
    findings
}

/// Reports whether a plan has a finding. Notes are only for authors of the file.
fn is_shown(finding: &Finding) -> bool {
    finding.severity != Severity::Note
}

/// Nodes of a size with a step, and those of a paused pool, by kubelet version: the configuration reaches or reached them.
fn affected_nodes<'a>(
    (plan, steps): (&'a PoolPlan, &[&'a Step]),
    size: Option<Capacity>,
    observed: &Observed,
) -> BTreeMap<Minor, Vec<&'a NodeName>> {
    let paused = plan.left_alone.iter().filter(|left| matches!(left.why, Why::Paused { .. })).map(|left| &left.node);
    let mut affected_nodes: BTreeMap<Minor, Vec<&NodeName>> = BTreeMap::new();
    let is_of_size = |name: &&NodeName| plan.targets.size_of(name) == size;
    for name in steps.iter().map(|step| &step.node).chain(paused.filter(is_of_size)) {
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
pub const CLUSTER_FINDINGS: [&str; 10] = [
    "empty-pool",
    "max-pods-over-addresses",
    "pool-pointer-changed",
    "reservations-near-capacity",
    "similar-label",
    "too-many-sizes",
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

/// Versions of kubelets for which the configuration of a size has an error, but not because of the files alone: a version
/// that the pool does not declare, although it declares some, or an error that other sizes do not have. Their nodes are left
/// unchanged: each node reports its own version and capacity, so one node must not stop a pool.
#[derive(Debug, Default)]
pub(super) struct Refusals(BTreeMap<Minor, Why>);

impl Refusals {
    pub(super) fn new(group: &SizeGroup<'_>, strictness: Strictness) -> Self {
        let Some(judged) = group.judged() else { return Self::default() };
        let errors = |judged: &Checked| {
            let mut findings = judged.findings.clone();
            strictness.apply(&mut findings);
            findings.retain(|finding| finding.severity == Severity::Error);
            findings
        };
        let mut refusals: BTreeMap<Minor, Why> = BTreeMap::new();
        for error in errors(judged) {
            for minor in error.kubelets.iter().copied() {
                let why = || Why::WouldRefuse { kubelet: minor, reason: error.message.clone() };
                refusals.entry(minor).or_insert_with(why);
            }
        }
        if !refusals.is_empty() {
            let minors: Vec<Minor> = refusals.keys().copied().collect();
            // The configuration of a typical machine shows whether the files are wrong.
            let typical = group.pool.rendered().filter(|_| group.pool.size.is_some());
            let of_files = typical.map(|typical| errors(&judge_document(&typical.document, &minors)));
            let is_of_files =
                |minor: &Minor| of_files.as_ref().is_none_or(|all| all.iter().any(|one| one.kubelets.contains(minor)));
            refusals.retain(|minor, _| !is_declared(&group.pool, *minor) || !is_of_files(minor));
        }
        Self(refusals)
    }

    /// Reason why the kubelet of a node would not run the configuration as written.
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

/// Warns if `maxPods`, set or by default, exceeds the addresses in the `spec.podCIDR` of a node: surplus pods are
/// scheduled but get no address. This is only a warning, because some network plugins use other address ranges.
pub(super) fn check_pod_addresses(
    pool: &Pool,
    rendered: &Rendered,
    verdicts: &[Verdict],
    nodes: &BTreeMap<Minor, Vec<&NodeName>>,
    observed: &Observed,
) -> Option<Finding> {
    let mut short = Vec::new();
    let mut minors = Vec::new();
    let mut most = 0;
    let mut place = None;
    // A configuration that the kubelet cannot decode has no `maxPods`.
    for verdict in verdicts.iter().filter(|verdict| verdict.stage != Stage::Load) {
        let Some(names) = nodes.get(&verdict.minor) else { continue };
        let config = configuration(&rendered.document, verdict.minor);
        let Some(pods) = config.int("maxPods") else { continue };
        let before = short.len();
        short.extend(names.iter().filter_map(|name| {
            let range = observed.nodes.get(*name)?.pod_range?;
            (!range.fits(pods)).then_some((range, *name))
        }));
        if short.len() > before {
            minors.push(verdict.minor);
            most = pods;
            place.get_or_insert_with(|| config.place("maxPods"));
        }
    }
    // The narrowest range determines the recommended value.
    let (range, example) = short.iter().min_by_key(|(range, name)| (range.pods(), *name))?;
    let (has, others) = match short.len() {
        1 => ("has", String::new()),
        more => ("have", format!(", and {} more of its nodes,", more - 1)),
    };
    let message = format!(
        "pool {}: `maxPods` is {most}, but node {example}{others} {has} addresses for at most {} pods (podCIDR /{})",
        pool.name,
        range.pods(),
        range.prefix()
    );
    let help = format!(
        "set maxPods to {} or less; ignore this if the network plugin does not take pod addresses from the podCIDR of \
         the Node",
        range.pods()
    );
    Some(Finding::warning("max-pods-over-addresses", message).at(place?).field("maxPods").kubelets(minors).help(help))
}

/// Reservations of one configuration, by kubelet version.
pub(super) struct PoolReservations {
    target: Arc<PoolTarget>,
    by_minor: RefCell<BTreeMap<Minor, Reservations>>,
}

impl PoolReservations {
    pub(super) fn new(target: &Arc<PoolTarget>) -> Self {
        Self { target: Arc::clone(target), by_minor: RefCell::default() }
    }

    /// Why the kubelet of this node would not start. `None` if it would, or its version is unknown.
    pub(super) fn refusal(&self, node: &Node) -> Option<Why> {
        self.check(node, |reservations| reservations.exceeding(node.capacity)).map(Why::OverReserved)
    }

    fn check<T>(&self, node: &Node, check: impl FnOnce(&Reservations) -> Option<T>) -> Option<T> {
        let (rendered, minor) = (self.target.rendered()?, node.known_minor()?);
        let mut by_minor = self.by_minor.borrow_mut();
        check(by_minor.entry(minor).or_insert_with(|| Reservations::of(&rendered.document, minor)))
    }

    /// Warns if the reservations leave pods less than a tenth of a node, with the smallest such node.
    pub(super) fn warning(&self, pool: &Pool, nodes: &[&Node]) -> Option<Finding> {
        let tight: Vec<_> = nodes
            .iter()
            .filter_map(|node| {
                let check = |all: &Reservations| Some((all.nearly_all(node.capacity)?, all.place().cloned()));
                self.check(node, check).map(|(found, place)| (found, place, node))
            })
            .collect();
        // The same resource for all nodes, so that their capacities compare.
        let (found, place, node) =
            tight.iter().min_by_key(|(found, _, node)| (found.resource, found.capacity, &node.name))?;
        let others = match tight.len() {
            1 => String::new(),
            more => format!(", and on {} more of its nodes", more - 1),
        };
        let message = format!(
            "pool {}: kubeReserved, systemReserved and evictionHard leave pods less than 10% of node {}{others}: they \
             reserve {found}",
            pool.name, node.name
        );
        let warning = Finding::warning("reservations-near-capacity", message)
            .kubelets(node.known_minor().into_iter().collect::<Vec<_>>())
            .help("reserve less, or put smaller nodes into a pool of their own");
        Some(warning.at(place.clone().unwrap_or_else(|| pool.place.clone())))
    }
}

/// Warns of the values that something overrides on these nodes, which the plan assigns.
pub(super) fn override_warnings<'a>(pool: &SizedPool<'_>, nodes: impl Iterator<Item = &'a Node>) -> Vec<Finding> {
    let PoolTarget::Config(rendered) = &*pool.target else { return Vec::new() };
    let mut found: BTreeMap<&SetValue, Vec<&Node>> = BTreeMap::new();
    for node in nodes {
        let Some(Proof::Known { above, .. }) = node.proof.as_deref() else { continue };
        for set in above.iter().filter(|set| !is_accepted(&set.field, &pool.policy.accept_overridden)) {
            found.entry(set).or_default().push(node);
        }
    }
    if found.is_empty() {
        return Vec::new();
    }
    let newest = found.values().flatten().filter_map(|node| node.known_minor()).max();
    let values = named_values(&rendered.document, newest.unwrap_or(NEWEST));
    let warning = |(set, nodes): (&SetValue, Vec<&Node>)| {
        let value = values.get(&set.field)?;
        is_other(value, set).then(|| warning(pool, value, set, &nodes))
    };
    found.into_iter().filter_map(warning).collect()
}

/// Reports whether the configuration has another value than the one that is set.
fn is_other(value: &Value, set: &SetValue) -> bool {
    let running = serde_json::from_str(&set.value);
    !running.is_ok_and(|running| is_same_value(&value.to_json(), &running))
}

fn warning(pool: &Pool, value: &Value, set: &SetValue, nodes: &[&Node]) -> Finding {
    let SetValue { field, value: running, by } = set;
    let example = nodes.first().map(|node| node.name.as_str()).unwrap_or_default();
    let on = match nodes.len() {
        1 => format!("node {example}"),
        more => format!("{more} nodes, such as {example}"),
    };
    let message = format!(
        "pool {}: {field}: {} has no effect on {on}: {} sets {}",
        pool.name,
        secrets::redacted(field, &value.to_json().to_string()),
        origin(by),
        // The node writes it.
        one_line(&secrets::redacted(field, running))
    );
    Finding::warning("value-overridden", message)
        .at(value.place.clone())
        .field(field)
        .help(format!("remove {} from the nodes, or accept it: spec.kubelet.acceptOverridden: [{field}]", origin(by)))
}
