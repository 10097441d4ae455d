//! The rules for `allowedUnsafeSysctls`: `pkg/kubelet/sysctl/allowlist.go` `NewAllowlist` (until 1.21 `whitelist.go`),
//! `namespace.go`, since 1.29 `component-helpers/node/util/sysctl/namespace.go`.

use super::items;
use crate::Minor;
use crate::verdict::refusals::Check;

/// The maximum length in bytes.
const MAX_LENGTH: usize = 253;
/// The first minor that also accepts `net/ipv4/ip_forward`.
const SLASHES: Minor = Minor(23);
/// The first minor that requires full names in `kernel.shm*` and `kernel.msg*`.
const WHOLE_NAMES: Minor = Minor(29);

/// The namespaced sysctls with full names, since 1.29.
const NAMES: [&str; 10] = [
    "kernel.sem",
    "kernel.shm",
    "kernel.shmall",
    "kernel.shmmax",
    "kernel.shmmni",
    "kernel.shm_rmid_forced",
    "kernel.msg",
    "kernel.msgmax",
    "kernel.msgmnb",
    "kernel.msgmni",
];

pub(super) const CHECKS: &[Check] = &[
    ("unsafe-sysctl-form", |config, refusals| {
        for (field, sysctl, node) in items(config, "allowedUnsafeSysctls") {
            if !is_pattern(sysctl, config.minor()) {
                let message = format!("{field} {sysctl:?} is not the name of a sysctl");
                let help =
                    "write lower-case names joined by dots such as net.core.somaxconn; a * at the end matches a prefix";
                refusals.at(field, node.place.clone(), message).help(help);
            }
        }
    }),
    ("unsafe-sysctl-namespace", |config, refusals| {
        let patterns = items(config, "allowedUnsafeSysctls").filter(|(_, text, _)| is_pattern(text, config.minor()));
        for (field, sysctl, node) in patterns {
            if !is_namespaced(sysctl, config.minor()) {
                let message = format!("{field} {sysctl:?} has no value of its own in each pod");
                let help = "remove it, and set it on the node; pods have own values only of kernel.shm*, kernel.msg*, kernel.sem, \
                     fs.mqueue.* and net.*";
                refusals.at(field, node.place.clone(), message).help(help);
            }
        }
    }),
];

/// Reports whether a text consists of segments of lower-case letters, digits, `-` and `_` that start and end with a
/// letter or digit. The last segment may end with `*` or be `*`.
fn is_pattern(text: &str, minor: Minor) -> bool {
    let separator = |c: char| c == '.' || c == '/' && minor >= SLASHES;
    let outer = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let inner = |b: &u8| outer(b) || matches!(b, b'-' | b'_');
    let segment = |text: &str, last: bool| match text.as_bytes() {
        [] => false,
        [one] => outer(one) || last && *one == b'*',
        [first, middle @ .., end] => outer(first) && middle.iter().all(inner) && (outer(end) || last && *end == b'*'),
    };
    let mut segments: Vec<_> = text.split(separator).collect();
    let end = segments.pop().unwrap_or_default();
    text.len() <= MAX_LENGTH && segments.iter().all(|text| segment(text, false)) && segment(end, true)
}

fn is_namespaced(pattern: &str, minor: Minor) -> bool {
    let dotted = with_dots(pattern);
    let name = dotted.trim_end_matches('*');
    let below = ["net.", "fs.mqueue."].iter().any(|group| name.starts_with(group));
    let kernel = if minor >= WHOLE_NAMES {
        NAMES.contains(&name)
    } else {
        name == "kernel.sem" || name.starts_with("kernel.shm") || name.starts_with("kernel.msg")
    };
    below || kernel
}

/// Swaps slashes and dots in a name whose first separator is a slash.
fn with_dots(name: &str) -> String {
    if name.chars().find(|c| matches!(c, '.' | '/')) == Some('/') {
        let swap = |c| match c {
            '.' => '/',
            '/' => '.',
            other => other,
        };
        return name.chars().map(swap).collect();
    }
    name.to_owned()
}
