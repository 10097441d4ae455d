//! The kubelets as witnesses at the end of a run: what they answer (`configz`) about the configurations that their nodes
//! have converged to.
//!
//! Kubelets up to 1.23 follow their Nodes themselves, and report nothing about their flags. Agents compare the values of
//! theirs ([`Proof`]), so a sample asks only those whose agents could not tell. An answer can only fail the node that gives
//! it.

use std::collections::BTreeMap;

use super::{End, NodeOutcome, Outcome};
use kubelet_config::Minor;
use kubelet_config::capacity::Capacity;
use kubelet_config::document::{Document, Node as Value};
use kubelet_config::effective::{ConfigFile, Effective, Kubelet, effective, is_same_value, named, named_values};
use kubelet_config::fields::secrets;
use nodecfg_contract::kubelet_values::{OverriddenValue, OwnValue};
use nodecfg_contract::names::NodeName;
use nodecfg_contract::printable::at_most;
use nodecfg_fleet::{Desired, Rendered};
use nodecfg_observed::{Node, Observed, Proof};
use nodecfg_plan::convergence::{ConvergenceFailure, Target, is_accepted};
use nodecfg_plan::sample;

/// Kubelets that are asked at the end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Witnesses {
    /// Those of all nodes that converged.
    All,
    /// Up to three of each pool, where no agent compares what the kubelet runs.
    Sample,
}

/// Nodes to ask at the end of a run, by name: they converged to a ConfigMap.
#[must_use]
pub fn nodes_to_ask(outcome: &Outcome, observed: &Observed, witnesses: Witnesses) -> Vec<NodeName> {
    let mut chosen: Vec<NodeName> = Vec::new();
    for pool in outcome.pools.values() {
        let converged: Vec<&NodeName> =
            pool.nodes.iter().filter(|node| runs_its_target(node)).map(|node| &node.node).collect();
        match witnesses {
            Witnesses::All => chosen.extend(converged.into_iter().cloned()),
            Witnesses::Sample => {
                let is_unproven = |name: &&NodeName| observed.nodes.get(*name).is_none_or(is_unproven);
                let converged: Vec<&NodeName> = converged.into_iter().filter(is_unproven).collect();
                chosen.extend(sample::spread(&converged).into_iter().cloned());
            }
        }
    }
    if witnesses == Witnesses::Sample {
        chosen.truncate(sample::MAX_NODES);
    }
    chosen.sort();
    chosen
}

/// Reports whether no agent compares what the kubelet of a node runs: it follows its Node itself, or its agent could not tell
/// before the run. An agent that has reported nothing yet reports it with its first assignment.
fn is_unproven(node: &Node) -> bool {
    let may_compare = node.content.is_some() && node.status.active.is_none();
    !may_compare && !matches!(node.proof.as_deref(), Some(Proof::Known { .. }))
}

fn runs_its_target(node: &NodeOutcome) -> bool {
    node.end.runs_target() && matches!(node.to, Target::Source(_))
}

/// Fails the nodes whose kubelets answer with other values than the reviewed ones, without those that the pool accepts. The
/// answers are configurations, by node. Returns the nodes whose answers cannot be compared: by the rules of the kubelet's
/// version, the reviewed configuration needs the node's own.
#[must_use]
pub fn judge(
    outcome: &mut Outcome,
    answers: &BTreeMap<NodeName, Document>,
    desired: &Desired,
    observed: &Observed,
) -> Vec<NodeName> {
    let mut unknown = Vec::new();
    for (name, of_pool) in &mut outcome.pools {
        let Some(pool) = desired.pools.get(name) else { continue };
        let mut expected: BTreeMap<(Option<Capacity>, Minor), Option<Effective>> = BTreeMap::new();
        for node in of_pool.nodes.iter_mut().filter(|node| runs_its_target(node)) {
            let Some(answer) = answers.get(&node.node) else { continue };
            let seen = observed.nodes.get(&node.node);
            let of_size = seen.and_then(|seen| pool.for_node(seen.capacity));
            let rendered = of_size.as_ref().and_then(|pool| Some((pool.size, pool.target.rendered()?)));
            let compared = rendered.zip(seen.and_then(Node::known_minor)).and_then(|((size, rendered), minor)| {
                let alone = expected.entry((size, minor)).or_insert_with(|| alone(rendered, minor)).as_ref()?;
                Some((rendered, minor, alone))
            });
            let Some((rendered, minor, alone)) = compared else {
                unknown.push(node.node.clone());
                continue;
            };
            let mut values = overridden(&rendered.document, alone, answer, minor);
            values.retain(|value| !is_accepted(&value.field, &pool.policy.accept_overridden));
            if !values.is_empty() {
                let failure = ConvergenceFailure::Overridden { values, more: 0 };
                node.end = End::Failed { failure, rolled_back: false };
            }
        }
    }
    unknown
}

/// What a kubelet of this version runs with only the reviewed configuration. `None` if it would refuse it.
fn alone(rendered: &Rendered, minor: Minor) -> Option<Effective> {
    let config = Some(ConfigFile { path: "kubelet.yaml", text: &rendered.canonical });
    effective(&Kubelet { minor, config, config_dir: None, drop_in_alpha: false, flags: &[] }).ok()
}

/// The values that a configuration names and an answer does not have. What may be secret is masked in answers.
fn overridden(reviewed: &Document, alone: &Effective, answer: &Document, minor: Minor) -> Vec<OverriddenValue> {
    let has_reserved_cpus = reviewed.root.get("reservedSystemCPUs").is_some();
    // A kubelet with a list of reserved CPUs drops these amounts, and masks what may be secret.
    let is_hidden = |path: &str| {
        secrets::is_secret(path) || (has_reserved_cpus && matches!(path, "kubeReserved.cpu" | "systemReserved.cpu"))
    };
    let compared = |(path, value): (String, &Value)| {
        let wanted = alone.values.get(&path).map_or_else(|| value.to_json(), |found| found.value.clone());
        let running = named(answer, &path).map(Value::to_json);
        let is_same = match &running {
            Some(running) => is_same_value(&wanted, running),
            // A kubelet omits false, and empty lists and maps.
            None => !alone.values.contains_key(&path),
        };
        let text =
            |value: serde_json::Value| at_most(&secrets::redacted(&path, &value.to_string()), OwnValue::MAX_VALUE);
        let (reviewed, running) = (Some(text(wanted)), running.map(text));
        (!is_same && !is_hidden(&path)).then(|| OverriddenValue { field: path.clone(), reviewed, running, by: None })
    };
    named_values(reviewed, minor).into_iter().filter_map(compared).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::PoolOutcome;
    use kubelet_config::risk::Class;
    use nodecfg_contract::KubeletVersion;
    use nodecfg_contract::names::PoolName;
    use nodecfg_plan::change_fixtures::{cluster, config, planned, runs, wants};
    use nodecfg_plan::fixtures::node_name;
    use std::sync::Arc;

    /// A cluster of `number` nodes, a repository with these fields, and a run in which all nodes converged.
    fn ended(number: usize, fields: &str) -> (Outcome, Desired, Observed) {
        let names: Vec<String> = (1..=number).map(|index| format!("n{index:02}")).collect();
        let mut observed = cluster(names.iter().map(|name| runs(name, "maxPods: 110")), &["maxPods: 110"]);
        let desired = wants(fields, Class::Replace);
        let plan = planned(&desired, &observed);
        for node in observed.nodes.values_mut() {
            node.kubelet_version = KubeletVersion::parse("v1.36.2");
        }
        let node = |name: &String| NodeOutcome {
            node: node_name(name),
            from: None,
            to: plan.pools[0].targets.only().expect("one target").clone(),
            end: End::Converged,
            seconds: None,
            trial: None,
            drain: None,
            recovery: None,
            marked: false,
        };
        let pool = PoolOutcome { stopped: None, held: None, nodes: names.iter().map(node).collect() };
        (Outcome { pools: [(PoolName::new("a").unwrap(), pool)].into() }, desired, observed)
    }

    /// The failures after these answers of the first nodes.
    fn judged(fields: &str, answers: &[&str], accepted: &[&str]) -> Vec<Option<String>> {
        let (mut outcome, mut desired, observed) = ended(answers.len(), fields);
        for pool in desired.pools.values_mut() {
            pool.policy.accept_overridden = accepted.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
        }
        let nodes: Vec<NodeName> =
            outcome.pools.values().flat_map(|pool| &pool.nodes).map(|n| n.node.clone()).collect();
        let documents = answers.iter().map(|answer| config(answer).document.clone());
        assert!(judge(&mut outcome, &nodes.into_iter().zip(documents).collect(), &desired, &observed).is_empty());
        let failure = |node: &NodeOutcome| match &node.end {
            End::Failed { failure, rolled_back: false } => Some(failure.to_string()),
            _ => None,
        };
        outcome.pools.values().flat_map(|pool| &pool.nodes).map(failure).collect()
    }

    #[test]
    fn answer_fails_its_node_with_field_and_values() {
        let fields = "maxPods: 150\nevictionHard: {memory.available: 1Gi}\nsyncFrequency: 1h";
        let same = "maxPods: 150\nevictionHard: {memory.available: 1Gi}\nsyncFrequency: 1h0m0s\nport: 10250";
        let other = same.replace("150", "120").replace("1Gi", "2Gi");
        let failed = "evictionHard.memory.available is \"2Gi\", reviewed is \"1Gi\"; maxPods is 120, reviewed is 150";
        assert_eq!(judged(fields, &[same, &other], &[]), [None, Some(failed.to_owned())]);
        let unset = "maxPods: 150\nsyncFrequency: 1h0m0s";
        let failed = "evictionHard.memory.available is unset, reviewed is \"1Gi\"";
        assert_eq!(judged(fields, &[unset], &[]), [Some(failed.to_owned())]);
        assert_eq!(judged(fields, &[&other], &["maxPods", "evictionHard"]), [None]);
        // A kubelet with a list of reserved CPUs drops the amounts.
        let cpus = "reservedSystemCPUs: \"0\"\nkubeReserved: {cpu: 500m, memory: 1Gi}";
        assert_eq!(judged(cpus, &["reservedSystemCPUs: \"0\"\nkubeReserved: {memory: 1Gi}"], &[]), [None]);
        // Masked in the answer.
        let secret = "staticPodURLHeader: {Authorization: [a]}";
        assert_eq!(judged(secret, &["staticPodURLHeader: {Authorization: [\"<masked>\"]}"], &[]), [None]);
    }

    #[test]
    fn asks_few_of_each_pool_where_nobody_else_compares() {
        let (mut outcome, _, mut observed) = ended(9, "maxPods: 150");
        let asked = |outcome: &Outcome, observed: &Observed, witnesses| {
            let nodes = nodes_to_ask(outcome, observed, witnesses);
            nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(asked(&outcome, &observed, Witnesses::Sample), "n01 n05 n09");
        for node in &mut outcome.pools.values_mut().next().unwrap().nodes[..8] {
            node.end = End::NotStarted;
        }
        assert_eq!(asked(&outcome, &observed, Witnesses::Sample), "n09");
        let node = observed.nodes.get_mut(&node_name("n09")).expect("a node");
        node.proof = Some(Arc::new(Proof::Known { overridden: Vec::new(), more: 0, above: Vec::new() }));
        assert_eq!(asked(&outcome, &observed, Witnesses::Sample), "", "its agent does");
        assert_eq!(asked(&outcome, &observed, Witnesses::All), "n09");
    }
}
