//! Advice on images and logs: limits without the intended effect.

use super::defaults;
use super::eviction;
use super::remarks::Remarks;
use crate::Minor;
use crate::verdict::{Config, log_rotation};

pub(super) fn check(config: &Config<'_>, remarks: &mut Remarks) {
    pulls(config, remarks);
    rates(config, remarks);
    collection(config, remarks);
    if log_rotation::is_negative(config) {
        let size = config.text("containerLogMaxSize");
        let effect = match log_rotation::first_patch_with_negative(config.minor()) {
            Some(patch) => format!("kubelets before {patch} exit; later ones never rotate container logs"),
            None => "container logs are never rotated and fill the disk".to_owned(),
        };
        remarks
            .field(
                config,
                "log-rotation-off",
                "containerLogMaxSize",
                format!("`containerLogMaxSize` is {size}: {effect}"),
            )
            .help("set the size for log rotation, such as 10Mi");
    }
}

fn pulls(config: &Config<'_>, remarks: &mut Remarks) {
    if config.flag("serializeImagePulls") == Some(false) && config.int("maxParallelImagePulls") == Some(1) {
        remarks
            .field(
                config,
                "pulls-still-serial",
                "maxParallelImagePulls",
                "`serializeImagePulls` is false, but `maxParallelImagePulls` is 1, so images are pulled one by one",
            )
            .related(config.place("serializeImagePulls"), "allows parallel pulls")
            .help("raise maxParallelImagePulls, or set serializeImagePulls: true");
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
            .help("remove it, or set a limit in registryPullQPS");
    }
}

/// The first minor in which a rate of 0 for events means no limit (kubernetes/kubernetes#117119).
const EVENTS_UNLIMITED: Minor = Minor(37);

/// Finds rates of 0. For a rate of 0 the client uses client-go's default, 5 per second.
fn rates(config: &Config<'_>, remarks: &mut Remarks) {
    let mut zero = |path: &str, code: &'static str, what: &str, until: &str| {
        if config.int(path) == Some(0) {
            let message =
                format!("`{path}` 0 does not remove the limit on {what}: {until}the client falls back to 5 per second");
            remarks
                .field(config, code, path, message)
                .help("set the highest rate that the API server can handle, such as 50");
        }
    };
    zero("kubeAPIQPS", "kube-api-rate-zero", "requests to the API server", "");
    if config.minor() < EVENTS_UNLIMITED {
        zero("eventRecordQPS", "event-rate-zero", "events", &format!("before {EVENTS_UNLIMITED} "));
    }
}

fn collection(config: &Config<'_>, remarks: &mut Remarks) {
    let (Some(high), Some(free)) =
        (config.int("imageGCHighThresholdPercent"), eviction::hard_percent(config, "imagefs.available"))
    else {
        return;
    };
    // Convert the free share to the used share. A threshold of 100 disables the collection.
    let evicts = ((100.0 - free) * 100.0).round() / 100.0;
    if (0..100).contains(&high) && high as f64 > evicts {
        let message = format!(
            "unused images are removed above {high}% disk usage, but pods are evicted above {evicts}% \
             (imagefs.available {free}%)"
        );
        remarks.field(config, "image-gc-after-eviction", "imageGCHighThresholdPercent", message).help(format!(
            "set imageGCHighThresholdPercent to {} or less, and lower imageGCLowThresholdPercent",
            evicts as i64
        ));
    }
}
