//! Compares the settings of a pool and of the fleet between two revisions, apart from the kubelet configuration.

use super::{Scope, Setting};
use nodecfg_fleet::settings::{POLICY_SETTINGS, canary};
use nodecfg_fleet::{Desired, Pool, RolloutPolicy};

/// A setting of a pool apart from its policy.
struct PoolSetting {
    path: &'static str,
    meaning: &'static str,
    affects_membership: bool,
    read: fn(&Pool) -> String,
}

const SETTINGS: [PoolSetting; 7] = [
    PoolSetting {
        path: "spec.nodeSelector",
        meaning: "the nodes of the pool",
        affects_membership: true,
        read: |pool| pool.selector.to_string(),
    },
    PoolSetting {
        path: "spec.priority",
        meaning: "the pool of higher priority gets nodes that several pools select",
        affects_membership: true,
        read: |pool| pool.priority.to_string(),
    },
    PoolSetting {
        path: "spec.requireNodes",
        meaning: "whether the pool must have nodes",
        affects_membership: false,
        read: |pool| pool.require_nodes.map_or_else(String::new, |required| required.to_string()),
    },
    PoolSetting {
        path: "spec.kubernetesVersion",
        meaning: "the kubelet versions that the configuration is checked for",
        affects_membership: false,
        read: |pool| pool.kubelets.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    },
    PoolSetting {
        path: "spec.kubelet.placement",
        meaning: "how nodes combine the configuration with their own",
        affects_membership: false,
        read: |pool| pool.placement.map_or_else(String::new, |placement| placement.to_string()),
    },
    PoolSetting {
        path: "spec.kubelet.own",
        meaning: "over which own configuration the pool is checked",
        affects_membership: false,
        read: |pool| pool.own.as_ref().map_or_else(String::new, |own| own.path.clone()),
    },
    PoolSetting {
        path: "spec.kubelet.reserve",
        meaning: "the reservations of each node, which follow from its size",
        affects_membership: false,
        read: |pool| pool.targets.sizes().map_or_else(String::new, |sizes| sizes.reserve.value.to_string()),
    },
];

/// The changed settings. For a new or removed pool: the selector and all settings with other values than the default.
pub(super) fn changes(old: Option<&Pool>, new: Option<&Pool>) -> Vec<Setting> {
    let change = |path: &'static str, meaning: &'static str, read: &dyn Fn(&Pool) -> String| {
        let value = |pool: Option<&Pool>| pool.map(read).filter(|value| !value.is_empty());
        let (old_value, new_value) = (value(old), value(new));
        let differs = match (old, new) {
            (Some(_), Some(_)) => old_value != new_value,
            (Some(pool), None) | (None, Some(pool)) => {
                path == "spec.nodeSelector" || read(pool) != read(&with_defaults(pool))
            }
            (None, None) => false,
        };
        differs.then_some(Setting { path, old: old_value, new: new_value, meaning })
    };
    let of_pool = SETTINGS.iter().filter_map(|setting| change(setting.path, setting.meaning, &setting.read));
    let of_policy = POLICY_SETTINGS
        .iter()
        .filter_map(|setting| change(setting.path, setting.meaning, &|pool| (setting.read)(&pool.policy)));
    of_pool.chain(of_policy).collect()
}

/// The nodes of a pool and its rollout limits.
pub(super) fn scope(pool: &Pool) -> Scope {
    Scope {
        selector: pool.named.is_none().then(|| pool.selector.to_string()),
        max_unavailable: pool.policy.max_unavailable.to_string(),
        canary: pool.policy.canary.filter(|canary| canary.nodes > 0).map(canary),
    }
}

/// Reports whether any of the settings determines to which pool nodes belong.
pub(super) fn any_affects_membership(settings: &[Setting]) -> bool {
    let affects =
        |change: &Setting| SETTINGS.iter().any(|setting| setting.affects_membership && setting.path == change.path);
    settings.iter().any(affects)
}

/// The pool with default settings except its selector.
fn with_defaults(pool: &Pool) -> Pool {
    Pool {
        priority: 0,
        policy: RolloutPolicy::default(),
        placement: None,
        own: None,
        require_nodes: None,
        kubelets: Vec::new(),
        ..pool.clone()
    }
}

/// The changed settings of the fleet.
pub(super) fn of_fleet(old: &Desired, new: &Desired) -> Vec<Setting> {
    let namespace = |desired: &Desired| desired.namespace.as_ref().map(ToString::to_string);
    let all = [
        Setting {
            path: "metadata.name",
            old: Some(old.fleet.to_string()),
            new: Some(new.fleet.to_string()),
            meaning: "the fleet; a sync does not change ConfigMaps of other fleets",
        },
        Setting {
            path: "spec.maxUnavailable",
            old: old.max_unavailable.map(|limit| limit.to_string()),
            new: new.max_unavailable.map(|limit| limit.to_string()),
            meaning: "how many nodes of all pools may be unavailable at once",
        },
        Setting {
            path: "spec.poolPointers",
            old: old.pool_pointers.then(|| "true".to_owned()),
            new: new.pool_pointers.then(|| "true".to_owned()),
            meaning: "whether the configuration of each pool is published for new nodes",
        },
        Setting {
            path: "spec.paused",
            old: old.paused.then(|| "true".to_owned()),
            new: new.paused.then(|| "true".to_owned()),
            meaning: "whether every pool is paused",
        },
        Setting {
            path: "spec.namespace",
            old: namespace(old),
            new: namespace(new),
            meaning: "the namespace of the ConfigMaps",
        },
    ];
    all.into_iter().filter(|setting| setting.old != setting.new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodecfg_fleet::formats::schema::nodepool_schema;

    /// Content of the configuration, which the review compares as a whole.
    const CONFIGURATION: [&str; 3] = ["base", "patches", "local"];
    #[test]
    fn each_field_of_a_pool_is_a_setting() {
        let schema = nodepool_schema();
        let keys = |map: &str| {
            let properties = schema["$defs"][map]["properties"].as_object().expect("a map");
            properties.keys().cloned().collect::<Vec<String>>()
        };
        let spec = keys("NodePoolSpec").into_iter().filter(|key| !["kubelet", "rollout"].contains(&key.as_str()));
        let kubelet = keys("KubeletSpec").into_iter().filter(|key| !CONFIGURATION.contains(&key.as_str()));
        let all = spec.map(|key| format!("spec.{key}"));
        for path in all.chain(kubelet.map(|key| format!("spec.kubelet.{key}"))) {
            let of_pool = SETTINGS.iter().any(|setting| setting.path == path);
            let of_policy = POLICY_SETTINGS.iter().any(|setting| setting.path == path);
            assert!(of_pool || of_policy, "SETTINGS lacks {path}");
        }
    }
}
