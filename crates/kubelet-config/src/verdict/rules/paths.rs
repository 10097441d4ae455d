//! Folders that the kubelet is told.

use crate::filepath;
use crate::verdict::refusals::Check;

const DIR: &str = "podLogsDir";

pub(super) const CHECKS: &[Check] = &[
    ("pod-logs-dir", |config, refusals| {
        let dir = config.text(DIR);
        // A relative path is resolved against the folder of the configuration, and cleaned by that.
        if dir.starts_with('/') && dir != filepath::clean(dir) {
            refusals
                .field(config, DIR, format!("{DIR} is {dir}; it must not have //, . or .. in it, nor end with /"))
                .help(format!("write {}", filepath::clean(dir)));
        }
    }),
    ("pod-logs-dir-ascii", |config, refusals| {
        let dir = config.text(DIR);
        if let Some(odd) = dir.chars().find(|c| !c.is_ascii()) {
            refusals
                .field(config, DIR, format!("{DIR} is {dir}, with {odd:?}; it must be ASCII"))
                .help("name the folder in ASCII: it becomes part of metrics");
        }
    }),
];
