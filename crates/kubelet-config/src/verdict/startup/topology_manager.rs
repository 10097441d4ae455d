//! The options of the topology manager: `cmd/kubelet/app/server.go` `run`,
//! `pkg/kubelet/cm/topologymanager/policy_options.go` `NewPolicyOptions`. Validation checks the policy and the scope.
//! Up to 1.19 the kubelet checks the policy only when it creates the manager (`topology_manager.go` `NewManager`).

use super::policy_options;
use crate::Minor;
use crate::verdict::refusals::Check;
use crate::verdict::validate::choices::one_of;

const OPTIONS: &str = "topologyManagerPolicyOptions";

pub(super) const CHECKS: &[Check] = &[
    ("topology-manager-policy-name", |config, refusals| {
        if config.gate("TopologyManager") {
            one_of(config, refusals, "topologyManagerPolicy");
        }
    }),
    ("topology-manager-options-gate", |config, refusals| {
        // The last minor in which the manager could be switched off is 1.26.
        if config.minor() > Minor(26) || config.gate("TopologyManager") {
            policy_options::gate(config, refusals, OPTIONS, "TopologyManagerPolicyOptions");
        }
    }),
    ("topology-manager-option", |config, refusals| {
        if config.gate("TopologyManagerPolicyOptions") && config.text("topologyManagerPolicy") != "none" {
            policy_options::options(config, refusals, OPTIONS);
        }
    }),
];
