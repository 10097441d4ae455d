//! The rules by which a draft becomes a repository that changes nothing: what nodes of a pool run together, and what is left out
//! or paused until a plan finds nothing to do.

use std::collections::{BTreeMap, BTreeSet};

use super::starter::{Runs, Start, StarterPool, start, without_secrets};
use kubelet_config::document::Document;
use kubelet_config::finding::{Finding, Severity, Strictness};
use nodecfg_contract::ConfigSource;
use nodecfg_contract::ContentHash;
use nodecfg_contract::names::{FleetName, NamespaceName, PoolName};
use nodecfg_contract::observed::{ConfigMapKey, Node, Observed};
use nodecfg_planning::desired::{Checks, Desired, Kubelets, build};
use nodecfg_planning::plan;
use nodecfg_planning::snapshot::Snapshot;

/// A repository in the making.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// The fleet that its nodes are of.
    pub fleet: FleetName,
    /// Where its ConfigMaps are, if that is not where they would be looked for.
    pub namespace: Option<NamespaceName>,
    /// The label that the pools were made by; unset for an example.
    pub label: Option<String>,
    /// Its pools.
    pub pools: Vec<StarterPool>,
    /// What there is to tell of it.
    pub remarks: Vec<String>,
}

/// What one node runs, for comparison.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum OneRuns {
    Local,
    Content(String),
    Lost(String),
}

/// What most nodes of a pool run, and why they are left alone when they do not all run it.
#[must_use]
pub fn runs(nodes: &[&Node], observed: &Observed) -> (Runs, Vec<String>) {
    let mut counted: BTreeMap<OneRuns, (usize, String)> = BTreeMap::new();
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    for node in nodes {
        let one = match &node.source {
            None => OneRuns::Local,
            Some(source) => match text_of(source, observed) {
                Some(text) => {
                    let document = Document::parse(&source.to_string(), &text).document;
                    match document {
                        Some(document) => {
                            let hash = ContentHash::of(document.canonical().as_bytes()).to_string();
                            texts.entry(hash.clone()).or_insert(text);
                            OneRuns::Content(hash)
                        }
                        None => OneRuns::Lost(format!("{source}, which cannot be read")),
                    }
                }
                None => OneRuns::Lost(format!("{source}, which is not there")),
            },
        };
        let what = match (&one, &node.source) {
            (OneRuns::Local, _) | (_, None) => "their local configuration".to_owned(),
            (OneRuns::Content(_), Some(source)) => source.to_string(),
            (OneRuns::Lost(what), _) => what.clone(),
        };
        counted.entry(one).or_insert((0, what)).0 += 1;
    }
    let most = counted
        .iter()
        .filter(|(one, _)| !matches!(one, OneRuns::Lost(_)))
        .max_by_key(|(_, (count, _))| *count)
        .map(|(one, _)| one.clone());
    let runs = match &most {
        Some(OneRuns::Content(hash)) => texts.get(hash).cloned().map_or(Runs::Local, Runs::Content),
        _ => Runs::Local,
    };
    let all_alike = counted.len() <= 1 && most.is_some();
    let told = counted.values().map(|(count, what)| format!("{} on {what}", number(*count)));
    let doubts = if all_alike {
        Vec::new()
    } else {
        vec![format!("Its nodes do not all run the same: {}.", told.collect::<Vec<_>>().join(", "))]
    };
    without_secrets(runs, doubts)
}

fn number(nodes: usize) -> String {
    if nodes == 1 { "1 node".to_owned() } else { format!("{nodes} nodes") }
}

fn text_of(source: &ConfigSource, observed: &Observed) -> Option<String> {
    let map = source.config_map.as_ref()?;
    let fetched = observed.contents.get(&ConfigMapKey::of(source)?)?.as_ref()?;
    fetched.text(&map.kubelet_config_key).map(str::to_owned)
}

/// Why no repository came of a draft.
#[derive(Debug)]
pub enum Unsettled {
    /// Something in it is invalid that cannot be left out.
    Invalid {
        /// What is.
        findings: Vec<Finding>,
        /// The files.
        snapshot: Box<Snapshot>,
    },
    /// Whatever was paused, something would change.
    Changing,
}

/// Makes the files, and leaves out or pauses what would not be valid, or would change a node. `namespace` is that of ConfigMaps
/// where the fleet names none.
///
/// # Errors
/// When there is nothing left to leave out or to pause.
pub fn settled(draft: &mut Draft, observed: &Observed, namespace: &NamespaceName) -> Result<Start, Unsettled> {
    // Each round settles at least one pool, by its file and then by pausing it.
    for _ in 0..=draft.pools.len().saturating_mul(2) {
        let start = start(&draft.fleet, draft.namespace.as_ref(), &draft.pools);
        let snapshot = Snapshot::of_texts(start.files.iter().map(|(path, text)| (path.as_str(), text.as_str())));
        let built = build(&snapshot, &Checks { gate: Strictness::Strict, kubelets: Kubelets::OfNodes });
        let errors: Vec<Finding> =
            built.findings.into_iter().filter(|finding| finding.severity == Severity::Error).collect();
        let settled = match built.desired {
            Some(desired) => pause_what_would_change(draft, &desired, observed, namespace),
            None if leave_out_what_is_invalid(draft, &errors) => false,
            None => return Err(Unsettled::Invalid { findings: errors, snapshot: Box::new(snapshot) }),
        };
        if settled {
            return Ok(start);
        }
    }
    Err(Unsettled::Changing)
}

/// Whether something was left out.
fn leave_out_what_is_invalid(draft: &mut Draft, errors: &[Finding]) -> bool {
    let mut changed = false;
    for pool in &mut draft.pools {
        let prefix = format!("pools/{}/", pool.group.name);
        let Some(error) =
            errors.iter().find(|error| error.place.as_ref().is_some_and(|place| place.file.starts_with(&prefix)))
        else {
            continue;
        };
        if pool.captured.take().is_some() {
            draft.remarks.push(format!(
                "What the nodes of pool {} run is not in the repository, since nodecfg does not accept it: {}.",
                pool.group.name, error.message
            ));
            changed = true;
        } else if pool.runs != Runs::Local {
            pool.runs = Runs::Local;
            pool.doubts.push(format!("nodecfg does not accept what their ConfigMap holds: {}.", error.message));
            changed = true;
        }
    }
    changed
}

/// Whether nothing would change.
fn pause_what_would_change(
    draft: &mut Draft,
    desired: &Desired,
    observed: &Observed,
    namespace: &NamespaceName,
) -> bool {
    let namespace = desired.namespace.clone().unwrap_or_else(|| namespace.clone());
    let options = plan::Options {
        namespace,
        take_over: false,
        allow_empty: true,
        gate: Strictness::Strict,
        despite_pause: BTreeSet::new(),
        scope: plan::Scope::Everything,
    };
    let plan = match plan::make(desired, observed, &options) {
        Ok(plan) => plan,
        Err(problems) => {
            draft.remarks.extend(problems.iter().map(|problem| format!("{problem}. {}", problem.help())));
            return true;
        }
    };
    let changing: BTreeSet<&PoolName> =
        plan.pools.iter().filter(|pool| pool.assignments() > 0).map(|pool| &pool.name).collect();
    let mut quiet = true;
    for pool in draft.pools.iter_mut().filter(|pool| changing.contains(&pool.group.name) && pool.doubts.is_empty()) {
        pool.doubts.push("A sync would change its nodes: they have not all taken what they point at.".to_owned());
        quiet = false;
    }
    quiet
}

#[cfg(test)]
mod tests {
    use super::super::pools::{Group, Picks};
    use super::*;
    use nodecfg_contract::names::NodeName;
    use nodecfg_planning::plan::fixtures::{fetched, node, observed, on, source};

    fn nodes(observed: &Observed) -> Vec<&Node> {
        observed.nodes.values().collect()
    }

    #[test]
    fn what_nodes_run_together_is_what_most_of_them_do_with_a_doubt() {
        let alike = observed([node("a", "gpu"), node("b", "gpu")]);
        assert_eq!(runs(&nodes(&alike), &alike), (Runs::Local, Vec::new()));
        let map = source("their-config");
        let mut mixed = observed([node("a", "gpu"), on(node("b", "gpu"), &map), on(node("c", "gpu"), &map)]);
        let (key, found) = fetched(&map, "kind: KubeletConfiguration\n", true);
        mixed.contents.insert(key, found);
        let (what, doubts) = runs(&nodes(&mixed), &mixed);
        assert_eq!(what, Runs::Content("kind: KubeletConfiguration\n".to_owned()));
        assert!(doubts[0].contains("1 node on their local configuration, 2 nodes on"), "{doubts:?}");
    }

    #[test]
    fn a_content_that_is_not_accepted_is_left_out_and_its_pool_paused() {
        let map = source("their-config");
        let observed = observed([on(node("a", "gpu"), &map)]);
        let name = PoolName::new("gpu").unwrap();
        let group = Group {
            name: name.clone(),
            picks: Picks::ByName(name),
            nodes: BTreeSet::from([NodeName::new("a").unwrap()]),
        };
        let runs = Runs::Content("kind: Nothing\n".to_owned());
        let mut draft = Draft {
            fleet: FleetName::new("default").unwrap(),
            namespace: None,
            label: None,
            pools: vec![StarterPool { group, runs, doubts: Vec::new(), captured: None }],
            remarks: Vec::new(),
        };
        let start = settled(&mut draft, &observed, &NamespaceName::new("kube-system").unwrap()).unwrap();
        assert_eq!(draft.pools[0].runs, Runs::Local);
        assert!(draft.pools[0].doubts[0].contains("nodecfg does not accept"), "{draft:?}");
        assert!(start.files["pools/gpu/pool.yaml"].contains("paused: true"));
    }
}
