//! Rules of `ValidateKubeletConfiguration` that depend on the host (`validation_linux.go`, `validation_windows.go`,
//! `validation_others.go`): which system it runs, and which version of cgroups. They are said, never decided.

use crate::Minor;
use crate::verdict::{Config, Unknown};

/// What has to be true of the host for a kubelet of this version to take the configuration.
#[must_use]
pub(in crate::verdict) fn unknown(config: &Config<'_>) -> Vec<Unknown> {
    let mut list = Vec::new();
    let mut say = |field: &str, message: String| {
        list.push(Unknown { field: field.to_owned(), message, place: config.place(field) });
    };
    if config.is("failCgroupV1") {
        let unset = if config.given("failCgroupV1").is_some() { "" } else { " by default" };
        say(
            "failCgroupV1",
            format!("failCgroupV1 is true{unset}: on a host with cgroup v1 this kubelet does not start"),
        );
    }
    if config.given("singleProcessOOMKill").is_some() {
        let hosts = if config.is("singleProcessOOMKill") { "Linux" } else { "Linux with cgroup v2" };
        say("singleProcessOOMKill", format!("singleProcessOOMKill is set so that this kubelet starts on {hosts} only"));
    }
    if config.given("userNamespaces").is_some() && config.minor() >= Minor(33) {
        say("userNamespaces", "userNamespaces is set: this kubelet starts on Linux only".to_owned());
    }
    list
}
