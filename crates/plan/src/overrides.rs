//! Values of a configuration that will have no effect on some nodes: their agents report what flags and later files set.
//! Such a node does not converge unless the pool accepts that, so the plan says so before.

use std::collections::BTreeMap;

use crate::convergence::is_accepted;
use kubelet_config::NEWEST;
use kubelet_config::document::Node as Value;
use kubelet_config::effective::{is_same_value, named_values};
use kubelet_config::fields::secrets;
use kubelet_config::finding::Finding;
use nodecfg_contract::kubelet_values::{SetValue, origin};
use nodecfg_fleet::{Pool, PoolTarget};
use nodecfg_observed::{Node, Proof};

/// Warns of the values that something overrides on these nodes, which the plan assigns.
pub(super) fn override_warnings<'a>(pool: &Pool, nodes: impl Iterator<Item = &'a Node>) -> Vec<Finding> {
    let PoolTarget::Config(rendered) = &pool.target else { return Vec::new() };
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
        "pool {}: {field}: {} has no effect on {on}: {} sets {running}",
        pool.name,
        secrets::redacted(field, &value.to_json().to_string()),
        origin(by)
    );
    Finding::warning("value-overridden", message)
        .at(value.place.clone())
        .field(field)
        .help(format!("remove {} from the nodes, or accept it: spec.kubelet.acceptOverridden: [{field}]", origin(by)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::change_fixtures::{cluster, planned, runs, wants};
    use super::super::{Scope, check, fixtures};
    use super::*;
    use kubelet_config::risk::Class;
    use nodecfg_fleet::Desired;
    use nodecfg_observed::Observed;

    fn above(nodes: &[&str], sets: &[(&str, &str, &str)]) -> Observed {
        let mut cluster = cluster([runs("n1", "maxPods: 110"), runs("n2", "maxPods: 110")], &["maxPods: 110"]);
        let set = |(field, value, by): &(&str, &str, &str)| SetValue {
            field: (*field).to_owned(),
            value: (*value).to_owned(),
            by: (*by).to_owned(),
        };
        let above: Vec<SetValue> = sets.iter().map(set).collect();
        for node in nodes {
            let node = cluster.nodes.get_mut(&fixtures::node_name(node)).expect("a node");
            node.proof = Some(Arc::new(Proof::Known { overridden: Vec::new(), more: 0, above: above.clone() }));
        }
        cluster
    }

    fn messages(desired: &Desired, cluster: &Observed) -> Vec<String> {
        let plan = planned(desired, cluster);
        assert_eq!(check(&plan, desired, cluster, &Scope::Everything), []);
        plan.findings.iter().filter(|finding| finding.code == "value-overridden").map(|f| f.message.clone()).collect()
    }

    #[test]
    fn warns_of_values_that_will_have_no_effect() {
        let desired = wants("maxPods: 150\nevictionHard: {memory.available: 1Gi}\nsyncFrequency: 1h", Class::Replace);
        let sets = [
            ("maxPods", "120", "--max-pods"),
            ("registryPullQPS", "7", "--registry-qps"),
            ("syncFrequency", "\"1h0m0s\"", "--sync-frequency"),
            ("evictionHard.memory.available", "\"2Gi\"", "/etc/kubelet.d/95-other.conf"),
        ];
        assert_eq!(
            messages(&desired, &above(&["n1", "n2"], &sets)),
            [
                "pool a: maxPods: 150 has no effect on 2 nodes, such as n1: the flag --max-pods sets 120",
                "pool a: evictionHard.memory.available: \"1Gi\" has no effect on 2 nodes, such as n1: the file \
                 /etc/kubelet.d/95-other.conf sets \"2Gi\"",
            ]
        );
        let one = above(&["n2"], &sets[..1]);
        assert_eq!(
            messages(&desired, &one),
            ["pool a: maxPods: 150 has no effect on node n2: the flag --max-pods sets 120"]
        );
        let mut accepting = desired.clone();
        for pool in accepting.pools.values_mut() {
            pool.policy.accept_overridden = ["maxPods".to_owned()].into();
        }
        assert!(messages(&accepting, &one).is_empty());
    }
}
