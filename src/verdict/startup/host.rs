//! What decides on the host whether the kubelet starts: files, cgroups, capacity, CPUs and NUMA nodes, swap. Only what the
//! configuration makes a question of; what every kubelet needs is not listed.

use super::{cpu_manager, memory_manager, policy_options, reservations, reserved_cpus, texts};
use crate::kubelet::{Minor, strconv};
use crate::verdict::{Config, Unknown};

/// The last minor with dockershim, where a runtime of Docker's rotates logs itself.
const DOCKERSHIM: Minor = Minor(23);

/// What must be true of the host.
pub(super) fn unknown(config: &Config<'_>) -> Vec<Unknown> {
    let mut unknown = Vec::new();
    let mut say = |field: &str, message: String| {
        unknown.push(Unknown { field: field.to_owned(), message, place: config.place(field) });
    };
    files(config, &mut say);
    cgroups(config, &mut say);
    capacity(config, &mut say);
    managers(config, &mut say);
    kernel(config, &mut say);
    runtime(config, &mut say);
    unknown
}

fn files(config: &Config<'_>, say: &mut impl FnMut(&str, String)) {
    let authorities = config.text("authentication.x509.clientCAFile");
    if !authorities.is_empty() {
        let message = format!("{authorities} must hold certificates in PEM that the kubelet can read");
        say("authentication.x509.clientCAFile", message);
    }
    let (certificate, key) = (config.text("tlsCertFile"), config.text("tlsPrivateKeyFile"));
    if !config.is("serverTLSBootstrap") && !(certificate.is_empty() && key.is_empty()) {
        let path = if certificate.is_empty() { "tlsPrivateKeyFile" } else { "tlsCertFile" };
        let message = match (certificate, key) {
            (one, "") | ("", one) => {
                format!("{one} is one of a pair; the kubelet needs tlsCertFile and tlsPrivateKeyFile")
            }
            _ => format!("{certificate} and {key} must be a certificate and its key that the kubelet can read"),
        };
        say(path, message);
    }
    if config.given("volumePluginDir").is_some() {
        let folder = config.text("volumePluginDir");
        say("volumePluginDir", format!("{folder} must be there, or the kubelet must be able to make it"));
    }
}

fn cgroups(config: &Config<'_>, say: &mut impl FnMut(&str, String)) {
    if config.is("cgroupsPerQOS") && !matches!(config.text("cgroupRoot"), "" | "/") {
        say("cgroupRoot", format!("the cgroup {} must be there", config.text("cgroupRoot")));
    }
    for (list, path) in [("system-reserved", "systemReservedCgroup"), ("kube-reserved", "kubeReservedCgroup")] {
        let enforced = config.list("enforceNodeAllocatable").unwrap_or_default();
        let enforced =
            enforced.iter().filter_map(|item| item.text()).any(|item| item.trim_end_matches("-compressible") == list);
        if enforced && !config.text(path).is_empty() {
            say(path, format!("the cgroup {} must be there, since {list} is enforced", config.text(path)));
        }
    }
    if config.gate("NodeSwap") && config.text("memorySwap.swapBehavior") == "LimitedSwap" && config.minor() >= Minor(30)
    {
        say("memorySwap.swapBehavior", "LimitedSwap needs cgroup v2".to_owned());
    }
}

fn capacity(config: &Config<'_>, say: &mut impl FnMut(&str, String)) {
    if let Some(path) = reservations::LISTS.into_iter().find(|path| config.entries(path).next().is_some()) {
        let message = "kubeReserved, systemReserved and the hard eviction thresholds together must leave something of every \
                       resource of the node";
        say(path, message.to_owned());
    }
    let list = config.text("reservedSystemCPUs");
    match reserved_cpus::count(config) {
        Some(0) if !list.is_empty() => {
            say("reservedSystemCPUs", format!("{list:?} holds no CPU; kubelets until 1.21 crash on that"));
        }
        Some(1..) => say("reservedSystemCPUs", format!("the node must have the CPUs {list}")),
        _ => {}
    }
}

fn managers(config: &Config<'_>, say: &mut impl FnMut(&str, String)) {
    if cpu_manager::is_static(config) {
        let message = "a cpu_manager_state that another policy left on the node must go first";
        say("cpuManagerPolicy", message.to_owned());
        if policy_options::switched_on(config, "cpuManagerPolicyOptions", "align-by-socket").is_some() {
            let message = "align-by-socket needs a node with no more sockets than NUMA nodes";
            say("cpuManagerPolicyOptions", message.to_owned());
        }
    }
    if memory_manager::is_static(config) {
        let message = "a memory_manager_state that another policy left on the node must go first";
        say("memoryManagerPolicy", message.to_owned());
        for sums in memory_manager::sums(config).into_iter().filter(|sums| sums.kept != Some(sums.reserved_memory)) {
            let (kind, has) = (&sums.kind, sums.reserved_memory);
            let kept = match sums.kept {
                Some(kept) => format!("they add up to {kept} bytes"),
                None => "that depends on the node's memory".to_owned(),
            };
            let wanted = "kubeReserved, systemReserved and the hard eviction threshold together";
            let message =
                format!("reservedMemory has {has} bytes of {kind}, and must have as much as {wanted}: {kept}");
            say(
                if config.given("reservedMemory").is_some() { "reservedMemory" } else { "memoryManagerPolicy" },
                message,
            );
        }
        if config.given("reservedMemory").is_some() {
            say("reservedMemory", "the node must have every NUMA node that is named".to_owned());
        }
    }
    let topology = config.text("topologyManagerPolicy");
    let tried = config.minor() > Minor(26) || config.gate("TopologyManager");
    if tried && !matches!(topology, "none" | "") {
        let most = texts(config, "topologyManagerPolicyOptions").find(|(name, ..)| *name == "max-allowable-numa-nodes");
        let most = most.and_then(|(_, text, _)| strconv::integer(text)).unwrap_or(policy_options::NUMA_NODES);
        say("topologyManagerPolicy", format!("{topology} needs a node with at most {most} NUMA nodes"));
    }
}

fn kernel(config: &Config<'_>, say: &mut impl FnMut(&str, String)) {
    if config.given("failSwapOn").is_some() && config.is("failSwapOn") {
        say("failSwapOn", "no swap may be in use".to_owned());
    }
    if config.is("protectKernelDefaults") {
        let message = "the kernel must be set as the kubelet would set it, such as vm.overcommit_memory = 1";
        say("protectKernelDefaults", message.to_owned());
    }
}

fn runtime(config: &Config<'_>, say: &mut impl FnMut(&str, String)) {
    if config.given("cgroupDriver").is_some() && !config.gate("KubeletCgroupDriverFromCRI") {
        let driver = if config.text("cgroupDriver") == "systemd" { "systemd" } else { "cgroupfs" };
        say("cgroupDriver", format!("the container runtime must use the driver {driver} too"));
    }
    if config.given("containerRuntimeEndpoint").is_some() {
        let endpoint = config.text("containerRuntimeEndpoint");
        let message = if endpoint.contains("://") && !endpoint.starts_with("unix://") {
            format!("on Linux the kubelet reaches a runtime through a unix socket alone, not through {endpoint}")
        } else {
            format!("a container runtime must answer at {endpoint}")
        };
        say("containerRuntimeEndpoint", message);
    }
    if let Some(files) = config.int("containerLogMaxFiles")
        && files <= 1
        && config.minor() <= DOCKERSHIM
    {
        let message = format!("{files} is too few, unless the container runtime is Docker, which rotates logs itself");
        say("containerLogMaxFiles", message);
    }
}
