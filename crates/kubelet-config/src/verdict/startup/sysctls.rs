//! The rules for `allowedUnsafeSysctls`: `pkg/kubelet/sysctl/allowlist.go` `NewAllowlist` (until 1.21 `whitelist.go`).

use super::items;
use crate::verdict::refusals::Check;
use crate::verdict::sysctl::{groups, is_namespaced, is_pattern};

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
                let groups = groups(config.minor());
                let help = format!("remove it, and set it on the node; pods have own values only of {groups}");
                refusals.at(field, node.place.clone(), message).help(help);
            }
        }
    }),
];
