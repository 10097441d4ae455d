//! Conditions on the host for the kubelet to start: files, cgroups, capacity, CPUs, NUMA nodes and swap. Only
//! conditions that the configuration causes are listed, not those of every kubelet.

use super::memory_manager::Sums;
use super::server::ENDPOINTS;
use super::{cpu_manager, log_rotation, memory_manager, policy_options, reservations, server};
use crate::Minor;
use crate::values::quantity::Quantity;
use crate::values::strconv;
use crate::verdict::StateFile;
use crate::verdict::config::whole;
use crate::verdict::{Config, HostCondition, HostNeed};

/// The first minor whose kubelet exits without systemd on the host if `cgroupDriver` is systemd: it has runc 1.1
/// (`libcontainer/cgroups/manager`). 1.21 was seen to run.
const CHECKS_SYSTEMD: Minor = Minor(24);

/// Default of `port`.
const PORT: u16 = 10250;

/// Returns the conditions on the host.
pub(in crate::verdict) fn host_conditions(config: &Config<'_>) -> Vec<HostCondition> {
    let mut all = conditions(config, &[validation]);
    all.extend(conditions(config, &AT_START));
    all
}

/// Adds conditions: field, need and message.
type Group = fn(&Config<'_>, &mut dyn FnMut(&str, Option<HostNeed>, String));

/// The conditions of components when they start.
const AT_START: [Group; 7] = [files, cgroups, capacity, managers, kernel, runtime, listening];

fn conditions(config: &Config<'_>, groups: &[Group]) -> Vec<HostCondition> {
    let mut conditions = Vec::new();
    for group in groups {
        group(config, &mut |field, need, message| {
            conditions.push(HostCondition { field: field.to_owned(), message, need, place: config.place(field) });
        });
    }
    conditions
}

/// Adds the conditions in `ValidateKubeletConfiguration` (`validation_linux.go`, `validation_windows.go`,
/// `validation_others.go`): the operating system and the cgroup version.
fn validation(config: &Config<'_>, add: &mut dyn FnMut(&str, Option<HostNeed>, String)) {
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
}

fn files(config: &Config<'_>, add: &mut dyn FnMut(&str, Option<HostNeed>, String)) {
    let authorities = config.text("authentication.x509.clientCAFile");
    if !authorities.is_empty() {
        let message = format!("{authorities} must contain PEM certificates that the kubelet can read");
        add("authentication.x509.clientCAFile", Some(HostNeed::Certificates(authorities.to_owned())), message);
    }
    let (certificate, key) = (config.text("tlsCertFile"), config.text("tlsPrivateKeyFile"));
    if !config.is("serverTLSBootstrap") && !certificate.is_empty() && !key.is_empty() {
        let message = format!("{certificate} and {key} must be a certificate and its key that the kubelet can read");
        let need = HostNeed::KeyPair { certificate: certificate.to_owned(), key: key.to_owned() };
        add("tlsCertFile", Some(need).filter(|_| server::is_on(config)), message);
    }
    if config.given("podLogsDir").is_some() {
        let folder = config.text("podLogsDir");
        let message = format!("{folder} must exist, or the kubelet must be able to create it");
        add("podLogsDir", Some(HostNeed::Folder(folder.to_owned())), message);
    }
}

fn cgroups(config: &Config<'_>, add: &mut dyn FnMut(&str, Option<HostNeed>, String)) {
    if config.is("cgroupsPerQOS") && !matches!(config.text("cgroupRoot"), "" | "/") {
        let path = config.text("cgroupRoot");
        let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
        let need = cgroup_need(config, names.join("/"), systemd_path(&names));
        add("cgroupRoot", Some(need), format!("the cgroup {path} must exist"));
    }
    for (list, path) in [("system-reserved", "systemReservedCgroup"), ("kube-reserved", "kubeReservedCgroup")] {
        let enforced = config.list("enforceNodeAllocatable").unwrap_or_default();
        let enforced =
            enforced.iter().filter_map(|item| item.text()).any(|item| item.trim_end_matches("-compressible") == list);
        if enforced && !config.text(path).is_empty() {
            let cgroup = config.text(path);
            let need = cgroup_need(config, cgroup.trim_matches('/').to_owned(), systemd_path_of_slice(cgroup));
            add(path, Some(need), format!("the cgroup {cgroup} must exist, because {list} is enforced"));
        }
    }
    if config.gate("NodeSwap") && config.text("memorySwap.swapBehavior") == "LimitedSwap" && config.minor() >= Minor(30)
    {
        add("memorySwap.swapBehavior", Some(HostNeed::CgroupV2), "LimitedSwap requires cgroup v2".to_owned());
    }
}

/// The need of a cgroup, by its path with either driver. Where the kubelet asks the runtime for the driver, either may be it.
fn cgroup_need(config: &Config<'_>, cgroupfs: String, systemd: String) -> HostNeed {
    HostNeed::Cgroup(match (config.gate("KubeletCgroupDriverFromCRI"), config.text("cgroupDriver")) {
        (true, _) => vec![cgroupfs, systemd],
        (false, "systemd") => vec![systemd],
        (false, _) => vec![cgroupfs],
    })
}

/// Path of a cgroup with the driver systemd: `a.slice/a-b.slice` (`pkg/kubelet/cm` `CgroupName.ToSystemd`).
fn systemd_path(names: &[&str]) -> String {
    let mut slices: Vec<String> = Vec::new();
    let mut slice = String::new();
    for name in names {
        if !slice.is_empty() {
            slice.push('-');
        }
        slice.push_str(&name.replace('-', "_"));
        slices.push(format!("{slice}.slice"));
    }
    slices.join("/")
}

/// Path of a slice that is named by its last part: `/system-a.slice` is `system.slice/system-a.slice`
/// (`ParseSystemdToCgroupName`).
fn systemd_path_of_slice(path: &str) -> String {
    let last = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let names: Vec<&str> = last.strip_suffix(".slice").unwrap_or(last).split('-').collect();
    systemd_path(&names)
}

fn capacity(config: &Config<'_>, add: &mut dyn FnMut(&str, Option<HostNeed>, String)) {
    let reserves = |path: &str, wanted: &str| config.texts(path).any(|(resource, ..)| resource == wanted);
    let list_with = |resource| reservations::LISTS.into_iter().find(|path| reserves(path, resource));
    let threshold = config.texts("evictionHard").find(|(signal, ..)| *signal == "memory.available");
    let is_fixed = threshold.is_some_and(|(_, text, _)| !text.ends_with('%'));
    if let Some(path) = list_with("memory").or(is_fixed.then_some("evictionHard")) {
        let message = "the node must have more memory than kubeReserved, systemReserved and the hard eviction threshold \
                       together";
        add(path, memory_manager::kept_memory(config).map(HostNeed::Memory), message.to_owned());
    }
    let has_reserved_cpus = reservations::count_cpus(config).is_some_and(|cpus| cpus > 0);
    if let Some(path) = list_with("cpu").filter(|_| !has_reserved_cpus) {
        let millis = reservations::reserved(config, "cpu").map(Quantity::rounded_up_thousandths);
        let need = millis.and_then(|millis| u64::try_from(millis).ok()).map(HostNeed::CpuMillis);
        add(path, need, "the node must have more CPUs than kubeReserved and systemReserved together".to_owned());
    }
    for resource in ["ephemeral-storage", "pid"] {
        if let Some(path) = list_with(resource) {
            let message = format!("the node must have more {resource} than kubeReserved and systemReserved together");
            add(path, None, message);
        }
    }
    if has_reserved_cpus {
        let list = config.text("reservedSystemCPUs");
        let need = reservations::cpu_ranges(config).map(HostNeed::Cpus);
        add("reservedSystemCPUs", need, format!("the node must have the CPUs {list}"));
    }
}

fn managers(config: &Config<'_>, add: &mut dyn FnMut(&str, Option<HostNeed>, String)) {
    if cpu_manager::is_on(config) && config.given("cpuManagerPolicy").is_some() {
        let message = "remove a cpu_manager_state of another policy from the node first";
        add("cpuManagerPolicy", state_file(config, StateFile::CpuManagerState), message.to_owned());
        if cpu_manager::is_static(config)
            && policy_options::switched_on(config, "cpuManagerPolicyOptions", "align-by-socket").is_some()
        {
            let message = "align-by-socket requires a node with at least as many NUMA nodes as sockets";
            add("cpuManagerPolicyOptions", None, message.to_owned());
        }
    }
    if memory_manager::is_static(config) {
        memory(config, add);
    }
    let topology = config.text("topologyManagerPolicy");
    let tried = config.minor() > Minor(26) || config.gate("TopologyManager");
    if tried && !matches!(topology, "none" | "") {
        let most = config.texts("topologyManagerPolicyOptions").find(|(name, ..)| *name == "max-allowable-numa-nodes");
        let most = most.and_then(|(_, text, _)| strconv::integer(text)).unwrap_or(policy_options::NUMA_NODES);
        let need = u64::try_from(most).ok().map(HostNeed::NumaNodesAtMost);
        add("topologyManagerPolicy", need, format!("{topology} requires a node with at most {most} NUMA nodes"));
    }
}

fn memory(config: &Config<'_>, add: &mut dyn FnMut(&str, Option<HostNeed>, String)) {
    let message = "remove a memory_manager_state of another policy from the node first";
    add("memoryManagerPolicy", state_file(config, StateFile::MemoryManagerState), message.to_owned());
    let path = if config.given("reservedMemory").is_some() { "reservedMemory" } else { "memoryManagerPolicy" };
    for Sums { kind, reserved_memory, .. } in
        memory_manager::sums(config).into_iter().filter(|sums| sums.kept.is_none())
    {
        let message = format!(
            "reservedMemory reserves {reserved_memory} bytes of {kind}; this must equal the sum of kubeReserved, \
             systemReserved and the hard eviction threshold, which depends on the node's memory"
        );
        let sum = u64::try_from(reserved_memory.rounded_up()).ok();
        let need =
            sum.zip(memory_manager::kept_memory(config)).map(|(sum, kept)| HostNeed::ReservedMemory { sum, kept });
        add(path, need, message);
    }
    if path == "reservedMemory" {
        let entries = config.list("reservedMemory").unwrap_or_default().iter();
        let numbers = entries.filter_map(|entry| u64::try_from(entry.get("numaNode").map_or(Some(0), whole)?).ok());
        let need = HostNeed::NumaNodes(numbers.collect());
        add(path, Some(need), "the node must have every NUMA node in the list".to_owned());
    }
}

fn state_file(config: &Config<'_>, file: StateFile) -> Option<HostNeed> {
    Some(HostNeed::StateFile { file, policy: config.text(file.policy().0).to_owned() })
}

fn kernel(config: &Config<'_>, add: &mut dyn FnMut(&str, Option<HostNeed>, String)) {
    if config.given("failSwapOn").is_some() && config.is("failSwapOn") {
        add("failSwapOn", Some(HostNeed::SwapOff), "swap must be off".to_owned());
    }
    if config.is("protectKernelDefaults") {
        let message = "kernel parameters must equal the kubelet's defaults, such as vm.overcommit_memory = 1";
        add("protectKernelDefaults", None, message.to_owned());
    }
}

fn runtime(config: &Config<'_>, add: &mut dyn FnMut(&str, Option<HostNeed>, String)) {
    if config.given("cgroupDriver").is_some() {
        let is_systemd = config.text("cgroupDriver") == "systemd";
        let driver = if is_systemd { "systemd" } else { "cgroupfs" };
        // Otherwise the kubelet asks the runtime for its driver.
        let runtime = format!("the container runtime must use the driver {driver} too");
        let systemd = (config.minor() >= CHECKS_SYSTEMD).then_some(HostNeed::Systemd);
        match (is_systemd, config.gate("KubeletCgroupDriverFromCRI")) {
            (true, true) => add("cgroupDriver", systemd, "systemd must run on the host".to_owned()),
            (true, false) => add("cgroupDriver", systemd, format!("systemd must run on the host, and {runtime}")),
            (false, true) => {}
            (false, false) => add("cgroupDriver", None, runtime),
        }
    }
    for path in ENDPOINTS.into_iter().filter(|path| config.given(path).is_some()) {
        let endpoint = config.text(path);
        let socket = endpoint.strip_prefix("unix://").unwrap_or(endpoint);
        let need = socket.starts_with('/').then(|| HostNeed::Socket(socket.to_owned()));
        add(path, need, format!("a container runtime must listen at {endpoint}"));
    }
    if let Some(patch) = log_rotation::first_patch_with_negative(config.minor())
        && log_rotation::is_negative(config)
    {
        add(
            "containerLogMaxSize",
            None,
            format!("the kubelet must be {patch} or later; earlier ones exit with a negative size"),
        );
    }
}

fn listening(config: &Config<'_>, add: &mut dyn FnMut(&str, Option<HostNeed>, String)) {
    if !server::is_on(config) {
        return;
    }
    let address = config.text("address");
    if !matches!(address, "0.0.0.0" | "::") && server::is_address(address) {
        let need = HostNeed::Address(address.to_owned());
        add("address", Some(need), format!("the host must have the address {address}"));
    }
    // On the default port, the node's present kubelet listens.
    for field in ["port", "readOnlyPort"].into_iter().filter(|field| config.given(field).is_some()) {
        let port = config.int(field).and_then(|port| u16::try_from(port).ok());
        if let Some(port) = port.filter(|port| ![0, PORT].contains(port)) {
            let need = HostNeed::Port { address: address.to_owned(), port };
            add(field, Some(need), format!("no other process may listen on the port {port}"));
        }
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
        super::conditions(&config, &super::AT_START)
            .into_iter()
            .map(|one| format!("{}: {}", one.field, one.message))
            .collect()
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
