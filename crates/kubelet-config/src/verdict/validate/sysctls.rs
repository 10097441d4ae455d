//! Rules for `defaultPodSysctls`.

use std::collections::BTreeMap;

use crate::document::Entry;
use crate::verdict::Config;
use crate::verdict::refusals::Check;
use crate::verdict::sysctl::{groups, is_name, is_namespaced, with_dots};

const DEFAULTS: &str = "defaultPodSysctls";
const GATE: &str = "DefaultPodSysctls";

pub(super) const CHECKS: &[Check] = &[
    ("default-pod-sysctls-gate", |config, refusals| {
        if !config.gate(GATE) && config.entries(DEFAULTS).next().is_some() {
            refusals
                .field(config, DEFAULTS, format!("{DEFAULTS} is set, but the feature gate {GATE} is off"))
                .help(format!("set featureGates.{GATE}: true, or remove {DEFAULTS}"));
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
