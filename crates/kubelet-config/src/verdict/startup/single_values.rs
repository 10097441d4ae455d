//! Single values that a component refuses at start-up: `pkg/kubelet/kubelet.go` `NewMainKubelet`, and the rotation of
//! container logs in `pkg/kubelet/logs/container_log_manager.go` `NewContainerLogManager`.

use crate::verdict::refusals::Check;
use crate::{quantity, units};

pub(super) const CHECKS: &[Check] = &[
    ("sync-frequency", |config, refusals| {
        if let Some(nanos) = config.duration("syncFrequency")
            && nanos <= 0
        {
            let message = "syncFrequency is negative; it must be a positive duration";
            refusals.field(config, "syncFrequency", message).help("write a duration such as 1m, or remove the field");
        }
    }),
    ("log-rotation-files", |config, refusals| {
        if let Some(files) = config.int("containerLogMaxFiles")
            && files <= 1
        {
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
        refusals.field(config, "containerLogMaxSize", format!("containerLogMaxSize {text:?} {why}")).help(help);
    }),
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
];
