//! Conditions on the host for the kubelet to start: files, cgroups, capacity, CPUs, NUMA nodes and swap. Only
//! conditions that the configuration causes are listed, not those of every kubelet.

use super::memory_manager::Sums;
use super::runtime::ENDPOINTS;
use super::{cpu_manager, log_rotation, memory_manager, policy_options, reservations, reserved_cpus, server, texts};
use crate::verdict::{Config, HostCondition};
use crate::{Minor, strconv};

/// Returns the conditions on the host.
pub(super) fn host_conditions(config: &Config<'_>) -> Vec<HostCondition> {
    let mut host_conditions = Vec::new();
    let mut add = |field: &str, message: String| {
        host_conditions.push(HostCondition { field: field.to_owned(), message, place: config.place(field) });
    };
    files(config, &mut add);
    cgroups(config, &mut add);
    capacity(config, &mut add);
    managers(config, &mut add);
    kernel(config, &mut add);
    runtime(config, &mut add);
    listening(config, &mut add);
    host_conditions
}

fn files(config: &Config<'_>, add: &mut impl FnMut(&str, String)) {
    let authorities = config.text("authentication.x509.clientCAFile");
    if !authorities.is_empty() {
        let message = format!("{authorities} must contain PEM certificates that the kubelet can read");
        add("authentication.x509.clientCAFile", message);
    }
    let (certificate, key) = (config.text("tlsCertFile"), config.text("tlsPrivateKeyFile"));
    if !config.is("serverTLSBootstrap") && !certificate.is_empty() && !key.is_empty() {
        let message = format!("{certificate} and {key} must be a certificate and its key that the kubelet can read");
        add("tlsCertFile", message);
    }
    if config.given("podLogsDir").is_some() {
        let folder = config.text("podLogsDir");
        add("podLogsDir", format!("{folder} must exist, or the kubelet must be able to create it"));
    }
}

fn cgroups(config: &Config<'_>, add: &mut impl FnMut(&str, String)) {
    if config.is("cgroupsPerQOS") && !matches!(config.text("cgroupRoot"), "" | "/") {
        add("cgroupRoot", format!("the cgroup {} must exist", config.text("cgroupRoot")));
    }
    for (list, path) in [("system-reserved", "systemReservedCgroup"), ("kube-reserved", "kubeReservedCgroup")] {
        let enforced = config.list("enforceNodeAllocatable").unwrap_or_default();
        let enforced =
            enforced.iter().filter_map(|item| item.text()).any(|item| item.trim_end_matches("-compressible") == list);
        if enforced && !config.text(path).is_empty() {
            add(path, format!("the cgroup {} must exist, because {list} is enforced", config.text(path)));
        }
    }
    if config.gate("NodeSwap") && config.text("memorySwap.swapBehavior") == "LimitedSwap" && config.minor() >= Minor(30)
    {
        add("memorySwap.swapBehavior", "LimitedSwap requires cgroup v2".to_owned());
    }
}

fn capacity(config: &Config<'_>, add: &mut impl FnMut(&str, String)) {
    if let Some(path) = reservations::LISTS.into_iter().find(|path| config.entries(path).next().is_some()) {
        let message = "the node must have more of every resource than kubeReserved, systemReserved and the hard \
                       eviction thresholds together";
        add(path, message.to_owned());
    }
    if reserved_cpus::count(config).is_some_and(|cpus| cpus > 0) {
        let list = config.text("reservedSystemCPUs");
        add("reservedSystemCPUs", format!("the node must have the CPUs {list}"));
    }
}

fn managers(config: &Config<'_>, add: &mut impl FnMut(&str, String)) {
    if cpu_manager::is_static(config) {
        let message = "remove a cpu_manager_state of another policy from the node first";
        add("cpuManagerPolicy", message.to_owned());
        if policy_options::switched_on(config, "cpuManagerPolicyOptions", "align-by-socket").is_some() {
            let message = "align-by-socket requires a node with at least as many NUMA nodes as sockets";
            add("cpuManagerPolicyOptions", message.to_owned());
        }
    }
    if memory_manager::is_static(config) {
        memory(config, add);
    }
    let topology = config.text("topologyManagerPolicy");
    let tried = config.minor() > Minor(26) || config.gate("TopologyManager");
    if tried && !matches!(topology, "none" | "") {
        let most = texts(config, "topologyManagerPolicyOptions").find(|(name, ..)| *name == "max-allowable-numa-nodes");
        let most = most.and_then(|(_, text, _)| strconv::integer(text)).unwrap_or(policy_options::NUMA_NODES);
        add("topologyManagerPolicy", format!("{topology} requires a node with at most {most} NUMA nodes"));
    }
}

fn memory(config: &Config<'_>, add: &mut impl FnMut(&str, String)) {
    let message = "remove a memory_manager_state of another policy from the node first";
    add("memoryManagerPolicy", message.to_owned());
    let path = if config.given("reservedMemory").is_some() { "reservedMemory" } else { "memoryManagerPolicy" };
    for Sums { kind, reserved_memory, .. } in
        memory_manager::sums(config).into_iter().filter(|sums| sums.kept.is_none())
    {
        let message = format!(
            "reservedMemory reserves {reserved_memory} bytes of {kind}; this must equal the sum of kubeReserved, \
             systemReserved and the hard eviction threshold, which depends on the node's memory"
        );
        add(path, message);
    }
    if path == "reservedMemory" {
        add(path, "the node must have every NUMA node in the list".to_owned());
    }
}

fn kernel(config: &Config<'_>, add: &mut impl FnMut(&str, String)) {
    if config.given("failSwapOn").is_some() && config.is("failSwapOn") {
        add("failSwapOn", "swap must be off".to_owned());
    }
    if config.is("protectKernelDefaults") {
        let message = "kernel parameters must equal the kubelet's defaults, such as vm.overcommit_memory = 1";
        add("protectKernelDefaults", message.to_owned());
    }
}

fn runtime(config: &Config<'_>, add: &mut impl FnMut(&str, String)) {
    if config.given("cgroupDriver").is_some() {
        let is_systemd = config.text("cgroupDriver") == "systemd";
        let driver = if is_systemd { "systemd" } else { "cgroupfs" };
        // Otherwise the kubelet asks the runtime for its driver.
        let runtime = format!("the container runtime must use the driver {driver} too");
        match (is_systemd, config.gate("KubeletCgroupDriverFromCRI")) {
            (true, true) => add("cgroupDriver", "systemd must run on the host".to_owned()),
            (true, false) => add("cgroupDriver", format!("systemd must run on the host, and {runtime}")),
            (false, true) => {}
            (false, false) => add("cgroupDriver", runtime),
        }
    }
    for path in ENDPOINTS.into_iter().filter(|path| config.given(path).is_some()) {
        add(path, format!("a container runtime must listen at {}", config.text(path)));
    }
    if let Some(patch) = log_rotation::first_patch_with_negative(config.minor())
        && log_rotation::is_negative(config)
    {
        add(
            "containerLogMaxSize",
            format!("the kubelet must be {patch} or later; earlier ones exit with a negative size"),
        );
    }
}

fn listening(config: &Config<'_>, add: &mut impl FnMut(&str, String)) {
    if !server::is_on(config) {
        return;
    }
    let address = config.text("address");
    if !matches!(address, "0.0.0.0" | "::") && server::is_address(address) {
        add("address", format!("the host must have the address {address}"));
    }
    if let Some(port) = config.int("readOnlyPort").filter(|port| *port != 0) {
        add("readOnlyPort", format!("no other process may listen on the port {port}"));
    }
}

#[cfg(test)]
mod tests {
    use crate::Minor;
    use crate::document::Document;
    use crate::verdict::{Config, gates};

    /// Formats the conditions as `field: message`, one per line.
    fn host_conditions(text: &str, minor: u32) -> Vec<String> {
        let document = Document::parse("kubelet.yaml", text).document.unwrap();
        let config = Config::new(&document, Minor(minor), gates::apply(&document, Minor(minor)).unwrap());
        super::host_conditions(&config).into_iter().map(|one| format!("{}: {}", one.field, one.message)).collect()
    }

    #[test]
    fn sets_no_condition_without_reason() {
        for minor in Minor::all() {
            assert_eq!(
                host_conditions("maxPods: 50\nevictionHard: {memory.available: 10%}\n", minor.0),
                [] as [&str; 0]
            );
        }
    }

    #[test]
    fn lists_conditions_of_the_configuration() {
        let text = "
authentication: {x509: {clientCAFile: /etc/ca.crt}}
tlsCertFile: /etc/tls.crt
tlsPrivateKeyFile: /etc/tls.key
cgroupRoot: /kube
cgroupDriver: systemd
containerRuntimeEndpoint: unix:///run/c.sock
containerLogMaxFiles: 2
cpuManagerPolicy: static
reservedSystemCPUs: 0-1,1-3
enforceNodeAllocatable: [pods, kube-reserved-compressible]
kubeReservedCgroup: /reserved
failSwapOn: true
memorySwap: {swapBehavior: LimitedSwap}
protectKernelDefaults: true
topologyManagerPolicy: restricted
topologyManagerPolicyOptions: {max-allowable-numa-nodes: '16'}
podLogsDir: /logs
";
        insta::assert_snapshot!(host_conditions(text, 36).join("\n"), @r"
        authentication.x509.clientCAFile: /etc/ca.crt must contain PEM certificates that the kubelet can read
        tlsCertFile: /etc/tls.crt and /etc/tls.key must be a certificate and its key that the kubelet can read
        podLogsDir: /logs must exist, or the kubelet must be able to create it
        cgroupRoot: the cgroup /kube must exist
        kubeReservedCgroup: the cgroup /reserved must exist, because kube-reserved is enforced
        memorySwap.swapBehavior: LimitedSwap requires cgroup v2
        reservedSystemCPUs: the node must have the CPUs 0-1,1-3
        cpuManagerPolicy: remove a cpu_manager_state of another policy from the node first
        topologyManagerPolicy: restricted requires a node with at most 16 NUMA nodes
        failSwapOn: swap must be off
        protectKernelDefaults: kernel parameters must equal the kubelet's defaults, such as vm.overcommit_memory = 1
        cgroupDriver: systemd must run on the host
        containerRuntimeEndpoint: a container runtime must listen at unix:///run/c.sock
        ");
        let text = "cgroupDriver: systemd\ncontainerLogMaxSize: -1Ki\naddress: 10.0.0.1\nreadOnlyPort: 10255";
        insta::assert_snapshot!(host_conditions(text, 21).join("\n"), @r"
        cgroupDriver: systemd must run on the host, and the container runtime must use the driver systemd too
        containerLogMaxSize: the kubelet must be 1.21.3 or later; earlier ones exit with a negative size
        address: the host must have the address 10.0.0.1
        readOnlyPort: no other process may listen on the port 10255
        ");
    }

    #[test]
    fn memory_sum_may_depend_on_the_node() {
        let kept = "memoryManagerPolicy: Static\nkubeReserved: {memory: 924Mi}\n";
        let sums = |rest: &str| {
            let all = host_conditions(&format!("{kept}{rest}"), 36);
            all.into_iter().filter(|line| line.contains("reservedMemory reserves")).collect::<Vec<_>>()
        };
        assert_eq!(sums("reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]"), [] as [&str; 0]);
        let share = sums("evictionHard: {memory.available: 5%}\nreservedMemory: [{limits: {memory: 1Gi}}]");
        assert!(share[0].contains("depends on the node"), "{share:?}");
    }
}
