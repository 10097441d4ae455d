//! Tests of what plans state about drains, and of the checker with plans that were edited after planning.

use super::fixtures::{
    desired, fetched, namespace, node, node_name, observed, on, options, policy, pool, rendered_of, replacing,
    with_config_map,
};
use super::{Action, Plan, Release, Scope, Step, check, make};
use crate::drain::fixtures::mark;
use jiff::Timestamp;
use kubelet_config::risk::Class;
use nodecfg_contract::{ConfigSource, ContentHash};
use nodecfg_fleet::{Desired, Pool, PoolTarget, RolloutPolicy};
use nodecfg_observed::{Node, NodeContent, Observed};

const NONE: &str = "cpuManagerPolicy: none\n";
const STATIC: &str = "cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\n";
/// Differs from `NONE` in a field whose change restarts the kubelet.
const DNS: &str = "cpuManagerPolicy: none\nclusterDNS: [10.0.0.9]\n";

fn source(fields: &str) -> ConfigSource {
    rendered_of("a", fields).source(&namespace())
}

fn hash(fields: &str) -> ContentHash {
    rendered_of("a", fields).hash
}

/// Repository with one pool that wants these fields.
fn wants(fields: &str, allow_disruption: Class) -> Desired {
    let target = PoolTarget::Config(Box::new(rendered_of("a", fields)));
    let policy = RolloutPolicy { allow_disruption, ..policy(1) };
    desired([Pool { targets: target.into(), ..pool("a", 64, policy) }])
}

fn cluster(node: Node) -> Observed {
    let mut cluster = observed([node]);
    for fields in [NONE, STATIC, DNS] {
        let rendered = rendered_of("a", fields);
        with_config_map(&mut cluster, "a", &rendered);
        cluster.contents.extend([fetched(&source(fields), &rendered.canonical, true)]);
    }
    cluster
}

fn runs(fields: &str) -> Node {
    on(node("n1", "a"), &source(fields))
}

fn marked(node: Node) -> Node {
    Node { drain_mark: Some(Box::new(mark("a"))), ..node }
}

fn planned(desired: &Desired, observed: &Observed) -> Plan {
    let plan = make(desired, observed, &options()).expect("can be planned");
    assert_eq!(check(&plan, desired, observed, &Scope::Everything), [], "the checker accepts the plan");
    plan
}

/// The step of the node in a plan to these fields, in a pool that drains.
fn step(fields: &str, node: Node) -> Step {
    planned(&wants(fields, Class::Drain), &cluster(node)).pools[0].steps().next().expect("a step").clone()
}

/// Violations of a plan after this edit.
fn violations(desired: &Desired, observed: &Observed, edit: impl FnOnce(&mut Plan)) -> Vec<String> {
    let mut plan = planned(desired, observed);
    edit(&mut plan);
    check(&plan.identified(), desired, observed, &Scope::Everything).iter().map(ToString::to_string).collect()
}

fn first(plan: &mut Plan) -> &mut Step {
    &mut plan.pools[0].waves[0].steps[0]
}

#[test]
fn checker_rejects_drains_that_are_missing_or_not_allowed() {
    let cluster = cluster(runs(NONE));
    let drained = wants(STATIC, Class::Drain);
    let undrained = |plan: &mut Plan| {
        let step = first(plan);
        (step.drain, step.assignment.max_disruption) = (false, Class::Restart);
    };
    assert_eq!(violations(&drained, &cluster, undrained), ["node n1: is changed without the drain that it needs"]);
    assert_eq!(
        violations(&drained, &cluster, |plan| first(plan).rollback_drain = false),
        ["node n1: is rolled back without the drain that it needs"]
    );
    assert_eq!(
        violations(&wants(DNS, Class::Drain), &cluster, |plan| first(plan).assignment.max_disruption = Class::Drain),
        ["node n1: may be disrupted more or less than its pool allows"]
    );
    let drain = |plan: &mut Plan| {
        let step = first(plan);
        (step.drain, step.rollback_drain) = (true, true);
    };
    assert_eq!(
        violations(&wants(DNS, Class::Restart), &cluster, drain),
        ["node n1: is drained although its pool drains no nodes"]
    );
}

#[test]
fn checker_rejects_releases_that_are_missing_or_wrong() {
    let wrong = ["node n1: the release of its mark is wrong"];
    let converged = cluster(marked(runs(STATIC)));
    let desired = wants(STATIC, Class::Drain);
    assert_eq!(violations(&desired, &converged, |plan| plan.releases.clear()), wrong);
    assert_eq!(
        violations(&desired, &converged, |plan| plan.releases[0].uid = "other".to_owned()),
        ["node n1: is not the Node that is released"]
    );
    let release =
        || Release { node: node_name("n1"), uid: "uid-n1".to_owned(), since: Timestamp::UNIX_EPOCH, tainted: true };
    // A node without a mark, and one whose step needs the mark.
    assert_eq!(violations(&desired, &cluster(runs(STATIC)), |plan| plan.releases.push(release())), wrong);
    let pending = cluster(marked(runs(NONE)));
    assert_eq!(violations(&desired, &pending, |plan| plan.releases.push(release())), wrong);
}

#[test]
fn checker_rejects_marked_node_that_is_called_available() {
    let called = "node n1: is not available but called available";
    let desired = wants(STATIC, Class::Drain);
    assert_eq!(
        violations(&desired, &cluster(marked(runs(NONE))), |plan| first(plan).available = true),
        [called, "node n1: is available but starts without budget"]
    );
    let left = |plan: &mut Plan| plan.pools[0].left_alone[0].unavailable = false;
    assert_eq!(violations(&desired, &cluster(marked(runs(STATIC))), left), [called]);
}

#[test]
fn mark_of_a_deleted_node_is_not_released() {
    let deleting = Node { deleting: true, ..marked(runs(STATIC)) };
    assert_eq!(planned(&wants(STATIC, Class::Drain), &cluster(deleting)).releases, []);
}

#[test]
fn return_to_the_local_configuration_is_drained() {
    let mut desired = wants(STATIC, Class::Drain);
    desired.pools.values_mut().for_each(|pool| pool.targets = PoolTarget::Local.into());
    let plan = planned(&desired, &cluster(runs(STATIC)));
    assert_eq!(plan.pools[0].drains(), 1);
}

/// A name proves no content.
#[test]
fn node_that_runs_other_content_than_its_config_map_is_drained() {
    let agent = |active: &str| {
        let content = NodeContent {
            assigned: Some(hash(NONE)),
            active: Some(hash(active)),
            max_disruption: None,
            self_assigned: false,
            ..replacing()
        };
        step(DNS, Node { content: Some(content), ..runs(NONE) }).drain
    };
    assert!(!agent(NONE));
    assert!(agent(STATIC));
}

#[test]
fn undrained_assignment_is_complete_with_the_class_restart() {
    let agent = |allowed| {
        let content = NodeContent {
            assigned: Some(hash(DNS)),
            active: Some(hash(NONE)),
            max_disruption: Some(allowed),
            self_assigned: false,
            ..replacing()
        };
        step(DNS, Node { source: Some(source(DNS)), content: Some(content), ..runs(NONE) }).action
    };
    assert!(matches!(agent(Class::Restart), Action::Await { .. }));
    assert_eq!(agent(Class::None), Action::Assign);
}

#[test]
fn added_hash_allows_no_disruption_that_needs_a_drain() {
    let content = NodeContent {
        assigned: None,
        active: Some(hash(STATIC)),
        max_disruption: None,
        self_assigned: false,
        ..replacing()
    };
    let agent = Node { content: Some(content), ..runs(STATIC) };
    let plan = planned(&wants(STATIC, Class::Drain), &cluster(agent));
    let added = plan.pools[0].left_alone[0].completion.as_ref().expect("adds the hash");
    assert_eq!(added.max_disruption, Class::Restart);
}

/// A missing right must not end a rollout half-way.
#[test]
fn plan_states_every_right_that_its_drains_need() {
    let needs = |fields: &str, node: Node| {
        let plan = planned(&wants(fields, Class::Drain), &cluster(node));
        (plan.drains_nodes(), plan.has_changes())
    };
    assert_eq!(needs(STATIC, runs(NONE)), (true, true));
    assert_eq!(needs(DNS, runs(NONE)), (false, true));
    assert_eq!(needs(STATIC, runs(STATIC)), (false, false));
    // A kubelet can register with a mark, which must not make a plan need more rights.
    assert_eq!(needs(STATIC, marked(runs(STATIC))), (false, true));
    let assigned = Node { source: Some(source(DNS)), ..marked(runs(NONE)) };
    assert_eq!(needs(DNS, assigned), (false, false));
    // Only the rollback needs a drain.
    let mut fewer = observed([on(node("n1", "a"), &source("maxPods: 64\n"))]);
    let rendered = rendered_of("a", "maxPods: 64\n");
    with_config_map(&mut fewer, "a", &rendered);
    fewer.contents.extend([fetched(&source("maxPods: 64\n"), &rendered.canonical, true)]);
    let plan = planned(&wants("maxPods: 110\n", Class::Drain), &fewer);
    assert_eq!((plan.pools[0].drains(), plan.drains_nodes()), (0, true));
}
