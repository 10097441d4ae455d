//! Effect of a pool's changes on running pods: the changed fields, the risk class of each, the highest class, and
//! whether the policy allows it.
//!
//! The risk is unknown if the current or the new content is unknown: the local configuration, or a ConfigMap that is
//! missing or unreadable. Reports show that, but the plan is not refused, because every node starts with its local
//! configuration.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::config_maps::ConfigMapIndex;
use super::decide::refuses;
use super::{Action, Plan, PoolPlan, Problem, Step};
use crate::desired::{Pool, PoolTarget};
use kubelet_config::Minor;
use kubelet_config::document::{Document, FieldChange, Node as Value, changes};
use kubelet_config::risk::{self, Class, Risk, StateFile};
use kubelet_config::secrets;
use nodecfg_contract::ConfigSource;
use nodecfg_contract::names::PoolName;
use nodecfg_contract::observed::Node;

/// Changed fields of the nodes that leave one configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeSet {
    /// Current configuration; `None`: the local configuration, whose content is unknown.
    pub from: Option<ConfigSource>,
    /// Number of nodes. A node in transition counts for both its configurations.
    pub nodes: usize,
    /// Whether the current content is known. If not, every field of the new content is listed as added.
    pub from_known: bool,
    /// Changes per field.
    pub fields: Vec<ChangedField>,
}

/// A changed field with its risk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangedField {
    /// The change.
    #[serde(flatten)]
    pub change: FieldChange,
    /// Effect on a node with running pods; `None` if only one side of the change is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub risk: Option<Risk>,
}

/// Total effect of a pool's changes on running pods.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Disruption {
    /// Highest class of a changed field; `None` if no change has a known class.
    pub worst: Option<Class>,
    /// State files that must be deleted before the kubelet starts again.
    pub state_files: Vec<StateFile>,
    /// Number of nodes whose current or new content is unknown, so that the risk is unknown. A node in transition
    /// between two unknown configurations counts twice.
    pub unknown: usize,
    /// Whether the highest class exceeds the policy of the pool. Such a plan must not be carried out.
    pub refused: bool,
    /// Number of nodes whose kubelet sets containers with probes to not ready when it restarts.
    pub unready: usize,
}

impl ChangeSet {
    /// Reports whether both sides of all changes are known, so that the risk is known.
    #[must_use]
    pub fn has_risk(&self) -> bool {
        self.from_known && self.fields.iter().all(|field| field.risk.is_some())
    }
}

impl Disruption {
    /// Summarizes the changes of a pool that allows `allowed`.
    fn of(sets: &[ChangeSet], allowed: Class) -> Self {
        let fields: Vec<&ChangedField> = sets.iter().flat_map(|set| &set.fields).collect();
        Self {
            unknown: sets.iter().filter(|set| !set.has_risk()).map(|set| set.nodes).sum(),
            ..Self::of_fields(fields, allowed)
        }
    }

    /// Summarizes changed fields for a pool that allows `allowed`, regardless of nodes.
    #[must_use]
    pub fn of_fields<'a>(fields: impl IntoIterator<Item = &'a ChangedField>, allowed: Class) -> Self {
        let risks: Vec<&Risk> = fields.into_iter().filter_map(|field| field.risk.as_ref()).collect();
        let worst = risks.iter().map(|risk| risk.class).max();
        let state_files: BTreeSet<StateFile> = risks.iter().flat_map(|risk| risk.state_files.iter().copied()).collect();
        Self {
            worst,
            state_files: state_files.into_iter().collect(),
            unknown: 0,
            refused: worst.is_some_and(|worst| worst > allowed),
            unready: 0,
        }
    }
}

/// Returns the changed fields between two configurations with their risk. An unknown configuration counts as empty,
/// and its changes have no known risk.
#[must_use]
pub fn changed_fields(old: Option<&Document>, new: Option<&Document>) -> Vec<ChangedField> {
    let field = |change: FieldChange| {
        // Redacted first, so that the checker computes the same risk.
        let change = redacted(change);
        let risk = old.zip(new).map(|(old, new)| risk_of(&change, old, new));
        ChangedField { change, risk }
    };
    changes(old, new).into_iter().map(field).collect()
}

impl Plan {
    /// Problems that prevent execution of this plan: pools whose changes disrupt running pods more than their policy
    /// allows.
    #[must_use]
    pub fn refusals(&self) -> Vec<Problem> {
        self.pools.iter().filter_map(too_disruptive).collect()
    }
}

fn too_disruptive(pool: &PoolPlan) -> Option<Problem> {
    let worst = pool.disruption.worst.filter(|_| pool.disruption.refused)?;
    let allowed = pool.policy.allow_disruption;
    let mut fields: BTreeMap<&str, Class> = BTreeMap::new();
    for field in pool.changes.iter().flat_map(|set| &set.fields) {
        if let Some(risk) = field.risk.as_ref().filter(|risk| risk.class > allowed) {
            let class = fields.entry(&field.change.path).or_insert(risk.class);
            *class = (*class).max(risk.class);
        }
    }
    Some(Problem::TooDisruptive {
        pool: pool.name.clone(),
        worst,
        allowed,
        fields: fields.into_iter().map(|(path, class)| (path.to_owned(), class)).collect(),
        state_files: pool.disruption.state_files.clone(),
    })
}

/// Configurations that a node may run: the active one of its status, and its current source unless refused. `None`
/// stands for the local configuration.
pub(super) fn current_configurations(node: &Node) -> BTreeSet<Option<ConfigSource>> {
    let mut current = BTreeSet::from([node.status.active.as_ref().map(without_version)]);
    if !refuses(node) {
        current.insert(node.source.as_ref().map(without_version));
    }
    current
}

/// The source as in a spec, without uid and version.
fn without_version(source: &ConfigSource) -> ConfigSource {
    match &source.config_map {
        Some(map) => ConfigSource::config_map(&map.namespace, &map.name, &map.kubelet_config_key),
        None => source.clone(),
    }
}

/// Groups the assigned nodes by the configurations that they may run, and computes the changed fields and their risk
/// per group.
pub(super) fn assess<'a>(
    pool: &Pool,
    assigned: impl Iterator<Item = &'a Node>,
    index: &ConfigMapIndex<'_>,
) -> (Vec<ChangeSet>, Disruption) {
    let new = match &pool.target {
        PoolTarget::Local => None,
        PoolTarget::Config(rendered) => Some(&rendered.document),
    };
    let mut groups: BTreeMap<Option<ConfigSource>, usize> = BTreeMap::new();
    let mut minors: BTreeMap<Option<Minor>, usize> = BTreeMap::new();
    let mut replaced: BTreeSet<ConfigSource> = BTreeSet::new();
    for node in assigned {
        *minors.entry(minor(node)).or_default() += 1;
        for start in current_configurations(node) {
            replaced.extend(start.clone().filter(|source| has_other_content(node, source, index)));
            *groups.entry(start).or_default() += 1;
        }
    }
    let sets: Vec<ChangeSet> = groups
        .into_iter()
        .map(|(from, nodes)| {
            // A ConfigMap with other content tells nothing about what the nodes run.
            let known = from.as_ref().filter(|source| !replaced.contains(*source));
            let old = known.and_then(|source| index.document(source));
            let fields = changed_fields(old.as_ref(), new);
            ChangeSet { from, nodes, from_known: old.is_some(), fields }
        })
        .collect();
    let unready = minors.into_iter().filter(|(minor, _)| risk::restart_resets_readiness(*minor, new));
    let unready = unready.map(|(_, nodes)| nodes).sum();
    let disruption = Disruption { unready, ..Disruption::of(&sets, pool.policy.allow_disruption) };
    (sets, disruption)
}

/// Version of a node's kubelet, also if nodecfg's tables lack it.
fn minor(node: &Node) -> Option<Minor> {
    node.kubelet_version.filter(|version| version.major == 1).map(|version| Minor(version.minor))
}

/// Reports whether the ConfigMap of a source has other content than the agent of the node verified for it.
fn has_other_content(node: &Node, source: &ConfigSource, index: &ConfigMapIndex<'_>) -> bool {
    let Some(content) = node.content else { return false };
    let is_active = node.status.active.as_ref().is_some_and(|active| active.names_same(source));
    let verified = if is_active { content.active } else { content.assigned };
    verified.zip(index.hash(source)).is_some_and(|(verified, found)| verified != found)
}

/// Sets the disruption of a rollback on each step whose node can be rolled back, if the policy does not allow it.
pub(super) fn assess_rollbacks<'a>(pool: &Pool, steps: impl Iterator<Item = &'a mut Step>, sets: &[ChangeSet]) {
    let allowed = pool.policy.allow_disruption;
    let needs: BTreeMap<Option<&ConfigSource>, Option<Class>> = sets
        .iter()
        .map(|set| {
            (set.from.as_ref(), set.fields.iter().filter_map(rollback_class).max().filter(|class| *class > allowed))
        })
        .collect();
    for step in steps.filter(|step| step.can_return && step.action == Action::Assign) {
        let from = step.assignment.from.as_ref().map(without_version);
        step.rollback_needs = needs.get(&from.as_ref()).copied().flatten();
    }
}

/// Risk class of reverting a change, if both sides are known.
fn rollback_class(field: &ChangedField) -> Option<Class> {
    let FieldChange { path, old, new, .. } = &field.change;
    field.risk.as_ref().map(|_| risk::of_change(path, new.as_deref(), old.as_deref()).class)
}

/// Redacts values that may be secrets, or contain one.
fn redacted(mut change: FieldChange) -> FieldChange {
    for value in change.old.iter_mut().chain(&mut change.new) {
        *value = secrets::redacted(&change.path, value);
    }
    change
}

/// Risk of a change by the risk table, without state files that neither configuration uses.
fn risk_of(change: &FieldChange, old: &Document, new: &Document) -> Risk {
    let mut risk = risk::of_change(&change.path, change.old.as_deref(), change.new.as_deref());
    risk.state_files.retain(|file| {
        let (field, value) = file.policy();
        [old, new].iter().any(|document| document.root.get(field).and_then(Value::text) == Some(value))
    });
    risk
}

/// Fix for a refused change.
#[must_use]
pub fn fix(pool: &PoolName, worst: Class, state_files: &[StateFile]) -> String {
    let allow = format!("set spec.rollout.allowDisruption: {worst} in pools/{pool}/pool.yaml");
    let first = match worst {
        Class::None | Class::Restart => String::new(),
        Class::Drain if state_files.is_empty() => "drain the nodes first (nodecfg does not drain), then ".to_owned(),
        Class::Drain => {
            let files: Vec<String> = state_files.iter().map(|file| format!("/var/lib/kubelet/{file}")).collect();
            let files = files.join(" and ");
            format!("drain the nodes first (nodecfg does not drain), delete {files} before the kubelet starts, then ")
        }
        Class::Replace => "create new nodes with this configuration, or drain the nodes first and ".to_owned(),
        Class::Never => "revert the change, or accept the loss of pods and ".to_owned(),
    };
    format!("{first}{allow}")
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{
        desired, fetched, namespace, node, observed, on, options, policy, pool, refusing, rendered_of, source,
        with_config_map,
    };
    use super::super::{Scope, check, make};
    use super::*;
    use crate::desired::{Desired, Rendered};
    use nodecfg_contract::error_text;
    use nodecfg_contract::observed::{KubeletVersion, Observed};

    /// A configuration with these fields. A static CPU policy needs a reservation, so one is added if missing.
    fn config(fields: &str) -> Rendered {
        let reserved = if fields.contains("kubeReserved") { "" } else { "\nkubeReserved: {cpu: 500m}" };
        rendered_of("a", &format!("{fields}{reserved}"))
    }

    /// Desired state with one pool that has these fields and allows `allowed`.
    fn wants(fields: &str, allowed: Class) -> Desired {
        let mut pool = pool("a", 0, policy(1));
        pool.policy.allow_disruption = allowed;
        pool.target = PoolTarget::Config(Box::new(config(fields)));
        desired([pool])
    }

    /// A cluster with these nodes and the readable contents of these configurations.
    fn cluster(nodes: impl IntoIterator<Item = Node>, configs: &[&str]) -> Observed {
        // Configurations of kubelets this old are not checked: these tests are about changes only.
        let old = |node| Node { kubelet_version: KubeletVersion::parse("v1.15.12"), ..node };
        let mut cluster = observed(nodes.into_iter().map(old));
        for fields in configs {
            let rendered = config(fields);
            with_config_map(&mut cluster, "a", &rendered);
            cluster.contents.extend([fetched(&rendered.source(&namespace()), &rendered.canonical, true)]);
        }
        cluster
    }

    fn runs(name: &str, fields: &str) -> Node {
        on(node(name, "a"), &config(fields).source(&namespace()))
    }

    fn planned(desired: &Desired, cluster: &Observed) -> Plan {
        let plan = make(desired, cluster, &options()).expect("can be planned");
        assert_eq!(check(&plan, desired, cluster, &Scope::Everything), []);
        plan
    }

    fn disruption(wanted: &str, allowed: Class, cluster: &Observed) -> Disruption {
        planned(&wants(wanted, allowed), cluster).pools.remove(0).disruption
    }

    #[test]
    fn refuses_cpu_policy_until_pool_allows_drain() {
        let cluster = cluster([runs("n1", "cpuManagerPolicy: none")], &["cpuManagerPolicy: none"]);
        let wanted = "cpuManagerPolicy: static\nmaxPods: 200";
        let plan = planned(&wants(wanted, Class::Restart), &cluster);
        assert!(plan.has_changes(), "it can be shown");
        let refusals = plan.refusals();
        assert_eq!(
            refusals.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["pool a: the change requires draining the node first (drain), but the pool allows at most restart: \
              cpuManagerPolicy (drain)"]
        );
        assert_eq!(
            refusals[0].help(),
            "drain the nodes first (nodecfg does not drain), delete /var/lib/kubelet/cpu_manager_state before the \
             kubelet starts, then set spec.rollout.allowDisruption: drain in pools/a/pool.yaml"
        );
        for allowed in [Class::Drain, Class::Replace, Class::Never] {
            assert_eq!(planned(&wants(wanted, allowed), &cluster).refusals(), []);
        }
        assert_eq!(disruption(wanted, Class::Drain, &cluster).state_files, [StateFile::CpuManagerState]);
    }

    #[test]
    fn counts_assigned_nodes_whose_kubelet_resets_readiness() {
        let of_versions = |versions: &[Option<&str>]| {
            let names: Vec<String> = (1..=versions.len()).map(|index| format!("n{index}")).collect();
            let mut cluster = cluster(names.iter().map(|name| runs(name, "maxPods: 64")), &["maxPods: 64"]);
            for (node, version) in cluster.nodes.values_mut().zip(versions) {
                node.kubelet_version = version.and_then(KubeletVersion::parse);
            }
            cluster
        };
        let unready = |wanted: &str, cluster: &Observed| disruption(wanted, Class::Drain, cluster).unready;
        let mixed = of_versions(&[Some("v1.34.9"), Some("v1.35.0"), Some("v1.99.0"), None]);
        assert_eq!(unready("maxPods: 65", &mixed), 2, "before 1.35, and unknown");
        assert_eq!(unready("maxPods: 64", &mixed), 0, "nothing restarts");
        let new = of_versions(&[Some("v1.35.0"), Some("v1.36.2")]);
        let gate = |on: bool| format!("featureGates: {{ChangeContainerStatusOnKubeletRestart: {on}}}");
        assert_eq!((unready(&gate(false), &new), unready(&gate(true), &new)), (0, 2));
    }

    #[test]
    fn states_disruption_of_rollback_separately() {
        let needs = |from: &str, wanted: &str, allowed| {
            let plan = planned(&wants(wanted, allowed), &cluster([runs("n1", from)], &[from]));
            let step = plan.pools[0].steps().next().expect("a step").clone();
            assert!(step.can_return);
            step.rollback_needs
        };
        assert_eq!(needs("maxPods: 100", "maxPods: 130", Class::Restart), Some(Class::Drain));
        assert_eq!(needs("maxPods: 100", "maxPods: 130", Class::Drain), None);
        assert_eq!(needs("maxPods: 130", "maxPods: 100", Class::Drain), None);
        // The checker rejects a plan without it.
        let cluster = cluster([runs("n1", "maxPods: 100")], &["maxPods: 100"]);
        let desired = wants("maxPods: 130", Class::Restart);
        let mut plan = planned(&desired, &cluster);
        plan.pools[0].waves[0].steps[0].rollback_needs = None;
        let violations = check(&plan.identified(), &desired, &cluster, &Scope::Everything);
        assert_eq!(
            violations.iter().map(|v| v.problem.as_str()).collect::<Vec<_>>(),
            ["the disruption of its rollback is stated wrongly"]
        );
    }

    #[test]
    fn refuses_each_class_above_the_allowed_one() {
        for (fields, class) in [
            ("syncFrequency: 2m", Class::None),
            ("clusterDNS: [10.0.0.1]", Class::Restart),
            ("podPidsLimit: 100", Class::Drain),
            ("cgroupDriver: systemd", Class::Replace),
            ("runOnce: true", Class::Never),
        ] {
            let cluster = cluster([runs("n1", "maxPods: 64")], &["maxPods: 64"]);
            for allowed in Class::ALL {
                let found = disruption(&format!("{fields}\nmaxPods: 64"), allowed, &cluster);
                assert_eq!(found.worst, Some(class), "{fields}");
                assert_eq!(found.refused, class > allowed, "{fields}, {allowed} allowed");
            }
        }
    }

    #[test]
    fn accepts_unknown_current_configuration() {
        let gone = on(node("n2", "a"), &source("fleet-a-gone"));
        let mut cluster = cluster([node("n1", "a"), gone], &[]);
        let owner = super::super::fixtures::managed("fleet-a-gone", Some("fleet"), Some("a"), None);
        cluster.config_maps.insert(
            nodecfg_contract::observed::ConfigMapKey {
                namespace: "kube-system".to_owned(),
                name: "fleet-a-gone".to_owned(),
            },
            owner,
        );
        let found = disruption("cpuManagerPolicy: static", Class::None, &cluster);
        assert_eq!(found, Disruption { unknown: 2, unready: 2, ..Disruption::default() });
        // The local configuration is unknown as a target as well.
        let mut local = pool("a", 0, policy(1));
        local.target = PoolTarget::Local;
        let cluster = self::cluster([runs("n1", "maxPods: 64")], &["maxPods: 64"]);
        let plan = planned(&desired([local]), &cluster);
        assert_eq!(plan.pools[0].disruption, Disruption { unknown: 1, unready: 1, ..Disruption::default() });
        assert_eq!(plan.refusals(), []);
    }

    #[test]
    fn takes_highest_class_of_all_current_configurations() {
        let (same, other) = ("cpuManagerPolicy: static\nmaxPods: 64", "maxPods: 64");
        let cluster = cluster([runs("n1", same), runs("n2", other), node("n3", "a")], &[same, other]);
        let found = disruption("cpuManagerPolicy: static\nmaxPods: 100", Class::Restart, &cluster);
        assert_eq!((found.worst, found.unknown, found.refused), (Some(Class::Drain), 1, true));
    }

    #[test]
    fn ignores_configuration_that_the_node_refused() {
        let (good, bad) = ("maxPods: 64", "maxPods: 64\ncpuManagerPolicy: static");
        let bad_source = config(bad).source(&namespace());
        // The node refused the new policy and still runs the old one. Reverting the new one has no effect on it.
        let mut node = runs("n1", good);
        let active = node.status.active.clone();
        node = refusing(node, &bad_source, error_text::VALIDATE);
        node.status.active = active;
        let cluster = cluster([node.clone()], &[good, bad]);
        let found = disruption(good, Class::None, &cluster);
        assert_eq!((found.worst, found.unknown, found.refused), (None, 0, false));
        // Without an error in its status, the node may run either configuration.
        node.status.error = None;
        let cluster = self::cluster([node], &[good, bad]);
        assert!(disruption(good, Class::Restart, &cluster).refused);
    }

    #[test]
    fn never_refuses_plan_without_effect() {
        let wanted = "cpuManagerPolicy: static";
        let cluster = cluster([runs("n1", wanted)], &[wanted]);
        assert_eq!(disruption(wanted, Class::None, &cluster), Disruption::default());
        // Writing out a default is a change without an effect.
        let found = disruption("cpuManagerPolicy: static\ntopologyManagerPolicy: none", Class::None, &cluster);
        assert_eq!((found.worst, found.refused), (Some(Class::None), false));
    }

    #[test]
    fn lists_state_file_only_if_a_policy_uses_it() {
        let change = |policy: &str| {
            let (old, new) =
                (format!("{policy}kubeReserved: {{cpu: '1'}}"), format!("{policy}kubeReserved: {{cpu: '2'}}"));
            disruption(&new, Class::Drain, &cluster([runs("n1", &old)], &[&old])).state_files
        };
        assert_eq!(change("cpuManagerPolicy: static\n"), [StateFile::CpuManagerState]);
        assert_eq!(change("memoryManagerPolicy: Static\n"), []);
        assert_eq!(change(""), []);
    }

    #[test]
    fn checker_rejects_understated_risk() {
        let cluster = cluster([runs("n1", "maxPods: 64")], &["maxPods: 64"]);
        let desired = wants("cgroupDriver: systemd\nmaxPods: 64", Class::Restart);
        let plan = planned(&desired, &cluster);
        let edits: [fn(&mut Disruption, &mut Vec<ChangeSet>); 4] = [
            |disruption, _| disruption.refused = false,
            |disruption, _| disruption.worst = Some(Class::None),
            |_, sets| sets.clear(),
            |_, sets| sets.iter_mut().flat_map(|set| &mut set.fields).for_each(|field| field.risk = None),
        ];
        for edit in edits {
            let mut plan = plan.clone();
            let pool = &mut plan.pools[0];
            edit(&mut pool.disruption, &mut pool.changes);
            assert!(!check(&plan.identified(), &desired, &cluster, &Scope::Everything).is_empty());
        }
    }
}
