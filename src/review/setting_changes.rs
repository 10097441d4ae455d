//! What a repository says of a pool beside the configuration of its kubelets, compared.

use super::{Scope, Setting};
use kubelet_config::duration;
use nodecfg_planning::desired::{Canary, Desired, Pool, RolloutPolicy};

/// A setting: its path, what it is, its value, and whether it decides which nodes belong to the pool.
struct Reader {
    path: &'static str,
    meaning: &'static str,
    selects: bool,
    read: fn(&Pool) -> String,
}

const SETTINGS: [Reader; 9] = [
    Reader {
        path: "spec.nodeSelector",
        meaning: "which nodes belong to the pool",
        selects: true,
        read: |pool| pool.selector.to_string(),
    },
    Reader {
        path: "spec.priority",
        meaning: "the higher pool wins a node that several select",
        selects: true,
        read: |pool| pool.priority.to_string(),
    },
    Reader {
        path: "spec.kubernetesVersion",
        meaning: "the kubelets that the configuration is checked for",
        selects: false,
        read: |pool| pool.kubelets.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    },
    Reader {
        path: "spec.rollout.maxUnavailable",
        meaning: "how many nodes may be unavailable at once",
        selects: false,
        read: |pool| pool.policy.max_unavailable.to_string(),
    },
    Reader {
        path: "spec.rollout.canary",
        meaning: "nodes that go first, and how long they are watched",
        selects: false,
        read: |pool| pool.policy.canary.map(canary).unwrap_or_default(),
    },
    Reader {
        path: "spec.rollout.maxFailures",
        meaning: "failed nodes before the rollout stops",
        selects: false,
        read: |pool| pool.policy.max_failures.to_string(),
    },
    Reader {
        path: "spec.rollout.convergenceTimeout",
        meaning: "how long a node may take",
        selects: false,
        read: |pool| duration::written(pool.policy.convergence_timeout),
    },
    Reader {
        path: "spec.rollout.paused",
        meaning: "whether its nodes are left as they are",
        selects: false,
        read: |pool| pool.policy.paused.to_string(),
    },
    Reader {
        path: "spec.rollout.allowDisruption",
        meaning: "the worst that a change may do to pods that run",
        selects: false,
        read: |pool| pool.policy.allow_disruption.to_string(),
    },
];

/// What differs. Of a pool that is new or gone, its selector and what is not the default.
pub(super) fn changes(old: Option<&Pool>, new: Option<&Pool>) -> Vec<Setting> {
    let change = |reader: &Reader| {
        let value = |pool: Option<&Pool>| pool.map(reader.read).filter(|value| !value.is_empty());
        let (was, becomes) = (value(old), value(new));
        let told = match (old, new) {
            (Some(_), Some(_)) => was != becomes,
            (Some(pool), None) | (None, Some(pool)) => {
                reader.path == "spec.nodeSelector" || (reader.read)(pool) != (reader.read)(&plain(pool))
            }
            (None, None) => false,
        };
        told.then_some(Setting { path: reader.path, old: was, new: becomes, meaning: reader.meaning })
    };
    SETTINGS.iter().filter_map(change).collect()
}

/// Which nodes a pool has, and how they are changed.
pub(super) fn scope(pool: &Pool) -> Scope {
    Scope {
        selector: pool.named.is_none().then(|| pool.selector.to_string()),
        max_unavailable: pool.policy.max_unavailable.to_string(),
        canary: pool.policy.canary.map(canary),
    }
}

/// Whether one of these decides which nodes belong to the pool.
pub(super) fn select(settings: &[Setting]) -> bool {
    let selects = |setting: &Setting| SETTINGS.iter().any(|reader| reader.selects && reader.path == setting.path);
    settings.iter().any(selects)
}

/// The pool without anything said of it.
fn plain(pool: &Pool) -> Pool {
    Pool { priority: 0, policy: RolloutPolicy::default(), kubelets: Vec::new(), ..pool.clone() }
}

/// What differs for the fleet as a whole.
pub(super) fn of_fleet(old: &Desired, new: &Desired) -> Vec<Setting> {
    let namespace = |desired: &Desired| desired.namespace.as_ref().map(ToString::to_string);
    let all = [
        Setting {
            path: "metadata.name",
            old: Some(old.fleet.to_string()),
            new: Some(new.fleet.to_string()),
            meaning: "the fleet; the ConfigMaps of another one are left alone",
        },
        Setting {
            path: "spec.namespace",
            old: namespace(old),
            new: namespace(new),
            meaning: "where the ConfigMaps are created",
        },
    ];
    all.into_iter().filter(|setting| setting.old != setting.new).collect()
}

fn canary(canary: Canary) -> String {
    let nodes = if canary.nodes == 1 { "1 node".to_owned() } else { format!("{} nodes", canary.nodes) };
    if canary.soak.is_zero() { nodes } else { format!("{nodes}, {} soak", duration::written(canary.soak)) }
}
