//! Single values that a component refuses at start-up: `pkg/kubelet/kubelet.go` `NewMainKubelet`,
//! `cmd/kubelet/app/server.go` `RunKubelet`, `cmd/kubelet/app/auth.go` `BuildAuthz`, `pkg/kubelet/config/file.go`,
//! `pkg/kubelet/cm/container_manager_linux.go` `setupNode`, `pkg/kubelet/userns/userns_manager.go` `MakeUserNsManager`,
//! `component-base/cli/flag/ciphersuites_flag.go` `TLSVersion`, `k8s.io/cri-client/pkg/remote_runtime.go`, and klog.
//! Go's `time.NewTicker` panics for a period that is not positive.

use crate::verdict::Config;
use crate::verdict::refusals::{Check, Refusals};
use crate::verdict::validate::limits::one_of;
use crate::verdict::validate::limits::require_duration;

pub(super) const NAMES: &[Check] = &[
    ("authorization-mode", |config, refusals| one_of(config, refusals, "authorization.mode")),
    ("change-detection-strategy", |config, refusals| {
        one_of(config, refusals, "configMapAndSecretChangeDetectionStrategy");
    }),
    ("tls-min-version", |config, refusals| {
        if !config.text("tlsMinVersion").is_empty() {
            one_of(config, refusals, "tlsMinVersion");
        }
    }),
];

pub(super) const PERIODS: &[Check] = &[
    ("sync-frequency", |config, refusals| positive(config, refusals, "syncFrequency")),
    ("file-check-frequency", |config, refusals| {
        if !config.text("staticPodPath").is_empty() {
            positive(config, refusals, "fileCheckFrequency");
        }
    }),
    ("runtime-request-timeout", |config, refusals| positive(config, refusals, "runtimeRequestTimeout")),
    ("log-flush-period", |config, refusals| positive(config, refusals, "logging.flushFrequency")),
];

fn positive(config: &Config<'_>, refusals: &mut Refusals, path: &str) {
    require_duration(config, refusals, path, |period| period > 0, "more than 0s");
}

/// The number of user IDs that pods can have at most.
const USER_IDS: i64 = u32::MAX as i64;
/// The number of user IDs of a pod, unless configured.
const IDS_PER_POD: i64 = 65_536;

pub(super) const OTHERS: &[Check] = &[
    ("iptables-bits", |config, refusals| {
        let (mark, drop) = (config.int("iptablesMasqueradeBit"), config.int("iptablesDropBit"));
        if config.is("makeIPTablesUtilChains")
            && mark == drop
            && let Some(bit) = mark
        {
            let path =
                if config.given("iptablesDropBit").is_some() { "iptablesDropBit" } else { "iptablesMasqueradeBit" };
            let message = format!("iptablesMasqueradeBit and iptablesDropBit are both {bit}; the two bits must differ");
            let other = if bit == 0 { 1 } else { bit - 1 };
            refusals.field(config, path, message).help(format!("write another bit, such as {other}"));
            if config.given("iptablesMasqueradeBit").is_some() && path == "iptablesDropBit" {
                refusals.related(config.place("iptablesMasqueradeBit"), "iptablesMasqueradeBit");
            }
        }
    }),
    ("seccomp-default-gate", |config, refusals| {
        if config.is("seccompDefault") {
            refusals.require_gate(config, "seccompDefault", "is true", "SeccompDefault", "remove seccompDefault");
        }
    }),
    ("system-cgroups-root", |config, refusals| {
        if config.text("systemCgroups") == "/" {
            refusals
                .field(
                    config,
                    "systemCgroups",
                    "systemCgroups is \"/\", but processes can only be moved out of the root",
                )
                .help("write the name of another cgroup, such as /system");
        }
    }),
    ("user-namespace-ids", |config, refusals| {
        let ids = config.int("userNamespaces.idsPerPod").unwrap_or(IDS_PER_POD);
        let Some(pods) = config.int("maxPods").filter(|_| config.gate("UserNamespacesSupport")) else { return };
        let Some(most) = USER_IDS.checked_div(ids).filter(|most| *most < pods) else { return };
        let message = format!("maxPods is {pods}, but with {ids} user IDs per pod the IDs suffice for {most} pods");
        if config.given("maxPods").is_some() {
            refusals
                .field(config, "maxPods", message)
                .related_field(config, "userNamespaces.idsPerPod", "the IDs of each pod")
                .help(format!("write {most}, or a smaller number"));
        } else {
            refusals
                .field(config, "userNamespaces.idsPerPod", message)
                .help(format!("write {IDS_PER_POD}, or another multiple of it"));
        }
    }),
];
