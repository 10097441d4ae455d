//! Names of sysctls, and which of them have a separate value in each pod: `pkg/apis/core/validation/validation.go`
//! `IsValidSysctlName`, `pkg/kubelet/sysctl/namespace.go`, since 1.29 `component-helpers/node/util/sysctl/namespace.go`.
//! The rules for `defaultPodSysctls` belong to the validation. Those for `allowedUnsafeSysctls` apply at the start:
//! `pkg/kubelet/sysctl/allowlist.go` `NewAllowlist` (until 1.21 `whitelist.go`).

use std::collections::BTreeMap;

use crate::Minor;
use crate::document::Entry;
use crate::verdict::Config;
use crate::verdict::refusals::Check;

/// The maximum length in bytes.
const MAX_LENGTH: usize = 253;
/// The first minor that also accepts `net/ipv4/ip_forward`.
const SLASHES: Minor = Minor(23);
/// The first minor that requires full names in `kernel.shm*` and `kernel.msg*`.
const WHOLE_NAMES: Minor = Minor(29);
/// The first minor that knows the namespaces of host names and users.
const MORE_NAMESPACES: Minor = Minor(37);

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

/// Returns the groups of namespaced sysctls, for messages.
pub(super) fn groups(minor: Minor) -> &'static str {
    if minor >= MORE_NAMESPACES {
        "kernel.shm*, kernel.msg*, kernel.sem, kernel.domainname, fs.mqueue.*, net.* and user.*"
    } else {
        "kernel.shm*, kernel.msg*, kernel.sem, fs.mqueue.* and net.*"
    }
}

/// Reports whether a text is a name without `*`.
pub(super) fn is_name(text: &str, minor: Minor) -> bool {
    !text.contains('*') && is_pattern(text, minor)
}

/// Reports whether a text consists of segments of lower-case letters, digits, `-` and `_` that start and end with a
/// letter or digit. The last segment may end with `*` or be `*`.
pub(super) fn is_pattern(text: &str, minor: Minor) -> bool {
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

/// Reports whether a name or pattern is known to have a separate value in each pod.
pub(super) fn is_namespaced(pattern: &str, minor: Minor) -> bool {
    let dotted = with_dots(pattern);
    let name = dotted.trim_end_matches('*');
    let below = ["net.", "fs.mqueue."].iter().any(|group| name.starts_with(group));
    let more = minor >= MORE_NAMESPACES && (name == "kernel.domainname" || name.starts_with("user."));
    let kernel = if minor >= WHOLE_NAMES {
        NAMES.contains(&name)
    } else {
        name == "kernel.sem" || name.starts_with("kernel.shm") || name.starts_with("kernel.msg")
    };
    below || kernel || more
}

/// Swaps slashes and dots in a name whose first separator is a slash.
pub(super) fn with_dots(name: &str) -> String {
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

const DEFAULTS: &str = "defaultPodSysctls";
const GATE: &str = "DefaultPodSysctls";

pub(super) const DEFAULTS_OF_PODS: &[Check] = &[
    ("default-pod-sysctls-gate", |config, refusals| {
        if config.entries(DEFAULTS).next().is_some() {
            refusals.require_gate(config, DEFAULTS, "is set", GATE, &format!("remove {DEFAULTS}"));
        }
    }),
    ("default-pod-sysctls-name", |config, refusals| {
        for (sysctl, entry) in checked(config).filter(|(sysctl, _)| !is_name(sysctl, config.minor())) {
            let message = format!("{DEFAULTS} sets {sysctl:?}, which is not the name of a sysctl");
            refusals
                .at(format!("{DEFAULTS}.{sysctl}"), entry.key_place.clone(), message)
                .help("spell it in lower case with dots, such as net.core.somaxconn");
        }
    }),
    ("default-pod-sysctls-namespace", |config, refusals| {
        for (sysctl, entry) in names(config).filter(|(sysctl, _)| !is_namespaced(sysctl, config.minor())) {
            let message = format!("{DEFAULTS} sets {sysctl}, which has no value of its own in each pod");
            let groups = groups(config.minor());
            refusals
                .at(format!("{DEFAULTS}.{sysctl}"), entry.key_place.clone(), message)
                .help(format!("remove it, and set it on the node; pods have own values only of {groups}"));
        }
    }),
    ("default-pod-sysctls-duplicate", |config, refusals| {
        let mut places = BTreeMap::new();
        for (sysctl, entry) in names(config) {
            if let Some(first) = places.insert(with_dots(sysctl), entry.key_place.clone()) {
                let message = format!("{DEFAULTS} sets {} twice", with_dots(sysctl));
                refusals
                    .at(format!("{DEFAULTS}.{sysctl}"), entry.key_place.clone(), message)
                    .related(first, "the same sysctl")
                    .help("remove one of them; a name with slashes is the same as one with dots");
            }
        }
    }),
];

/// Returns the sysctls that the kubelet checks: all, if the feature gate is on.
fn checked<'d>(config: &Config<'d>) -> impl Iterator<Item = (&'d str, &'d Entry)> + use<'d> {
    let on = config.gate(GATE);
    config.entries(DEFAULTS).filter(move |_| on)
}

/// Returns the sysctls with a valid name.
fn names<'d>(config: &Config<'d>) -> impl Iterator<Item = (&'d str, &'d Entry)> + use<'d> {
    let minor = config.minor();
    checked(config).filter(move |(sysctl, _)| is_name(sysctl, minor))
}

pub(super) const UNSAFE: &[Check] = &[
    ("unsafe-sysctl-form", |config, refusals| {
        for (field, sysctl, node) in config.items("allowedUnsafeSysctls") {
            if !is_pattern(sysctl, config.minor()) {
                let message = format!("{field} {sysctl:?} is not the name of a sysctl");
                let help =
                    "write lower-case names joined by dots such as net.core.somaxconn; a * at the end matches a prefix";
                refusals.at(field, node.place.clone(), message).help(help);
            }
        }
    }),
    ("unsafe-sysctl-namespace", |config, refusals| {
        let patterns = config.items("allowedUnsafeSysctls").filter(|(_, text, _)| is_pattern(text, config.minor()));
        for (field, sysctl, node) in patterns {
            if !is_namespaced(sysctl, config.minor()) {
                let message = format!("{field} {sysctl:?} has no value of its own in each pod");
                let groups = groups(config.minor());
                let help = format!("remove it, and set it on the node; pods have own values only of {groups}");
                refusals.at(field, node.place.clone(), message).help(help);
            }
        }
    }),
];
