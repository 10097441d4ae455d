//! What the transitions of a pool do to pods that run on its nodes: which fields change from what each node runs now, the
//! class of each, the worst, and whether the pool's policy lets that happen.
//!
//! A node whose present configuration nodecfg cannot know, because it was provisioned with it or its ConfigMap is gone, has
//! no risk that could be known either. That is said, and no reason to refuse: every node begins like that.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::config_maps::ConfigMapIndex;
use super::decide::refuses;
use super::{Action, Plan, PoolPlan, Problem, Step};
use crate::desired::{Pool, PoolTarget};
use kubelet_config::document::{Document, FieldChange, Node as Value, changes};
use kubelet_config::risk::{self, Class, Risk, StateFile};
use kubelet_config::secrets;
use nodecfg_contract::ConfigSource;
use nodecfg_contract::names::PoolName;
use nodecfg_contract::observed::Node;

/// The fields that change for the nodes that leave one configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeSet {
    /// What they run now; unset: the local configuration, whose content is not known.
    pub from: Option<ConfigSource>,
    /// How many nodes. One that is on its way from one configuration to another counts for both.
    pub nodes: usize,
    /// Whether the present content is known. If not, every field of the new one is listed as set.
    pub from_known: bool,
    /// Field by field.
    pub fields: Vec<ChangedField>,
}

/// A field that changes, and what that does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangedField {
    /// The change.
    #[serde(flatten)]
    pub change: FieldChange,
    /// What it does to a node that runs pods. Unset when only one side of the change is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub risk: Option<Risk>,
}

/// What all transitions of a pool together do to pods that run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Disruption {
    /// The worst class of a field that changes; unset when no such change is known.
    pub worst: Option<Class>,
    /// State files that must be gone when the kubelet starts again.
    pub state_files: Vec<StateFile>,
    /// How many nodes run, or shall run, something whose content nodecfg does not know, and so with what risk.
    pub unknown: usize,
    /// Whether the worst is more than the pool's policy allows: then the plan must not be carried out.
    pub refused: bool,
}

impl ChangeSet {
    /// Whether both sides of its changes are known, so that their risk is.
    #[must_use]
    pub fn has_risk(&self) -> bool {
        self.from_known && self.fields.iter().all(|field| field.risk.is_some())
    }
}

impl Disruption {
    /// Sums up the changes of a pool that allows no more than `allowed`.
    fn of(sets: &[ChangeSet], allowed: Class) -> Self {
        let fields: Vec<&ChangedField> = sets.iter().flat_map(|set| &set.fields).collect();
        Self {
            unknown: sets.iter().filter(|set| !set.has_risk()).map(|set| set.nodes).sum(),
            ..Self::of_fields(fields, allowed)
        }
    }

    /// Sums up the changes of fields for a pool that allows no more than `allowed`, whichever nodes have them.
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
        }
    }
}

/// Which fields change from one configuration to another, and what each change does. One that is not known stands for a
/// configuration without fields, from or to which no risk is known.
#[must_use]
pub fn changed_fields(old: Option<&Document>, new: Option<&Document>) -> Vec<ChangedField> {
    let field = |change: FieldChange| {
        // First, so that whoever checks the plan comes to the same risk.
        let change = withheld(change);
        let risk = old.zip(new).map(|(old, new)| risk_of(&change, old, new));
        ChangedField { change, risk }
    };
    changes(old, new).into_iter().map(field).collect()
}

impl Plan {
    /// Why this plan must not be carried out, although it can be shown: pools whose changes do more to running pods than
    /// their policy allows.
    #[must_use]
    pub fn refusals(&self) -> Vec<Problem> {
        self.pools.iter().filter_map(refusal).collect()
    }
}

fn refusal(pool: &PoolPlan) -> Option<Problem> {
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

/// What a node runs now, or may be about to: what its kubelet reports as active, and what it was pointed at if it has not
/// refused that. Unset stands for the local configuration.
pub(super) fn starts(node: &Node) -> BTreeSet<Option<ConfigSource>> {
    let mut starts = BTreeSet::from([node.status.active.as_ref().map(named)]);
    if !refuses(node) {
        starts.insert(node.source.as_ref().map(named));
    }
    starts
}

/// A source as spec has it, without the version that a status names.
fn named(source: &ConfigSource) -> ConfigSource {
    match &source.config_map {
        Some(map) => ConfigSource::config_map(&map.namespace, &map.name, &map.kubelet_config_key),
        None => source.clone(),
    }
}

/// Groups the nodes that are to be assigned by what they run, and says for each group which fields change and what that
/// does.
pub(super) fn assess<'a>(
    pool: &Pool,
    assigned: impl Iterator<Item = &'a Node>,
    shelf: &ConfigMapIndex<'_>,
) -> (Vec<ChangeSet>, Disruption) {
    let mut groups: BTreeMap<Option<ConfigSource>, usize> = BTreeMap::new();
    for start in assigned.flat_map(starts) {
        *groups.entry(start).or_default() += 1;
    }
    let new = match &pool.target {
        PoolTarget::Local => None,
        PoolTarget::Config(rendered) => Some(&rendered.document),
    };
    let sets: Vec<ChangeSet> = groups
        .into_iter()
        .map(|(from, nodes)| {
            let old = from.as_ref().and_then(|source| shelf.document(source));
            let fields = changed_fields(old.as_ref(), new);
            ChangeSet { from, nodes, from_known: old.is_some(), fields }
        })
        .collect();
    let disruption = Disruption::of(&sets, pool.policy.allow_disruption);
    (sets, disruption)
}

/// Says of each step whose node could be pointed back what that would take, where the policy does not allow it.
pub(super) fn assess_ways_back<'a>(pool: &Pool, steps: impl Iterator<Item = &'a mut Step>, sets: &[ChangeSet]) {
    let allowed = pool.policy.allow_disruption;
    let needs: BTreeMap<Option<&ConfigSource>, Option<Class>> = sets
        .iter()
        .map(|set| (set.from.as_ref(), set.fields.iter().filter_map(class_back).max().filter(|class| *class > allowed)))
        .collect();
    for step in steps.filter(|step| step.can_return && step.action == Action::Assign) {
        let from = step.assignment.from.as_ref().map(named);
        step.back_needs = needs.get(&from.as_ref()).copied().flatten();
    }
}

/// What taking a change back does to a node that runs pods, where both sides are known.
fn class_back(field: &ChangedField) -> Option<Class> {
    let FieldChange { path, old, new, .. } = &field.change;
    field.risk.as_ref().map(|_| risk::of_change(path, new.as_deref(), old.as_deref()).class)
}

/// A change as it may be shown: that a value changes which may be a secret, or hold one, not to what.
fn withheld(mut change: FieldChange) -> FieldChange {
    for value in change.old.iter_mut().chain(&mut change.new) {
        *value = secrets::shown(&change.path, value);
    }
    change
}

/// What the table says of a change, but for state files that neither configuration makes anything of.
fn risk_of(change: &FieldChange, old: &Document, new: &Document) -> Risk {
    let mut risk = risk::of_change(&change.path, change.old.as_deref(), change.new.as_deref());
    risk.state_files.retain(|file| {
        let (field, value) = file.policy();
        [old, new].iter().any(|document| document.root.get(field).and_then(Value::text) == Some(value))
    });
    risk
}

/// The way out of a refusal.
#[must_use]
pub fn way_out(pool: &PoolName, worst: Class, state_files: &[StateFile]) -> String {
    let allow = format!("set spec.rollout.allowDisruption: {worst} in pools/{pool}/pool.yaml");
    let first = match worst {
        Class::None | Class::Restart => String::new(),
        Class::Drain if state_files.is_empty() => "drain the nodes first, which nodecfg does not, then ".to_owned(),
        Class::Drain => {
            let files: Vec<String> = state_files.iter().map(|file| format!("/var/lib/kubelet/{file}")).collect();
            let files = files.join(" and ");
            format!(
                "drain the nodes first, which nodecfg does not, see to it that {files} is gone when the kubelet starts, then "
            )
        }
        Class::Replace => {
            "better make new nodes with it. To reboot these ones after the change, drain them first, then ".to_owned()
        }
        Class::Never => "take it back. If no pod of these nodes matters, ".to_owned(),
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

    /// A configuration with these fields. A static CPU policy asks for a reservation, so there is always one.
    fn config(fields: &str) -> Rendered {
        let reserved = if fields.contains("kubeReserved") { "" } else { "\nkubeReserved: {cpu: 500m}" };
        rendered_of("a", &format!("{fields}{reserved}"))
    }

    /// A pool that wants these fields and allows this much.
    fn wants(fields: &str, allowed: Class) -> Desired {
        let mut pool = pool("a", 0, policy(1));
        pool.policy.allow_disruption = allowed;
        pool.target = PoolTarget::Config(Box::new(config(fields)));
        desired([pool])
    }

    /// A cluster with these nodes, where the content of these configurations is there to be read.
    fn cluster(nodes: impl IntoIterator<Item = Node>, configs: &[&str]) -> Observed {
        // Of kubelets this old nothing is judged: here it is the changes that count, not whether they are good.
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
        assert_eq!(check(&plan, cluster, &Scope::Everything), []);
        plan
    }

    fn disruption(wanted: &str, allowed: Class, cluster: &Observed) -> Disruption {
        planned(&wants(wanted, allowed), cluster).pools.remove(0).disruption
    }

    #[test]
    fn a_cpu_policy_is_refused_until_the_pool_allows_a_drain() {
        let cluster = cluster([runs("n1", "cpuManagerPolicy: none")], &["cpuManagerPolicy: none"]);
        let wanted = "cpuManagerPolicy: static\nmaxPods: 200";
        let plan = planned(&wants(wanted, Class::Restart), &cluster);
        assert!(plan.has_changes(), "it can be shown");
        let refusals = plan.refusals();
        assert_eq!(
            refusals.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["pool a: what changes needs the node drained first (drain), and the pool allows no more than \
              restart: cpuManagerPolicy (drain)"]
        );
        assert_eq!(
            refusals[0].help(),
            "drain the nodes first, which nodecfg does not, see to it that /var/lib/kubelet/cpu_manager_state is gone when \
             the kubelet starts, then set spec.rollout.allowDisruption: drain in pools/a/pool.yaml. `nodecfg diff -v` says why"
        );
        for allowed in [Class::Drain, Class::Replace, Class::Never] {
            assert_eq!(planned(&wants(wanted, allowed), &cluster).refusals(), []);
        }
        assert_eq!(disruption(wanted, Class::Drain, &cluster).state_files, [StateFile::CpuManagerState]);
    }

    #[test]
    fn what_the_way_back_needs_is_told_apart_from_the_way_there() {
        let needs = |from: &str, wanted: &str, allowed| {
            let plan = planned(&wants(wanted, allowed), &cluster([runs("n1", from)], &[from]));
            let step = plan.pools[0].steps().next().expect("a step").clone();
            assert!(step.can_return);
            step.back_needs
        };
        assert_eq!(needs("maxPods: 100", "maxPods: 130", Class::Restart), Some(Class::Drain));
        assert_eq!(needs("maxPods: 100", "maxPods: 130", Class::Drain), None);
        assert_eq!(needs("maxPods: 130", "maxPods: 100", Class::Drain), None);
        // A plan that hides it must not run.
        let cluster = cluster([runs("n1", "maxPods: 100")], &["maxPods: 100"]);
        let mut plan = planned(&wants("maxPods: 130", Class::Restart), &cluster);
        plan.pools[0].waves[0].steps[0].back_needs = None;
        let violations = check(&plan.identified(), &cluster, &Scope::Everything);
        assert_eq!(
            violations.iter().map(|v| v.problem.as_str()).collect::<Vec<_>>(),
            ["what its way back needs is misstated"]
        );
    }

    #[test]
    fn each_class_has_its_bound() {
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
    fn a_configuration_that_nodecfg_does_not_know_is_no_reason_to_refuse() {
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
        assert_eq!(found, Disruption { unknown: 2, ..Disruption::default() });
        // Back to the local configuration: what that is, is not known either.
        let mut local = pool("a", 0, policy(1));
        local.target = PoolTarget::Local;
        let cluster = self::cluster([runs("n1", "maxPods: 64")], &["maxPods: 64"]);
        let plan = planned(&desired([local]), &cluster);
        assert_eq!(plan.pools[0].disruption, Disruption { unknown: 1, ..Disruption::default() });
        assert_eq!(plan.refusals(), []);
    }

    #[test]
    fn the_worst_of_all_that_nodes_run_counts() {
        let (same, other) = ("cpuManagerPolicy: static\nmaxPods: 64", "maxPods: 64");
        let cluster = cluster([runs("n1", same), runs("n2", other), node("n3", "a")], &[same, other]);
        let found = disruption("cpuManagerPolicy: static\nmaxPods: 100", Class::Restart, &cluster);
        assert_eq!((found.worst, found.unknown, found.refused), (Some(Class::Drain), 1, true));
    }

    #[test]
    fn what_a_node_runs_counts_not_what_it_refused() {
        let (good, bad) = ("maxPods: 64", "maxPods: 64\ncpuManagerPolicy: static");
        let bad_source = config(bad).source(&namespace());
        // It refused the new policy and runs on with the old one. Taking the new one back does nothing to it.
        let mut node = runs("n1", good);
        let active = node.status.active.clone();
        node = refusing(node, &bad_source, error_text::VALIDATE);
        node.status.active = active;
        let cluster = cluster([node.clone()], &[good, bad]);
        let found = disruption(good, Class::None, &cluster);
        assert_eq!((found.worst, found.unknown, found.refused), (None, 0, false));
        // While it has not answered yet, it may run either.
        node.status.error = None;
        let cluster = self::cluster([node], &[good, bad]);
        assert!(disruption(good, Class::Restart, &cluster).refused);
    }

    #[test]
    fn nothing_to_do_is_never_refused() {
        let wanted = "cpuManagerPolicy: static";
        let cluster = cluster([runs("n1", wanted)], &[wanted]);
        assert_eq!(disruption(wanted, Class::None, &cluster), Disruption::default());
        // What is only written out changes nothing either.
        let found = disruption("cpuManagerPolicy: static\ntopologyManagerPolicy: none", Class::None, &cluster);
        assert_eq!((found.worst, found.refused), (Some(Class::None), false));
    }

    #[test]
    fn a_state_file_must_only_go_where_a_policy_makes_something_of_it() {
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
    fn a_plan_that_plays_down_its_risk_is_noticed() {
        let cluster = cluster([runs("n1", "maxPods: 64")], &["maxPods: 64"]);
        let plan = planned(&wants("cgroupDriver: systemd\nmaxPods: 64", Class::Restart), &cluster);
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
            assert!(!check(&plan.identified(), &cluster, &Scope::Everything).is_empty());
        }
    }
}
