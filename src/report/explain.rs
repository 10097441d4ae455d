//! Explanations of nodes that failed or are blocked: meaning, likely causes, and where to look next. Also the next
//! step after a rollout that stopped.
//!
//! The error texts are those of kubelets 1.11 to 1.23 (`pkg/kubelet/kubeletconfig/status/status.go`), and those that
//! only node agents report. The causes come from recorded behaviour of a real kubelet and from how the kubelet loads
//! a configuration.

use std::mem::discriminant;

use super::names;
use kubelet_config::startup_error;
use nodecfg_contract::error_text;
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_observed::Obstacle;
use nodecfg_plan::Why;
use nodecfg_plan::convergence::{ConvergenceFailure, Waiting};
use nodecfg_plan::drain::DrainFailure;
use nodecfg_rollout::StopReason;

/// The maximum number of pools that a next step names.
const MAX_POOLS: usize = 8;

/// An explanation of a node's state.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// What the state means for the node.
    pub meaning: &'static str,
    /// The likely causes, most likely first.
    pub causes: &'static [&'static str],
    /// Where to look next.
    pub look_at: String,
}

/// What is the same for all nodes with the same problem: its meaning, and the field that its message concerns.
pub(super) type Kind = (&'static str, Option<String>);

impl Explanation {
    /// The kind of the problem with this message.
    pub(super) fn kind(&self, message: &str) -> Kind {
        (self.meaning, startup_error::field_in(message).map(str::to_owned))
    }
}

/// Explains why a node failed.
#[must_use]
pub fn failure(node: &NodeName, failure: &ConvergenceFailure) -> Explanation {
    match failure {
        ConvergenceFailure::Refused { error } => refused(node, error),
        ConvergenceFailure::NotPrepared { .. } => Explanation {
            meaning: "the agent compared the configuration with what the node runs, and keeps that: the change would \
                      disrupt running pods more than the pool allows",
            causes: &[
                "the node's local configuration differs from the new one in a field that needs a drained node",
                "files below the drop-in folder changed since the plan",
            ],
            look_at: format!(
                "the condition Synced in `kubectl get nodeconfig {node} -o yaml`. If the node is drained, allow the \
                 change with spec.rollout.allowDisruption of its pool"
            ),
        },
        ConvergenceFailure::Overridden { .. } => Explanation {
            meaning: "the node runs the configuration, and its kubelet reads flags or files later that set other values",
            causes: &[
                "the kubelet's unit, or an environment file that it reads, passes the flag",
                "another program wrote a later file into the kubelet's --config-dir",
            ],
            look_at: format!(
                "status.effective in `kubectl get nodeconfig {node} -o yaml`. Remove the flag or the file on the node and \
                 restart the kubelet, or accept the value with spec.kubelet.acceptOverridden of the pool"
            ),
        },
        ConvergenceFailure::TimedOut { waiting } | ConvergenceFailure::NoSync { waiting } => timed_out(node, waiting),
        ConvergenceFailure::PodsRefused(_) => pods_refused(node),
        ConvergenceFailure::PodsLost(_) => pods_lost(node),
        ConvergenceFailure::Drain { failure } => not_drained(node, failure),
    }
}

/// Explains why a node cannot reach its target. `None` if the reason needs no explanation.
#[must_use]
pub fn blocked(node: &NodeName, why: &Why) -> Option<Explanation> {
    match why {
        Why::Obstacle(Obstacle::NoDynamicConfig) => Some(Explanation {
            meaning: "the kubelet shows no sign of following configSource, so an assignment would time out",
            causes: &[
                "the kubelet runs without --dynamic-config-dir",
                "the DynamicKubeletConfig feature gate is off",
                "the kubelet started just now: it writes status.config within seconds",
            ],
            look_at: format!("the kubelet's command line on {node}: `systemctl cat kubelet`"),
        }),
        Why::Obstacle(Obstacle::Unsupported { .. }) => Some(Explanation {
            meaning: "the kubelet does not support configSource: only kubelets 1.11 to 1.23 do",
            causes: &["the node was upgraded to 1.24 or later, where the feature was removed"],
            look_at: "the VERSION column of `kubectl get nodes`. Node agents support such nodes: `nodecfg install`, \
                      then --binding nodeconfig"
                .to_owned(),
        }),
        Why::Obstacle(Obstacle::AgentSilent) => Some(Explanation {
            meaning: "no agent follows the NodeConfig of the node, so an assignment would time out",
            causes: &[
                "the node agent is not installed: `nodecfg install` shows how",
                "the agent's pod does not run there: a taint that its DaemonSet does not tolerate, an image that \
                 cannot be pulled",
                "the agent is not allowed to write the status of its NodeConfig",
            ],
            look_at: format!(
                "the agent on {node}: `kubectl get pods -n nodecfg-agent -o wide`, or `journalctl -u nodecfg-agent`"
            ),
        }),
        Why::AgentOutdated => Some(Explanation {
            meaning: "the agent is too old to know spec.placement, and would do what it did before",
            causes: &["the agent or the definition of NodeConfigs is older than this nodecfg: run `nodecfg install`"],
            look_at: format!("status.agent.version of `kubectl get nodeconfig {node} -o yaml`"),
        }),
        Why::Obstacle(Obstacle::Unreadable(_)) => Some(unreadable(node)),
        Why::OverReserved(_) => Some(Explanation {
            meaning: "the kubelet would exit at its start (invalid Node Allocatable configuration), so nodecfg does not \
                      assign the configuration",
            causes: &["the pool has smaller nodes than its author knew", "an amount has a wrong unit"],
            look_at: format!("the capacity: `kubectl describe node {node}`"),
        }),
        Why::SizeUnknown { missing: Some(_) } => Some(Explanation {
            meaning: "the pool computes reservations from the size of each node (spec.kubelet.reserve), and the Node does not \
                      report it",
            causes: &["the kubelet has not reported its status yet", "another client changed status.capacity"],
            look_at: format!("the capacity: `kubectl describe node {node}`"),
        }),
        Why::Resized { .. } => Some(Explanation {
            meaning: "the reservations of the node follow from its size, and those of its new size may evict or reject running \
                      pods",
            causes: &["the machine has other CPUs or memory than before", "another client changed status.capacity"],
            look_at: format!("the capacity: `kubectl describe node {node}`"),
        }),
        Why::TooManySizes { .. } => Some(Explanation {
            meaning: "each size of the nodes needs a configuration of its own, and a pool may have 20 of them",
            causes: &[
                "the pool has machines of many types: round to larger steps, or divide the pool",
                "the same machines report slightly different amounts of memory",
            ],
            look_at: format!("the capacity: `kubectl describe node {node}`"),
        }),
        Why::Maintained { .. } => Some(Explanation {
            meaning: "another program drains, reboots or removes the node; nodecfg does not change it meanwhile, and it \
                      counts against the budget",
            causes: &["a scale-down, an update or a reboot is in progress", "that program failed and left its mark"],
            look_at: format!("the taints, annotations, labels and conditions: `kubectl describe node {node}`"),
        }),
        Why::Contested { .. } => Some(Explanation {
            meaning: "no pool has precedence, so the node keeps its configuration",
            causes: &[
                "two nodeSelectors overlap",
                "the node was given the labels of a second pool; its kubelet may change all labels of its Node except \
                 those under node-restriction.kubernetes.io/",
            ],
            look_at: format!("the labels: `kubectl get node {node} --show-labels`"),
        }),
        Why::Converged
        | Why::Adopted { .. }
        | Why::Paused { .. }
        | Why::Conflict { .. }
        | Why::DrainedBy { .. }
        | Why::WouldRefuse { .. }
        | Why::SizeUnknown { missing: None }
        | Why::Deleting
        | Why::New { .. }
        | Why::OutOfScope
        | Why::Obstacle(Obstacle::Outlived) => None,
    }
}

fn unreadable(node: &NodeName) -> Explanation {
    Explanation {
        meaning: "nodecfg does not know the state of the node, so it neither changes the node nor counts it as available",
        causes: &[
            "the kubelet or the agent wrote a value that Kubernetes accepts and nodecfg does not, such as a time of the \
             year 9999",
            "another program with the credentials of the node wrote the value",
        ],
        look_at: format!("the named field in `kubectl get node {node} -o yaml`, or in the NodeConfig of that name"),
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
                "the content is not a KubeletConfiguration that this kubelet version can decode: a value of the wrong \
                 type, or YAML that does not parse",
            ],
        ),
        error_text::VALIDATE => (
            "the kubelet of this node refuses a value of the configuration, or would refuse it on this host, and runs its \
             last known good one",
            &[
                "a value out of range, or two values that contradict each other",
                "a feature gate that this kubelet version does not know, or has locked to another value",
                "with agents: the host lacks what a field needs, such as a file, so that the kubelet was not restarted",
            ],
        ),
        error_text::ALL_NIL => {
            ("configSource names no ConfigMap, so there is nothing to run", &["the Node was edited by hand"])
        }
        error_text::INTERNAL => (
            "the kubelet could not store its own state of the configuration",
            &["the disk under --dynamic-config-dir is full, read-only or damaged"],
        ),
        error if startup_error::state_file(error).is_some() => (
            "the kubelet does not start with its state file, which has the CPUs or memory that pods own: the configuration \
             may not be at fault, and the last known good may fail, too",
            &[
                "the manager's policy, its options or the reserved CPUs changed, and the file has the old ones",
                "pods own all CPUs that are not reserved (strict-cpu-reservation)",
                "the CPUs or the memory of the host changed, or the file is damaged",
            ],
        ),
        error if error.contains(error_text::GOOD_FAILS_TOO) => (
            "the kubelet is not healthy on its last known good configuration either, so the node is down, and the \
             configuration may not be at fault",
            &[
                "another problem on the node at the same time: its runtime, disk, network or certificates",
                "the kubelet's unit changed, and it does not start with any configuration",
                "the configuration left something behind on the host, such as a state file",
            ],
        ),
        error if error.starts_with(error_text::RESTART) => (
            "the node agent could not restart the kubelet, and put the last known good configuration back",
            &[
                "the agent's restart command cannot be started or is not the one for this host: the kubelet still runs what \
                 it ran, and the agent tries again",
                "the kubelet of this host refuses a setting that every version should accept: see its log",
            ],
        ),
        error if error.starts_with(error_text::TRIAL_PREFIX) && startup_error::field_in(error).is_some() => (
            "the kubelet does not start with the configuration on this node, so the node agent returned it to its last \
             known good one",
            &["the host does not meet what the field requires; other nodes may accept the value"],
        ),
        error if error.starts_with(error_text::TRIAL_PREFIX) => (
            "the kubelet ran the configuration but did not stay healthy, so the node agent returned it to its last \
             known good one",
            &[
                "the configuration starts but breaks the node: a wrong cgroupDriver, wrong cgroup roots, a wrong \
                 containerRuntimeEndpoint",
                "eviction thresholds or reservations that the node cannot meet",
                "another problem on the node at the same time",
            ],
        ),
        _ => (
            "the node reports an error for this configuration that is not one of the kubelet's known texts",
            &["a node agent of another version"],
        ),
    };
    let look_at = match (startup_error::state_file(error), startup_error::field_in(error)) {
        (Some(file), _) => {
            format!("{file} on {node}: drain the node, stop the kubelet, delete the file, and start the kubelet")
        }
        (None, Some(field)) => format!("{field} in the configuration of the pool; {}", kubelet_log(node)),
        (None, None) if [error_text::VALIDATE, error_text::LOAD].contains(&error) => {
            format!("with agents, condition Active of the NodeConfig {node}; without, {}", kubelet_log(node))
        }
        (None, None) if error.starts_with(error_text::RESTART) => {
            format!(
                "condition Active of the NodeConfig {node}, and the agent's log there: `journalctl -u nodecfg-agent`"
            )
        }
        (None, None) => kubelet_log(node),
    };
    Explanation { meaning, causes, look_at }
}

fn not_drained(node: &NodeName, failure: &DrainFailure) -> Explanation {
    let pods = || format!("the pods of the node: `kubectl get pods -A -o wide --field-selector spec.nodeName={node}`");
    match failure {
        DrainFailure::Refused { .. } => Explanation {
            meaning: "the drain would lose data or a pod that nothing recreates, so no pod was evicted",
            causes: &["spec.rollout.drain of the pool refuses such pods: emptyDir, unmanaged, skip"],
            look_at: pods(),
        },
        DrainFailure::Blocked { .. } => Explanation {
            meaning: "a PodDisruptionBudget allowed no eviction until spec.rollout.drain.timeout; the node keeps its \
                      configuration",
            causes: &[
                "too few healthy pods of that budget run elsewhere",
                "the budget allows no disruption at all: minAvailable equals the number of replicas",
            ],
            look_at: "the budgets: `kubectl get poddisruptionbudgets -A`".to_owned(),
        },
        DrainFailure::TimedOut { .. } => Explanation {
            meaning: "pods or volumes did not leave the node until spec.rollout.drain.timeout; the node keeps its \
                      configuration",
            causes: &["a pod has a long terminationGracePeriodSeconds or a finalizer", "a volume cannot be detached"],
            look_at: pods(),
        },
        DrainFailure::MarkLost => Explanation {
            meaning: "the taint of the drain is gone, so new pods may have started on the node, which is left alone",
            causes: &["a person or a program replaced the taints of the node"],
            look_at: format!("the managedFields of the node: `kubectl get node {node} -o yaml --show-managed-fields`"),
        },
        DrainFailure::Claimed | DrainFailure::NoBudget => Explanation {
            meaning: "the rollback needs a drained node, which is not possible now; the node keeps its configuration",
            causes: &["another program maintains the node", "unavailable nodes use up maxUnavailable"],
            look_at: format!("the node: `kubectl describe node {node}`"),
        },
        DrainFailure::PodKept { .. } => Explanation {
            meaning: "the node runs the new configuration, but a DaemonSet pod still uses exclusive CPUs that it had \
                      before, and another pod may get the same CPUs",
            causes: &["the right to delete pods is missing", "an admission webhook refused the deletion"],
            look_at: pods(),
        },
        DrainFailure::Request { .. } => Explanation {
            meaning: "the API server refused a request of the drain, so the node was not changed",
            causes: &["a right of the drainer is missing", "an admission webhook refused the eviction"],
            look_at: "the rights: `nodecfg doctor`".to_owned(),
        },
    }
}

fn pods_refused(node: &NodeName) -> Explanation {
    Explanation {
        meaning: "the new kubelet refused pods of the node; they never run again, and their controllers start others",
        causes: &[
            "device plugins had not registered when the kubelet decided about its pods",
            "CPUs, memory or devices of running pods do not fit the new policies of the managers or of the topology",
            "the node has less room: maxPods is lower, or reservations are higher",
        ],
        look_at: format!("`kubectl get pods -A --field-selector spec.nodeName={node},status.phase=Failed`"),
    }
}

fn pods_lost(node: &NodeName) -> Explanation {
    Explanation {
        meaning: "the node runs the configuration, and pods that were Ready before are not",
        causes: &[
            "the configuration breaks the pods: the network, the runtime, cgroups or limits",
            "their readiness takes longer than the settle time of the pool (spec.rollout.drain.settle)",
            "the pods have a problem of their own at the same time",
        ],
        look_at: format!(
            "`kubectl get pods -A --field-selector spec.nodeName={node}`, then `kubectl describe` of the named pods"
        ),
    }
}

fn timed_out(node: &NodeName, waiting: &Waiting) -> Explanation {
    match waiting {
        Waiting::NotAssigned => Explanation {
            meaning: "the node was never assigned its configuration",
            causes: &["no sync has run since the change, or the sync stopped before this node"],
            look_at: "the last sync's log, and the node's events: `kubectl describe node`".to_owned(),
        },
        Waiting::NeverAssigned { .. } => Explanation {
            meaning: "the node still runs what its image or user data contains",
            causes: &[
                "no sync has run since the node joined, or it stopped before this node",
                "nothing starts a sync when nodes join: run one on a schedule",
            ],
            look_at: "docs/how-to/new-nodes.md, to start new nodes with their pool's configuration".to_owned(),
        },
        Waiting::NotAcknowledged => Explanation {
            meaning: "the node has not reacted to its assignment: its status.config does not change",
            causes: &[
                "with NodeConfigs (nodecfg install): no node agent runs there, or it cannot reach the API server",
                "with Nodes: the kubelet runs without --dynamic-config-dir, or with the DynamicKubeletConfig feature gate off",
                "with Nodes: the kubelet is 1.24 or later, or older than 1.11, and does not support configSource",
                "the kubelet is not running: it exits to load a new configuration, and no service manager restarts it",
            ],
            look_at: format!(
                "`kubectl describe node {node}` (is it Ready? which kubelet version?), then on the node \
                 `journalctl -u nodecfg-agent`, `systemctl status kubelet` and the kubelet's command line"
            ),
        },
        Waiting::Syncing { .. } => Explanation {
            meaning: "the kubelet cannot fetch its assignment; it keeps its current configuration and retries",
            causes: &[
                "the ConfigMap was deleted",
                "the node may not read ConfigMaps in that namespace (the Node authorizer allows what its own \
                 configSource names)",
                "the node cannot reach the API server",
            ],
            look_at: kubelet_log(node),
        },
        Waiting::Activating => Explanation {
            meaning: "the kubelet accepted the assignment but does not report running it",
            causes: &["the kubelet restarts in a loop", "the kubelet was stopped during its restart"],
            look_at: kubelet_log(node),
        },
        Waiting::OtherContent => Explanation {
            meaning: "the node reports the ConfigMap's name, but other content than the repository has",
            causes: &[
                "the ConfigMap was deleted and created again with other content",
                "the node has not read the ConfigMap again yet: agents do so hourly, kubelets within minutes",
            ],
            look_at: format!("who created the ConfigMap (its managedFields), and what runs on {node}"),
        },
        Waiting::OtherPlacement { .. } => Explanation {
            meaning: "the node runs the content of the repository, but combines it with its own configuration in another way",
            causes: &["the agent has not carried out the change yet", "the agent is too old to know placements"],
            look_at: format!("spec.placement and status of `kubectl get nodeconfig {node} -o yaml`"),
        },
        Waiting::Unreadable(_) => unreadable(node),
        Waiting::Draining { .. } | Waiting::Detaching { .. } => {
            not_drained(node, &DrainFailure::TimedOut { pods: 0, pod: None, volumes: 0 })
        }
        Waiting::ResourceMissing { .. } => Explanation {
            meaning: "the kubelet runs the configuration, but a device plugin has not registered its resource again, so \
                      pods that need it could not start",
            causes: &[
                "the device plugin does not run on the node",
                "the device plugin does not notice kubelet restarts",
            ],
            look_at: format!("status.allocatable in `kubectl get node {node} -o yaml`, and the device plugin's log"),
        },
        Waiting::PodsNotReady(_) => pods_lost(node),
        Waiting::Settling | Waiting::Checking => Explanation {
            meaning: "the node converged, but did not stay Ready while it settled",
            causes: &["the configuration makes the node unstable", "another problem on the node at the same time"],
            look_at: format!("the Ready condition's message in `kubectl describe node {node}`, then the kubelet's log"),
        },
        Waiting::NotReady => Explanation {
            meaning: "the kubelet runs the configuration, but the Node, previously Ready, is no longer Ready",
            causes: &[
                "the configuration starts but breaks the node: a wrong cgroupDriver, wrong cgroup roots, a wrong \
                 containerRuntimeEndpoint",
                "eviction thresholds or reservations that the node cannot meet",
                "another problem on the node at the same time",
            ],
            look_at: format!("the Ready condition's message in `kubectl describe node {node}`, then the kubelet's log"),
        },
        Waiting::OnTrial => Explanation {
            meaning: "the node runs the configuration and is Ready, but its trial has not ended",
            causes: &[
                "the node agent cannot reach the API server, which must confirm the end of the trial",
                "the kubelet was unhealthy for a moment, so its trial began again",
                "the agent's --trial-period is longer than nodecfg waits",
            ],
            look_at: format!("`kubectl describe nodeconfig {node}`, then `nodecfg-agent status` on {node}"),
        },
    }
}

/// Reports whether pools that stopped for these reasons need the same next step.
#[must_use]
pub fn has_same_next_step(one: &StopReason, other: &StopReason) -> bool {
    let nodes_failed =
        |reason: &StopReason| matches!(reason, StopReason::CanaryFailed { .. } | StopReason::TooManyFailures { .. });
    match (one, other) {
        (StopReason::Paused(one), StopReason::Paused(other)) => one.whole_fleet == other.whole_fleet,
        _ => discriminant(one) == discriminant(other) || (nodes_failed(one) && nodes_failed(other)),
    }
}

/// The next step after a rollout that stopped. `None` if the cluster failed: the error of the run names the fix.
/// `only_drains_failed`: nodes of these pools failed only because they were not drained.
#[must_use]
pub fn next_step(pools: &[&PoolName], reason: &StopReason, only_drains_failed: bool) -> Option<String> {
    let step = match reason {
        StopReason::CanaryFailed { .. } | StopReason::TooManyFailures { .. } if only_drains_failed => Some(
            "remove what prevented the drains, or change spec.rollout.drain of the pool; then sync again: it drains these \
             nodes again",
        ),
        StopReason::CanaryFailed { .. } | StopReason::TooManyFailures { .. } => {
            let back = match pools {
                [pool] => format!("`nodecfg rollback {pool}`"),
                _ => {
                    let pools = names(pools.iter().map(|pool| pool.as_str()), MAX_POOLS);
                    format!("`nodecfg rollback POOL` for each of {pools}")
                }
            };
            return Some(format!(
                "revert or correct it in git and sync again, or {back}: nodes that failed go first and use no budget. If the \
                 node is at fault: repair it, `nodecfg reset NODE`, then sync again"
            ));
        }
        StopReason::BudgetExhausted { .. } => Some(
            "find out why these nodes are unavailable (kubectl describe node), or raise maxUnavailable of the pool; \
             then sync again: it continues from the current state",
        ),
        StopReason::FleetBudgetExhausted { .. } => Some(
            "find out why nodes of other pools are unavailable (`nodecfg status`), or raise spec.maxUnavailable of the \
             fleet; then sync again: it continues from the current state",
        ),
        StopReason::GateClosed { .. } => Some(
            "if the change caused it, revert or correct it in git, and sync again; `nodecfg gates` shows when the gate passes \
             again",
        ),
        StopReason::Interrupted => Some("run the same command again: it continues from the current state"),
        StopReason::Aborted { .. } => Some(
            "the next sync continues from the current state, unless `spec.paused` of the Fleet, `nodecfg pause POOL \
             --reason TEXT` or `nodecfg pause --all --reason TEXT` pauses it",
        ),
        StopReason::Paused(pause) if pause.whole_fleet => {
            Some("`nodecfg resume --all` when the reason no longer applies, and run the same command again")
        }
        StopReason::Paused(_) => {
            Some("`nodecfg resume POOL` when the reason no longer applies, and run the same command again")
        }
        StopReason::LockLost => {
            Some("find out who holds the fleet's Lease, and whether this machine lost the API server; then sync again")
        }
        StopReason::ClusterFailed { .. } => None,
    };
    step.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> NodeName {
        NodeName::new("n1").unwrap()
    }

    #[test]
    fn explains_every_error_text_of_the_contract() {
        let trial = format!("{}Node was not Ready within 60 s", error_text::TRIAL_PREFIX);
        let texts =
            [error_text::LOAD, error_text::VALIDATE, error_text::INTERNAL, error_text::ALL_NIL, error_text::RESTART];
        for error in texts.into_iter().chain([trial.as_str()]) {
            let explanation = failure(&node(), &ConvergenceFailure::Refused { error: error.to_owned() });
            assert!(!explanation.meaning.contains("not one of the kubelet's known texts"), "{error}");
            assert!(!explanation.causes.is_empty());
        }
        let cause = format!(
            "{}kubelet exited 3 times: cgroupRoot: invalid configuration: cgroup-root [\"pods\"] doesn't exist",
            error_text::TRIAL_PREFIX
        );
        let named = failure(&node(), &ConvergenceFailure::Refused { error: cause });
        assert!(
            named.meaning.contains("does not start") && named.look_at.starts_with("cgroupRoot in the"),
            "{named:?}"
        );
        let file = format!(
            "{}kubelet exited 3 times: cpuManagerPolicy: start cpu manager error: default cpuset cannot be empty",
            error_text::TRIAL_PREFIX
        );
        let file = failure(&node(), &ConvergenceFailure::Refused { error: file });
        assert!(
            file.meaning.contains("state file") && file.look_at.starts_with("cpu_manager_state on n1: drain"),
            "{file:?}"
        );
        let down = format!("{}Node was not Ready within 60 s{}", error_text::TRIAL_PREFIX, error_text::GOOD_FAILS_TOO);
        let down = failure(&node(), &ConvergenceFailure::Refused { error: down });
        assert!(down.meaning.contains("the node is down"), "{down:?}");
        let unknown = failure(&node(), &ConvergenceFailure::Refused { error: "something else".to_owned() });
        assert!(unknown.meaning.contains("not one of the kubelet's known texts"));
    }

    #[test]
    fn next_step_names_the_pools() {
        let (gpu, web) = (PoolName::new("gpu").unwrap(), PoolName::new("web").unwrap());
        let reason = StopReason::CanaryFailed { node: node() };
        let step = |pools: &[&PoolName]| next_step(pools, &reason, false).unwrap();
        assert!(step(&[&gpu]).contains("`nodecfg rollback gpu`"));
        assert!(step(&[&gpu, &web]).contains("for each of gpu, web"));
    }

    #[test]
    fn explains_missing_acknowledgement() {
        let silent = failure(&node(), &ConvergenceFailure::TimedOut { waiting: Waiting::NotAcknowledged });
        assert!(silent.causes.iter().any(|cause| cause.contains("--dynamic-config-dir")));
        assert!(silent.causes.iter().any(|cause| cause.contains("1.24 or later")));
        assert!(silent.causes.iter().any(|cause| cause.contains("service manager")));
    }
}
