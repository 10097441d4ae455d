//! Folders that the kubelet is told.

use crate::verdict::refusals::Check;

const DIR: &str = "podLogsDir";

pub(super) const CHECKS: &[Check] = &[
    ("pod-logs-dir", |config, refusals| {
        let dir = config.text(DIR);
        // A relative path is resolved against the folder of the configuration, and cleaned by that.
        if dir.starts_with('/') && dir != cleaned(dir) {
            refusals
                .field(config, DIR, format!("{DIR} is {dir}; it must not have //, . or .. in it, nor end with /"))
                .help(format!("write {}", cleaned(dir)));
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

/// An absolute path as Go's `filepath.Clean` has it.
fn cleaned(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::cleaned;

    #[test]
    fn as_go_cleans_them() {
        for (path, clean) in [
            ("/", "/"),
            ("/a/", "/a"),
            ("//a", "/a"),
            ("/a/./b", "/a/b"),
            ("/a/../b", "/b"),
            ("/..", "/"),
            ("/a..", "/a.."),
        ] {
            assert_eq!(cleaned(path), clean, "{path}");
        }
    }
}
