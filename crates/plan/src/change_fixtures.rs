//! Clusters that run one configuration and plans to another, for the tests of changes.

#![expect(missing_docs, reason = "each is a value named after what it is")]
#![expect(clippy::expect_used, reason = "what the tests write is well formed")]

use super::fixtures::{
    desired, fetched, namespace, node, observed, on, options, policy, pool, rendered_of, with_config_map,
};
use super::{Plan, Scope, check, make};
use kubelet_config::risk::Class;
use nodecfg_contract::KubeletVersion;
use nodecfg_fleet::{Desired, PoolTarget, Rendered};
use nodecfg_observed::{Node, Observed};

/// A configuration with these fields. A static CPU policy needs a reservation, so one is added if missing.
#[must_use]
pub fn config(fields: &str) -> Rendered {
    let reserved = if fields.contains("kubeReserved") { "" } else { "\nkubeReserved: {cpu: 500m}" };
    rendered_of("a", &format!("{fields}{reserved}"))
}

/// Desired state with one pool that has these fields and allows `allowed`.
#[must_use]
pub fn wants(fields: &str, allowed: Class) -> Desired {
    let mut pool = pool("a", 0, policy(1));
    pool.policy.allow_disruption = allowed;
    pool.targets = PoolTarget::Config(Box::new(config(fields))).into();
    desired([pool])
}

/// A cluster with these nodes and the readable contents of these configurations.
#[must_use]
pub fn cluster(nodes: impl IntoIterator<Item = Node>, configs: &[&str]) -> Observed {
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

#[must_use]
pub fn runs(name: &str, fields: &str) -> Node {
    on(node(name, "a"), &config(fields).source(&namespace()))
}

#[must_use]
pub fn planned(desired: &Desired, cluster: &Observed) -> Plan {
    let plan = make(desired, cluster, &options()).expect("can be planned");
    assert_eq!(check(&plan, desired, cluster, &Scope::Everything), []);
    plan
}
