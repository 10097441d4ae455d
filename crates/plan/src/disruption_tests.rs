//! Tests of the effect of changes on running pods.

use super::change_fixtures::{cluster, config, planned, runs, wants};
use super::disruption::Disruption;
use super::fixtures::{desired, namespace, node, on, policy, pool, refusing, rendered_of, source};
use super::{Scope, check};
use crate::changes::ChangeSet;
use kubelet_config::risk::{Class, Risk, StateFile};
use nodecfg_contract::{KubeletVersion, error_text};
use nodecfg_fleet::{Desired, PoolTarget};
use nodecfg_observed::Observed;

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
        "set spec.rollout.allowDisruption: drain in pools/a/pool.yaml, which drains each node first; without \
         node agents, delete /var/lib/kubelet/cpu_manager_state while a node is drained"
    );
    assert_eq!(
        refusals[0].clone().of_rollback().help(),
        "pass --allow-disruption drain --reason TEXT, which drains each node first; without node agents, delete \
         /var/lib/kubelet/cpu_manager_state while a node is drained; `nodecfg rollback a --dry-run -v` shows each field"
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
    let owner = super::fixtures::managed("fleet-a-gone", Some("fleet"), Some("a"), None);
    cluster.config_maps.insert(
        nodecfg_observed::ConfigMapKey { namespace: "kube-system".to_owned(), name: "fleet-a-gone".to_owned() },
        owner,
    );
    let found = disruption("cpuManagerPolicy: static", Class::None, &cluster);
    assert_eq!(found, Disruption { unknown: 2, unready: 2, ..Disruption::default() });
    // The local configuration is unknown as a target as well.
    let mut local = pool("a", 0, policy(1));
    local.targets = PoolTarget::Local.into();
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

/// Nodes `n1`… that run these fields, with kubelets of these versions.
fn of_versions(from: &str, versions: &[&str]) -> Observed {
    let names: Vec<String> = (1..=versions.len()).map(|index| format!("n{index}")).collect();
    let mut cluster = cluster(names.iter().map(|name| runs(name, from)), &[from]);
    for (node, version) in cluster.nodes.values_mut().zip(versions) {
        node.kubelet_version = KubeletVersion::parse(version);
    }
    cluster
}

#[test]
fn written_defaults_never_refuse() {
    let five = "evictionHard: {memory.available: 100Mi, nodefs.available: 10%, nodefs.inodesFree: 5%, \
                imagefs.available: 15%, imagefs.inodesFree: 5%}";
    let plan = planned(&wants(five, Class::Restart), &of_versions("", &["v1.30.1", "v1.36.2"]));
    let pool = &plan.pools[0];
    assert_eq!((pool.disruption.worst, pool.disruption.refused), (Some(Class::None), false));
    assert_eq!(pool.assignments(), 2, "the content differs");
    assert!(pool.changes[0].fields.iter().all(|field| field.no_effect && field.old_default.is_some()));
    assert_eq!(pool.steps().next().unwrap().rollback_needs, None);
    // The signal has no default before 1.30, so it is new there. The plan is as risky as for the worst version.
    let mixed = planned(&wants(five, Class::Restart), &of_versions("", &["v1.29.1", "v1.36.2"]));
    assert_eq!(mixed.refusals().len(), 1);
    assert!(mixed.pools[0].changes[0].fields.iter().any(|field| !field.no_effect && field.old_default.is_none()));
}

#[test]
fn riskiest_version_decides_about_change_and_rollback() {
    let lower = "evictionHard: {memory.available: 100Mi, nodefs.available: 10%, nodefs.inodesFree: 5%, \
                 imagefs.available: 15%, imagefs.inodesFree: 4%}";
    let effect = |versions: &[&str]| {
        let plan = planned(&wants(lower, Class::Restart), &of_versions("", versions));
        let needs = plan.pools[0].steps().next().and_then(|step| step.rollback_needs);
        (plan.pools[0].disruption.worst, plan.refusals().len(), needs)
    };
    // Before 1.30 the signal has no default: the change adds a threshold, and the rollback removes it.
    assert_eq!(effect(&["v1.29.1"]), (Some(Class::Drain), 1, Some(Class::Drain)));
    assert_eq!(effect(&["v1.36.2"]), (Some(Class::Restart), 0, Some(Class::Drain)));
    assert_eq!(effect(&["v1.29.1", "v1.36.2"]), (Some(Class::Drain), 1, Some(Class::Drain)));
}

#[test]
fn change_of_unknown_content_to_no_fields_has_an_unknown_risk() {
    let mut wanted = wants("", Class::None);
    let pool = wanted.pools.values_mut().next().unwrap();
    pool.targets = PoolTarget::Config(Box::new(rendered_of("a", ""))).into();
    let plan = planned(&wanted, &cluster([node("n1", "a")], &[]));
    assert_eq!(plan.pools[0].disruption.unknown, 1);
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
        let (old, new) = (format!("{policy}kubeReserved: {{cpu: '1'}}"), format!("{policy}kubeReserved: {{cpu: '2'}}"));
        disruption(&new, Class::Drain, &cluster([runs("n1", &old)], &[&old])).state_files
    };
    assert_eq!(change("cpuManagerPolicy: static\n"), [StateFile::CpuManagerState]);
    assert_eq!(change("memoryManagerPolicy: Static\n"), []);
    assert_eq!(change(""), []);
}

/// Problems that the checker finds in a plan that states no effect for its first change.
fn problems_without_effect(desired: &Desired, cluster: &Observed, edit: impl FnOnce(&mut ChangeSet)) -> Vec<String> {
    let mut plan = planned(desired, cluster);
    let pool = &mut plan.pools[0];
    for field in &mut pool.changes[0].fields {
        (field.in_effect, field.risk) = (Vec::new(), Some(Risk::no_effect()));
    }
    edit(&mut pool.changes[0]);
    pool.disruption = Disruption { worst: Some(Class::None), refused: false, ..pool.disruption.clone() };
    pool.waves.iter_mut().flat_map(|wave| &mut wave.steps).for_each(|step| step.rollback_needs = None);
    let violations = check(&plan.identified(), desired, cluster, &Scope::Everything);
    violations.into_iter().map(|violation| violation.problem).collect()
}

#[test]
fn checker_rejects_change_whose_effect_is_denied() {
    let cluster = cluster([runs("n1", "maxPods: 64")], &["maxPods: 64"]);
    let desired = wants("maxPods: 50", Class::Restart);
    let denied = |no_effect| {
        problems_without_effect(&desired, &cluster, |set| {
            set.fields.iter_mut().for_each(|field| field.no_effect = no_effect)
        })
    };
    assert_eq!(denied(true), ["the change of maxPods has an effect"]);
    assert_eq!(denied(false), ["the effect of maxPods is stated wrongly"]);
}

#[test]
fn checker_rejects_risk_of_unknown_content() {
    let cluster = cluster([node("n1", "a")], &[]);
    let problems =
        problems_without_effect(&wants("maxPods: 64", Class::Restart), &cluster, |set| set.from_known = true);
    assert!(problems.contains(&"the risk of maxPods differs from the risk table".to_owned()), "{problems:?}");
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

#[test]
fn fix_of_an_omitted_field_is_to_name_it() {
    let help = |from: &str, wanted: &str| {
        let plan = planned(&wants(wanted, Class::Restart), &cluster([runs("n1", from)], &[from]));
        plan.refusals().first().map(super::Problem::help).expect("a refusal")
    };
    let replace = "or create new nodes with this configuration, or set spec.rollout.allowDisruption: replace in \
                   pools/a/pool.yaml, which drains each node first";
    assert_eq!(
        help("cgroupDriver: systemd", "maxPods: 200"),
        format!("write cgroupDriver: systemd, which the configuration omits, to keep what the nodes run; {replace}")
    );
    assert_eq!(
        help("cgroupDriver: systemd\ncgroupRoot: /x\nhairpinMode: none", "hairpinMode: hairpin-veth"),
        format!(
            "write cgroupDriver: systemd, cgroupRoot: /x, which the configuration omits, to keep what the nodes run; \
             {replace}"
        )
    );
    assert!(help("hairpinMode: none", "hairpinMode: hairpin-veth").starts_with("create new nodes"));
    // A value from a node is no text of the report.
    assert!(help("cgroupRoot: '`/x` **y** @z'", "maxPods: 200").starts_with("write cgroupRoot, which"));

    // Nodes with different values: none of them is right for all.
    let (one, other) = ("cgroupRoot: /x", "cgroupRoot: /y");
    let mixed = cluster([runs("n1", one), runs("n2", other)], &[one, other]);
    let plan = planned(&wants("maxPods: 200", Class::Restart), &mixed);
    assert!(plan.refusals()[0].help().starts_with("write cgroupRoot, which the configuration omits, "));
}

/// Changes of field reports, from one configuration to another, with class and state files.
#[test]
fn reported_changes_have_their_class_and_state_files() {
    let strict = "cpuManagerPolicy: static\nreservedSystemCPUs: 0-1\ncpuManagerPolicyOptions: {strict-cpu-reservation: \
                  \"true\"}";
    let loose = "cpuManagerPolicy: static\nreservedSystemCPUs: 0-1";
    let more = "cpuManagerPolicy: static\nreservedSystemCPUs: 0-2";
    let full =
        "cpuManagerPolicy: static\nreservedSystemCPUs: 0-1\ncpuManagerPolicyOptions: {full-pcpus-only: \"true\"}";
    let numa = "memoryManagerPolicy: Static\nreservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]";
    let (cpu, memory) = (StateFile::CpuManagerState, StateFile::MemoryManagerState);
    for (from, to, class, files) in [
        ("cpuManagerPolicy: none", "cpuManagerPolicy: static", Class::Drain, vec![cpu]),
        ("memoryManagerPolicy: None", numa, Class::Drain, vec![memory]),
        (loose, strict, Class::Drain, vec![cpu]),
        (loose, full, Class::Drain, vec![cpu]),
        (loose, more, Class::Drain, vec![cpu]),
        // Without the static policy no state depends on the CPUs.
        ("reservedSystemCPUs: 0-1", "reservedSystemCPUs: 0-2", Class::Drain, vec![]),
        ("maxPods: 110", "maxPods: 20", Class::Drain, vec![]),
        ("podPidsLimit: 4096", "podPidsLimit: 4096\nmaxPods: 20", Class::Drain, vec![]),
        ("staticPodPath: /etc/kubernetes/manifests", "staticPodPath: /srv/manifests", Class::Replace, vec![]),
    ] {
        for (from, to) in [(from, to), (to, from)] {
            let found = disruption(to, Class::Never, &cluster([runs("n1", from)], &[from]));
            let raised = from == "maxPods: 20" || from.ends_with("maxPods: 20");
            let class = if raised { Class::Restart } else { class };
            assert_eq!((found.worst, &found.state_files), (Some(class), &files), "{from} to {to}");
        }
    }
    let path = "staticPodPath: /etc/kubernetes/manifests";
    assert_eq!(
        disruption("maxPods: 110", Class::Never, &cluster([runs("n1", path)], &[path])).worst,
        Some(Class::Replace)
    );
}
