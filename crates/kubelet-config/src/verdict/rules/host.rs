//! Conditions on the host in `ValidateKubeletConfiguration` (`validation_linux.go`, `validation_windows.go`,
//! `validation_others.go`): the operating system and the cgroup version. They are reported, never decided.

use crate::Minor;
use crate::verdict::{Config, HostCondition};

/// Returns the conditions on the host for this version to accept the configuration.
#[must_use]
pub(in crate::verdict) fn host_conditions(config: &Config<'_>) -> Vec<HostCondition> {
    let mut list = Vec::new();
    let mut add = |field: &str, message: String| {
        list.push(HostCondition { field: field.to_owned(), message, place: config.place(field) });
    };
    if config.is("failCgroupV1") {
        let unset = if config.given("failCgroupV1").is_some() { "" } else { " by default" };
        add(
            "failCgroupV1",
            format!("failCgroupV1 is true{unset}: this kubelet does not start on a host with cgroup v1"),
        );
    }
    if config.given("singleProcessOOMKill").is_some() {
        let hosts = if config.is("singleProcessOOMKill") { "Linux" } else { "Linux with cgroup v2" };
        add("singleProcessOOMKill", format!("singleProcessOOMKill is set: this kubelet starts only on {hosts}"));
    }
    if config.given("userNamespaces").is_some() && config.minor() >= Minor(33) {
        add("userNamespaces", "userNamespaces is set: this kubelet starts only on Linux".to_owned());
    }
    list
}
