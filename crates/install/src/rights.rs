//! The rights of a role one by one, as `nodecfg doctor` asks about them and as they are granted.

use nodecfg_contract::installation::Right;
use serde_json::Value;

use super::rbac;

/// What a sync needs: every right of the reconciler's roles, none twice. `agents`: NodeConfigs carry the assignments.
#[must_use]
pub fn of_a_sync(agents: bool, namespace: &str) -> Vec<Right> {
    match agents {
        true => of_roles(&rbac::reconciler(namespace)),
        false => of_roles(&rbac::reconciler_of_nodes(namespace, namespace)),
    }
}

/// What a sync of a saved plan needs besides.
#[must_use]
pub fn of_saved_plans(namespace: &str) -> Vec<Right> {
    of_roles(&rbac::saved_plans(namespace))
}

/// What `capture` and `init` need: to ask kubelets for their configuration through the API server.
#[must_use]
pub fn of_capture(namespace: &str) -> Vec<Right> {
    of_roles(&rbac::capture(namespace))
}

/// What `prune` needs: every right of the pruner's roles. `agents` as with [`of_a_sync`].
#[must_use]
pub fn of_prune(agents: bool, namespace: &str) -> Vec<Right> {
    match agents {
        true => of_roles(&rbac::pruner(namespace)),
        false => of_roles(&rbac::pruner_of_nodes(namespace, namespace)),
    }
}

/// The rights of roles, each verb on each resource, sorted.
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
    fn every_right_of_the_roles_is_there_in_words() {
        let words = |rights: Vec<Right>| rights.iter().map(ToString::to_string).collect::<Vec<_>>();
        let nodes = words(of_a_sync(false, "kube-system"));
        assert_eq!(nodes.len(), 11, "{nodes:?}");
        assert!(
            nodes.contains(&"patch nodes".to_owned())
                && nodes.contains(&"create events in namespace default".to_owned())
        );
        let agents = words(of_a_sync(true, "nodecfg-system"));
        assert_eq!(agents.len(), 15, "{agents:?}");
        assert!(agents.contains(&"patch nodeconfigs.nodecfg.dev".to_owned()));
        assert!(!agents.contains(&"patch nodes".to_owned()));
        assert_eq!(words(of_saved_plans("x")), ["get namespaces kube-system"]);
        assert_eq!(words(of_capture("x")), ["get nodes", "list nodes", "get nodes/proxy"]);
        for agents in [true, false] {
            let (sync, mut prune) = (of_a_sync(agents, "x"), of_prune(agents, "x"));
            prune.retain(|right| !sync.contains(right));
            assert_eq!(words(prune), ["delete configmaps in namespace x"]);
        }
    }

    #[test]
    fn a_rule_grants_just_that() {
        let rule = of_saved_plans("x").pop().unwrap().rule();
        assert_eq!(
            rule,
            "# of a ClusterRole that is bound to the user\n- apiGroups: [\"\"]\n  resources: [namespaces]\n  \
             resourceNames: [kube-system]\n  verbs: [get]"
        );
    }
}
