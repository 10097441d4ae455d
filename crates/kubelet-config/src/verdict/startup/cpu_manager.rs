//! The CPU and topology managers. The CPU manager: its policy, the requirements of the static policy, and its options
//! (`pkg/kubelet/cm/cpumanager/cpu_manager.go` `NewManager`, `policy_options.go`, `policy_none.go`). The options of the
//! topology manager: `cmd/kubelet/app/server.go` `run`, `pkg/kubelet/cm/topologymanager/policy_options.go`
//! `NewPolicyOptions`. Validation checks the topology manager's policy and scope. Up to 1.19 the kubelet checks its policy
//! only when it creates the manager (`topology_manager.go` `NewManager`).

use crate::Minor;
use crate::verdict::Config;
use crate::verdict::refusals::Check;
use crate::verdict::startup::{policy_options, reservations};
use crate::verdict::validate::limits::one_of;

const OPTIONS: &str = "cpuManagerPolicyOptions";
/// The last minor in which the manager could be switched off.
const LAST_OPTIONAL: Minor = Minor(25);

/// Options that exclude each other, and the first minor that checks this.
const EXCLUSIVE: [(&str, &str, Minor); 4] = [
    ("full-pcpus-only", "distribute-cpus-across-cores", Minor(31)),
    ("distribute-cpus-across-numa", "distribute-cpus-across-cores", Minor(31)),
    ("prefer-align-cpus-by-uncorecache", "distribute-cpus-across-cores", Minor(32)),
    ("prefer-align-cpus-by-uncorecache", "distribute-cpus-across-numa", Minor(32)),
];

pub(super) const CPU: &[Check] = &[
    ("cpu-manager-policy", |config, refusals| {
        if is_on(config) {
            one_of(config, refusals, "cpuManagerPolicy");
        }
    }),
    ("cpu-manager-static-reservation", |config, refusals| {
        let cpus = reservations::count_cpus(config).unwrap_or_default();
        if is_static(config)
            && cpus == 0
            && reservations::reserved(config, "cpu").is_some_and(|amount| amount.is_zero())
        {
            let message =
                "cpuManagerPolicy is \"static\", but no CPU is reserved; at least one CPU must remain for shared use";
            let help = "set kubeReserved.cpu: \"500m\", or reservedSystemCPUs: \"0\"";
            refusals.field(config, "cpuManagerPolicy", message).help(help);
            for path in reservations::LISTS.into_iter().filter(|path| config.given(path).is_some()) {
                refusals.related(config.place(path), format!("{path} reserves no cpu"));
            }
        }
    }),
    ("cpu-manager-options-gate", |config, refusals| {
        if is_on(config) {
            policy_options::gate(config, refusals, OPTIONS, "CPUManagerPolicyOptions");
        }
    }),
    ("cpu-manager-options-policy", |config, refusals| {
        if reads_options(config)
            && config.text("cpuManagerPolicy") == "none"
            && config.entries(OPTIONS).next().is_some()
        {
            let message = "cpuManagerPolicyOptions are set, but cpuManagerPolicy is \"none\", which has no options";
            refusals
                .field(config, OPTIONS, message)
                .help(format!("set {}, or remove the options", static_policy(config)));
            if config.given("cpuManagerPolicy").is_some() {
                refusals.related(config.place("cpuManagerPolicy"), "the policy");
            }
        }
    }),
    ("cpu-manager-option", |config, refusals| {
        if reads_options(config) && is_static(config) {
            policy_options::options(config, refusals, OPTIONS);
        }
    }),
    ("cpu-manager-options-exclusive", |config, refusals| {
        if !reads_options(config) || !is_static(config) {
            return;
        }
        for (one, other, _) in EXCLUSIVE.into_iter().filter(|(_, _, since)| *since <= config.minor()) {
            let on = |name| policy_options::switched_on(config, OPTIONS, name);
            if let (Some(first), Some(second)) = (on(one), on(other)) {
                let message = format!("the options {one} and {other} exclude each other");
                refusals.at(format!("{OPTIONS}.{one}"), first.key_place.clone(), message);
                refusals.related(second.key_place.clone(), other).help("remove one of them");
            }
        }
    }),
    ("cpu-manager-align-by-socket", |config, refusals| {
        let option = policy_options::switched_on(config, OPTIONS, "align-by-socket");
        if let Some(option) = option
            && reads_options(config)
            && is_static(config)
            && config.text("topologyManagerPolicy") == "single-numa-node"
        {
            let message = "the option align-by-socket is incompatible with topologyManagerPolicy \"single-numa-node\"";
            refusals.at(format!("{OPTIONS}.align-by-socket"), option.key_place.clone(), message);
            refusals
                .related(config.place("topologyManagerPolicy"), "topologyManagerPolicy")
                .help("remove it, or set topologyManagerPolicy: restricted");
        }
    }),
];

/// Returns the assignments that select the static policy, with the CPU that it requires.
pub(crate) fn static_policy(config: &Config<'_>) -> &'static str {
    let is_reserved = reservations::count_cpus(config).is_some_and(|cpus| cpus > 0)
        || reservations::reserved(config, "cpu").is_some_and(|amount| !amount.is_zero());
    if is_reserved { "cpuManagerPolicy: static" } else { "cpuManagerPolicy: static and kubeReserved.cpu: \"500m\"" }
}

/// Reports whether the kubelet creates a CPU manager.
pub(super) fn is_on(config: &Config<'_>) -> bool {
    config.minor() > LAST_OPTIONAL || config.gate("CPUManager")
}

/// Reports whether the policy is static, which assigns whole CPUs.
pub(super) fn is_static(config: &Config<'_>) -> bool {
    is_on(config) && config.text("cpuManagerPolicy") == "static"
}

/// Reports whether the manager reads the options.
fn reads_options(config: &Config<'_>) -> bool {
    is_on(config) && (config.minor() >= Minor(33) || config.gate("CPUManagerPolicyOptions"))
}

const TOPOLOGY_OPTIONS: &str = "topologyManagerPolicyOptions";

pub(super) const TOPOLOGY: &[Check] = &[
    ("topology-manager-policy-name", |config, refusals| {
        if config.gate("TopologyManager") {
            one_of(config, refusals, "topologyManagerPolicy");
        }
    }),
    ("topology-manager-options-gate", |config, refusals| {
        // The last minor in which the manager could be switched off is 1.26.
        if config.minor() > Minor(26) || config.gate("TopologyManager") {
            policy_options::gate(config, refusals, TOPOLOGY_OPTIONS, "TopologyManagerPolicyOptions");
        }
    }),
    ("topology-manager-option", |config, refusals| {
        if config.gate("TopologyManagerPolicyOptions") && config.text("topologyManagerPolicy") != "none" {
            policy_options::options(config, refusals, TOPOLOGY_OPTIONS);
        }
    }),
];
