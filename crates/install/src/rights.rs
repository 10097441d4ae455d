//! Rights of a role one by one, for the checks of `nodecfg doctor` and its instructions.

use nodecfg_contract::installation::Right;
use serde_json::Value;

use super::rbac;

/// Rights of a sync: all rights of the reconciler's roles, without duplicates. `agents`: NodeConfigs contain the
/// assignments.
#[must_use]
pub fn for_sync(agents: bool, namespace: &str) -> Vec<Right> {
    match agents {
        true => of_roles(&rbac::reconciler(namespace)),
        false => of_roles(&rbac::reconciler_of_nodes(namespace, namespace)),
    }
}

/// Additional rights of a sync with a saved plan.
#[must_use]
pub fn for_saved_plans(namespace: &str) -> Vec<Right> {
    of_roles(&rbac::saved_plans(namespace))
}

/// Additional rights of a sync that drains nodes.
#[must_use]
pub fn for_drain(namespace: &str) -> Vec<Right> {
    of_roles(&rbac::drainer(namespace))
}

/// Additional rights of a sync that moves pool pointers.
#[must_use]
pub fn for_pool_pointers(namespace: &str) -> Vec<Right> {
    of_roles(&rbac::pool_pointers(namespace, namespace))
}

/// Rights of `capture` and `init`, which read the configuration of kubelets through the API server.
#[must_use]
pub fn for_capture(namespace: &str) -> Vec<Right> {
    of_roles(&rbac::capture(namespace))
}

/// Rights of `prune`: all rights of its roles. `agents` as in [`for_sync`].
#[must_use]
pub fn for_prune(agents: bool, namespace: &str) -> Vec<Right> {
    match agents {
        true => of_roles(&rbac::pruner(namespace)),
        false => of_roles(&rbac::pruner_of_nodes(namespace, namespace)),
    }
}

/// Rights of roles, one per verb and resource, sorted.
fn of_roles(objects: &[Value]) -> Vec<Right> {
    let texts = |value: Option<&Value>| -> Vec<String> {
        let list = value.and_then(Value::as_array).into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut rights = Vec::new();
    for role in objects {
        let namespace = match role.get("kind").and_then(Value::as_str) {
            Some("ClusterRole") => None,
            Some("Role") => role.pointer("/metadata/namespace").and_then(Value::as_str).map(str::to_owned),
            _ => continue,
        };
        for rule in role.get("rules").and_then(Value::as_array).into_iter().flatten() {
            let name = texts(rule.get("resourceNames")).pop();
            for group in texts(rule.get("apiGroups")) {
                for resource in texts(rule.get("resources")) {
                    rights.extend(texts(rule.get("verbs")).into_iter().map(|verb| Right {
                        group: group.clone(),
                        resource: resource.clone(),
                        verb,
                        namespace: namespace.clone(),
                        name: name.clone(),
                    }));
                }
            }
        }
    }
    rights.sort();
    rights.dedup();
    rights
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_every_right_of_the_roles() {
        let words = |rights: Vec<Right>| rights.iter().map(ToString::to_string).collect::<Vec<_>>();
        let nodes = words(for_sync(false, "kube-system"));
        assert_eq!(nodes.len(), 11, "{nodes:?}");
        assert!(
            nodes.contains(&"patch nodes".to_owned())
                && nodes.contains(&"create events in namespace default".to_owned())
        );
        let agents = words(for_sync(true, "nodecfg-system"));
        assert_eq!(agents.len(), 15, "{agents:?}");
        assert!(agents.contains(&"patch nodeconfigs.nodecfg.dev".to_owned()));
        assert!(!agents.contains(&"patch nodes".to_owned()));
        assert_eq!(words(for_saved_plans("x")), ["get namespaces kube-system"]);
        assert_eq!(words(for_pool_pointers("x")), ["update configmaps in namespace x"]);
        assert_eq!(words(for_capture("x")), ["get nodes", "list nodes", "get nodes/proxy"]);
        assert_eq!(
            words(for_drain("x")),
            [
                "get nodes",
                "patch nodes",
                "delete pods",
                "list pods",
                "watch pods",
                "create pods/eviction",
                "list poddisruptionbudgets.policy",
                "list volumeattachments.storage.k8s.io"
            ]
        );
        for agents in [true, false] {
            let (sync, mut prune) = (for_sync(agents, "x"), for_prune(agents, "x"));
            prune.retain(|right| !sync.contains(right));
            assert_eq!(words(prune), ["delete configmaps in namespace x"]);
        }
    }

    #[test]
    fn rule_grants_exactly_the_right() {
        let grant = for_saved_plans("x").pop().unwrap().grant();
        assert_eq!(
            grant,
            "bind the user to a ClusterRole with the rule \
             {apiGroups: [\"\"], resources: [namespaces], resourceNames: [kube-system], verbs: [get]}"
        );
    }
}
