//! Images and logs: limits that limit nothing, or something else than they seem to.

use super::defaults;
use super::eviction;
use super::remarks::Remarks;
use crate::quantity::Quantity;
use crate::verdict::Config;

pub(super) fn check(config: &Config<'_>, remarks: &mut Remarks) {
    pulls(config, remarks);
    rates(config, remarks);
    collection(config, remarks);
    let size = config.text("containerLogMaxSize");
    if Quantity::parse(size).is_ok_and(Quantity::is_negative) {
        remarks
            .field(
                config,
                "log-rotation-off",
                "containerLogMaxSize",
                format!("`containerLogMaxSize` is {size}: below zero, logs of containers are never rotated and fill the disk"),
            )
            .help("write the size at which a log is rotated, such as 10Mi");
    }
}

fn pulls(config: &Config<'_>, remarks: &mut Remarks) {
    if config.flag("serializeImagePulls") == Some(false) && config.int("maxParallelImagePulls") == Some(1) {
        remarks
            .field(
                config,
                "pulls-still-serial",
                "maxParallelImagePulls",
                "`serializeImagePulls` is false, but with `maxParallelImagePulls` 1 images are pulled one by one all the same",
            )
            .related(config.place("serializeImagePulls"), "meant to allow more")
            .help("write a higher maxParallelImagePulls, or serializeImagePulls: true");
    }
    if config.int("registryPullQPS") == Some(0) && defaults::is_changed(config, "registryBurst") {
        remarks
            .field(
                config,
                "registry-burst-unused",
                "registryBurst",
                "`registryBurst` has no effect: `registryPullQPS` is 0, so pulls are not limited",
            )
            .related(config.place("registryPullQPS"), "no limit")
            .help("remove it, or write a limit in registryPullQPS");
    }
}

/// A client without a rate of its own gets client-go's, 5 a second, and not freedom.
fn rates(config: &Config<'_>, remarks: &mut Remarks) {
    for (path, code, what) in [
        ("kubeAPIQPS", "kube-api-rate-zero", "requests to the API server"),
        ("eventRecordQPS", "event-rate-zero", "events"),
    ] {
        if config.int(path) == Some(0) {
            remarks
                .field(
                    config,
                    code,
                    path,
                    format!(
                        "`{path}` 0 does not lift the limit on {what}: the client then keeps to its own, 5 a second"
                    ),
                )
                .help("write the highest rate that the API server shall bear, such as 50");
        }
    }
}

fn collection(config: &Config<'_>, remarks: &mut Remarks) {
    let (Some(high), Some(free)) =
        (config.int("imageGCHighThresholdPercent"), eviction::hard_percent(config, "imagefs.available"))
    else {
        return;
    };
    // A share of what is free as the share that is used. 100 switches the collection off, on purpose.
    let evicts = ((100.0 - free) * 100.0).round() / 100.0;
    if (0..100).contains(&high) && high as f64 > evicts {
        let message = format!(
            "unused images are collected from {high}% on, but pods are evicted from {evicts}% on (imagefs.available {free}%)"
        );
        remarks.field(config, "image-gc-after-eviction", "imageGCHighThresholdPercent", message).help(format!(
            "write imageGCHighThresholdPercent: {} or less, and a lower imageGCLowThresholdPercent",
            evicts as i64
        ));
    }
}
