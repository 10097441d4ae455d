//! Checks of the admission policies of `nodecfg install`: they exist, are bound, and equal those of this program.

use serde_json::Value;

use super::{Check, Fact, Installed, InstalledPolicy, not_checked};
use nodecfg_contract::installation::{OWN_NODE_POLICY, OWN_STATUS_POLICY, config_maps_policy};

pub(super) fn examine(installed: &Installed, namespace: &str, checks: &mut Vec<Check>) {
    let own_status = Wanted {
        code: "admission-policy",
        name: OWN_STATUS_POLICY,
        either: [false, true].map(nodecfg_install::own_status_only).to_vec(),
        harm: "the agent of one node can write the NodeConfigs of all nodes",
    };
    checks.push(own_status.check(&installed.own_status));
    // Only clusters whose agents are pods have it.
    if let Ok(InstalledPolicy { policy: Some(_), .. }) = &installed.own_node {
        let own_node = Wanted {
            code: "admission-policy",
            name: OWN_NODE_POLICY,
            either: vec![nodecfg_install::own_node_only()],
            harm: "the agent of one node can change all Nodes",
        };
        checks.push(own_node.check(&installed.own_node));
    }
    let found = installed.config_maps.as_ref().ok().and_then(|found| found.policy.as_ref());
    let own = nodecfg_install::config_map_writers(namespace, &[]);
    let mut others = found.map(nodecfg_install::writers_of).unwrap_or_default();
    others.retain(|user| !own.contains(user));
    let config_maps = Wanted {
        code: "config-map-policy",
        name: &config_maps_policy(namespace),
        either: vec![nodecfg_install::config_maps_of(namespace, &others)],
        harm: "other users can replace pool pointers and delete ConfigMaps of nodecfg",
    };
    checks.push(config_maps.check(&installed.config_maps));
}

/// A policy as this program installs it.
struct Wanted<'a> {
    code: &'static str,
    name: &'a str,
    /// Policies and their bindings. One of them must be installed.
    either: Vec<[Value; 2]>,
    /// What is possible without it.
    harm: &'static str,
}

impl Wanted<'_> {
    fn check(&self, answer: &Fact<InstalledPolicy>) -> Check {
        let Self { code, name, either, harm } = self;
        let found = match answer {
            Ok(found) => found,
            Err(cause) => return not_checked(code, cause),
        };
        let warning = |what: &str| Check::warning(code, format!("ValidatingAdmissionPolicy {name} {what}: {harm}"));
        let create = "create it with nodecfg install and the options of this cluster, on API servers from 1.30 on";
        let update = "update it with nodecfg install and the options of this cluster";
        match (&found.policy, &found.binding) {
            (None, _) => warning("is missing").fix(create),
            (Some(_), None) => warning("has no binding, so it has no effect").fix(create),
            (Some(policy), Some(binding)) => {
                let is_current = |wanted: &[Value; 2]| wanted.iter().zip([policy, binding]).all(|(a, b)| equal(a, b));
                match either.iter().any(is_current) {
                    true => Check::ok(code, format!("{name} equals that of this nodecfg version")),
                    false => warning("or its binding differs from that of this nodecfg version").fix(update),
                }
            }
        }
    }
}

/// Reports whether the specs of two objects are equal, except for defaults of the API server.
fn equal(wanted: &Value, found: &Value) -> bool {
    wanted.get("spec").zip(found.get("spec")).is_some_and(|(wanted, found)| same(wanted, found))
}

fn same(wanted: &Value, found: &Value) -> bool {
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => {
            wanted.iter().all(|(key, value)| found.get(key).is_some_and(|found| same(value, found)))
                && found.iter().all(|(key, value)| wanted.contains_key(key) || is_default(key, value))
        }
        (Value::Array(wanted), Value::Array(found)) => {
            wanted.len() == found.len() && wanted.iter().zip(found).all(|(wanted, found)| same(wanted, found))
        }
        (wanted, found) => wanted == found,
    }
}

/// Reports whether the API server sets this field in a policy (kubernetes, `pkg/apis/admissionregistration/v1/defaults.go`).
fn is_default(key: &str, value: &Value) -> bool {
    match key {
        "namespaceSelector" | "objectSelector" => value.as_object().is_some_and(serde_json::Map::is_empty),
        "matchPolicy" => value == "Equivalent",
        "scope" => value == "*",
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::CheckResult;
    use crate::doctor::fixtures::{healthy, installed};
    use serde_json::json;

    fn seen(change: impl FnOnce(&mut InstalledPolicy)) -> String {
        let mut found = installed(nodecfg_install::own_node_only());
        change(&mut found);
        let either = vec![nodecfg_install::own_node_only()];
        Wanted { code: "admission-policy", name: "p", either, harm: "harm" }.check(&Ok(found)).seen
    }

    #[test]
    fn recognizes_policies_that_do_not_hold() {
        assert_eq!(seen(|_| ()), "p equals that of this nodecfg version");
        assert_eq!(seen(|found| found.policy = None), "ValidatingAdmissionPolicy p is missing: harm");
        assert!(seen(|found| found.binding = None).contains("has no effect"));
        type Change = fn(&mut Value, &mut Value);
        let changes: [Change; 7] = [
            |policy, _| policy["spec"]["failurePolicy"] = json!("Ignore"),
            |policy, _| policy["spec"]["validations"][0]["expression"] = json!("true"),
            |policy, _| drop(policy["spec"]["validations"].as_array_mut().unwrap().pop()),
            |policy, _| policy["spec"]["matchConstraints"]["namespaceSelector"] = json!({"matchLabels": {"a": "b"}}),
            |policy, _| policy["spec"]["matchConstraints"]["excludeResourceRules"] = json!([{"resources": ["nodes"]}]),
            |_, binding| binding["spec"]["validationActions"] = json!(["Warn"]),
            |_, binding| binding["spec"]["matchResources"] = json!({"objectSelector": {"matchLabels": {"a": "b"}}}),
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let seen = seen(|found| change(found.policy.as_mut().unwrap(), found.binding.as_mut().unwrap()));
            assert!(seen.contains("differs from that of this nodecfg version: harm"), "{number}: {seen}");
        }
    }

    /// The writers are a choice of the installation.
    #[test]
    fn accepts_any_writers() {
        let others = ["ci".to_owned(), "o'hara".to_owned()];
        let namespace = healthy(true).namespace;
        let config_maps = Ok(installed(nodecfg_install::config_maps_of(namespace.as_str(), &others)));
        let found = Installed { config_maps, ..healthy(true).installed.unwrap() };
        let mut checks = Vec::new();
        examine(&found, namespace.as_str(), &mut checks);
        assert!(checks.iter().all(|check| check.verdict == CheckResult::Ok), "{checks:#?}");
    }
}
