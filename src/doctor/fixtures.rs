//! Facts of a healthy cluster, for tests of the checks.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::*;
use nodecfg_contract::labels::{CONTENT_HASH_ANNOTATION, FLEET_LABEL, MANAGED_BY_LABEL, MANAGER};
use nodecfg_contract::{KubeletVersion, nodeconfig};
use nodecfg_fleet::RolloutPolicy;
use nodecfg_install::rights;
use nodecfg_observed::{AgentActivity, Node, Proof};
use nodecfg_plan::fixtures::{
    desired, fetched, fleet, namespace, node, observed, on, options, pool, rendered, with_config_map,
};

pub(super) fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

pub(super) fn ago(minutes: i64) -> Timestamp {
    now() - SignedDuration::from_mins(minutes)
}

/// A policy and its binding as the API server returns them, with its defaults.
pub(super) fn installed([mut policy, binding]: [Value; 2]) -> InstalledPolicy {
    let constraints = &mut policy["spec"]["matchConstraints"];
    for key in ["namespaceSelector", "objectSelector"] {
        if constraints.get(key).is_none() {
            constraints[key] = serde_json::json!({});
        }
    }
    constraints["matchPolicy"] = "Equivalent".into();
    constraints["resourceRules"][0]["scope"] = "*".into();
    InstalledPolicy { policy: Some(policy), binding: Some(binding) }
}

pub(super) fn cause(code: &str) -> Unavailable {
    Unavailable { code: code.to_owned(), message: format!("it failed: {code}"), help: "try again".to_owned() }
}

/// A healthy cluster: three nodes on the ConfigMap of their pool.
pub(super) fn healthy(agents: bool) -> Facts {
    let rendered = rendered("gpu", 110);
    let source = rendered.source(&namespace());
    let version = if agents { "v1.36.2" } else { "v1.21.14" };
    let kubelet_version = KubeletVersion::parse(version);
    let proof = agents.then(|| Arc::new(Proof::Known { overridden: Vec::new(), more: 0, above: Vec::new() }));
    let nodes =
        ["n1", "n2", "n3"].map(|name| Node { kubelet_version, proof: proof.clone(), ..on(node(name, "gpu"), &source) });
    let mut observed = observed(nodes);
    with_config_map(&mut observed, "gpu", &rendered);
    let (key, map) = fetched(&source, &rendered.canonical, true);
    let mut map = map.unwrap();
    map.labels =
        [(MANAGED_BY_LABEL, MANAGER), (FLEET_LABEL, "fleet")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    map.annotations = [(CONTENT_HASH_ANNOTATION.to_owned(), rendered.hash.to_string())].into();
    observed.contents.insert(key, Some(map));
    let agent = agents.then(|| AgentActivity { version: "0.1.0".to_owned(), last_seen: Some(ago(50)) });
    let signs = NodeActivity { heartbeat: Some(ago(2)), agent };
    let allowed = |rights: Vec<Right>, purpose| {
        rights.into_iter().map(move |right| CheckedRight { right, purpose, allowed: Ok(Some(true)) })
    };
    let pods = Pods { desired: 3, ready: 3 };
    Facts {
        program: "0.1.0".to_owned(),
        namespace: namespace(),
        server: Ok(Server {
            address: "https://api".to_owned(),
            found: "context prod".to_owned(),
            version: Ok(ServerVersion::read(version, "", "")),
            ahead: SignedDuration::ZERO,
            now: now(),
        }),
        rights: allowed(rights::for_sync(agents, "kube-system"), Purpose::Sync)
            .chain(allowed(rights::for_capture("kube-system"), Purpose::Only("capture")))
            .collect(),
        admission: Some(Ok(())),
        bound: Some(Ok(DetectedBinding { agents, evidence: "shown".to_owned() })),
        installed: agents.then(|| Installed {
            definition: Ok(Some(nodeconfig::definition())),
            own_status: Ok(installed(nodecfg_install::own_status_only(false))),
            own_node: Ok(InstalledPolicy::default()),
            config_maps: Ok(installed(nodecfg_install::config_maps_of(namespace().as_str(), &[]))),
            pods: Ok(Some(pods)),
        }),
        signs: observed.nodes.keys().map(|name| (name.clone(), signs.clone())).collect(),
        observed: Some(Ok(observed)),
        unlisted: None,
        unread: 0,
        locks: [(fleet(), Ok(Some(free())))].into(),
        repository: None,
    }
}

pub(super) fn free() -> Lock {
    Lock {
        lease: "kube-system/nodecfg-fleet".to_owned(),
        holder: None,
        since: None,
        expires: None,
        orders: Ok(Orders::default()),
    }
}

/// Facts with a repository that has these pools.
pub(super) fn with_pools(mut facts: Facts, pools: impl IntoIterator<Item = nodecfg_fleet::Pool>) -> Facts {
    let desired = desired(pools);
    let plan = facts.observed().map(|observed| nodecfg_plan::make(&desired, observed, &options()));
    facts.repository = Some(Ok(Repository { shown: ".".to_owned(), desired, warnings: 0, plan }));
    facts
}

pub(super) fn gpu() -> nodecfg_fleet::Pool {
    pool("gpu", 110, RolloutPolicy::default())
}
