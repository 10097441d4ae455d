//! Rules for directories.

use crate::values::clean_path;
use crate::verdict::refusals::Check;

const DIR: &str = "podLogsDir";

pub(super) const CHECKS: &[Check] = &[
    ("pod-logs-dir", |config, refusals| {
        let dir = config.text(DIR);
        // A relative path is joined with the configuration's directory, which also cleans it.
        if dir.starts_with('/') && dir != clean_path(dir) {
            refusals
                .field(config, DIR, format!("{DIR} is {dir}; it must not contain //, . or .., nor end with /"))
                .help(format!("write {}", clean_path(dir)));
        }
    }),
    ("pod-logs-dir-ascii", |config, refusals| {
        let dir = config.text(DIR);
        if let Some(odd) = dir.chars().find(|c| !c.is_ascii()) {
            refusals
                .field(config, DIR, format!("{DIR} is {dir}, with {odd:?}; it must be ASCII"))
                .help("use an ASCII name: the name becomes part of metrics");
        }
    }),
];
