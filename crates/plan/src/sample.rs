//! Samples of nodes whose configuration is unknown: which kubelets to ask for it, and what their answers mean for a
//! plan.
//!
//! A plan cannot read the local configuration of nodes, or a missing ConfigMap. Kubelets return what they run
//! (`configz`). Only a few of a group are asked: a plan for thousands of nodes sends a bounded number of requests. An
//! answer proves nothing about other nodes, and a compromised kubelet may lie. So an answer can add a refusal, and
//! permits nothing that an unknown configuration does not permit.

use std::collections::BTreeMap;

use super::present::Start;
use super::{Action, ChangeSet, Plan};
use crate::changes::Sample;
use crate::changes::{ChangedField, changed_fields, leaving, returning_fields, without_risk, worst};
use kubelet_config::capacity::Capacity;
use kubelet_config::document::{Document, Value};
use kubelet_config::effective::{ConfigFile, Kubelet, effective, overlaid};
use kubelet_config::{API_VERSION, KIND, Minor};
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_contract::{ConfigSource, Placement};
use nodecfg_observed::{Node, Observed, Readiness, RunningConfig, UnreadReason};

/// Maximum number of asked nodes of one pool, one current configuration, one size and one kubelet version.
const MAX_PER_GROUP: usize = 3;
/// Maximum number of asked nodes.
pub const MAX_NODES: usize = 24;
/// Maximum number of changed fields. A KubeletConfiguration has fewer than 200 fields.
const MAX_FIELDS: usize = 1000;

/// Nodes to ask for the configuration that they run, ordered by name: Ready nodes that the plan assigns, whose kubelet
/// version is known and whose current configuration, or the risk of its change, is unknown.
#[must_use]
pub fn nodes_to_sample(plan: &Plan, observed: &Observed) -> Vec<NodeName> {
    type Beginning<'a> = (Option<&'a ConfigSource>, Option<Placement>, Option<Capacity>);
    type Group<'a> = (&'a PoolName, Beginning<'a>, Minor);
    let mut groups: BTreeMap<Group<'_>, Vec<&NodeName>> = BTreeMap::new();
    for pool in plan.pools.iter().filter(|pool| !pool.targets.is_local()) {
        let unknown: Vec<&ChangeSet> = pool.changes.iter().filter(|set| !set.has_risk()).collect();
        let assigned = pool.steps().filter(|step| step.action == Action::Assign);
        for node in assigned.filter_map(|step| observed.nodes.get(&step.node)) {
            let active = Start::active(node);
            let size = pool.targets.size_of(&node.name);
            let is_start =
                |set: &&&ChangeSet| set.from == active.from && set.placement == active.placement && set.size == size;
            let start = unknown.iter().find(is_start).map(|set| (set.from.as_ref(), set.placement, size));
            let Some(from) = start else { continue };
            // The defaults of other versions are unknown, and a kubelet that is down does not answer.
            let Some(minor) = node.known_minor().filter(|_| node.ready == Readiness::Ready) else { continue };
            groups.entry((&pool.name, from, minor)).or_default().push(&node.name);
        }
    }
    let spread: Vec<Vec<&NodeName>> = groups
        .into_values()
        .map(|mut nodes| {
            nodes.sort();
            spread(&nodes)
        })
        .collect();
    // One node of each group first, so that the limit leaves out second and third nodes.
    let rounds = (0..MAX_PER_GROUP).flat_map(|round| spread.iter().filter_map(move |nodes| nodes.get(round)));
    let mut chosen: Vec<NodeName> = rounds.take(MAX_NODES).map(|name| (*name).clone()).collect();
    chosen.sort();
    chosen
}

/// The nodes of a sorted group that are asked: the first, the last and the middle one.
#[must_use]
pub fn spread<'n>(nodes: &[&'n NodeName]) -> Vec<&'n NodeName> {
    let last = nodes.len().saturating_sub(1);
    let chosen = [0, last, last / 2].into_iter().take(MAX_PER_GROUP.min(nodes.len()));
    chosen.filter_map(|index| nodes.get(index).copied()).collect()
}

/// Changed fields of a group of nodes according to the answers of some of them. `None` if none was asked. `assigned`:
/// the configuration of their assignment, if known. `new`: the future configuration with its placement.
pub(super) fn changes_of<'a>(
    nodes: impl Iterator<Item = &'a Node>,
    observed: &Observed,
    assigned: Option<&Document>,
    new: (&Document, Placement),
) -> Option<(Option<Vec<ChangedField>>, Sample)> {
    let mut sample = Sample { asked: 0, read: 0, same: 0, unread: None };
    let mut found: Vec<(Vec<ChangedField>, usize)> = Vec::new();
    for node in nodes {
        let Some(answer) = observed.running.get(&node.name) else { continue };
        sample.asked += 1;
        match fields_of(node, answer, assigned, new) {
            Ok(fields) => {
                sample.read += 1;
                match found.iter_mut().find(|(known, _)| *known == fields) {
                    Some((_, nodes)) => *nodes += 1,
                    None => found.push((fields, 1)),
                }
            }
            Err(reason) => sample.unread = sample.unread.max(Some(reason)),
        }
    }
    // The first of equal ones, by the names of the nodes.
    let riskier = |a: (Vec<ChangedField>, usize), b: (Vec<ChangedField>, usize)| {
        if (worst(&b.0), b.1) > (worst(&a.0), a.1) { b } else { a }
    };
    let losses: Vec<ChangedField> =
        found.iter().flat_map(|(fields, _)| fields).filter(|field| field.loss.is_some()).cloned().collect();
    let riskiest = found.into_iter().reduce(riskier);
    sample.same = riskiest.as_ref().map_or(0, |(_, nodes)| *nodes);
    let fields = riskiest.map(|(mut fields, _)| {
        for lost in losses {
            // The riskiest node may lose nothing.
            match fields.iter_mut().find(|field| field.change.path == lost.change.path) {
                Some(field) => field.loss = field.loss.or(lost.loss),
                None => fields.push(lost),
            }
        }
        fields.sort_by(|a, b| a.change.path.cmp(&b.change.path));
        fields
    });
    (sample.asked > 0).then_some((fields, sample))
}

/// Adds the changes whose risk is known without answers to those of sampled nodes: an answer only adds. Of two changes of one
/// field, the one with the higher class counts.
pub(super) fn with_known(mut sampled: Vec<ChangedField>, fields: Vec<ChangedField>) -> Vec<ChangedField> {
    for known in fields.into_iter().filter(|field| field.risk.is_some()) {
        match sampled.iter_mut().find(|field| field.change.path == known.change.path) {
            Some(found) => {
                let loss = found.loss.or(known.loss);
                if worst([&known]) > worst([&*found]) {
                    *found = known;
                }
                found.loss = loss;
            }
            None => sampled.push(known),
        }
    }
    sampled.sort_by(|a, b| a.change.path.cmp(&b.change.path));
    sampled
}

fn fields_of(
    node: &Node,
    answer: &RunningConfig,
    assigned: Option<&Document>,
    (new, placement): (&Document, Placement),
) -> Result<Vec<ChangedField>, UnreadReason> {
    let text = match answer {
        RunningConfig::Read(text) => text,
        RunningConfig::Unread(reason) => return Err(*reason),
    };
    let old = Document::parse("configz", text).document.filter(|document| document.root.mapping().is_some());
    let old = old.ok_or(UnreadReason::Unusable)?;
    let minors = [node.known_minor()].into_iter().collect();
    let merged = (placement == Placement::Overlay).then(|| overlaid(Some(&old), new));
    let mut fields = changed_fields(Some(&old), merged.as_ref().or(Some(new)), &minors);
    if merged.is_some() {
        // The kubelet does not tell a default from a value. Some defaults depend on other fields: they change if the
        // node's own configuration does not name them, which only its agent knows.
        let named = without_defaults(&old, node.known_minor());
        let next = changed_fields(Some(&old), Some(&overlaid(Some(&named), new)), &minors);
        let is_new = |field: &ChangedField| !fields.iter().any(|known| known.change.path == field.change.path);
        let follows = |field: &ChangedField| !field.no_effect && field.change.new.is_none() && is_new(field);
        let dependent: Vec<ChangedField> = next.into_iter().filter(follows).collect();
        fields.extend(dependent.into_iter().map(|field| without_risk(field.change)));
        fields.sort_by(|a, b| a.change.path.cmp(&b.change.path));
    }
    if let Some(assigned) = assigned.filter(|_| merged.is_some()) {
        // What the configuration no longer names returns to the node's own value, which only its agent shows.
        let left = leaving(assigned, new);
        let own = node.own_values.as_deref();
        let named = returning_fields((assigned, Some(node.active_placement())), (new, placement), own, &minors);
        fields.extend(named.into_iter().filter(|field| left.contains(&field.change.path)));
        fields.sort_by(|a, b| a.change.path.cmp(&b.change.path));
    }
    // A kubelet returns all fields, also those that it has by default: a missing one is no change.
    fields.retain(|field| !field.no_effect || field.change.new.is_some());
    if fields.len() > MAX_FIELDS { Err(UnreadReason::Unusable) } else { Ok(fields) }
}

/// The values of a configuration that are no defaults of a version.
fn without_defaults(configuration: &Document, minor: Option<Minor>) -> Document {
    let mut named = configuration.clone();
    let header = format!("apiVersion: {API_VERSION}\nkind: {KIND}\n");
    let config = Some(ConfigFile { path: "kubelet.yaml", text: &header });
    let defaults = minor.and_then(|minor| {
        effective(&Kubelet { minor, config, config_dir: None, drop_in_alpha: false, flags: &[] }).ok()
    });
    if let (Value::Mapping(fields), Some(defaults)) = (&mut named.root.value, defaults) {
        fields.retain(|name, entry| {
            let default = defaults.document.root.get(name);
            matches!(name.as_str(), "apiVersion" | "kind")
                || !default.is_some_and(|default| default.same_content(&entry.value))
        });
    }
    named
}
