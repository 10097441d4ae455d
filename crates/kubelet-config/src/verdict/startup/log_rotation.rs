//! The rotation of container logs: `pkg/kubelet/logs/container_log_manager.go` `NewContainerLogManager`. Kubelets up to
//! 1.23 skip it if Docker is the runtime.

use crate::Minor;
use crate::values::{quantity, units};
use crate::verdict::Config;
use crate::verdict::refusals::{Check, Refusals};

/// The first minor that always rotates.
const ALWAYS_ON: Minor = Minor(21);

pub(super) const CHECKS: &[Check] = &[
    ("log-rotation-files", |config, refusals| {
        if let Some(files) = config.int("containerLogMaxFiles").filter(|files| *files <= 1 && is_on(config)) {
            let message = format!("containerLogMaxFiles is {files}; log rotation requires at least 2 files");
            refusals.field(config, "containerLogMaxFiles", message).help("write 2, or a larger number");
        }
    }),
    ("log-rotation-size", |config, refusals| {
        let text = config.text("containerLogMaxSize");
        let (why, help) = match quantity::read(text) {
            Err(why) => (why.to_string(), units::quantity_help(text, "10Mi")),
            Ok(_) if text.ends_with('m') => (
                "is not a number of bytes that the kubelet can read here".to_owned(),
                format!("write \"{}Mi\" for mebibytes: m means thousandths", text.trim_end_matches('m')),
            ),
            Ok(reading) if reading.as_int64.is_none() => (
                "is not a number of bytes that the kubelet can read here".to_owned(),
                "write a whole number without a fraction and with at most 15 digits, such as 1536Mi for 1.5Gi"
                    .to_owned(),
            ),
            Ok(_) => return,
        };
        refuse_size(config, refusals, &why, help);
    }),
    ("log-rotation-negative", |config, refusals| {
        if is_negative(config) {
            refuse_size(config, refusals, "is negative", "write a size such as 10Mi".to_owned());
        }
    }),
];

fn refuse_size(config: &Config<'_>, refusals: &mut Refusals, why: &str, help: String) {
    if is_on(config) {
        let text = config.text("containerLogMaxSize");
        refusals.field(config, "containerLogMaxSize", format!("containerLogMaxSize {text:?} {why}")).help(help);
    }
}

/// Reports whether the size is negative, which switches rotation off or, in old kubelets, is refused.
pub(crate) fn is_negative(config: &Config<'_>) -> bool {
    quantity::read(config.text("containerLogMaxSize")).is_ok_and(|size| size.amount.is_negative())
}

/// Returns the first patch release that accepts a negative size, for the minors whose early patch releases refuse it
/// (kubernetes/kubernetes pull requests 102658, 102390 and 102389).
pub(crate) fn first_patch_with_negative(minor: Minor) -> Option<&'static str> {
    match minor {
        Minor(19) => Some("1.19.16"),
        Minor(20) => Some("1.20.9"),
        Minor(21) => Some("1.21.3"),
        _ => None,
    }
}

fn is_on(config: &Config<'_>) -> bool {
    config.minor() >= ALWAYS_ON || config.gate("CRIContainerLogRotation")
}
