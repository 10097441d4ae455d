//! Adoption of existing nodes: turns a draft into a repository whose plan changes nothing. To get there, omits
//! invalid configurations and pauses pools.

use std::collections::{BTreeMap, BTreeSet};

use super::starter::{CurrentConfig, RepositoryFiles, StarterPool, starter_repository, without_secrets};
use crate::report::count;
use crate::terminal::failure::CommandError;
use kubelet_config::document::Document;
use kubelet_config::finding::{Finding, Severity, Strictness};
use nodecfg_contract::names::{FleetName, NamespaceName, PoolName};
use nodecfg_contract::{ConfigSource, ContentHash};
use nodecfg_fleet::snapshot::Snapshot;
use nodecfg_fleet::{Checks, Desired, Kubelets, build};
use nodecfg_observed::{ConfigMapKey, Node, Observed};

/// Draft of a repository.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// Fleet of the nodes.
    pub fleet: FleetName,
    /// Namespace of the ConfigMaps, if not the default.
    pub namespace: Option<NamespaceName>,
    /// Label that defines the pools; unset for an example.
    pub label: Option<String>,
    /// Pools of the repository.
    pub pools: Vec<StarterPool>,
    /// Remarks for the user.
    pub remarks: Vec<String>,
    /// Whether nodecfg is installed on the cluster, as far as known.
    pub is_installed: bool,
}

/// Configuration of one node, for comparison.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum NodeSource {
    Local,
    Content(String),
    Unreadable(String),
}

/// Configuration of most nodes of a pool, and the reasons to pause the pool: the nodes differ, a configuration is
/// unreadable, or it may contain a secret.
#[must_use]
pub fn common_config(nodes: &[&Node], observed: &Observed) -> (CurrentConfig, Vec<String>) {
    let mut counted: BTreeMap<NodeSource, (usize, String)> = BTreeMap::new();
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    for node in nodes {
        let one = match &node.source {
            None => NodeSource::Local,
            Some(source) => match text_of(source, observed) {
                Some(text) => {
                    let document = Document::parse(&source.to_string(), &text).document;
                    match document {
                        Some(document) => {
                            let hash = ContentHash::of(document.canonical().as_bytes()).to_string();
                            texts.entry(hash.clone()).or_insert(text);
                            NodeSource::Content(hash)
                        }
                        None => NodeSource::Unreadable(format!("{source}, which is unreadable")),
                    }
                }
                None => NodeSource::Unreadable(format!("{source}, which is missing")),
            },
        };
        let what = match (&one, &node.source) {
            (NodeSource::Local, _) | (_, None) => "their local configuration".to_owned(),
            (NodeSource::Content(_), Some(source)) => source.to_string(),
            (NodeSource::Unreadable(what), _) => what.clone(),
        };
        counted.entry(one).or_insert((0, what)).0 += 1;
    }
    let most = counted
        .iter()
        .filter(|(one, _)| !matches!(one, NodeSource::Unreadable(_)))
        .max_by_key(|(_, (count, _))| *count)
        .map(|(one, _)| one.clone());
    let runs = match &most {
        Some(NodeSource::Content(hash)) => {
            texts.get(hash).cloned().map_or(CurrentConfig::Local, CurrentConfig::Content)
        }
        _ => CurrentConfig::Local,
    };
    let is_uniform = counted.len() <= 1 && most.is_some();
    let counts = counted.values().map(|(number, what)| format!("{} on {what}", count(*number, "node")));
    let pause_reasons = if is_uniform {
        Vec::new()
    } else {
        vec![format!("Its nodes run different configurations: {}.", counts.collect::<Vec<_>>().join(", "))]
    };
    without_secrets(runs, pause_reasons)
}

fn text_of(source: &ConfigSource, observed: &Observed) -> Option<String> {
    let map = source.config_map.as_ref()?;
    let fetched = observed.contents.get(&ConfigMapKey::of(source)?)?.as_ref()?;
    fetched.text(&map.kubelet_config_key).map(str::to_owned)
}

/// Creates the files. Omits invalid configurations and pauses pools whose nodes would change. `namespace` is that of
/// the ConfigMaps when the fleet names none.
///
/// # Errors
/// When the repository is invalid and no configuration is left to omit, or the plan still changes nodes after every
/// pool was paused.
pub(crate) fn adopt(
    draft: &mut Draft,
    observed: &Observed,
    namespace: &NamespaceName,
) -> Result<RepositoryFiles, CommandError> {
    // Each round omits a configuration or pauses a pool.
    for _ in 0..=draft.pools.len().saturating_mul(2) {
        let repository = starter_repository(&draft.fleet, draft.namespace.as_ref(), &draft.pools);
        let snapshot = Snapshot::of_texts(repository.iter().map(|(path, text)| (path.as_str(), text.as_str())));
        let built = build(&snapshot, &Checks { gate: Strictness::Strict, kubelets: Kubelets::OfNodes });
        let errors: Vec<Finding> =
            built.findings.into_iter().filter(|finding| finding.severity == Severity::Error).collect();
        let is_adopted = match built.desired {
            Some(desired) => pause_changing_pools(draft, &desired, observed, namespace),
            None if omit_invalid_configurations(draft, &errors) => false,
            None => return Err(CommandError::Invalid { findings: errors, snapshot: Box::new(snapshot) }),
        };
        if is_adopted {
            return Ok(repository);
        }
    }
    Err(CommandError::usage(
        "cannot create a repository that changes nothing on these nodes",
        "write the repository by hand: docs/reference/repository.md",
    ))
}

/// Omits invalid configurations, and reports whether it omitted any.
fn omit_invalid_configurations(draft: &mut Draft, errors: &[Finding]) -> bool {
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
                "The repository omits the configuration of pool {}, which nodecfg does not accept: {}.",
                pool.group.name, error.message
            ));
            changed = true;
        } else if pool.runs != CurrentConfig::Local {
            pool.runs = CurrentConfig::Local;
            pool.pause_reasons
                .push(format!("nodecfg does not accept the content of their ConfigMap: {}.", error.message));
            changed = true;
        }
    }
    changed
}

/// Pauses the pools whose nodes would change, and reports whether no further pool was paused. Without a possible
/// plan, adds its problems as remarks and reports true.
fn pause_changing_pools(draft: &mut Draft, desired: &Desired, observed: &Observed, namespace: &NamespaceName) -> bool {
    let namespace = desired.namespace.clone().unwrap_or_else(|| namespace.clone());
    let options = nodecfg_plan::Options {
        namespace,
        take_over: false,
        allow_empty: true,
        gate: Strictness::Strict,
        despite_pause: BTreeSet::new(),
        scope: nodecfg_plan::Scope::Everything,
    };
    let plan = match nodecfg_plan::make(desired, observed, &options) {
        Ok(plan) => plan,
        Err(problems) => {
            draft.remarks.extend(problems.iter().map(|problem| format!("{problem}. {}", problem.help())));
            return true;
        }
    };
    let changing: BTreeSet<&PoolName> =
        plan.pools.iter().filter(|pool| pool.assignments() > 0).map(|pool| &pool.name).collect();
    let mut is_unchanged = true;
    for pool in
        draft.pools.iter_mut().filter(|pool| changing.contains(&pool.group.name) && pool.pause_reasons.is_empty())
    {
        pool.pause_reasons.push("A sync would change its nodes: some do not run their assignment.".to_owned());
        is_unchanged = false;
    }
    is_unchanged
}

#[cfg(test)]
mod tests {
    use super::super::pools::{Group, Selection};
    use super::*;
    use nodecfg_contract::names::NodeName;
    use nodecfg_plan::fixtures::{fetched, node, observed, on, source};

    fn nodes(observed: &Observed) -> Vec<&Node> {
        observed.nodes.values().collect()
    }

    #[test]
    fn uses_the_most_common_configuration_and_pauses_the_pool() {
        let alike = observed([node("a", "gpu"), node("b", "gpu")]);
        assert_eq!(common_config(&nodes(&alike), &alike), (CurrentConfig::Local, Vec::new()));
        let map = source("their-config");
        let mut mixed = observed([node("a", "gpu"), on(node("b", "gpu"), &map), on(node("c", "gpu"), &map)]);
        let (key, found) = fetched(&map, "kind: KubeletConfiguration\n", true);
        mixed.contents.insert(key, found);
        let (what, pause_reasons) = common_config(&nodes(&mixed), &mixed);
        assert_eq!(what, CurrentConfig::Content("kind: KubeletConfiguration\n".to_owned()));
        assert!(pause_reasons[0].contains("1 node on their local configuration, 2 nodes on"), "{pause_reasons:?}");
    }

    #[test]
    fn omits_invalid_content_and_pauses_its_pool() {
        let map = source("their-config");
        let observed = observed([on(node("a", "gpu"), &map)]);
        let name = PoolName::new("gpu").unwrap();
        let group = Group {
            name: name.clone(),
            selection: Selection::ByName(name),
            nodes: BTreeSet::from([NodeName::new("a").unwrap()]),
        };
        let runs = CurrentConfig::Content("kind: Nothing\n".to_owned());
        let mut draft = Draft {
            fleet: FleetName::new("default").unwrap(),
            namespace: None,
            label: None,
            pools: vec![StarterPool {
                group,
                runs,
                pause_reasons: Vec::new(),
                overlays: false,
                replaces: false,
                captured: None,
            }],
            remarks: Vec::new(),
            is_installed: true,
        };
        let repository = adopt(&mut draft, &observed, &NamespaceName::new("kube-system").unwrap()).unwrap();
        assert_eq!(draft.pools[0].runs, CurrentConfig::Local);
        assert!(draft.pools[0].pause_reasons[0].contains("nodecfg does not accept"), "{draft:?}");
        assert!(repository["pools/gpu/pool.yaml"].contains("paused: true"));
    }
}
