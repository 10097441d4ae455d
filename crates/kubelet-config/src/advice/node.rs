//! Advice on the node: status updates, registration and shutdown.

use std::collections::BTreeMap;

use super::defaults;
use super::remarks::Remarks;
use crate::Minor;
use crate::verdict::Config;

const SECOND: i64 = 1_000_000_000;
/// The largest limit of a cgroup (`PID_MAX_LIMIT` of Linux on 64 bits).
const MAX_PIDS: i64 = 4_194_304;

pub(super) fn check(config: &Config<'_>, remarks: &mut Remarks) {
    status(config, remarks);
    taints(config, remarks);
    shutdown(config, remarks);
    intervals(config, remarks);
    if let Some(limit) = config.int("podPidsLimit").filter(|limit| *limit > MAX_PIDS) {
        let message = format!("`podPidsLimit` is {limit}, but Linux allows at most {MAX_PIDS}: no pod starts");
        remarks
            .field(config, "pids-limit-too-high", "podPidsLimit", message)
            .help(format!("write {MAX_PIDS}, or a smaller number"));
    }
}

/// Finds negative intervals of work that the kubelet then repeats without a pause.
fn intervals(config: &Config<'_>, remarks: &mut Remarks) {
    let reconciles = config.text("cpuManagerPolicy") == "static";
    for (path, work, works) in [
        ("nodeStatusUpdateFrequency", "computes the node's status", true),
        ("httpCheckFrequency", "requests staticPodURL", !config.text("staticPodURL").is_empty()),
        ("cpuManagerReconcilePeriod", "reconciles CPUs", reconciles),
    ] {
        if works && config.duration(path).is_some_and(|interval| interval < 0) {
            let message = format!("`{path}` is negative: the kubelet {work} again and again without a pause");
            remarks.field(config, "no-pause", path, message).help("write a duration such as 10s, or remove it");
        }
    }
}

fn status(config: &Config<'_>, remarks: &mut Remarks) {
    let update = config.duration("nodeStatusUpdateFrequency").unwrap_or(0);
    let report_set = defaults::is_set(config, "nodeStatusReportFrequency");
    let follows = !report_set && defaults::is_set(config, "nodeStatusUpdateFrequency");
    let report = if follows { Some(update) } else { config.duration("nodeStatusReportFrequency") }.unwrap_or(0);
    if report_set && report > 0 && report < update {
        let message = format!(
            "`nodeStatusReportFrequency` is {}, but the status is computed only every {}",
            seconds(report),
            seconds(update)
        );
        remarks
            .field(config, "report-before-update", "nodeStatusReportFrequency", message)
            .help(format!("write {} or more; the kubelet reports changes at once anyway", seconds(update)));
    }
    if follows && update > 0 && update < 300 * SECOND {
        let message = format!(
            "`nodeStatusUpdateFrequency` without `nodeStatusReportFrequency` makes every node report an unchanged \
             status every {} instead of every 5m",
            seconds(update)
        );
        remarks
            .field(config, "report-follows-update", "nodeStatusUpdateFrequency", message)
            .help("also set nodeStatusReportFrequency: 5m");
    }
    // The kubelet renews the lease four times per duration (pkg/kubelet/kubelet.go, nodeLeaseRenewIntervalFraction).
    let lease = config.int("nodeLeaseDurationSeconds").unwrap_or(0);
    let renewal = lease.saturating_mul(SECOND) / 4;
    let grace = if config.minor() >= Minor(32) { 50 } else { 40 };
    if renewal >= grace * SECOND && report >= grace * SECOND {
        let message = format!(
            "with `nodeLeaseDurationSeconds` {lease} the kubelet sends a heartbeat every {}, but the control plane \
             marks a node as unhealthy after {grace}s by default",
            seconds(renewal)
        );
        remarks.field(config, "lease-too-long", "nodeLeaseDurationSeconds", message).help(
            "set it to 40; for a longer lease, raise the controller manager's --node-monitor-grace-period well above a \
             quarter of it",
        );
    }
}

fn taints(config: &Config<'_>, remarks: &mut Remarks) {
    let taints = config.list("registerWithTaints").unwrap_or_default();
    if !taints.is_empty() && config.flag("registerNode") == Some(false) {
        remarks
            .field(
                config,
                "taints-unused",
                "registerWithTaints",
                "`registerWithTaints` has no effect: `registerNode` is false, so the kubelet does not register its node",
            )
            .related(config.place("registerNode"), "switched off here")
            .help("set the taints on the Node object, or set registerNode: true");
        return;
    }
    let mut seen = BTreeMap::new();
    for (at, taint) in taints.iter().enumerate() {
        let Some(key) = taint.get("key").and_then(|key| key.text()) else { continue };
        let effect = taint.get("effect").and_then(|effect| effect.text()).unwrap_or_default();
        if effect.is_empty() {
            remarks
                .at(
                    "taint-without-effect",
                    format!("registerWithTaints[{at}].effect"),
                    taint.place.clone(),
                    format!("the taint {key} lacks an effect: the API server refuses to register such a Node"),
                )
                .help("set effect to NoSchedule, PreferNoSchedule or NoExecute");
        } else if let Some(first) = seen.insert((key, effect), taint) {
            remarks
                .at(
                    "taint-twice",
                    format!("registerWithTaints[{at}]"),
                    taint.place.clone(),
                    format!("the taint {key}:{effect} is duplicated: the API server refuses to register such a Node"),
                )
                .related(first.place.clone(), "first occurrence")
                .help("remove one of them");
        }
    }
}

fn shutdown(config: &Config<'_>, remarks: &mut Remarks) {
    let total = config.duration("shutdownGracePeriod").unwrap_or(0);
    let critical = config.duration("shutdownGracePeriodCriticalPods").unwrap_or(0);
    if total <= 0 {
        return;
    }
    if critical == total {
        let message = format!(
            "critical pods get the whole shutdown period of {}: other pods are killed without a grace period",
            seconds(total)
        );
        remarks
            .field(config, "shutdown-all-critical", "shutdownGracePeriodCriticalPods", message)
            .related(config.place("shutdownGracePeriod"), "the period for all pods")
            .help(format!(
                "write less than the total period, such as {}; the difference is for other pods",
                seconds(total / 3 / SECOND * SECOND)
            ));
    } else if critical == 0 {
        let message = format!(
            "`shutdownGracePeriod` is {}, all for ordinary pods: critical pods are killed without a grace period",
            seconds(total)
        );
        remarks.field(config, "shutdown-none-critical", "shutdownGracePeriod", message).help(format!(
            "set shutdownGracePeriodCriticalPods: {}, or another part of the period",
            seconds((total / 3 / SECOND).max(1) * SECOND)
        ));
    }
}

/// Formats a duration in seconds or milliseconds.
fn seconds(nanos: i64) -> String {
    if nanos % SECOND == 0 { format!("{}s", nanos / SECOND) } else { format!("{}ms", nanos / 1_000_000) }
}
