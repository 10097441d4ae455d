//! Tests of fields that leave an overlay.

use std::sync::Arc;

use super::ChangeSet;
use super::change_fixtures::{cluster, config, planned, runs, wants};
use super::fixtures::replacing;
use kubelet_config::risk::Class;
use nodecfg_contract::{KubeletVersion, Placement};
use nodecfg_fleet::Desired;
use nodecfg_observed::{Node, NodeConfigList, NodeContent, Observed, OwnValues};

/// A node of version 1.36 that overlays these fields, whose own configuration has these values as JSON.
fn overlays(name: &str, fields: &str, own: &[(&str, &str)], complete: bool) -> Node {
    let node = runs(name, fields);
    let hash = Some(config(fields).hash);
    let placement = Some(Placement::Overlay);
    let content = NodeContent { assigned: hash, active: hash, placement, active_placement: placement, ..replacing() };
    let values = own.iter().map(|(field, value)| ((*field).to_owned(), (*value).to_owned())).collect();
    Node { content: Some(content), own_values: Some(Arc::new(OwnValues { values, complete })), ..node }
}

fn overlaid(nodes: impl IntoIterator<Item = Node>, configs: &[&str]) -> Observed {
    let mut cluster = cluster(nodes, configs);
    cluster.versions.node_configs = Some(NodeConfigList::default());
    for node in cluster.nodes.values_mut() {
        node.kubelet_version = KubeletVersion::parse("v1.36.2");
    }
    cluster
}

/// Each set of changes: its nodes, and path, next value, and class of each field.
fn changes(desired: &Desired, cluster: &Observed) -> Vec<(usize, Vec<String>)> {
    let shown = |set: &ChangeSet| {
        let field = |field: &super::ChangedField| {
            let next = field.change.new.as_ref().or(field.new_default.as_ref()).map_or("-", String::as_str);
            let class = field.risk.as_ref().map_or_else(|| "unknown".to_owned(), |risk| risk.class.to_string());
            format!("{} {next} {class}", field.change.path)
        };
        (set.nodes, set.fields.iter().map(field).collect())
    };
    planned(desired, cluster).pools[0].changes.iter().map(shown).collect()
}

#[test]
fn field_returns_to_the_own_value() {
    let old = "maxPods: 150\nregistryPullQPS: 7";
    let next = |own: &[(&str, &str)], complete| {
        let cluster = overlaid([overlays("n1", old, own, complete)], &[old]);
        let sets = changes(&wants("maxPods: 150", Class::Restart), &cluster);
        assert_eq!(sets.len(), 1);
        sets[0].1.join("; ")
    };
    assert_eq!(next(&[("registryPullQPS", "9")], true), "registryPullQPS 9 none");
    assert_eq!(next(&[("registryPullQPS", "9")], false), "registryPullQPS 9 none", "others are missing");
    assert_eq!(next(&[("maxPods", "110"), ("registryPullQPS", "7")], true), "", "nothing changes");
    assert_eq!(next(&[], true), "registryPullQPS 5 none", "the default");
    assert_eq!(next(&[], false), "registryPullQPS - unknown");
}

/// An own map may have other keys, of which the agent reports nothing.
#[test]
fn key_of_a_map_without_an_own_value_stays_unknown() {
    let old = "maxPods: 150\nevictionHard: {memory.available: 500Mi}";
    let next = |own: &[(&str, &str)]| {
        let cluster = overlaid([overlays("n1", old, own, true)], &[old]);
        changes(&wants("maxPods: 150", Class::Restart), &cluster)[0].1.join("; ")
    };
    assert_eq!(
        next(&[("evictionHard[\"memory.available\"]", "\"100Mi\"")]),
        "evictionHard[\"memory.available\"] \"100Mi\" restart"
    );
    assert!(next(&[]).contains("evictionHard[\"memory.available\"] - unknown"), "{}", next(&[]));
}

#[test]
fn different_own_values_are_different_changes_up_to_a_limit() {
    let old = "maxPods: 150\nregistryPullQPS: 7";
    let of = |number: usize| {
        let own = |index: usize| format!("{}", index % 3 + 8);
        let nodes: Vec<Node> = (0..number)
            .map(|index| overlays(&format!("n{index:02}"), old, &[("registryPullQPS", own(index).as_str())], true))
            .collect();
        changes(&wants("maxPods: 150", Class::Restart), &overlaid(nodes, &[old]))
    };
    let one = |next: &str| vec![format!("registryPullQPS {next} none")];
    assert_eq!(of(7), [(2, one("10")), (3, one("8")), (2, one("9"))]);
    let each: Vec<Node> = (0..20)
        .map(|index| overlays(&format!("n{index:02}"), old, &[("registryPullQPS", &(index + 8).to_string())], true))
        .collect();
    let sets = changes(&wants("maxPods: 150", Class::Restart), &overlaid(each, &[old]));
    assert_eq!(sets.len(), 9);
    assert_eq!(sets[0], (12, vec!["registryPullQPS - unknown".to_owned()]), "nodes beyond the limit");
}

/// A pool has machines of several sizes: the field returns to another value on each.
#[test]
fn different_own_values_need_different_drains() {
    let old = "maxPods: 150\nregistryPullQPS: 7";
    let nodes = [("n1", "110"), ("n2", "250")].map(|(name, own)| overlays(name, old, &[("maxPods", own)], true));
    let plan = planned(&wants("registryPullQPS: 7", Class::Drain), &overlaid(nodes, &[old]));
    let drained: Vec<&str> = plan.pools[0].steps().filter(|step| step.drain).map(|step| step.node.as_str()).collect();
    assert_eq!(drained, ["n1"], "fewer pods need a drain, and more do not");
}

/// A node that lies about its own values needs a drain for its own rollback only.
#[test]
fn own_values_of_a_node_decide_its_own_rollback_alone() {
    let old = "maxPods: 150\nregistryPullQPS: 7";
    let nodes = [("n1", "110"), ("n2", "250")].map(|(name, own)| overlays(name, old, &[("maxPods", own)], true));
    let plan = planned(&wants("registryPullQPS: 7", Class::Drain), &overlaid(nodes.clone(), &[old]));
    let drained = |of: fn(&crate::Step) -> bool, plan: &crate::Plan| -> Vec<String> {
        plan.pools[0].steps().filter(|step| of(step)).map(|step| step.node.to_string()).collect()
    };
    assert_eq!(drained(|step| step.drain, &plan), ["n1"]);
    assert_eq!(drained(|step| step.rollback_drain, &plan), ["n1", "n2"]);
    let [_, up] = nodes;
    let down = overlays("n3", old, &[("maxPods", "150")], true);
    let plan = planned(&wants("registryPullQPS: 7", Class::Drain), &overlaid([up, down], &[old]));
    assert_eq!(drained(|step| step.rollback_drain, &plan), ["n2"], "only n2 returns to fewer pods");
}

/// Own values are those beneath the active overlay. Another assignment may cover other fields.
#[test]
fn assignment_that_is_not_active_has_no_own_values() {
    let (old, assigned) = ("maxPods: 150", "maxPods: 150\nregistryPullQPS: 7");
    let node = overlays("n1", old, &[], true);
    let content = node.content.map(|content| NodeContent { assigned: Some(config(assigned).hash), ..content });
    let node = Node { source: runs("n1", assigned).source, content, ..node };
    let sets = changes(&wants("maxPods: 160", Class::Restart), &overlaid([node], &[old, assigned]));
    let fields: Vec<&str> = sets.iter().flat_map(|(_, fields)| fields).map(String::as_str).collect();
    assert!(fields.contains(&"registryPullQPS - unknown"), "{fields:?}");
}

#[test]
fn known_own_value_spares_a_drain() {
    let old = "maxPods: 150\nregistryPullQPS: 7";
    let drains = |own: &[(&str, &str)], complete| {
        let cluster = overlaid([overlays("n1", old, own, complete)], &[old]);
        planned(&wants("maxPods: 150", Class::Drain), &cluster).pools[0].drains()
    };
    assert_eq!(drains(&[("registryPullQPS", "9")], true), 0);
    assert_eq!(drains(&[], true), 0);
    assert_eq!(drains(&[], false), 1, "the agent counts an unknown change as one that needs a drain");
}
