//! Advice on the CPU, memory and topology managers, cgroups and swap: settings without effect, and settings that
//! contradict each other.

use super::defaults;
use super::remarks::Remarks;
use crate::verdict::{Config, cpu_manager::static_policy};

pub(super) fn check(config: &Config<'_>, remarks: &mut Remarks) {
    cpu(config, remarks);
    memory(config, remarks);
    topology(config, remarks);
    swap(config, remarks);
}

fn cpu(config: &Config<'_>, remarks: &mut Remarks) {
    let policy = config.text("cpuManagerPolicy");
    if policy == "none" && defaults::is_changed(config, "cpuManagerReconcilePeriod") {
        remarks
            .field(
                config,
                "cpu-reconcile-unused",
                "cpuManagerReconcilePeriod",
                "`cpuManagerReconcilePeriod` has no effect: the policy none reconciles nothing",
            )
            .help(format!("remove it, or set {}", static_policy(config)));
    }
    if config.flag("cpuCFSQuota") == Some(false) && defaults::is_changed(config, "cpuCFSQuotaPeriod") {
        remarks
            .field(
                config,
                "cfs-period-unused",
                "cpuCFSQuotaPeriod",
                "`cpuCFSQuotaPeriod` has no effect: `cpuCFSQuota` is false, so CPU limits set no quota",
            )
            .related(config.place("cpuCFSQuota"), "switched off here")
            .help("remove it, or set cpuCFSQuota: true");
    }
}

fn memory(config: &Config<'_>, remarks: &mut Remarks) {
    let policy = config.text("memoryManagerPolicy");
    if matches!(policy, "None" | "none") && config.list("reservedMemory").is_some_and(|list| !list.is_empty()) {
        remarks
            .field(
                config,
                "reserved-memory-unused",
                "reservedMemory",
                "`reservedMemory` has no effect: the memory manager's policy is None",
            )
            .help("set memoryManagerPolicy: Static, or remove reservedMemory");
    }
}

fn topology(config: &Config<'_>, remarks: &mut Remarks) {
    let policy = config.text("topologyManagerPolicy");
    if policy != "none" {
        if config.text("cpuManagerPolicy") == "none"
            && matches!(config.text("memoryManagerPolicy"), "None" | "none" | "")
        {
            let message = format!(
                "`topologyManagerPolicy` is {policy}, but the CPU and memory managers are off: only devices are aligned"
            );
            remarks.field(config, "topology-devices-only", "topologyManagerPolicy", message).help(format!(
                "to align CPUs, set {}; the memory manager aligns memory with its policy Static",
                static_policy(config)
            ));
        }
        return;
    }
    if config.text("topologyManagerScope") == "pod" {
        remarks
            .field(
                config,
                "topology-scope-unused",
                "topologyManagerScope",
                "`topologyManagerScope` has no effect: the topology manager's policy is none",
            )
            .help("set topologyManagerPolicy to best-effort, restricted or single-numa-node, or remove the scope");
    }
    if config.entries("topologyManagerPolicyOptions").next().is_some() {
        remarks
            .field(
                config,
                "topology-options-unused",
                "topologyManagerPolicyOptions",
                "`topologyManagerPolicyOptions` have no effect: the topology manager's policy is none",
            )
            .help("set topologyManagerPolicy to best-effort, restricted or single-numa-node, or remove the options");
    }
}

fn swap(config: &Config<'_>, remarks: &mut Remarks) {
    let behavior = config.text("memorySwap.swapBehavior");
    if matches!(behavior, "LimitedSwap" | "UnlimitedSwap") && config.is("failSwapOn") {
        let message = format!(
            "`memorySwap.swapBehavior` is {behavior}, but `failSwapOn` is true: the kubelet starts only without swap"
        );
        remarks
            .field(config, "swap-never-used", "memorySwap.swapBehavior", message)
            .help("set failSwapOn: false, or remove memorySwap");
    }
}

/// Checks `cgroupDriver`. The kubelet uses cgroupfs for every value except `systemd`.
pub(super) fn cgroup_driver(config: &Config<'_>, remarks: &mut Remarks) {
    let driver = config.text("cgroupDriver");
    if !matches!(driver, "systemd" | "cgroupfs") {
        let message = format!("`cgroupDriver` is {driver:?}, which the kubelet silently treats as cgroupfs");
        remarks
            .field(config, "cgroup-driver-unknown", "cgroupDriver", message)
            .help("set it to systemd or cgroupfs, to match the container runtime");
    } else if config.given("cgroupDriver").is_some()
        && driver == "cgroupfs"
        && !config.gate("KubeletCgroupDriverFromCRI")
    {
        remarks
            .field(
                config,
                "cgroup-driver-cgroupfs",
                "cgroupDriver",
                "`cgroupDriver` is cgroupfs; it must match the container runtime, and conflicts with systemd on hosts \
                 with systemd",
            )
            .help("on hosts with systemd, set cgroupDriver: systemd, and configure the runtime accordingly");
    }
}
