//! What a node's state means: for each error text of the contract, and for each thing a node may be waited for, the meaning,
//! the likely causes and where to look next.
//!
//! The texts are those of the kubelet 1.11 to 1.23 (`pkg/kubelet/kubeletconfig/status/status.go`); the causes come from
//! recorded behaviour of a real kubelet and from how the kubelet loads a configuration.

use nodecfg_contract::error_text;
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_planning::judge::{Failure, Waiting};
use nodecfg_planning::plan::Why;
use nodecfg_planning::rollout::StopReason;

/// An explanation, for people.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// What it means for the node.
    pub meaning: &'static str,
    /// What most often causes it, the likeliest first.
    pub causes: &'static [&'static str],
    /// What to look at next.
    pub look_at: String,
}

/// Explains why a node failed.
#[must_use]
pub fn failure(node: &NodeName, failure: &Failure) -> Explanation {
    match failure {
        Failure::Refused { error } => refused(node, error),
        Failure::TimedOut { waiting } => timed_out(node, waiting),
    }
}

/// Explains why a node cannot be brought to its target, where its words alone do not.
#[must_use]
pub fn blocked(node: &NodeName, why: &Why) -> Option<Explanation> {
    match why {
        Why::NoDynamicConfig => Some(Explanation {
            meaning: "the kubelet shows no sign of following configSource, so an assignment would only run into its timeout",
            causes: &[
                "the kubelet runs without --dynamic-config-dir",
                "the DynamicKubeletConfig feature gate is off",
                "the kubelet has only just started: it writes status.config within seconds",
            ],
            look_at: format!("the kubelet's command line on {node}: `systemctl cat kubelet`"),
        }),
        Why::Unsupported { .. } => Some(Explanation {
            meaning: "the kubelet knows nothing of configSource: kubelets from 1.11 to 1.23 do",
            causes: &["the node was upgraded to 1.24 or later, where the feature was removed"],
            look_at: "`kubectl get nodes`: the VERSION column. Node agents serve such nodes: `nodecfg install`, then --binding nodeconfig"
                .to_owned(),
        }),
        Why::AgentSilent => Some(Explanation {
            meaning: "nothing on the node follows its NodeConfig, so an assignment would only run into its timeout",
            causes: &[
                "the node agent is not installed: `nodecfg install` shows how",
                "the agent does not run there: a taint that its DaemonSet does not tolerate, an image that cannot be pulled",
                "the agent may not write the status of its NodeConfig",
            ],
            look_at: format!(
                "the agent on {node}: `kubectl get pods -n nodecfg-agent -o wide`, or `journalctl -u nodecfg-agent`"
            ),
        }),
        _ => None,
    }
}

fn kubelet_log(node: &NodeName) -> String {
    format!("the kubelet's log on {node}: `journalctl -u kubelet`")
}

fn refused(node: &NodeName, error: &str) -> Explanation {
    let (meaning, causes): (_, &[_]) = match error {
        error_text::LOAD => (
            "the kubelet could not read the configuration and runs its last known good one",
            &[
                "the ConfigMap lacks the key that configSource names",
                "the content is not a KubeletConfiguration that this kubelet version can decode: a value of the wrong type, \
                 or YAML that does not parse",
            ],
        ),
        error_text::VALIDATE => (
            "the kubelet read the configuration, refused a value in it, and runs its last known good one",
            &[
                "a value out of range, or two values that contradict each other",
                "a feature gate that this kubelet version does not know or does not let go of",
            ],
        ),
        error_text::ALL_NIL => {
            ("configSource names no ConfigMap, so there is nothing to run", &["somebody edited the Node by hand"])
        }
        error_text::INTERNAL => (
            "the kubelet could not keep its own records of the configuration",
            &["the disk under --dynamic-config-dir is full, read-only or damaged"],
        ),
        error_text::RESTART => (
            "the node agent could not restart the kubelet, put the configuration before back and left the kubelet on it",
            &[
                "the kubelet of this host refuses something that no version of it should: its log says what",
                "the agent's restart command is not the one for this host",
            ],
        ),
        error if error.starts_with(error_text::TRIAL_PREFIX) => (
            "the kubelet ran the configuration and did not stay healthy with it, so the node agent put it back on its last known \
             good one",
            &[
                "the configuration starts but breaks the node: a wrong cgroupDriver, wrong cgroup roots, a wrong \
                 containerRuntimeEndpoint",
                "eviction thresholds or reservations that the node cannot meet",
                "something else on the node broke at the same time",
            ],
        ),
        _ => (
            "the node reports an error against this configuration that is not one of the kubelet's known texts",
            &["a node agent of another version"],
        ),
    };
    Explanation { meaning, causes, look_at: kubelet_log(node) }
}

fn timed_out(node: &NodeName, waiting: &Waiting) -> Explanation {
    match waiting {
        Waiting::NotAssigned => Explanation {
            meaning: "nobody has pointed the node at its configuration",
            causes: &["no sync has run since the change, or it stopped before this node"],
            look_at: "the last sync's log, and the node's events: `kubectl describe node`".to_owned(),
        },
        Waiting::NotAcknowledged => Explanation {
            meaning: "the node has not taken any notice of its assignment: its status.config does not move",
            causes: &[
                "the kubelet runs without --dynamic-config-dir, or with the DynamicKubeletConfig feature gate off",
                "the kubelet is 1.24 or later, or older than 1.11, and knows nothing of configSource",
                "no node agent runs there, where the assignments are in NodeConfigs (nodecfg install), or it cannot reach the API \
                 server",
                "the kubelet is not running: it ends itself to take a new configuration, and nothing starts it again \
                 (it must run under a service manager)",
            ],
            look_at: format!(
                "`kubectl describe node {node}` (is it Ready? which kubelet version?), then `systemctl status kubelet` and \
                 the kubelet's command line on the node"
            ),
        },
        Waiting::Syncing { .. } => Explanation {
            meaning: "the kubelet knows its assignment and cannot fetch it; it keeps running what it has and goes on trying",
            causes: &[
                "the ConfigMap was deleted",
                "the node may not read ConfigMaps in that namespace (the Node authorizer allows what its own configSource \
                 names)",
                "the node cannot reach the API server",
            ],
            look_at: kubelet_log(node),
        },
        Waiting::Activating => Explanation {
            meaning: "the kubelet took the assignment and does not report running it",
            causes: &[
                "the kubelet is restarting over and over",
                "the kubelet was stopped in the middle of its restart",
            ],
            look_at: kubelet_log(node),
        },
        Waiting::NotReady => Explanation {
            meaning: "the kubelet runs the configuration, and the Node, Ready before, is not Ready with it",
            causes: &[
                "the configuration starts but breaks the node: a wrong cgroupDriver, wrong cgroup roots, a wrong \
                 containerRuntimeEndpoint",
                "eviction thresholds or reservations that the node cannot meet",
                "something else on the node broke at the same time",
            ],
            look_at: format!("the Ready condition's message in `kubectl describe node {node}`, then the kubelet's log"),
        },
    }
}

/// How to go on after a rollout of these pools that stopped; unset where the error beside it says so itself.
#[must_use]
pub fn way_on(pools: &[&PoolName], reason: &StopReason) -> Option<String> {
    let way = match reason {
        StopReason::CanaryFailed { .. } | StopReason::TooManyFailures { .. } => {
            let back = match pools {
                [pool] => format!("`nodecfg rollback {pool}`"),
                _ => {
                    let names: Vec<&str> = pools.iter().map(|pool| pool.as_str()).collect();
                    format!("`nodecfg rollback POOL` for each of {}", names.join(", "))
                }
            };
            return Some(format!(
                "revert or correct it in git and sync again, or {back}: nodes that failed go first and cost no budget"
            ));
        }
        StopReason::BudgetExhausted { .. } => Some(
            "see why these nodes are unavailable (kubectl describe node), or raise maxUnavailable of the pool; then sync \
             again: it goes on from where the cluster is",
        ),
        StopReason::Interrupted => Some("run the same command again: it goes on from where the cluster is"),
        StopReason::Aborted { .. } => Some(
            "the next sync goes on from where the cluster is; `nodecfg pause POOL --reason …` keeps it from doing so",
        ),
        StopReason::Paused { .. } => Some("once the reason is gone: `nodecfg resume` the pool, and sync again"),
        StopReason::LockLost => Some(
            "see who holds the fleet's Lease now, and whether this machine was cut off from the API server; then sync again",
        ),
        StopReason::ClusterFailed { .. } => None,
    };
    way.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> NodeName {
        NodeName::new("n1").unwrap()
    }

    #[test]
    fn every_text_of_the_contract_is_known() {
        let trial = format!("{}Node was not Ready within 60 s", error_text::TRIAL_PREFIX);
        let texts =
            [error_text::LOAD, error_text::VALIDATE, error_text::INTERNAL, error_text::ALL_NIL, error_text::RESTART];
        for error in texts.into_iter().chain([trial.as_str()]) {
            let explanation = failure(&node(), &Failure::Refused { error: error.to_owned() });
            assert!(!explanation.meaning.contains("not one of the kubelet's known texts"), "{error}");
            assert!(!explanation.causes.is_empty());
        }
        let unknown = failure(&node(), &Failure::Refused { error: "something else".to_owned() });
        assert!(unknown.meaning.contains("not one of the kubelet's known texts"));
    }

    #[test]
    fn the_way_back_names_the_pool() {
        let (gpu, web) = (PoolName::new("gpu").unwrap(), PoolName::new("web").unwrap());
        let reason = StopReason::CanaryFailed { node: node() };
        let way = |pools: &[&PoolName]| way_on(pools, &reason).unwrap();
        assert!(way(&[&gpu]).contains("`nodecfg rollback gpu`"));
        assert!(way(&[&gpu, &web]).contains("for each of gpu, web"));
    }

    #[test]
    fn a_node_that_never_answers_is_told_apart_from_one_that_refuses() {
        let silent = failure(&node(), &Failure::TimedOut { waiting: Waiting::NotAcknowledged });
        assert!(silent.causes.iter().any(|cause| cause.contains("--dynamic-config-dir")));
        assert!(silent.causes.iter().any(|cause| cause.contains("1.24 or later")));
        assert!(silent.causes.iter().any(|cause| cause.contains("service manager")));
    }
}
