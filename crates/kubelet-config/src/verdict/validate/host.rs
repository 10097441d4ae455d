//! Conditions on the host in `ValidateKubeletConfiguration` (`validation_linux.go`, `validation_windows.go`,
//! `validation_others.go`): the operating system and the cgroup version. A file alone never decides them.

use crate::Minor;
use crate::verdict::{Config, HostCondition, HostNeed};

/// Returns the conditions on the host for this version to accept the configuration.
#[must_use]
pub(in crate::verdict) fn host_conditions(config: &Config<'_>) -> Vec<HostCondition> {
    let mut list = Vec::new();
    let mut add = |field: &str, need: Option<HostNeed>, message: String| {
        list.push(HostCondition { field: field.to_owned(), message, need, place: config.place(field) });
    };
    if config.is("failCgroupV1") {
        let unset = if config.given("failCgroupV1").is_some() { "" } else { " by default" };
        add(
            "failCgroupV1",
            Some(HostNeed::CgroupV2),
            format!("failCgroupV1 is true{unset}: this kubelet does not start on a host with cgroup v1"),
        );
    }
    if config.given("singleProcessOOMKill").is_some() {
        let (hosts, need) = if config.is("singleProcessOOMKill") {
            ("Linux", None)
        } else {
            ("Linux with cgroup v2", Some(HostNeed::CgroupV2))
        };
        add("singleProcessOOMKill", need, format!("singleProcessOOMKill is set: this kubelet starts only on {hosts}"));
    }
    if config.given("userNamespaces").is_some() && config.minor() >= Minor(33) {
        add("userNamespaces", None, "userNamespaces is set: this kubelet starts only on Linux".to_owned());
    }
    list
}
